"""What the text of a cell says: a number, or that a value is missing."""

from __future__ import annotations

import re

#: Spellings of a missing value in columns of numbers and dates, in any case. In columns of text
#: they are values (NA is Namibia), and only an empty cell is missing.
MISSING = ("NA", "N/A", "NaN", "null", "None")

_MISSING = frozenset(["", *(text.lower() for text in MISSING)])
#: Python would read "1_000", "infinity" and digits of other scripts too.
_NUMBER = {
    mark: re.compile(
        rf"[+-]?(?:\d+(?:{re.escape(mark)}\d*)?|{re.escape(mark)}\d+)(?:[eE][+-]?\d+)?", re.ASCII
    )
    for mark in (".", ",")
}
_INFINITE = re.compile(r"([+-]?)inf(?:inity)?", re.IGNORECASE)


def is_missing_text(text: str) -> bool:
    """Return whether a cell of a column of numbers or dates says that the value is missing."""
    return text.strip().lower() in _MISSING


def parse_number(text: str, decimal: str = ".") -> float | None:
    """Return the number that a cell spells; NaN where it is missing, None where it is none.

    Parameters
    ----------
    text : str
    decimal : {".", ","}
        The decimal mark. The other one makes a text that is no number: thousands are not parted.
    """
    stripped = text.strip()
    if _NUMBER[decimal].fullmatch(stripped):
        return float(stripped.replace(",", "."))
    if stripped.lower() in _MISSING:
        return float("nan")
    infinite = _INFINITE.fullmatch(stripped)
    return float(f"{infinite[1]}inf") if infinite else None
