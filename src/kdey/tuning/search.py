"""Search for a setting: the user's criterion, errors on the hold-outs, and a coarse-to-fine search.

A :class:`TuningPlan` has the error and the bag size to choose for, a :class:`Scorer` evaluates row
specs on the hold-outs, and a :class:`Lattice` decides which values are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kdey._support.device import choose_device
from kdey._support.validation import check_count, check_share
from kdey._support.warnings import muted
from kdey.gpu.route import match_family_on
from kdey.matching import AnyMatching
from kdey.metrics import Metric, get_metric
from kdey.rows.interface import RowSpec, families, rows_of_family
from kdey.rows.references import BandwidthWarning
from kdey.tuning.hold_outs import Array, HoldOut

#: From each evaluated place of a lattice to its errors per bag, shape (n_bags,).
PlaceErrors: TypeAlias = "dict[int, Array]"
#: Number of steps by which the coarse grid may be extended if the best value is at its edge.
_MOST_EXTENSIONS = 3


@dataclass(frozen=True)
class TuningPlan:
    """The criterion of an automatic choice, as the user specifies it.

    Attributes
    ----------
    tune_for : str or Metric
        The error to minimise: "ae", "rae" or another of :mod:`kdey.metrics`.
    bag_size : int
        Expected size of bags.
    random_state : int, RandomState or None
        Seed of parts and bags. None means the seed 0, so that equal data give equal choices.
    smoothest : float
        Share of the simplex, its smoothest part, from which prevalences are drawn; for ordered
        classes (:func:`kdey.simplex.sample_smooth`). One is the whole simplex.
    device : str
        Where candidates are evaluated (:func:`kdey._support.device.device_name`).
    """

    tune_for: Any = "ae"
    bag_size: int = 500
    random_state: Any = None
    smoothest: float = 1.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.smoothest != 1.0:
            check_share(self.smoothest, "tune_smoothest")
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
        """Return the seed as a number; a RandomState is advanced by one draw."""
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))


@dataclass(frozen=True, eq=False)
class Scorer:
    """Evaluates row specs by the error of a matching on the bags of all hold-outs."""

    hold_outs: Sequence[HoldOut]
    matching: AnyMatching
    metric: Metric
    bag_size: int
    n_threads: int = 1
    device: str = "cpu"

    def errors(self, specs: Sequence[RowSpec]) -> Array:
        """Return the error of each spec on each bag, shape (n_specs, n_bags).

        Specs of one family (the bandwidths of a kernel) share one pass over the distances.
        """
        # Extreme candidates may cause warnings; their errors rule them out.
        quiet = muted(BandwidthWarning, ConvergenceWarning)
        with quiet, np.errstate(divide="ignore", invalid="ignore"):
            device = choose_device(self.device, self._n_pairs(len(specs)))
            if device is not None:
                return self._errors_there(specs, device)
            return np.concatenate(
                [self._errors_on(hold_out, specs) for hold_out in self.hold_outs], axis=1
            )

    def _n_pairs(self, n_specs: int) -> float:
        """Return about how many kernel values specs with kernels take."""
        pairs = (float(len(h.training.labels)) * len(h.points) for h in self.hold_outs)
        return n_specs * sum(pairs)

    def baseline(self) -> float:
        """Return the mean error of the uniform prevalence."""
        errors = [
            self._error(hold_out, np.full(hold_out.prevalences.shape, 1.0 / hold_out.n_classes))
            for hold_out in self.hold_outs
        ]
        return float(np.concatenate(errors).mean())

    def _errors_on(self, hold_out: HoldOut, specs: Sequence[RowSpec]) -> Array:
        out = np.empty((len(specs), len(hold_out.bags)))
        quick = self.matching.takes_quick_rows
        for family in families(specs, len(hold_out.points), hold_out.n_classes):
            members = [specs[i] for i in family]
            fitted = rows_of_family(
                members,
                hold_out.training,
                hold_out.points,
                hold_out.n_classes,
                self.n_threads,
                quick=quick,
            )
            for number, (row_map, rows) in zip(family, fitted, strict=True):
                solution = self.matching.match(row_map, rows, hold_out.bags, self.n_threads)
                out[number] = self._error(hold_out, solution.prevalence)
        return out

    def _errors_there(self, specs: Sequence[RowSpec], device: Any) -> Array:
        """Return :meth:`errors`, computed on a device for all hold-outs at once."""
        out = [np.empty((len(specs), len(hold_out.bags))) for hold_out in self.hold_outs]
        pool_size = max(len(hold_out.points) for hold_out in self.hold_outs)
        n_classes = max(hold_out.n_classes for hold_out in self.hold_outs)
        for family in families(specs, pool_size, n_classes):
            members = [specs[i] for i in family]
            solved = match_family_on(members, self.matching, self.hold_outs, device, self.n_threads)
            for errors, hold_out, solutions in zip(out, self.hold_outs, solved, strict=True):
                for number, solution in zip(family, solutions, strict=True):
                    errors[number] = self._error(hold_out, solution.prevalence)
        return np.concatenate(out, axis=1)

    def _error(self, hold_out: HoldOut, estimated: Array) -> Array:
        return self.metric.sign * -self.metric(
            hold_out.prevalences, estimated, bag_size=self.bag_size
        )


@dataclass(frozen=True, eq=False)
class Lattice:
    """A lattice of values to search, represented by integers, its places.

    Attributes
    ----------
    errors_at : callable
        From a list of places to their errors per bag, shape (n_places, n_bags).
    low, high : int
        Smallest and largest place allowed.
    step : int
        Distance between the places of a coarse grid.
    """

    errors_at: Callable[[list[int]], Array]
    low: int
    high: int
    step: int

    def scan(self, coarse: Sequence[int]) -> PlaceErrors:
        """Return the errors on a coarse grid, extended if the best place is at its edge."""
        errors = self._evaluate({}, list(coarse))
        for _ in range(_MOST_EXTENSIONS):
            place = best_place(errors)
            if min(errors) < place < max(errors):
                break
            errors = self._evaluate(errors, [place - self.step, place + self.step])
        return errors

    def refine(self, errors: PlaceErrors, strides: Sequence[int]) -> PlaceErrors:
        """Return ``errors`` with those of the neighbours of the best place, coarse to fine."""
        for stride in strides:
            place = best_place(errors)
            errors = self._evaluate(errors, [place - stride, place + stride])
        return errors

    def _evaluate(self, errors: PlaceErrors, places: list[int]) -> PlaceErrors:
        new = [p for p in places if p not in errors and self.low <= p <= self.high]
        return errors | dict(zip(new, self.errors_at(new), strict=True)) if new else errors


def best_place(errors: PlaceErrors) -> int:
    """Return the place of the smallest mean error; the largest one of several."""
    return min(errors, key=lambda place: (float(np.mean(errors[place])), -place))


def smallest_error(errors: PlaceErrors) -> float:
    """Return the smallest mean error."""
    return float(np.mean(errors[best_place(errors)]))
