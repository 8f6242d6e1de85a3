"""A labelled table as training data: labels, features or scores, and the schema they came in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdey._support.counts import count_of
from kdey.tables.columns import Frame, RowNumbers, numbers, require, row_number
from kdey.tables.labels import LabelType, is_unlabelled, match_labels, read_labels
from kdey.tables.schema import Column, Kind, Role, TableSchema
from kdey.tables.survey import SchemaChoices, learn_schema, survey_columns

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
    choices = _schema_choices(options)
    return learn_schema(
        frame,
        options.label,
        features=choices.features,
        roles=choices.roles,
        types=choices.kinds,
        decimal=choices.decimal,
        first=rows,
    )


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
