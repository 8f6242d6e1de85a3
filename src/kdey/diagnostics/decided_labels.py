r"""What decided labels are worth: shares corrected by a few labels of people.

Somebody has decided every row: a rule, a person, a language model. Some rows have a label of a
person, too, which counts as the truth. :func:`audit` says what share each class really has, how
often and in which way the decisions are wrong, whether that differs between groups, and which rows
to label next.

**Shares** are prediction-powered (:mod:`kdey.labelled.shares`), with the decisions as predictions.
Labels may have been drawn at random from all rows, or at other rates from the rows of each
decision: a labelled row of decision j counts :math:`M_j / n_j` times, where :math:`n_j` of
:math:`M_j` rows have a label. Decisions with few labels are taken together. ``drawn_by`` stands for
the decisions where rows were chosen by something else, such as those of another judge. Under random
draws these weights cost one to three per cent of the width of intervals; without them, rows that
:meth:`Audit.draw_next` has chosen would bias the shares.

**Two judges** of the same rows have labels in common, so that their accuracies rise and fall
together. The interval of the difference is made of the two intervals and of the correlation of
their errors (Newcombe, 1998, method 10).

**Errors in groups.** Given the true class, the decisions of one judge look the same in every group,
whatever the shares. The chi-square distance of decisions and groups within the true classes is
compared with that of random permutations of the groups within the classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._display import (
    Overview,
    Shown,
    bar_column,
    percentages,
    row_names,
    share_decimals,
    text_column,
)
from kdey.bags import Array, Bags, Indices, cluster_codes
from kdey.diagnostics.planning import Forecast, selection_probabilities
from kdey.intervals.estimate import Decisions, Estimate
from kdey.intervals.profile import upper_quantile
from kdey.labelled.shares import (
    LabelledSample,
    prediction_powered,
    score_interval,
)
from kdey.options import Options
from kdey.status import EMPTY, FEW_LABELS, NO_LABELS, OK
from kdey.validation import check_weights, encode_labels, for_numpy, group_codes, make_frame

#: Decisions with fewer labels share the weight of their labels with others.
_FEWEST = 5
#: Groups with fewer labels have a status that says so.
_FEW_LABELS = 10
_PERMUTATIONS = 999
_LEVEL = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Shown):
    """What decided labels are worth, by the labels of people; made by :func:`kdey.audit`.

    Attributes
    ----------
    classes : array of shape (k,)
        All that occur among decisions and labels, sorted.
    shares : tuple of Estimate or None
        Of all rows, then of each group; None for one without labels. ``classify_and_count`` has the
        shares among the decisions.
    keys : dict of str to list
        The values of each key column, one for each group.
    sizes, n_labels : int64 arrays of shape (1 + number of groups,)
        Rows, and rows with a label: of all, then of each group.
    accuracy : array of shape (1 + number of groups, 3)
        Share of the decisions that are right, and the ends of its interval; NaN without labels.
    counts : int64 array of shape (k, k)
        Entry (j, i): number of labelled rows decided as j whose label is i.
    confusion : array of shape (k, k)
        Entry (j, i): the share of all rows that are decided as j and belong to i.
    change_p_value : float or None
        How probable such differences of the errors between groups are, if the decisions err in the
        same way everywhere; None without groups.
    labels_to_halve : int or None
        About how many more labels, drawn as :meth:`draw_next` draws them, would halve the widest
        interval; None if all rows together would not.
    """

    classes: NDArray[Any]
    shares: tuple[Estimate | None, ...]
    keys: dict[str, list[Any]]
    sizes: NDArray[np.int64]
    n_labels: NDArray[np.int64]
    accuracy: Array
    counts: NDArray[np.int64]
    confusion: Array
    change_p_value: float | None
    labels_to_halve: int | None
    _decided: Indices
    _labelled: NDArray[np.bool_]
    _influence: Array

    @property
    def status(self) -> list[str]:
        """What is the matter with all rows, then with each group."""
        few = [FEW_LABELS if n < _FEW_LABELS else OK for n in self.n_labels]
        none = [EMPTY if size == 0 else NO_LABELS for size in self.sizes]
        return [b if n == 0 else a for a, b, n in zip(few, none, self.n_labels, strict=True)]

    @property
    def verdict(self) -> str:
        """What was found, in a few sentences."""
        value, low, high = self.accuracy[0]
        said = [
            f"{self.n_labels[0]:,} of {self.sizes[0]:,} rows have a label: {100 * value:.0f} % of "
            f"the decisions are right ({100 * low:.0f} to {100 * high:.0f} %)",
            *self._most_frequent_errors(),
        ]
        if self.change_p_value is not None:
            p = f"p = {self.change_p_value:.2g}"
            differ = self.change_p_value < _LEVEL
            said.append(f"the errors {'differ' if differ else 'do not differ'} by group ({p})")
        more = self.labels_to_halve
        said.append(
            "even labels of all rows would not halve the widest interval"
            if more is None
            else f"about {more:,} more labels would halve the widest interval"
        )
        return "; ".join(said)

    def _most_frequent_errors(self) -> list[str]:
        wrong = np.where(np.eye(len(self.classes), dtype=bool), 0.0, self.confusion)
        j, i = np.unravel_index(int(wrong.argmax()), wrong.shape)
        if wrong[j, i] == 0.0:
            return []
        right, said = self.classes[i], self.classes[j]
        return [
            f"most often, {right!s} is taken for {said!s} ({100 * wrong[j, i]:.1f} % of all rows)"
        ]

    def judge(self, backend: str | None = None) -> Any:
        """Return a data frame that says for each class how the decisions treat it.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
            ``precision`` is the share of the rows decided as the class that belong to it,
            ``recall`` the share of those that belong to it which are decided so; both are NaN where
            no label tells. ``n_decided`` and ``n_human`` count labelled rows.
        """
        right = np.diag(self.confusion)
        with np.errstate(invalid="ignore", divide="ignore"):
            precision = right / self.confusion.sum(axis=1)
            recall = right / self.confusion.sum(axis=0)
        columns = {
            "class": list(self.classes),
            "precision": precision,
            "recall": recall,
            "n_decided": self.counts.sum(axis=1),
            "n_human": self.counts.sum(axis=0),
        }
        return make_frame(columns, backend)

    def more_often_right(self, other: Audit) -> tuple[float, float, float]:
        """Return by how much the accuracy exceeds that of another judge, and its interval.

        Parameters
        ----------
        other : Audit
            Of the same rows and labels, with the same weights, clusters and confidence.

        Returns
        -------
        difference, low, high : float
            Negative where the other is right more often.

        Raises
        ------
        ValueError
            If the rows or labels are others.
        """
        if not np.array_equal(self._labelled, other._labelled) or len(self._influence) != len(
            other._influence
        ):
            raise ValueError("two audits are compared on the same rows and labels: these differ")
        (a, a_low, a_high), (b, b_low, b_high) = self.accuracy[0], other.accuracy[0]
        first, second = self._influence, other._influence
        norm = float(np.sqrt((first @ first) * (second @ second)))
        together = float(first @ second) / norm if norm > 0.0 else 0.0

        def half(mine: float, its: float) -> float:
            return float(np.sqrt(max(mine**2 + its**2 - 2.0 * together * mine * its, 0.0)))

        return a - b, a - b - half(a - a_low, b_high - b), a - b + half(a_high - a, b - b_low)

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per group and class.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
            Key columns, ``class``, ``estimate``, ``low``, ``high``, ``decided`` (share among the
            decisions), ``n``, ``n_labels`` and ``status``. Without groups one row per class.
        """
        first = 1 if self.keys else 0
        k, n = len(self.classes), len(self.shares) - first
        empty = np.full(k, np.nan)
        parts = self.shares[first:]
        columns: dict[str, Any] = {
            name: [value for value in values for _ in range(k)]
            for name, values in self.keys.items()
        }
        columns["class"] = list(self.classes) * n
        for name in ("estimate", "low", "high"):
            found = [empty if part is None else getattr(part, name) for part in parts]
            columns[name] = np.concatenate(found)
        columns["decided"] = np.concatenate(
            [empty if part is None else part.classify_and_count for part in parts]
        )
        columns["n"] = np.repeat(self.sizes[first:], k)
        columns["n_labels"] = np.repeat(self.n_labels[first:], k)
        columns["status"] = [word for word in self.status[first:] for _ in range(k)]
        return make_frame(columns, backend)

    def draw_next(self, n: int, seed: int = 0) -> Indices:
        """Return the rows that should get the next labels.

        Rows are drawn at random among those of each decision, more of them from decisions whose
        true class is uncertain. A later audit with their labels is valid, because it weighs the
        labels of each decision by the number of its rows.

        Parameters
        ----------
        n : int
            How many rows; at most all without a label.
        seed : int
            Seed of the draw.

        Returns
        -------
        int64 array
            Positions of rows without a label, sorted.

        Raises
        ------
        ValueError
            If ``n`` is not positive.

        Examples
        --------
        >>> from kdey import audit
        >>> found = audit(["a", "a", "b", "b", "b"] * 20, ["a", "b", "b", None, None] * 20)
        >>> len(found.draw_next(10))
        10
        """
        if n < 1:
            raise ValueError(f"n must be a number of rows, at least 1, got {n!r}")
        free = np.flatnonzero(~self._labelled)
        k = len(self.classes)
        all_rows = np.bincount(self._decided, minlength=k)
        total = min(int(self._labelled.sum()) + n, len(self._decided))
        wanted = selection_probabilities(self.predictions(), total)
        per_decision = np.bincount(self._decided, weights=wanted, minlength=k)
        missing = np.maximum(per_decision - self.counts.sum(axis=1), 0.0)
        left = np.bincount(self._decided[free], minlength=k)
        quota = _whole_numbers(missing, np.minimum(left, all_rows), min(n, len(free)))
        rng = np.random.default_rng(seed)
        drawn = [
            rng.choice(free[self._decided[free] == j], quota[j], replace=False)
            for j in np.flatnonzero(quota)
        ]
        return np.sort(np.concatenate([*drawn, np.zeros(0, np.int64)])).astype(np.int64)

    def predictions(self) -> Array:
        """Return for each row the probable shares of the true classes, given its decision."""
        return _class_given_decision(self.confusion, self.counts)[self._decided]

    def overview(self) -> Overview:
        """Return the verdict and a table of the shares of all rows."""
        whole = self.shares[0]
        assert whole is not None
        assert whole.classify_and_count is not None
        decimals = share_decimals(whole.estimate, whole.high - whole.low)
        numbers = {
            "estimate": whole.estimate,
            "low": whole.low,
            "high": whole.high,
            "decided": whole.classify_and_count,
        }
        columns = [
            text_column(name, percentages(values, decimals), importance=9)
            for name, values in numbers.items()
        ]
        bars = bar_column(whole.estimate, whole.low, whole.high)
        return Overview(
            f"{self.verdict}.", row_names("class", self.classes), (*columns[:3], bars, columns[3])
        )


