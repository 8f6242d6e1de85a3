"""Parameters that are one number: the checks that name them."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from operator import index
from typing import Any

import numpy as np


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return ``value`` as an int of at least ``least``, or raise naming the parameter."""
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, (bool, np.bool_)) or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return number


def check_share(value: Any, name: str) -> float:
    """Return ``value`` as a float strictly between 0 and 1, or raise naming the parameter."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must be a number in (0, 1), got {value!r}")
    return float(value)


def check_positive(value: Any, name: str) -> float:
    """Return ``value`` as a positive, finite float, or raise naming the parameter."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0.0 < float(value) < float("inf"):
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    return float(value)


def check_choice(value: Any, name: str, allowed: Iterable[str]) -> str:
    """Return ``value``, one of the names ``allowed``, or raise naming the parameter."""
    names = list(allowed)
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{name} must be one of {names}, got {value!r}")
    return value
