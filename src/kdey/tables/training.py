"""A labelled table as training data: what its columns are taken for, its features and labels.

:func:`learn_schema` gives every column a role and a kind (:mod:`kdey.tables.schema`), by what the
user says or else by its values, with a reason for every decision that one may want to overrule.
The thresholds are argued in docs/lab/decisions/0016-tables.md. :func:`training_table` reads a table
by it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdey._display import count_of
from kdey.tables import (
    Frame,
    RowNumbers,
    Series,
    as_frame,
    canonical_column,
    canonical_text,
    cure,
    day_numbers,
    finite_numbers,
    first_text,
    is_date,
    is_declared_category,
    is_missing_text,
    is_number,
    is_text,
    is_truth,
    missing_in,
    numbers,
    parse_number,
    plain_numbers,
    require,
    row_number,
    type_of,
)
from kdey.tables.schema import (
    AS_ASKED,
    KINDS,
    NOT_ASKED,
    ROLES,
    Column,
    Kind,
    LabelType,
    Role,
    TableSchema,
    encode_column,
    is_unlabelled,
    match_labels,
    read_labels,
)

#: A column of texts with more different ones than this is no category.
MOST_CATEGORIES = 200
#: Share of different values from which a column of texts or integers is an id, that from which it
#: is one if its name or its order says so, and the rows below which they are too few to tell.
ID_SHARE, LIKELY_ID_SHARE, ID_ROWS = 0.99, 0.5, 20
#: Share of the values that must look like dates, or like numbers with another decimal mark.
MOST = 0.9
#: Texts with this many words on average are sentences.
WORDS = 4.0

#: Whole numbers between these may be dates such as 20240131.
FIRST_DATE, LAST_DATE = 19000101, 20991231

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
#: Words in the names of ids, and the words of a name: order_id, orderId, Order-Nr.
_ID_WORDS = frozenset(["id", "uuid", "nr", "key"])
#: Words in the names of ids of what has several rows, in singular.
_UNIT_WORDS = frozenset(
    [
        *("author", "client", "customer", "device", "household", "patient", "person"),
        *("respondent", "session", "student", "subject", "user", "writer"),
    ]
)
#: Ids that repeat are hinted at from this number on, if they are at most this share of the rows.
LEAST_IDS, MOST_REPEATED = 5, 0.9
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LEADING_ZERO = re.compile(r"[+-]?0\d+", re.ASCII)
#: Dates in numbers, with the name of the month in any language (3 March 2026, Mar 3, 2026), and
#: months and weeks of a year (2026-03, 2026-W10); with or without the time of day.
_DATE = re.compile(
    r"""(?: [0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}
          | [0-9]{1,2}[-/.][0-9]{1,2}[-/.](?:[0-9]{4}|[0-9]{2})
          | (?:[^\W\d_]+\.?,?[ ])?[0-9]{1,2}\.?[ ][^\W\d_]{3,10}\.?,?[ ](?:19|20)[0-9]{2}
          | [0-9]{1,2}([-/])[^\W\d_]{3,10}\1(?:[0-9]{4}|[0-9]{2})
          | [^\W\d_]{3,10}\.?[ ][0-9]{1,2},?[ ](?:19|20)[0-9]{2}
          | (?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2]|W[0-9]{2})
        )(?:[T ][0-9]{1,2}:[0-9]{2}.*)?""",
    re.VERBOSE,
)
_OTHER_MARK = {".": (",", "commas"), ",": (".", "points")}

Missing: TypeAlias = Literal["auto", "drop", "error"]
#: Hashes of the rows of a table, which are only made where somebody asks for them.
RowHashes: TypeAlias = Callable[[], NDArray[np.uint64]]


@dataclass(frozen=True)
class TableOptions:
    """How a labelled table is read.

    Attributes
    ----------
    label : str, optional
        Name of the label column.
    features : tuple of str
        Names of the columns to use; none: all that look like features.
    roles : mapping from names to roles
        Overrules what columns are used for; "ignored" leaves one out.
    clusters : str, optional
        Name of the column with ids of the clusters in which rows were drawn.
    strata : str, optional
        Name of the column of shops, languages or seasons in which a class may look different.
    scores : tuple of str
        Names of columns of posteriors, in the place of features; a single one holds the labels
        that somebody decided for.
    types : mapping from names to kinds
        Overrules what columns are taken for.
    missing : {"auto", "drop", "error"}
        Rows without the value of a feature: kept, for classifiers to learn from; left out; refused.
        Rows without a score cannot be kept: "auto" refuses them.
    unlabelled : {"error", "drop"}
        Rows without a label: refused, or left out.
    label_type : {"auto", "text", "integer"}
    decimal : {".", ","}
        Decimal mark of numbers in text columns.
    """

    label: str | None = None
    features: tuple[str, ...] = ()
    roles: Mapping[str, Role] = field(default_factory=dict)
    scores: tuple[str, ...] = ()
    types: Mapping[str, Kind] = field(default_factory=dict)
    missing: Missing = "auto"
    unlabelled: Literal["error", "drop"] = "error"
    label_type: LabelType = "auto"
    decimal: str = "."
    clusters: str | None = None
    strata: str | None = None

    def __post_init__(self) -> None:
        # A column may be both: then every stratum is one cluster.
        named: tuple[tuple[str, str | None, Role], ...] = (
            ("strata", self.strata, "key"),
            ("clusters", self.clusters, "cluster"),
        )
        for what, column, role in named:
            if column is None:
                continue
            if column in (self.label, *self.scores, *self.features):
                raise ValueError(
                    f"the column of {what} {column!r} must not be the label, nor among the "
                    "features or scores"
                )
            object.__setattr__(self, "roles", {**self.roles, column: role})


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Labelled rows of a table.

    Attributes
    ----------
    X : array of shape (n, d)
        Features (see :meth:`~kdey.tables.schema.TableSchema.encode`), scores, or one column of
        decided labels.
    y : array of shape (n,)
    schema : TableSchema
    rows : int64 array of shape (n,)
        Number of each row in its file.
    dropped : int
        Rows left out because a value was missing.
    unlabelled : int
        Rows left out because the label was missing.
    clusters : array of n texts, or None
        Id of the cluster of each row.
    strata : array of n texts, or None
        What stands for the stratum of each row.
    hint : str
        That ids repeat; an empty text where they do not, or where clusters are given.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    schema: TableSchema
    rows: NDArray[np.int64]
    dropped: int = 0
    unlabelled: int = 0
    clusters: NDArray[Any] | None = None
    strata: NDArray[Any] | None = None
    hint: str = ""

    @property
    def drawn(self) -> dict[str, Any]:
        """How rows were drawn, as ``fit`` takes it."""
        return {"clusters": self.clusters, "strata": self.strata}


def training_table(frame: Frame, options: TableOptions, first: int = 1) -> TrainingTable:
    """Return the training data of a frame.

    Parameters
    ----------
    frame : narwhals frame
    options : TableOptions
    first : int
        Number of the first row, for messages.

    Raises
    ------
    ValueError
        If a column is absent or cannot be used; the message names the column and the row.
    """
    label = _label(frame, options)
    require(frame, [*options.roles, *options.features, *options.scores])
    labelled, rows = labelled_rows(frame, options, first)
    y = read_labels(labelled[label], options.label_type, rows)
    schema = _schema(labelled, options, rows)
    usable = _usable_rows(labelled, schema, options, rows)
    if not usable.all():
        labelled, rows, y = labelled.filter(usable.tolist()), rows[usable], y[usable]
        schema = _schema(labelled, options, rows)
    if len(np.unique(y)) < 2:
        raise ValueError(f"column {label!r} holds one class only; at least two are needed")
    return TrainingTable(
        _matrix(labelled, schema, rows, np.unique(y)),
        y,
        schema,
        rows,
        int((~usable).sum()),
        len(frame) - len(usable),
        _ids(labelled, options.clusters, "cluster", rows),
        _ids(labelled, options.strata, "stratum", rows),
        "" if options.clusters is not None else repeated_ids_note(labelled, label),
    )


def _ids(frame: Frame, name: str | None, what: str, rows: NDArray[np.int64]) -> NDArray[Any] | None:
    """Return the ids of clusters or strata as texts; every row must have one."""
    if name is None:
        return None
    empty = missing_in(frame[name])
    if empty.any():
        lacking = count_of(int(empty.sum()), "row lacks one", "rows lack one")
        raise ValueError(
            f"column {name!r} has no id of a {what} in row "
            f"{row_number(rows, int(np.argmax(empty)))} ({lacking}): give rows that are in no "
            f"{what} ids of their own"
        )
    return np.asarray(canonical_column(frame[name]), dtype=str)


def repeated_ids_note(frame: Any, label: str | None = None) -> str:
    """Return a sentence about a column of ids that repeat; an empty text if there is none.

    Parameters
    ----------
    frame : data frame
    label : str, optional
        Name of the label column.
    """
    names = getattr(frame, "column_names", frame.columns)  # of Arrow and of the others
    if not all(isinstance(name, str) for name in names):
        return ""
    table = as_frame(frame)
    if len(table) < ID_ROWS:
        return ""
    for name in table.columns:
        words = {word.lower() for word in _WORD.findall(name)}
        if name == label or not words & (_ID_WORDS | _UNIT_WORDS):
            continue
        column = table[name]
        if not (is_text(column) or column.dtype.is_integer()):
            continue
        ids = canonical_column(column)
        n_ids = len(set(ids[~missing_in(column)].tolist()))
        if LEAST_IDS <= n_ids <= MOST_REPEATED * len(table):
            return (
                f"rows of one {name!r} ({n_ids:,} of them in {len(table):,} rows) may be alike, "
                "and are in several folds: pass clusters= (this column) if they were drawn "
                "together, or intervals are too narrow"
            )
    return ""


def labelled_rows(
    frame: Frame, options: TableOptions, first: int = 1
) -> tuple[Frame, NDArray[np.int64]]:
    """Return the rows of a table that have a label, if those without are to be left out.

    Parameters
    ----------
    frame : narwhals frame of m rows
    options : TableOptions
        Unless ``unlabelled`` is "drop", all rows are returned.
    first : int
        Number of the first row.

    Returns
    -------
    frame : narwhals frame of n rows
    rows : int64 array of shape (n,)
        Number of each row in its file.
    """
    label = _label(frame, options)
    rows = np.arange(first, first + len(frame), dtype=np.int64)
    if options.unlabelled == "error":
        return frame, rows
    labelled = ~is_unlabelled(frame[label])
    if not labelled.any():
        raise ValueError(f"column {label!r} holds no labels")
    if labelled.all():
        return frame, rows
    return frame.filter(labelled.tolist()), rows[labelled]


def _label(frame: Frame, options: TableOptions) -> str:
    """Return the name of the label column, which the frame must have."""
    if options.label is None:
        raise ValueError("training needs a label column")
    require(frame, [options.label], "label column")
    return options.label


def _schema(frame: Frame, options: TableOptions, rows: RowNumbers) -> TableSchema:
    if not options.scores:
        return _schema_of_features(frame, options, rows)
    kind: Kind = "decision" if len(options.scores) == 1 else "score"
    scores = tuple(Column(name, "feature", kind) for name in options.scores)
    label = Column(str(options.label), "label", _label_kind(options))
    return TableSchema((label, *scores), options.decimal)


def _label_kind(options: TableOptions) -> Kind:
    return "number" if options.label_type == "integer" else "category"


def _usable_rows(
    frame: Frame, schema: TableSchema, options: TableOptions, rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which rows are kept, by what is asked for rows with missing values, shape (n,)."""
    usable = np.ones(len(frame), dtype=np.bool_)
    if options.missing == "auto" and not schema.scores:
        return usable
    for column in schema.with_role("feature"):
        empty = schema.missing_in(frame, column.name, rows)
        if options.missing != "drop" and empty.any():
            lacking = count_of(int(empty.sum()), "row lacks one", "rows lack one")
            raise ValueError(
                f"column {column.name!r} has no value in row "
                f"{row_number(rows, int(np.argmax(empty)))} ({lacking}): "
                f"fill them in, leave the column out ({_left_out(column.name)}), or such rows "
                "(missing='drop')"
            )
        usable &= ~empty
    if not usable.any():
        raise ValueError("every row lacks a value in some column: nothing is left")
    return usable


