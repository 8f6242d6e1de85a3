"""Automatic choice of any parameter of a row spec among a few candidates, at ``fit``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kdey.decisions import ClassifierOutput, strictest
from kdey.matching import AnyMatching
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import RowMap, RowSpec
from kdey.tuning.hold_outs import make_hold_outs
from kdey.tuning.result import Tuning, TuningWarning, make_trial
from kdey.tuning.search import Scorer, TuningPlan


@dataclass(frozen=True)
class AutomaticChoice(RowSpec):
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

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> RowMap:
        """Choose a candidate, and return its fitted row map."""
        return self.settle(training, n_classes, n_threads)[1].fit(training, n_classes, n_threads)

    def on_device(self, device: str) -> RowSpec:
        """Return the spec that evaluates candidates on a device."""
        return replace(self, plan=replace(self.plan, device=device))

    def settle(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[Tuning, RowSpec]:
        """Return the record of the choice, and the row spec that was chosen."""
        plan, seed = self.plan, self.plan.seed()
        values, specs = list(self.candidates), list(self.candidates.values())
        effort = specs[0].tuning_effort
        hold_outs = make_hold_outs(
            training, n_classes, plan.bag_size, seed, effort, smoothest=plan.smoothest
        )
        if not hold_outs:
            return self._fall_back(seed), specs[0]
        scorer = Scorer(
            hold_outs, self.matching, plan.metric, plan.bag_size, n_threads, device=plan.device
        )
        errors = scorer.errors([spec.for_tuning(seed) for spec in specs])
        best = int(np.argmin(errors.mean(axis=1)))
        trials = tuple(
            make_trial(self.parameter, {}, value, row, float(number == best))
            for number, (value, row) in enumerate(zip(values, errors, strict=True))
        )
        n_bags = sum(len(hold_out.bags) for hold_out in hold_outs)
        tuning = Tuning(
            *(self.parameter, trials, plan.metric.name, plan.bag_size, n_bags, seed),
            baseline=scorer.baseline(),
        )
        return tuning, specs[best]

    def _fall_back(self, seed: int) -> Tuning:
        reason = "no two classes have instances in more than one fold"
        value = next(iter(self.candidates))
        warnings.warn(
            f"{self.parameter}: nothing can be learnt from the training posteriors ({reason}); "
            f"using {value}",
            TuningWarning,
            stacklevel=2,
        )
        trial = make_trial(self.parameter, {}, value, np.full(1, np.nan), 1.0)
        plan = self.plan
        return Tuning(
            *(self.parameter, (trial,), plan.metric.name, plan.bag_size, 0, seed),
            baseline=math.nan,
            reason=reason,
        )
