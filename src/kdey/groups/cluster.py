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

import io
import logging
import math
import pickle
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from kdey._fingerprints import text_hashes
from kdey.bags import Indices, offsets_of
from kdey.bayes.pooling import MOST_BYTES
from kdey.groups.answers import WHOLE, answer, thin
from kdey.groups.request import Request
from kdey.groups.scoring import TableScorer, engine_of
from kdey.groups.table import (
    SCORE_BYTES,
    GroupKeys,
    ScoredRows,
    ScoredTable,
    joined_rows,
    key_texts,
)
from kdey.intervals import Estimates
from kdey.intervals.estimate import join_estimates, no_uncertainty
from kdey.intervals.region import Uncertainty
from kdey.model import AnyModel, Place
from kdey.validation import refuse_levels

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

#: Results of partitions that workers make one of, before these come to this process.
TOGETHER = 16
#: Bytes of scores of a bucket of groups that is answered at once.
BUCKET = 1 << 26
_COUNTS = ("sizes", "missing", "unseen")
#: The column of numbers of rows in a frame of groups.
_COUNT = "kdey rows"


class Cluster:
    """A data frame in partitions. What its functions take and return are pandas frames.

    Parameters
    ----------
    frame : data frame of Dask or Spark
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @property
    def columns(self) -> list[str]:
        """The columns of the frame."""
        return list(self._frame.columns)

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        raise NotImplementedError

    def _picked(self, columns: Sequence[str] | None) -> Any:
        """Return the frame with those of some columns that it has; None: with all."""
        if columns is None:
            return self._frame
        present = set(self._frame.columns)
        return self._frame[[name for name in columns if name in present]]

    def collect(
        self,
        task: Callable[[Any], Any],
        columns: Sequence[str] | None,
        join: Callable[[Sequence[Any]], Any] | None = None,
    ) -> list[Any]:
        """Return what a task makes of each partition, in this process.

        With ``join`` workers make one of up to ``TOGETHER`` of them, again and again, until no more
        than that are left; their order stays.
        """
        raise NotImplementedError

    def shuffle(
        self,
        scoring: Callable[[Any], Any],
        answering: Callable[[Any], Any],
        columns: Sequence[str] | None,
        n_buckets: int,
    ) -> list[Any]:
        """Score partitions, bring groups together and return what answering makes of them."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ClusterTable:
    """The groups of a data frame of Dask or Spark, numbered in this process.

    Attributes
    ----------
    cluster : Cluster
    scorer : TableScorer
        Of its partitions.
    keys : GroupKeys
    key_rows : narwhals frame
    ids : int64 array of shape (n_groups,)
        By which workers know the groups.
    counts : int64 array of shape (n_groups,)
        Rows of each group.
    """

    cluster: Cluster
    scorer: TableScorer
    keys: GroupKeys
    key_rows: Any
    ids: Indices
    counts: Indices

    @classmethod
    def of(cls, frame: Any, model: AnyModel, request: Request) -> ClusterTable:
        """Return the groups of a frame of Dask or Spark, after a pass over the keys alone."""
        import narwhals as nw

        refuse_levels(frame, "frame")
        cluster = Dask(frame) if engine_of(frame) == "dask" else Spark(frame)
        scorer = TableScorer.of(model, request)
        scorer.check_columns(cluster.columns)
        if request.time is not None and request.options.date_format == "auto":
            times = cluster.collect(partial(_distinct_times, request.time), [request.time])
            frame = nw.from_native(_concat(times), eager_only=True)
            scorer = replace(scorer, request=request.with_time_format([frame]))
        names = list(request.names) or cluster.columns[:1]
        task = partial(_count_groups, scorer)
        parts = cluster.collect(task, names, partial(_added, request.names))
        keys, key_rows, counts = _numbered(parts, request.names)
        ids = _ids_of(keys)
        if len(np.unique(ids)) < len(ids):
            raise ValueError("two groups have the same hash: rename the value of a key")
        return cls(cluster, scorer, keys, key_rows, ids, counts)

    def answer(
        self, place: Place, unions: Sequence[tuple[int, ...]] = (), *, keep: bool = False
    ) -> Estimates:
        """Return the estimates of all groups, by their numbers, and then those of unions.

        Parameters
        ----------
        place : Place
            Where each worker works.
        unions : sequence of tuples of group numbers
            Further groups, which consist of several: their rows are sent twice.
        keep : bool
            Whether the uncertainties come too, which comparisons need.
        """
        members = {_union_id(self.ids[list(union)]): self.ids[list(union)] for union in unions}
        counts = self._usable_counts()
        sizes = [counts, *(np.array([counts[list(union)].sum()]) for union in unions)]
        wanted = np.concatenate([self.ids, np.array(list(members), dtype=np.int64)])
        totals = np.concatenate(sizes)
        most = WHOLE // self._row_bytes
        rates = {
            int(group): most / int(total)
            for group, total in zip(wanted, totals, strict=True)
            if total > most
        }
        model, request = self.scorer.model, self.scorer.request
        n_bytes = int(totals.sum()) * self._row_bytes
        n_buckets = max(math.ceil(n_bytes / BUCKET), self.cluster.n_partitions)
        amounts = (int(totals.sum()), len(wanted), self.cluster.n_partitions, n_buckets)
        logger.info("%d rows of %d groups go from %d partitions to %d buckets", *amounts)
        answers = self.cluster.shuffle(
            partial(_scored, self.scorer, rates, members, n_buckets),
            partial(_answered, model, request, rates, n_buckets, place, keep),
            self.scorer.columns,
            n_buckets,
        )
        parts = [
            estimates
            if uncertainties is None
            else replace(estimates, uncertainty_of=_loaded(uncertainties, model).__getitem__)
            for _, estimates, uncertainties in answers
        ]
        found_at = _places(np.concatenate([ids for ids, *_ in answers]), wanted)
        return replace(join_estimates(parts).take(found_at), keys=self.key_rows)

    @property
    def _row_bytes(self) -> int:
        """Bytes of the scores, or of the features, of a row."""
        scorer = self.scorer
        if scorer.on_posteriors:
            return SCORE_BYTES * scorer.model.n_classes
        return 8 * (scorer.model.scorer.n_features or 1)

    def _usable_counts(self) -> Indices:
        """Return the rows of each group; of groups that may be thinned, those that are used."""
        large = self.counts > WHOLE // self._row_bytes
        if not large.any():
            return self.counts
        task = partial(_count_usable, self.scorer)
        found = _concat(self.cluster.collect(task, self.scorer.columns))
        usable = np.zeros(len(self.ids), dtype=np.int64)
        np.add.at(usable, _places(self.ids, found["group"].to_numpy()), found[_COUNT].to_numpy())
        return np.where(large, usable, self.counts)

    def gather(self) -> ScoredTable:
        """Return all rows, scored, in this process: what pooling needs."""
        _check_size(float(self.counts.sum()) * self._row_bytes)
        task = partial(_scored, self.scorer, {}, {}, 1)
        ids, table = _together(_concat(self.cluster.collect(task, self.scorer.columns)), {})
        place = _places(self.ids, ids)
        counts: dict[str, Any] = {name: np.zeros(len(self.ids), dtype=np.int64) for name in _COUNTS}
        for name in _COUNTS:
            counts[name][place] = getattr(table, name)
        return replace(
            table,
            keys=self.keys,
            key_rows=self.key_rows,
            rows=replace(table.rows, groups=place[table.rows.groups].astype(np.int32)),
            rates=np.ones(len(self.ids)),
            **counts,
        )