def _matrix(
    frame: Frame, schema: TableSchema, rows: RowNumbers, classes: NDArray[Any]
) -> NDArray[Any]:
    if not schema.scores:
        return schema.encode(frame, rows).X
    if len(schema.scores) == 1:
        return match_labels(frame[schema.scores[0]], classes, rows, schema.label_type)[:, None]
    columns = [numbers(frame[name], first=rows, decimal=schema.decimal) for name in schema.scores]
    return np.column_stack(columns)


def survey_table(
    frame: Frame, options: TableOptions, first: int = 1
) -> tuple[tuple[Column, ...], list[str]]:
    """Return what each column would be taken for, and why some cannot be used.

    Parameters
    ----------
    frame : narwhals frame
    options : TableOptions
    first : int
        Number of the first row, for messages.

    Returns
    -------
    columns : tuple of Column
        In the order of the table. Columns that cannot be used have the role "ignored".
    problems : list of str
        What :func:`training_table` would refuse, one message per column.

    Raises
    ------
    ValueError
        If a column that the options name is absent, or the label is among the features.
    """
    labelled, rows = labelled_rows(frame, options, first)
    return _survey(labelled, options, rows)


def learn_schema(
    frame: Any,
    label: str | None = None,
    *,
    features: Sequence[str] = (),
    roles: Mapping[str, Role] | None = None,
    types: Mapping[str, Kind] | None = None,
    decimal: str = ".",
    first: RowNumbers = 1,
) -> TableSchema:
    """Decide what the columns of a training table are taken for.

    Parameters
    ----------
    frame : data frame of pandas, polars, pyarrow or narwhals
    label : str, optional
        Name of the label column.
    features : sequence of str
        Names of the columns to use, whatever they look like. By default all are used that look like
        features: not ids, dates, columns with a single value, copies of others, nor columns with
        very many different texts.
    roles : mapping from names to roles, optional
        Overrules what columns are used for.
    types : mapping from names to kinds, optional
        Overrules what columns are taken for.
    decimal : {".", ","}
        Decimal mark of numbers in text columns.
    first : int, or int array of shape (m,)
        Number of the first row, or of all rows, for messages.

    Returns
    -------
    TableSchema

    Raises
    ------
    ValueError
        If a column is absent, holds numbers with an odd text among them, or numbers with another
        decimal mark; or if no feature is left.
    """
    kinds = dict(types or {})
    options = TableOptions(
        label,
        tuple(features),
        dict(roles or {}),
        types=kinds,
        label_type="integer" if label is not None and kinds.get(label) == "number" else "auto",
        decimal=decimal,
    )
    return _schema_of_features(as_frame(frame), options, first)


