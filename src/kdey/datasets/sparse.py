"""Reading svmlight-like text: ``label column:value column:value ...``, columns from 1."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from kdey.datasets.text import read_lines

#: A colon at the edge of a cell, or two in one.
_ODD = re.compile(r"(?:^|\s):|:(?:\s|$)|:[^\s:]*:")


def read_sparse(path: Path) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Return features (n, d), d the largest column of the file, and integer labels (n,).

    Raises
    ------
    ValueError
        Names the file, the line and the cell.
    """
    cut = [_cut(line) for line in read_lines(path)]
    heads = tuple(head for head, _ in cut if head)
    tails = tuple(tail for head, tail in cut if head)
    if not heads:
        raise ValueError(f"{path}: the file is empty")
    joined = " ".join(tails)
    try:
        labels = np.array(heads, dtype=np.int64)
        flat = np.array(joined.replace(":", " ").split(), dtype=np.float64)
        sane = bool(np.isfinite(flat).all()) and len(flat) == 2 * joined.count(":")
    except (ValueError, OverflowError):
        sane = False
    # The counts may be right in total and hide "1: 2:3" or "1:2:3 4".
    if not sane or _ODD.search(joined) or not _whole(flat[::2]):
        raise ValueError(_first_fault(path, cut))
    columns, values = flat[::2], flat[1::2]
    lengths = np.array([tail.count(":") for tail in tails])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    width = int(columns.max()) if len(columns) else 0
    made = sp.csr_array((values, columns.astype(np.int64) - 1, offsets), (len(heads), width))
    made.sort_indices()
    return made, labels


def _cut(line: str) -> tuple[str, str]:
    """Return the label and the rest of a line; both are empty for a blank one."""
    label, _, rest = line.partition("#")[0].replace("\t", " ").strip().partition(" ")
    return label, rest


def _whole(columns: NDArray[np.float64]) -> bool:
    return bool((columns >= 1).all() and (columns == np.floor(columns)).all())


def _first_fault(path: Path, cut: list[tuple[str, str]]) -> str:
    """Return a message on the first cell that is wrong."""
    for number, (head, tail) in enumerate(cut, start=1):
        where = f"{path}, line {number}"
        if head and not _is_integer(head):
            return f"{where}: the label {head!r} is not an integer"
        for cell in tail.split():
            if not _is_pair(cell):
                return f"{where}: {cell!r} is not of the form column:value (columns from 1)"
    return f"{path}: not of the form `label column:value ...`"


def _is_integer(text: str) -> bool:
    try:
        return abs(int(text)) < 2**62
    except ValueError:
        return False


def _is_pair(cell: str) -> bool:
    column, colon, value = cell.partition(":")
    try:
        return bool(colon) and int(column) >= 1 and bool(np.isfinite(float(value)))
    except ValueError:
        return False