def _check_size(n_bytes: float) -> None:
    """Raise ValueError if the scores of all rows take more memory than pooling may."""
    if n_bytes > MOST_BYTES:
        raise ValueError(
            f"pooling needs the posteriors of all rows in one process, more than the "
            f"{MOST_BYTES / 2**30:.0f} GiB that are allowed: pool fewer groups at a time"
        )


def _places(ids: Indices, wanted: Indices) -> Indices:
    """Return where each of the wanted ids stands among all of them."""
    return np.argsort(ids)[np.searchsorted(np.sort(ids), wanted)]


def _numbered(
    parts: Sequence[pd.DataFrame], names: tuple[str, ...]
) -> tuple[GroupKeys, Any, Indices]:
    """Return the groups that partitions have, their keys, and their numbers of rows."""
    if not any(map(len, parts)):
        raise ValueError("frame has no rows")
    keys, whole = _merged(names, parts)
    counts = whole.pop(_COUNT).to_numpy(dtype=np.int64)
    return keys, _table(whole.infer_objects()), counts


def _ids_of(keys: GroupKeys) -> Indices:
    """Return by which number each group is known on all workers, from the texts of its keys."""
    texts = ("\x1f".join(key_texts(value)) for value in keys.values)
    return text_hashes(texts).view(np.int64)


