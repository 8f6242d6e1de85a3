"""Automatic choice of parameters from the training posteriors: bandwidth, geometry, bins.

``trials`` draws tuning bags from parts of the training posteriors, evaluates settings on them, with
templates from the other parts, walks a lattice of values from coarse to fine, and has the record of
what was tried and chosen. Here are the row specs that choose. ``docs/lab/automatic.md`` describes
the criterion.

:class:`AutomaticKernel` chooses bandwidth and geometry of a kernel, :class:`AutomaticBins` the
number of bins of histograms, and :class:`AutomaticChoice` any parameter among a few candidates.
:func:`choose_strength` chooses the strength of a penalty, which belongs to the matching.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdey.classifiers import ClassifierOutput, strictest
from kdey.kernels import transform
from kdey.matching import AnyMatching
from kdey.posteriors import TrainingPosteriors
from kdey.rows import CompositeMap, RowMap, RowSpec, TuningEffort
from kdey.rows.histogram import HistogramMap
from kdey.rows.kernel import KernelMap, median_nearest
from kdey.rows.monte_carlo import MonteCarloMap, resolve_sampling
from kdey.tuning.trials import (
    NO_HOLD_OUTS,
    Array,
    Lattice,
    PlaceErrors,
    Trial,
    TrialScorer,
    Tuning,
    TuningPlan,
    TuningWarning,
    best_place,
    committee_weights,
    make_hold_outs,
    make_trial,
    smallest_error,
)

__all__ = [
    "AutomaticBins",
    "AutomaticChoice",
    "AutomaticKernel",
    "Tuning",
    "TuningPlan",
    "TuningWarning",
]

#: Place p stands for 2^(p / 2) bins: 2, 3, 4, 6, 8, ... 91, 128. The coarse grid has every second
#: place, and one round of stride 1 refines it.
_LOW, _HIGH, _COARSE, _BIN_STRIDES = 2, 14, (4, 6, 8, 10, 12), (1,)
#: Number of bins if nothing can be learnt.
_FALLBACK_BINS = 8
#: A kernel with its shrinkage.
Geometry: TypeAlias = tuple[str, float]
#: Places of the lattice per doubling of the bandwidth. The coarse grid has one place per doubling,
#: and two rounds refine it.
_PER_OCTAVE, _BANDWIDTH_STRIDES = 4, (2, 1)
#: Number of places of the coarse grid, an octave apart, from half the spread of the posteriors
#: downwards; and the largest number of octaves between the spread and any bandwidth.
_OCTAVES, _MOST_OCTAVES = 7, 20
#: Number of points of Monte Carlo rows with which candidates are compared.
_TUNING_POINTS = 500
#: A geometry is refined if its best coarse error is at most this factor above the best of all.
_WORTH_REFINING = 1.35
#: The bandwidth if nothing can be learnt: the middle of the grid of the paper.
_FALLBACK_BANDWIDTH = 0.1
#: Strengths that are tried. The first is used if nothing can be learnt; zero is no penalty.
STRENGTHS = (1e-3, 0.0, 1e-5, 1e-4, 1e-2, 0.1, 1.0, 10.0)
#: Largest number of bags with which strengths are compared.
_PENALISED_BAGS = 60


class ChoosingSpec(RowSpec):
    """Base of row specs that choose parameters from the training rows: ``choose`` does."""

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> RowMap:
        """Choose what is open, and return the fitted row map."""
        return self.choose(training, n_classes, n_threads)[1].fit(training, n_classes, n_threads)


def for_tuning(spec: RowSpec, seed: int) -> RowSpec:
    """Return a cheaper spec for tuning: few points, the same draw for all candidates.

    Only Monte Carlo rows have points; any other spec is returned as it is.
    """
    if not isinstance(spec, MonteCarloMap):
        return spec
    few = _TUNING_POINTS
    n_points = few if isinstance(spec.n_points, str) else min(spec.n_points, few)
    sampling = resolve_sampling(spec.sampling, spec.n_points)
    return replace(spec, n_points=n_points, sampling=sampling, random_state=seed % 2**32)


@dataclass(frozen=True)
class AutomaticChoice(ChoosingSpec):
    """Row spec that selects the best of several specs on bags from held-out training posteriors.

    For new methods: ``row_spec`` returns one of these if a parameter is to be chosen automatically.

    Attributes
    ----------
    parameter : str
        Name of the parameter, for the record.
    candidates : mapping from values of the parameter to row specs
        If nothing can be learnt, the first one is used, with a :class:`TuningWarning`.
    matching : Matching
        The matching with which candidates are evaluated.
    plan : TuningPlan
        The error to minimise, and the expected size of bags.
    """

    parameter: str
    candidates: Mapping[float, RowSpec]
    matching: AnyMatching
    plan: TuningPlan = field(default_factory=TuningPlan)

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ValueError(f"{self.parameter}: at least one candidate is needed")

    @property
    def needs(self) -> ClassifierOutput:
        """What the most demanding candidate needs of a classifier."""
        return strictest(spec.needs for spec in self.candidates.values())

    def on_device(self, device: str) -> RowSpec:
        """Return the spec that evaluates candidates on a device."""
        return replace(self, plan=replace(self.plan, device=device))

    def choose(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[Tuning, RowSpec]:
        """Return the record of the choice, and the row spec that was chosen."""
        plan, seed = self.plan, self.plan.seed()
        values, specs = list(self.candidates), list(self.candidates.values())
        effort = specs[0].tuning_effort
        hold_outs = make_hold_outs(training, n_classes, plan, seed, effort)
        if not hold_outs:
            fallback = make_trial(self.parameter, {}, values[0], None)
            return plan.record_unlearnt(self.parameter, fallback, seed), specs[0]
        scorer = TrialScorer(hold_outs, self.matching, plan, n_threads)
        errors = scorer.errors([for_tuning(spec, seed) for spec in specs])
        best = int(np.argmin(errors.mean(axis=1)))
        trials = _trials(self.parameter, values, errors, best)
        return plan.record(self.parameter, trials, seed, scorer), specs[best]


@dataclass(frozen=True)
class AutomaticBins(ChoosingSpec):
    """Row spec of histograms whose number of bins is chosen from the training rows.

    Attributes
    ----------
    rows : HistogramMap
        Its number of bins is a placeholder.
    matching : Matching
        The matching with which candidates are evaluated.
    plan : TuningPlan
    stacked : bool
        Whether the matching needs stacked rows (HDy, HDx); the stack then has one part.
    effort : TuningEffort
    """

    rows: HistogramMap
    matching: AnyMatching
    plan: TuningPlan
    stacked: bool = False
    effort: TuningEffort = field(default_factory=TuningEffort)

    def choose(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[Tuning, RowSpec]:
        """Return the record of the choice, and the row spec with the chosen number of bins."""
        plan, seed = self.plan, self.plan.seed()
        parts = make_hold_outs(training, n_classes, plan, seed, self.effort)
        if not parts or float(np.ptp(training.required(), axis=0).max()) == 0.0:
            reason = f"all training rows are equal, or {NO_HOLD_OUTS}"
            fallback = make_trial("histograms", {}, _FALLBACK_BINS, None)
            return plan.record_unlearnt("n_bins", fallback, seed, reason), self._spec(
                _FALLBACK_BINS
            )
        scorer = TrialScorer(parts, self.matching, plan, n_threads)

        def errors_at(places: list[int]) -> Array:
            return scorer.errors([self._spec(_bins(place)) for place in places])

        lattice = Lattice(errors_at, _LOW, _HIGH, step=2)
        errors = lattice.refine(lattice.scan(_COARSE), _BIN_STRIDES)
        chosen = best_place(errors)
        trials = [
            make_trial("histograms", {}, _bins(p), errors[p], p == chosen) for p in sorted(errors)
        ]
        return plan.record("n_bins", trials, seed, scorer), self._spec(_bins(chosen))

    def _spec(self, n_bins: int) -> RowSpec:
        spec = replace(self.rows, n_bins=n_bins)
        return CompositeMap((spec,)) if self.stacked else spec


def _bins(place: int) -> int:
    return round(math.pow(2.0, place / 2))


@dataclass(frozen=True)
class AutomaticKernel(ChoosingSpec):
    """Row spec whose bandwidth, and geometry if it is free, are chosen from the training rows.

    Attributes
    ----------
    rows : KernelMap
        The rows of the method; their bandwidth and geometry are placeholders.
    geometries : tuple of (kernel, shrinkage)
    matching : Matching
        The matching with which candidates are evaluated.
    plan : TuningPlan
    most_members : int
        The largest number of geometries whose estimates are averaged, each at its best bandwidth,
        with the weights of ``committee_weights``; one means that the best is used alone.
    """

    rows: KernelMap
    geometries: tuple[Geometry, ...]
    matching: AnyMatching
    plan: TuningPlan
    most_members: int

    def on_device(self, device: str) -> RowSpec:
        """Return the spec that evaluates candidates on a device."""
        return replace(self, plan=replace(self.plan, device=device))

    def choose(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[Tuning, RowSpec]:
        """Return the record of the choice, and the row spec with the chosen parameters."""
        seed = self.plan.seed()
        effort = self.rows.tuning_effort
        hold_outs = make_hold_outs(training, n_classes, self.plan, seed, effort)
        all_equal = float(np.ptp(training.required(), axis=0).max()) < 1e-9
        if all_equal or not hold_outs:
            trial = _trial(self.geometries[0], _FALLBACK_BANDWIDTH, None, 0.0)
            used = f"using the kernel {trial.setting} with bandwidth={_FALLBACK_BANDWIDTH}"
            reason = "they are all equal" if all_equal else NO_HOLD_OUTS
            tuning = self.plan.record_unlearnt("bandwidth", trial, seed, reason, used)
            return tuning, self._chosen_spec(tuning)
        scorer = TrialScorer(hold_outs, self.matching, self.plan, n_threads)
        trials = self._make_trials(self._search(training, scorer, seed))
        tuning = self.plan.record("bandwidth", trials, seed, scorer)
        return tuning, self._chosen_spec(tuning)

    def _search(
        self, training: TrainingPosteriors, scorer: TrialScorer, seed: int
    ) -> list[PlaceErrors]:
        """Return the errors of each geometry at the places that were evaluated."""
        lattices, results = [], []
        weights = training.weights
        used = slice(None) if weights is None else weights > 0
        distinct = np.unique(training.required()[used], axis=0)
        for geometry in self.geometries:
            low, high = _useful_places(training, distinct, geometry)
            errors_at = partial(self._errors_at, scorer, geometry, seed)
            lattices.append(Lattice(errors_at, low, high, _PER_OCTAVE))
            top = _PER_OCTAVE * (high // _PER_OCTAVE - 1)
            results.append(
                lattices[-1].scan([top - _PER_OCTAVE * i for i in range(_OCTAVES)][::-1])
            )
        limit = _WORTH_REFINING * min(smallest_error(errors) for errors in results)
        return [
            lattice.refine(errors, _BANDWIDTH_STRIDES)
            if smallest_error(errors) <= limit
            else errors
            for lattice, errors in zip(lattices, results, strict=True)
        ]

    def _errors_at(
        self, scorer: TrialScorer, geometry: Geometry, seed: int, places: list[int]
    ) -> Array:
        specs = [self._spec(geometry, _bandwidth(place)) for place in places]
        return scorer.errors([for_tuning(spec, seed) for spec in specs])

    def _make_trials(self, results: list[PlaceErrors]) -> list[Trial]:
        """Return all trials; those that contribute to the estimate have positive weights."""
        scores = [smallest_error(errors) for errors in results]
        weights = committee_weights(scores, self.most_members)
        trials = []
        for geometry, errors, weight in zip(self.geometries, results, weights, strict=True):
            chosen = best_place(errors)
            trials += [
                _trial(geometry, _bandwidth(p), errors[p], weight if p == chosen else 0.0)
                for p in sorted(errors)
            ]
        return trials

    def _chosen_spec(self, tuning: Tuning) -> RowSpec:
        specs = tuple(self._spec(_geometry(trial), trial.value) for trial in tuning.members)
        if self.most_members == 1:
            return specs[0]
        return CompositeMap(specs, tuple(trial.weight for trial in tuning.members))

    def _spec(self, geometry: Geometry, bandwidth: float) -> KernelMap:
        kernel, shrinkage = geometry
        spec = replace(self.rows.kernel, bandwidth=bandwidth, kernel=kernel, shrinkage=shrinkage)
        return replace(self.rows, kernel=spec)


def _trial(geometry: Geometry, bandwidth: float, errors: Array | None, weight: float) -> Trial:
    kernel, shrinkage = geometry
    setting = kernel if kernel == "gaussian" else f"{kernel}, shrinkage {shrinkage:g}"
    params = {"kernel": kernel, "shrinkage": shrinkage}
    return make_trial(setting, params, bandwidth, errors, weight)


def _geometry(trial: Trial) -> Geometry:
    params = dict(trial.params)
    return params["kernel"], params["shrinkage"]


def _bandwidth(place: int) -> float:
    return math.pow(2.0, place / _PER_OCTAVE)


def _useful_places(
    training: TrainingPosteriors, distinct: NDArray[np.floating], geometry: Geometry
) -> tuple[int, int]:
    """Return the smallest and the largest useful place of the bandwidth in this geometry.

    Above the spread of the posteriors all class densities are nearly equal; below a tenth of the
    typical distance between distinct neighbours they shrink to nearest neighbours. The lattice does
    not depend on the data, so that data that differ by rounding get the same bandwidths.
    """
    points = np.asarray(transform(training.required(), *geometry), dtype=np.float64)
    weights = training.weights
    squares = np.square(points - np.average(points, axis=0, weights=weights)).sum(axis=1)
    spread = math.sqrt(float(np.average(squares, weights=weights)))
    high = math.floor(_PER_OCTAVE * math.log2(spread) + 1e-6)
    nearest = 0.1 * median_nearest(transform(distinct, *geometry))
    floor = max(nearest, spread * 2.0**-_MOST_OCTAVES)
    return min(math.ceil(_PER_OCTAVE * math.log2(floor) - 1e-6), high - 2 * _PER_OCTAVE), high


def choose_strength(
    rows: RowSpec,
    penalised: Callable[[float], AnyMatching],
    plan: TuningPlan,
    training: TrainingPosteriors,
    n_classes: int,
    n_threads: int = 1,
) -> tuple[Tuning, AnyMatching]:
    """Choose the strength of a penalty on bags from held-out training posteriors.

    Parameters
    ----------
    rows : RowSpec
        With all its own parameters chosen.
    penalised : callable
        From a strength to the matching with that penalty.
    plan : TuningPlan
    training : TrainingPosteriors
    n_classes : int
    n_threads : int

    Returns
    -------
    tuning : Tuning
        The record of the choice.
    matching : Matching
        With the chosen strength.
    """
    seed, effort = plan.seed(), rows.tuning_effort
    # Penalised problems cost more than others.
    few = TuningEffort(min(effort.bags, _PENALISED_BAGS), effort.rows)
    hold_outs = make_hold_outs(training, n_classes, plan, seed, few)
    matchings = [penalised(strength) for strength in STRENGTHS]
    if not hold_outs:
        fallback = make_trial("strength", {}, STRENGTHS[0], None)
        return plan.record_unlearnt("strength", fallback, seed), matchings[0]
    scorers = [TrialScorer(hold_outs, matching, plan, n_threads) for matching in matchings]
    trial = for_tuning(rows, seed)
    errors = np.concatenate([scorer.errors([trial]) for scorer in scorers])
    best = int(np.argmin(errors.mean(axis=1)))
    trials = _trials("strength", STRENGTHS, errors, best)
    return plan.record("strength", trials, seed, scorers[0]), matchings[best]


def _trials(parameter: str, values: Sequence[float], errors: Array, best: int) -> list[Trial]:
    return [
        make_trial(parameter, {}, value, row, number == best)
        for number, (value, row) in enumerate(zip(values, errors, strict=True))
    ]
