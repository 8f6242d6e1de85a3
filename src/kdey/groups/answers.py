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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from kdey._fingerprints import Hashes, mix
from kdey.bags import Array, Bags, Indices, offsets_of, sampled_bags
from kdey.groups.request import Request
from kdey.groups.scoring import OnRows
from kdey.groups.table import UNLABELLED, ScoredRows, ScoredTable
from kdey.intervals import Estimate, Estimates, estimate_points
from kdey.intervals.checks import NOTHING_CHECKED, Checks, NotChecked
from kdey.intervals.display import LABELLED_SHARES
from kdey.intervals.estimate import (
    collect_estimates,
    join_estimates,
    no_uncertainty,
)
from kdey.intervals.merging import Merging, combine_strata, crossing_effect, share_covariance
from kdey.labelled import LabelledEstimate, LabelledSample, estimate_labelled_bags
from kdey.model import AnyModel, Fitted, Model, Place, model_of, place_of
from kdey.options import LABEL_SHIFT, WAYS, IntervalWarning, Options
from kdey.status import (
    CANNOT_BE_TOLD,
    EMPTY,
    FEW_CLUSTERS,
    FEW_LABELS,
    MISSING_STRATA,
    MISSING_VALUES,
    MOST_SMALL,
    MOST_UNSEEN,
    NO_LABELS,
    NOT_CONVERGED,
    SMALL_STRATA,
    THINNED,
    TOO_SMALL,
    UNSEEN_VALUES,
    WIDE,
    join_status,
    not_checked,
)

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
    quantifier: Fitted,
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
    quantifier : fitted quantifier, or its model
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
    model, n = model_of(quantifier), len(table)
    place = place_of(quantifier) if place is None else place
    bags, merging = _GroupBags(table, unions), request.merging(model.classes)
    checks: list[Checks] = [NOTHING_CHECKED] * len(bags)
    parts, answered = [], []
    for groups in _runs(bags.sizes, bags.rates, model.n_classes):
        sizes, rows = bags.rows_of(groups)
        rate = float(bags.rates[groups[0]])
        run = _Run(model, place, rows, sizes, request, merging)
        made = run.estimates(rate)
        cost = 3 * 8 * len(rows) * model.n_classes
        parts.append(made if cost <= kept else _without_uncertainty(made))
        kept -= cost
        answered.append(groups)
        own = groups[groups < n]
        large = np.flatnonzero(bags.totals[own] >= request.options.min_size)
        if request.options.check_fit and len(large):
            found = run.checks(made, large, bags.totals[own[large]])
            for group, result in zip(own[large].tolist(), found, strict=True):
                checks[group] = result
        if on_rows is not None:
            on_rows(len(rows))
    empty = np.flatnonzero(bags.sizes == 0)
    if len(empty) or not parts:
        parts.append(_unanswered(model, request, merging, len(empty)))
        answered.append(empty)
    joined = join_estimates(parts).take(np.argsort(np.concatenate(answered)))
    further = np.zeros(len(unions), dtype=np.int64)
    return replace(
        joined,
        options=request.options,
        size=bags.totals,
        n_missing=np.concatenate([table.missing, further]),
        statuses=_statuses(model, request, table, bags, joined, checks),
        fit_p_value=np.array([result.p_value for result in checks], dtype=np.float64),
        checks=checks,
        marks=None,
    )


def has_strata(model: AnyModel) -> bool:
    """Return whether strata of training have templates of their own."""
    return isinstance(model, Model) and model.has_strata


