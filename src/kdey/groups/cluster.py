"""Data frames of Dask and Spark: rows are scored where they lie, whole groups answered in buckets.

A first pass over the keys alone settles types, dates that are written as text, sizes of groups and
how far large ones are thinned. Rows are then scored in their partitions and keep a number of their
group, scores, a hash and the columns of the design. The engine's own shuffle brings groups
together, and buckets of whole groups are answered by the very function that answers them in memory
(``answers.py``). Answers alone come back.

A group is known by a hash of the canonical texts of its keys, of which a missing one is the empty
text: engines differ in what they make of missing keys and of types.
"""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kdey._caching import text_hashes
from kdey.bags import Indices
from kdey.groups.answers import WHOLE, answer, thinning_ranks
from kdey.groups.keys import GroupKeys, key_texts
from kdey.groups.pooling import check_size
from kdey.groups.request import UNLABELLED, Request, RowDesign
from kdey.groups.scoring import Instances, ScoredRows
from kdey.groups.table import ScoredTable, TableReader
from kdey.intervals import Estimates
from kdey.intervals.estimate import join_estimates, no_uncertainty
from kdey.model import AnyModel, Place

if TYPE_CHECKING:
    import pandas as pd

#: Bytes of scores of a bucket of groups that is answered at once.
BUCKET = 1 << 26
_COUNTS = ("sizes", "missing", "unseen")


class Cluster(Protocol):
    """A data frame in partitions. What its functions take and return are pandas frames."""

    @property
    def columns(self) -> list[str]:
        """The columns of the frame."""

    def collect(self, task: Any, columns: Sequence[str] | None) -> list[Any]:
        """Return what ``task.run`` makes of each partition, in this process."""

    def shuffle(self, scoring: Scoring, answering: Answering, n_buckets: int) -> list[Any]:
        """Score partitions, bring groups together and return what answering makes of them."""


def cluster_of(source: Any) -> ClusterTable | None:
    """Return a data frame of Dask or Spark as a table; None for other sources."""
    if _is_frame_of(source, "dask.dataframe"):
        return ClusterTable(Dask(source))
    return ClusterTable(Spark(source)) if _is_frame_of(source, "pyspark.sql") else None


def _is_frame_of(frame: Any, library: str) -> bool:
    """Return whether this is a data frame of ``library``, which is not imported for it."""
    module = sys.modules.get(library)
    return module is not None and isinstance(frame, module.DataFrame)


@dataclass(frozen=True, eq=False)
class ClusterTable:
    """The groups of a data frame of Dask or Spark.

    Attributes
    ----------
    cluster : Cluster
    """

    cluster: Cluster

    def estimate(self, model: AnyModel, request: Request, place: Place) -> Estimates:
        """Return the estimates of all groups, in the order of their keys."""
        reader, found = self._prepare(model, request)
        row_bytes = 8 * model.n_classes
        large = found.counts * row_bytes > WHOLE
        rates = {
            int(group): WHOLE / (row_bytes * int(count))
            for group, count in zip(found.ids[large], found.counts[large], strict=True)
        }
        n_buckets = max(1, math.ceil(int(found.counts.sum()) * row_bytes / BUCKET))
        scoring, answering = Scoring(reader, rates), Answering(model, request, rates, place)
        answers = self.cluster.shuffle(scoring, answering, n_buckets)
        numbers = np.concatenate([ids for ids, _ in answers])
        joined = join_estimates([estimates for _, estimates in answers])
        found_at = np.argsort(numbers)[np.searchsorted(np.sort(numbers), found.ids)]
        estimates = replace(joined.take(found_at), keys=found.key_rows)
        return estimates.take(found.keys.order())

    def gather(self, model: AnyModel, request: Request) -> ScoredTable:
        """Return all rows, scored, in this process: what pooling needs."""
        reader, found = self._prepare(model, request)
        check_size(float(found.counts.sum()) * 8 * model.n_classes)
        parts = self.cluster.collect(Scoring(reader, {}), reader.columns)
        ids, table = table_of(_concat(parts), {}, request)
        place = np.argsort(found.ids)[np.searchsorted(np.sort(found.ids), ids)]
        counts: dict[str, Any] = {
            name: np.zeros(len(found.ids), dtype=np.int64) for name in _COUNTS
        }
        for name in _COUNTS:
            counts[name][place] = getattr(table, name)
        return replace(
            table,
            keys=found.keys,
            key_rows=found.key_rows,
            codes=place[table.codes].astype(np.int32),
            rates=np.ones(len(found.ids)),
            **counts,
        )

    def _prepare(self, model: AnyModel, request: Request) -> tuple[TableReader, FoundGroups]:
        """Return the reader of partitions, and the groups that are there."""
        import narwhals as nw

        reader = TableReader.of(model, request)
        reader.check_columns(self.cluster.columns)
        grouping = reader.grouping
        if grouping.time is not None and grouping.date_format == "auto":
            times = self.cluster.collect(DistinctTimes(grouping.time), [grouping.time])
            frame = nw.from_native(_concat(times), eager_only=True)
            reader = replace(reader, grouping=grouping.settled([frame]))
        names = list(grouping.names) or self.cluster.columns[:1]
        parts = self.cluster.collect(CountGroups(reader), names)
        return reader, FoundGroups.of(parts, request)


