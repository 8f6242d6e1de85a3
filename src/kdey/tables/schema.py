"""What the columns of a table are taken for, decided once and kept in the model.

Every column has a *role* (feature, label, key, time, weight, cluster, id, ignored) and a *kind*
(number, category, text, date, score). :func:`~kdey.tables.training.learn_schema` decides both. The
:class:`TableSchema` that it returns goes with the model and reads every later table:
:meth:`TableSchema.encode` finds columns by name, ignores the others, and gives the matrix X that
the classifier was fitted on.

Values of categories are compared as canonical text, so that 1 in a Parquet file is the "1" of a CSV
file. A value that training lacks becomes NaN, as a missing one does, and is counted by column.

Labels are whole numbers where all are, texts otherwise. They are compared by their canonical texts,
too: 1 in a Parquet file, 1.0 in a column with gaps and "1" in a CSV file are one class, while "01"
and "1", or "true" and "True", are two.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from kdey._display import LINE_WIDTH, count_of
from kdey.tables import (
    Frame,
    RowNumbers,
    Series,
    as_frame,
    canonical_column,
    canonical_text,
    day_numbers,
    finite_numbers,
    number_block,
    parse_number,
    plain_texts,
    require,
    row_number,
    visible,
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
BEYOND = "numbers beyond those of training"
#: Whole numbers as Python writes them; "01", "+1" and "-0" are texts.
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_ANY_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_INT64 = np.iinfo(np.int64)
#: Columns that a table of columns has lines for.
_MOST_LINES = 12
#: Columns of numbers that are read at once; one odd cell among them, and they are read one by one.
_BLOCK = 250
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
    range : (float, float), optional
        The smallest and the largest number of training; other kinds have none.
    """

    name: str
    role: Role = "feature"
    kind: Kind = "number"
    categories: tuple[str, ...] = ()
    n_missing: int = 0
    reason: str = ""
    constant: str = ""
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.role not in ROLES or self.kind not in KINDS:
            raise ValueError(
                f"column {self.name!r}: the role must be one of {', '.join(ROLES)} and the kind "
                f"one of {', '.join(KINDS)}, got {self.role!r} and {self.kind!r}"
            )


def column_lines(columns: Sequence[Column]) -> list[str]:
    """Return a short table of what columns are taken for and why, as lines for a terminal.

    Plain columns of numbers come last, and what has no room is summed up.
    """
    ordered = sorted(columns, key=_is_plain)
    width = min(24, max((len(column.name) for column in columns), default=0))
    lines = []
    for column in ordered[:_MOST_LINES]:
        use: str = column.role
        reason = column.reason
        if column.role == "feature":
            use = column.kind
            reason = f"{column.n_missing:,} missing; {reason}" if column.n_missing else reason
        lines.append(_cut(f"  {_cut(column.name, width):{width}}  {use:8}  {reason}", LINE_WIDTH))
    rest = ordered[_MOST_LINES:]
    features = [column for column in rest if column.role == "feature"]
    kinds = ", ".join(sorted({column.kind for column in features}))
    parts = [f"{len(features)} as {kinds}"] if features else []
    if len(features) < len(rest):
        parts.append(f"{len(rest) - len(features)} that are not features")
    if rest:
        names = ", ".join(column.name for column in features)
        used = f"; used are {names}" if features else ""
        line = f"  ... and {len(rest)} more columns: {', '.join(parts)}{used}"
        lines.append(_cut(line, LINE_WIDTH))
    return lines


def _is_plain(column: Column) -> bool:
    return column.role == "feature" and column.kind == "number" and not column.n_missing


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