def audit(
    decided: ArrayLike,
    human: ArrayLike,
    *,
    by: Mapping[str, ArrayLike] | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    drawn_by: ArrayLike | None = None,
    confidence: float = 0.95,
    target: str = "population",
    seed: int = 0,
) -> Audit:
    """Return what decided labels are worth, by the labels that people gave to some rows.

    No model is fitted, and nothing is assumed of the decisions: the intervals hold however wrong
    they are, as long as the rows with labels of people were drawn at random from all rows, or at
    random from the rows of each decision.

    Parameters
    ----------
    decided : array-like of shape (n,)
        The label that a rule, a person or a language model has given to each row.
    human : array-like of shape (n,)
        The label of a person, which counts as the truth; None, NaN or an empty text elsewhere.
    by : mapping of str to array-like of shape (n,), optional
        Key columns: the rows with equal keys are a group of their own.
    sample_weight, clusters : array-likes of shape (n,), optional
        Sampling weights, and the clusters in which rows were drawn.
    drawn_by : array-like of shape (n,), optional
        Where the rows with labels were drawn at other rates by something else than ``decided``,
        such as the decisions of another judge: its value in each row.
    confidence : float
        Of the intervals.
    target : {"population", "bag"}
        Whether the shares are those of the population behind the rows, or of these very rows.
    seed : int
        Of the permutations.

    Returns
    -------
    Audit

    Raises
    ------
    ValueError
        If a decision is missing, no row has a label, or lengths differ.

    See Also
    --------
    kdey.diagnostics.Audit : What can be read from the result.
    kdey.labelled.estimate_label_noise : How often labels are wrong, from two labels of a row.

    Examples
    --------
    A judge that calls half of the wrong answers right; every fifth row has a label.

    >>> import numpy as np
    >>> from kdey import audit
    >>> truth = np.tile(["right", "right", "right", "wrong", "wrong"], 400)
    >>> judged = np.where(np.arange(2000) % 5 == 4, "right", truth)
    >>> human = np.where(np.random.default_rng(0).random(2000) < 0.2, truth, None)
    >>> found = audit(judged, human)
    >>> share, counted = found.shares[0], found.shares[0].classify_and_count
    >>> counted.round(2), share.estimate.round(1)
    (array([0.8, 0.2]), array([0.6, 0.4]))
    >>> bool(share.low[1] < 0.4 < share.high[1])
    True
    """
    options = Options(confidence=confidence, target=target)
    said, marks, classes = _codes(decided, human)
    n = len(said)
    names, members = _groups(by, n)
    w = np.ones(n) if sample_weight is None else check_weights(sample_weight, n)
    if not w[marks >= 0].any():
        raise ValueError("no row with a label has a weight above zero")
    drawn = None if clusters is None else cluster_codes(clusters, n)
    rows = [np.arange(n), *members]
    strata = said if drawn_by is None else group_codes(drawn_by, "drawn_by")[1]
    if len(strata) != n:
        raise ValueError(f"drawn_by has {len(strata)} rows, but decided has {n}")
    judged = [
        _judge(said[i], marks[i], classes, w[i], _part(drawn, i), strata[i], options) for i in rows
    ]
    whole, labelled = judged[0], marks >= 0
    counts = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(counts, (said[labelled], marks[labelled]), 1)
    found = Audit(
        classes=classes,
        shares=tuple(one.shares for one in judged),
        keys=names,
        sizes=np.array([len(i) for i in rows], np.int64),
        n_labels=np.array([int(labelled[i].sum()) for i in rows], np.int64),
        accuracy=np.array([one.accuracy for one in judged]),
        counts=counts,
        confusion=whole.confusion,
        change_p_value=_change(said, marks, members, seed) if by is not None else None,
        labels_to_halve=None,
        _decided=said,
        _labelled=labelled,
        _influence=whole.influence,
    )
    return replace(found, labels_to_halve=_labels_to_halve(found, options))


