"""The text files of LeQua: numbers, documents, prevalences and names of classes.

All are comma-separated below one header line. Messages name the file and the line that do not fit.
"""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.simplex import SUM_TOLERANCE

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
#: Column of the documents, and that of the labels in front of documents and numbers.
TEXT, LABEL = "text", "label"


def read_numbers(data: bytes, where: str, n_columns: int | None = None) -> Array:
    """Return the numbers of a file, shape (n, d).

    Parameters
    ----------
    data : bytes
        Content of the file.
    where : str
        Its name, for messages.
    n_columns : int, optional
        How many columns there must be; by default as many as the header has.
    """
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not a text file of numbers ({error})") from error
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) < 2:
        raise ValueError(f"{where}: a header and at least one line of numbers are needed")
    width = lines[0].count(",") + 1
    if n_columns is not None and width != n_columns:
        raise ValueError(f"{where}, line 1: {width} columns, expected {n_columns}")
    for number, line in enumerate(lines, start=1):
        if line.count(",") != width - 1:
            raise ValueError(
                f"{where}, line {number}: {line.count(',') + 1} columns, expected {width}"
            )
    return _numbers(lines[1:], where)


def _numbers(lines: list[str], where: str) -> Array:
    try:
        numbers = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None)
        if np.isfinite(numbers).all() and len(numbers) == len(lines):
            return numbers
    except ValueError:
        pass
    for number, line in enumerate(lines, start=2):
        for column, cell in enumerate(line.split(","), start=1):
            if not _is_finite(cell):
                raise ValueError(
                    f"{where}, line {number}, column {column}: {cell!r} is not a finite number"
                )
    raise ValueError(f"{where}: not a table of numbers")


def _is_finite(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def read_header(data: bytes) -> list[str]:
    """Return the cells of the first line of a file that has been read."""
    return [cell.strip().strip('"') for cell in data.splitlines()[0].decode("ascii").split(",")]


def read_prevalences(data: bytes, where: str, classes: NDArray[np.int64]) -> Array:
    """Return prevalences, shape (n_bags, k), in the order of the bags' numbers.

    Parameters
    ----------
    data : bytes
        Number of the bag in a column ``id``, then one column per class, named after the classes
        in their order.
    where : str
        Name of the file, for messages.
    classes : int64 array of shape (k,)
    """
    rows = read_numbers(data, where, len(classes) + 1)
    first, *names = read_header(data)
    expected = [str(label) for label in classes.tolist()]
    if first != "id":
        raise ValueError(f"{where}, line 1: the first column is {first!r}, expected 'id'")
    if names != expected:
        raise ValueError(
            f"{where}, line 1: the columns after the first are {', '.join(names)}, expected the "
            f"classes of the training data in their order: {', '.join(expected)}"
        )
    numbers, prevalences = rows[:, 0], rows[:, 1:]
    _refuse(
        (prevalences < 0).any(axis=1)
        | (prevalences > 1).any(axis=1)
        | (np.abs(prevalences.sum(axis=1) - 1) > SUM_TOLERANCE),
        where,
        "the prevalences are negative, above one or do not sum to one",
    )
    order = np.argsort(numbers, kind="stable")
    out = np.zeros(len(rows), dtype=bool)
    out[order] = numbers[order] != np.arange(len(rows))
    if out.any():
        absent = sorted(set(range(len(rows))) - set(numbers.tolist()))
        raise ValueError(
            f"{where}, line {int(np.argmax(out)) + 2}: bags must be numbered 0..{len(rows) - 1}, "
            f"each once, but bag {absent[0]} is not there"
        )
    return np.ascontiguousarray(prevalences[order])


def read_labelled_numbers(data: bytes, where: str) -> tuple[Array, Indices]:
    """Return features (n, d) and labels (n,) of a file whose first column is ``label``."""
    _check_label_column(read_header(data) if data.strip() else [], where)
    rows = read_numbers(data, where)
    labels = rows[:, 0]
    _refuse(
        labels != np.floor(labels), where, f"the label (column {LABEL!r}) is not a whole number"
    )
    return np.ascontiguousarray(rows[:, 1:]), labels.astype(np.int64)


def read_documents(data: bytes, where: str) -> NDArray[Any]:
    """Return the documents of a file, an object array of texts, shape (n,)."""
    return _texts(_records(data, where, [TEXT]), 0)


def read_labelled_documents(data: bytes, where: str) -> tuple[NDArray[Any], Indices]:
    """Return the documents (n,) and labels (n,) of a file with columns ``label`` and ``text``."""
    records = _records(data, where, [LABEL, TEXT])
    bad = np.array([not record[0].strip().isdigit() for record in records])
    if bad.any():
        number = int(np.argmax(bad))
        raise ValueError(
            f"{where}, document {number + 1}: the label {records[number][0]!r} is no whole number"
        )
    return _texts(records, 1), np.array([int(record[0]) for record in records], dtype=np.int64)


def _records(data: bytes, where: str, columns: list[str]) -> list[list[str]]:
    """Return the cells of all records; documents may hold commas, quotes and line breaks."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not a text file ({error})") from error
    try:
        header, *records = list(csv.reader(io.StringIO(text, newline=""), strict=True)) or [[]]
    except csv.Error as error:
        raise ValueError(f"{where}: {error}") from error
    if header != columns:
        raise ValueError(
            f"{where}, line 1: the columns are {', '.join(header)}, expected {', '.join(columns)}"
        )
    records = [record for record in records if record]
    if not records:
        raise ValueError(f"{where}: a header and at least one document are needed")
    for number, record in enumerate(records, start=1):
        if len(record) != len(columns):
            raise ValueError(
                f"{where}, document {number}: {len(record)} columns, expected {len(columns)}"
            )
    return records


def _texts(records: list[list[str]], column: int) -> NDArray[Any]:
    texts = np.empty(len(records), dtype=object)
    texts[:] = [record[column] for record in records]
    return texts


def read_label_map(data: bytes, where: str) -> tuple[str, ...]:
    """Return the names of classes 0, 1, ... of a file with a name and a number in each line."""
    names: dict[int, str] = {}
    lines = [line for line in data.decode("utf-8").splitlines() if line.strip()]
    for number, line in enumerate(lines, start=1):
        name, _, code = line.strip().rpartition(" ")
        if not name.strip() or not code.isdigit() or int(code) in names:
            raise ValueError(f"{where}, line {number}: {line!r} is not a name and a new number")
        names[int(code)] = name.strip()
    if sorted(names) != list(range(len(lines))):
        raise ValueError(f"{where}: classes must be numbered 0..{len(lines) - 1}, each once")
    return tuple(names[code] for code in range(len(lines)))


def _check_label_column(header: list[str], where: str) -> None:
    if header[:1] != [LABEL]:
        found = repr(header[0]) if header else "missing"
        raise ValueError(f"{where}, line 1: the first column is {found}, expected {LABEL!r}")


def _refuse(bad: NDArray[np.bool_], where: str, why: str) -> None:
    if bad.any():
        raise ValueError(f"{where}, line {int(np.argmax(bad)) + 2}: {why}")
