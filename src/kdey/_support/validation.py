"""Validation of parameters and weights; every error message names the parameter."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.tensors import for_numpy


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return ``value`` as an int; raises ValueError unless it is at least ``least``."""
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, (bool, np.bool_)) or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return number


def check_share(value: Any, name: str) -> float:
    """Return ``value`` as a float; raises ValueError unless it is strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must be a number in (0, 1), got {value!r}")
    return float(value)


def check_positive(value: Any, name: str) -> float:
    """Return ``value`` as a float; raises ValueError unless it is positive and finite."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0.0 < float(value) < float("inf"):
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    return float(value)


def check_choice(value: Any, name: str, allowed: Iterable[str]) -> str:
    """Return ``value``; raises ValueError unless it is one of the names in ``allowed``."""
    names = list(allowed)
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{name} must be one of {names}, got {value!r}")
    return value


def check_weights(
    weights: ArrayLike, size: int, *, name: str = "sample_weight", may_vanish: bool = False
) -> NDArray[np.float64]:
    """Return ``weights`` as a contiguous float64 array of shape (size,).

    Parameters
    ----------
    weights : array-like of shape (size,)
        Finite and non-negative, with a finite sum.
    size : int
    name : str
        What to call the argument in messages.
    may_vanish : bool
        Whether all weights may be zero.

    Raises
    ------
    ValueError
        If the weights are not such numbers.
    """
    values = for_numpy(weights, name)
    try:
        w = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from error
    if w.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {w.shape}")
    if not np.isfinite(w).all() or (w < 0).any() or not (may_vanish or w.any()):
        condition = " and non-negative" if may_vanish else ", non-negative and not all zero"
        raise ValueError(f"{name} must be finite{condition}")
    with np.errstate(over="ignore"):
        total = w.sum()
    if not np.isfinite(total):
        raise ValueError(f"{name} must have a finite sum: divide it by its largest entry")
    return w
