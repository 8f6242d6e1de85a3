"""What the columns of a training table look like: the survey that a schema is learnt from.

:func:`learn_schema` gives every column a role and a kind (:mod:`kdey.tables.schema`), by what the
user says or else by its values, with a reason for every decision that one may want to overrule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from kdey.tables.columns import Frame, RowNumbers, Series, as_frame, missing_in, require
from kdey.tables.guesses import ColumnGuess, guess_column
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
    table = as_frame(frame)
    choices = SchemaChoices(tuple(features), dict(roles or {}), dict(types or {}), decimal)
    columns, problems = survey_columns(table, label, choices, first)
    if problems:
        raise ValueError(problems[0])
    schema = TableSchema(_in_order(columns, choices.features), decimal)
    if not schema.with_role("feature"):
        raise ValueError(_nothing_left(schema, label))
    return schema


def survey_columns(
    frame: Any, label: str | None, choices: SchemaChoices, first: RowNumbers = 1
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
    return _from_guess(name, guess, n_missing, asked=asked or chosen is not None)


def _from_guess(name: str, guess: ColumnGuess, n_missing: int, *, asked: bool) -> Column:
    if guess.role == "feature" or asked:
        return Column(name, "feature", guess.kind, guess.categories, n_missing, guess.reason)
    return Column(name, guess.role, guess.kind, (), n_missing, guess.reason, guess.constant)


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