@dataclass(frozen=True, eq=False)
class FoundGroups:
    """The groups of a table, numbered in this process.

    Attributes
    ----------
    keys : GroupKeys
    key_rows : narwhals frame
    ids : int64 array of shape (n_groups,)
        By which workers know the groups.
    counts : int64 array of shape (n_groups,)
        Rows of each group.
    """

    keys: GroupKeys
    key_rows: Any
    ids: Indices
    counts: Indices

    @classmethod
    def of(cls, parts: Sequence[Any], request: Request) -> FoundGroups:
        """Return the groups that partitions have, from what :class:`CountGroups` made of them."""
        import narwhals as nw

        names = request.grouping.names
        keys = GroupKeys(names)
        frames = [part for part in parts if len(part)]
        if not frames:
            raise ValueError("frame has no rows")
        rows, counts = [], np.zeros(0, dtype=np.int64)
        for frame in frames:
            table = nw.from_native(frame, eager_only=True)
            known = len(keys)
            numbers = keys.encode([table[name] for name in names], len(table))
            rows.append(frame[list(names)][numbers >= known])
            counts = np.concatenate([counts, np.zeros(len(keys) - known, dtype=np.int64)])
            np.add.at(counts, numbers, frame[_COUNT].to_numpy())
        ids = group_ids([key_texts(value) for value in keys.values])
        if len(np.unique(ids)) < len(ids):
            raise ValueError("two groups have the same hash: rename the value of a key")
        key_rows = nw.from_native(_concat(rows), eager_only=True)
        return cls(keys, key_rows, ids, counts)


_COUNT = "kdey rows"


def group_ids(texts: Iterable[tuple[str, ...]]) -> Indices:
    """Return by which number a group is known on all workers, from the texts of its keys."""
    return text_hashes("\x1f".join(key) for key in texts).view(np.int64)


def _concat(frames: Sequence[Any]) -> pd.DataFrame:
    import pandas as pd

    whole: pd.DataFrame = pd.concat(list(frames), ignore_index=True)
    return whole


def _table(frame: pd.DataFrame) -> Any:
    import narwhals as nw

    return nw.from_native(frame.reset_index(drop=True), eager_only=True)


