"""Scored tables: what is held of their rows, which group each belongs to, and batches put together.

A batch of a table becomes a :class:`ScoredTable` (``scoring.py``). :func:`collect` puts batches
together; beyond ``MEMORY`` bytes their scores lie in a temporary file.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey._display import warn
from kdey._fingerprints import Hashes
from kdey.bags import Array, Indices
from kdey.tables import (
    canonical_text,
    check_same,
    look_alikes,
    parse_number,
    plain_values,
    text_in_column,
    typed_tokens,
    value_tokens,
)
from kdey.tables.features import TableWarning, warn_of_unseen_values
from kdey.tables.schema import Finding
from kdey.tables.templates import Codes
from kdey.validation import take_rows

if TYPE_CHECKING:
    from kdey.tables import Frame, Series


Floats = NDArray[np.floating]

#: Bytes of scores that are kept in memory; what comes after them goes to a temporary file.
MEMORY = 1 << 30
#: Bytes of a score, which is held in single precision.
SCORE_BYTES = 4
#: The class number of a row without a label.
UNLABELLED = -1
#: What is known of how rows were drawn, and which have labels.
DESIGN = (
    *("labels", "selection", "weights", "clusters", "strata", "variance_strata"),
    *("shares", "fpc"),
)


@dataclass(frozen=True)
class GroupKeys:
    """The combinations of key values seen so far, numbered in the order in which they came.

    Two rows are of one group where the canonical texts of their keys are the same
    (``kdey.tables.canonical_text``), in whatever type they come.

    Attributes
    ----------
    names : names of the key columns; without any, everything is one group
    """

    names: tuple[str, ...]
    _codes: dict[tuple[str, ...], int] = field(default_factory=dict, repr=False)
    _values: list[tuple[Any, ...]] = field(default_factory=list, repr=False)
    #: For each column, the first value with each canonical text.
    _first: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    #: For each column whose type has an order, the rank of each text.
    _ranks: dict[str, dict[str, int]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._codes)

    def encode(self, columns: Sequence[Series | Sequence[Any]], n_rows: int) -> NDArray[np.int32]:
        """Return the number of each row's group, shape (n_rows,).

        Parameters
        ----------
        columns : one narwhals series, or sequence of ``n_rows`` plain values, per key
            None, NaN, NaT and empty texts are one value: missing.
        n_rows : int

        Raises
        ------
        ValueError
            If two different values of a column share a canonical text, naming both; or if a value
            has none.
        """
        if not columns:
            self._number((), ())
            return np.zeros(n_rows, dtype=np.int32)
        texts = [
            self._texts(name, column) for name, column in zip(self.names, columns, strict=True)
        ]
        combined = list(zip(*texts, strict=True))
        # Work in Python is done once per distinct key of the batch, not once per row.
        number = {
            key: self._number(key, self._first_values(key)) for key in dict.fromkeys(combined)
        }
        return np.fromiter(map(number.__getitem__, combined), np.int32, count=n_rows)

    def encode_values(self, values: Sequence[tuple[Any, ...]]) -> NDArray[np.int32]:
        """Return the numbers of groups by their key values, one tuple each."""
        columns: list[Sequence[Any]] = [[key[i] for key in values] for i in range(len(self.names))]
        return self.encode(columns, len(values))

    def _texts(self, name: str, column: Series | Sequence[Any]) -> list[str]:
        """Return the canonical text of each row, and keep the first value with each."""
        values, tokens = _values_and_tokens(column, name)
        first = self._first.setdefault(name, {})
        text_of: dict[Any, str] = {}
        for token, value in dict(zip(tokens, values, strict=True)).items():
            text = text_in_column(name, value)
            check_same(first.setdefault(text, value), value, name)
            text_of[token] = text
        ordered = _ordered_categories(column)
        if ordered is not None:
            known = self._ranks.setdefault(name, {})
            for text in ordered:
                known.setdefault(text, len(known))
        return [text_of[token] for token in tokens]

    def _first_values(self, key: tuple[str, ...]) -> tuple[Any, ...]:
        return tuple(
            self._first[name][text] if text else None
            for name, text in zip(self.names, key, strict=True)
        )

    def _number(self, key: tuple[str, ...], values: tuple[Any, ...]) -> int:
        code = self._codes.setdefault(key, len(self._codes))
        if code == len(self._values):
            self._values.append(values)
        return code

    @property
    def values(self) -> list[tuple[Any, ...]]:
        """Key values of every group, in the order of their numbers; None where one is missing."""
        return list(self._values)

    def order(self) -> Indices:
        """Return the groups sorted by their keys, the first key slowest, missing keys last.

        Keys whose type has an order (ordered categories) follow it; texts that are all numbers are
        sorted as numbers.
        """
        columns = [
            _ranks([value[i] for value in self._values], self._ranks.get(name))
            for i, name in enumerate(self.names)
        ]
        ranked = sorted(range(len(self)), key=lambda g: tuple(column[g] for column in columns))
        return np.array(ranked, dtype=np.int64)


def key_texts(values: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the canonical texts of the keys of a group, by which it is known everywhere."""
    return tuple(map(canonical_text, values))


