"""What an automatic choice is made for: which error, on bags of which size, by which seed."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from sklearn.utils import check_random_state

from kdey.metrics import Metric, get_metric
from kdey.scalars import check_count


@dataclass(frozen=True)
class TuningPlan:
    """The user's part of the criterion.

    Attributes
    ----------
    tune_for : str or Metric
        The error to make small, "ae" or "rae" or another of :mod:`kdey.metrics`.
    bag_size : int
        Size of the bags that are expected.
    random_state : int, RandomState or None
        Seed of parts and bags. None is the seed 0: the same data give the same choice.
    """

    tune_for: Any = "ae"
    bag_size: int = 500
    random_state: Any = None

    def __post_init__(self) -> None:
        try:
            get_metric(self.tune_for)
        except ValueError as error:
            raise ValueError(f"tune_for: {error}") from None
        check_count(self.bag_size, "tune_bag_size")

    @property
    def metric(self) -> Metric:
        """The error as a metric."""
        return get_metric(self.tune_for)

    def seed(self) -> int:
        """Return the seed as a number; a RandomState moves on by one draw."""
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))
