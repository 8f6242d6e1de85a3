"""The labels of a table: whole numbers where all are, texts otherwise.

Labels are compared by their canonical texts, so that 1 in a Parquet file, 1.0 in a column with
gaps and "1" in a CSV file are one class, while "01" and "1", or "true" and "True", are two.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from kdey._support.counts import count_of
from kdey.tables.canonical import canonical_text
from kdey.tables.cells import parse_number
from kdey.tables.columns import RowNumbers, Series, category_texts, row_number

LabelType: TypeAlias = Literal["auto", "text", "integer"]
LABEL_TYPES: tuple[LabelType, ...] = get_args(LabelType)

#: Whole numbers as Python writes them; "01", "+1" and "-0" are texts.
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_ANY_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_INT64 = np.iinfo(np.int64)


def is_unlabelled(column: Series) -> NDArray[np.bool_]:
    """Return which entries of a label column are missing, shape (m,)."""
    return np.asarray(category_texts(column) == "", dtype=np.bool_)


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
    texts = category_texts(column)
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
    texts = category_texts(column)
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
