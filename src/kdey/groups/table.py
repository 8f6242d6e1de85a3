"""Scored tables: rows with group numbers, read batch by batch and collected.

:class:`TableReader` reads a batch of a table, wherever it lies: a whole frame, a batch of a file,
a partition on a worker. :func:`collect` puts batches together; beyond ``MEMORY`` bytes their scores
lie in a temporary file.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices
from kdey.groups.keys import Grouping, GroupKeys
from kdey.groups.request import DesignReader, Request, RowDesign
from kdey.groups.scoring import Floats, GroupRows, Instances, ScoredRows, Scorer
from kdey.model import AnyModel, Fitted
from kdey.tables.columns import require_names
from kdey.tables.features import warn_of_unseen_values
from kdey.tables.schema import Finding, LabelType, labels_seen, merge_findings

if TYPE_CHECKING:
    from kdey.tables.columns import Frame


#: Bytes of scores that are kept in memory; what comes after them goes to a temporary file.
MEMORY = 1 << 30


@dataclass(frozen=True, eq=False)
class ScoredTable:
    """The usable rows of a table, scored and numbered by group.

    Attributes
    ----------
    keys : GroupKeys
    key_rows : narwhals frame
        The keys of the groups by their numbers, in the types of the table.
    rows : ScoredRows or Instances
    codes : int32 array of shape (m,)
        Number of the group of each row.
    design : RowDesign or None
        How the rows were drawn, and which have labels.
    sizes, missing, unseen : int64 arrays of shape (n_groups,)
        Usable rows of each group, rows without a score or feature, and usable rows with a value
        that training lacks.
    rates : array of shape (n_groups,)
        Share of the rows of each group that is here; below one where it was thinned before.
    findings : tuple of Finding
        The values that training lacks, by column.
    label_counts : Counter
        Of the known labels, where they are asked for.
    """

    keys: GroupKeys
    key_rows: Frame
    rows: GroupRows
    codes: NDArray[np.int32]
    design: RowDesign | None
    sizes: Indices
    missing: Indices
    unseen: Indices
    rates: Array
    findings: tuple[Finding, ...] = ()
    label_counts: Counter[Any] = field(default_factory=Counter)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.sizes)

    @property
    def counts(self) -> Indices:
        """Number of rows of each group that are here, shape (n_groups,)."""
        return np.bincount(self.codes, minlength=len(self)).astype(np.int64)

    def regrouped(self, keys: GroupKeys, key_rows: Frame, numbers: Indices) -> ScoredTable:
        """Return the table by coarser groups: group g belongs to ``numbers[g]``."""

        def summed(counts: Indices) -> Indices:
            return np.bincount(numbers, counts, len(keys)).astype(np.int64)

        rates = np.ones(len(keys))
        np.minimum.at(rates, numbers, self.rates)
        return replace(
            self,
            keys=keys,
            key_rows=key_rows,
            codes=numbers[self.codes].astype(np.int32),
            sizes=summed(self.sizes),
            missing=summed(self.missing),
            unseen=summed(self.unseen),
            rates=rates,
        )


@dataclass(frozen=True, eq=False)
class TableReader:
    """Scores the rows of frames and numbers their groups.

    Attributes
    ----------
    request : Request
    scorer : Scorer
    grouping : Grouping
        That of the request, which knows how times are written.
    """

    request: Request
    scorer: Scorer
    grouping: Grouping

    @classmethod
    def of(cls, fitted: Fitted, request: Request, decimal: str = ".") -> TableReader:
        """Return the reader of a table whose numbers have this decimal mark."""
        options = request.options
        scorer = Scorer.of(fitted, request.scores, options.missing, options.check_fit, decimal)
        return cls(request, scorer, request.grouping)

    @property
    def model(self) -> AnyModel:
        """The model that scores rows."""
        return self.scorer.model

    @property
    def columns(self) -> list[str] | None:
        """The columns that are read; None: all.

        Columns that had a single value in training are looked at, to warn where they vary.
        """
        needed, schema = self.scorer.columns(), self.model.table_schema
        if needed is None:
            return None
        constants = () if schema is None or self.scorer.scores else schema.constants
        return list(dict.fromkeys([*needed, *self.request.no_features, *constants]))

    def check_columns(self, present: Sequence[str]) -> None:
        """Raise where a table lacks a column."""
        request = self.request
        require_names(present, self.grouping.names, "key column")
        if request.options.key is not None:
            require_names(present, [request.options.key])
        require_names(present, request.design_columns)
        scores = self.scorer.scores
        require_names(present, self.scorer.columns() or (), "score column" if scores else "column")

    def read(self, frame: Frame, keys: GroupKeys, first: int = 1) -> ScoredTable:
        """Return the usable rows of a frame.

        Parameters
        ----------
        frame : narwhals frame
        keys : GroupKeys
            Groups that are new get its next numbers.
        first : int
            Number of the frame's first row, for messages.
        """
        request = self.request
        key_columns = self.grouping.keys(frame, first)
        codes = keys.encode([key_columns[name] for name in keys.names], len(frame))
        rows, usable = self.scorer.score(frame, request.no_features, first, request.options.key)
        design = None
        if request.design_columns:
            reader = DesignReader(
                request, self.model.classes, self._label_type, self.scorer.decimal
            )
            design = reader.read(frame, first).take(usable)
        labels: list[Any] = []
        if request.label is not None and request.label in frame.columns:
            classes = self.model.classes
            labels = labels_seen(frame, request.label, classes, first, self._label_type).tolist()
        own, unseen = codes[usable], rows.unseen
        strange = own[:0] if unseen is None else own[unseen.rows]
        missing, unknown = (
            np.bincount(part, minlength=len(keys)).astype(np.int64)
            for part in (codes[~usable], strange)
        )
        if design is not None and design.weights is not None and not design.weights.all():
            # An instance of weight zero does not belong to its group.
            inside = np.flatnonzero(design.weights > 0)
            rows, own, design = rows.take(inside), own[inside], design.take(inside)
        return ScoredTable(
            keys,
            _one_per_group(key_columns, codes),
            rows,
            own,
            design,
            np.bincount(own, minlength=len(keys)).astype(np.int64),
            missing,
            unknown,
            np.ones(len(keys)),
            () if unseen is None else unseen.findings,
            Counter(labels),
        )

    @property
    def _label_type(self) -> LabelType:
        schema = self.model.table_schema
        return "auto" if schema is None else schema.label_type


def _one_per_group(keys: Frame, codes: NDArray[np.int32]) -> Frame:
    """Return the keys of the groups that a batch has, one row each, by their numbers."""
    if not keys.columns:
        return keys
    rows: list[int] = np.unique(codes, return_index=True)[1].tolist()
    return keys[rows]


def collect(
    batches: Iterable[ScoredTable], n_classes: int, memory: int | None = MEMORY
) -> ScoredTable:
    """Return the batches of a table as one, and warn of values that training lacks.

    Parameters
    ----------
    batches : at least one ScoredTable, all with the same keys
    n_classes : int
    memory : int or None
        Bytes of scores to keep in memory; None: all.
    """
    spool = _Spool(memory)
    parts: list[ScoredTable] = []
    for batch in batches:
        spool.add(batch.rows)
        parts.append(replace(batch, rows=_NO_ROWS))
    if not parts:
        raise ValueError("the table has no rows")
    first, keys = parts[0], parts[0].keys
    totals = {
        name: _summed([getattr(part, name) for part in parts], len(keys))
        for name in ("sizes", "missing", "unseen")
    }
    n_rows = int(totals["sizes"].sum() + totals["missing"].sum())
    findings = merge_findings([f for part in parts for f in part.findings], n_rows)
    warn_of_unseen_values(findings)
    designs = [part.design for part in parts if part.design is not None]
    return ScoredTable(
        keys,
        _all_keys(first.key_rows, keys),
        spool.rows(n_classes),
        np.concatenate([part.codes for part in parts]),
        RowDesign.join(designs) if designs else None,
        **totals,
        rates=np.ones(len(keys)),
        findings=findings,
        label_counts=sum((part.label_counts for part in parts), Counter()),
    )


_NO_ROWS = ScoredRows(np.empty((0, 0)))


def _summed(counts: Sequence[Indices], n_groups: int) -> Indices:
    total = np.zeros(n_groups, dtype=np.int64)
    for part in counts:
        total[: len(part)] += part
    return total


def _all_keys(first: Frame, keys: GroupKeys) -> Frame:
    """Return the keys of all groups, in the types that the first batch has."""
    import narwhals as nw

    if len(first) == len(keys) or not keys.names:
        return first
    import pyarrow as pa  # batches of files are tables of pyarrow

    values = keys.values
    columns = {
        name: pa.array([value[i] for value in values], _plain_type(kind))
        for i, (name, kind) in enumerate(
            zip(keys.names, first.to_native().schema.types, strict=True)
        )
    }
    return nw.from_native(pa.table(columns), eager_only=True)


def _plain_type(kind: Any) -> Any:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


class _Spool:
    """Collects the rows of batches, in memory or in a temporary file.

    Parameters
    ----------
    memory : int or None
        Bytes of scores to keep in memory; None: all.
    """

    def __init__(self, memory: int | None) -> None:
        self._memory = memory
        self._posteriors, self._fold_posteriors = _GrowingArray(), _GrowingArray()
        self._hashes: list[NDArray[np.uint64]] = []
        self._instances: list[Instances] = []

    def add(self, rows: GroupRows) -> None:
        """Take the rows of a batch."""
        if not len(rows):
            return
        self._hashes.append(rows.row_hashes)
        if isinstance(rows, Instances):
            self._instances.append(rows)
            return
        self._posteriors.append(rows.posteriors)
        if rows.fold_posteriors is not None:
            self._fold_posteriors.append(rows.fold_posteriors)
        held = self._posteriors.nbytes + self._fold_posteriors.nbytes
        if self._memory is not None and held > self._memory:
            self._posteriors.move_to_file()
            self._fold_posteriors.move_to_file()

    def rows(self, n_classes: int) -> GroupRows:
        """Return all rows and hold them no longer."""
        if not self._hashes:
            return ScoredRows(np.empty((0, n_classes)))
        hashes = np.concatenate(self._hashes)
        if self._instances:
            return Instances(_joined([part.X for part in self._instances]), hashes=hashes)
        folds = self._fold_posteriors
        return ScoredRows(
            self._posteriors.release(), folds.release() if len(folds) else None, hashes=hashes
        )


def _joined(parts: Sequence[Any]) -> Any:
    """Return instances of several batches as one."""
    import narwhals as nw

    if len(parts) == 1:
        return parts[0]
    if nw.dependencies.is_into_dataframe(parts[0]):
        frames = [nw.from_native(part, eager_only=True) for part in parts]
        return nw.maybe_reset_index(nw.concat(frames, how="vertical")).to_native()
    return np.concatenate(parts)


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
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (see release)
        for part in self._parts:
            self._file.write(part.data)
        self._parts.clear()

    def release(self) -> Floats:
        """Return the whole array and hold it no longer."""
        if self._file is not None:
            self._file.flush()
            mapped: Floats = np.memmap(self._file, dtype=self._dtype, mode="r", shape=self._shape)
            self._file.close()  # the map keeps the rows until it goes
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