@dataclass(frozen=True)
class Finding:
    """Something about a column of a new table that may spoil an estimate.

    Attributes
    ----------
    column : str
    what : str
        "unseen values", "missing values" or "numbers beyond those of training"; "other values" for
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
        Missing values of columns that had all of them in training, values not seen there, numbers
        beyond its range, and other values of columns that had a single one.
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
        counts = Counter(column.name for column in self.columns)
        repeated = sorted(name for name, count in counts.items() if count > 1)
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

    @cached_property
    def feature_columns(self) -> tuple[Column, ...]:
        """The columns of X."""
        return tuple(column for column in self.with_role("feature") if column.kind not in SCORED)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of X."""
        return tuple(column.name for column in self.feature_columns)

    @cached_property
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
        dtype = object if "text" in self.kinds else np.float64
        X = np.empty((len(table), len(self.feature_names)), dtype=dtype)
        missing, unexpected, unseen = np.zeros((3, len(table)), dtype=np.bool_)
        findings: list[Finding] = []
        for start, block in _blocks(self.feature_columns):
            plain = block[0].kind == "number" and mark == "."
            floats = number_block(table, [column.name for column in block]) if plain else None
            if floats is not None:
                X[:, start : start + len(block)] = floats
                lacking = np.isnan(floats)
                missing |= lacking.any(axis=1)
                unexpected |= lacking[:, [not column.n_missing for column in block]].any(axis=1)
                findings += _block_findings(block, floats, first)
                continue
            for i, column in enumerate(block, start=start):
                values = table.get_column(column.name)
                X[:, i], empty, new, found = encode_column(column, values, first, mark)
                missing |= empty
                unseen |= new
                if not column.n_missing:
                    unexpected |= empty
                findings += found
        present = set(table.columns)
        for column in self.columns:
            if column.constant and column.name in present:
                findings += _other_values(column, table[column.name], first, mark)
        return EncodedTable(X, missing, unexpected, unseen, tuple(findings))

    @property
    def constants(self) -> tuple[str, ...]:
        """The names of columns that are not used because training has a single value of them."""
        return tuple(column.name for column in self.columns if column.constant)

    def missing_in(
        self, frame: Any, name: str, first: RowNumbers = 1, decimal: str | None = None
    ) -> NDArray[np.bool_]:
        """Return which values of a feature or score are missing in a table, shape (m,)."""
        mark = self.decimal if decimal is None else decimal
        return encode_column(self[name], as_frame(frame)[name], first, mark)[1]

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
        restored = _schema_of(state["json"])
        for name in ("columns", "decimal"):
            object.__setattr__(self, name, getattr(restored, name))


@lru_cache(maxsize=1)  # a model file has the same text in each fold model
def _schema_of(text: str) -> TableSchema:
    return TableSchema.from_dict(json.loads(text))


def _column_from(entry: Mapping[str, Any]) -> Column:
    categories = tuple(entry.get("categories", ()))
    bounds = entry.get("range")
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
        None if bounds is None else (float(bounds[0]), float(bounds[1])),
    )


def encode_column(
    column: Column, values: Series, first: RowNumbers, decimal: str
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], list[Finding]]:
    """Return the values of a column by its kind.

    Parameters
    ----------
    column : Column
    values : narwhals series of m rows
    first : int, or int array of shape (m,)
        Number of the first row, or of all rows, for messages.
    decimal : {".", ","}

    Returns
    -------
    encoded : array of shape (m,)
    missing, unseen : bool array of shape (m,)
        Which values are missing, and which categories training lacks.
    findings : list of Finding

    Raises
    ------
    ValueError
        If numbers or dates cannot be read.
    """
    none = np.zeros(len(values), dtype=np.bool_)
    if column.kind == "text":  # a text that is missing is an empty one
        return plain_texts(values), none, none, []
    if column.kind in ("category", "decision"):
        return _encode_categories(column, values, first)
    is_date = column.kind == "date"
    floats = day_numbers(values, first) if is_date else finite_numbers(values, first, decimal)
    return floats, np.isnan(floats), none, _number_findings(column, floats, first)


def _blocks(columns: Sequence[Column]) -> Iterator[tuple[int, list[Column]]]:
    """Yield columns in runs, with the position of the first: many of numbers, or one of others."""
    position = 0
    for are_numbers, run in groupby(columns, key=lambda column: column.kind == "number"):
        alike = list(run)
        step = _BLOCK if are_numbers else 1
        for start in range(0, len(alike), step):
            block = alike[start : start + step]
            yield position, block
            position += len(block)


def _block_findings(
    columns: Sequence[Column], floats: NDArray[np.float64], first: RowNumbers
) -> list[Finding]:
    """Return the findings of columns of numbers, looking closer only where there are any."""
    bounds = np.array([column.range or (-np.inf, np.inf) for column in columns]).T
    odd = (floats < bounds[0]) | (floats > bounds[1]) | np.isnan(floats)
    return [
        finding
        for i in np.flatnonzero(odd.any(axis=0))
        for finding in _number_findings(columns[int(i)], floats[:, i], first)
    ]


def _number_findings(
    column: Column, floats: NDArray[np.float64], first: RowNumbers
) -> list[Finding]:
    missing = _missing_findings(column, np.isnan(floats), first)
    return missing + _beyond_findings(column, floats)


