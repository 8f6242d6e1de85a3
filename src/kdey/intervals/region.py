r"""Joint regions for all classes at once, in log-ratio coordinates.

A prevalence p becomes :math:`y = \operatorname{clr}(p + \delta)`, where :math:`\delta_i` is five
times the standard error of class i: an absent class has coordinates too, and within its errors of
zero the logarithm is nearly linear, as the error is there. The region is the set of p with

.. math:: (y - \hat y)' S^+ (y - \hat y) \le r

where S is the covariance of y and r a quantile: of Hotelling's distribution in k - 1 dimensions
with the degrees of freedom of S, or of the bootstrap replicates themselves.

What limits rest on, kept beside them: covariances, regions and differences come from here.

They are made when asked for: a table of a thousand groups wants limits, not a thousand regions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri, fdtri

from kdey.bags import Array
from kdey.intervals.analytic import Linearised, degrees_of_freedom
from kdey.intervals.model import FittedModel
from kdey.simplex import check_posteriors

#: Directions of S below this share of the largest count as exactly known.
CUTOFF = 1e-10
#: Least offset: shares that differ by less count as equal.
LEAST = 1e-6


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
    offset : array of shape (k,)
        What is added to prevalences before the logarithm.
    confidence : float
    """

    centre: Array
    precision: Array
    threshold: float
    offset: Array
    confidence: float

    def distance(self, prevalence: ArrayLike) -> Array:
        """Return the quadratic form at prevalences of shape (k,) or (n, k)."""
        given = np.asarray(prevalence, dtype=np.float64)
        checked = check_posteriors(np.atleast_2d(given), len(self.centre), name="prevalence")
        d = log_ratios(np.asarray(checked, dtype=np.float64), self.offset) - self.centre
        out = np.einsum("ni,ij,nj->n", d, self.precision, d)
        return np.asarray(out if given.ndim == 2 else out[0])

    def contains(self, prevalence: ArrayLike) -> bool | NDArray[np.bool_]:
        """Return whether prevalences of shape (k,) or (n, k) lie in the region."""
        inside = self.distance(prevalence) <= self.threshold
        return bool(inside) if inside.ndim == 0 else inside


def log_ratios(prevalence: Array, offset: Array) -> Array:
    """Return centred log-ratios of prevalences (..., k) with an offset (k,), of the same shape."""
    logs = np.log(np.maximum(prevalence + offset, np.finfo(np.float64).tiny))
    return np.asarray(logs - logs.mean(axis=-1, keepdims=True))


def region_from_covariance(
    prevalence: Array, covariance: Array, freedom: float, confidence: float
) -> Region:
    """Return the region of an estimate (k,) with covariance (k, k), by the delta method.

    ``freedom`` is that of the covariance; the estimate may leave the simplex a little.
    """
    k = len(prevalence)
    offset = _offset(np.sqrt(np.diag(covariance)))
    prevalence = np.maximum(prevalence, -0.8 * offset)
    slope = 1.0 / (prevalence + offset)
    jacobian = np.diag(slope) - slope / k  # rows: d log p_i less the mean of the logs
    precision = _inverse(jacobian @ covariance @ jacobian.T)
    threshold = _hotelling(max(k - 1, 1), freedom, confidence)
    return Region(log_ratios(prevalence, offset), precision, threshold, offset, confidence)


def region_from_draws(prevalence: Array, draws: Array, confidence: float) -> Region:
    """Return the region around an estimate (k,) that holds its share of the draws (n, k)."""
    offset = _offset(np.sqrt(np.mean((draws - prevalence) ** 2, axis=0)))
    centre, y = log_ratios(prevalence, offset), log_ratios(draws, offset)
    deviations = y - centre
    precision = _inverse(deviations.T @ deviations / len(y))
    held = np.einsum("ni,ij,nj->n", deviations, precision, deviations)
    return Region(centre, precision, float(np.quantile(held, confidence)), offset, confidence)


def _offset(errors: Array) -> Array:
    """Return five standard errors, kept from vanishing."""
    return np.maximum(5.0 * errors, LEAST)


