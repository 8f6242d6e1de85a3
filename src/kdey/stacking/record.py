"""The record of a pool, for people: members, weights, what was left out, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kdey.matching import MaximiseLikelihood
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import Array, TuningEffort
from kdey.rows.posterior import RatioRows
from kdey.stacking.selection import HeldOut
from kdey.tuning.hold_outs import HoldOut, make_hold_outs
from kdey.tuning.search import Scorer, TuningPlan

#: Bags on which the error of each member is measured, for the record only.
_BAGS = 200


@dataclass(frozen=True)
class MemberRecord:
    """One member of a pool.

    Attributes
    ----------
    classifier, method : str
    weight : float
    log_loss : float
        Mean held-out log-loss.
    error : float or None
        Mean error on held-out bags if it answered alone.
    """

    classifier: str
    method: str
    weight: float
    log_loss: float
    error: float | None = None

    @property
    def name(self) -> str:
        """The member in words."""
        return f"{self.method} on {self.classifier}"


@dataclass(frozen=True)
class LeftOut:
    """A classifier or method that does not take part, with the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class StackRecord:
    """What a pool consists of.

    Attributes
    ----------
    members : tuple of MemberRecord
    log_loss : float
        Mean held-out log-loss of the pool.
    left_out : tuple of LeftOut
    seconds : dict from the names of classifiers to the time of their fits
    """

    members: tuple[MemberRecord, ...]
    log_loss: float
    left_out: tuple[LeftOut, ...] = ()
    seconds: dict[str, float] | None = None

    @property
    def by_weight(self) -> tuple[MemberRecord, ...]:
        """The members, heaviest first."""
        return tuple(sorted(self.members, key=lambda member: -member.weight))

    @property
    def best_member(self) -> MemberRecord:
        """The member with the smallest held-out log-loss.

        The errors on bags are no fair measure of kernel members, because an instance of a bag finds
        its neighbours from the same bag among the kernels.
        """
        return min(self.members, key=lambda member: member.log_loss)


def record_pool(
    pool: HeldOut, training: TrainingPosteriors, plan: TuningPlan, n_threads: int = 1
) -> StackRecord:
    """Return the record of a pool, with the error of each member on held-out bags.

    Parameters
    ----------
    pool : HeldOut
    training : TrainingPosteriors
        Labels, weights and folds of the training instances.
    plan : TuningPlan
        The error, and the size of bags.
    n_threads : int
    """
    losses = pool.log_losses()
    records = []
    for number, member in enumerate(pool.members):
        own = replace(training, posteriors=pool.distributions[number])
        error = _bag_error(own, plan, n_threads)
        weight, loss = float(pool.weights[number]), float(losses[number])
        records.append(MemberRecord(member.classifier, member.method, weight, loss, error))
    return StackRecord(tuple(records), pool.log_loss())


def complete_hold_outs(
    training: TrainingPosteriors, n_classes: int, plan: TuningPlan, effort: TuningEffort
) -> list[HoldOut]:
    """Return the hold-outs whose training rows have all classes.

    Posteriors have one column per class, so those of fewer classes cannot be recalibrated.

    Parameters
    ----------
    training : TrainingPosteriors
    n_classes : int
    plan : TuningPlan
    effort : TuningEffort
    """
    hold_outs = make_hold_outs(training, n_classes, plan.bag_size, plan.seed(), effort)
    return [hold_out for hold_out in hold_outs if hold_out.n_classes == n_classes]


def _bag_error(training: TrainingPosteriors, plan: TuningPlan, n_threads: int) -> float | None:
    """Return the mean error of maximum likelihood on bags of held-out posteriors."""
    k = training.required().shape[1]
    hold_outs = complete_hold_outs(training, k, plan, TuningEffort(bags=_BAGS))
    if not hold_outs:
        return None
    scorer = Scorer(
        hold_outs, MaximiseLikelihood(log_rows=False), plan.metric, plan.bag_size, n_threads
    )
    errors: Array = scorer.errors([RatioRows()])
    return float(np.mean(errors))
