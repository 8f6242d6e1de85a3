"""What the columns of a training table look like: the survey that a schema is learnt from.

:func:`learn_schema` gives every column a role and a kind (:mod:`kdey.tables.schema`), by what the
user says or else by its values, with a reason for every decision that one may want to overrule. The
thresholds are argued in docs/decisions/0016-tables.md.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.tables.columns import (
    Frame,
    RowNumbers,
    Series,
    as_frame,
    canonical_column,
    canonical_text,
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
    Role,
    TableSchema,
    encode_column,
)


@dataclass(frozen=True)
class SchemaChoices:
    """What a user says about the columns of a table; all else is decided by looking at it.

    Attributes
    ----------
    features : tuple of str
        The columns to use, whatever they look like; none: all that look like features.
    roles : mapping from names to roles
    kinds : mapping from names to kinds
    decimal : {".", ","}
    """

    features: tuple[str, ...] = ()
    roles: Mapping[str, Role] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    decimal: str = "."


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
    choices = SchemaChoices(tuple(features), dict(roles or {}), dict(types or {}), decimal)
    return chosen_schema(frame, label, choices, first)


def chosen_schema(
    frame: Any, label: str | None, choices: SchemaChoices, first: RowNumbers
) -> TableSchema:
    """As :func:`learn_schema`, with the choices of a user in one object."""
    columns, problems = survey_columns(frame, label, choices, first)
    if problems:
        raise ValueError(problems[0])
    schema = TableSchema(_in_order(columns, choices.features), choices.decimal)
    if not schema.with_role("feature"):
        raise ValueError(_nothing_left(schema, label))
    return schema


def survey_columns(
    frame: Any, label: str | None, choices: SchemaChoices, first: RowNumbers
) -> tuple[tuple[Column, ...], list[str]]:
    """Decide what each column is taken for, and go on where one cannot be used.

    Parameters
    ----------
    frame, label, first
        As for :func:`learn_schema`.
    choices : SchemaChoices

    Returns
    -------
    columns : tuple of Column
        In the order of the table. Columns that cannot be used have the role "ignored".
    problems : list of str
        What :func:`learn_schema` refuses, one message per column.

    Raises
    ------
    ValueError
        If the label, or a column of the choices, is absent or used twice.
    """
    table = as_frame(frame)
    if label is not None:
        require(table, [label], "label column")
    _check_choices(table, label, choices)
    columns: list[Column] = []
    problems: list[str] = []
    copies: dict[bytes, str] = {}
    for name in table.columns:
        try:
            column = _decide(table[name], label, choices, first)
            if column.role == "feature":
                column = _without_copy(column, table[name], copies, choices, first)
        except ValueError as error:
            column = Column(name, "ignored", "category", reason="cannot be used: see below")
            problems.append(str(error))
        columns.append(column)
    return tuple(columns), problems


def _check_choices(table: Frame, label: str | None, choices: SchemaChoices) -> None:
    require(table, [*choices.features, *choices.roles, *choices.kinds])
    wrong = [str(role) for role in choices.roles.values() if role not in ROLES]
    wrong += [str(kind) for kind in choices.kinds.values() if kind not in KINDS]
    if wrong:
        raise ValueError(
            f"no role or kind is called {wrong[0]!r}: roles are {', '.join(ROLES)}, kinds "
            f"{', '.join(KINDS)}"
        )
    if label is not None and label in choices.features:
        raise ValueError(f"the label column {label!r} must not be among the features")


def _decide(column: Series, label: str | None, choices: SchemaChoices, first: RowNumbers) -> Column:
    """Return what a column is taken for, by what the user says or else by its values."""
    name = str(column.name)
    n_missing = int(missing_in(column).sum())
    if name == label:
        kind = choices.kinds.get(name, "category")
        return Column(name, "label", kind, (), n_missing, "the label")
    role = choices.roles.get(name)
    if role is not None and role != "feature":
        return Column(name, role, choices.kinds.get(name, "category"), (), n_missing, AS_ASKED)
    asked = name in choices.features or role == "feature"
    if choices.features and not asked:
        return Column(name, "ignored", "category", (), n_missing, NOT_ASKED)
    chosen = choices.kinds.get(name)
    guess = guess_column(column, choices.decimal, first, kind=chosen, asked=asked)
    if guess.kind in ("number", "date", "score"):
        n_missing = int(missing_in(column, numeric=True).sum())
    if guess.role == "feature" or asked or chosen is not None:
        return replace(guess, role="feature", n_missing=n_missing, constant="")
    return replace(guess, categories=(), n_missing=n_missing)


def _without_copy(
    column: Column,
    values: Series,
    copies: dict[bytes, str],
    choices: SchemaChoices,
    first: RowNumbers,
) -> Column:
    """Return a column as ignored if an earlier feature has the same values in all rows."""
    if column.kind not in ("number", "category"):
        return column
    encoded = encode_column(column, values, first, choices.decimal).values
    content = sha256(np.asarray(encoded, dtype=np.float64).tobytes()).digest()
    original = copies.setdefault(content, column.name)
    asked = column.name in choices.features or column.name in choices.roles
    if original == column.name or asked:
        return column
    reason = f"the same in every row as {original!r}"
    return Column(column.name, "ignored", column.kind, (), column.n_missing, reason)


def _in_order(columns: Iterable[Column], features: tuple[str, ...]) -> tuple[Column, ...]:
    """Return columns in the order of the table, but features in the order asked for."""
    by_name = {column.name: column for column in columns}
    others = [column for name, column in by_name.items() if name not in features]
    return (*(by_name[name] for name in dict.fromkeys(features)), *others)


def _nothing_left(schema: TableSchema, label: str | None) -> str:
    beside = "" if label is None else f" beside the label {label!r}"
    left_out = [f"{c.name!r} ({c.reason})" for c in schema.with_role("id", "ignored")]
    why = f": {', '.join(left_out[:6])}" if left_out else ""
    return f"no column is left{beside} as a feature{why}; name columns to use with --features"


#: A column of texts with more different ones than this is no category.
MOST_CATEGORIES = 200
#: Share of different values from which a column of texts or integers is an id, and the rows below
#: which integers are too few to tell.
ID_SHARE, ID_ROWS = 0.99, 20
#: Share of the values that must look like dates, or like numbers with another decimal mark.
MOST = 0.9
#: Texts with this many words on average are sentences.
WORDS = 4.0

#: Whole numbers between these may be dates such as 20240131.
FIRST_DATE, LAST_DATE = 19000101, 20991231

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
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
_COMPACT_DATE = re.compile(r"(19|20)\d{6}", re.ASCII)
_OTHER_MARK = {".": (",", "commas"), ",": (".", "points")}


def guess_column(
    column: Series,
    decimal: str,
    first: RowNumbers,
    *,
    kind: Kind | None,
    asked: bool,
) -> Column:
    """Return what a column looks like, without the number of its missing values.

    Parameters
    ----------
    column : narwhals series
    decimal : {".", ","}
    first : int, or int array of shape (m,)
        Number of the first row, or of all rows, for messages.
    kind : str, optional
        The kind that the user says it has.
    asked : bool
        Whether the user asked for it as a feature: it must become one, or raise.

    Raises
    ------
    ValueError
        If it holds numbers with odd texts among them or with another decimal mark, or if it is
        asked for and cannot be a feature.
    """
    if kind is not None:
        return _as_kind(column, kind, decimal, first)
    if bool(missing_in(column).all()):
        return _useless(column, "number", "holds no value", asked)
    if is_truth(column) or is_declared_category(column):
        return _as_category(column, "truth values" if is_truth(column) else "declared categories")
    if is_number(column):
        return _typed_numbers(column, first)
    if is_date(column):
        return Column(str(column.name), "ignored", "date", reason="holds dates")
    if not is_text(column):
        return _useless(column, "category", f"holds {type_of(column)}", asked)
    return _guess_texts(column, decimal, first)


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


def _typed_numbers(column: Series, first: RowNumbers) -> Column:
    values = finite_numbers(column, first)
    integers = bool(column.dtype.is_integer())
    known = values[~np.isnan(values)]
    between = len(known) > 0 and known.min() >= FIRST_DATE and known.max() <= LAST_DATE
    if integers and between and _are_compact_dates([f"{v:.0f}" for v in np.unique(known)]):
        return _compact_dates(column)
    n_distinct = int(column.drop_nulls().n_unique()) if integers else len(np.unique(known))
    return _number_guess(column, values, n_distinct, integers)


def _compact_dates(column: Series) -> Column:
    reason = "holds dates written as whole numbers"
    return Column(str(column.name), "ignored", "date", reason=reason)


def _number_guess(
    column: Series, values: NDArray[np.floating], n_distinct: int, integers: bool
) -> Column:
    name = str(column.name)
    known = values[~np.isnan(values)]
    if n_distinct <= 1 and len(known) == len(values):
        return _constant(column, "number", canonical_text(float(known[0])), f"{known[0]:g}")
    if integers and len(known) >= ID_ROWS and n_distinct >= ID_SHARE * len(known):
        reason = _id_reason("whole numbers", n_distinct, known)
        return Column(name, "id", "number", reason=reason)
    return Column(name, "feature", "number", reason="numbers")


def _id_reason(what: str, n_distinct: int, known: NDArray[np.floating] | list[str]) -> str:
    return f"{n_distinct:,} different {what} in {len(known):,} rows"


def _guess_texts(column: Series, decimal: str, first: RowNumbers) -> Column:
    quick = plain_numbers(column) if decimal == "." else None
    if quick is not None and not _contain(column, r"^[+-]?0\d"):
        return _plain_numbers(column, quick)
    texts = canonical_column(column).tolist()
    present = [text for text in texts if not is_missing_text(text)]
    distinct = sorted(set(present))
    if not distinct:
        return Column(str(column.name), "ignored", "number", reason="holds no value")
    if not any(_LEADING_ZERO.fullmatch(text) for text in distinct):
        spelt = sum(parse_number(text, decimal) is not None for text in present)
        if spelt == len(present):
            return _spelt_numbers(column, distinct, decimal, first)
        _check_decimal(column, distinct, decimal, first)
        if 2 * spelt > len(present):
            raise ValueError(
                f"column {column.name!r} holds numbers, but {first_text(column, first, decimal)}: "
                "correct the value, make it empty if it is missing, leave the column out with "
                f"--ignore {column.name}, or take it for categories with --type "
                f"{column.name}=category"
            )
    return _guess_words(column, [text for text in texts if text])


def _contain(column: Series, pattern: str) -> bool:
    return bool(column.drop_nulls().str.contains(pattern).any())


def _plain_numbers(column: Series, values: NDArray[np.float64]) -> Column:
    """Return what texts look like that the frame's own library reads as numbers."""
    known = values[~np.isnan(values)]
    integers = not _contain(column, r"[.eE]")
    if integers and known.min() >= FIRST_DATE and known.max() <= LAST_DATE:
        distinct = sorted(set(column.drop_nulls().to_list()))
        if _are_compact_dates(distinct):
            return _compact_dates(column)
    n_distinct = int(column.drop_nulls().n_unique()) if integers else len(np.unique(known))
    return _number_guess(column, values, n_distinct, integers)