class _Judged(NamedTuple):
    """The shares, accuracy and confusion of some rows; None and NaN without labels.

    ``influence`` is that of the rows, or of their clusters, on the accuracy.
    """

    shares: Estimate | None
    accuracy: tuple[float, float, float]
    confusion: Array
    influence: Array


def _judge(
    said: Indices,
    marks: Indices,
    classes: NDArray[Any],
    weights: Array,
    clusters: Indices | None,
    strata: Indices,
    options: Options,
) -> _Judged:
    """Return what the labels of some rows say of their decisions; ``marks`` are -1 without one."""
    k, positions = len(classes), np.flatnonzero((marks >= 0) & (weights > 0))
    if not len(positions):
        nothing = np.full((k, k), np.nan)
        return _Judged(None, (np.nan, np.nan, np.nan), nothing, np.zeros(0))
    sample = LabelledSample(
        size=len(said),
        positions=positions,
        codes=marks[positions],
        n_classes=k,
        weights=weights,
        selection=_selection(strata, positions),
        clusters=None if clusters is None else np.unique(clusters, return_inverse=True)[1],
    )
    decisions = np.eye(k)[said]
    found = prediction_powered(
        sample.one_hot, decisions, sample, options.tail(k), options.target == "population"
    )
    w = sample.label_weights
    confusion = np.zeros((k, k))
    np.add.at(confusion, (said[positions], sample.codes), w)
    right = np.array([np.trace(confusion)])
    quantile = upper_quantile(options.tail(1), sample.freedom)
    hit = (said[positions] == sample.codes).astype(np.float64)[:, None]
    influence = np.zeros((len(said), 1))
    influence[positions] = w[:, None] * (hit - right)
    effect = sample.design_effect(influence)
    low, high = score_interval(right, 0.0, effect / sample.label_size, quantile)
    bag = Bags.whole(len(said), weights)
    shares = Estimate(
        classes=classes,
        estimate=found.estimate,
        low=found.low,
        high=found.high,
        confidence=options.confidence,
        target=options.target,
        simultaneous=False,
        training_prevalence=w @ sample.one_hot,
        size=len(sample.members),
        gap=np.nan,
        converged=True,
        uncertainty=found,
        decisions=Decisions(decisions, bag),
        diagnostics={"effective_labels": sample.label_size},
    )
    units = np.arange(len(said)) if sample.clusters is None else sample.clusters
    errors = np.bincount(units, weights=influence[:, 0]).astype(np.float64)
    return _Judged(shares, (float(right[0]), float(low[0]), float(high[0])), confusion, errors)


