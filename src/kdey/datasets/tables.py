"""Reading ``<group>/<name>.csv.gz``: features first, an optional column split, then label.

The numbers are read by NumPy in one go. Only when that fails is the file gone through cell by
cell, to say which line and column is wrong.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.datasets.text import read_lines

Array = NDArray[np.float64]
#: Columns at the right end that are no features.
_SPECIAL = ("split", "label")


@dataclass(frozen=True, eq=False)
class Table:
    """What a file holds.

    Attributes
    ----------
    columns : tuple of str, length d
    numbers : float64 array of shape (n, d - number of word columns)
        The numeric columns, in order.
    words : dict from column to array of str of shape (n,)
        The categorical columns.
    labels : array of shape (n,)
        Integers where every label is one, else text.
    split : array of str of shape (n,) or None
        The part, "train" or "test", that the source assigns each row to.
    """

    columns: tuple[str, ...]
    numbers: Array
    words: dict[str, NDArray[np.str_]]
    labels: NDArray[Any]
    split: NDArray[np.str_] | None


def read_table(path: Path, categorical: Sequence[str] = ()) -> Table:
    """Return a table; ``categorical`` names the columns that hold words.

    Raises
    ------
    ValueError
        Names the file and, where it can be told, the line and the column.
    """
    lines = read_lines(path)
    header = _header(path, lines)
    d = len(header) - (2 if "split" in header else 1)
    quoted = any('"' in line for line in lines)
    ragged = any(line.count(",") != len(header) - 1 for line in lines)
    rows: list[list[str]] | None = None
    if quoted or ragged or categorical:
        rows = _cells(path, lines, len(header))
        numbers = _careful_numbers(path, rows, header, d, categorical)
        tails = [row[d:] for row in rows]
    else:
        numbers = _fast_numbers(path, lines, header, d)
        tails = [line.rsplit(",", len(header) - d)[1:] for line in lines[1:]]
    words = {
        column: np.array([row[header.index(column)] for row in rows or []])
        for column in categorical
    }
    labels = _labels(path, [tail[-1].strip() for tail in tails])
    split = _split(path, [tail[0].strip() for tail in tails]) if "split" in header else None
    return Table(tuple(header[:d]), numbers, words, labels, split)


def _header(path: Path, lines: list[str]) -> list[str]:
    if not lines:
        raise ValueError(f"{path}: the file is empty")
    _, first = next(_parsed(path, lines[:1]))
    header = [name.strip() for name in first] or [""]
    if header[-1] != "label":
        raise ValueError(
            f"{path}, line 1: the last column must be called label, it is {header[-1]!r}"
        )
    twice = {name for name in header if header.count(name) > 1}
    if twice:
        raise ValueError(f"{path}, line 1: column {min(twice)!r} comes twice")
    if "split" in header and header.index("split") != len(header) - 2:
        raise ValueError(f"{path}, line 1: the column split must stand before label")
    if set(header) <= set(_SPECIAL):
        raise ValueError(f"{path}, line 1: there is no feature column")
    if len(lines) == 1:
        raise ValueError(f"{path}: there is a header but no row")
    return header


def _cells(path: Path, lines: Iterable[str], width: int) -> list[list[str]]:
    """Return the rows as text, each of the width of the header."""
    parsed = _parsed(path, lines)
    next(parsed)
    rows = []
    for number, row in parsed:
        if len(row) != width:
            raise ValueError(f"{path}, line {number}: {len(row)} cells, the header has {width}")
        rows.append(row)
    return rows


def _parsed(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Iterate over the line number and the cells of each row."""
    reader = csv.reader(lines)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: not CSV ({error})") from error


def _fast_numbers(path: Path, lines: list[str], header: list[str], d: int) -> Array:
    try:
        numbers = np.loadtxt(lines[1:], delimiter=",", usecols=range(d), ndmin=2, comments=None)
    except ValueError:
        return _careful_numbers(path, _cells(path, lines, len(header)), header, d, ())
    # NumPy leaves out blank lines; here they would have too few cells.
    if np.isfinite(numbers).all() and len(numbers) == len(lines) - 1:
        return numbers
    return _careful_numbers(path, _cells(path, lines, len(header)), header, d, ())


def _careful_numbers(
    path: Path, rows: list[list[str]], header: list[str], d: int, categorical: Sequence[str]
) -> Array:
    """Return the numeric columns, one cell at a time."""
    unknown = set(categorical) - set(header[:d])
    if unknown:
        raise ValueError(f"{path}, line 1: there is no column {min(unknown)!r}")
    numeric = [j for j in range(d) if header[j] not in categorical]
    numbers = np.empty((len(rows), len(numeric)))
    for i, row in enumerate(rows):
        for at, j in enumerate(numeric):
            try:
                numbers[i, at] = float(row[j])
            except ValueError:
                numbers[i, at] = np.nan
            if not np.isfinite(numbers[i, at]):
                raise ValueError(
                    f"{path}, line {i + 2}, column {header[j]!r}: {row[j]!r} is not a finite number"
                )
    return numbers


def _labels(path: Path, given: list[str]) -> NDArray[Any]:
    if "" in given:
        raise ValueError(f"{path}, line {given.index('') + 2}, column 'label': the label is empty")
    whole = all(_is_integer(label) for label in set(given))
    return np.array([int(label) for label in given]) if whole else np.array(given)


def _is_integer(label: str) -> bool:
    digits = label.removeprefix("-")
    # Nineteen digits and more need not fit into an integer: they are names.
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(label)) == label


def _split(path: Path, given: list[str]) -> NDArray[np.str_]:
    for number, part in enumerate(given):
        if part not in ("train", "test"):
            raise ValueError(
                f"{path}, line {number + 2}, column 'split': {part!r} is neither train nor test"
            )
    return np.array(given)
