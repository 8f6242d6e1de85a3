"""Tables of Markdown that can be read in a terminal too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def markdown(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return an aligned table; floats with four decimals, None as an empty cell."""
    lines = [list(head), *([cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def cell(value: Any) -> str:
    """Return one value as text."""
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def significant(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, plain from 0.0001 to a million."""
    if 1e-4 <= abs(value) < 1e6:
        rounded = float(f"{value:.{digits}g}")
        return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:g}"
    return f"{value:.1e}"
