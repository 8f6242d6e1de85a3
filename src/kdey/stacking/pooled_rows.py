"""Rows of a pool: its recalibrated posteriors as density ratios, smoothed where that pays.

A linear pool of calibrated members is not sure enough, so the pool is recalibrated by BCTS, once.
Two numbers are then chosen by the error on held-out bags. The *power* of the calibrated posteriors
(:class:`kdey.calibration.SharpenedBCTS`) trades variance against bias, and the *share* of
pseudo-instances (:class:`kdey.matching.likelihood.MixtureLikelihood`) decides where classes that
can hardly be told apart end up: without it, maximum likelihood goes to an arbitrary corner.

:class:`SmoothedRatioRows` takes the posteriors of a pool. :class:`PooledMap` takes the posteriors
of its classifiers side by side, for people who bring scores, and makes the pool as well.
:class:`StackRecord` says, for people, what a pool consists of, and what was left out and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from kdey._display import muted
from kdey.bags import Array, Indices
from kdey.calibration import BCTS, SeparableWarning, SharpenedBCTS, centred_logs
from kdey.matching.likelihood import MaximiseLikelihood, MixtureLikelihood, solve_mixture
from kdey.metrics import get_metric
from kdey.posteriors import TrainingPosteriors
from kdey.rows import (
    ArrayRows,
    CompositeMap,
    RowMap,
    RowSpec,
    TuningEffort,
    TuningRecord,
    fitted,
    no_templates,
)
from kdey.rows.posterior import RatioMap
from kdey.stacking.pooled_classifier import (
    FittedMember,
    HeldOut,
    MemberMethod,
    best_pool,
    fit_member,
    held_out,
    pool_posteriors,
)
from kdey.tuning import ChoosingSpec
from kdey.tuning.trials import (
    HoldOut,
    Trial,
    TrialScorer,
    Tuning,
    TuningPlan,
    make_hold_outs,
    make_trial,
)

#: Powers and shares that are tried. For relative errors the best share is nearly always zero.
POWERS = (1.0, 1.05, 1.1)
SHARES = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016)


@dataclass(frozen=True)
class MemberRecord:
    """One member of a pool.

    There is no error of its own on held-out bags: an instance of such a bag finds its neighbours
    from the same bag among the kernels of a member, and members were tuned on these bags. It would
    look better than the pool where it is not.

    Attributes
    ----------
    classifier, method : str
    weight : float
    log_loss : float
        Mean held-out log-loss.
    """

    classifier: str
    method: str
    weight: float
    log_loss: float

    @property
    def name(self) -> str:
        """The member in words."""
        return f"{self.method} on {self.classifier}"


@dataclass(frozen=True)
class StackRecord:
    """What a pool consists of.

    Attributes
    ----------
    members : tuple of MemberRecord
    log_loss : float
        Mean held-out log-loss of the pool.
    left_out : dict from the names of classifiers and methods to why they do not take part
    seconds : dict from the names of classifiers to the time of their fits
    """

    members: tuple[MemberRecord, ...]
    log_loss: float
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] | None = None

    @property
    def by_weight(self) -> tuple[MemberRecord, ...]:
        """The members, heaviest first."""
        return tuple(sorted(self.members, key=lambda member: -member.weight))

    def description(self) -> str:
        """Return a sentence that names the classifiers and methods of the pool."""
        classifiers = _listed(dict.fromkeys(member.classifier for member in self.by_weight))
        methods = _listed(dict.fromkeys(member.method for member in self.by_weight))
        return (
            f"The estimates come from {_count(len(self.members), 'model')} (classifiers: "
            f"{classifiers}; methods: {methods}), each with a weight by how well it predicts "
            "labels that it has not seen."
        )

    def summary(self, tuning: Tuning) -> str:
        """Return a sentence or two about the pool.

        ``tuning`` is the choice of the smoothing, with the error of the pool on held-out bags.
        """
        heaviest = self.by_weight[0]
        text = (
            f"A pool of {_count(len(self.members), 'member')}; the heaviest is {heaviest.name} "
            f"({_percent(heaviest.weight)})."
        )
        return text if tuning.reason is not None else f"{text} {self._error_sentence(tuning)}"

    def explanation(self, tuning: Tuning, n_classes: int) -> str:
        """Return in words what the pool consists of, how good it is, and what was left out."""
        lines = [
            "The prevalences of a bag maximise the likelihood of one pool of posteriors for "
            f"{n_classes} classes. Its members, each a classifier with a method, have these "
            "weights:",
            *(
                f"- {_percent(member.weight)} {member.name}: log-loss {member.log_loss:.3g}"
                for member in self.by_weight
            ),
            f"The pool has a held-out log-loss of {self.log_loss:.3g}.",
        ]
        if tuning.reason is None:
            lines += [self._error_sentence(tuning), _smoothing_sentence(tuning)]
        else:
            lines.append(f"The pool was not smoothed: {tuning.reason}.")
        lines += [f"Left out: {name}, because {why}." for name, why in self.left_out.items()]
        if self.seconds:
            times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items())
            lines.append(f"Time of the fits: {times}.")
        return "\n".join(lines)

    def _error_sentence(self, tuning: Tuning) -> str:
        """Compare the pool with answering all classes alike."""
        return (
            f"On {tuning.n_bags} bags of {tuning.bag_size} held-out training instances its mean "
            f"{get_metric(tuning.metric).title} was {tuning.best.score:.3g}, against "
            f"{tuning.baseline:.3g} for answering all classes alike."
        )


def record_pool(pool: HeldOut) -> StackRecord:
    """Return the record of a pool."""
    rows = zip(pool.members, pool.weights, pool.log_losses(), strict=True)
    records = [
        MemberRecord(member.classifier, member.method, float(weight), float(loss))
        for member, weight, loss in rows
    ]
    return StackRecord(tuple(records), pool.log_loss())


def _smoothing_sentence(tuning: Tuning) -> str:
    power = dict(tuning.best.params).get("power", 1.0)
    share = tuning.best.value
    parts = ["Its posteriors are recalibrated"]
    if power != 1.0:
        parts.append(f"raised to the power {power:g}")
    if share > 0:
        parts.append(
            f"and every bag gets pseudo-instances of each class with {100 * share:.2g} % of its "
            "weight, which keeps classes that cannot be told apart from going to zero"
        )
    return ", ".join(parts) + "."


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@dataclass(frozen=True)
class SmoothedRatioRows(ChoosingSpec):
    """Spec of recalibrated density ratios, whose power and share are chosen on held-out bags.

    Attributes
    ----------
    plan : TuningPlan
        The error to minimise, and the expected size of bags.
    """

    plan: TuningPlan = field(default_factory=TuningPlan)

    def choose(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[Tuning, RatioMap]:
        """Return the record of the choice, and the row spec that was chosen."""
        plan, seed = self.plan, self.plan.seed()
        found = make_hold_outs(training, n_classes, plan, seed, TuningEffort())
        # Posteriors have one column per class, so those of fewer classes cannot be recalibrated.
        hold_outs = [hold_out for hold_out in found if hold_out.n_classes == n_classes]
        if not hold_outs:
            tuning = plan.record_unlearnt(
                "pseudo_share",
                _make_trial(1.0, 0.0, None, True),
                seed,
                "no fold can be held out without losing a class",
                "the pool is recalibrated, but not smoothed",
            )
            return tuning, RatioMap(SharpenedBCTS(1.0), 0.0)
        scorer = TrialScorer(hold_outs, MaximiseLikelihood(log_rows=False), plan, n_threads)
        with muted(ConvergenceWarning):
            errors = np.concatenate([self._errors(scorer, h) for h in hold_outs], axis=2)
        power, share = divmod(int(np.argmin(errors.mean(axis=2))), len(SHARES))
        trials = [
            _make_trial(POWERS[i], SHARES[j], errors[i, j], (i, j) == (power, share))
            for i in range(len(POWERS))
            for j in range(len(SHARES))
        ]
        tuning = plan.record("pseudo_share", trials, seed, scorer)
        return tuning, RatioMap(SharpenedBCTS(POWERS[power]), SHARES[share])

    def _errors(self, scorer: TrialScorer, hold_out: HoldOut) -> Array:
        """Return the errors on one hold-out, shape (n_powers, n_shares, n_bags)."""
        training = hold_out.training
        with muted(SeparableWarning, ConvergenceWarning):
            calibrator = BCTS().fit(training.required(), training.labels, training.weights)
        known, new = (
            centred_logs(np.asarray(p, dtype=np.float64)) * calibrator.scale_ + calibrator.bias_
            for p in (training.required(), hold_out.points)
        )
        out = np.empty((len(POWERS), len(SHARES), len(hold_out.bags)))
        for i, power in enumerate(POWERS):
            prior = np.average(softmax(power * known, axis=1), axis=0, weights=training.weights)
            rows = softmax(power * new, axis=1) / np.maximum(prior, np.finfo(np.float64).tiny)
            for j, share in enumerate(SHARES):
                problem = MixtureLikelihood(rows, hold_out.bags, pseudo_share=share)
                solution = solve_mixture(problem, tol=1e-6, n_threads=scorer.n_threads)
                out[i, j] = scorer.error(hold_out, solution.prevalence)
        return out


def _make_trial(power: float, share: float, errors: Array | None, chosen: bool) -> Trial:
    return make_trial(f"power {power:g}", {"power": power}, share, errors, chosen)


@dataclass(frozen=True)
class PooledMap(RowMap):
    """Rows of several sets of scores, side by side: the density ratios of their pool.

    Attributes
    ----------
    names : tuple of str
        Names of the sets of scores. Points have k columns for each of them, in this order.
    methods : tuple of MemberMethod
    smoothing : SmoothedRatioRows or RatioMap
        Rows of the pool's posteriors.
    chosen : tuple of (str, MemberMethod) or None
        The members, as the name of a set of scores and a method, once they are chosen.
    pool : tuple of FittedMember
    weights : array of shape (n_members,)
    ratio : RowMap
        From pooled posteriors to rows.
    """

    names: tuple[str, ...]
    methods: tuple[MemberMethod, ...]
    smoothing: RowSpec
    chosen: tuple[tuple[str, MemberMethod], ...] | None = None
    pool: tuple[FittedMember, ...] = fitted()
    weights: Array = fitted()
    ratio: RowMap = fitted()

    def choose(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[TuningRecord | None, RowSpec]:
        """Return the record of the smoothing, and the spec with members and smoothing chosen."""
        trainings = _split_training(training, self.names)
        tuned: dict[tuple[str, str], MemberMethod] = {}
        members: list[FittedMember] = []
        for name, own in trainings.items():
            for method in self.methods:
                rows = method.rows.choose(own, n_classes, n_threads)[1]
                tuned[name, method.name] = replace(method, rows=rows)
                members.append(
                    fit_member(name, tuned[name, method.name], own, n_classes, n_threads)
                )
        kept = best_pool(members, trainings, n_threads)
        pooled = replace(training, posteriors=kept.posteriors)
        record, smoothing = self.smoothing.choose(pooled, n_classes, n_threads)
        chosen = tuple(
            (m.classifier, _as_kept(tuned[m.classifier, m.method], m, members))
            for m in kept.members
        )
        return record, replace(self, smoothing=smoothing, chosen=chosen)

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> PooledMap:
        """Return the map, with members, weights and calibration fitted."""
        if self.chosen is None:
            spec = self.choose(training, n_classes, n_threads)[1]
            assert isinstance(spec, PooledMap), "a choice keeps the type"
            return spec.fit(training, n_classes, n_threads)
        trainings = _split_training(training, self.names)
        members = [
            fit_member(name, method, trainings[name], n_classes, n_threads)
            for name, method in self.chosen
        ]
        pool = held_out(members, trainings, n_threads)
        pooled = replace(training, posteriors=pool.posteriors)
        ratio = self.smoothing.fit(pooled, n_classes, n_threads)
        return replace(self, pool=tuple(members), weights=pool.weights, ratio=ratio)

    @property
    def templates(self) -> Array:
        """Empty, shape (k, 0): the method has no templates."""
        return no_templates(len(self.pool[0].prevalence))

    @property
    def pseudo_share(self) -> float:
        """Weight of one pseudo-instance per class, relative to that of the bag."""
        return self.ratio.pseudo_share

    def __call__(self, points: NDArray[np.floating], n_threads: int = 1) -> ArrayRows:
        """Return the rows of scores of shape (m, k n_sets)."""
        return ArrayRows(self.ratio(self.posteriors(points, n_threads), n_threads).each())

    def prepare(self, n_threads: int = 1) -> None:
        """Prepare the row map of each member, and that of the pool."""
        for row_map in (*(member.row_map for member in self.pool), self.ratio):
            row_map.prepare(n_threads)

    def posteriors(self, points: NDArray[np.floating], n_threads: int = 1) -> Array:
        """Return the pooled posteriors of scores of shape (m, k n_sets), shape (m, k)."""
        k, n_sets = len(self.pool[0].prevalence), len(self.names)
        if points.shape[1] != k * n_sets:
            raise ValueError(
                f"the scores of {n_sets} models with {k} columns each are needed "
                f"({', '.join(self.names)}), got {points.shape[1]} columns"
            )
        scores = split_scores(np.asarray(points), self.names)
        return pool_posteriors(self.pool, self.weights, scores, n_threads)

    def new_rows(
        self, training: TrainingPosteriors, picks: Indices, n_threads: int = 1
    ) -> NDArray[np.floating]:
        """Return rows of the training instances at ``picks`` as if they were new, shape (n', k)."""
        trainings = _split_training(training, self.names)
        parts = [
            weight * member.training_posteriors(trainings[member.classifier], n_threads)
            for weight, member in zip(self.weights, self.pool, strict=True)
        ]
        return self.ratio(np.asarray(sum(parts))[picks], n_threads).each()

    def record(self, training: TrainingPosteriors, n_threads: int = 1) -> StackRecord:
        """Return the record of the pool, with its losses on the training scores."""
        return record_pool(held_out(self.pool, _split_training(training, self.names), n_threads))


def _as_kept(
    method: MemberMethod, kept: FittedMember, members: Sequence[FittedMember]
) -> MemberMethod:
    """Return the method with those members of its composite spec that the pool has kept."""
    first = next(m for m in members if (m.classifier, m.method) == (kept.classifier, kept.method))
    parts = kept.row_map.members
    positions = [
        i for i, part in enumerate(first.row_map.members) if any(part is other for other in parts)
    ]
    if not isinstance(method.rows, CompositeMap):
        return method
    return replace(method, rows=method.rows.keep(positions))


def split_scores(
    points: NDArray[np.floating], names: Sequence[str]
) -> dict[str, NDArray[np.floating]]:
    """Return the posteriors of each set of scores, from all of them side by side."""
    parts = np.split(points, len(names), axis=1)
    return dict(zip(names, parts, strict=True))


def _split_training(
    training: TrainingPosteriors, names: Sequence[str]
) -> dict[str, TrainingPosteriors]:
    """Return the training posteriors of each set of scores, from all of them side by side."""
    scores = split_scores(training.required(), names)
    return {name: replace(training, posteriors=part) for name, part in scores.items()}