def _values_and_tokens(column: Series | Sequence[Any], name: str) -> tuple[list[Any], list[Any]]:
    """Return the values of a column, and what tells them apart."""
    import narwhals as nw

    if isinstance(column, nw.Series):
        values = plain_values(column)
        return values, value_tokens(column, values)
    values = list(column)
    return values, typed_tokens(name, values)


def _ordered_categories(column: Series | Sequence[Any]) -> list[str] | None:
    """Return the texts of an ordered category in their order; None for other columns."""
    import narwhals as nw

    if not isinstance(column, nw.Series) or column.dtype not in (nw.Categorical, nw.Enum):
        return None
    # Narwhals tells neither for every library and version: the libraries are asked themselves.
    native: Any = column.to_native()
    categories: list[Any] = []
    if column.implementation.is_pandas_like():
        categories = native.cat.categories.tolist() if native.cat.ordered else []
    elif column.implementation.is_polars():
        categories = list(native.dtype.categories) if column.dtype == nw.Enum else []
    elif column.implementation.is_pyarrow() and native.type.ordered and native.num_chunks:
        categories = native.unify_dictionaries().chunk(0).dictionary.to_pylist()
    return [canonical_text(value) for value in categories] or None


def _ranks(values: list[Any], given: Mapping[str, int] | None) -> list[int]:
    """Return the rank of each value among the distinct ones; None ranks last.

    Parameters
    ----------
    values : list
    given : mapping from canonical texts to ranks, where the type has an order
    """
    known = {canonical_text(value): value for value in values if value is not None}
    if given is not None:
        ordered = sorted(known, key=lambda text: given.get(text, len(given)))
    else:
        ordered = _in_order(known)
    rank = {text: number for number, text in enumerate(ordered)}
    return [len(rank) if value is None else rank[canonical_text(value)] for value in values]


