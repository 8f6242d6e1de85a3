"""The result of every solver, prevalences with certificates, and the starting points of solvers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdey.problems.interface import Array, Problem

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
    kdey.Estimate : Prevalences of one bag with limits.

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
        return Solution(
            self.prevalence[part],
            self.objective[part],
            self.gap[part],
            self.n_iter[part],
            self.converged[part],
        )


def join(whole: Solution, positions: NDArray[np.int64], part: Solution) -> Solution:
    """Return ``whole`` with the bags at ``positions`` replaced by those of ``part``."""
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
