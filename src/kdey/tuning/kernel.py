"""Automatic choice of the bandwidth and the geometry of a kernel, at ``fit``."""

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
from kdey.tuning.result import Trial, Tuning, TuningWarning, committee_weights, make_trial
from kdey.tuning.search import Lattice, PlaceErrors, Scorer, TuningPlan, best_place, smallest_error

#: Shrinkages tried with log-ratios.
SHRINKAGES = (1e-5, 1e-3, 1e-2, 5e-2)
#: Places of the lattice per doubling of the bandwidth. The coarse grid has one place per doubling,
#: and two rounds refine it.
_PER_OCTAVE, _STRIDES = 4, (2, 1)
#: Number of places of the coarse grid, an octave apart, from half the spread of the posteriors
#: downwards; and the largest number of octaves between the spread and any bandwidth.
_OCTAVES, _MOST_OCTAVES = 7, 20
#: A geometry is refined if its best coarse error is at most this factor above the best of all.
_WORTH_REFINING = 1.35
#: The bandwidth if nothing can be learnt: the middle of the grid of the paper.
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
    """Return the candidate geometries for the parameters; "auto" means all of them."""
    amounts = SHRINKAGES if shrinkage == "auto" else (float(shrinkage),)
    plain = (Geometry("gaussian", DEFAULT_SHRINKAGE),)
    if kernel == "gaussian":
        return plain
    name = "aitchison" if kernel == "auto" else kernel
    ratios = tuple(Geometry(name, amount) for amount in amounts)
    return plain + ratios if kernel == "auto" else ratios


@dataclass(frozen=True)
class AutomaticKernel(RowSpec):
    """Row spec whose bandwidth, and geometry if it is free, are chosen from the training rows.

    Attributes
    ----------
    rows : KernelRowSpec
        The rows of the method; their bandwidth and geometry are placeholders.
    geometries : tuple of Geometry
    matching : Matching
        The matching with which candidates are evaluated.
    plan : TuningPlan
    most_members : int
        The largest number of geometries whose estimates are averaged, each at its best bandwidth,
        with the weights of ``committee_weights``; one means that the best is used alone.
    """

    rows: KernelRowSpec
    geometries: tuple[Geometry, ...]
    matching: AnyMatching
    plan: TuningPlan
    most_members: int

    @property
    def uses_kernels(self) -> bool:
        """True: this is a choice of kernels."""
        return True

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> RowMap:
        """Choose bandwidth and geometry, and return the fitted row map."""
        return self.settle(training, n_classes, n_threads)[1].fit(training, n_classes, n_threads)

    def on_device(self, device: str) -> RowSpec:
        """Return the spec that evaluates candidates on a device."""
        return replace(self, plan=replace(self.plan, device=device))

    def settle(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[Tuning, RowSpec]:
        """Return the record of the choice, and the row spec with the chosen parameters."""
        seed = self.plan.seed()
        effort = self.rows.tuning_effort
        hold_outs = make_hold_outs(training, n_classes, self.plan.bag_size, seed, effort)
        reason = _reason_to_fall_back(training, len(hold_outs))
        if reason is not None:
            return self._fall_back(reason, seed)
        scorer = Scorer(
            *(hold_outs, self.matching, self.plan.metric, self.plan.bag_size, n_threads),
            device=self.plan.device,
        )
        results = self._search(training, scorer, seed)
        trials = self._make_trials(results)
        n_bags = sum(len(hold_out.bags) for hold_out in hold_outs)
        tuning = self._tuning(trials, n_bags, seed, scorer.baseline())
        return tuning, self._chosen_spec(tuning)

    def _search(self, training: TrainingPosteriors, scorer: Scorer, seed: int) -> list[PlaceErrors]:
        """Return the errors of each geometry at the places that were evaluated."""
        lattices, results = [], []
        weights = training.weights
        used = slice(None) if weights is None else weights > 0
        distinct = np.unique(training.required()[used], axis=0)
        for geometry in self.geometries:
            low, high = _range(training, distinct, geometry)
            errors_at = partial(self._errors_at, scorer, geometry, seed)
            lattices.append(Lattice(errors_at, low, high, _PER_OCTAVE))
            top = _PER_OCTAVE * (high // _PER_OCTAVE - 1)
            results.append(
                lattices[-1].scan([top - _PER_OCTAVE * i for i in range(_OCTAVES)][::-1])
            )
        limit = _WORTH_REFINING * min(smallest_error(errors) for errors in results)
        return [
            lattice.refine(errors, _STRIDES) if smallest_error(errors) <= limit else errors
            for lattice, errors in zip(lattices, results, strict=True)
        ]

    def _errors_at(self, scorer: Scorer, geometry: Geometry, seed: int, places: list[int]) -> Array:
        return scorer.errors([self._trial_spec(geometry, place, seed) for place in places])

    def _make_trials(self, results: list[PlaceErrors]) -> tuple[Trial, ...]:
        """Return all trials; those that contribute to the estimate have positive weights."""
        scores = [smallest_error(errors) for errors in results]
        weights = committee_weights(scores, self.most_members)
        trials = []
        for geometry, errors, weight in zip(self.geometries, results, weights, strict=True):
            chosen = best_place(errors)
            params = {"kernel": geometry.kernel, "shrinkage": geometry.shrinkage}
            trials += [
                make_trial(
                    str(geometry), params, _bandwidth(p), errors[p], weight if p == chosen else 0.0
                )
                for p in sorted(errors)
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

    def _chosen_spec(self, tuning: Tuning) -> RowSpec:
        specs = tuple(
            self._spec(Geometry(**dict(trial.params)), trial.value) for trial in tuning.members
        )
        if self.most_members == 1:
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
        trial = make_trial(str(geometry), params, _FALLBACK, unknown, 1.0)
        tuning = self._tuning((trial,), 0, seed, math.nan, reason)
        return tuning, self._chosen_spec(tuning)


def _bandwidth(place: int) -> float:
    return math.pow(2.0, place / _PER_OCTAVE)


def _reason_to_fall_back(training: TrainingPosteriors, n_hold_outs: int) -> str | None:
    """Return why nothing can be chosen; None if a choice is possible."""
    points = training.required()
    if float(np.ptp(points, axis=0).max()) < 1e-9:
        return "they are all equal"
    if n_hold_outs == 0:
        return "no two classes have instances in more than one fold"
    return None


def _range(
    training: TrainingPosteriors, distinct: NDArray[np.floating], geometry: Geometry
) -> tuple[int, int]:
    """Return the smallest and the largest useful place of the bandwidth in this geometry.

    Above the spread of the posteriors all class densities are nearly equal; below a tenth of the
    typical distance between distinct neighbours they shrink to nearest neighbours. The lattice does
    not depend on the data, so that data that differ by rounding get the same bandwidths.
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
