"""Automatic choice of the number of bins of histograms, at ``fit``."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace

import numpy as np

from kdey.matching import AnyMatching
from kdey.posteriors import TrainingPosteriors
from kdey.rows.composite import StackedSpec
from kdey.rows.histogram import HistogramSpec
from kdey.rows.interface import RowMap, RowSpec, TuningEffort
from kdey.tuning.hold_outs import Array, make_hold_outs
from kdey.tuning.result import Tuning, TuningWarning, make_trial
from kdey.tuning.search import Lattice, Scorer, TuningPlan, best_place

#: Place p stands for 2^(p / 2) bins: 2, 3, 4, 6, 8, ... 91, 128. The coarse grid has every second
#: place, and one round of stride 1 refines it.
_LOW, _HIGH, _COARSE, _STRIDES = 2, 14, (4, 6, 8, 10, 12), (1,)
#: Number of bins if nothing can be learnt.
_FALLBACK = 8


@dataclass(frozen=True)
class AutomaticBins(RowSpec):
    """Row spec of histograms whose number of bins is chosen from the training rows.

    Attributes
    ----------
    rows : HistogramSpec
        Its number of bins is a placeholder.
    matching : Matching
        The matching with which candidates are evaluated.
    plan : TuningPlan
    stacked : bool
        Whether the matching needs stacked rows (HDy, HDx); the stack then has one part.
    effort : TuningEffort
    """

    rows: HistogramSpec
    matching: AnyMatching
    plan: TuningPlan
    stacked: bool = False
    effort: TuningEffort = field(default_factory=TuningEffort)

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> RowMap:
        """Choose the number of bins, and return the fitted row map."""
        return self.settle(training, n_classes, n_threads)[1].fit(training, n_classes, n_threads)

    def settle(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[Tuning, RowSpec]:
        """Return the record of the choice, and the row spec with the chosen number of bins."""
        plan, seed = self.plan, self.plan.seed()
        parts = make_hold_outs(training, n_classes, plan.bag_size, seed, self.effort)
        if not parts or float(np.ptp(training.required(), axis=0).max()) == 0.0:
            return self._fall_back(seed)
        scorer = Scorer(parts, self.matching, plan.metric, plan.bag_size, n_threads)

        def errors_at(places: list[int]) -> Array:
            return scorer.errors([self._spec(_bins(place)) for place in places])

        lattice = Lattice(errors_at, _LOW, _HIGH, step=2)
        errors = lattice.refine(lattice.scan(_COARSE), _STRIDES)
        chosen = best_place(errors)
        trials = tuple(
            make_trial("histograms", {}, _bins(p), errors[p], float(p == chosen))
            for p in sorted(errors)
        )
        n_bags = sum(len(part.bags) for part in parts)
        tuning = Tuning(
            *("n_bins", trials, plan.metric.name, plan.bag_size, n_bags, seed),
            baseline=scorer.baseline(),
        )
        return tuning, self._spec(_bins(chosen))

    def _spec(self, n_bins: int) -> RowSpec:
        spec = replace(self.rows, n_bins=n_bins)
        return StackedSpec((spec,)) if self.stacked else spec

    def _fall_back(self, seed: int) -> tuple[Tuning, RowSpec]:
        reason = "all training rows are equal, or no two classes are in more than one fold"
        warnings.warn(
            f"n_bins='auto': nothing can be learnt ({reason}); using n_bins={_FALLBACK}",
            TuningWarning,
            stacklevel=2,
        )
        trial = make_trial("histograms", {}, _FALLBACK, np.full(1, np.nan), 1.0)
        plan = self.plan
        tuning = Tuning(
            *("n_bins", (trial,), plan.metric.name, plan.bag_size, 0, seed),
            baseline=math.nan,
            reason=reason,
        )
        return tuning, self._spec(_FALLBACK)


def _bins(place: int) -> int:
    return round(math.pow(2.0, place / 2))