def _hotelling(dimension: int, freedom: float, confidence: float) -> float:
    """Return the quantile of Hotelling's T squared; of chi-square for unlimited freedom."""
    rest = max(freedom - dimension + 1.0, 1.0)
    if rest > 1e6:
        return float(chdtri(dimension, 1.0 - confidence))
    return float(dimension * freedom / rest * fdtri(dimension, rest, confidence))


def _inverse(covariance: Array) -> Array:
    return np.asarray(np.linalg.pinv(covariance, CUTOFF, hermitian=True), dtype=np.float64)


def whole_simplex(n_classes: int, confidence: float) -> Region:
    """Return the region that holds every prevalence."""
    k = n_classes
    return Region(np.zeros(k), np.zeros((k, k)), 0.0, np.ones(k), confidence)


class Uncertainty:
    """What the limits of one bag rest on; covariances and regions are made when asked for."""

    #: How the limits were made.
    method: ClassVar[str] = "none"

    @property
    def shared_model(self) -> FittedModel | None:
        """The fitted model whose template errors are in the limits; None: in no one else's."""
        return None

    def bootstrap_draws(self) -> Array | None:
        """Return bootstrap draws of the target, shape (n_replicates, k), if there are any."""
        return None

    def corrected(self) -> Array | None:
        """Return the estimate freed of smoothing and calibration bias, shape (k,), if known."""
        return None

    def covariance(self) -> Array:
        """Return the covariance of the error, shape (k, k)."""
        raise NotImplementedError

    def region(self, confidence: float) -> Region:
        """Return the joint region of all classes."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Analytic(Uncertainty):
    """A bag's place in the moment equation of a fitted model."""

    model: FittedModel
    line: Linearised
    number: int
    population: bool
    method: ClassVar[str] = "analytic"

    @property
    def shared_model(self) -> FittedModel:
        """The fitted model."""
        return self.model

    def corrected(self) -> Array:
        """Return the moment estimate moved into the simplex, shape (k,)."""
        inside = np.maximum(self.line.centre[self.number], 0.0)
        return np.asarray(inside / inside.sum())

    def covariance(self) -> Array:
        """Return the covariance of the moment estimate, shape (k, k)."""
        return self.line.covariance(self.number, self.population)

    def region(self, confidence: float) -> Region:
        """Return the joint region."""
        degrees = degrees_of_freedom(self.line, self.population)[self.number]
        freedom = float(len(degrees) / (1.0 / degrees).sum())
        centre = self.line.centre[self.number]
        return region_from_covariance(centre, self.covariance(), freedom, confidence)


@dataclass(frozen=True, eq=False)
class Draws(Uncertainty):
    """Bootstrap draws around an estimate; ``model`` None: without training replicates."""

    model: FittedModel | None
    seed: int
    estimate: Array
    draws: Array
    method: ClassVar[str] = "bootstrap"

    @property
    def shared_model(self) -> FittedModel | None:
        """The fitted model, where its training data were resampled too."""
        return self.model

    def bootstrap_draws(self) -> Array:
        """Return the draws."""
        return self.draws

    def covariance(self) -> Array:
        """Return the mean square of the draws about the estimate, shape (k, k)."""
        d = self.draws - self.estimate
        return np.asarray(d.T @ d / len(d))

    def region(self, confidence: float) -> Region:
        """Return the joint region."""
        inside = np.clip(self.draws, 0.0, None)
        inside /= inside.sum(axis=1, keepdims=True)
        return region_from_draws(self.estimate, inside, confidence)


@dataclass(frozen=True, eq=False)
class Nothing(Uncertainty):
    """A bag of one unit: nothing is known of its error."""

    n_classes: int

    def covariance(self) -> Array:
        """Return NaN, shape (k, k)."""
        return np.full((self.n_classes, self.n_classes), np.nan)

    def region(self, confidence: float) -> Region:
        """Return the whole simplex."""
        return whole_simplex(self.n_classes, confidence)