def _selection(strata: Indices, positions: Indices) -> Array:
    """Return the share of labelled rows among those of the stratum of each labelled row."""
    all_rows = np.bincount(strata)
    n = np.bincount(strata[positions], minlength=len(all_rows))
    occurs = all_rows > 0
    together = occurs & (n < _FEWEST)
    # One that has enough labels joins those that have too few, the smallest first.
    while together.any() and n[together].sum() < _FEWEST and (occurs & ~together).any():
        rest = np.flatnonzero(occurs & ~together)
        together[rest[np.argmin(n[rest])]] = True
    rates = n / np.maximum(all_rows, 1)
    if together.any():
        rates[together] = n[together].sum() / all_rows[together].sum()
    return np.asarray(rates[strata[positions]])


def _codes(decided: ArrayLike, human: ArrayLike) -> tuple[Indices, Indices, NDArray[Any]]:
    """Return class numbers of decisions and of labels (-1: none), and the classes."""
    pair = [
        np.asarray(for_numpy(values, name), dtype=object)
        for values, name in ((decided, "decided"), (human, "human"))
    ]
    for values, name in zip(pair, ("decided", "human"), strict=True):
        if values.ndim != 1:
            raise ValueError(f"{name} must be a vector of labels, got shape {values.shape}")
    if len(pair[0]) != len(pair[1]):
        raise ValueError(
            "decided and human must be labels of the same rows, got "
            f"{len(pair[0])} and {len(pair[1])}"
        )
    none = [np.array([v is None or v != v or v == "" for v in values]) for values in pair]
    if none[0].any():
        raise ValueError(
            f"decided has {int(none[0].sum())} missing label(s), the first in row "
            f"{int(np.argmax(none[0]))}: every row needs a decision; leave out the others"
        )
    known = ~none[1]
    if not known.any():
        raise ValueError("human has no label: at least one row must have the label of a person")
    both = np.concatenate([pair[0], pair[1][known]]).tolist()
    codes, classes = encode_labels(np.array(both))
    marks = np.full(len(known), -1, np.int64)
    marks[known] = codes[len(known) :]
    return codes[: len(known)], marks, classes


