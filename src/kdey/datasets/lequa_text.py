"""Reading the text files of LeQua 2022: commas between numbers, below one header line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kdey.simplex import SUM_TOLERANCE

Array = NDArray[np.float64]


def read_numbers(data: bytes, where: str, n_columns: int | None = None) -> Array:
    """Return the numbers of a file, shape (n, d).

    Parameters
    ----------
    data : bytes
        What the file holds.
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


def read_prevalences(data: bytes, where: str, n_classes: int) -> Array:
    """Return prevalences, shape (n_bags, k), in the order of the bags' numbers.

    Parameters
    ----------
    data : bytes
        Number of the bag, then one column per class.
    where : str
        Name of the file, for messages.
    n_classes : int
    """
    rows = read_numbers(data, where, n_classes + 1)
    numbers, prevalences = rows[:, 0], rows[:, 1:]
    _refuse(
        (prevalences < 0).any(axis=1) | (np.abs(prevalences.sum(axis=1) - 1) > SUM_TOLERANCE),
        where,
        "the prevalences are negative or do not sum to one",
    )
    order = np.argsort(numbers, kind="stable")
    out = np.zeros(len(rows), dtype=bool)
    out[order] = numbers[order] != np.arange(len(rows))
    _refuse(out, where, f"bags must be numbered 0..{len(rows) - 1}, each once")
    return np.ascontiguousarray(prevalences[order])


def _refuse(bad: NDArray[np.bool_], where: str, why: str) -> None:
    if bad.any():
        raise ValueError(f"{where}, line {int(np.argmax(bad)) + 2}: {why}")