def _schema_of_features(table: Frame, options: TableOptions, first: RowNumbers) -> TableSchema:
    """Return the schema of a table with features; a column that cannot be used is refused."""
    columns, problems = _survey(table, options, first)
    if problems:
        raise ValueError(problems[0])
    schema = TableSchema(_in_order(columns, options.features), options.decimal)
    if not schema.with_role("feature"):
        raise ValueError(_nothing_left(schema))
    return schema


def _survey(
    table: Frame, options: TableOptions, first: RowNumbers
) -> tuple[tuple[Column, ...], list[str]]:
    """Decide what each column is taken for, and go on where one cannot be used."""
    _check_names(table, options)
    columns: list[Column] = []
    problems: list[str] = []
    copies: dict[bytes, str] = {}
    row_hashes = cache(lambda: _row_hashes(table))
    for name in table.columns:
        try:
            column = _decide(table[name], options, first, row_hashes)
            if column.role == "feature":
                column = _without_copy(column, table[name], copies, options, first)
        except ValueError as error:
            column = Column(name, "ignored", "category", reason="cannot be used: see below")
            problems.append(str(error))
        columns.append(column)
    return tuple(columns), problems


def _row_hashes(table: Frame) -> NDArray[np.uint64]:
    """Return a hash of the values of each row, the same in rows that are repeated, shape (m,)."""
    hashes = np.zeros(len(table), dtype=np.uint64)
    for name in table.columns:
        column = table[name]
        if column.dtype.is_numeric():
            values = np.asarray(numbers(column), dtype=np.float64).view(np.uint64)
        else:
            texts = map(str, column.to_list())
            values = np.array([hash(text) % 2**64 for text in texts], dtype=np.uint64)
        hashes = (hashes ^ (hashes >> np.uint64(31)) ^ values) * np.uint64(0x9E3779B97F4A7C15)
    return hashes


