"""A labelled table as training data: labels, features or scores, and the schema they came in.

Labels are whole numbers where all are, texts otherwise. They are compared by their canonical texts,
so that 1 in a Parquet file, 1.0 in a column with gaps and "1" in a CSV file are one class, while
"01" and "1", or "true" and "True", are two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdey._display import count_of
from kdey.tables.columns import (
    Frame,
    RowNumbers,
    Series,
    canonical_column,
    canonical_text,
    numbers,
    parse_number,
    require,
    row_number,
)
from kdey.tables.schema import LABEL_TYPES, Column, Kind, LabelType, Role, TableSchema
from kdey.tables.survey import SchemaChoices, chosen_schema, survey_columns

#: Whole numbers as Python writes them; "01", "+1" and "-0" are texts.
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_ANY_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_INT64 = np.iinfo(np.int64)


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
            "label them, or leave them out with --unlabelled drop"
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
        f"{texts[row]}: name another label column, or use --label-type text if these are classes"
    )


def _integers(column: Series, texts: NDArray[np.object_], first: RowNumbers) -> NDArray[np.int64]:
    """Return labels as whole numbers, whatever their spelling."""
    spellings: dict[int, str] = {}
    for text in dict.fromkeys(texts.tolist()):
        if not _ANY_INTEGER.fullmatch(text) or not _INT64.min <= int(text) <= _INT64.max:
            row = row_number(first, texts.tolist().index(text))
            raise ValueError(
                f"column {column.name!r} must hold whole numbers within 64 bits "
                f"(--label-type integer), but row {row} has {text[:40]!r}"
            )
        other = spellings.setdefault(int(text), text)
        if other != text:
            raise ValueError(
                f"column {column.name!r} has the labels {other!r} and {text!r}, which are the same "
                "whole number: make them alike, or use --label-type text"
            )
    return np.array([int(text) for text in texts], dtype=np.int64)


def similar_labels(classes: NDArray[Any]) -> list[str]:
    """Return sentences about classes that may be one class in two spellings.

    These are texts that differ in capital letters, in spaces around them or in leading zeros alone.

    Parameters
    ----------
    classes : array of shape (k,)
    """
    if classes.dtype.kind != "U":
        return []
    spellings: dict[str, list[str]] = {}
    for label in classes.tolist():
        plain = " ".join(label.split()).casefold()
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


Missing: TypeAlias = Literal["auto", "drop", "error"]


@dataclass(frozen=True)
class TableOptions:
    """How a labelled table is read.

    Attributes
    ----------
    label : str
        Name of the label column.
    features : tuple of str
        Names of the columns to use; none: all that look like features.
    ignore : tuple of str
        Names of columns to leave out.
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

    label: str
    features: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    types: Mapping[str, Kind] = field(default_factory=dict)
    missing: Missing = "auto"
    unlabelled: Literal["error", "drop"] = "error"
    label_type: LabelType = "auto"
    decimal: str = "."


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
    """

    X: NDArray[Any]
    y: NDArray[Any]
    schema: TableSchema
    rows: NDArray[np.int64]
    dropped: int = 0
    unlabelled: int = 0


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
    require(frame, [options.label], "label column")
    require(frame, [*options.ignore, *options.features, *options.scores])
    labelled, rows = labelled_rows(frame, options, first)
    y = read_labels(labelled[options.label], options.label_type, rows)
    schema = _schema(labelled, options, rows)
    usable = _usable_rows(labelled, schema, options, rows)
    if not usable.all():
        labelled, rows, y = labelled.filter(usable.tolist()), rows[usable], y[usable]
        schema = _schema(labelled, options, rows)
    if len(np.unique(y)) < 2:
        raise ValueError(f"column {options.label!r} holds one class only; at least two are needed")
    return TrainingTable(
        _matrix(labelled, schema, rows, np.unique(y)),
        y,
        schema,
        rows,
        int((~usable).sum()),
        len(frame) - len(usable),
    )


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
    require(frame, [options.label], "label column")
    rows = np.arange(first, first + len(frame), dtype=np.int64)
    if options.unlabelled == "error":
        return frame, rows
    labelled = ~is_unlabelled(frame[options.label])
    if not labelled.any():
        raise ValueError(f"column {options.label!r} holds no labels")
    if labelled.all():
        return frame, rows
    return frame.filter(labelled.tolist()), rows[labelled]


def _schema(frame: Frame, options: TableOptions, rows: RowNumbers) -> TableSchema:
    if options.scores:
        kind: Kind = "decision" if len(options.scores) == 1 else "score"
        scores = tuple(Column(name, "feature", kind) for name in options.scores)
        label = Column(options.label, "label", _label_kind(options))
        return TableSchema((label, *scores), options.decimal)
    return chosen_schema(frame, options.label, _schema_choices(options), rows)


def _schema_choices(options: TableOptions) -> SchemaChoices:
    roles: dict[str, Role] = dict.fromkeys(options.ignore, "ignored")
    kinds: dict[str, Kind] = {**options.types, options.label: _label_kind(options)}
    return SchemaChoices(options.features, roles, kinds, options.decimal)


def _label_kind(options: TableOptions) -> Kind:
    return "number" if options.label_type == "integer" else "category"


def _usable_rows(
    frame: Frame, schema: TableSchema, options: TableOptions, rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which rows are kept, by what is asked for rows with missing values, shape (n,)."""
    refuse = options.missing == "error" or (options.missing == "auto" and bool(schema.scores))
    if options.missing == "auto" and not refuse:
        return np.ones(len(frame), dtype=np.bool_)
    usable = np.ones(len(frame), dtype=np.bool_)
    for column in schema.with_role("feature"):
        empty = schema.missing_in(frame, column.name, rows)
        if refuse and empty.any():
            lacking = count_of(int(empty.sum()), "row lacks one", "rows lack one")
            raise ValueError(
                f"column {column.name!r} has no value in row "
                f"{row_number(rows, int(np.argmax(empty)))} ({lacking}): "
                f"fill them in, leave the column out with --ignore {column.name}, or such rows "
                "with --missing drop"
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
        If a column that the options name is absent.
    """
    labelled, rows = labelled_rows(frame, options, first)
    return survey_columns(labelled, options.label, _schema_choices(options), rows)


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
