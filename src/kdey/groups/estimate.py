"""From scored rows with group numbers to answers.

The groups of a table that is held in one process are estimated in runs, so that memory stays
bounded whatever their number; one too large to be held at once goes by sums over its pieces
(``kdey.groups.sums``), as the groups of a cluster do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.fitted import FittedQuantifier
from kdey.groups.answers import AnswerSheet, GroupAnswers
from kdey.groups.checks import GroupChecks
from kdey.groups.design import RowDesign
from kdey.groups.request import GroupSettings
from kdey.groups.run import DesignedRun
from kdey.groups.scoring import Floats, GroupRows, ScoredRows, as_rows
from kdey.groups.sums import LocalSource, SummedEstimates, estimate_sums
from kdey.options import IntervalWarning
from kdey.status import MISSING_STRATA

#: Called with a number of rows each time that so many more are done.
OnRows: TypeAlias = Callable[[int], object]

#: Instances per run of groups: bounds memory, not the result.
RUN = 1 << 19
#: Bytes of per-group matrices that a run may hold.
_HELD = 1 << 26
#: Instances beyond which a group is not held at once.
LARGE = 1 << 21
#: Instances of a piece of such a group.
PIECE = 1 << 18
#: Bytes of its rows that are kept between passes; beyond it every pass makes them again.
KEPT = 1 << 29


def estimate_groups(
    quantifier: FittedQuantifier,
    points: Any,
    codes: NDArray[np.integer],
    n_groups: int,
    settings: GroupSettings,
    *,
    missing: Indices | None = None,
    unseen: Indices | None = None,
    on_run: OnRows | None = None,
    design: RowDesign | None = None,
) -> GroupAnswers:
    """Return the answers of all groups.

    Parameters
    ----------
    quantifier : fitted quantifier
    points : ScoredRows, Instances, or array of posteriors of shape (m, k)
    codes : int array of shape (m,)
        Number of the group of each point, in any order.
    n_groups : int
        Groups without a point are "empty".
    settings : GroupSettings
    missing : int64 array of shape (n_groups,), optional
        Instances of each group that were left out before.
    unseen : int64 array of shape (n_groups,), optional
        Instances of each group with a value that training lacks.
    on_run : callable, optional
        Called after each run of groups with the number of its instances.
    design : RowDesign, optional
        How the points were drawn, and which have labels. A group is then held at once, whatever
        its size.
    """
    rows = as_rows(points)
    if design is not None and design.weights is not None and not design.weights.all():
        # An instance of weight zero does not belong to its group.
        inside = np.flatnonzero(design.weights > 0)
        rows, codes, design = rows.take(inside), codes[inside], design.take(inside)
    designed = design is not None or settings.merge is not None
    sizes = np.bincount(codes, minlength=n_groups).astype(np.int64)
    sheet = AnswerSheet(quantifier, n_groups, settings.merging(quantifier.classes_))
    by_folds = isinstance(rows, ScoredRows) and rows.fold_posteriors is not None
    checks = GroupChecks.start(quantifier, settings, sheet, by_folds)
    order, ends = canonical_order(rows, codes, design), np.cumsum(sizes)
    for groups in _runs(sizes, len(quantifier.classes_)):
        positions = order[ends[groups[0]] - sizes[groups[0]] : ends[groups[-1]]]
        if designed:
            part = RowDesign() if design is None else design.take(positions)
            _fill_from_design(
                sheet,
                groups,
                DesignedRun(
                    quantifier,
                    rows.take(positions),
                    sizes[groups],
                    part,
                    settings.options,
                    sheet.merging,
                    settings.believe,
                ),
            )
        elif isinstance(rows, ScoredRows) and goes_by_sums(quantifier, len(positions), settings):
            # Alone in its run, being so large: the one group of its sums.
            summed = estimate_large(quantifier, rows.posteriors, positions, settings)
            sheet.fill_from_sums(groups, summed)
        else:
            run, bags = rows.take(positions), _consecutive_bags(sizes[groups])
            _fill_from_run(sheet, groups, run, bags, settings)
        if isinstance(rows, ScoredRows):
            instances = Bags(positions, offsets_of(sizes[groups]), len(rows))
            checks.check(groups, rows.checked_posteriors, instances, sizes[groups])
        if on_run is not None:
            on_run(len(positions))
    left_out = np.zeros(n_groups, dtype=np.int64) if missing is None else missing
    return sheet.answers(sizes, left_out, settings, unseen)


def canonical_order(
    rows: GroupRows, codes: NDArray[np.integer], design: RowDesign | None = None
) -> Indices:
    """Return the positions of rows, group after group, in an order that the rows alone decide.

    Samples and bootstraps go by position. Rows are therefore ordered by their hashes and, where
    these are equal, by their design, so that the answer of a group depends on nothing but its
    rows. Rows that are equal in both may stand in any order.
    """
    design = RowDesign() if design is None else design
    ties = [values for values in vars(design).values() if values is not None]
    return np.lexsort((*ties, rows.row_hashes, codes)).astype(np.int64)


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


def _consecutive_bags(sizes: Indices) -> Bags:
    offsets = offsets_of(sizes)
    return Bags(np.arange(offsets[-1], dtype=np.int64), offsets, int(offsets[-1]))


def _fill_from_run(
    sheet: AnswerSheet, groups: Indices, rows: GroupRows, bags: Bags, settings: GroupSettings
) -> None:
    """Estimate the groups of a run; of the estimates, which are large, only numbers are kept."""
    with warnings.catch_warnings():
        # The status and the limits say it, and say of which group.
        warnings.simplefilter("ignore", IntervalWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimates = rows.estimates(sheet.quantifier, bags, settings.options)
    decisions: Array | float = np.nan
    if isinstance(rows, ScoredRows) and estimates.decisions is not None:
        decisions = rows.decision_shares(bags)
    sheet.fill(
        groups,
        converged=estimates.converged,
        estimate=estimates.estimate,
        low=estimates.low,
        high=estimates.high,
        classify_and_count=decisions,
    )


def _fill_from_design(sheet: AnswerSheet, groups: Indices, run: DesignedRun) -> None:
    """Estimate the groups of a run whose rows have a design."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntervalWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        answers = run.estimates()
    estimates = answers.estimates
    sheet.fill(
        groups,
        converged=np.array([part.converged for part in estimates]),
        estimate=np.array([part.estimate for part in estimates]),
        low=np.array([part.low for part in estimates]),
        high=np.array([part.high for part in estimates]),
        classify_and_count=answers.classify_and_count,
    )
    sheet.mark(MISSING_STRATA, groups[answers.incomplete])
    if run.design.labels is not None:
        sheet.fill_labelled(groups, estimates)


def goes_by_sums(quantifier: FittedQuantifier, size: int, settings: GroupSettings) -> bool:
    """Whether a group of ``size`` instances is estimated piece by piece.

    The numbers are the same. Limits that only a bootstrap gives need the whole group.
    """
    if size <= LARGE or settings.options.method == "bootstrap":
        return False
    model = quantifier.interval_model()
    return model is not None and model.is_analytic


def estimate_large(
    quantifier: FittedQuantifier, posteriors: Floats, positions: Indices, settings: GroupSettings
) -> SummedEstimates:
    """Return the estimate of a group that is not held at once.

    Parameters
    ----------
    quantifier : fitted quantifier
    posteriors : array of shape (m, k), in memory or on disk
    positions : int64 array
        Of the instances of the group.
    settings : GroupSettings
    """

    def pieces() -> Iterator[tuple[Floats, Indices, None]]:
        for start in range(0, len(positions), PIECE):
            piece = positions[start : start + PIECE]
            yield posteriors[piece], np.zeros(len(piece), dtype=np.int64), None

    keep = 4 * len(positions) * posteriors.shape[1] <= KEPT
    return estimate_sums(quantifier, LocalSource(pieces, keep), settings.options)