def _check_names(table: Frame, options: TableOptions) -> None:
    label = options.label
    if label is not None:
        require(table, [label], "label column")
    require(table, [*options.features, *options.roles, *options.types])
    wrong = [str(role) for role in options.roles.values() if role not in ROLES]
    wrong += [str(kind) for kind in options.types.values() if kind not in KINDS]
    if wrong:
        raise ValueError(
            f"no role or kind is called {wrong[0]!r}: roles are {', '.join(ROLES)}, kinds "
            f"{', '.join(KINDS)}"
        )
    if label is not None and label in options.features:
        raise ValueError(f"the label column {label!r} must not be among the features")


def _decide(
    column: Series, options: TableOptions, first: RowNumbers, row_hashes: RowHashes
) -> Column:
    """Return what a column is taken for, by what the user says or else by its values."""
    name = str(column.name)
    n_missing = int(missing_in(column).sum())
    if name == options.label:
        return Column(name, "label", _label_kind(options), (), n_missing, "the label")
    role = options.roles.get(name)
    if role is not None and role != "feature":
        return Column(name, role, options.types.get(name, "category"), (), n_missing, AS_ASKED)
    asked = name in options.features or role == "feature"
    if options.features and not asked:
        return Column(name, "ignored", "category", (), n_missing, NOT_ASKED)
    chosen = options.types.get(name)
    if chosen is not None:
        guess = _as_kind(column, chosen, options.decimal, first)
    else:
        guess = _guess_column(column, options.decimal, first, row_hashes, asked)
    if guess.kind in ("number", "date", "score"):
        n_missing = int(missing_in(column, numeric=True).sum())
    if guess.role == "feature" or asked or chosen is not None:
        return replace(guess, role="feature", n_missing=n_missing, constant="")
    return replace(guess, categories=(), n_missing=n_missing)