def _encode_categories(
    column: Column, values: Series, first: RowNumbers
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], list[Finding]]:
    code = {text: float(i) for i, text in enumerate(column.categories)}
    truths = {text.lower(): code[text] for text in column.categories}
    if truths.keys() == {"false", "true"}:  # which other tables write as 0 and 1, or in capitals
        spelt = {"0": truths["false"], "1": truths["true"]} | truths
        code = {form: n for text, n in spelt.items() for form in _capitals(text)} | code
    texts = canonical_column(values)
    codes = np.array([code.get(text, np.nan) for text in texts], dtype=np.float64)
    missing = np.asarray(texts == "", dtype=np.bool_)
    unseen = np.isnan(codes) & ~missing
    findings = _missing_findings(column, missing, first)
    if unseen.any():
        detail = f"such as {str(texts[int(np.argmax(unseen))])[:40]!r}"
        unknown = Finding(column.name, UNSEEN, int(unseen.sum()), len(values), detail)
        findings.insert(0, unknown)
    return codes, missing, unseen, findings


def _capitals(text: str) -> tuple[str, str, str]:
    return text, text.capitalize(), text.upper()


def _missing_findings(
    column: Column, missing: NDArray[np.bool_], first: RowNumbers
) -> list[Finding]:
    """Return a finding if values are missing in a column that has all of them in training."""
    if column.n_missing or not missing.any():
        return []
    detail = f"row {row_number(first, int(np.argmax(missing)))}; training lacks none"
    return [Finding(column.name, MISSING, int(missing.sum()), len(missing), detail)]


def _beyond_findings(column: Column, values: NDArray[np.float64]) -> list[Finding]:
    """Return a finding if numbers are smaller or larger than all of training."""
    if column.range is None:
        return []
    low, high = column.range
    beyond = (values < low) | (values > high)
    if not beyond.any():
        return []
    detail = f"such as {values[int(np.argmax(beyond))]:g}; training has {low:g} to {high:g}"
    return [Finding(column.name, BEYOND, int(beyond.sum()), len(values), detail)]


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


def is_unlabelled(column: Series) -> NDArray[np.bool_]:
    """Return which entries of a label column are missing, shape (m,)."""
    return np.asarray(canonical_column(column) == "", dtype=np.bool_)


def read_labels(
    column: Series, label_type: LabelType = "auto", first: RowNumbers = 1
) -> NDArray[Any]:
    """Return the labels of a training table, shape (n,).

    Parameters
    ----------
    column : narwhals series
        Without missing entries.
    label_type : {"auto", "text", "integer"}
        With "auto" labels are int64 if all are whole numbers in their usual spelling ("01" is not)
        within the range of int64, and texts otherwise.
    first : int, or int array of shape (n,)
        Number of the first row, or of all rows, for messages.

    Raises
    ------
    ValueError
        If labels are numbers with a fraction, or not whole numbers as asked; if two different
        labels would become one; or if a label is missing.
    """
    if label_type not in LABEL_TYPES:
        raise ValueError(f"label_type must be one of {', '.join(LABEL_TYPES)}, got {label_type!r}")
    texts = canonical_column(column)
    _check_present(column, texts, first)
    if label_type == "integer":
        return _integers(column, texts, first)
    distinct = set(texts.tolist())
    if label_type == "auto":
        if all(_fits_int64(text) for text in distinct):
            return np.array([int(text) for text in texts], dtype=np.int64)
        _check_fractions(column, texts, first)
    return np.array(texts.tolist(), dtype=str)


def _check_present(column: Series, texts: NDArray[np.object_], first: RowNumbers) -> None:
    missing = texts == ""
    if missing.any():
        lacking = count_of(int(missing.sum()), "row lacks one", "rows lack one")
        raise ValueError(
            f"column {column.name!r} has no label in row "
            f"{row_number(first, int(np.argmax(missing)))} ({lacking}): "
            "label them, or leave them out (unlabelled='drop')"
        )


def _fits_int64(text: str) -> bool:
    if not _CANONICAL_INTEGER.fullmatch(text) or len(text) > 20:
        return False
    return _INT64.min <= int(text) <= _INT64.max


def _check_fractions(column: Series, texts: NDArray[np.object_], first: RowNumbers) -> None:
    """Raise where labels are numbers with a fraction: measurements rather than classes."""
    spelt = {text: parse_number(text) for text in set(texts.tolist())}
    fractions = [text for text, value in spelt.items() if value is not None and value % 1 != 0]
    if not fractions or None in spelt.values():
        return
    row = int(np.argmax(np.isin(texts, fractions)))
    raise ValueError(
        f"column {column.name!r} must hold classes, but row {row_number(first, row)} has "
        f"{texts[row]}: name another label column, or label_type='text' if these are classes"
    )


