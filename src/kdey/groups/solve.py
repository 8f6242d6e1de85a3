"""Groups too large to be held at once: by sums over pieces, as a cluster does it.

Answers from sums: groups of which no more than a part is ever held.

From the points of groups to answers: rows once per instance, a run of groups at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.fitted import FittedQuantifier
from kdey.groups.answers import GroupAnswers, GroupSettings
from kdey.groups.sums import LocalSource, SummedEstimates, estimate_sums
from kdey.intervals import Estimates, IntervalWarning

#: Instances beyond which a group is not held at once.
LARGE = 1 << 21
#: Instances of a piece.
PIECE = 1 << 18
#: Bytes of rows that are kept between passes; beyond it every pass makes them again.
KEPT = 1 << 29


def goes_by_sums(quantifier: FittedQuantifier, size: int, settings: GroupSettings) -> bool:
    """Whether a group of ``size`` instances is estimated piece by piece.

    The numbers are the same. Limits that only a bootstrap gives, and the fit check, need the whole
    group.
    """
    if size <= LARGE or settings.check_fit or settings.options.method == "bootstrap":
        return False
    model = quantifier.interval_model()
    return model is not None and model.is_analytic


def estimate_large(
    quantifier: FittedQuantifier,
    points: NDArray[np.floating],
    own: Indices,
    settings: GroupSettings,
) -> SummedEstimates:
    """Return the estimate of the one group of the points at positions ``own``.

    Parameters
    ----------
    quantifier : fitted quantifier
    points : array of shape (m, k), in memory or on disk
        Posteriors.
    own : int64 array
    settings : GroupSettings
    """

    def pieces() -> Iterator[tuple[NDArray[np.floating], Indices, None]]:
        for start in range(0, len(own), PIECE):
            part = own[start : start + PIECE]
            yield points[part], np.zeros(len(part), dtype=np.int64), None

    keep = 4 * len(own) * points.shape[1] <= KEPT
    return estimate_sums(quantifier, LocalSource(pieces, keep), settings.options)


def check_summable(settings: GroupSettings) -> None:
    """Raise where sums cannot give what is asked for."""
    if settings.check_fit:
        raise ValueError(
            "check_fit needs all instances of a group at once: leave it out, or take the groups "
            "in question into memory"
        )


def summed_answers(
    quantifier: FittedQuantifier,
    made: SummedEstimates,
    n_groups: int,
    missing: Indices,
    settings: GroupSettings,
) -> GroupAnswers:
    """Return the answers of groups 0..n_groups - 1; those without an instance are "empty".

    Parameters
    ----------
    quantifier : fitted quantifier
    made : SummedEstimates
    n_groups : int
    missing : int64 array of shape (n_groups,)
        Instances of each group that were left out.
    settings : GroupSettings
    """
    k = len(quantifier.classes_)

    def everywhere(values: Array) -> Array:
        out = np.full((n_groups, k), np.nan)
        out[made.groups] = values
        return out

    sizes = np.zeros(n_groups, dtype=np.int64)
    sizes[made.groups] = made.sizes
    converged = np.ones(n_groups, dtype=np.bool_)
    converged[made.groups] = made.solution.converged
    unchecked = np.full(n_groups, np.nan)
    return GroupAnswers(
        classes=np.asarray(quantifier.classes_),
        sizes=sizes,
        missing=missing,
        estimate=everywhere(made.solution.prevalence),
        low=everywhere(made.low),
        high=everywhere(made.high),
        classify_and_count=everywhere(made.decisions),
        training_prevalence=np.asarray(quantifier.prevalence_),
        fit_p_value=unchecked,
        status=group_status(sizes, missing, unchecked, converged, settings),
    )


#: Instances per run of groups: bounds memory, not the result.
RUN = 1 << 19
#: Bytes of per-group matrices that a run may hold.
_HELD = 1 << 26


def estimate_groups(
    quantifier: FittedQuantifier,
    points: Any,
    codes: NDArray[np.integer],
    n_groups: int,
    settings: GroupSettings,
    *,
    on_posteriors: bool = True,
    missing: Indices | None = None,
    on_run: Any = None,
) -> GroupAnswers:
    """Return the answers of all groups.

    Parameters
    ----------
    quantifier : fitted quantifier
    points : array of shape (m, k) or (m, 2k), or instances
        Posteriors, followed by those of fold models where a fit check is to use them; or
        instances as ``fit`` took them.
    codes : int array of shape (m,)
        Number of the group of each point, in any order.
    n_groups : int
        Groups without a point are "empty".
    settings : GroupSettings
    on_posteriors : bool
        Whether points are posteriors.
    missing : int64 array of shape (n_groups,), optional
        Instances of each group that were left out before.
    on_run : callable, optional
        Told the number of instances done after each run of groups.
    """
    sizes = np.bincount(codes, minlength=n_groups).astype(np.int64)
    lost = np.zeros(n_groups, dtype=np.int64) if missing is None else missing
    k = len(quantifier.classes_)
    scored_twice = on_posteriors and points.shape[1] == 2 * k
    checker = _checker(quantifier, scored_twice) if settings.check_fit else None
    found = _Found(n_groups, k)
    order, ends = np.argsort(codes, kind="stable"), np.cumsum(sizes)
    for groups in _runs(sizes, k):
        own = order[ends[groups[0]] - sizes[groups[0]] : ends[groups[-1]]]
        if on_posteriors and goes_by_sums(quantifier, len(own), settings):
            # Alone in its run, being so large.
            found.take_large(groups, estimate_large(quantifier, points, own, settings))
        else:
            part = points[own] if isinstance(points, np.ndarray) else _safe_indexing(points, own)
            bags = _consecutive(sizes[groups])
            seen, part = (part[:, k:], part[:, :k]) if scored_twice else (part, part)
            made = _estimates(quantifier, part, bags, settings, on_posteriors)
            found.take(groups, part, bags, made)
            if checker is not None:
                found.p_values[groups] = _fit_p_values(checker, seen, bags, settings)
        if on_run is not None:
            on_run(len(own))
    return GroupAnswers(
        classes=np.asarray(quantifier.classes_),
        sizes=sizes,
        missing=lost,
        **found.shares,
        training_prevalence=np.asarray(quantifier.prevalence_),
        fit_p_value=found.p_values,
        status=group_status(sizes, lost, found.p_values, found.converged, settings),
    )


class _Found:
    """What the runs have given so far; NaN for groups that none had."""

    def __init__(self, n_groups: int, n_classes: int) -> None:
        names = ("estimate", "low", "high", "classify_and_count")
        self.shares = {name: np.full((n_groups, n_classes), np.nan) for name in names}
        self.p_values = np.full(n_groups, np.nan)
        self.converged = np.ones(n_groups, dtype=np.bool_)

    def take(self, groups: Indices, part: Any, bags: Bags, made: Estimates) -> None:
        """Keep the numbers of a run; the rest of the estimates is large and is given up."""
        for name in ("estimate", "low", "high"):
            self.shares[name][groups] = getattr(made, name)
        self.shares["classify_and_count"][groups] = _naive(part, bags, made)
        self.converged[groups] = made.converged

    def take_large(self, groups: Indices, made: SummedEstimates) -> None:
        """Keep the numbers of one group that was estimated from sums."""
        self.shares["estimate"][groups] = made.solution.prevalence
        self.shares["low"][groups], self.shares["high"][groups] = made.low, made.high
        self.shares["classify_and_count"][groups] = made.decisions
        self.converged[groups] = made.solution.converged


def _runs(sizes: Indices, n_classes: int) -> Iterator[Indices]:
    """Cut the groups that have instances into runs of about ``RUN`` instances."""
    # Intervals hold four matrices for every group of a run.
    most = max(8, _HELD // (32 * n_classes**2))
    start, total = 0, np.concatenate([[0], np.cumsum(sizes)])
    while start < len(sizes):
        stop = int(np.searchsorted(total, total[start] + RUN, side="right")) - 1
        stop = min(max(stop, start + 1), start + most)
        groups = np.arange(start, min(stop, len(sizes)), dtype=np.int64)
        if (sizes[groups] > 0).any():
            yield groups[sizes[groups] > 0]
        start = stop


def _consecutive(sizes: Indices) -> Bags:
    offsets = offsets_of(sizes)
    return Bags(np.arange(offsets[-1], dtype=np.int64), offsets, int(offsets[-1]))


def _estimates(
    quantifier: FittedQuantifier,
    part: Any,
    bags: Bags,
    settings: GroupSettings,
    on_posteriors: bool,
) -> Estimates:
    given = vars(settings.options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntervalWarning)  # the status and the limits say it
        if on_posteriors:
            made = cast(Estimates, quantifier.estimate_posteriors(part, bags, **given))
        else:
            made = quantifier.estimate_bags(part, bags, **given)
    return made


def _naive(part: Any, bags: Bags, made: Estimates) -> Array | float:
    """Return the share of decisions in each bag, (n_bags, k); NaN where there are none."""
    if made.decisions is None:
        return np.nan
    k = part.shape[1]
    owners = np.repeat(np.arange(len(bags)), bags.sizes)
    counts = np.bincount(owners * k + part.argmax(axis=1), minlength=len(bags) * k)
    return np.asarray(counts.reshape(-1, k) / bags.sizes[:, None])


def _checker(quantifier: FittedQuantifier, held: bool) -> Any:
    from kdey.diagnostics import FitChecker  # slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return FitChecker.fit(quantifier, n_jobs=quantifier.n_jobs, held=held)


def _fit_p_values(checker: Any, seen: Any, bags: Bags, settings: GroupSettings) -> Array:
    """Return the p-value of each bag, by posteriors ``seen`` of what made those of training."""
    out = np.full(len(bags), np.nan)
    for number, where in enumerate(bags):
        if len(where) >= settings.min_size:
            rng = np.random.default_rng(settings.seed)
            made = checker.check_points(seen[where], None, rng, settings.n_null, settings.level)
            out[number] = made.p_value
    return out


def group_status(
    sizes: Indices,
    missing: Indices,
    p_values: Array,
    converged: NDArray[np.bool_],
    settings: GroupSettings,
) -> list[str]:
    """Return the status of each group; see :class:`~kdey.groups.answers.GroupAnswers`."""
    with np.errstate(invalid="ignore"):
        told = {
            "empty": sizes == 0,
            "too small": (sizes > 0) & (sizes < settings.min_size),
            "poor fit": p_values <= settings.level,
            "missing values": missing > 0,
            "not converged": ~converged,
        }
    return [
        "; ".join(name for name, where in told.items() if where[g]) or "ok"
        for g in range(len(sizes))
    ]
