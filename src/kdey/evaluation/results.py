"""Results of an evaluation: one entry per bag and method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey._support.frames import make_frame
from kdey.bags import Array
from kdey.solvers.solution import Solution

_PARTS = ("gap", "n_iter", "converged")


@dataclass(frozen=True, eq=False)
class MethodResults:
    """What one method gave.

    Attributes
    ----------
    solution : Solution
        Estimated prevalences of all bags, with their certificates.
    errors : mapping from the name of a metric to an array of shape (n_bags,)
    seconds : array of shape (n_bags,)
        Wall time of each bag: its share of the batch it was solved in.
    pool_seconds : float
        Wall time of the work per instance that this method did first: its rows, and posteriors
        that no method before it had asked for.
    """

    solution: Solution
    errors: Mapping[str, Array]
    seconds: Array
    pool_seconds: float


@dataclass(frozen=True, eq=False)
class Results:
    """Results of :func:`kdey.evaluate`.

    Attributes
    ----------
    classes : array of shape (k,)
    true : array of shape (n_bags, k)
        True prevalences, in the order of ``classes``.
    sizes : int array of shape (n_bags,)
    names : array of shape (n_bags,)
        Names of the bags; their numbers where they have none.
    methods : mapping from the name of a method to :class:`MethodResults`
    """

    classes: NDArray[Any]
    true: Array
    sizes: NDArray[np.int64]
    names: NDArray[Any]
    methods: Mapping[str, MethodResults]

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.true)

    def estimated(self, method: str | None = None) -> Array:
        """Return the estimated prevalences of a method, shape (n_bags, k)."""
        return self._method(method).solution.prevalence

    def errors(self, metric: str, method: str | None = None) -> Array:
        """Return the errors of a method, shape (n_bags,)."""
        found = self._method(method).errors
        if metric not in found:
            raise ValueError(f"metric must be one of {list(found)}, got {metric!r}")
        return found[metric]

    def to_frame(self, backend: str | None = None, *, by_class: bool = False) -> Any:
        """Return a tidy frame with one row per method and bag.

        Columns: ``method``, ``bag``, ``size``, one ``true[c]`` and one ``estimated[c]`` per class
        c, one per metric, then ``gap``, ``n_iter``, ``converged`` and ``seconds``.

        Parameters
        ----------
        backend : see :func:`kdey._support.frames.make_frame`
        by_class : bool
            One row per method, bag and class instead: ``method``, ``bag``, ``class``, ``true``,
            ``estimated``.
        """
        parts = self._class_columns if by_class else self._bag_columns
        tables = [parts(name, found) for name, found in self.methods.items()]
        return make_frame(
            {key: np.concatenate([table[key] for table in tables]) for key in tables[0]}, backend
        )

    def summary(self, backend: str | None = None) -> Any:
        """Return a frame with one row per method, ordered by the first metric.

        Mean errors over bags, the largest gap (NaN where no bag has a certificate), the number
        of bags that did not converge and the seconds in all.
        """
        rows = sorted(self.methods, key=lambda name: tuple(self._means(name).values()))
        table: dict[str, list[Any]] = {"method": rows}
        for metric in self._means(rows[0]):
            table[metric] = [self._means(name)[metric] for name in rows]
        found = [self.methods[name] for name in rows]
        table["largest_gap"] = [_largest(one.solution.gap) for one in found]
        table["not_converged"] = [int((~one.solution.converged).sum()) for one in found]
        table["seconds"] = [float(one.seconds.sum()) + one.pool_seconds for one in found]
        return make_frame(table, backend)

    def _method(self, method: str | None) -> MethodResults:
        if method is None and len(self.methods) == 1:
            return next(iter(self.methods.values()))
        if method is None or method not in self.methods:
            raise ValueError(f"method must be one of {list(self.methods)}, got {method!r}")
        return self.methods[method]

    def _means(self, name: str) -> dict[str, float]:
        return {metric: float(e.mean()) for metric, e in self.methods[name].errors.items()}

    def _bag_columns(self, name: str, found: MethodResults) -> dict[str, NDArray[Any]]:
        table = {"method": np.full(len(self), name), "bag": self.names, "size": self.sizes}
        for label, column in zip(self.classes.tolist(), self.true.T, strict=True):
            table[f"true[{label}]"] = column
        for label, column in zip(self.classes.tolist(), found.solution.prevalence.T, strict=True):
            table[f"estimated[{label}]"] = column
        table |= dict(found.errors)
        table |= {part: getattr(found.solution, part) for part in _PARTS}
        return table | {"seconds": found.seconds}

    def _class_columns(self, name: str, found: MethodResults) -> dict[str, NDArray[Any]]:
        n, k = self.true.shape
        return {
            "method": np.full(n * k, name),
            "bag": np.repeat(self.names, k),
            "class": np.tile(self.classes, n),
            "true": self.true.ravel(),
            "estimated": found.solution.prevalence.ravel(),
        }


def _largest(gaps: Array) -> float:
    known = gaps[~np.isnan(gaps)]
    return float(known.max()) if len(known) else float("nan")