def _groups(
    by: Mapping[str, ArrayLike] | None, n: int
) -> tuple[dict[str, list[Any]], list[Indices]]:
    """Return the values of the keys of each group, and its rows; groups are sorted."""
    if by is None:
        return {}, []
    if not isinstance(by, Mapping) or not by:
        raise ValueError('by must be a mapping of names to columns, such as {"city": city}')
    columns = {name: group_codes(values, f"by[{name!r}]") for name, values in by.items()}
    for name, (_, codes) in columns.items():
        if len(codes) != n:
            raise ValueError(f"by[{name!r}] has {len(codes)} rows, but decided has {n}")
    codes = np.stack([codes for _, codes in columns.values()], axis=1)
    distinct, group = np.unique(codes, axis=0, return_inverse=True)
    group = group.ravel()
    keys = {
        name: [values[i] for i in distinct[:, place].tolist()]
        for place, (name, (found, _)) in enumerate(columns.items())
        for values in [found.tolist()]
    }
    order = np.argsort(group, kind="stable")
    return keys, np.split(order, np.cumsum(np.bincount(group))[:-1])


def _part(values: Indices | None, rows: Indices) -> Indices | None:
    return None if values is None else values[rows]


def _change(said: Indices, marks: Indices, members: list[Indices], seed: int) -> float | None:
    """Return the p-value of decisions erring in the same way in all groups; None without two."""
    group = np.zeros(len(said), np.int64)
    for number, rows in enumerate(members):
        group[rows] = number
    rows = np.flatnonzero(marks >= 0)
    truth, decision, place = marks[rows], said[rows], group[rows]
    if len(np.unique(place)) < 2:
        return None
    rng = np.random.default_rng(seed)
    classes = [np.flatnonzero(truth == i) for i in np.unique(truth)]

    def distance() -> float:
        return sum(_chi_square(decision[i], place[i]) for i in classes)

    observed, extreme = distance(), 0
    for _ in range(_PERMUTATIONS):
        for i in classes:
            place[i] = rng.permutation(place[i])
        extreme += distance() >= observed * (1.0 - 1e-9)
    return (1 + extreme) / (_PERMUTATIONS + 1)