def _in_order(known: Mapping[str, Any]) -> list[str]:
    """Return texts in the order of their values, or as numbers where they all spell one."""
    spelt = {text: parse_number(text) for text, value in known.items() if isinstance(value, str)}
    numbers = {text: number for text, number in spelt.items() if number is not None}
    if len(numbers) == len(known) and all(map(math.isfinite, numbers.values())):
        return sorted(known, key=lambda text: (numbers[text], len(text), text))
    try:
        return sorted(known, key=lambda text: known[text])
    except TypeError:  # of several types: the texts decide
        return sorted(known, key=lambda text: (type(known[text]).__name__, text))


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """What is held of m usable rows.

    Attributes
    ----------
    points : float32 array of shape (m, k), in memory or on disk; or m instances
        Posteriors; instances as ``fit`` took them, for methods that work on features.
    hashes : uint64 array of shape (m,)
        Of the features or scores of each row, or of what tells rows apart.
    groups : int32 array of shape (m,)
        Number of the group of each row.
    on_posteriors : bool
        Whether the points are posteriors.
    fold_posteriors : float32 array of shape (m, k) or None
        Posteriors by the fold models that the quantifier holds, for the fit check.
    column_codes : uint8 array of shape (m, d) or None
        The bin of every value, for the column check (:mod:`kdey.tables.templates`).
    labels : int64 array of shape (m,) or None
        Class number of each label; -1 where a row has none.
    selection : array of shape (m,) or None
        The probability with which each labelled row was chosen; NaN elsewhere.
    weights : array of shape (m,) or None
    clusters, strata, variance_strata : int64 arrays of shape (m,) or None
        Numbers that stand for clusters and strata.
    shares : array of shape (m,) or None
        Known share of the stratum of each row.
    fpc : array of shape (m,) or None
        Size of the population of each row's group or stratum, or the share of it that was drawn.
    """

    points: Any
    hashes: Hashes
    groups: NDArray[np.int32]
    on_posteriors: bool = True
    fold_posteriors: Floats | None = None
    column_codes: Codes | None = None
    labels: Indices | None = None
    selection: Array | None = None
    weights: Array | None = None
    clusters: Indices | None = None
    strata: Indices | None = None
    variance_strata: Indices | None = None
    shares: Array | None = None
    fpc: Array | None = None

    def __len__(self) -> int:
        """Return the number of rows m."""
        return len(self.groups)

    @property
    def row_bytes(self) -> int:
        """Bytes of the points of a row."""
        width = int(self.points.shape[1] if getattr(self.points, "ndim", 1) == 2 else 1)
        return width * (SCORE_BYTES if self.on_posteriors else 8)

    @property
    def checked_posteriors(self) -> Floats:
        """The posteriors that the fit check looks at: those of the fold models where they are."""
        posteriors: Floats = self.points if self.fold_posteriors is None else self.fold_posteriors
        return posteriors

    def take(self, positions: Indices) -> ScoredRows:
        """Return the rows at some positions."""
        taken: dict[str, Any] = {}
        for item in fields(self):
            values = getattr(self, item.name)
            if isinstance(values, np.ndarray):
                taken[item.name] = values[positions]
        if not isinstance(self.points, np.ndarray):
            taken["points"] = take_rows(self.points, positions)
        return replace(self, **taken)

    def canonical_order(self) -> Indices:
        """Return the positions of rows, group after group, in an order that they alone decide.

        Rows are ordered by their hashes and, where these are equal, by their design. Rows that are
        equal in both may stand in any order.
        """
        design = [getattr(self, name) for name in DESIGN]
        ties = [values for values in design if values is not None]
        return np.lexsort((*ties, self.hashes, self.groups)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class ScoredTable:
    """The usable rows of a table, scored and numbered by group.

    Attributes
    ----------
    keys : GroupKeys
    key_rows : narwhals frame or None
        The keys of the groups by their numbers, in the types of the table; None on the workers of a
        cluster, whose keys stay with the driver.
    rows : ScoredRows
    sizes, missing, unseen : int64 arrays of shape (n_groups,)
        Usable rows of each group, rows without a score or feature, and usable rows with a value
        that training lacks.
    rates : array of shape (n_groups,)
        Share of the rows of each group that is here; below one where it was thinned before.
    findings : tuple of Finding
        The values that training lacks, by column.
    label_counts : Counter
        Of the known labels, where they are asked for.
    date_format : str
        How dates of the time column are written, in the notation of strftime; "auto": ISO 8601, or
        no texts.
    """

    keys: GroupKeys
    key_rows: Any
    rows: ScoredRows
    sizes: Indices
    missing: Indices
    unseen: Indices
    rates: Array
    findings: tuple[Finding, ...] = ()
    label_counts: Counter[Any] = field(default_factory=Counter)
    date_format: str = "auto"

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.sizes)

    def check_population_sizes(self, name: Any) -> None:
        """Raise ValueError if rows of one group, or of one stratum of it, differ in ``fpc``.

        Parameters
        ----------
        name : name of the column of sizes
        """
        rows = self.rows
        if rows.fpc is None or not len(rows):
            return
        known = rows.variance_strata if rows.strata is None else rows.strata
        strata = np.zeros(len(rows), dtype=np.int64) if known is None else known
        order = np.lexsort((rows.fpc, strata, rows.groups))
        same = (np.diff(rows.groups[order]) == 0) & (np.diff(strata[order]) == 0)
        differs = np.flatnonzero(same & (np.diff(rows.fpc[order]) != 0))
        if len(differs):
            first, second = order[differs[0]], order[differs[0] + 1]
            key = self.keys.values[rows.groups[first]]
            group = ", ".join(f"{n}={v}" for n, v in zip(self.keys.names, key, strict=True))
            where = "" if known is None else " in one stratum"
            raise ValueError(
                f"column {name!r} must have one value for all rows of a group{where}, but has "
                f"{rows.fpc[first]:g} and {rows.fpc[second]:g}{' in the group ' if group else ''}"
                f"{group}: it is the population of the whole group"
            )

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
            rows=replace(self.rows, groups=numbers[self.rows.groups].astype(np.int32)),
            sizes=summed(self.sizes),
            missing=summed(self.missing),
            unseen=summed(self.unseen),
            rates=rates,
        )


