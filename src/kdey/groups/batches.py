"""Batches of scored rows with group numbers: read from frames, and collected until all are there.

:class:`BatchReader` reads a batch of a table, wherever it lies: a whole frame, a batch of a file,
a partition on a worker. :class:`GroupStream` collects the batches that come into one process.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey._support.row_hashes import Hashes
from kdey.bags import Indices
from kdey.fitted import FittedQuantifier
from kdey.groups.answers import GroupAnswers
from kdey.groups.design import Design, DesignReader, RowDesign
from kdey.groups.estimate import OnRows, estimate_groups
from kdey.groups.keys import Grouping, GroupKeys
from kdey.groups.request import GroupSettings
from kdey.groups.scoring import Floats, GroupRows, Instances, ScoredRows, Scorer
from kdey.tables.features import warn_of_unseen_values
from kdey.tables.labels import LabelType
from kdey.tables.schema import Finding, merge_findings
from kdey.tables.training import labels_seen

if TYPE_CHECKING:
    from kdey.tables.columns import Frame

#: Bytes of posteriors that are kept in memory; what comes after them goes to temporary files.
MEMORY = 1 << 30


@dataclass(frozen=True, eq=False)
class ScoredBatch:
    """A batch of m rows of a table, scored and numbered by group.

    Attributes
    ----------
    rows : ScoredRows or Instances
        The usable rows.
    codes : int32 array of shape (m,)
        Number of the group of each row.
    usable : bool array of shape (m,)
        Which rows have no missing score or feature.
    keys : narwhals frame of m rows
        The key columns, times cut down to their periods.
    labels : array, or None
        The labels of the rows that have one, where they are asked for.
    """

    rows: GroupRows
    codes: NDArray[np.int32]
    usable: NDArray[np.bool_]
    keys: Frame
    labels: NDArray[Any] | None = None

    @property
    def usable_codes(self) -> NDArray[np.int32]:
        """Number of the group of each usable row."""
        return self.codes[self.usable]

    def missing(self, n_groups: int) -> Indices:
        """Return how many rows of each group are not usable, shape (n_groups,)."""
        return np.bincount(self.codes[~self.usable], minlength=n_groups).astype(np.int64)

    def unseen(self, n_groups: int) -> Indices:
        """Return how many usable rows of each group hold a value that training lacks."""
        unseen = self.rows.unseen
        if unseen is None:
            return np.zeros(n_groups, dtype=np.int64)
        return np.bincount(self.usable_codes[unseen.rows], minlength=n_groups).astype(np.int64)

    def keys_of_groups(self) -> Frame:
        """Return the keys of the groups that the batch has, one row each, by their numbers."""
        if not self.keys.columns:
            return self.keys
        rows: list[int] = np.unique(self.codes, return_index=True)[1].tolist()
        return self.keys[rows]


@dataclass(frozen=True, eq=False)
class BatchReader:
    """Scores the rows of a frame and numbers their groups.

    Attributes
    ----------
    scorer : Scorer
    grouping : Grouping
    key : name of a column of row keys, which is no feature; optional
    label : name of a column of known labels, which is no feature; optional
        Where a frame has it, its labels must be among the classes.
    design : Design
        Columns that say how rows were drawn and which have labels; they are no features.
    """

    scorer: Scorer
    grouping: Grouping
    key: str | None = None
    label: str | None = None
    design: Design = field(default_factory=Design)

    @property
    def columns(self) -> list[str] | None:
        """The columns that are read; None: all."""
        needed = self.scorer.columns()
        if needed is None:
            return None
        return list(dict.fromkeys([*needed, *self._no_features]))

    @property
    def columns_of_files(self) -> list[str] | None:
        """The columns that are read of a file where it has them; None: all.

        Columns that had a single value in training are looked at, to warn where they vary.
        """
        needed, schema = self.columns, self.scorer.quantifier.table_schema
        if needed is None or schema is None:
            return needed
        return list(dict.fromkeys([*needed, *schema.constants]))

    @property
    def _no_features(self) -> tuple[str, ...]:
        others = (self.key, self.label)
        named = (name for name in others if name is not None)
        return (*self.grouping.names, *named, *self.design.names)

    def batch(self, frame: Frame, keys: GroupKeys, first: int = 1) -> ScoredBatch:
        """Return a frame as a batch; groups that are new get the next numbers of ``keys``.

        Parameters
        ----------
        frame : narwhals frame
        keys : GroupKeys
        first : int
            Number of the frame's first row, for messages.
        """
        key_columns = self.grouping.keys(frame, first)
        codes = keys.encode([key_columns[name] for name in keys.names], len(frame))
        rows, usable = self.scorer.score(frame, self._no_features, first, self.key)
        labels = None
        if self.label is not None and self.label in frame.columns:
            labels = self._labels(frame, self.label, first)
        return ScoredBatch(rows, codes, usable, key_columns, labels)

    def design_reader(self) -> DesignReader | None:
        """Return what reads the columns of the design; None if there are none."""
        if not self.design.names:
            return None
        scorer = self.scorer
        return DesignReader(
            self.design, scorer.quantifier.classes_, self._label_type, scorer.decimal
        )

    @property
    def _label_type(self) -> LabelType:
        schema = self.scorer.quantifier.table_schema
        return "auto" if schema is None else schema.label_type

    def _labels(self, frame: Frame, label: str, first: int) -> NDArray[Any]:
        """Return the known labels of a frame; raises ValueError where one is no class."""
        label_type = self._label_type
        return labels_seen(frame, label, self.scorer.quantifier.classes_, first, label_type)


@dataclass(frozen=True, eq=False)
class CollectedRows:
    """All rows of a table in this process.

    Attributes
    ----------
    rows : ScoredRows or Instances
        The usable rows.
    codes : int32 array of shape (m,)
        Number of the group of each usable row.
    missing : int64 array of shape (n_groups,)
        Rows of each group that are not usable.
    unseen : int64 array of shape (n_groups,)
        Usable rows of each group with a value that training lacks.
    findings : tuple of Finding
        Those values, by column.
    design : RowDesign or None
        How the usable rows were drawn, and which have labels.
    """

    rows: GroupRows
    codes: NDArray[np.int32]
    missing: Indices
    unseen: Indices
    findings: tuple[Finding, ...] = ()
    design: RowDesign | None = None

    def answers(
        self,
        quantifier: FittedQuantifier,
        n_groups: int,
        settings: GroupSettings,
        on_run: OnRows | None = None,
    ) -> GroupAnswers:
        """Return the answers of all groups.

        Parameters as in :func:`~kdey.groups.estimate.estimate_groups`.
        """
        return estimate_groups(
            quantifier,
            self.rows,
            self.codes,
            n_groups,
            settings,
            missing=self.missing,
            unseen=self.unseen,
            on_run=on_run,
            design=self.design,
        )


class GroupStream:
    """Collects batches of scored rows with the numbers of their groups.

    k numbers per instance are kept (2k with fold posteriors), whatever the width of the table, and
    beyond ``memory`` bytes they lie in temporary files. A group beyond what is held at once is
    estimated from sums over its pieces, so that it may be larger than memory.

    Parameters
    ----------
    memory : int or None
        Bytes of posteriors to keep in memory; None: all.
    """

    def __init__(self, memory: int | None = MEMORY) -> None:
        self._memory = memory
        self._codes: list[NDArray[np.int32]] = []
        self._codes_left_out: list[NDArray[np.int32]] = []
        self._codes_unseen: list[NDArray[np.int32]] = []
        self._findings: list[Finding] = []
        self._posteriors, self._fold_posteriors = _GrowingArray(), _GrowingArray()
        self._hashes: list[Hashes] = []
        self._instances: Instances | None = None
        self._designs: list[RowDesign] = []

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self._posteriors) if self._instances is None else len(self._instances)

    def add(
        self,
        points: GroupRows | Floats,
        codes: NDArray[np.int32],
        usable: NDArray[np.bool_],
        design: RowDesign | None = None,
    ) -> None:
        """Take a batch.

        Parameters
        ----------
        points : ScoredRows, array of posteriors of shape (m', k), or Instances
            The usable rows. Instances must be the only batch.
        codes : int32 array of shape (m,)
        usable : bool array of shape (m,)
        design : RowDesign, optional
            That of the m rows.
        """
        if design is not None:
            self._designs.append(design.take(usable))
        if not usable.all():
            self._codes_left_out.append(codes[~usable])
            codes = codes[usable]
        if not len(points):
            return
        if self._instances is not None or (isinstance(points, Instances) and len(self)):
            raise ValueError("instances cannot be collected from several batches")
        self._codes.append(codes)
        if not isinstance(points, np.ndarray) and points.unseen is not None:
            self._codes_unseen.append(codes[points.unseen.rows])
            self._findings += points.unseen.findings
        if isinstance(points, Instances):
            self._instances = points
        else:
            self._keep(points if isinstance(points, ScoredRows) else ScoredRows(points))

    def _keep(self, rows: ScoredRows) -> None:
        if len(self) and (rows.fold_posteriors is None) == bool(len(self._fold_posteriors)):
            raise ValueError("all batches must have fold posteriors, or none")
        self._posteriors.append(rows.posteriors)
        self._hashes.append(rows.row_hashes)
        if rows.fold_posteriors is not None:
            self._fold_posteriors.append(rows.fold_posteriors)
        held = self._posteriors.nbytes + self._fold_posteriors.nbytes
        if self._memory is not None and held > self._memory:
            self._posteriors.move_to_file()
            self._fold_posteriors.move_to_file()

    def answers(
        self,
        quantifier: FittedQuantifier,
        n_groups: int,
        settings: GroupSettings,
        on_run: OnRows | None = None,
    ) -> GroupAnswers:
        """Return the answers of all groups, and let go of the rows.

        Parameters as in :func:`~kdey.groups.estimate.estimate_groups`.
        """
        with self.collected(quantifier, n_groups) as collected:
            return collected.answers(quantifier, n_groups, settings, on_run)

    @contextmanager
    def collected(self, quantifier: FittedQuantifier, n_groups: int) -> Iterator[CollectedRows]:
        """Give all rows for the time of a block, and let go of them at its end."""
        nothing = np.empty(0, np.int32)
        n_rows = len(self) + sum(map(len, self._codes_left_out))
        findings = merge_findings(self._findings, n_rows)
        warn_of_unseen_values(findings)
        left_out, unseen = (
            np.bincount(np.concatenate([*parts, nothing]), minlength=n_groups).astype(np.int64)
            for parts in (self._codes_left_out, self._codes_unseen)
        )
        codes = np.concatenate([*self._codes, nothing])
        self._codes.clear()
        try:
            rows = self._rows(len(quantifier.classes_))
            design = RowDesign.join(self._designs) if self._designs else None
            yield CollectedRows(rows, codes, left_out, unseen, findings, design)
        finally:
            self._posteriors.close()
            self._fold_posteriors.close()

    def _rows(self, n_classes: int) -> GroupRows:
        if self._instances is not None:
            return self._instances
        if not len(self):
            return ScoredRows(np.empty((0, n_classes)))
        folds, hashes = self._fold_posteriors, np.concatenate(self._hashes)
        self._hashes.clear()
        return ScoredRows(
            self._posteriors.release(), folds.release() if len(folds) else None, hashes=hashes
        )


class _GrowingArray:
    """Rows of numbers that are appended, in memory or in a temporary file."""

    def __init__(self) -> None:
        self._parts: list[Floats] = []
        self._file: IO[bytes] | None = None
        self._shape = (0, 0)
        self._dtype: np.dtype[Any] = np.dtype(np.float64)

    def __len__(self) -> int:
        return self._shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self._shape[0] * self._shape[1] * self._dtype.itemsize

    def append(self, rows: Floats) -> None:
        """Append rows, in the type of the first ones."""
        if not len(self):
            self._dtype = rows.dtype
        part: Floats = np.ascontiguousarray(rows, dtype=self._dtype)
        self._shape = (len(self) + len(part), part.shape[1])
        if self._file is None:
            self._parts.append(part)
        else:
            self._file.write(part.data)

    def move_to_file(self) -> None:
        """Write the rows to a temporary file, to which all later ones go."""
        if self._file is not None or not len(self):
            return
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (see close)
        for part in self._parts:
            self._file.write(part.data)
        self._parts.clear()

    def release(self) -> Floats:
        """Return the whole array and hold it no longer."""
        if self._file is not None:
            self._file.flush()
            mapped: Floats = np.memmap(self._file, dtype=self._dtype, mode="r", shape=self._shape)
            return mapped
        if len(self._parts) == 1:
            return self._parts.pop()
        whole: Floats = np.empty(self._shape, dtype=self._dtype)
        stop = len(whole)
        while self._parts:  # from the end, each dropped once it is copied: no second whole copy
            part = self._parts.pop()
            whole[stop - len(part) : stop] = part
            stop -= len(part)
        return whole

    def close(self) -> None:
        """Remove the temporary file."""
        if self._file is not None:
            self._file.close()


@dataclass(frozen=True, eq=False)
class ScoredTable:
    """All batches of a table in this process.

    Attributes
    ----------
    keys : GroupKeys
    stream : GroupStream
    first_keys : narwhals frame
        Keys of the groups of the first batch, one row each, with the types of the table.
    label_counts : dict from labels to their numbers of rows
        Of the rows that have a label, where labels are asked for.
    """

    keys: GroupKeys
    stream: GroupStream
    first_keys: Frame
    label_counts: Mapping[Any, int] = field(default_factory=dict)

    @property
    def key_rows(self) -> Frame:
        """The keys of all groups, in the order of their numbers and the types of the table."""
        import narwhals as nw

        if len(self.first_keys) == len(self.keys) or not self.keys.names:
            return self.first_keys
        import pyarrow as pa  # batches of files are tables of pyarrow

        values = self.keys.values
        columns = {
            name: pa.array([value[i] for value in values], _plain_type(kind))
            for i, (name, kind) in enumerate(
                zip(self.keys.names, self.first_keys.to_native().schema.types, strict=True)
            )
        }
        return nw.from_native(pa.table(columns), eager_only=True)


def _plain_type(kind: Any) -> Any:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def score_table(
    reader: BatchReader,
    frames: Iterable[Frame],
    stream: GroupStream,
    on_batch: OnRows | None = None,
    first_row: int = 1,
) -> ScoredTable:
    """Score the frames of a table one after another and collect their rows.

    Parameters
    ----------
    reader : BatchReader
    frames : at least one narwhals frame
    stream : GroupStream
        Empty.
    on_batch : callable, optional
        Called after each frame with the number of its rows.
    first_row : int
        Number of the table's first row, for messages.
    """
    keys, position = GroupKeys(reader.grouping.names), 0
    first_keys: Frame | None = None
    label_counts: Counter[Any] = Counter()
    designs = reader.design_reader()
    for frame in frames:
        batch = reader.batch(frame, keys, first_row + position)
        label_counts.update(() if batch.labels is None else batch.labels.tolist())
        design = None if designs is None else designs.read(frame, first_row + position)
        stream.add(batch.rows, batch.codes, batch.usable, design)
        first_keys = batch.keys_of_groups() if first_keys is None else first_keys
        position += len(frame)
        if on_batch is not None:
            on_batch(len(frame))
    if first_keys is None:
        raise ValueError("the table has no rows")
    return ScoredTable(keys, stream, first_keys, label_counts)