def _without_copy(
    column: Column,
    values: Series,
    copies: dict[bytes, str],
    options: TableOptions,
    first: RowNumbers,
) -> Column:
    """Return a feature with the range of its numbers.

    If an earlier feature has the same values in all rows, it is ignored instead.
    """
    if column.kind not in ("number", "category"):
        return column
    encoded = encode_column(column, values, first, options.decimal)[0]
    if column.kind == "number" and not np.isnan(encoded).all():
        column = replace(column, range=(float(np.nanmin(encoded)), float(np.nanmax(encoded))))
    content = sha256(np.asarray(encoded, dtype=np.float64).tobytes()).digest()
    original = copies.setdefault(content, column.name)
    asked = column.name in options.features or column.name in options.roles
    if original == column.name or asked:
        return column
    reason = f"the same in every row as {original!r}"
    return Column(column.name, "ignored", column.kind, (), column.n_missing, reason)


def _in_order(columns: Iterable[Column], features: tuple[str, ...]) -> tuple[Column, ...]:
    """Return columns in the order of the table, but features in the order asked for."""
    by_name = {column.name: column for column in columns}
    others = [column for name, column in by_name.items() if name not in features]
    return (*(by_name[name] for name in dict.fromkeys(features)), *others)


def _nothing_left(schema: TableSchema) -> str:
    beside = "" if schema.label is None else f" beside the label {schema.label!r}"
    left_out = [f"{c.name!r} ({c.reason})" for c in schema.with_role("id", "ignored")]
    why = f": {', '.join(left_out[:6])}" if left_out else ""
    return f"no column is left{beside} as a feature{why}; name columns to use (features=)"


def _guess_column(
    column: Series, decimal: str, first: RowNumbers, row_hashes: RowHashes, asked: bool
) -> Column:
    """Return what a column looks like, without the number of its missing values.

    ``asked`` is whether it was asked for as a feature: then it must become one, or raise.
    """
    if bool(missing_in(column).all()):
        return _useless(column, "number", "holds no value", asked)
    if is_truth(column) or is_declared_category(column):
        return _as_category(column, "truth values" if is_truth(column) else "declared categories")
    if is_number(column):
        n_integers = _n_distinct(column) if column.dtype.is_integer() else None
        return _guess_numbers(column, finite_numbers(column, first), n_integers, row_hashes)
    if is_date(column):
        return Column(str(column.name), "ignored", "date", reason="holds dates")
    if not is_text(column):
        return _useless(column, "category", f"holds {type_of(column)}", asked)
    return _guess_texts(column, decimal, first, row_hashes)