def collect(batches: Iterable[ScoredTable], memory: int | None = MEMORY) -> ScoredTable:
    """Return the batches of a table as one, and warn of values that training lacks.

    Parameters
    ----------
    batches : at least one ScoredTable, all with the same keys
    memory : int or None
        Bytes of scores to keep in memory; None: all.
    """
    growing = {name: _GrowingArray() for name in ("points", "fold_posteriors", "column_codes")}
    parts: list[ScoredTable] = []
    for batch in batches:
        rows = batch.rows
        if rows.on_posteriors and len(rows):
            for name, array in growing.items():
                if getattr(rows, name) is not None:
                    array.append(getattr(rows, name))
            if memory is not None and sum(array.nbytes for array in growing.values()) > memory:
                for array in growing.values():
                    array.move_to_file()
            light: dict[str, Any] = dict.fromkeys(growing)
            batch = replace(batch, rows=replace(rows, **light))
        parts.append(batch)
    if not parts:
        raise ValueError("the table has no rows")
    first, keys = parts[0], parts[0].keys
    totals = {
        name: _summed([getattr(part, name) for part in parts], len(keys))
        for name in ("sizes", "missing", "unseen")
    }
    n_rows = int(totals["sizes"].sum() + totals["missing"].sum())
    findings = _merge_findings([f for part in parts for f in part.findings], n_rows)
    warn_of_unseen_values(findings)
    _warn_of_look_alikes(keys.names, keys.values)
    rows = joined_rows([part.rows for part in parts])
    if len(growing["points"]):
        held: dict[str, Any] = {n: array.release() for n, array in growing.items() if len(array)}
        rows = replace(rows, **held)
    return ScoredTable(
        keys,
        _all_keys(first.key_rows, keys),
        rows,
        **totals,
        rates=np.ones(len(keys)),
        findings=findings,
        label_counts=sum((part.label_counts for part in parts), Counter()),
        date_format=first.date_format,
    )


def _merge_findings(findings: Iterable[Finding], total: int) -> tuple[Finding, ...]:
    """Return the findings of a table from those of its batches.

    Parameters
    ----------
    findings : iterable of Finding
    total : int
        Rows of all batches, among them those without a finding.

    Returns
    -------
    tuple of Finding
        One for each column and kind of finding, with the counts of all batches.
    """
    merged: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = (finding.column, finding.what)
        first = merged.get(key, replace(finding, count=0, total=total))
        merged[key] = replace(first, count=first.count + finding.count)
    return tuple(merged.values())


def _warn_of_look_alikes(names: Sequence[str], keys: Sequence[Sequence[Any]]) -> None:
    """Warn of keys that differ in characters alone that are not seen.

    Parameters
    ----------
    names : names of the key columns
    keys : the values of each group, one per column
    """
    for place, name in enumerate(names):
        texts = {key[place] for key in keys if isinstance(key[place], str)}
        for alike in look_alikes(sorted(texts)):
            warn(
                f"column {name!r}: {' and '.join(map(repr, alike))} are {len(alike)} groups, "
                "which differ in characters that are not seen: if they are one, write it alike",
                TableWarning,
            )


def joined_rows(parts: Sequence[ScoredRows]) -> ScoredRows:
    """Return the rows of several parts as one; points that lie elsewhere (None) stay there."""
    filled = [part for part in parts if len(part)] or parts[:1]
    columns: dict[str, Any] = {}
    for item in fields(ScoredRows):
        values = [getattr(part, item.name) for part in filled]
        if item.name == "points":
            columns["points"] = None if values[0] is None else _joined(values)
        elif isinstance(values[0], np.ndarray):
            columns[item.name] = np.concatenate(values)
    return replace(filled[0], **columns)


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