class _GroupBags:
    """Which rows belong to which group or union, in canonical order.

    Attributes
    ----------
    rows : ScoredRows
    order : int64 array of shape (m,)
        Positions of rows, group after group.
    offsets : int64 array of shape (n_groups + 1,)
    unions : sequence of tuples of group numbers
    sizes, totals : int64 arrays of shape (n_groups + n_unions,)
        Rows of each bag that are here, and that it has.
    rates : array of the same shape
        Share of rows that are used; 1 where a bag is answered whole.
    is_thinned : bool array of the same shape
        Whether a bag is yet to be thinned; those on a cluster were thinned where they lay.
    """

    def __init__(self, table: ScoredTable, unions: Sequence[tuple[int, ...]]) -> None:
        def with_unions(values: Any, together: Any) -> Any:
            further = [together(values[list(union)]) for union in unions]
            return np.concatenate([values, np.array(further, dtype=values.dtype)])

        self.rows, self.unions = table.rows, unions
        own = np.bincount(table.rows.groups, minlength=len(table)).astype(np.int64)
        self.order, self.offsets = table.rows.canonical_order(), offsets_of(own)
        self.sizes: Indices = with_unions(own, np.sum)
        self.totals: Indices = with_unions(table.sizes, np.sum)
        rates = with_unions(table.rates, np.min)
        most = max(WHOLE // max(table.rows.row_bytes, 1), 1)
        self.is_thinned = (self.sizes > most) & (rates == 1.0)
        self.rates = np.where(self.is_thinned, most / np.maximum(self.sizes, 1), rates)

    def __len__(self) -> int:
        """Return the number of groups and unions."""
        return len(self.sizes)

    def rows_of(self, bags: Indices) -> tuple[Indices, ScoredRows]:
        """Return the sizes of some bags, and their rows, one bag after another."""
        positions = self._positions(bags)
        if not self.is_thinned[bags[0]]:
            return self.sizes[bags], self.rows.take(positions)
        positions, weights = thin(self.rows, positions, float(self.rates[bags[0]]))
        rows = replace(self.rows.take(positions), weights=weights)
        return np.array([len(positions)], dtype=np.int64), rows

    def _positions(self, bags: Indices) -> Indices:
        n = len(self.offsets) - 1
        own, others = bags[bags < n], bags[bags >= n]
        # Groups without a row lie between the others and add nothing.
        parts = [self.order[self.offsets[own[0]] : self.offsets[own[-1] + 1]]] if len(own) else []
        for number in others.tolist():
            spans = [
                self.order[self.offsets[g] : self.offsets[g + 1]] for g in self.unions[number - n]
            ]
            rows = np.concatenate(spans)
            parts.append(rows[np.argsort(self.rows.hashes[rows], kind="stable")])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def thin(rows: ScoredRows, positions: Indices, rate: float) -> tuple[Indices, Array]:
    """Return about the given share of a group's rows, which stand for all of them.

    Whole clusters are kept where there are clusters. Labelled rows all stay, and stand for
    themselves; the others weigh one over the share that is kept.

    Returns
    -------
    positions : int64 array
        In the order given.
    weights : array of the same shape
    """
    clusters, labels = rows.clusters, rows.labels
    ranks = thinning_ranks(
        rows.hashes[positions], None if clusters is None else clusters[positions]
    )
    labelled = np.zeros(len(positions), dtype=np.bool_)
    if labels is not None:
        labelled = labels[positions] != UNLABELLED
    weights = np.ones(len(positions)) if rows.weights is None else rows.weights[positions]
    weights = np.where(labelled, weights, weights / rate)
    kept = labelled | (ranks < rate)
    return positions[kept], weights[kept]


def thinning_ranks(hashes: Hashes, clusters: Indices | None = None) -> Array:
    """Return a number from 0 to 1 for each row (or cluster): rows with the smallest are kept.

    Rows that are equal have equal hashes, but must not stay or go together: their number among
    the equal ones counts, too.
    """
    if clusters is not None:
        mixed = mix(clusters.view(np.uint64))
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
class _Run:
    """The rows of a run of g groups, which are estimated together.

    Attributes
    ----------
    model : model
    place : Place
    rows : ScoredRows
        Group after group.
    sizes : int64 array of shape (g,)
        Number of rows of each group, all positive.
    request : Request
    merging : Merging
    """

    model: AnyModel
    place: Place
    rows: ScoredRows
    sizes: Indices
    request: Request
    merging: Merging

    def estimates(self, rate: float) -> Estimates:
        """Return the estimates of all groups, of whose rows the given share is here.

        A sample that is nearly all of a bag tells of the bag as the whole does; a small one tells
        of it no more than of the population. The variances of the two are mixed by the share.
        """
        with warnings.catch_warnings():
            # The status and the interval say it, and say of which group.
            warnings.simplefilter("ignore", IntervalWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            made = self._estimates()
            if rate == 1.0 or self.request.options.target == "population":
                return made
            options = replace(self.request.options, target="population")
            drawn = replace(self, request=replace(self.request, options=options))._estimates()
        ends = ("estimate", "low", "high")
        low, high = _mixed_intervals(
            [getattr(drawn, end) for end in ends], [getattr(made, end) for end in ends], rate
        )
        if drawn.labelled is not None and made.labelled is not None:
            shares, own = drawn.labelled, made.labelled
            for way in map(_column_name, WAYS):
                names = (way, f"{way}_low", f"{way}_high")
                shares[names[1]], shares[names[2]] = _mixed_intervals(
                    [shares[name] for name in names], [own[name] for name in names], rate
                )
        return replace(drawn, low=low, high=high)

    def _estimates(self) -> Estimates:
        if self.rows.strata is not None:
            return self._by_strata(self.rows.strata)
        if self.rows.labels is not None:
            return self._with_labels(self.rows.labels)
        offsets = offsets_of(self.sizes)
        positions = np.arange(offsets[-1], dtype=np.int64)
        return _counted(self.merging.apply_all(self._of_bags(positions, offsets)))

    @property
    def _weights(self) -> Array:
        known = self.rows.weights
        return np.ones(len(self.rows)) if known is None else known

    def _spans(self) -> list[slice]:
        return [slice(start, stop) for start, stop in pairwise(offsets_of(self.sizes).tolist())]

    def _of_bags(self, positions: Indices, offsets: Indices) -> Estimates:
        """Return the estimates of bags of rows, before classes are merged."""
        rows, model = self.rows, self.model
        if rows.on_posteriors:
            points = model.points_from_posteriors(rows.points, self.place)
        else:
            points = model.points(rows.points)
        bags, options = self._design(positions, offsets)
        return estimate_points(model, points, bags, options, rows.clusters, self.place)

    def _design(self, positions: Indices, offsets: Indices) -> tuple[Bags, Options]:
        """Return bags of rows, and options that say how these were drawn."""
        rows = self.rows
        weights = None if rows.weights is None else rows.weights[positions]
        options = replace(self.request.options, strata=None)
        if rows.variance_strata is not None:
            options = replace(options, variance_strata=rows.variance_strata, fpc=rows.fpc)
        elif rows.fpc is not None:
            options = replace(options, fpc=_population_sizes(rows.fpc[positions], offsets))
        return Bags(positions, offsets, len(rows), weights), options

    def checks(self, made: Estimates, groups: Indices, totals: Indices) -> list[Checks]:
        """Return what was checked of some groups, at a cost that depends on no other group.

        Parameters
        ----------
        made : Estimates
            Of all groups.
        groups : int64 array
            Their places in this run, ascending.
        totals : int64 array of the same shape
            Numbers of their rows, those included that were left out where a group was thinned.
        """
        from kdey.diagnostics.default_checks import (  # slow to import
            CheckedScores,
            checks_of_bags,
            codes_to_check,
            default_checker,
            unchecked_scores,
        )
        from kdey.diagnostics.score_check import sample_bags

        rows, model, options = self.rows, self.model, self.request.options
        offsets = offsets_of(self.sizes)
        positions = np.arange(offsets[-1], dtype=np.int64)
        bags = _select(Bags(positions, offsets, len(rows), rows.weights), groups)
        obstacle = "" if rows.strata is None else "shares of strata were put together"
        codes = codes_to_check(model, rows.column_codes, obstacle)
        if isinstance(codes, np.ndarray) and not (rows.labels is None and self.merging.is_plain):
            made = self._of_bags(positions, offsets)  # of all labels, under label shift
        scores: CheckedScores | NotChecked | None = unchecked_scores(model)
        if rows.strata is not None and has_strata(model):
            scores = NotChecked("classes may look different in each stratum")
        if scores is None:
            by_folds = rows.fold_posteriors is not None
            checker = default_checker(model, by_folds, REFERENCES * model.n_classes)
            # Weights of thinned rows count copies and rows left out; those of a survey do not.
            drawn = bags.weights if self.request.weights is None else None
            plain = Bags(bags.indices, bags.offsets, bags.pool_size, drawn)
            sampled = sample_bags(plain, min(checker.most_instances, MOST_CHECKED), 0)
            hashes = rows.hashes if by_folds else None
            scores = CheckedScores(checker, rows.checked_posteriors, sampled, hashes)
        return checks_of_bags(
            model,
            bags,
            made.take(groups),
            scores,
            codes,
            clusters=rows.clusters,
            sizes=totals,
            level=options.level,
            n_null=options.n_null,
        )

    def _of_positions(self, positions: list[Indices]) -> list[Estimate]:
        sizes = np.array([len(p) for p in positions], dtype=np.int64)
        return list(self._of_bags(np.concatenate(positions), offsets_of(sizes)))

    def _with_labels(self, labels: Indices) -> Estimates:
        """Return estimates with labels, and plain ones of groups without a label."""
        spans = self._spans()
        has_labels = [bool((labels[span] != UNLABELLED).any()) for span in spans]
        labelled = self._labelled(
            [span for span, has in zip(spans, has_labels, strict=True) if has], labels
        )
        others = [
            np.arange(span.start, span.stop)
            for span, has in zip(spans, has_labels, strict=True)
            if not has
        ]
        plain = [self.merging.apply(e) for e in self._of_positions(others)] if others else []
        sources = iter(labelled), iter(plain)
        items: list[Estimate] = [next(sources[0] if has else sources[1]) for has in has_labels]
        estimates = collect_estimates(items, self.request.options)
        return replace(estimates, labelled=_labelled_shares(items, len(self.merging.names)))

    def _labelled(self, spans: list[slice], labels: Indices) -> list[LabelledEstimate]:
        """Return the estimates of groups that have labels."""
        if not isinstance(self.model, Model):
            raise ValueError(
                "labels of groups need a method with rows and a matching (KDEyML, EMQ, PACC, ...), "
                "and this one combines several quantifiers"
            )
        if not spans:
            return []
        points = np.asarray(self.rows.points)
        points = np.concatenate([points[span] for span in spans])
        positions = np.concatenate([np.arange(span.start, span.stop) for span in spans])
        sizes = np.array([span.stop - span.start for span in spans], dtype=np.int64)
        bags, options = self._design(positions, offsets_of(sizes))
        drawn = sampled_bags(bags, self.rows.clusters, options)
        samples = [
            self._sample(span, labels, float(unseen))
            for span, unseen in zip(spans, drawn.unseen, strict=True)
        ]
        options, codes = self.request.options, self.rows.column_codes
        if codes is not None and self.model.columns is not None:
            codes = np.concatenate([codes[span, : len(self.model.columns)] for span in spans])
        return estimate_labelled_bags(
            *(self.model, points, samples, options, self.merging), codes=codes
        )

    def _sample(self, span: slice, labels: Indices, unseen: float) -> LabelledSample:
        """Return the labelled sample of one group, beside which the population has some unseen."""
        own, selection, clusters = labels[span], self.rows.selection, self.rows.clusters
        strata = self.rows.variance_strata
        positions = np.flatnonzero(own != UNLABELLED)
        return LabelledSample(
            size=len(own),
            positions=positions,
            codes=own[positions],
            n_classes=self.model.n_classes,
            weights=self._weights[span],
            selection=None if selection is None else selection[span][positions],
            clusters=None if clusters is None else _consecutive(clusters[span]),
            strata=None if strata is None else _consecutive(strata[span]),
            unseen=unseen,
        )

    def _by_strata(self, strata: Indices) -> Estimates:
        """Return the sums over strata, each of them a bag of its own."""
        positions: list[Indices] = []
        owners: list[int] = []
        for group, span in enumerate(self._spans()):
            codes = strata[span]
            for code in np.unique(codes).tolist():
                positions.append(span.start + np.flatnonzero(codes == code))
                owners.append(group)
        parts, owner = self._of_strata(positions, strata), np.array(owners)
        items, counted, incomplete, small, freedom = [], [], [], [], []
        for group in range(len(self.sizes)):
            chosen = np.flatnonzero(owner == group)
            total, counts, known = self._combine(
                [parts[i] for i in chosen], [positions[i] for i in chosen]
            )
            items.append(self.merging.apply(total))
            counted.append(self.merging.matrix @ counts)
            incomplete.append(known < 1.0 - 1e-9)
            sizes = np.array([len(positions[i]) for i in chosen])
            few = sizes[sizes < self.request.options.min_size].sum()
            small.append(len(sizes) > 1 and few > MOST_SMALL * sizes.sum())
            freedom.append(self._freedom(np.concatenate([positions[i] for i in chosen])))
        estimates = collect_estimates(items, self.request.options)
        estimates = replace(estimates, counted=np.array(counted)).of_clusters(np.array(freedom))
        estimates = estimates.marked(SMALL_STRATA, np.array(small))
        return estimates.marked(MISSING_STRATA, np.array(incomplete))

    def _freedom(self, rows: Indices) -> float:
        """Return clusters minus strata of some rows, inf without clusters."""
        clusters, strata = self.rows.clusters, self.rows.strata
        if clusters is None or strata is None:
            return np.inf
        return float(len(np.unique(clusters[rows])) - len(np.unique(strata[rows])))

    def _of_strata(self, positions: list[Indices], strata: Indices) -> list[Estimate]:
        """Return the estimates of bags of one stratum each, by the model of the stratum."""
        if not has_strata(self.model):
            return self._of_positions(positions)
        codes = np.array([strata[p[0]] for p in positions])
        parts: dict[int, Estimate] = {}
        for code in np.unique(codes).tolist():
            chosen = np.flatnonzero(codes == code).tolist()
            own = replace(self, model=self.model.in_stratum(code, self.place.n_threads))
            parts.update(
                zip(chosen, own._of_positions([positions[i] for i in chosen]), strict=True)
            )
        return [parts[i] for i in range(len(positions))]

    def _combine(
        self, parts: list[Estimate], positions: list[Indices]
    ) -> tuple[Estimate, Array, float]:
        """Return the estimate of a group, its shares of decisions, and the known share present."""
        weights, known, clusters = self._weights, self.rows.shares, self.rows.clusters
        options, rows, present = self.request.options, np.concatenate(positions), 1.0
        strata = np.repeat(np.arange(len(positions)), [len(p) for p in positions])
        between, clusters = None, None if clusters is None else clusters[rows]
        if known is not None:
            shares = np.array([known[p[0]] for p in positions])
            present = float(shares.sum())
        else:
            shares = np.array([weights[p].sum() for p in positions])
            if options.target == "population":
                estimates = np.array([part.estimate for part in parts])
                between = share_covariance(estimates, strata, weights[rows], clusters)
        effect = 1.0
        if clusters is not None:
            scores = self.rows.points[rows] if self.rows.on_posteriors else None
            effect = crossing_effect(scores, shares, strata, weights[rows], clusters)
        total = combine_strata(parts, shares, between, options.random_state, effect)
        counts = [part.classify_and_count for part in parts]
        unknown = np.full(len(total.estimate), np.nan)
        counted = np.array([unknown if count is None else count for count in counts])
        return total, np.asarray(shares / shares.sum() @ counted), present


def _population_sizes(sizes: Array, offsets: Indices) -> Array:
    """Return the population size of each bag, shape (n_bags,).

    It is infinite where rows differ in it, as those of a union of groups do (within a group they
    may not): no bag is then said to be more of its population than it is.
    """
    least, most = (end.reduceat(sizes, offsets[:-1]) for end in (np.minimum, np.maximum))
    return np.where(least == most, most, np.inf)


def _consecutive(codes: Indices) -> Indices:
    """Return codes numbered from zero without gaps."""
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def _mixed_intervals(
    population: Sequence[Array], bag: Sequence[Array], rate: float
) -> tuple[Array, Array]:
    """Return intervals of bags of which a share is known, from those of both targets.

    Each target has estimates, lower and upper limits.
    """

    def half(end: int) -> Array:
        outer, inner = population[0] - population[end], bag[0] - bag[end]
        return np.sqrt((1.0 - rate) * outer**2 + rate * inner**2)

    return population[0] - half(1), population[0] + half(2)


def _column_name(way: str) -> str:
    return way.replace("-", "_")


def _counted(estimates: Estimates) -> Estimates:
    """Return estimates that hold the shares of decisions, NaN where there is no classifier."""
    counted = estimates.classify_and_count
    if counted is None:
        counted = np.full(estimates.estimate.shape, np.nan)
    return replace(estimates, counted=counted)


def _without_uncertainty(estimates: Estimates) -> Estimates:
    """Return estimates that hold no rows any longer, with a note that says so."""
    unknown = no_uncertainty(len(estimates.classes))
    return replace(estimates, uncertainty_of=unknown, decisions=None).with_notes([NOT_KEPT])


def _unanswered(model: AnyModel, request: Request, merging: Merging, n: int) -> Estimates:
    """Return the estimates of n groups without a row: nothing is known of them."""
    unknown = np.full((n, len(merging.names)), np.nan)
    labelled = None if request.labelled is None else _labelled_shares([None] * n, unknown.shape[1])
    return Estimates(
        classes=merging.names,
        estimate=unknown,
        low=unknown.copy(),
        high=unknown.copy(),
        options=request.options,
        training_prevalence=merging.matrix @ np.asarray(model.prevalence),
        size=np.zeros(n, dtype=np.int64),
        effective_size=np.zeros(n),
        gap=np.full(n, np.nan),
        converged=np.ones(n, dtype=np.bool_),
        notes=[[] for _ in range(n)],
        uncertainty_of=no_uncertainty(len(merging.names)),
        decisions=None,
        positions=np.arange(n),
        marks=[()] * n,
        counted=unknown.copy(),
        labelled=labelled,
    )


def _labelled_shares(items: Sequence[Estimate | None], n_classes: int) -> dict[str, NDArray[Any]]:
    """Return what labels say about groups, by their estimates; None: a group without a row."""
    n = len(items)
    made: dict[str, NDArray[Any]] = {
        "n_labels": np.zeros(n, dtype=np.int64),
        **{name: np.full((n, n_classes), np.nan) for name in LABELLED_SHARES},
        "label_shift_p_value": np.full(n, np.nan),
        "verdict": np.full(n, "", dtype=object),
    }
    for group, item in enumerate(items):
        ways = {} if item is None else {LABEL_SHIFT: item}
        if isinstance(item, LabelledEstimate):
            ways = dict(item.alternatives)
            made["n_labels"][group] = item.n_labels
            made["verdict"][group] = item.verdict
            if item.shift_test is not None:
                made["label_shift_p_value"][group] = item.shift_test.p_value
        elif item is not None:
            made["verdict"][group] = WITHOUT_LABELS
        for way, estimate in ways.items():
            name = _column_name(way)
            for end, attribute in (("", "estimate"), ("_low", "low"), ("_high", "high")):
                made[name + end][group] = getattr(estimate, attribute)
    return made


def _select(bags: Bags, numbers: Indices) -> Bags:
    """Return the bags with some numbers, ascending."""
    if len(numbers) == len(bags):
        return bags
    spans = [np.arange(bags.offsets[b], bags.offsets[b + 1]) for b in numbers]
    places = np.concatenate(spans)
    weights = None if bags.weights is None else bags.weights[places]
    return Bags(bags.indices[places], offsets_of(bags.sizes[numbers]), bags.pool_size, weights)


def _statuses(
    model: AnyModel,
    request: Request,
    table: ScoredTable,
    bags: _GroupBags,
    estimates: Estimates,
    checks: Sequence[Checks],
) -> list[str]:
    """Return what is the matter with each group and union, in the words of a status."""
    few_labels = isinstance(model, Model) and bool(model.training_notes)
    sizes, least, labelled = bags.totals, request.options.min_size, estimates.labelled
    n, used = len(table), bags.sizes > 0
    own = np.arange(len(sizes)) < n
    marks = estimates.marks or [()] * len(sizes)
    applies = {
        EMPTY: sizes == 0,
        TOO_SMALL: (sizes > 0) & (sizes < least),
        THINNED: bags.rates < 1.0,
        MISSING_VALUES: own & (np.resize(table.missing, len(sizes)) > 0),
        UNSEEN_VALUES: own & (np.resize(table.unseen, len(sizes)) > MOST_UNSEEN * sizes),
        CANNOT_BE_TOLD: used & (estimates.high - estimates.low > WIDE).any(axis=1),
        NOT_CONVERGED: ~estimates.converged,
        FEW_LABELS: (sizes > 0) & few_labels,
        FEW_CLUSTERS: used & np.array([FEW_CLUSTERS in words for words in marks]),
        MISSING_STRATA: np.array([MISSING_STRATA in words for words in marks]),
        SMALL_STRATA: np.array([SMALL_STRATA in words for words in marks]),
        NO_LABELS: used & (labelled is not None and labelled["n_labels"] == 0),
    }
    together = not_checked("several groups together")
    fit = [*(result.status for result in checks[:n]), *[together] * (len(sizes) - n)]
    return [
        join_status(
            [
                *(word for word, where in applies.items() if where[bag]),
                # A group that is empty or too small is not checked, as these words say.
                *([fit[bag]] if sizes[bag] >= least else []),
            ]
        )
        for bag in range(len(sizes))
    ]
