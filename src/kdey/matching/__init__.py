"""Matchings: from templates and rows to prevalences.

This file declares matchings, problems and solutions, and has composites. One file per family of
problems has the objective, its solver and the matching that uses them: ``squares``, ``divergence``,
``likelihood`` and ``histograms``. ``sqp`` solves quadratic programs and any smooth problem, and
``penalty`` adds a penalty.

A matching is the last stage of a quantifier, from templates and rows to prevalences. It makes a
*problem* (objective, gradient and certificate of many bags at once, one prevalence per bag), and
solves it. A new matching overrides ``problem`` and ``solve`` (or ``match``). Everything else that
the library asks of a matching is declared here, with a default that is valid for any matching.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from kdey._display import warn
from kdey.bags import Array, Bags, Indices
from kdey.rows import RowMap, Rows

if TYPE_CHECKING:
    from kdey.matching.likelihood import MaximiseLikelihood

__all__ = [
    "AnyMatching",
    "AverageOf",
    "Composite",
    "Matching",
    "MedianOf",
    "Problem",
    "Solution",
    "concatenate",
    "exact_solution",
    "median_solution",
]


#: Largest accepted absolute value of an entry: products of three do not overflow.
LARGEST = 1e100


class Problem:
    """The data of B bags over k classes, and an objective on the simplex for each of them.

    ``prevalences`` always has shape (B, k): row b belongs to bag b. Subclasses are frozen
    dataclasses; most have ``templates``, whose last axis is the class, and one of the ``targets``
    for every bag.
    """

    #: Whether the objective is convex over the simplex.
    convex: ClassVar[bool] = False

    if TYPE_CHECKING:
        # Fields of most subclasses; those without them override what is made of them.
        @property
        def templates(self) -> Array:
            """What the classes contribute."""

        @property
        def targets(self) -> Array:
            """What the bags contribute."""

    @property
    def n_bags(self) -> int:
        """Number of bags B."""
        return len(self.targets)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.templates.shape[-1])

    def objective(self, prevalences: Array) -> Array:
        """Return the value to minimise, shape (B,)."""
        raise NotImplementedError

    def gradient(self, prevalences: Array) -> Array:
        """Return its gradient, shape (B, k)."""
        raise NotImplementedError

    def hessian(self, prevalences: Array) -> Array:
        """Return its Hessian, or a positive semidefinite model of it, shape (B, k, k)."""
        raise NotImplementedError

    def gap(self, prevalences: Array) -> Array:
        """Return a bound on the distance to the optimal value, shape (B,); NaN if none is known.

        If the objective is convex this is the Frank-Wolfe gap, otherwise there is none.
        """
        if not self.convex:
            return np.full(len(prevalences), np.nan)
        return frank_wolfe_gap(prevalences, self.gradient(prevalences))

    def take(self, which: Indices) -> Self:
        """Return the problem of the bags at positions ``which`` (repetitions allowed)."""
        return self._with(targets=self.targets[which])

    def _with(self, **fields: Any) -> Self:
        """Return a copy with some fields replaced, without checking them."""
        result = object.__new__(type(self))
        vars(result).update(vars(self), **fields)
        return result


def frank_wolfe_gap(prevalences: Array, gradient: Array) -> Array:
    """Return alpha . g - min_i g_i per bag, shape (B,).

    For a convex objective this bounds its distance to the minimum over the simplex (Jaggi, 2013).
    A gradient of -inf at a class of prevalence zero gives inf.
    """
    with np.errstate(invalid="ignore"):
        spread = gradient - gradient.min(axis=1, keepdims=True)
        terms = np.where(prevalences > 0, prevalences * spread, 0.0)
    gap = terms.sum(axis=1)
    return np.where(np.isneginf(gradient).any(axis=1), np.inf, np.maximum(gap, 0.0))


def check_array(
    values: ArrayLike, name: str, shape: tuple[int | None, ...], largest: float = LARGEST
) -> Array:
    """Return ``values`` as a finite, C-contiguous float64 array of ``shape`` (None: any size).

    Raises ValueError for another shape, and for entries beyond ``largest`` in absolute value.
    """
    array = np.ascontiguousarray(values, dtype=np.float64)
    fits = array.ndim == len(shape) and all(
        size is None or size == actual for size, actual in zip(shape, array.shape, strict=True)
    )
    if not fits:
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must have shape ({expected}), got {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} is empty, shape {array.shape}")
    # Both are NaN if an entry is.
    low, high = float(array.min()), float(array.max())
    if not (-np.inf < low and high < np.inf):
        raise ValueError(f"{name} contains NaN or infinity")
    if max(-low, high) > largest:
        raise ValueError(f"{name} has values beyond {largest:g}, whose products overflow: rescale")
    return array


def check_non_negative(
    values: ArrayLike, name: str, shape: tuple[int | None, ...], largest: float = LARGEST
) -> Array:
    """Return ``values`` as :func:`check_array` does; raises ValueError for negative entries."""
    array = check_array(values, name, shape, largest)
    if array.min() < 0:
        raise ValueError(f"{name} contains negative values (lowest {array.min():.3g})")
    return array


def check_gram(values: ArrayLike, name: str = "gram") -> Array:
    """Return ``values`` as a symmetric float64 array of shape (k, k), or raise ValueError."""
    gram = check_array(values, name, (None, None))
    if gram.shape[0] != gram.shape[1]:
        raise ValueError(f"{name} must be square, got shape {gram.shape}")
    if np.abs(gram - gram.T).max() > 1e-10 * np.abs(gram).max():
        raise ValueError(f"{name} must be symmetric")
    return np.ascontiguousarray((gram + gram.T) / 2)


#: Share of the uniform prevalence that is mixed into a warm start with an infinite slope.
BLEND = 1e-3

#: Slopes beyond this count as infinite, because the curvature, their square, would overflow.
STEEP = 1e100


@dataclass(frozen=True, eq=False)
class Solution:
    """Solutions of one problem for many bags (leading axis: bag).

    Attributes
    ----------
    prevalence : array of shape (n_bags, k)
    objective : array of shape (n_bags,)
        The objective of the problem at ``prevalence``.
    gap : array of shape (n_bags,)
        Certified bound on how far ``objective`` lies above its optimum; NaN where the problem
        has no certificate (it is not convex).
    n_iter : int64 array of shape (n_bags,)
    converged : bool array of shape (n_bags,)
        Whether the gap reached the tolerance of the solver (without certificate: whether the
        iterations stopped changing).

    See Also
    --------
    kdey.Estimate : Prevalences of one bag with intervals.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> solution = kdey.EMQ().fit(X[::2], y[::2]).solve(X[1::2])
    >>> bool(solution.converged.all())
    True
    >>> bool(solution.gap[0] < 1e-6)
    True
    """

    prevalence: Array
    objective: Array
    gap: Array
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.prevalence)

    def __getitem__(self, part: slice) -> Solution:
        """Return the solutions of a slice of the bags."""
        return Solution(*(values[part] for values in vars(self).values()))


def put_bags(whole: Solution, positions: NDArray[np.int64], part: Solution) -> Solution:
    """Write the bags of ``part`` into ``whole`` at ``positions``, in place, and return it.

    A part with as many bags as the whole takes its place.
    """
    if len(part) == len(whole):
        return part
    for target, source in zip(vars(whole).values(), vars(part).values(), strict=True):
        target[positions] = source
    return whole


def check_start(start: Array | None, n_bags: int, n_classes: int) -> Array:
    """Return ``start`` scaled to the simplex, shape (n_bags, n_classes); uniform if None."""
    if start is None:
        return np.full((n_bags, n_classes), 1.0 / n_classes)
    x = np.array(start, dtype=np.float64)
    if x.shape != (n_bags, n_classes):
        raise ValueError(f"start must have shape ({n_bags}, {n_classes}), got {x.shape}")
    if not np.isfinite(x).all() or x.min() < 0 or not (x.sum(axis=1) > 0).all():
        raise ValueError("start must hold finite, non-negative rows with a positive sum")
    return np.asarray(x / x.sum(axis=1, keepdims=True))


def interior_start(problem: Problem, start: Array | None) -> Array:
    """Return starting prevalences at which every gradient is finite and not huge."""
    x = check_start(start, problem.n_bags, problem.n_classes)
    if start is None:
        return x
    steep = ~(np.abs(problem.gradient(x)) < STEEP).all(axis=1)
    x[steep] = (1 - BLEND) * x[steep] + BLEND / problem.n_classes
    return x


def blank_solution(n: int, k: int) -> Solution:
    """Return the uniform prevalence for n bags, with unknown objective and gap."""
    return Solution(
        np.full((n, k), 1.0 / k),
        np.full(n, np.nan),
        np.full(n, np.nan),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.bool_),
    )


def warn_stalled(solution: Solution, solvable: NDArray[np.bool_], tol: float) -> Solution:
    """Return ``solution``, after a warning if a solvable bag is far from its optimum."""
    # A gap slightly above a tight tolerance is due to rounding and not worth a warning.
    stalled = solvable & ~(solution.gap <= 10.0 * tol)
    if stalled.any():
        warn(
            f"{int(stalled.sum())} bag(s) did not reach a gap of {tol:g} (largest "
            f"{np.max(solution.gap[stalled]):.3g}); raise max_iter or tol",
            ConvergenceWarning,
        )
    return solution


def warn_uninformative(count: int, why: str) -> None:
    """Warn that ``count`` bags got the uniform prevalence, and why."""
    warn(
        f"{count} bag(s) carry no information ({why}): the uniform prevalence is returned for "
        "them, with converged=False and gap=NaN",
        ConvergenceWarning,
    )


P = TypeVar("P", bound=Problem)

#: How intervals are computed: from the moment equation (if templates are class means of the rows),
#: from numerical derivatives of the matching by the mean row of the bag, or by a bootstrap.
IntervalSource: TypeAlias = Literal["moments", "derivatives", "bootstrap"]


#: The form in which a device (``kdey.gpu``) solves a problem. "means": it averages the rows of
#: bags, and the matching solves the small problem that remains on the host.
DeviceForm: TypeAlias = Literal["mixture", "cauchy-schwarz", "quadratic", "divergence", "means"]


@dataclass(frozen=True)
class Matching(Generic[P]):
    """Base of all matchings: a problem for each run of bags, and its solver."""

    #: How intervals are computed by default, unless a likelihood is maximised: then by its moment
    #: equation. A matching that needs more of a bag than its mean row must say "bootstrap".
    interval_source: ClassVar[IntervalSource] = "derivatives"

    def problem(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> P:
        """Return the problem of these bags."""
        raise NotImplementedError

    def solve(self, problem: P, n_threads: int = 1) -> Solution:
        """Return the solution of a problem."""
        raise NotImplementedError

    def match(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> Solution:
        """Return the prevalences of all bags, solved in runs that bound the memory."""
        return concatenate(
            self.solve(self.problem(row_map, rows, run, n_threads), n_threads)
            for run in rows.runs(bags)
        )

    @property
    def likelihood(self) -> MaximiseLikelihood | None:
        """The mixture likelihood that this, or every member of an average, maximises; or None."""
        return None

    def one_bag(self, row_map: RowMap) -> OneBag | None:
        """Return a faster way to the same answer for one bag; None if there is none."""
        return None

    def device_form(self, row_map: RowMap) -> DeviceForm | None:
        """Return how a device solves the problem of these rows; None if only the host can."""
        return None


#: Any matching, whatever its problem.
AnyMatching: TypeAlias = Matching[Any]


def means_on_device(row_map: RowMap) -> DeviceForm | None:
    """Return the form of a matching that needs nothing but mean rows; None without a route."""
    return None if row_map.tensor_rows is None else "means"


def concatenate(parts: Iterable[Solution]) -> Solution:
    """Return the solutions of successive runs of bags as one."""
    solutions = list(parts)
    if len(solutions) == 1:
        return solutions[0]
    columns = zip(*(vars(solution).values() for solution in solutions), strict=True)
    return Solution(*map(np.concatenate, columns))


def exact_solution(prevalence: Array) -> Solution:
    """Return prevalences that need no iteration as a solution with gap zero."""
    n = len(prevalence)
    zeros = np.zeros(n)
    return Solution(prevalence, zeros, zeros, np.zeros(n, np.int64), np.ones(n, np.bool_))


class OneBag(Protocol):
    """The prevalence of one bag after the other."""

    def __call__(self, posteriors: Any) -> Array | None:
        """Return the prevalence, shape (k,); None if the bag must be looked at more carefully."""


@dataclass(frozen=True)
class Composite(Matching[Any]):
    """Base: the matching ``inner`` on every member of a composite row map."""

    inner: Matching[Any]
    # Only where no likelihood is maximised: an average of maxima has the interval of a likelihood.
    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def match(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> Solution:
        """Solve each member and combine the solutions."""
        parts = [
            self.inner.match(part_map, part_rows, bags, n_threads)
            for part_map, part_rows in zip(row_map.members, rows.members, strict=True)
        ]
        return self.combine(parts, row_map)

    def combine(self, parts: Sequence[Solution], row_map: RowMap) -> Solution:
        """Return the solution from those of the members of ``row_map``."""
        estimates = np.array([part.prevalence for part in parts])
        return combined_solution(self.combine_estimates(estimates, row_map), parts)

    def combine_estimates(self, estimates: Array, row_map: RowMap) -> Array:
        """Return prevalences (n, k) from those of the members, shape (n_members, n, k)."""
        raise NotImplementedError


class AverageOf(Composite):
    """The average of the solutions of the members, weighted by the shares of a composite row map.

    Objective and gap are averaged like the prevalences: the gap bounds how far the members are, on
    average, above the optima of their problems. A bag has converged if all members have.
    """

    @property
    def likelihood(self) -> MaximiseLikelihood | None:
        """The likelihood that every member maximises."""
        return self.inner.likelihood

    def device_form(self, row_map: RowMap) -> DeviceForm | None:
        """Return the form of the members if all of them can be solved on a device."""
        forms = [self.inner.device_form(part) for part in row_map.members]
        return None if None in forms else forms[0]

    def combine(self, parts: Sequence[Solution], row_map: RowMap) -> Solution:
        """Return the weighted average of the solutions."""
        if len(parts) == 1:
            return parts[0]
        average = partial(_weighted_sum, row_map.shares)
        return replace(
            super().combine(parts, row_map),
            objective=average([part.objective for part in parts]),
            gap=average([part.gap for part in parts]),
        )

    def combine_estimates(self, estimates: Array, row_map: RowMap) -> Array:
        """Return the weighted average of prevalences of shape (members, n, k)."""
        average = _weighted_sum(row_map.shares, estimates)
        return np.asarray(average / average.sum(axis=1, keepdims=True))


class MedianOf(Composite):
    """The class-wise median of the members' solutions: HDy, HDx."""

    def combine_estimates(self, estimates: Array, row_map: RowMap) -> Array:
        """Return the class-wise median of prevalences of shape (members, n, k), scaled to sum."""
        return _median(estimates)


def _weighted_sum(weights: Array, values: Iterable[Array]) -> Array:
    # Not a matrix product, whose rounding would depend on the number of other bags.
    return np.asarray(sum(w * value for w, value in zip(weights, values, strict=True)))


def median_solution(parts: Sequence[Solution]) -> Solution:
    """Return the class-wise median of several solutions, scaled back to a sum of one.

    Objective and gap are NaN, because a median is not the solution of a problem.
    """
    return combined_solution(_median(np.array([part.prevalence for part in parts])), parts)


def combined_solution(
    prevalence: Array, parts: Sequence[Solution], answered: NDArray[np.bool_] | None = None
) -> Solution:
    """Return a solution without objective, with the iterations of all parts together.

    ``answered`` says which bags have an answer; by default all.
    """
    unknown = np.full(len(prevalence), np.nan)
    n_iter = np.sum([part.n_iter for part in parts], axis=0)
    converged = np.all([part.converged for part in parts], axis=0)
    if answered is not None:
        converged &= answered
    return Solution(prevalence, unknown, unknown, n_iter, converged)


def _median(estimates: Array) -> Array:
    middle = np.median(estimates, axis=0)
    return np.asarray(middle / middle.sum(axis=1, keepdims=True))