def _useless(column: Series, kind: Kind, reason: str, asked: bool) -> Column:
    if asked:
        raise ValueError(f"column {column.name!r} {reason}: it cannot be a feature, leave it out")
    return Column(str(column.name), "ignored", kind, reason=reason)


def _as_kind(column: Series, kind: Kind, decimal: str, first: RowNumbers) -> Column:
    if kind in ("number", "score"):
        finite_numbers(column, first, decimal)  # or raises
    elif kind == "date":
        day_numbers(column, first)  # or raises
    categories = _texts_in(column) if kind == "category" else ()
    return Column(str(column.name), "feature", kind, categories, reason=f"{kind}, as asked")


def _as_category(column: Series, reason: str) -> Column:
    texts = _texts_in(column)
    if len(texts) == 1 and not missing_in(column).any():
        return _constant(column, "category", texts[0], repr(texts[0][:40]))
    shown = f"{reason}: {_shown(texts)}"
    return Column(str(column.name), "feature", "category", texts, reason=shown)


def _constant(column: Series, kind: Kind, value: str, shown: str) -> Column:
    reason = f"always {shown}"
    return Column(str(column.name), "ignored", kind, reason=reason, constant=value)


def _texts_in(column: Series) -> tuple[str, ...]:
    return tuple(sorted({text for text in canonical_column(column).tolist() if text}))


def _guess_numbers(
    column: Series,
    values: NDArray[np.floating],
    n_integers: int | None,
    row_hashes: RowHashes,
) -> Column:
    """Return what a column of numbers looks like.

    ``n_integers`` is the number of different values if all are whole numbers, None otherwise.
    """
    name, known = str(column.name), values[~np.isnan(values)]
    if n_integers is None and _is_named_id(name) and (known % 1 == 0).all():
        n_integers = len(np.unique(known))  # whole numbers with gaps are floats in pandas
    if n_integers is not None and _are_compact_dates(known):
        return Column(name, "ignored", "date", reason="holds dates written as whole numbers")
    n_distinct = len(np.unique(known)) if n_integers is None else n_integers
    if n_distinct <= 1 and len(known) == len(values):
        return _constant(column, "number", canonical_text(float(known[0])), f"{known[0]:g}")
    if n_integers is not None and len(known) >= ID_ROWS:
        reason = _id_reason(name, values, n_distinct, row_hashes)
        if reason:
            return Column(name, "id", "number", reason=reason)
    return Column(name, "feature", "number", reason="numbers")


def _n_distinct(column: Series) -> int:
    return int(column.drop_nulls().n_unique())


def _id_reason(
    name: str, values: NDArray[np.floating], n_distinct: int, row_hashes: RowHashes
) -> str:
    """Return why a column of whole numbers is an id; an empty text: it is none."""
    present = ~np.isnan(values)
    n_known = int(present.sum())
    reason = f"{n_distinct:,} different whole numbers in {n_known:,} rows"
    if n_distinct >= ID_SHARE * n_known:
        return reason
    if n_distinct < LIKELY_ID_SHARE * n_known:
        return ""
    if _is_named_id(name):
        return f"{reason}, and the name of an id"
    steps = np.diff(values[present])
    if np.median(steps) != 0 and np.mean(steps == np.median(steps)) >= MOST:
        return f"{reason}, which count up"
    n_rows = len(np.unique(row_hashes()[present]))
    if n_distinct >= ID_SHARE * n_rows:
        return f"{reason}, of which {n_known - n_rows:,} are repeated"
    return ""


def _is_named_id(name: str) -> bool:
    return any(word.lower() in _ID_WORDS for word in _WORD.findall(name))


