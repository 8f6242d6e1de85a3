r"""Separable losses of one bag: sum_j v_j phi(p_j, q_j) with p = R alpha.

The mixture likelihood and the divergences are of this form; this is their shared arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdey.problems.generator import Generator

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SeparableLoss:
    """sum_j v_j phi(R_j . alpha, q_j) for one bag.

    Attributes
    ----------
    rows : array of shape (n, k), R >= 0
    weights : array of shape (n,), v >= 0
    targets : array of shape (n,), q >= 0
    generator : Generator
    """

    rows: Array
    weights: Array
    targets: Array
    generator: Generator

    def value(self, prevalence: Array) -> float:
        """Return the loss; inf where a limit of phi is."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            terms = self.weights * self.generator.value(self.rows @ prevalence, self.targets)
        return float(np.sum(np.where(self.weights > 0, terms, 0.0)))

    def gradient(self, prevalence: Array) -> Array:
        """Return R' (v phi'), shape (k,); entries may be infinite at the border."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = self.weights * self.generator.first(self.rows @ prevalence, self.targets)
        slope[self.weights == 0] = 0.0
        steep = np.flatnonzero(~np.isfinite(slope))
        if len(steep) == 0:
            return np.asarray(slope @ self.rows, dtype=np.float64)
        # An infinite slope counts only for the classes present in that row (0 * inf is 0).
        endless = (np.where(self.rows[steep] > 0, slope[steep, None], 0.0)).sum(axis=0)
        slope[steep] = 0.0
        return np.asarray(slope @ self.rows + endless, dtype=np.float64)

    def hessian(self, prevalence: Array) -> Array:
        """Return R' diag(v phi'') R, shape (k, k)."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            curve = self.weights * self.generator.second(self.rows @ prevalence, self.targets)
        curve[(self.weights == 0) | ~np.isfinite(curve)] = 0.0
        scaled = self.rows * np.sqrt(curve)[:, None]
        return np.asarray(scaled.T @ scaled, dtype=np.float64)
