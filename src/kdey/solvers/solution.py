"""What every solver returns: prevalences with their certificates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Solution:
    """Solutions of one problem for many bags (leading axis: bag).

    Attributes
    ----------
    prevalence : array of shape (n_bags, k)
    objective : array of shape (n_bags,)
        The problem's own objective at ``prevalence``.
    gap : array of shape (n_bags,)
        Certified bound on how far ``objective`` lies above its optimum; NaN where the problem
        has no certificate (it is not convex).
    n_iter : int64 array of shape (n_bags,)
    converged : bool array of shape (n_bags,)
        Whether the gap reached the solver's tolerance (without certificate: whether the
        iterations came to rest).
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


def join(whole: Solution, which: NDArray[np.int64], part: Solution) -> Solution:
    """Return ``whole`` with the bags at positions ``which`` replaced by those of ``part``."""
    if len(part) == len(whole):
        return part
    for target, source in zip(vars(whole).values(), vars(part).values(), strict=True):
        target[which] = source
    return whole
