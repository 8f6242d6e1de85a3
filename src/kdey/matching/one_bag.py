"""One bag of posteriors answered in a single native call, for services that score small bags.

Between the arrays of a bag and the prevalence of CC, PCC, ACC or PACC lie a check, a mean and a
quadratic program of a few microseconds; calling them one after the other from Python takes ten
times as long. :class:`OneBagMean` has the core do all three. It answers only what needs no
explanation: posteriors off the simplex and programs without a certificate are left to the caller,
who solves and reports them as usual.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kdey import native
from kdey.problems import LeastSquares
from kdey.rows.interface import MeanRule
from kdey.simplex import CLEAR_TOLERANCE
from kdey.solvers.quadratic import PASSES, TOLERANCE

Array = NDArray[np.float64]
_IS_DOUBLE = {np.dtype(np.float32): 0, np.dtype(np.float64): 1}


class OneBag(Protocol):
    """The prevalence of one bag after the other."""

    def __call__(self, posteriors: Any) -> Array | None:
        """Return the prevalence, shape (k,); None if the bag must be looked at more carefully."""


class OneBagMean:
    """The prevalence of a bag from its mean row, by counting or by least squares.

    Parameters
    ----------
    n_classes : int
    rule : {"posteriors", "decisions"}
    problem : LeastSquares, optional
        Its templates, shape (k, k), are matched; without it the mean row is the prevalence.
    """

    def __init__(self, n_classes: int, rule: MeanRule, problem: LeastSquares | None = None) -> None:
        self._n_classes = n_classes
        self._problem = problem  # keeps the arrays alive whose addresses are noted
        templates = None if problem is None else native.address(problem.templates)
        gram = None if problem is None else native.address(problem.gram)
        self._call = native.function("kdey_match_one_bag")
        self._before_out: tuple[float | None, ...] = (
            *(n_classes, int(rule == "decisions"), templates, gram),
            *(PASSES, CLEAR_TOLERANCE, TOLERANCE),
        )

    def __call__(self, posteriors: Any) -> Array | None:
        """Return the prevalence of float posteriors (m, k) on the simplex, otherwise None."""
        if type(posteriors) is not np.ndarray:  # a masked array is another type
            return None
        is_double = _IS_DOUBLE.get(posteriors.dtype)
        shape = posteriors.shape
        if is_double is None or len(shape) != 2 or shape[1] != self._n_classes or not shape[0]:
            return None
        if not posteriors.flags.c_contiguous:
            return None
        prevalence = np.empty(self._n_classes)
        source, out = native.address(posteriors), native.address(prevalence)
        if self._call(source, is_double, shape[0], *self._before_out, out) != 0:
            return None
        return prevalence if self._problem is not None else prevalence / np.add.reduce(prevalence)


def one_bag_mean(
    n_classes: int, rule: MeanRule | None, problem: LeastSquares | None = None
) -> OneBag | None:
    """Return :class:`OneBagMean`; None without a rule for mean rows or without the native core."""
    has_rows_of_classes = problem is None or problem.templates.shape == (n_classes, n_classes)
    if rule is None or not has_rows_of_classes or not native.available():
        return None
    return OneBagMean(n_classes, rule, problem)
