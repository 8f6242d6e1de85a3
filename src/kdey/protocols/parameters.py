"""Checks of what protocols are asked for."""

from __future__ import annotations

from typing import Any

from kdey.scalars import check_count


def check_draws(n_bags: Any, bag_size: Any, random_state: Any, replace: Any) -> None:
    """Raise, naming the parameter, unless bags can be drawn with these."""
    check_count(n_bags, "n_bags")
    check_count(bag_size, "bag_size")
    check_count(random_state, "random_state", least=0)
    if not (isinstance(replace, bool) or (isinstance(replace, str) and replace == "auto")):
        raise ValueError(f'replace must be "auto", True or False, got {replace!r}')


def check_protocol(protocol: Any) -> None:
    """Raise unless ``protocol`` can give bags."""
    if isinstance(protocol, type) or not callable(getattr(protocol, "bags", None)):
        raise TypeError(f"protocol must have a method bags, such as APP(), got {protocol!r}")


def check_fits(bag_size: int, pool_size: int, replace: Any) -> None:
    """Raise where a bag without replacement would be larger than the pool."""
    if replace is False and bag_size > pool_size:
        raise ValueError(
            f"bag_size={bag_size} is larger than the pool of {pool_size} instances "
            "and replace=False"
        )
