"""What is asked for groups beyond the intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from kdey.inference import IntervalOptions


@dataclass(frozen=True)
class GroupSettings:
    """How groups are estimated and judged.

    Parameters
    ----------
    options : IntervalOptions
    min_size : int
        Groups with fewer usable instances are estimated too, but their status is "too small".
    check_fit : bool
        Whether to ask of every group if it looks like a mixture of the training classes
        (:func:`kdey.check_fit`); some 0.15 s a group of 1,000.
    level : float in (0, 1)
        Fit p-values up to it make the status "poor fit".
    n_null : int
        Null bags of the fit check.
    seed : int
        Of the fit check. Every group starts from it, so none depends on the others.
    """

    options: IntervalOptions = field(default_factory=IntervalOptions)
    min_size: int = 10
    check_fit: bool = False
    level: float = 0.01
    n_null: int = 300
    seed: int = 0

    def __post_init__(self) -> None:
        size: Any = self.min_size
        level: Any = self.level
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise ValueError(f"min_size must be a positive integer, got {size!r}")
        if not isinstance(level, Real) or not 0.0 < float(level) < 1.0:
            raise ValueError(f"level must be strictly between 0 and 1, got {level!r}")
