"""Masked arrays, which NumPy reads without their masks.

``numpy.asarray`` returns whatever value lies below a mask, so that a masked posterior or weight
would count as if it were known. Everything that users pass as an array goes through
:func:`refuse_masked` before it is converted.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def refuse_masked(values: T, name: str) -> T:
    """Return ``values`` unchanged, or raise ValueError if an entry is masked.

    Parameters
    ----------
    values : array-like of any type
        Lists and tuples are searched for masked arrays too, down to their rows.
    name : str
        What to call the argument in the message.
    """
    n_masked = _count_masked(values)
    if n_masked:
        raise ValueError(
            f"{name} is a masked array with {n_masked} masked "
            f"{'entry' if n_masked == 1 else 'entries'}, whose values are unknown: leave their "
            "rows out, or fill them (numpy.ma.filled) with values that you can answer for"
        )
    return values


def _count_masked(values: Any, depth: int = 2) -> int:
    if isinstance(values, np.ma.MaskedArray):
        return int(np.count_nonzero(np.ma.getmaskarray(values)))
    if depth and isinstance(values, list | tuple):
        return sum(_count_masked(value, depth - 1) for value in values)
    return 0
