"""Rows of a pool: its recalibrated posteriors as density ratios, smoothed where that pays.

A linear pool of calibrated members is not sure enough, so the pool is recalibrated by BCTS, once.
Two numbers are then chosen by the error on held-out bags. The *power* of the calibrated posteriors
(:class:`kdey.calibration.SharpenedBCTS`) trades variance against bias, and the *share* of
pseudo-instances (:class:`kdey.problems.MixtureLikelihood`) decides where classes that can hardly be
told apart end up: without it, maximum likelihood goes to an arbitrary corner.

:class:`SmoothedRatioRows` takes the posteriors of a pool. :class:`PooledRows` takes the posteriors
of its classifiers side by side, for people who bring scores, and makes the pool as well.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from kdey._support.warnings import muted
from kdey.calibration import BCTS, SeparableWarning, SharpenedBCTS, centred_logs
from kdey.posteriors import TrainingPosteriors
from kdey.problems import MixtureLikelihood
from kdey.rows.interface import (
    Array,
    ArrayRows,
    Indices,
    RowMap,
    RowSpec,
    TuningEffort,
    TuningRecord,
    no_templates,
)
from kdey.rows.posterior import RatioMap, RatioRows
from kdey.solvers import solve_mixture
from kdey.stacking.members import FittedMember, MemberMethod, fit_member
from kdey.stacking.pool import pool_posteriors
from kdey.stacking.record import StackRecord, complete_hold_outs, record_pool
from kdey.stacking.selection import held_out, limit_kernels, select_members
from kdey.tuning.hold_outs import HoldOut
from kdey.tuning.result import Trial, Tuning, TuningWarning, make_trial
from kdey.tuning.search import TuningPlan

#: Powers and shares that are tried. For relative errors the best share is nearly always zero.
POWERS = (1.0, 1.05, 1.1)
SHARES = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016)


@dataclass(frozen=True)
class SmoothedRatioRows(RowSpec):
    """Spec of recalibrated density ratios, whose power and share are chosen on held-out bags.

    Attributes
    ----------
    plan : TuningPlan
        The error to minimise, and the expected size of bags.
    """

    plan: TuningPlan = field(default_factory=TuningPlan)

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> RatioMap:
        """Choose power and share, and return the fitted row map."""
        return self.settle(training, n_classes, n_threads)[1].fit(training, n_classes, n_threads)

    def settle(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[Tuning, RatioRows]:
        """Return the record of the choice, and the row spec that was chosen."""
        plan, seed = self.plan, self.plan.seed()
        hold_outs = complete_hold_outs(training, n_classes, plan, TuningEffort())
        if not hold_outs:
            return self._fall_back(seed)
        with muted(ConvergenceWarning):
            errors = np.concatenate([self._errors(h, n_threads) for h in hold_outs], axis=2)
        power, share = divmod(int(np.argmin(errors.mean(axis=2))), len(SHARES))
        trials = tuple(
            _make_trial(POWERS[i], SHARES[j], errors[i, j], (i, j) == (power, share))
            for i in range(len(POWERS))
            for j in range(len(SHARES))
        )
        n_bags = sum(len(hold_out.bags) for hold_out in hold_outs)
        uniform = [
            self._error(h, np.full(h.prevalences.shape, 1.0 / h.n_classes)) for h in hold_outs
        ]
        baseline = float(np.concatenate(uniform).mean())
        tuning = Tuning(
            *("pseudo_share", trials, plan.metric.name, plan.bag_size, n_bags, seed, baseline)
        )
        return tuning, ratio_rows(POWERS[power], SHARES[share])

    def _errors(self, hold_out: HoldOut, n_threads: int) -> Array:
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
                solution = solve_mixture(problem, tol=1e-6, n_threads=n_threads)
                out[i, j] = self._error(hold_out, solution.prevalence)
        return out

    def _error(self, hold_out: HoldOut, estimates: Array) -> Array:
        metric = self.plan.metric
        return np.asarray(
            -metric.sign * metric(hold_out.prevalences, estimates, bag_size=self.plan.bag_size)
        )

    def _fall_back(self, seed: int) -> tuple[Tuning, RatioRows]:
        reason = "no fold can be held out without losing a class"
        warnings.warn(
            f"nothing can be learnt from the training posteriors ({reason}); the pool is "
            "recalibrated, but not smoothed",
            TuningWarning,
            stacklevel=2,
        )
        trial = _make_trial(1.0, 0.0, np.full(1, np.nan), True)
        plan = self.plan
        record = ("pseudo_share", (trial,), plan.metric.name, plan.bag_size, 0, seed, math.nan)
        return Tuning(*record, reason), ratio_rows(1.0, 0.0)


def ratio_rows(power: float, share: float) -> RatioRows:
    """Return the spec of recalibrated density ratios with a given power and share."""
    return RatioRows(SharpenedBCTS(power), share)


def _make_trial(power: float, share: float, errors: Array, chosen: bool) -> Trial:
    return make_trial(f"power {power:g}", {"power": power}, share, errors, float(chosen))


@dataclass(frozen=True)
class PooledRows(RowSpec):
    """Spec of :class:`PooledMap`: the pool of several sets of scores, side by side.

    Attributes
    ----------
    names : tuple of str
        Names of the sets of scores. Points have k columns for each of them, in this order.
    methods : tuple of MemberMethod
    smoothing : SmoothedRatioRows or RatioRows
        Rows of the pool's posteriors.
    chosen : tuple of (str, MemberMethod) or None
        The members, as the name of a set of scores and a method, once they are chosen.
    """

    names: tuple[str, ...]
    methods: tuple[MemberMethod, ...]
    smoothing: RowSpec
    chosen: tuple[tuple[str, MemberMethod], ...] | None = None

    def settle(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[TuningRecord | None, RowSpec]:
        """Return the record of the smoothing, and the spec with members and smoothing chosen."""
        scores = split_scores(training.required(), self.names)
        trainings = {name: replace(training, posteriors=p) for name, p in scores.items()}
        settled: dict[tuple[str, str], MemberMethod] = {}
        members: list[FittedMember] = []
        for name, own in trainings.items():
            for method in self.methods:
                rows = method.rows.settle(own, n_classes, n_threads)[1]
                settled[name, method.name] = replace(method, rows=rows)
                members.append(
                    fit_member(name, settled[name, method.name], own, n_classes, n_threads)
                )
        kept = select_members(held_out(members, trainings, n_threads))
        kept = limit_kernels(kept, trainings, n_threads)
        pooled = replace(training, posteriors=kept.posteriors)
        record, smoothing = self.smoothing.settle(pooled, n_classes, n_threads)
        chosen = tuple(
            (m.classifier, _as_kept(settled[m.classifier, m.method], m, members))
            for m in kept.members
        )
        return record, replace(self, smoothing=smoothing, chosen=chosen)

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> PooledMap:
        """Return the map, with members, weights and calibration fitted."""
        if self.chosen is None:
            spec = self.settle(training, n_classes, n_threads)[1]
            assert isinstance(spec, PooledRows), "settling keeps the type"
            return spec.fit(training, n_classes, n_threads)
        scores = split_scores(training.required(), self.names)
        trainings = {name: replace(training, posteriors=p) for name, p in scores.items()}
        members = [
            fit_member(name, method, trainings[name], n_classes, n_threads)
            for name, method in self.chosen
        ]
        pool = held_out(members, trainings, n_threads)
        pooled = replace(training, posteriors=pool.posteriors)
        ratio = self.smoothing.fit(pooled, n_classes, n_threads)
        return PooledMap(self.names, tuple(members), pool.weights, ratio)


@dataclass(frozen=True, eq=False)
class PooledMap(RowMap):
    """Rows of several sets of scores: the density ratios of their pool.

    Attributes
    ----------
    names : tuple of str
    pool : tuple of FittedMember
    weights : array of shape (n_members,)
    ratio : RowMap
        From pooled posteriors to rows.
    """

    names: tuple[str, ...]
    pool: tuple[FittedMember, ...]
    weights: Array
    ratio: RowMap

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
        scores = split_scores(training.required(), self.names)
        trainings = {name: replace(training, posteriors=p) for name, p in scores.items()}
        parts = [
            weight * member.training_posteriors(trainings[member.classifier], n_threads)
            for weight, member in zip(self.weights, self.pool, strict=True)
        ]
        return self.ratio(np.asarray(sum(parts))[picks], n_threads).each()

    def starting_prevalence(self) -> Array | None:
        """Return the training prevalence, from which EM starts."""
        return self.ratio.starting_prevalence()

    def record(
        self, training: TrainingPosteriors, plan: TuningPlan, n_threads: int = 1
    ) -> StackRecord:
        """Return the record of the pool, with losses and errors on the training scores."""
        scores = split_scores(training.required(), self.names)
        trainings = {name: replace(training, posteriors=p) for name, p in scores.items()}
        pool = held_out(self.pool, trainings, n_threads)
        return record_pool(pool, training, plan, n_threads)


def _as_kept(
    method: MemberMethod, kept: FittedMember, members: Sequence[FittedMember]
) -> MemberMethod:
    """Return the method with those members of its composite spec that the pool has kept."""
    first = next(m for m in members if (m.classifier, m.method) == (kept.classifier, kept.method))
    parts = kept.row_map.members
    positions = [
        i for i, part in enumerate(first.row_map.members) if any(part is other for other in parts)
    ]
    return replace(method, rows=method.rows.keep_members(positions))


def split_scores(
    points: NDArray[np.floating], names: Sequence[str]
) -> dict[str, NDArray[np.floating]]:
    """Return the posteriors of each set of scores, from all of them side by side."""
    parts = np.split(points, len(names), axis=1)
    return dict(zip(names, parts, strict=True))