def _union_id(members: Indices) -> int:
    """Return by which number groups together are known on all workers."""
    return int(text_hashes([",".join(map(str, sorted(members.tolist())))]).view(np.int64)[0])


def _concat(frames: Sequence[Any]) -> pd.DataFrame:
    import pandas as pd

    whole: pd.DataFrame = pd.concat(list(frames), ignore_index=True)
    return whole


def _table(frame: pd.DataFrame) -> Any:
    import narwhals as nw

    return nw.from_native(frame.reset_index(drop=True), eager_only=True)


# What follows, up to the engines, runs on workers: functions of a partition or a bucket.


def _distinct_times(time: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the column of times, each once; other types than texts say all at once."""
    times: pd.DataFrame = frame[[time]].drop_duplicates()
    return times


def _count_groups(scorer: TableScorer, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the groups of a partition, one row each: its keys and its number of rows."""
    import pandas as pd

    table = _table(frame)
    keys = scorer.request.keys(table)
    groups = GroupKeys(scorer.request.names)
    codes = groups.encode([keys[name] for name in groups.names], len(table))
    if not groups.names:
        return pd.DataFrame({_COUNT: [len(table)] if len(table) else []})
    found, first, counts = np.unique(codes, return_index=True, return_counts=True)
    made: pd.DataFrame = keys.to_native().iloc[first].reset_index(drop=True)
    return made.assign(**{_COUNT: counts}) if len(found) else made.assign(**{_COUNT: []})


def _added(names: tuple[str, ...], parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the groups of several partitions, each once, as :func:`_count_groups` returns them."""
    return _merged(names, parts)[1]


def _merged(
    names: tuple[str, ...], parts: Sequence[pd.DataFrame]
) -> tuple[GroupKeys, pd.DataFrame]:
    """Return the keys of the groups of several partitions, and the groups, each once."""
    keys, rows, counts = GroupKeys(names), [], np.zeros(0, dtype=np.int64)
    for frame in [part for part in parts if len(part)] or parts[:1]:
        table, known = _table(frame), len(keys)
        numbers = keys.encode([table[name] for name in names], len(table))
        rows.append(frame[numbers >= known])
        counts = np.concatenate([counts, np.zeros(len(keys) - known, dtype=np.int64)])
        np.add.at(counts, numbers, frame[_COUNT].to_numpy(dtype=np.int64))
    for name in names:
        # Long integers would lose digits beside the floats of a partition with missing keys.
        if {row[name].dtype.kind for row in rows} >= {"i", "f"}:
            rows = [row.astype({name: object}) for row in rows]
    return keys, _concat(rows).assign(**{_COUNT: counts})


def _count_usable(scorer: TableScorer, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the ids of the groups of a partition, and how many rows of each are used."""
    import pandas as pd

    table = _table(frame)
    keys, groups = scorer.request.keys(table), GroupKeys(scorer.request.names)
    codes = groups.encode([keys[name] for name in groups.names], len(table))
    counts = np.bincount(codes[scorer.usable(table)], minlength=len(groups))
    return pd.DataFrame({"group": _ids_of(groups), _COUNT: counts[: len(groups)]})


def _scored(
    scorer: TableScorer,
    rates: Mapping[int, float],
    unions: Mapping[int, Indices],
    n_buckets: int,
    frame: pd.DataFrame,
) -> pd.DataFrame:
    """Return the scored rows of a partition, packed into one row for each bucket of groups.

    Parameters
    ----------
    scorer : TableScorer
    rates : mapping from ids to shares of rows that are kept
        Of groups and unions that are too large to be answered whole.
    unions : mapping from ids to the ids of their groups
        Rows come once more for every union that they belong to; unions have buckets of their own.
    n_buckets : int
    frame : pandas frame
    """
    import pandas as pd

    keys = GroupKeys(scorer.request.names)
    table = scorer.read(_table(frame), keys)
    own = _ids_of(keys)
    bags = {int(group): np.array([number]) for number, group in enumerate(own)}
    for union, groups in unions.items():
        members = np.flatnonzero(np.isin(own, groups))
        if len(members):
            bags[union] = members
    rows, ids = _rows_by_bag(table.rows, len(own), bags, rates), np.array(list(bags), np.int64)
    counts = {name: np.zeros(len(bags), dtype=np.int64) for name in _COUNTS}
    for name in _COUNTS:
        counts[name][: len(own)] = getattr(table, name)
    counts["sizes"] = np.array([table.sizes[members].sum() for members in bags.values()])
    buckets = ids % n_buckets + n_buckets * (np.arange(len(ids)) >= len(own))
    parts = []
    for bucket in np.unique(buckets):
        chosen = np.flatnonzero(buckets == bucket)
        kept = rows.take(np.flatnonzero(np.isin(rows.groups, chosen)))
        kept = replace(kept, groups=np.searchsorted(chosen, kept.groups).astype(np.int32))
        part = ids[chosen], kept, {name: values[chosen] for name, values in counts.items()}
        # As text, which every engine carries as it is.
        parts.append(b64encode(pickle.dumps(part, pickle.HIGHEST_PROTOCOL)).decode())
    return pd.DataFrame({"bucket": np.unique(buckets), "part": pd.Series(parts, dtype=str)})


def _together(frame: pd.DataFrame, rates: Mapping[int, float]) -> tuple[Indices, ScoredTable]:
    """Return the ids of the groups in packed rows, and all rows as a table without keys.

    Parameters
    ----------
    frame : pandas frame
        As workers make it of partitions.
    rates : mapping from ids of groups to shares of rows that were kept
    """
    parts = [pickle.loads(b64decode(part)) for part in frame["part"]]
    ids, codes = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    totals: dict[str, Any] = {
        name: np.bincount(codes, np.concatenate([part[2][name] for part in parts]), len(ids))
        for name in _COUNTS
    }
    first = offsets_of([len(part[0]) for part in parts])
    rows = joined_rows(
        [
            replace(rows, groups=codes[start + rows.groups].astype(np.int32))
            for (_, rows, _), start in zip(parts, first[:-1], strict=True)
        ]
    )
    shares = np.array([rates.get(int(group), 1.0) for group in ids])
    counts: dict[str, Any] = {name: values.astype(np.int64) for name, values in totals.items()}
    return ids, ScoredTable(GroupKeys(()), None, rows, **counts, rates=shares)


def _rows_by_bag(
    rows: ScoredRows, n_groups: int, bags: Mapping[int, Indices], rates: Mapping[int, float]
) -> ScoredRows:
    """Return the rows of groups and unions, numbered by these, thinned where they are too many.

    Parameters
    ----------
    rows : ScoredRows
    n_groups : int
    bags : mapping from ids to numbers of groups
        The groups themselves, and then unions.
    rates : mapping from ids to shares of rows that are kept
    """
    if not rates and len(bags) == n_groups:
        return rows
    own_weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    is_whole = np.array([bag not in rates for bag in bags])[:n_groups]
    whole = np.flatnonzero(is_whole[rows.groups])
    positions, numbers, weights = [whole], [rows.groups[whole]], [own_weights[whole]]
    for number, (bag, groups) in enumerate(bags.items()):
        if number < n_groups and bag not in rates:
            continue
        own = np.flatnonzero(np.isin(rows.groups, groups))
        kept = thin(rows, own, rates[bag]) if bag in rates else (own, own_weights[own])
        positions.append(kept[0])
        weights.append(kept[1])
        numbers.append(np.full(len(kept[0]), number, dtype=np.int32))
    made = replace(rows.take(np.concatenate(positions)), groups=np.concatenate(numbers))
    # All partitions have weights then.
    return replace(made, weights=np.concatenate(weights)) if rates else made


def _answered(
    model: AnyModel,
    request: Request,
    rates: Mapping[int, float],
    n_buckets: int,
    place: Place,
    keep: bool,
    frame: pd.DataFrame,
) -> tuple[Indices, Estimates, bytes | None] | None:
    """Return the ids of the whole groups of buckets, and their estimates; None without any.

    With ``keep`` their uncertainties come too, pickled by :func:`_dumped`.
    """
    unchecked = replace(request, options=replace(request.options, check_fit=False))
    found, parts = [], []
    for bucket in np.unique(frame["bucket"].to_numpy(dtype=np.int64)).tolist():
        ids, table = _together(frame[frame["bucket"] == bucket], rates)
        asked = request if bucket < n_buckets else unchecked  # unions are not checked
        found.append(ids)
        parts.append(answer(model, table, asked, kept=sys.maxsize if keep else 0, place=place))
    if not parts:
        return None
    estimates = join_estimates(parts)
    uncertainties = None
    if keep:
        held = [estimates.uncertainty_of(int(number)) for number in estimates.positions]
        uncertainties = _dumped(held, model)
    unknown = no_uncertainty(len(estimates.classes))
    plain = replace(estimates, uncertainty_of=unknown, decisions=None)
    return np.concatenate(found), plain, uncertainties


def _dumped(uncertainties: Sequence[Uncertainty], model: AnyModel) -> bytes:
    """Return pickled uncertainties without the model, which the other process has."""

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> str | None:
            return "model" if value is model else None

    file = io.BytesIO()
    Pickler(file, pickle.HIGHEST_PROTOCOL).dump(list(uncertainties))
    return file.getvalue()


def _loaded(content: bytes, model: AnyModel) -> list[Uncertainty]:
    """Return what a worker of this very call has pickled by :func:`_dumped`."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, name: str) -> AnyModel:
            return model

    made: list[Uncertainty] = Unpickler(io.BytesIO(content)).load()
    return made


class Dask(Cluster):
    """A data frame of Dask."""

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        return int(self._frame.npartitions)

    def collect(
        self,
        task: Callable[[Any], Any],
        columns: Sequence[str] | None,
        join: Callable[[Sequence[Any]], Any] | None = None,
    ) -> list[Any]:
        """Return what a task makes of each partition, in this process, some joined on workers."""
        from dask.delayed import delayed

        shared = delayed(task, traverse=False)
        run = delayed(_run_numbered, pure=False, traverse=False)
        made = [run(part, shared, i) for i, part in enumerate(self._picked(columns).to_delayed())]
        while join is not None and len(made) > TOGETHER:
            runs = range(0, len(made), TOGETHER)
            made = [delayed(join, pure=False)(made[i : i + TOGETHER]) for i in runs]
        return _computed(made)

    def shuffle(
        self,
        scoring: Callable[[Any], Any],
        answering: Callable[[Any], Any],
        columns: Sequence[str] | None,
        n_buckets: int,
    ) -> list[Any]:
        """Score partitions, bring groups together and return what answering makes of them."""
        import pandas as pd
        from dask.dataframe import from_delayed
        from dask.delayed import delayed

        score = delayed(scoring, traverse=False)
        run = delayed(_run_numbered, pure=False, traverse=False)
        picked = self._picked(columns)
        parts = picked.to_delayed()
        meta = pd.DataFrame({"bucket": [0], "part": [""]})[:0]
        scored = from_delayed([run(part, score, i) for i, part in enumerate(parts)], meta=meta)
        buckets = scored.shuffle(on="bucket", npartitions=n_buckets).to_delayed()
        last = delayed(answering, traverse=False)
        finish = delayed(_run, pure=False, traverse=False)
        made = _computed([finish(bucket, last) for bucket in buckets])
        return [part for part in made if part is not None]


def _run(frame: pd.DataFrame, task: Any) -> Any:
    return task(frame)


def _run_numbered(frame: pd.DataFrame, task: Any, number: int) -> Any:
    try:
        return task(frame)
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


class Spark(Cluster):
    """A data frame of Spark."""

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        return int(self._frame.rdd.getNumPartitions())

    def collect(
        self,
        task: Callable[[Any], Any],
        columns: Sequence[str] | None,
        join: Callable[[Sequence[Any]], Any] | None = None,
    ) -> list[Any]:
        """Return what a task makes of each batch of a partition, in this process.

        With ``join`` it is one of each partition, or of several.
        """
        schema, left = "number bigint, made binary", self.n_partitions
        made = self._picked(columns).mapInPandas(_pickled(task, join), schema)
        while join is not None and left > TOGETHER:
            runs = made.selectExpr(f"number div {TOGETHER} as run", "*").groupBy("run")
            made, left = runs.applyInPandas(_joined(join), schema), math.ceil(left / TOGETHER)
        rows = sorted(made.collect(), key=itemgetter("number"))
        return [pickle.loads(row["made"]) for row in rows]

    def shuffle(
        self,
        scoring: Callable[[Any], Any],
        answering: Callable[[Any], Any],
        columns: Sequence[str] | None,
        n_buckets: int,
    ) -> list[Any]:
        """Score partitions, bring groups together and return what answering makes of them."""
        scored = self._picked(columns).mapInPandas(_each(scoring), "bucket bigint, part string")
        # By number, or Spark would put small buckets together and answer them one after another.
        grouped = scored.repartition(n_buckets, "bucket").groupBy("bucket")
        made = grouped.applyInPandas(_whole(answering), "made binary").collect()
        return [pickle.loads(row["made"]) for row in made]


def _pickled(task: Any, join: Any) -> Any:
    """Return the function that Spark runs: batches of a partition in, pickled results out.

    Each has the number of its partition. There is one for each batch or, with ``join``, one in all.
    """

    def run(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd
        from pyspark import TaskContext

        number, made = TaskContext.get().partitionId(), map(task, frames)
        for part in made if join is None else _all_joined(join, made):
            yield pd.DataFrame({"number": [number], "made": [pickle.dumps(part)]})

    return run


def _all_joined(join: Any, parts: Iterator[Any]) -> list[Any]:
    """Return one of all parts, of which a few are held at a time; none of none."""
    held: list[Any] = []
    for part in parts:
        held.append(part)
        if len(held) == TOGETHER:
            held = [join(held)]
    return [join(held)] if held else []


def _joined(join: Any) -> Any:
    """Return the function that Spark runs on results of several partitions."""

    def run(frame: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        parts = [pickle.loads(part) for part in frame.sort_values("number")["made"]]
        return pd.DataFrame({"number": frame["run"][:1], "made": [pickle.dumps(join(parts))]})

    return run


def _each(task: Any) -> Any:
    def run(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            if len(frame):
                yield task(frame)

    return run


def _whole(task: Any) -> Any:
    """Return the function that Spark runs on a bucket: a frame in, one pickled result."""

    def run(frame: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame({"made": [pickle.dumps(task(frame))]})

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