@dataclass(frozen=True, eq=False)
class DistinctTimes:
    """The texts of the column of times in a partition, each once; other types say all at once."""

    time: str

    def run(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a frame with the column of times."""
        times: pd.DataFrame = frame[[self.time]].drop_duplicates()
        return times


@dataclass(frozen=True, eq=False)
class CountGroups:
    """The groups of a partition, with numbers of rows."""

    reader: TableReader

    def run(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a frame with one row per group: its keys and its number of rows."""
        import pandas as pd

        table = _table(frame)
        keys = self.reader.grouping.keys(table)
        groups = GroupKeys(self.reader.grouping.names)
        codes = groups.encode([keys[name] for name in groups.names], len(table))
        if not groups.names:
            return pd.DataFrame({_COUNT: [len(table)] if len(table) else []})
        found, first, counts = np.unique(codes, return_index=True, return_counts=True)
        made: pd.DataFrame = keys.to_native().iloc[first].reset_index(drop=True)
        return made.assign(**{_COUNT: counts}) if len(found) else made.assign(**{_COUNT: []})


@dataclass(frozen=True, eq=False)
class Scoring:
    """Scores the rows of a partition, and thins groups that are too large to be answered whole.

    Attributes
    ----------
    reader : TableReader
    rates : dict from ids of groups to shares of rows that are kept
    """

    reader: TableReader
    rates: dict[int, float]

    def run(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return one row per scored row, and one per group with its counts."""
        keys = GroupKeys(self.reader.grouping.names)
        table = self.reader.read(_table(frame), keys)
        ids = group_ids([key_texts(value) for value in keys.values])
        return self._rows(self._thinned(table, ids), ids)

    def _thinned(self, table: ScoredTable, ids: Indices) -> ScoredTable:
        if not self.rates:  # otherwise all partitions have weights
            return table
        known = RowDesign() if table.design is None else table.design
        rates = np.array([self.rates.get(int(group), 1.0) for group in ids])[table.codes]
        ranks = np.empty(len(table.rows))
        for group in np.unique(table.codes):
            own = np.flatnonzero(table.codes == group)
            ranks[own] = thinning_ranks(table.rows.row_hashes[own], known.take(own))
        stays_anyway = np.zeros(len(table.rows), dtype=np.bool_)
        if known.labels is not None:
            stays_anyway = known.labels != UNLABELLED
        kept = np.flatnonzero(stays_anyway | (ranks < rates))
        weights = np.ones(len(table.rows)) if known.weights is None else known.weights
        weights = np.where(stays_anyway, weights, weights / rates)
        design = replace(known, weights=weights).take(kept)
        return replace(table, rows=table.rows.take(kept), codes=table.codes[kept], design=design)

    def _rows(self, table: ScoredTable, ids: Indices) -> pd.DataFrame:
        import pandas as pd

        m, n, rows = len(table.rows), len(table), table.rows
        columns: dict[str, Any] = {"group": np.concatenate([ids[table.codes], ids])}
        columns["is row"] = np.arange(m + n) < m
        for name in _COUNTS:
            columns[name] = _followed(np.zeros(m, dtype=np.int64), getattr(table, name))
        columns["hash"] = _followed(rows.row_hashes.view(np.int64), np.zeros(n, dtype=np.int64))
        if isinstance(rows, Instances):
            X = _feature_columns(rows.X)
            columns |= {f"x{i}": _followed(values, None, n) for i, values in enumerate(X)}
        else:
            columns |= _matrix("p", rows.posteriors, n)
            if rows.fold_posteriors is not None:
                columns |= _matrix("f", rows.fold_posteriors, n)
        if table.design is not None:
            for name, values in vars(table.design).items():
                if values is not None:
                    columns[name] = _followed(values, None, n)
        return pd.DataFrame(columns)


def _followed(values: NDArray[Any], counts: NDArray[Any] | None, n: int = 0) -> NDArray[Any]:
    """Return values of rows followed by those of groups; zeros, or NaN, if there are none."""
    if counts is None:
        counts = np.zeros(n, dtype=values.dtype) if values.dtype.kind != "O" else np.full(n, "")
    return np.concatenate([values, counts.astype(values.dtype)])


def _matrix(letter: str, values: NDArray[Any], n: int) -> dict[str, NDArray[Any]]:
    return {f"{letter}{i}": _followed(values[:, i], None, n) for i in range(values.shape[1])}


def _feature_columns(X: Any) -> list[NDArray[Any]]:
    import narwhals as nw

    if nw.dependencies.is_into_dataframe(X):
        frame = nw.from_native(X, eager_only=True)
        return [frame[name].to_numpy() for name in frame.columns]
    array = np.asarray(X)
    return [array[:, i] for i in range(array.shape[1])]


def table_of(
    frame: pd.DataFrame,
    rates: dict[int, float],
    request: Request,
    names: Sequence[str] | None = None,
) -> tuple[Indices, ScoredTable]:
    """Return the ids of the groups in scored rows, and the rows as a table without keys.

    Parameters
    ----------
    frame : pandas frame
        As :class:`Scoring` makes it.
    rates : dict from ids of groups to shares of rows that were kept
    request : Request
    names : names of the features, where the quantifier was fitted on named ones
    """
    import pandas as pd

    ids, codes = np.unique(frame["group"].to_numpy(), return_inverse=True)
    is_row = frame["is row"].to_numpy(dtype=bool)
    totals: dict[str, Any] = {
        name: np.bincount(codes, frame[name], len(ids)).astype(np.int64) for name in _COUNTS
    }
    own = frame[is_row]

    def matrix(letter: str) -> NDArray[Any] | None:
        found = [name for name in own.columns if name[0] == letter and name[1:].isdigit()]
        found.sort(key=lambda name: int(name[1:]))
        return own[found].to_numpy() if found else None

    hashes = own["hash"].to_numpy().view(np.uint64)
    posteriors, X = matrix("p"), matrix("x")
    rows: ScoredRows | Instances
    if posteriors is not None:
        rows = ScoredRows(np.ascontiguousarray(posteriors), matrix("f"), hashes=hashes)
    else:
        assert X is not None, "rows are scores or features"
        rows = Instances(
            X if names is None else pd.DataFrame(X, columns=list(names)), hashes=hashes
        )
    known = {name: own[name].to_numpy() for name in vars(RowDesign()) if name in own.columns}
    return ids, ScoredTable(
        GroupKeys(()),
        None,  # type: ignore[arg-type]  # the keys stay with the driver
        rows,
        codes[is_row].astype(np.int32),
        RowDesign(**known) if known else None,
        **totals,
        rates=np.array([rates.get(int(group), 1.0) for group in ids]),
    )


@dataclass(frozen=True, eq=False)
class Answering:
    """Answers the whole groups of a bucket.

    Attributes
    ----------
    model : model
    request : Request
    rates : dict from ids of groups to shares of rows that were kept
    place : Place
    """

    model: AnyModel
    request: Request
    rates: dict[int, float]
    place: Place

    def run(self, frame: pd.DataFrame) -> tuple[Indices, Estimates] | None:
        """Return the ids of the groups and their estimates; None if there are none."""
        if not len(frame):
            return None
        names = None
        if self.model.table_schema is None:
            names = self.model.scorer.feature_names
        ids, table = table_of(frame, self.rates, self.request, names)
        estimates = answer(self.model, table, self.request, kept=0, place=self.place)
        unknown = no_uncertainty(len(estimates.classes))
        return ids, replace(estimates, uncertainty_of=unknown, decisions=None)


class Dask:
    """A data frame of Dask.

    Parameters
    ----------
    frame : Dask data frame
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @property
    def columns(self) -> list[str]:
        """The columns of the frame."""
        return list(self._frame.columns)

    def collect(self, task: Any, columns: Sequence[str] | None) -> list[Any]:
        """Return what ``task.run`` makes of each partition, in this process."""
        from dask.delayed import delayed

        shared = delayed(task, traverse=False)
        run = delayed(_run_numbered, pure=False, traverse=False)
        parts = self._picked(columns).to_delayed()
        return _computed([run(part, shared, i) for i, part in enumerate(parts)])

    def shuffle(self, scoring: Scoring, answering: Answering, n_buckets: int) -> list[Any]:
        """Score partitions, bring groups together and return what answering makes of them."""
        from dask.dataframe import from_delayed
        from dask.delayed import delayed

        score = delayed(scoring, traverse=False)
        run = delayed(_run_numbered, pure=False, traverse=False)
        parts = self._picked(scoring.reader.columns).to_delayed()
        meta = scoring.run(self._frame_of_one(scoring))[:0]
        scored = from_delayed([run(part, score, i) for i, part in enumerate(parts)], meta=meta)
        n_buckets = max(n_buckets, len(parts))
        buckets = scored.shuffle(on="group", npartitions=n_buckets).to_delayed()
        last = delayed(answering, traverse=False)
        finish = delayed(_run, pure=False, traverse=False)
        made = _computed([finish(bucket, last) for bucket in buckets])
        return [part for part in made if part is not None]

    def _frame_of_one(self, scoring: Scoring) -> pd.DataFrame:
        """Return one row, which shows the types of scored rows."""
        columns = scoring.reader.columns
        frame = self._picked(columns)
        for number in range(frame.npartitions):
            head: pd.DataFrame = frame.get_partition(number).head(1, npartitions=1)
            if len(head):
                return head
        raise ValueError("frame has no rows")

    def _picked(self, columns: Sequence[str] | None) -> Any:
        if columns is None:
            return self._frame
        present = set(self._frame.columns)
        return self._frame[[name for name in columns if name in present]]


def _run(frame: pd.DataFrame, task: Any) -> Any:
    return task.run(frame)


def _run_numbered(frame: pd.DataFrame, task: Any, number: int) -> Any:
    try:
        return task.run(frame)
    except ValueError as error:
        raise ValueError(f"partition {number}: {error}") from error


def _computed(tasks: Sequence[Any]) -> list[Any]:
    from dask.base import compute

    try:
        return list(compute(*tasks))  # type: ignore[no-untyped-call]
    except KeyError as error:  # raised by Dask itself, where it picks columns
        raise ValueError(
            f"a partition lacks a column that the others have ({error}): all partitions must "
            "have the same columns"
        ) from error


class Spark:
    """A data frame of Spark.

    Parameters
    ----------
    frame : Spark data frame
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @property
    def columns(self) -> list[str]:
        """The columns of the frame."""
        return list(self._frame.columns)

    def collect(self, task: Any, columns: Sequence[str] | None) -> list[Any]:
        """Return what ``task.run`` makes of each batch of a partition, in this process."""
        made = self._picked(columns).mapInPandas(_pickled(task), "made binary").collect()
        return [pickle.loads(row["made"]) for row in made]

    def shuffle(self, scoring: Scoring, answering: Answering, n_buckets: int) -> list[Any]:
        """Score partitions, bring groups together and return what answering makes of them."""
        from pyspark.sql import functions

        picked = self._picked(scoring.reader.columns)
        head = picked.limit(1).toPandas()
        scored = picked.mapInPandas(_each(scoring), _spark_schema(scoring.run(head)))
        n_buckets = max(n_buckets, picked.rdd.getNumPartitions())
        bucket = functions.pmod(functions.col("group"), functions.lit(n_buckets))
        grouped = scored.withColumn("bucket", bucket).groupBy("bucket")
        made = grouped.applyInPandas(_answered(answering), "made binary").collect()
        return [pickle.loads(row["made"]) for row in made]

    def _picked(self, columns: Sequence[str] | None) -> Any:
        if columns is None:
            return self._frame
        present = set(self._frame.columns)
        return self._frame.select(*[name for name in columns if name in present])


def _spark_schema(frame: pd.DataFrame) -> str:
    kinds = {"b": "boolean", "i": "bigint", "u": "bigint", "f": "double", "O": "string"}
    return ", ".join(f"`{name}` {kinds[dtype.kind]}" for name, dtype in frame.dtypes.items())


def _pickled(task: Any) -> Any:
    """Return the function that Spark runs: batches of a partition in, one pickled result each."""

    def run(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd

        for frame in frames:
            yield pd.DataFrame({"made": [pickle.dumps(task.run(frame))]})

    return run


def _each(task: Any) -> Any:
    def run(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            if len(frame):
                yield task.run(frame)

    return run


def _answered(task: Answering) -> Any:
    def run(frame: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame({"made": [pickle.dumps(task.run(frame))]})

    return run


@contextmanager
def fits_on_cluster(client: Any = None) -> Iterator[None]:
    """Run what joblib runs in this block (fits of folds, members, methods) on a Dask cluster.

    It is joblib's own ``parallel_config("dask")`` but for one thing: arguments travel inside the
    tasks. joblib sends larger ones ahead, each to one worker, and they are lost when that worker is
    killed; a task that carries its arguments is simply run again.

    Leave ``n_jobs`` unset inside: joblib then takes the whole cluster, and native threads stay one.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the current one.
    """
    from joblib import parallel_config, register_parallel_backend
    from joblib._dask import DaskDistributedBackend

    class Carrying(DaskDistributedBackend):
        """joblib's backend with arguments inside the tasks."""

        call_data_futures: Any

        def start_call(self) -> None:
            super().start_call()
            self.call_data_futures = None  # nothing is sent ahead

        def stop_call(self) -> None:
            self.call_data_futures = {}  # joblib clears it
            super().stop_call()

    register_parallel_backend("kdey-dask", Carrying)
    with parallel_config("kdey-dask", client=client):
        yield
