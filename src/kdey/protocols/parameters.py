"""Checks of what protocols are asked for."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np


def check_draws(n_bags: Any, bag_size: Any, random_state: Any, replace: Any) -> None:
    """Raise, naming the parameter, unless bags can be drawn with these."""
    check_count(n_bags, "n_bags")
    check_count(bag_size, "bag_size")
    check_count(random_state, "random_state", least=0)
    if not (isinstance(replace, bool) or (isinstance(replace, str) and replace == "auto")):
        raise ValueError(f'replace must be "auto", True or False, got {replace!r}')


def check_fits(bag_size: int, pool_size: int, replace: Any) -> None:
    """Raise where a bag without replacement would be larger than the pool."""
    if replace is False and bag_size > pool_size:
        raise ValueError(
            f"bag_size={bag_size} is larger than the pool of {pool_size} instances "
            "and replace=False"
        )


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return ``value`` as an int of at least ``least``, or raise naming the parameter."""
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, (bool, np.bool_)) or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return number