def _chi_square(first: Indices, second: Indices) -> float:
    """Return the chi-square distance of the joint counts of two codes from independence."""
    from scipy.stats.contingency import crosstab, expected_freq  # slow to import

    table = crosstab(first, second).count
    expected = expected_freq(table)
    return float(((table - expected) ** 2 / expected).sum())


def _class_given_decision(confusion: Array, counts: NDArray[np.int64]) -> Array:
    """Return the shares of the true classes among the rows of each decision, shape (k, k).

    Each decision has one more label, half of it by the decision and half by the shares of all, so
    that a few labels that agree do not make it certain.
    """
    n, total = counts.sum(axis=1), confusion.sum(axis=1)
    rows = np.where(total[:, None] > 0, confusion / np.maximum(total, 1e-300)[:, None], 0.0)
    usual = 0.5 * np.eye(len(n)) + 0.5 * confusion.sum(axis=0)
    return np.asarray((n[:, None] * rows + usual) / (n[:, None] + 1.0))


def _labels_to_halve(found: Audit, options: Options) -> int | None:
    whole = found.shares[0]
    assert whole is not None
    forecast = Forecast(found.predictions(), options)
    width = float((whole.high - whole.low).max())
    total = forecast.fewest(width / 2.0) if width > 0.0 else 0
    return None if total is None else max(total - int(found.n_labels[0]), 0)


def _whole_numbers(shares: Array, most: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return n as a sum of whole numbers in proportion to shares, none above ``most``."""
    found = np.zeros(len(most), np.int64)
    while n > (done := int(found.sum())):
        open_ = np.where(found < most, shares, 0.0)
        open_ = open_ if open_.sum() > 0 else (found < most).astype(np.float64)
        exact = (n - done) * open_ / open_.sum()
        step = np.minimum(np.floor(exact).astype(np.int64), most - found)
        if not step.any():
            step[int(np.argmax(np.where(found < most, exact, -1.0)))] = 1
        found += step
    return found
