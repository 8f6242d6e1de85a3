"""From scored rows with group numbers to estimates, by the one function that answers groups.

:func:`answer` is what runs in memory, on batches of files that were collected, and on the workers
of a cluster, which hold whole groups. The separate answer of a group depends on nothing but its
rows: they are put into an order that they decide themselves, since bootstraps and samples go by
position, and every bound is fixed.

Groups are estimated in runs, so that memory stays bounded whatever their number. A group whose
scores take more than ``WHOLE`` bytes is thinned: rows (or clusters) with the smallest hashes stand
for all of them, labelled rows all stay, and its status says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from kdey._caching import mix
from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.groups.request import UNLABELLED, Request, RowDesign
from kdey.groups.run import GroupRun, RunEstimates
from kdey.groups.scoring import ScoredRows
from kdey.groups.table import ScoredTable
from kdey.intervals import Estimate, Estimates
from kdey.intervals.display import LABELLED_SHARES
from kdey.intervals.estimate import LabelledShares, no_uncertainty
from kdey.intervals.region import Uncertainty
from kdey.labelled import LabelledEstimate
from kdey.model import AnyModel, Fitted, Model, Place, model_of, place_of
from kdey.options import LABEL_SHIFT, IntervalWarning
from kdey.status import (
    EMPTY,
    FEW_LABELS,
    MISSING_STRATA,
    MISSING_VALUES,
    MOST_UNSEEN,
    NO_LABELS,
    NOT_CONVERGED,
    THINNED,
    TOO_SMALL,
    TURNED_OFF,
    UNSEEN_VALUES,
    join_status,
    not_checked,
)

#: Called with a number of rows each time that so many more are done.
OnRows: TypeAlias = Callable[[int], object]

#: Rows per run of groups: bounds memory, not the result.
RUN = 1 << 19
#: Bytes of per-group matrices that a run may hold.
_HELD = 1 << 26
#: Bytes of scores up to which a group is answered whole; larger ones are thinned.
WHOLE = 1 << 28
#: Bytes of runs whose uncertainties are kept with the estimates.
KEPT = 1 << 27
#: Instances of a group that are checked, and references per class that they are compared with.
MOST_CHECKED, REFERENCES = 2_000, 1_000
#: The note of groups whose uncertainty was not kept.
NOT_KEPT = (
    "covariance, region and draws of so large a table are not kept: estimate this group by itself"
)
#: The sentence about a group without a label.
WITHOUT_LABELS = (
    "no row of this group has a label: the estimate holds only if nothing but the prevalences has "
    "changed since training, which is not tested"
)


def answer(
    fitted: Fitted,
    table: ScoredTable,
    request: Request,
    *,
    unions: Sequence[tuple[int, ...]] = (),
    kept: int = KEPT,
    on_rows: OnRows | None = None,
    place: Place | None = None,
) -> Estimates:
    """Return the separate estimates of whole groups.

    Parameters
    ----------
    fitted : fitted quantifier, or its model
    table : ScoredTable
        All rows of its groups.
    request : Request
    unions : sequence of tuples of group numbers
        Further groups, which consist of several; they are not checked.
    kept : int
        Bytes of runs whose uncertainties are kept.
    on_rows : callable, optional
        Called after each run of groups with the number of its rows.
    place : Place, optional
        By default that of the quantifier.

    Returns
    -------
    Estimates
        Of all groups in the order of their numbers, then of the unions, without keys.
    """
    model = model_of(fitted)
    place = place_of(fitted) if place is None else place
    members = _Members.of(table, unions)
    sheet = _Sheet(model, request, len(members))
    check = _Check.of(model, request, table)
    for groups in _runs(members.sizes, members.rates, model.n_classes):
        positions, sizes = members.positions(groups), members.sizes[groups]
        options = request.options
        if members.rates[groups[0]] < 1.0:
            # A sample says no more of the rows that it stands for than of their population.
            options = replace(options, target="population")
        design = None if members.design is None else members.design.take(positions)
        run = GroupRun(
            model,
            place,
            table.rows.take(positions),
            sizes,
            RowDesign() if design is None else design,
            replace(request, options=options),
            sheet.merging,
        )
        with warnings.catch_warnings():
            # The status and the interval say it, and say of which group.
            warnings.simplefilter("ignore", IntervalWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            made = run.estimates()
        cost = 3 * 8 * len(positions) * model.n_classes
        sheet.enter(groups, made, keep=cost <= kept, labelled=run.design.labels is not None)
        kept -= cost
        own = groups[groups < len(table)]
        check.run(own, Bags(positions, offsets_of(sizes), len(table.rows)), members.totals)
        if on_rows is not None:
            on_rows(len(positions))
    return sheet.estimates(table, members, check)


def canonical_order(table: ScoredTable) -> Indices:
    """Return the positions of rows, group after group, in an order that the rows alone decide.

    Rows are ordered by their hashes and, where these are equal, by their design. Rows that are
    equal in both may stand in any order.
    """
    design = RowDesign() if table.design is None else table.design
    ties = [values for values in vars(design).values() if values is not None]
    return np.lexsort((*ties, table.rows.row_hashes, table.codes)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Members:
    """Which rows belong to which group, in canonical order, after thinning.

    Attributes
    ----------
    order : int64 array
        Positions of rows, group after group.
    offsets : int64 array of shape (n_groups + 1,)
    unions : sequence of tuples of group numbers
    sizes, totals : int64 arrays of shape (n_groups + n_unions,)
        Rows of each bag that are used, and that it has.
    rates : array of the same shape
        Share of rows that were kept; 1 where a group is answered whole.
    hashes : uint64 array of shape (m,)
    design : RowDesign or None
        With weights that stand for the rows left out.
    """

    order: Indices
    offsets: Indices
    unions: Sequence[tuple[int, ...]]
    sizes: Indices
    totals: Indices
    rates: Array
    hashes: NDArray[np.uint64]
    design: RowDesign | None

    @classmethod
    def of(cls, table: ScoredTable, unions: Sequence[tuple[int, ...]]) -> _Members:
        order, sizes = canonical_order(table), table.counts
        rates, design = table.rates.copy(), table.design
        most = max(WHOLE // max(table.rows.row_bytes, 1), 1)
        large = np.flatnonzero(sizes > most)
        if len(large):
            parts = np.split(order, np.cumsum(sizes)[:-1])
            for group in large.tolist():
                parts[group], rate, design = thin(table, parts[group], most, design)
                rates[group] *= rate
            order = np.concatenate(parts)
            sizes = np.array([len(part) for part in parts], dtype=np.int64)
        joined = [sum(int(sizes[g]) for g in union) for union in unions]
        totals = [sum(int(table.sizes[g]) for g in union) for union in unions]
        least = [min(float(rates[g]) for g in union) for union in unions]
        return cls(
            order,
            offsets_of(sizes),
            unions,
            np.concatenate([sizes, np.array(joined, dtype=np.int64)]),
            np.concatenate([table.sizes, np.array(totals, dtype=np.int64)]),
            np.concatenate([rates, np.array(least, dtype=np.float64)]),
            table.rows.row_hashes if unions else np.empty(0, dtype=np.uint64),
            design,
        )

    def __len__(self) -> int:
        """Return the number of groups and unions."""
        return len(self.sizes)

    def positions(self, groups: Indices) -> Indices:
        """Return the positions of the rows of some bags, one after another."""
        n = len(self.offsets) - 1
        own, others = groups[groups < n], groups[groups >= n]
        # Groups without a row lie between the others and add nothing.
        parts = [self.order[self.offsets[own[0]] : self.offsets[own[-1] + 1]]] if len(own) else []
        for number in others.tolist():
            spans = [
                self.order[self.offsets[g] : self.offsets[g + 1]] for g in self.unions[number - n]
            ]
            rows = np.concatenate(spans)
            parts.append(rows[np.argsort(self.hashes[rows], kind="stable")])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def thin(
    table: ScoredTable, positions: Indices, most: int, design: RowDesign | None
) -> tuple[Indices, float, RowDesign]:
    """Return about ``most`` rows of a group, which stand for all of them, in canonical order.

    Whole clusters are kept where there are clusters. Labelled rows all stay, and stand for
    themselves; the others weigh one over the share that is kept.

    Returns
    -------
    positions : int64 array
    rate : float
        Share of rows or clusters that is kept.
    design : RowDesign
        That of the table, with weights.
    """
    known = RowDesign() if design is None else design
    ranks = thinning_ranks(table.rows.row_hashes[positions], known.take(positions))
    rate = most / len(positions)
    labelled = np.zeros(len(positions), dtype=np.bool_)
    if known.labels is not None:
        labelled = known.labels[positions] != UNLABELLED
    stay = labelled | (ranks < rate)
    weights = np.ones(len(table.rows)) if known.weights is None else known.weights.copy()
    weights[positions[~labelled]] /= rate
    return positions[stay], rate, replace(known, weights=weights)


def thinning_ranks(hashes: NDArray[np.uint64], design: RowDesign) -> Array:
    """Return a number from 0 to 1 for each row (or cluster): rows with the smallest are kept.

    Rows that are equal have equal hashes, but must not stay or go together: their number among
    the equal ones counts, too.
    """
    if design.clusters is not None:
        mixed = mix(design.clusters.view(np.uint64))
    else:
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        first = np.searchsorted(ordered, ordered)
        copies = np.empty(len(hashes), dtype=np.uint64)
        copies[order] = (np.arange(len(hashes)) - first).astype(np.uint64)
        mixed = mix(hashes + mix(copies))
    return np.asarray(mixed / 2.0**64)


def _runs(sizes: Indices, rates: Array, n_classes: int) -> Iterator[Indices]:
    """Cut the bags that have rows into runs of about ``RUN`` rows; thinned ones stand alone."""
    # Intervals hold four matrices for every group of a run.
    most = max(8, _HELD // (32 * n_classes**2))
    start, total = 0, np.concatenate([[0], np.cumsum(sizes)])
    while start < len(sizes):
        stop = int(np.searchsorted(total, total[start] + RUN, side="right")) - 1
        stop = min(max(stop, start + 1), start + most, len(sizes))
        thinned = np.flatnonzero(rates[start:stop] < 1.0)
        if len(thinned):
            stop = start + max(int(thinned[0]), 1)
        groups = np.arange(start, stop, dtype=np.int64)
        if (sizes[groups] > 0).any():
            yield groups[sizes[groups] > 0]
        start = stop


@dataclass(frozen=True, eq=False)
class _Check:
    """The fit checks of groups; their cost is bounded by fixed numbers.

    Attributes
    ----------
    model : model
    request : Request
    rows : ScoredRows or None
    reason : str or None
        Why no group is checked; None if they are.
    p_values, words : arrays of shape (n_groups,)
        P-values, and what they say in the words of a status.
    """

    model: AnyModel
    request: Request
    rows: ScoredRows | None
    reason: str | None
    p_values: Array
    words: NDArray[Any]

    @classmethod
    def of(cls, model: AnyModel, request: Request, table: ScoredTable) -> _Check:
        reason = None if request.options.check_fit else TURNED_OFF
        if reason is None:
            from kdey.diagnostics import unchecked_reason  # slow to import

            reason = unchecked_reason(model)
        rows = table.rows if isinstance(table.rows, ScoredRows) else None
        words = np.full(len(table), not_checked(reason or TURNED_OFF), dtype=object)
        return cls(model, request, rows, reason, np.full(len(table), np.nan), words)

    def run(self, groups: Indices, bags: Bags, totals: Indices) -> None:
        """Check the groups of a run: the first bags of ``bags``, as positions of rows."""
        options = self.request.options
        large = np.flatnonzero(totals[groups] >= options.min_size)
        if self.reason is not None or self.rows is None or not len(large):
            return
        from kdey.diagnostics.fit_checker import default_checker, sample_bags

        by_folds = self.rows.fold_posteriors is not None
        references = REFERENCES * self.model.n_classes
        checker = default_checker(self.model, by_folds, references)
        verdicts = checker.screen(
            self.rows.checked_posteriors,
            sample_bags(_select(bags, large), min(checker.most_instances, MOST_CHECKED), 0),
            sizes=totals[groups[large]],
            hashes=self.rows.row_hashes if by_folds else None,
            seed=0,  # the same for all groups, so that none depends on the others
            n_null=options.n_null,
            level=options.level,
        )
        for group, verdict in zip(groups[large], verdicts, strict=True):
            self.p_values[group] = verdict.p_value
            self.words[group] = verdict.status


def _select(bags: Bags, numbers: Indices) -> Bags:
    """Return the unweighted bags with some numbers, ascending."""
    if len(numbers) == len(bags):
        return bags
    parts = [bags.indices[bags.offsets[b] : bags.offsets[b + 1]] for b in numbers]
    return Bags(np.concatenate(parts), offsets_of(bags.sizes[numbers]), bags.pool_size)


class _Sheet:
    """The estimates of all bags as they come in, some at a time; NaN until they do."""

    def __init__(self, model: AnyModel, request: Request, n_bags: int) -> None:
        self.model, self.request = model, request
        self.merging = request.merging(model.classes)
        shape = (n_bags, len(self.merging.names))
        self.shares = {
            name: np.full(shape, np.nan) for name in ("estimate", "low", "high", "counted")
        }
        self.gap, self.effective_size = np.full(n_bags, np.nan), np.zeros(n_bags)
        self.converged = np.ones(n_bags, dtype=np.bool_)
        self.incomplete = np.zeros(n_bags, dtype=np.bool_)
        self.notes: list[list[str]] = [[] for _ in range(n_bags)]
        self.sources: list[tuple[Callable[[int], Uncertainty], int] | None] = [None] * n_bags
        self.decisions: Any = None
        self.labelled: LabelledShares | None = None

    def enter(self, bags: Indices, made: RunEstimates, *, keep: bool, labelled: bool) -> None:
        """Enter the estimates of a run."""
        part = made.estimates
        for name in ("estimate", "low", "high"):
            self.shares[name][bags] = getattr(part, name)
        self.shares["counted"][bags] = made.counted
        self.gap[bags], self.converged[bags] = part.gap, part.converged
        self.effective_size[bags] = part.effective_size
        self.incomplete[bags] = made.incomplete
        for number, bag in enumerate(bags.tolist()):
            self.notes[bag] = list(part.notes[number])
            if keep:
                self.sources[bag] = (part.uncertainty_of, int(part.positions[number]))
            else:
                self.notes[bag].append(NOT_KEPT)
        if keep and len(bags) == len(self.gap):
            self.decisions = part.decisions  # of a single run, whose rows are at hand
        if labelled:
            self._enter_labels(bags, made.items)

    def _enter_labels(self, bags: Indices, items: Sequence[Estimate]) -> None:
        n_bags, k = self.shares["estimate"].shape
        if self.labelled is None:
            self.labelled = LabelledShares(
                np.zeros(n_bags, dtype=np.int64),
                {name: np.full((n_bags, k), np.nan) for name in LABELLED_SHARES},
                np.full(n_bags, np.nan),
                np.full(n_bags, "", dtype=object),
            )
        for bag, item in zip(bags.tolist(), items, strict=True):
            if not isinstance(item, LabelledEstimate):
                self._enter_shares(bag, LABEL_SHIFT, item)
                self.labelled.verdict[bag] = WITHOUT_LABELS
                continue
            self.labelled.n_labels[bag] = item.n_labels
            for way, estimate in item.alternatives.items():
                self._enter_shares(bag, way, estimate)
            if item.shift_test is not None:
                self.labelled.p_value[bag] = item.shift_test.p_value
            self.labelled.verdict[bag] = item.verdict

    def _enter_shares(self, bag: int, way: str, estimate: Estimate) -> None:
        assert self.labelled is not None, "entered with labels"
        name = way.replace("-", "_")
        for end, attribute in (("", "estimate"), ("_low", "low"), ("_high", "high")):
            self.labelled.shares[name + end][bag] = getattr(estimate, attribute)

    def estimates(self, table: ScoredTable, members: _Members, check: _Check) -> Estimates:
        """Return the estimates of all bags, with their statuses."""
        n_bags, sources, k = len(members), self.sources, len(self.merging.names)
        further = np.zeros(len(members.unions), dtype=np.int64)

        def uncertainty_of(bag: int) -> Uncertainty:
            source = sources[bag]
            return no_uncertainty(k)(bag) if source is None else source[0](source[1])

        return Estimates(
            classes=self.merging.names,
            estimate=self.shares["estimate"],
            low=self.shares["low"],
            high=self.shares["high"],
            options=self.request.options,
            training_prevalence=self.merging.matrix @ np.asarray(self.model.prevalence),
            size=members.totals,
            effective_size=self.effective_size,
            gap=self.gap,
            converged=self.converged,
            notes=self.notes,
            uncertainty_of=uncertainty_of,
            decisions=self.decisions,
            positions=np.arange(n_bags),
            n_missing=np.concatenate([table.missing, further]),
            statuses=self._statuses(table, members, check),
            fit_p_value=np.concatenate([check.p_values, np.full(len(further), np.nan)]),
            counted=self.shares["counted"],
            labelled=self.labelled,
        )

    def _statuses(self, table: ScoredTable, members: _Members, check: _Check) -> list[str]:
        few_labels = isinstance(self.model, Model) and bool(self.model.training_notes)
        sizes, least = members.totals, self.request.options.min_size
        n, used = len(table), members.sizes > 0
        own = np.arange(len(sizes)) < n
        applies = {
            EMPTY: sizes == 0,
            TOO_SMALL: (sizes > 0) & (sizes < least),
            THINNED: members.rates < 1.0,
            MISSING_VALUES: own & (np.resize(table.missing, len(sizes)) > 0),
            UNSEEN_VALUES: own & (np.resize(table.unseen, len(sizes)) > MOST_UNSEEN * sizes),
            NOT_CONVERGED: ~self.converged,
            FEW_LABELS: (sizes > 0) & few_labels,
            MISSING_STRATA: self.incomplete,
            NO_LABELS: used & (self.labelled is not None and self.labelled.n_labels == 0),
        }
        together = not_checked("several groups together")
        words = [*check.words, *[together] * (len(sizes) - n)]
        return [
            join_status(
                [
                    *(word for word, where in applies.items() if where[bag]),
                    # A group that is empty or too small is not checked, as these words say.
                    *([words[bag]] if sizes[bag] >= least else []),
                ]
            )
            for bag in range(len(sizes))
        ]