def _guess_texts(column: Series, decimal: str, first: RowNumbers, row_hashes: RowHashes) -> Column:
    quick = plain_numbers(column) if decimal == "." else None
    if quick is not None and not _contain(column, r"^[+-]?0\d"):
        n_integers = None if _contain(column, r"[.eE]") else _n_distinct(column)
        return _guess_numbers(column, quick, n_integers, row_hashes)
    texts = canonical_column(column).tolist()
    present = [text for text in texts if not is_missing_text(text)]
    distinct = sorted(set(present))
    if not distinct:
        return Column(str(column.name), "ignored", "number", reason="holds no value")
    if not any(_LEADING_ZERO.fullmatch(text) for text in distinct):
        spelt = sum(parse_number(text, decimal) is not None for text in present)
        if spelt == len(present):
            integers = all(_INTEGER.fullmatch(text.strip()) for text in distinct)
            values = finite_numbers(column, first, decimal)
            n_integers = len(distinct) if integers else None
            return _guess_numbers(column, values, n_integers, row_hashes)
        _check_decimal(column, distinct, decimal, first)
        if 2 * spelt > len(present):
            odd = [text.strip() for text in distinct if parse_number(text, decimal) is None]
            raise ValueError(
                f"column {column.name!r} holds numbers, but "
                f"{first_text(column, first, decimal)}{cure(odd)}, leave "
                f"the column out ({_left_out(str(column.name))}), or take it for categories "
                f"(types={{{str(column.name)!r}: 'category'}})"
            )
    return _guess_words(column, [text for text in texts if text])


def _left_out(name: str) -> str:
    return f"roles={{{name!r}: 'ignored'}}"


def _contain(column: Series, pattern: str) -> bool:
    return bool(column.drop_nulls().str.contains(pattern).any())


def _check_decimal(column: Series, distinct: list[str], decimal: str, first: RowNumbers) -> None:
    """Raise where a column holds numbers with the other decimal mark."""
    other, name = _OTHER_MARK[decimal]
    spelt = [text for text in distinct if parse_number(text, other) is not None]
    marked = [text for text in spelt if other in text and parse_number(text, decimal) is None]
    if not marked or len(spelt) < MOST * len(distinct) or _are_dates(distinct):
        return
    position = [str(value) for value in column.to_list()].index(marked[0])
    row = row_number(first, position)
    raise ValueError(
        f"column {column.name!r} holds numbers with decimal {name} (row {row} has {marked[0]!r}): "
        f"read the table with decimal='{other}', or leave the column out "
        f"({_left_out(str(column.name))})"
    )


def _guess_words(column: Series, texts: list[str]) -> Column:
    """Return what a column of texts that are no numbers looks like."""
    name, distinct = str(column.name), tuple(sorted(set(texts)))
    different = f"{len(distinct):,} different texts in {len(texts):,} rows"
    if _are_dates(distinct):
        return Column(name, "ignored", "date", reason=f"holds dates such as {distinct[0]!r}")
    if len(distinct) == 1 and len(texts) == len(column):
        return _constant(column, "category", distinct[0], repr(distinct[0][:40]))
    share = len(distinct) / len(texts)
    if share >= LIKELY_ID_SHARE and len(texts) >= ID_ROWS and _is_named_id(name):
        return Column(
            name, "id", "category", distinct, reason=f"{different}, and the name of an id"
        )
    few = len(distinct) <= min(MOST_CATEGORIES, max(2, len(texts) // 2))
    if few:
        reason = f"{len(distinct)} categories: {_shown(distinct)}"
        return Column(name, "feature", "category", distinct, reason=reason)
    if _mean_words(distinct) >= WORDS:
        return Column(name, "feature", "text", reason=f"sentences such as {distinct[0][:30]!r}")
    if share >= ID_SHARE:
        return Column(name, "id", "category", distinct, reason=different)
    reason = f"{different} are too many for categories"
    return Column(name, "ignored", "category", distinct, reason=reason)


def _mean_words(texts: tuple[str, ...]) -> float:
    return float(np.mean([len(text.split()) for text in texts]))


def _are_dates(texts: list[str] | tuple[str, ...]) -> bool:
    return sum(_DATE.fullmatch(text.strip()) is not None for text in texts) >= MOST * len(texts)


def _are_compact_dates(known: NDArray[np.floating]) -> bool:
    """Return whether all numbers are dates such as 20240131, and there are more than two."""
    if known.min() < FIRST_DATE or known.max() > LAST_DATE:
        return False
    distinct = np.unique(known)
    return len(distinct) > 2 and all(_is_compact_date(int(number)) for number in distinct)


def _is_compact_date(number: int) -> bool:
    try:
        dt.date(number // 10_000, number // 100 % 100, number % 100)
    except ValueError:
        return False
    return True


def _shown(texts: tuple[str, ...]) -> str:
    return ", ".join(text[:20] for text in texts[:4]) + (", ..." if len(texts) > 4 else "")