def _integers(column: Series, texts: NDArray[np.object_], first: RowNumbers) -> NDArray[np.int64]:
    """Return labels as whole numbers, whatever their spelling."""
    spellings: dict[int, str] = {}
    for text in dict.fromkeys(texts.tolist()):
        if not _ANY_INTEGER.fullmatch(text) or not _INT64.min <= int(text) <= _INT64.max:
            row = row_number(first, texts.tolist().index(text))
            raise ValueError(
                f"column {column.name!r} must hold whole numbers within 64 bits "
                f"(label_type='integer'), but row {row} has {text[:40]!r}"
            )
        other = spellings.setdefault(int(text), text)
        if other != text:
            raise ValueError(
                f"column {column.name!r} has the labels {other!r} and {text!r}, which are the same "
                "whole number: make them alike, or use label_type='text'"
            )
    return np.array([int(text) for text in texts], dtype=np.int64)


def similar_labels(classes: NDArray[Any]) -> list[str]:
    """Return sentences about classes that may be one class in two spellings.

    These are texts that differ in capital letters, in spaces around them, in leading zeros or in
    characters that are not seen alone.

    Parameters
    ----------
    classes : array of shape (k,)
    """
    if classes.dtype.kind != "U":
        return []
    spellings: dict[str, list[str]] = {}
    for label in classes.tolist():
        plain = visible(label).casefold()
        spellings.setdefault(plain.lstrip("0") or plain, []).append(label)
    return [
        f"{' and '.join(map(repr, alike))} are taken for {len(alike)} classes: if they are one, "
        "write it alike"
        for alike in spellings.values()
        if len(alike) > 1
    ]


def match_labels(
    column: Series, classes: NDArray[Any], first: RowNumbers = 1, label_type: LabelType = "auto"
) -> NDArray[Any]:
    """Return the labels of a table as the classes of a model, shape (n,).

    Parameters
    ----------
    column : narwhals series
        Without missing entries.
    classes : array of shape (k,)
    first : int, or int array of shape (n,)
    label_type : {"auto", "text", "integer"}
        What the labels of training were read as; with "integer" their spelling does not matter.

    Raises
    ------
    ValueError
        If a label is not among the classes.
    """
    known = np.asarray(classes)
    texts = canonical_column(column)
    _check_present(column, texts, first)
    position = {canonical_text(label): code for code, label in enumerate(known.tolist())}
    code_of = {
        text: position.get(_spelling(text, known, label_type), -1) for text in set(texts.tolist())
    }
    codes = np.array([code_of[text] for text in texts], dtype=np.int64)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        few = ", ".join(list(position)[:6]) + (", ..." if len(position) > 6 else "")
        such_rows = count_of(int((codes < 0).sum()), "such row")
        raise ValueError(
            f"column {column.name!r} has the class {_shown(texts[row])} in row "
            f"{row_number(first, row)}, which training lacks ({such_rows}; "
            f"training has {few}): correct them, leave them out, or fit on them too"
        )
    return known[codes]


def _shown(text: str) -> str:
    return text if _CANONICAL_INTEGER.fullmatch(text) else repr(text[:40])


def _spelling(text: str, classes: NDArray[Any], label_type: LabelType) -> str:
    """Return a label in the spelling of the classes."""
    if label_type == "integer" and _ANY_INTEGER.fullmatch(text):
        return str(int(text))
    # Truth values have two spellings only, so that capital letters cannot part two classes.
    return text.lower() if classes.dtype.kind == "b" else text


def labels_seen(
    frame: Frame,
    label: str,
    classes: NDArray[Any],
    first: int = 1,
    label_type: LabelType = "auto",
) -> NDArray[Any]:
    """Return the labels of a table in which some may be missing, as classes of a model.

    Parameters
    ----------
    frame : narwhals frame of m rows
    label : str
        Name of the label column.
    classes : array of shape (k,)
    first : int
        Number of the first row, for messages.
    label_type : {"auto", "text", "integer"}

    Returns
    -------
    array of at most m labels

    Raises
    ------
    ValueError
        If a label is not among the classes.
    """
    require(frame, [label], "label column")
    known = ~is_unlabelled(frame[label])
    rows = np.arange(first, first + len(frame), dtype=np.int64)[known]
    column = frame[label] if known.all() else frame[label].filter(known.tolist())
    return match_labels(column, classes, rows, label_type)
