"""Running totals: the current shares of a stream, at any time, from a bounded sample of its rows.

Items are scored as they come, by the one pipeline of tables (``scoring.py``), and fall into buckets
of time. Of each bucket the rows with the smallest ranks are kept, a rank being a hash of the row
and a seed. Equal rows have one rank, and their copies are counted. Which rows these are therefore
depends on nothing but the rows of the bucket: accumulators of several processes can be merged in
any order, and give what one alone would have given.

A bucket whose rows fit is complete, and answers as the table of its rows does. Of another one the
distinct rows that are kept stand for all of them, each with the number of its copies, and its
status says so. Answers come from ``answers.py``, like those of a group that was thinned.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Self

import joblib
import numpy as np

from kdey._display import count_of
from kdey._fingerprints import Hashes, mix
from kdey.bags import Indices
from kdey.groups.answers import answer
from kdey.groups.request import Request, parse_period, period_numbers
from kdey.groups.scoring import score
from kdey.groups.table import GroupKeys, ScoredRows, ScoredTable, joined_rows
from kdey.intervals import Estimate
from kdey.model import AnyModel, CombinedModel, Fitted, Model, model_of
from kdey.validation import check_count

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Bucket:
    """What is kept of the items of a period.

    Attributes
    ----------
    rows : ScoredRows
        Distinct, by ascending rank.
    ranks : uint64 array of shape (n,)
    copies : int64 array of shape (n,)
        How many equal rows each of them stands for.
    size, missing, unseen : int
        Usable items that were added, items without a score or feature, and usable items with a
        value that training lacks.
    """

    rows: ScoredRows
    ranks: Hashes
    copies: Indices
    size: int
    missing: int
    unseen: int

    @property
    def is_complete(self) -> bool:
        """Whether all rows of the bucket are here."""
        return int(self.copies.sum()) == self.size

    def joined(self, other: Bucket | None, most: int) -> Bucket:
        """Return what is kept of the items of both together; of one alone without another."""
        both = [self] if other is None else [self, other]
        ranks = np.concatenate([bucket.ranks for bucket in both])
        distinct, first, which = np.unique(ranks, return_index=True, return_inverse=True)
        copies = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(copies, which, np.concatenate([bucket.copies for bucket in both]))
        rows = joined_rows([bucket.rows for bucket in both]).take(first[:most])
        counts = (sum(getattr(b, name) for b in both) for name in ("size", "missing", "unseen"))
        return Bucket(rows, distinct[:most], copies[:most], *counts)


class Accumulator:
    """Current shares of a stream of items, in bounded time and memory.

    Several threads may use it at once. A copy that went through pickle has no quantifier: it can
    be merged into another one, and no more.

    Parameters
    ----------
    quantifier : fitted quantifier
    every : str, optional
        Length of the buckets that items are counted in, such as "1h"; see
        :func:`kdey.predict_groups`. By default all items are in one.
    time : str, optional
        Column that says when an item came. By default the call that adds it says so.
    window : int, optional
        Number of buckets that are kept, the newest one included. By default all are.
    most : int
        Distinct rows that are kept of each bucket.
    seed : int
        Of the choice of these rows.
    **asked
        ``scores``, ``confidence`` and ``options`` as for :func:`kdey.predict_groups`. Items count
        alike: there are no keys, weights, clusters, strata or labels.

    See Also
    --------
    kdey.predict_groups : Estimate the groups of a table.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> morning, noon = (kdey.groups.Accumulator(q, every="1h") for _ in range(2))
    >>> morning.add(X[1:75:2], "2024-05-06 09:30")
    >>> noon.add(X[75::2], "2024-05-06 12:10")
    >>> morning.merge(noon).estimate().estimate.round(1)
    array([0.3, 0.3, 0.3])
    >>> morning.estimate(since="2024-05-06 12:00").size
    38
    """

    def __init__(
        self,
        quantifier: Fitted,
        *,
        every: str | None = None,
        time: str | None = None,
        window: int | None = None,
        most: int = 2_000,
        seed: int = 0,
        **asked: Any,
    ) -> None:
        request = Request.of(time=time, every=every if time else None, **asked)
        if request.by or request.is_pooled or request.no_features != request.names:
            raise ValueError(
                "an accumulator takes items that count alike: leave by, key, weights, clusters, "
                "strata, labels, shrink and smooth out"
            )
        if every is not None:
            parse_period(every)
        elif time is not None or window is not None:
            raise ValueError("time and window need every, the length of the buckets")
        for name, value in (("window", window), ("most", most)):
            if value is not None:
                check_count(value, name)
        self.quantifier: Fitted | None = quantifier
        self.every, self.window, self.most, self.seed = every, window, most, seed
        self._request, self._digest = request, _digest(model_of(quantifier))
        self._buckets: dict[int, Bucket] = {}
        self._lock = Lock()

    def add(self, items: Any, at: datetime | str | None = None) -> None:
        """Add items.

        Parameters
        ----------
        items : data frame of pandas, polars or pyarrow
            Features as ``fit`` took them or, with ``scores``, posteriors. They are scored together:
            many at once cost little more than one.
        at : datetime or text in ISO 8601, optional
            When they came, if no column says so; by default now. Times with a zone are turned into
            UTC.
        """
        table = score(self._fitted, items, self._request)
        if self._request.time is None:
            moments = [datetime.now(UTC) if at is None else at]
        elif at is None:
            moments = [value[0] for value in table.keys.values]
        else:
            raise ValueError("a column says when the items came: leave at out")
        ranks = mix(table.rows.hashes + mix(np.array([self.seed], dtype=np.uint64)))
        found = {}
        for group, moment in enumerate(moments):
            own = np.flatnonzero(table.rows.groups == group)
            counts = (values[group] for values in (table.sizes, table.missing, table.unseen))
            bucket = Bucket(table.rows.take(own), ranks[own], np.ones(len(own), np.int64), *counts)
            found[self._number(moment)] = bucket.joined(None, self.most)
        self._put(found)

    def merge(self, *others: Accumulator) -> Self:
        """Add what others of the same kind have seen; return self.

        Raises
        ------
        ValueError
            If another one has another model, period, bound or seed.
        """
        for other in others:
            if self._kind != other._kind:
                raise ValueError(
                    "accumulators that are merged must have the same model, every, most and seed"
                )
            with other._lock:
                buckets = dict(other._buckets)
            self._put(buckets)
        return self

    def drop(self, before: datetime | str) -> None:
        """Forget the buckets that begin before the one of this time."""
        first = self._number(before)
        with self._lock:
            self._forget(first)

    def estimate(
        self, since: datetime | str | None = None, until: datetime | str | None = None
    ) -> Estimate:
        """Return the shares of the items of some time, with intervals, checks and a status.

        Parameters
        ----------
        since, until : datetime or text in ISO 8601, optional
            From the bucket of the first time on, up to that of the second, which is not included.

        Raises
        ------
        ValueError
            If no items of this time are there.
        """
        first = -np.inf if since is None else self._number(since)
        stop = np.inf if until is None else self._number(until)
        with self._lock:
            chosen = [b for number, b in sorted(self._buckets.items()) if first <= number < stop]
        if not chosen:
            raise ValueError("there are no items of this time: add some, or ask for another time")
        return answer(self._fitted, _table_of(chosen), self._request, kept=sys.maxsize)[0]

    @property
    def size(self) -> int:
        """Number of usable items in all buckets."""
        with self._lock:
            return sum(bucket.size for bucket in self._buckets.values())

    @property
    def _fitted(self) -> Fitted:
        if self.quantifier is None:
            raise ValueError(
                "this accumulator comes from another process, without its quantifier: merge it "
                "into one that has it"
            )
        return self.quantifier

    @property
    def _kind(self) -> tuple[Any, ...]:
        return self._digest, self._request, self.every, self.most, self.seed

    def _put(self, buckets: Mapping[int, Bucket]) -> None:
        late = 0
        with self._lock:
            for number, bucket in buckets.items():
                known = self._buckets.get(number)
                self._buckets[number] = bucket if known is None else known.joined(bucket, self.most)
            if self.window is not None and self._buckets:
                first = max(self._buckets) - self.window + 1
                late = sum(bucket.size for number, bucket in buckets.items() if number < first)
                self._forget(first)
        if late:
            logger.warning("%s not counted: older than the window", count_of(late, "item"))

    def _forget(self, first: int) -> None:
        """Forget the buckets before one; the lock is held."""
        self._buckets = {n: bucket for n, bucket in self._buckets.items() if n >= first}

    def _number(self, moment: Any) -> int:
        """Return the number of the bucket of a time."""
        if moment is None:
            raise ValueError(f"column {self._request.time!r} lacks the time of some items")
        if self.every is None:
            return 0
        if isinstance(moment, str):
            moment = datetime.fromisoformat(moment)
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        return int(period_numbers(np.array([moment], dtype="datetime64[us]"), self.every)[0])

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the quantifier."""
        with self._lock:
            state = {**vars(self), "_buckets": dict(self._buckets), "quantifier": None}
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled."""
        vars(self).update(state)
        self._lock = Lock()

    def __repr__(self) -> str:
        """Return how many items are there."""
        with self._lock:
            count = len(self._buckets)
        return f"Accumulator of {self.size:,} items in {count_of(count, 'bucket')}"


def _table_of(buckets: Sequence[Bucket]) -> ScoredTable:
    """Return the rows of buckets as a table of one group; those of thinned ones have weights."""
    parts, weights = [], []
    for bucket in buckets:
        times = bucket.copies if bucket.is_complete else np.ones_like(bucket.copies)
        parts.append(bucket.rows.take(np.repeat(np.arange(len(times)), times)))
        worth = bucket.size / max(int(bucket.copies.sum()), 1)
        own = np.ones(len(parts[-1])) if bucket.is_complete else bucket.copies * worth
        weights.append(own)
    rows = joined_rows(parts)
    rows = replace(rows, groups=np.zeros(len(rows), dtype=np.int32))
    if not all(bucket.is_complete for bucket in buckets):
        rows = replace(rows, weights=np.concatenate(weights))
    size, missing, unseen = (
        np.array([sum(getattr(bucket, name) for bucket in buckets)], dtype=np.int64)
        for name in ("size", "missing", "unseen")
    )
    kept = sum(int(bucket.copies.sum()) for bucket in buckets)
    rates = np.array([kept / max(int(size[0]), 1)])
    return ScoredTable(GroupKeys(()), None, rows, size, missing, unseen, np.maximum(rates, 1e-12))


def _digest(model: AnyModel) -> str:
    """Return what tells whether two accumulators have the same model."""
    if isinstance(model, CombinedModel):
        return "+".join(map(_digest, model.members))
    if isinstance(model, Model):
        return model.digest
    try:
        # Of another library: by its content, which pickle alone would write in several ways.
        return str(joblib.hash(model.quantifier))
    except Exception:  # pickle may raise anything; what it cannot write stays in this process
        return f"object {id(model.quantifier)}"
