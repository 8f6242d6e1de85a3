"""What an automatic choice is made for: which error, on bags of which size, by which seed.

Errors of settings on the hold-outs.

Coarse-to-fine search over a lattice of values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kdey._support.validation import check_count
from kdey._support.warnings import muted
from kdey.matching import AnyMatching
from kdey.metrics import Metric, get_metric
from kdey.rows.interface import RowSpec, families, rows_of_family
from kdey.rows.references import BandwidthWarning
from kdey.tuning.hold_outs import Array, HoldOut


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


@dataclass(frozen=True, eq=False)
class Scorer:
    """Judges row specs by the error of a matching on the bags of all hold-outs."""

    hold_outs: Sequence[HoldOut]
    matching: AnyMatching
    metric: Metric
    bag_size: int
    n_threads: int = 1

    def errors(self, specs: Sequence[RowSpec]) -> Array:
        """Return the error of each spec on each bag, shape (n_specs, n_bags).

        Specs of one family (the bandwidths of a kernel) share one pass over the distances.
        """
        # What is tried out may be absurd; the errors tell.
        quiet = muted(BandwidthWarning, ConvergenceWarning)
        with quiet, np.errstate(divide="ignore", invalid="ignore"):
            return np.concatenate([self._on(one, specs) for one in self.hold_outs], axis=1)

    def baseline(self) -> float:
        """Return the mean error of answering the uniform prevalence to every bag."""
        errors = [
            self._error(one, np.full(one.prevalences.shape, 1.0 / one.n_classes))
            for one in self.hold_outs
        ]
        return float(np.concatenate(errors).mean())

    def _on(self, one: HoldOut, specs: Sequence[RowSpec]) -> Array:
        out = np.empty((len(specs), len(one.bags)))
        quick = self.matching.takes_quick_rows
        for family in families(specs, len(one.points), one.n_classes):
            members = [specs[i] for i in family]
            made = rows_of_family(
                members, one.training, one.points, one.n_classes, self.n_threads, quick=quick
            )
            for number, (row_map, rows) in zip(family, made, strict=True):
                solution = self.matching.match(row_map, rows, one.bags, self.n_threads)
                out[number] = self._error(one, solution.prevalence)
        return out

    def _error(self, one: HoldOut, estimated: Array) -> Array:
        return self.metric.sign * -self.metric(one.prevalences, estimated, bag_size=self.bag_size)


#: Errors per bag at every lattice place tried.
Found: TypeAlias = "dict[int, Array]"
#: Steps of the coarse grid that may be added beyond an edge where the best value lies on it.
_BEYOND = 3


@dataclass(frozen=True, eq=False)
class Lattice:
    """Places to look at, evenly spaced integers that stand for values.

    Attributes
    ----------
    errors_at : callable
        From places to their errors per bag, shape (n_places, n_bags).
    low, high : int
        Smallest and largest place allowed.
    step : int
        Distance between the places of a coarse grid.
    """

    errors_at: Callable[[list[int]], Array]
    low: int
    high: int
    step: int

    def scan(self, coarse: Sequence[int]) -> Found:
        """Return the errors on a coarse grid, and beyond it where the best lies on its edge."""
        found = self._visit({}, list(coarse))
        for _ in range(_BEYOND):
            place = best_place(found)
            if min(found) < place < max(found):
                break
            found = self._visit(found, [place - self.step, place + self.step])
        return found

    def refine(self, found: Found, strides: Sequence[int]) -> Found:
        """Return ``found`` and the neighbours of its best place at each stride, coarse to fine."""
        for stride in strides:
            place = best_place(found)
            found = self._visit(found, [place - stride, place + stride])
        return found

    def _visit(self, found: Found, places: list[int]) -> Found:
        new = [p for p in places if p not in found and self.low <= p <= self.high]
        return found | dict(zip(new, self.errors_at(new), strict=True)) if new else found


def best_place(found: Found) -> int:
    """Return the place of smallest mean error; of equals the larger."""
    return min(found, key=lambda place: (float(np.mean(found[place])), -place))


def smallest(found: Found) -> float:
    """Return the smallest mean error."""
    return float(np.mean(found[best_place(found)]))
