"""Automatic choice of the strength of a penalty, at ``fit``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kdey.decisions import ClassifierOutput
from kdey.matching import AnyMatching
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import RowMap, RowSpec
from kdey.rows.penalised import PenalisedRows, PenaltySpec
from kdey.tuning.choice import AutomaticChoice
from kdey.tuning.result import Tuning
from kdey.tuning.search import TuningPlan

#: Strengths that are tried. The first is used if nothing can be learnt; zero is no penalty.
STRENGTHS = (1e-3, 0.0, 1e-5, 1e-4, 1e-2, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class AutomaticStrength(RowSpec):
    """Row spec that chooses the strength of a penalty on bags from held-out training posteriors.

    Parameters that the rows leave open, such as a bandwidth, are chosen first, without a penalty.

    Attributes
    ----------
    rows : RowSpec
    penalty : callable
        From a strength to its ``kdey.rows.penalised.PenaltySpec``.
    matching : Matching
        The penalised matching with which strengths are evaluated.
    plan : TuningPlan
    """

    rows: RowSpec
    penalty: Callable[[float], PenaltySpec]
    matching: AnyMatching
    plan: TuningPlan

    @property
    def needs(self) -> ClassifierOutput:
        """What the rows need of a classifier."""
        return self.rows.needs

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> RowMap:
        """Choose the strength, and return the fitted row map."""
        return self.settle(training, n_classes, n_threads)[1].fit(training, n_classes, n_threads)

    def on_device(self, device: str) -> RowSpec:
        """Return the spec whose rows, and then the strength, are chosen on a device."""
        plan = replace(self.plan, device=device)
        return replace(self, rows=self.rows.on_device(device), plan=plan)

    def settle(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[Tuning, RowSpec]:
        """Return the record of the choice of the strength, and the row spec with it."""
        _, rows = self.rows.settle(training, n_classes, n_threads)
        candidates = {
            strength: PenalisedRows(rows, self.penalty(strength)) for strength in STRENGTHS
        }
        choice = AutomaticChoice("strength", candidates, self.matching, self.plan)
        return choice.settle(training, n_classes, n_threads)
