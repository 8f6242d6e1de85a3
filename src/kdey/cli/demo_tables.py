"""The two small tables of ``kdey demo --tables``, to try the other commands on.

Numbered forms come in at two offices; the digit on each was scanned at a quarter of its pixels.
``labelled.csv`` holds scans that people have read, ``new.csv`` scans that nobody has, with the
office and the day. Small digits are more frequent among the new forms than among the labelled
ones, and most frequent in the north. The scans are scikit-learn's handwritten digits, offices and
days are made up. No chance is involved: the files are the same on every machine.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

LABELLED, NEW = "labelled.csv", "new.csv"
_FIRST_DAY = date(2026, 1, 5)  # a Monday
_N_DAYS = 14


@dataclass(frozen=True)
class Forms:
    """Scanned forms: pixels (n, 16), digits (n,), offices (n,), and which file each is in.

    ``labelled`` and ``new``, of shape (n,), are true for the forms of ``labelled.csv`` and of
    ``new.csv``.
    """

    pixels: NDArray[np.int64]
    digits: NDArray[np.int64]
    offices: NDArray[np.str_]
    labelled: NDArray[np.bool_]
    new: NDArray[np.bool_]

    @property
    def pixel_names(self) -> list[str]:
        """The names of the columns of pixels."""
        return [f"p{number}" for number in range(self.pixels.shape[1])]


def demo_forms() -> Forms:
    """Return all forms. Those that are neither labelled nor new are in no file."""
    bunch = load_digits()
    digits = np.asarray(bunch.target, dtype=np.int64)
    pixels = bunch.images[:, ::2, ::2].reshape(len(digits), -1).astype(np.int64)
    position = np.arange(len(digits))
    small = digits < 4
    offices = np.where(small ^ (position % 5 == 0), "north", "south")
    even = position % 2 == 0
    # Every third of the large digits is new: those for which no office looks unlike its training.
    return Forms(pixels, digits, offices, even, ~even & (small | (position % 3 == 1)))


def write_demo_tables(folder: Path) -> tuple[Path, Path]:
    """Write ``labelled.csv`` and ``new.csv`` into a folder, which is made if it does not exist.

    Parameters
    ----------
    folder : Path
        Where the files go. Files of these names that hold anything else are not overwritten.

    Returns
    -------
    labelled, new : Path
        The two files.

    Raises
    ------
    ValueError
        If the folder has another file of one of these names. No file is written then.
    """
    forms = demo_forms()
    contents = {folder / LABELLED: _labelled_text(forms), folder / NEW: _new_text(forms)}
    for path, text in contents.items():
        if path.exists() and path.read_bytes() != text.encode():
            raise ValueError(
                f"{path} exists and is another table, which would be lost: name another folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in contents.items():
        path.write_bytes(text.encode())
    return folder / LABELLED, folder / NEW


def _labelled_text(forms: Forms) -> str:
    columns = (*forms.pixel_names, "digit")
    rows = np.column_stack([forms.pixels, forms.digits])[forms.labelled].tolist()
    return _csv_text(columns, rows)


def _new_text(forms: Forms) -> str:
    columns = ("office", "day", *forms.pixel_names)
    rows = [
        (forms.offices[position], _day(position), *forms.pixels[position])
        for position in np.flatnonzero(forms.new).tolist()
    ]
    return _csv_text(columns, rows)


def _day(position: int) -> str:
    return (_FIRST_DAY + timedelta(days=position % _N_DAYS)).isoformat()


def _csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue()
