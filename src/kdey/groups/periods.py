"""Time as a group: instants cut down to the start of the day, week, month ... they lie in."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Unit -> NumPy's unit and how many of them.
_UNITS = {
    "s": ("s", 1),
    "m": ("m", 1),
    "h": ("h", 1),
    "d": ("D", 1),
    "w": ("D", 7),
    "mo": ("M", 1),
    "q": ("M", 3),
    "y": ("Y", 1),
}
#: Weeks begin on Mondays; the first day that NumPy counts from was a Thursday.
_MONDAY = np.datetime64("1970-01-05", "D")


def truncate(times: NDArray[Any], every: str) -> NDArray[np.datetime64]:
    """Return the start of the period that each instant lies in, as datetime64[us].

    Parameters
    ----------
    times : datetime64 array of shape (m,)
        NaT stays NaT.
    every : str
        A number and a unit: ``"1d"``, ``"1w"`` (from Monday), ``"1mo"``, ``"1q"``, ``"1y"``,
        ``"6h"``, ``"15m"``, ``"30s"``. Several units are counted from 1970.
    """
    count, unit = parse_period(every)
    name, length = _UNITS[unit]
    length *= count
    origin: Any = _MONDAY if unit == "w" else np.zeros((), f"datetime64[{name}]")
    # As a number NaT is the smallest of all, and overflows: another time stands in for it.
    missing = np.isnat(times)
    whole = np.where(missing, origin, times.astype(f"datetime64[{name}]"))
    steps = (whole - origin).astype(np.int64)
    floored = origin + (steps - steps % length).astype(f"timedelta64[{name}]")
    out = floored.astype("datetime64[us]")
    out[missing] = np.datetime64("NaT", "us")
    return np.asarray(out)


def parse_period(every: str) -> tuple[int, str]:
    """Return the number and the unit of a period such as "2w"."""
    found = re.fullmatch(r"(\d*)(s|m|h|d|w|mo|q|y)", str(every))
    count = int(found[1] or 1) if found else 0
    if found is None or count < 1:
        raise ValueError(
            f"every must be a number and one of s, m, h, d, w, mo, q, y, such as '1w'; "
            f"got {every!r}"
        )
    return count, found[2]
