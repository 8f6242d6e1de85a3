"""Bandwidth and geometry of a kernel, chosen at ``fit``."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kdey.kernels import DEFAULT_SHRINKAGE, transform
from kdey.matching import AnyMatching
from kdey.posteriors import TrainingPosteriors
from kdey.rows.composite import CommitteeSpec
from kdey.rows.interface import RowMap, RowSpec
from kdey.rows.references import KernelRowSpec, median_nearest
from kdey.tuning.hold_outs import Array, make_hold_outs
from kdey.tuning.result import Trial, Tuning, TuningWarning, committee_weights, one_trial
from kdey.tuning.search import Found, Lattice, Scorer, TuningPlan, best_place, smallest

#: Shrinkages tried with log-ratios.
SHRINKAGES = (1e-5, 1e-3, 1e-2, 5e-2)
#: Lattice places per doubling of the bandwidth; the coarse grid has one, then two rounds refine.
_PER_OCTAVE, _STRIDES = 4, (2, 1)
#: Places of the coarse grid, an octave apart, from half the spread of the posteriors downwards; and
#: how far below the spread a bandwidth may ever be.
_OCTAVES, _MOST_OCTAVES = 7, 20
#: A geometry is refined where its best coarse error is within this factor of the best of all.
_WORTH_REFINING = 1.35
#: The bandwidth where nothing can be learnt: the middle of the paper's grid.
_FALLBACK = 0.1


@dataclass(frozen=True)
class Geometry:
    """A kernel with its shrinkage."""

    kernel: str
    shrinkage: float

    def __str__(self) -> str:
        if self.kernel == "gaussian":
            return "gaussian"
        return f"{self.kernel}, shrinkage {self.shrinkage:g}"


def geometries(kernel: str, shrinkage: float | str) -> tuple[Geometry, ...]:
    """Return the geometries that the parameters leave open; "auto" leaves all."""
    amounts = SHRINKAGES if shrinkage == "auto" else (float(shrinkage),)
    plain = (Geometry("gaussian", DEFAULT_SHRINKAGE),)
    if kernel == "gaussian":
        return plain
    name = "aitchison" if kernel == "auto" else kernel
    ratios = tuple(Geometry(name, amount) for amount in amounts)
    return plain + ratios if kernel == "auto" else ratios


@dataclass(frozen=True)
class AutomaticKernel(RowSpec):
    """Row spec whose bandwidth, and where left open geometry, are chosen from the training rows.

    Attributes
    ----------
    rows : KernelRowSpec
        The rows to choose for; its bandwidth and geometry are placeholders.
    geometries : tuple of Geometry
    matching : Matching
        How bags are matched, and so judged.
    plan : TuningPlan
    committee : bool
        Average the geometries, each at its best bandwidth, by :func:`committee_weights`; else the
        best one alone.
    """

    rows: KernelRowSpec
    geometries: tuple[Geometry, ...]
    matching: AnyMatching
    plan: TuningPlan
    committee: bool

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> RowMap:
        """Choose, and return the fitted row map of the choice."""
        return self.settle(training, n_classes, n_threads)[1].fit(training, n_classes, n_threads)

    def settle(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[Tuning, RowSpec]:
        """Return what was tried and chosen, and the row spec of the choice."""
        seed = self.plan.seed()
        effort = self.rows.tuning_effort
        parts = make_hold_outs(training, n_classes, self.plan.bag_size, seed, effort)
        reason = _hopeless(training, len(parts))
        if reason is not None:
            return self._fall_back(reason, seed)
        scorer = Scorer(parts, self.matching, self.plan.metric, self.plan.bag_size, n_threads)
        found = self._search(training, scorer, seed)
        trials = self._judge(found)
        n_bags = sum(len(part.bags) for part in parts)
        tuning = self._tuning(trials, n_bags, seed, scorer.baseline())
        return tuning, self._settled(tuning)

    def _search(self, training: TrainingPosteriors, scorer: Scorer, seed: int) -> list[Found]:
        """Return what was found of each geometry, refined where it may matter."""
        lattices, found = [], []
        weights = training.weights
        used = slice(None) if weights is None else weights > 0
        distinct = np.unique(training.required()[used], axis=0)
        for geometry in self.geometries:
            low, high = _range(training, distinct, geometry)
            errors_at = partial(self._errors_at, scorer, geometry, seed)
            lattices.append(Lattice(errors_at, low, high, _PER_OCTAVE))
            top = _PER_OCTAVE * (high // _PER_OCTAVE - 1)
            found.append(lattices[-1].scan([top - _PER_OCTAVE * i for i in range(_OCTAVES)][::-1]))
        limit = _WORTH_REFINING * min(smallest(one) for one in found)
        return [
            lattice.refine(one, _STRIDES) if smallest(one) <= limit else one
            for lattice, one in zip(lattices, found, strict=True)
        ]

    def _errors_at(self, scorer: Scorer, geometry: Geometry, seed: int, places: list[int]) -> Array:
        return scorer.errors([self._trial_spec(geometry, place, seed) for place in places])

    def _judge(self, found: list[Found]) -> tuple[Trial, ...]:
        """Return all trials, with the weights of those that make the estimate."""
        weights = committee_weights([smallest(one) for one in found], self.committee)
        trials = []
        for geometry, places, weight in zip(self.geometries, found, weights, strict=True):
            chosen = best_place(places)
            params = {"kernel": geometry.kernel, "shrinkage": geometry.shrinkage}
            trials += [
                one_trial(
                    str(geometry), params, _bandwidth(p), places[p], weight if p == chosen else 0.0
                )
                for p in sorted(places)
            ]
        return tuple(trials)

    def _tuning(
        self,
        trials: tuple[Trial, ...],
        n_bags: int,
        seed: int,
        baseline: float,
        reason: str | None = None,
    ) -> Tuning:
        plan = self.plan
        return Tuning(
            "bandwidth", trials, plan.metric.name, plan.bag_size, n_bags, seed, baseline, reason
        )

    def _settled(self, tuning: Tuning) -> RowSpec:
        specs = tuple(
            self._spec(Geometry(**dict(trial.params)), trial.value) for trial in tuning.members
        )
        if not self.committee:
            return specs[0]
        return CommitteeSpec(specs, tuple(trial.weight for trial in tuning.members))

    def _spec(self, geometry: Geometry, bandwidth: float) -> KernelRowSpec:
        kernel = replace(
            self.rows.kernel,
            bandwidth=bandwidth,
            kernel=geometry.kernel,
            shrinkage=geometry.shrinkage,
        )
        return self.rows.with_kernel(kernel)

    def _trial_spec(self, geometry: Geometry, place: int, seed: int) -> RowSpec:
        return self._spec(geometry, _bandwidth(place)).for_tuning(seed)

    def _fall_back(self, reason: str, seed: int) -> tuple[Tuning, RowSpec]:
        geometry = self.geometries[0]
        warnings.warn(
            f"bandwidth='auto': nothing can be learnt from the training posteriors ({reason}); "
            f"using the kernel {geometry} with bandwidth={_FALLBACK}",
            TuningWarning,
            stacklevel=2,
        )
        params = {"kernel": geometry.kernel, "shrinkage": geometry.shrinkage}
        unknown = np.full(1, np.nan)
        trial = one_trial(str(geometry), params, _FALLBACK, unknown, 1.0)
        tuning = self._tuning((trial,), 0, seed, math.nan, reason)
        return tuning, self._settled(tuning)


def _bandwidth(place: int) -> float:
    return math.pow(2.0, place / _PER_OCTAVE)


def _hopeless(training: TrainingPosteriors, n_hold_outs: int) -> str | None:
    """Return why nothing can be chosen, if so."""
    points = training.required()
    if float(np.ptp(points, axis=0).max()) < 1e-9:
        return "they are all equal"
    if n_hold_outs == 0:
        return "no two classes have instances in more than one fold"
    return None


def _range(
    training: TrainingPosteriors, distinct: NDArray[np.floating], geometry: Geometry
) -> tuple[int, int]:
    """Return the smallest and largest place of bandwidths that say anything in this geometry.

    Above the spread of the posteriors all class densities look alike; below a tenth of the typical
    distance between distinct neighbours they shrink to nearest neighbours. The lattice is absolute,
    so that data that differ by rounding get the same bandwidths.
    """
    points = np.asarray(
        transform(training.required(), geometry.kernel, geometry.shrinkage), dtype=np.float64
    )
    weights = training.weights
    squares = np.square(points - np.average(points, axis=0, weights=weights)).sum(axis=1)
    spread = math.sqrt(float(np.average(squares, weights=weights)))
    high = math.floor(_PER_OCTAVE * math.log2(spread) + 1e-6)
    nearest = 0.1 * median_nearest(transform(distinct, geometry.kernel, geometry.shrinkage))
    floor = max(nearest, spread * 2.0**-_MOST_OCTAVES)
    return min(math.ceil(_PER_OCTAVE * math.log2(floor) - 1e-6), high - 2 * _PER_OCTAVE), high
