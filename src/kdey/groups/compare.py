"""Did it change? Differences and ratios between the groups of a table, with intervals and p-values.

Each comparison is one of two estimates by the same templates (:func:`kdey.difference`): most of the
template error cancels, so that a difference is known better than the intervals of its two sides
suggest. A table of G comparisons of k classes makes G k tests. Their p-values are adjusted
together: by Holm's method, which bounds the chance of any false finding, or by Benjamini and
Hochberg's, which bounds the expected share of false ones among the findings. Two classes make one
test, because their shares add up to one.

Which groups are compared with which: with the previous one, with the rest, with a reference.

A :class:`Pair` is a group and the groups on the other side, which together make one bag. All
choices depend on the keys of the groups only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kdey.bags import Array, Indices
from kdey.groups.answers import answer
from kdey.groups.cluster import ClusterTable
from kdey.groups.request import Request
from kdey.groups.scoring import engine_of, score
from kdey.groups.table import GroupKeys, ScoredTable
from kdey.intervals import Difference, Estimates, difference
from kdey.intervals.differences import holm
from kdey.intervals.display import in_library, refuse_names
from kdey.model import Fitted, model_of, place_of
from kdey.options import HOLM, Options
from kdey.status import not_checked
from kdey.tables import canonical_text
from kdey.validation import as_column

#: What ``against`` takes beside a mapping of key values.
PREVIOUS, REST = "previous", "rest"


class Pair(NamedTuple):
    """A comparison.

    Attributes
    ----------
    group : int
        Number of the group.
    others : tuple of int
        Numbers of the groups that it is compared with, taken together.
    name : str
        The other side in words: "2024-01-01", "rest", "shop=A".
    """

    group: int
    others: tuple[int, ...]
    name: str


def find_pairs(
    keys: GroupKeys, time: str | None, against: str | Mapping[str, Any] | None
) -> list[Pair]:
    """Return the comparisons of a table, in the order of the groups.

    Parameters
    ----------
    keys : GroupKeys
    time : name of the key that is a time, or None
    against : "previous", "rest", mapping from key columns to values, or None
        See :func:`~kdey.groups.compare_groups`.

    Raises
    ------
    ValueError
        If there are no keys, ``against`` is none of these, or no group has another to be compared
        with.
    """
    if not keys.names:
        raise ValueError("a comparison needs groups: name their key columns in by or time")
    if against is None:  # groups without a time have no order that means anything
        against = REST if time is None else PREVIOUS
    if isinstance(against, Mapping) and against:
        pairs = _with_reference(keys, against)
    elif isinstance(against, str) and against == PREVIOUS:
        pairs = _with_previous(keys)
    elif isinstance(against, str) and against == REST:
        pairs = _with_rest(keys, time is not None)
    else:
        raise ValueError(
            f"against must be 'previous', 'rest' or a mapping from key columns to values, got "
            f"{against!r}"
        )
    if not pairs:
        raise ValueError(
            f"no group can be compared: the table has {len(keys)} groups, and none of them has "
            f"another side for against={against!r}"
        )
    return pairs


def _with_previous(keys: GroupKeys) -> list[Pair]:
    """Pair each group with the one before it among those that share all keys but the last."""
    latest: dict[tuple[str, ...], int] = {}
    pairs = []
    for group in keys.order().tolist():
        values = keys.values[group]
        series = _texts(values[:-1])
        if series in latest:
            name = canonical_text(keys.values[latest[series]][-1])
            pairs.append(Pair(group, (latest[series],), name))
        latest[series] = group
    return pairs


def _with_rest(keys: GroupKeys, timed: bool) -> list[Pair]:
    """Pair each group with all others; with keys beside the time, with those of the same time."""
    within = timed and len(keys.names) > 1
    order, values = keys.order().tolist(), keys.values
    members: dict[tuple[str, ...], list[int]] = {}
    for group in order:
        members.setdefault(_texts(values[group][-1:]) if within else (), []).append(group)
    pairs = []
    for group in order:
        together = members[_texts(values[group][-1:]) if within else ()]
        others = tuple(other for other in together if other != group)
        if others:
            pairs.append(Pair(group, others, REST))
    return pairs


def _with_reference(keys: GroupKeys, reference: Mapping[str, Any]) -> list[Pair]:
    """Pair each group with the one that has the values of the reference and its other keys."""
    unknown = [name for name in reference if name not in keys.names]
    if unknown:
        raise ValueError(
            f"against names {unknown[0]!r}, which is no key of the groups: {', '.join(keys.names)}"
        )
    texts = [_texts(values) for values in keys.values]
    number = {text: group for group, text in enumerate(texts)}
    places = {keys.names.index(name): canonical_text(v) for name, v in reference.items()}
    for place, text in places.items():
        if all(key[place] != text for key in texts):
            raise ValueError(f"no group has {keys.names[place]}={text}, which against names")
    name = ", ".join(f"{keys.names[place]}={text}" for place, text in places.items())
    pairs = []
    for group in keys.order().tolist():
        other = tuple(places.get(i, text) for i, text in enumerate(texts[group]))
        if other in number and number[other] != group:
            pairs.append(Pair(group, (number[other],), name))
    return pairs


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple("" if value is None else canonical_text(value) for value in values)


#: Names of the columns beside the keys.
COMPARISON_COLUMNS = (
    *("against", "class", "n", "n_against", "estimate", "estimate_against"),
    *("difference", "low", "high", "ratio", "ratio_low", "ratio_high"),
    *("p_value", "adjusted_p_value", "status", "status_against"),
)
_SEVERAL = not_checked("several groups together")


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons of the groups of a table, one per pair.

    Attributes
    ----------
    estimates : Estimates
        Of all groups, by their numbers, and then of the other sides that are several groups.
    pairs : sequence of Pair
        C comparisons.
    others : int64 array of shape (C,)
        Number of the other side of each among the estimates.
    differences : sequence of C times Difference or None
        None where a side has no usable instance.
    adjusted : array of shape (C, k)
        P-values adjusted for all tests of the table; NaN where there is no difference.
    correction : {"holm", "fdr"} or None

    See Also
    --------
    kdey.compare_groups : Compare the groups of a table.
    """

    estimates: Estimates
    pairs: Sequence[Pair]
    others: Indices
    differences: Sequence[Difference | None]
    adjusted: Array
    correction: str | None

    def __len__(self) -> int:
        """Return the number of comparisons."""
        return len(self.pairs)

    @property
    def groups(self) -> Indices:
        """The number of the group of each comparison, shape (C,)."""
        return np.array([pair.group for pair in self.pairs], dtype=np.int64)

    def columns(self) -> dict[str, Any]:
        """Return the columns beside the keys by name, one row per comparison and class."""
        estimates, groups, others = self.estimates, self.groups, self.others
        k, n = len(estimates.classes), len(self)
        status = np.array(estimates.status, dtype=object)
        numbers = {name: self._numbers(name) for name in COMPARISON_COLUMNS[6:13]}
        return {
            "against": np.repeat(np.array([p.name for p in self.pairs], dtype=object), k),
            "class": np.tile(estimates.classes, n),
            "n": np.repeat(estimates.size[groups], k),
            "n_against": np.repeat(estimates.size[others], k),
            "estimate": estimates.estimate[groups].ravel(),
            "estimate_against": estimates.estimate[others].ravel(),
            **{name: values.ravel() for name, values in numbers.items()},
            "adjusted_p_value": self.adjusted.ravel(),
            "status": np.repeat(status[groups], k),
            "status_against": np.repeat(
                np.where(others < len(estimates.keys), status[others], _SEVERAL), k
            ),
        }

    def _numbers(self, name: str) -> Array:
        """Return an attribute of the differences, shape (C, k); NaN where there is none."""
        unknown = np.full(len(self.estimates.classes), np.nan)
        return np.stack([unknown if d is None else getattr(d, name) for d in self.differences])

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per comparison and class.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default that of the table.

        Returns
        -------
        data frame
            The keys of the group, ``against`` (the other side in words), ``class``, ``n`` and
            ``n_against``, ``estimate`` and ``estimate_against``, ``difference`` with ``low`` and
            ``high``, ``ratio`` with ``ratio_low`` and ``ratio_high``, ``p_value``,
            ``adjusted_p_value``, ``status`` and ``status_against`` (:mod:`kdey.status`).
        """
        import narwhals as nw

        keys = self.estimates.keys
        numbers = nw.from_dict(
            {name: as_column(values) for name, values in self.columns().items()},
            backend=keys.implementation,
        )
        rows = np.repeat(self.groups, len(self.estimates.classes)).tolist()
        repeated = nw.maybe_reset_index(keys[rows])
        return in_library(nw.concat([repeated, numbers], how="horizontal"), backend)


def compare_groups(
    quantifier: Fitted,
    source: Any,
    by: str | Sequence[str] = (),
    *,
    against: str | Mapping[str, Any] | None = None,
    correction: str | None = "holm",
    time: str | None = None,
    every: str | None = None,
    scores: Sequence[str] | None = None,
    weights: str | None = None,
    clusters: str | None = None,
    merge: Mapping[Any, Any] | None = None,
    confidence: float = 0.95,
    options: Options | None = None,
) -> Comparisons:
    """Return how the prevalences of groups differ, with intervals and p-values.

    Parameters
    ----------
    quantifier : fitted quantifier
    source : data frame of pandas, polars, pyarrow, Dask or Spark, or path
        A path leads to a CSV, Parquet or Excel file, which is read in batches. The partitions of
        Dask and Spark are scored where they lie.
    by : name or names of the key columns
    against : "previous", "rest" or mapping from key columns to values, optional
        By default "previous" where there is a ``time``, and "rest" where there is none.
        "previous": each group with the one before it among those that share all keys but the last,
        which is the time where there is one. "rest": each group with all other groups together,
        with those of the same time where there are keys beside the time. A mapping such as
        ``{"shop": "A"}``: each group with the one that has these values and otherwise the same
        keys.
    correction : {"holm", "fdr"} or None
        How ``adjusted_p_value`` allows for the number of tests in the table. "holm": findings at
        ``adjusted_p_value <= 0.05`` have a chance of at most 5 % that any of them is false.
        "fdr" (Benjamini and Hochberg): at most 5 % of them are false on average. None: no
        adjustment.
    time, every : str, optional
        A column of dates or times, the last key; its periods ("1w").
    scores : sequence of str, optional
        Columns with posteriors, scores or decisions, in the order of the classes.
    weights, clusters : str, optional
        Columns with sampling weights, and with what was drawn together (people, households).
    merge : mapping from new label to classes, optional
        Groups of classes whose shares are compared, in this order.
    confidence : float in (0, 1)
        Nominal coverage of the interval of each difference by itself.
    options : Options, optional
        Everything else that an estimate can be asked for.

    Returns
    -------
    Comparisons
        :meth:`~kdey.groups.Comparisons.to_frame` makes a table of the type of ``source`` (a pyarrow
        table for a path, a pandas frame for Dask and Spark), with one row per comparison and class.

    Raises
    ------
    ValueError
        If there is nothing to compare, or an option is not allowed.

    See Also
    --------
    kdey.predict_groups : Estimate the groups of a table.
    kdey.difference : Compare two bags.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> new = X[1::2].assign(field=(y[1::2] == 0).map({True: "east", False: "west"}))
    >>> table = kdey.compare_groups(q, new, "field", against={"field": "east"}).to_frame()
    >>> table[["field", "against", "class", "difference"]].round(1)
      field     against  class  difference
    0  west  field=east      0        -1.0
    1  west  field=east      1         0.5
    2  west  field=east      2         0.5
    """
    request = Request.of(
        by,
        time=time,
        every=every,
        scores=scores,
        weights=weights,
        clusters=clusters,
        merge=merge,
        confidence=confidence,
        correction=correction,
        options=options,
    )
    if engine_of(source) is None:
        table = score(quantifier, source, request)
        return compare_scored(quantifier, table, request, against)
    refuse_names(request.names, COMPARISON_COLUMNS)
    found = ClusterTable.of(source, model_of(quantifier), request)
    pairs = find_pairs(found.keys, request.time, against)
    unions = _unions(pairs)
    estimates = found.answer(place_of(quantifier), unions, keep=True)
    return _compared(estimates, pairs, unions, request.options.correction)


def compare_scored(
    quantifier: Fitted,
    table: ScoredTable,
    request: Request,
    against: str | Mapping[str, Any] | None = None,
) -> Comparisons:
    """Return the comparisons of the groups of a table whose rows are scored.

    Parameters
    ----------
    quantifier : fitted quantifier, or its model
    table : ScoredTable
    request : Request
    against
        As for :func:`compare_groups`.
    """
    refuse_names(table.keys.names, COMPARISON_COLUMNS)
    pairs = find_pairs(table.keys, request.time, against)
    unions = _unions(pairs)
    # The other side may be many groups together: it is a further group of the same request.
    answered = answer(quantifier, table, request, unions=unions, kept=sys.maxsize)
    return _compared(
        replace(answered, keys=table.key_rows), pairs, unions, request.options.correction
    )


def _unions(pairs: Sequence[Pair]) -> list[tuple[int, ...]]:
    """Return the other sides that are several groups, each once."""
    return list(dict.fromkeys(pair.others for pair in pairs if len(pair.others) > 1))


def _compared(
    estimates: Estimates,
    pairs: Sequence[Pair],
    unions: Sequence[tuple[int, ...]],
    correction: str | None,
) -> Comparisons:
    """Return the comparisons of pairs, by the estimates of all groups and then of unions."""
    n_groups = len(estimates) - len(unions)
    number = {union: n_groups + i for i, union in enumerate(unions)}
    others = [number.get(pair.others, pair.others[0]) for pair in pairs]
    differences = [
        difference(estimates[pair.group], estimates[other])
        if estimates.size[pair.group] and estimates.size[other]
        else None
        for pair, other in zip(pairs, others, strict=True)
    ]
    unknown = np.full(len(estimates.classes), np.nan)
    raw = np.stack([unknown if d is None else d.p_value for d in differences])
    return Comparisons(
        estimates,
        pairs,
        np.array(others, dtype=np.int64),
        differences,
        adjust_p_values(raw, correction),
        correction,
    )


def adjust_p_values(p_values: Array, correction: str | None) -> Array:
    """Return the p-values of a table of comparisons, adjusted for the number of tests.

    Parameters
    ----------
    p_values : array of shape (C, k)
        NaN where there is no test.
    correction : {"holm", "fdr"} or None

    Returns
    -------
    array of shape (C, k)
    """
    from scipy.stats import false_discovery_control  # slow to import

    adjusted = p_values.copy()
    # The shares of two classes add up to one: a difference of either is the same finding.
    tested = np.isfinite(p_values)
    if p_values.shape[1] == 2:
        tested[:, 1] = False
    if correction is None or not tested.any():
        return adjusted
    raw = p_values[tested]
    adjusted[tested] = holm(raw) if correction == HOLM else false_discovery_control(raw)
    if p_values.shape[1] == 2:
        adjusted[:, 1] = adjusted[:, 0]
    return np.fmax(adjusted, p_values)  # the p-values of two classes may differ in the last digits
