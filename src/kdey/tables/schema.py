"""What the columns of a table are taken for, decided once and kept in the model.

Every column has a *role* (feature, label, key, time, weight, cluster, id, ignored) and a *kind*
(number, category, text, date, score). :func:`~kdey.tables.survey.learn_schema` decides both. The
:class:`TableSchema` that it returns goes with the model and reads every later table:
:meth:`TableSchema.encode` finds columns by name, ignores the others, and gives the matrix X that
the classifier was fitted on.

Values of categories are compared as canonical text, so that 1 in a Parquet file is the "1" of a CSV
file. A value that training lacks becomes NaN, as a missing one does, and is counted by column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from kdey.tables.columns import (
    Frame,
    RowNumbers,
    Series,
    as_frame,
    canonical_column,
    day_numbers,
    finite_numbers,
    plain_texts,
    require,
    row_number,
)

Role: TypeAlias = Literal["feature", "label", "key", "time", "weight", "cluster", "id", "ignored"]
Kind: TypeAlias = Literal["number", "category", "text", "date", "score", "decision"]
#: How labels are read: as whole numbers where all are, always as texts, or as whole numbers.
LabelType: TypeAlias = Literal["auto", "text", "integer"]
ROLES: tuple[Role, ...] = get_args(Role)
KINDS: tuple[Kind, ...] = get_args(Kind)
LABEL_TYPES: tuple[LabelType, ...] = get_args(LabelType)
#: Kinds of columns that a classifier of the user's wrote: posteriors, or the label it decided for.
SCORED: tuple[Kind, ...] = ("score", "decision")
#: What a finding may say of the values of a column.
UNSEEN, MISSING, VARYING = "unseen values", "missing values", "other values"
#: Reasons of columns whose role the user gave.
AS_ASKED, NOT_ASKED = "as asked", "not among the features asked for"


@dataclass(frozen=True)
class Column:
    """What one column of a table is taken for.

    Attributes
    ----------
    name : str
    role : {"feature", "label", "key", "time", "weight", "cluster", "id", "ignored"}
    kind : {"number", "category", "text", "date", "score", "decision"}
    categories : tuple of str
        Canonical texts of the values that training has, sorted; of the classes, in their order, for
        the kind "decision". Other kinds have none.
    n_missing : int
        Training rows without a value.
    reason : str
        Why the column is taken for this.
    constant : str
        The only value of training, as text, for a column that is not used because of it.
    """

    name: str
    role: Role = "feature"
    kind: Kind = "number"
    categories: tuple[str, ...] = ()
    n_missing: int = 0
    reason: str = ""
    constant: str = ""

    @property
    def chosen(self) -> bool:
        """Whether the user said what the column is used for."""
        return self.reason in (AS_ASKED, NOT_ASKED)

    def __post_init__(self) -> None:
        if self.role not in ROLES or self.kind not in KINDS:
            raise ValueError(
                f"column {self.name!r}: the role must be one of {', '.join(ROLES)} and the kind "
                f"one of {', '.join(KINDS)}, got {self.role!r} and {self.kind!r}"
            )


@dataclass(frozen=True)
class Finding:
    """Something about a column of a new table that may spoil an estimate.

    Attributes
    ----------
    column : str
    what : str
        "absent", "other type", "unseen values", "missing values" or "constant"; "other values" for
        a column that is not used because training has a single value of it.
    count : int
        Rows concerned.
    total : int
        Rows of the table.
    detail : str
        An example, or what was expected.
    """

    column: str
    what: str
    count: int
    total: int
    detail: str = ""

    def __str__(self) -> str:
        """Return one sentence without a full stop."""
        shown = f" ({self.detail})" if self.detail else ""
        return (
            f"column {self.column!r}: {self.what} in {self.count:,} of {self.total:,} rows{shown}"
        )


def merge_findings(findings: Iterable[Finding], total: int) -> tuple[Finding, ...]:
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


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """The features of a table as a classifier takes them.

    Attributes
    ----------
    X : float64 array of shape (m, d), or object array where the schema has texts
        NaN where a value is missing or was not seen in training.
    missing : bool array of shape (m,)
        Rows in which some value is missing.
    unexpected : bool array of shape (m,)
        Rows in which a value is missing in a column that had all its values in training.
    unseen : bool array of shape (m,)
        Rows in which some category was not seen in training.
    findings : tuple of Finding
        Missing values of columns that had all of them in training, values not seen there, and
        other values of columns that had a single one.
    """

    X: NDArray[Any]
    missing: NDArray[np.bool_]
    unexpected: NDArray[np.bool_]
    unseen: NDArray[np.bool_]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class TableSchema:
    """The columns of a training table, and how later tables are read by them.

    Attributes
    ----------
    columns : tuple of Column
        In the order of the training table; features are columns of X in this order.
    decimal : {".", ","}
        Decimal mark of numbers in text columns of the training table.
    """

    columns: tuple[Column, ...]
    decimal: str = "."

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"the column {repeated[0]!r} is in the schema twice")

    def __getitem__(self, name: str) -> Column:
        """Return a column by its name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        """Return whether the schema has a column of this name."""
        return any(column.name == name for column in self.columns)

    def with_role(self, *roles: str) -> tuple[Column, ...]:
        """Return the columns that have one of some roles."""
        return tuple(column for column in self.columns if column.role in roles)

    @property
    def label(self) -> str | None:
        """The name of the label column; None if there is none."""
        labels = self.with_role("label")
        return labels[0].name if labels else None

    @property
    def label_type(self) -> LabelType:
        """How labels of later tables are read: "integer" if that was asked for at fit."""
        labels = self.with_role("label")
        return "integer" if labels and labels[0].kind == "number" else "auto"

    @property
    def feature_columns(self) -> tuple[Column, ...]:
        """The columns of X."""
        return tuple(column for column in self.with_role("feature") if column.kind not in SCORED)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of X."""
        return tuple(column.name for column in self.feature_columns)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of each column of X: "number", "category", "text" or "date"."""
        return tuple(column.kind for column in self.feature_columns)

    @property
    def scores(self) -> tuple[str, ...]:
        """The names of the score columns, or of the one of decisions, if it was fitted on them."""
        return tuple(c.name for c in self.with_role("feature") if c.kind in SCORED)

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the columns that estimates need."""
        return self.feature_names or self.scores

    def features(self, frame: Any, first: RowNumbers = 1) -> NDArray[Any]:
        """Return the features of a table as a matrix; see :meth:`encode`."""
        return self.encode(frame, first).X

    def encode(self, frame: Any, first: RowNumbers = 1, decimal: str | None = None) -> EncodedTable:
        """Return the features of a table, found by name, and what was not seen in training.

        Numbers are floats, categories positions among the texts of training, dates days since 1970,
        texts as they are.

        Parameters
        ----------
        frame : data frame of pandas, polars, pyarrow or narwhals, m rows
        first : int, or int array of shape (m,)
            Number of the first row, or of all rows, for messages.
        decimal : {".", ","}, optional
            Decimal mark of numbers in text columns; by default that of training.

        Returns
        -------
        EncodedTable

        Raises
        ------
        ValueError
            If a column is absent or holds values of another type; the message names it.
        """
        table = as_frame(frame)
        require(table, self.feature_names)
        mark = self.decimal if decimal is None else decimal
        X = self._empty(len(table))
        missing, unexpected, unseen = np.zeros((3, len(table)), dtype=np.bool_)
        findings: list[Finding] = []
        for i, column in enumerate(self.feature_columns):
            encoded = encode_column(column, table[column.name], first, mark)
            X[:, i] = encoded.values
            missing |= encoded.missing
            unseen |= encoded.unseen
            if not column.n_missing:
                unexpected |= encoded.missing
            findings += _value_findings(column, encoded, first)
        findings += self._varying(table, first, mark)
        return EncodedTable(X, missing, unexpected, unseen, tuple(findings))

    @property
    def constants(self) -> tuple[str, ...]:
        """The names of columns that are not used because training has a single value of them."""
        return tuple(column.name for column in self.columns if column.constant)

    def _varying(self, table: Frame, first: RowNumbers, decimal: str) -> list[Finding]:
        """Return the columns that had a single value in training and have others here."""
        findings = []
        for name in self.constants:
            if name in table.columns:
                findings += _other_values(self[name], table[name], first, decimal)
        return findings

    def _empty(self, n_rows: int) -> NDArray[Any]:
        dtype = object if "text" in self.kinds else np.float64
        return np.empty((n_rows, len(self.feature_names)), dtype=dtype)

    def missing_in(
        self, frame: Any, name: str, first: RowNumbers = 1, decimal: str | None = None
    ) -> NDArray[np.bool_]:
        """Return which values of a feature or score are missing in a table, shape (m,)."""
        mark = self.decimal if decimal is None else decimal
        return encode_column(self[name], as_frame(frame)[name], first, mark).missing

    def check(
        self, frame: Any, first: RowNumbers = 1, decimal: str | None = None
    ) -> tuple[Finding, ...]:
        """Return what may spoil an estimate for a new table; nothing is raised.

        Looked for are columns that are absent or of another type, values that training lacks,
        values missing where training lacks none, features with a single value, and several values
        of columns that are not used because training has a single one.
        """
        table = as_frame(frame)
        mark = self.decimal if decimal is None else decimal
        findings: list[Finding] = []
        for column in self.with_role("feature"):
            if column.name in table.columns:
                findings += _check_column(column, table[column.name], first, mark)
            else:
                findings.append(Finding(column.name, "absent", len(table), len(table)))
        return (*findings, *self._varying(table, first, mark))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableSchema:
        """Return the schema of plain values; raises ValueError if they are none."""
        try:
            columns = tuple(_column_from(entry) for entry in values["columns"])
            decimal = values.get("decimal", ".")
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not the schema of a table: {error!r:.120}") from error
        if decimal not in (".", ","):
            raise ValueError("not the schema of a table: decimal must be '.' or ','")
        return cls(columns, decimal)

    # One JSON text in a model file is a hundredth of what its parts would be one by one, and
    # reading it checks the types.
    def __getstate__(self) -> dict[str, Any]:
        """Return the schema as one JSON text, for model files and pickles."""
        return {"json": json.dumps(self.to_dict())}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore the schema from a JSON text."""
        restored = TableSchema.from_dict(json.loads(state["json"]))
        for name in ("columns", "decimal"):
            object.__setattr__(self, name, getattr(restored, name))


