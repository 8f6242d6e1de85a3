r"""Joint regions for all classes at once, in log-ratio coordinates.

A prevalence p becomes :math:`y = \operatorname{clr}((m p + 1/2) / (m + k/2))`, so that an absent
class has coordinates too, and the region is the set of p with

.. math:: (y - \hat y)' S^+ (y - \hat y) \le r

where S is the covariance of y and r a quantile: of chi-square with k - 1 degrees of freedom, or of
the bootstrap replicates themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri

from kdey.bags import Array
from kdey.inference.moments import smoothed
from kdey.simplex import check_posteriors

#: Directions of S below this share of the largest count as exactly known.
CUTOFF = 1e-10


@dataclass(frozen=True, eq=False)
class Region:
    """A joint confidence region for the prevalences of all classes.

    Attributes
    ----------
    centre : array of shape (k,)
        Log-ratio coordinates of the middle.
    precision : array of shape (k, k)
        The pseudo-inverse of S.
    threshold : float
    size : float
        m, the (effective) size of the bag.
    confidence : float
    """

    centre: Array
    precision: Array
    threshold: float
    size: float
    confidence: float

    def distance(self, prevalence: ArrayLike) -> Array:
        """Return the quadratic form at prevalences of shape (k,) or (n, k)."""
        given = np.asarray(prevalence, dtype=np.float64)
        checked = check_posteriors(np.atleast_2d(given), len(self.centre), name="prevalence")
        d = log_ratios(np.asarray(checked, dtype=np.float64), self.size) - self.centre
        out = np.einsum("ni,ij,nj->n", d, self.precision, d)
        return np.asarray(out if given.ndim == 2 else out[0])

    def contains(self, prevalence: ArrayLike) -> bool | NDArray[np.bool_]:
        """Return whether prevalences of shape (k,) or (n, k) lie in the region."""
        inside = self.distance(prevalence) <= self.threshold
        return bool(inside) if inside.ndim == 0 else inside


def log_ratios(prevalence: Array, size: float) -> Array:
    """Return centred log-ratios of smoothed prevalences, of the same shape."""
    logs = np.log(smoothed(prevalence, size))
    return np.asarray(logs - logs.mean(axis=-1, keepdims=True))


def region_from_covariance(
    prevalence: Array, covariance: Array, size: float, confidence: float
) -> Region:
    """Return the region of an estimate (k,) with covariance (k, k), by the delta method."""
    k = len(prevalence)
    scale = size / (size + 0.5 * k) / smoothed(prevalence, size)
    jacobian = np.diag(scale) - scale / k  # rows: d log p_i less the mean of the logs
    precision = _inverse(jacobian @ covariance @ jacobian.T)
    threshold = float(chdtri(max(k - 1, 1), 1.0 - confidence))
    return Region(log_ratios(prevalence, size), precision, threshold, size, confidence)


def region_from_draws(prevalence: Array, draws: Array, size: float, confidence: float) -> Region:
    """Return the region around an estimate (k,) that holds its share of the draws (n, k)."""
    centre, y = log_ratios(prevalence, size), log_ratios(draws, size)
    deviations = y - centre
    precision = _inverse(deviations.T @ deviations / len(y))
    held = np.einsum("ni,ij,nj->n", deviations, precision, deviations)
    return Region(centre, precision, float(np.quantile(held, confidence)), size, confidence)


def _inverse(covariance: Array) -> Array:
    return np.asarray(np.linalg.pinv(covariance, CUTOFF, hermitian=True), dtype=np.float64)


def whole_simplex(n_classes: int, size: float, confidence: float) -> Region:
    """Return the region that holds every prevalence."""
    k = n_classes
    return Region(np.zeros(k), np.zeros((k, k)), 0.0, size, confidence)