def _spelt_numbers(column: Series, distinct: list[str], decimal: str, first: RowNumbers) -> Column:
    if _are_compact_dates(distinct):
        return _compact_dates(column)
    values = finite_numbers(column, first, decimal)
    integers = all(_INTEGER.fullmatch(text.strip()) for text in distinct)
    n_distinct = len(distinct) if integers else len(np.unique(values[~np.isnan(values)]))
    return _number_guess(column, values, n_distinct, integers)


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
        f"read the table with --decimal '{other}', or leave the column out with --ignore "
        f"{column.name}"
    )


def _guess_words(column: Series, texts: list[str]) -> Column:
    """Return what a column of texts that are no numbers looks like."""
    name, distinct = str(column.name), tuple(sorted(set(texts)))
    if _are_dates(distinct):
        return Column(name, "ignored", "date", reason=f"holds dates such as {distinct[0]!r}")
    if len(distinct) == 1 and len(texts) == len(column):
        return _constant(column, "category", distinct[0], repr(distinct[0][:40]))
    few = len(distinct) <= min(MOST_CATEGORIES, max(2, len(texts) // 2))
    if few:
        reason = f"{len(distinct)} categories: {_shown(distinct)}"
        return Column(name, "feature", "category", distinct, reason=reason)
    if _mean_words(distinct) >= WORDS:
        return Column(name, "feature", "text", reason=f"sentences such as {distinct[0][:30]!r}")
    if len(distinct) >= ID_SHARE * len(texts):
        reason = _id_reason("texts", len(distinct), texts)
        return Column(name, "id", "category", distinct, reason=reason)
    reason = f"{len(distinct):,} different texts in {len(texts):,} rows are too many for categories"
    return Column(name, "ignored", "category", distinct, reason=reason)


def _mean_words(texts: tuple[str, ...]) -> float:
    return float(np.mean([len(text.split()) for text in texts]))


def _are_dates(texts: list[str] | tuple[str, ...]) -> bool:
    return sum(_DATE.fullmatch(text.strip()) is not None for text in texts) >= MOST * len(texts)


def _are_compact_dates(texts: list[str]) -> bool:
    """Return whether all texts are dates such as 20240131, and there are more than two."""
    return len(texts) > 2 and all(map(_is_compact_date, texts))


def _is_compact_date(text: str) -> bool:
    if not _COMPACT_DATE.fullmatch(text):
        return False
    try:
        dt.date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        return False
    return True


def _shown(texts: tuple[str, ...]) -> str:
    return ", ".join(text[:20] for text in texts[:4]) + (", ..." if len(texts) > 4 else "")