def _column_from(entry: Mapping[str, Any]) -> Column:
    categories = tuple(entry.get("categories", ()))
    texts = (entry["name"], entry.get("reason", ""), entry.get("constant", ""), *categories)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("not the schema of a table: names and categories must be texts")
    return Column(
        entry["name"],
        entry.get("role", "feature"),
        entry.get("kind", "number"),
        categories,
        int(entry.get("n_missing", 0)),
        entry.get("reason", ""),
        entry.get("constant", ""),
    )


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """A column of X; which values are missing; which categories training lacks, with the first."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]
    unseen: NDArray[np.bool_]
    example: str = ""


def encode_column(column: Column, values: Series, first: RowNumbers, decimal: str) -> EncodedColumn:
    """Return the values of a column by its kind.

    Parameters
    ----------
    column : Column
    values : narwhals series of m rows
    first : int, or int array of shape (m,)
        Number of the first row, or of all rows, for messages.
    decimal : {".", ","}

    Raises
    ------
    ValueError
        If numbers or dates cannot be read.
    """
    if column.kind in ("category", "decision"):
        return _encode_categories(column, values)
    none = np.zeros(len(values), dtype=np.bool_)
    if column.kind == "text":  # a text that is missing is an empty one
        return EncodedColumn(plain_texts(values), none, none)
    if column.kind == "date":
        days = day_numbers(values, first)
        return EncodedColumn(days, np.isnan(days), none)
    floats = finite_numbers(values, first, decimal)
    return EncodedColumn(floats, np.isnan(floats), none)


def _encode_categories(column: Column, values: Series) -> EncodedColumn:
    code = {text: float(i) for i, text in enumerate(column.categories)}
    texts = canonical_column(values)
    codes = np.array([code.get(text, np.nan) for text in texts], dtype=np.float64)
    missing = np.asarray(texts == "", dtype=np.bool_)
    unseen = np.isnan(codes) & ~missing
    example = str(texts[int(np.argmax(unseen))]) if unseen.any() else ""
    return EncodedColumn(codes, missing, unseen, example)


def _value_findings(column: Column, encoded: EncodedColumn, first: RowNumbers) -> list[Finding]:
    total, findings = len(encoded.values), []
    if encoded.unseen.any():
        detail = f"such as {encoded.example[:40]!r}"
        findings.append(Finding(column.name, UNSEEN, int(encoded.unseen.sum()), total, detail))
    if encoded.missing.any() and not column.n_missing:
        detail = f"row {row_number(first, int(np.argmax(encoded.missing)))}; training lacks none"
        findings.append(Finding(column.name, MISSING, int(encoded.missing.sum()), total, detail))
    return findings


def _other_values(column: Column, values: Series, first: RowNumbers, decimal: str) -> list[Finding]:
    """Return a finding if values differ from the only one of training."""
    texts = canonical_column(values)
    other = np.asarray((texts != "") & (texts != column.constant), dtype=np.bool_)
    if column.kind == "number" and other.any():
        try:
            floats = finite_numbers(values, first, decimal)
        except ValueError:  # a text among them is another value, too
            floats = np.full(len(values), np.nan)
        other &= floats != float(column.constant)
    if not other.any():
        return []
    example = str(texts[int(np.argmax(other))])[:40]
    detail = f"such as {example!r}; in training it was {column.reason}"
    return [Finding(column.name, VARYING, int(other.sum()), len(values), detail)]


def _check_column(column: Column, values: Series, first: RowNumbers, decimal: str) -> list[Finding]:
    total = len(values)
    try:
        encoded = encode_column(column, values, first, decimal)
    except ValueError as error:
        return [Finding(column.name, "other type", total, total, str(error))]
    findings = _value_findings(column, encoded, first)
    known = encoded.values[~(encoded.missing | encoded.unseen)]
    if column.kind != "text" and total > 1 and len(known) == total and len(np.unique(known)) == 1:
        findings.append(Finding(column.name, "constant", total, total))
    return findings
