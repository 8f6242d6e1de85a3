r"""The uncertainty of an estimate: covariance of its error, and a joint region of all classes.

An :class:`Uncertainty` is kept beside the intervals of each bag. It computes covariance and region
on access, because a table of a thousand groups needs intervals but not a thousand regions.

A :class:`Region` is an ellipsoid in log-ratio coordinates. A prevalence p becomes :math:`y =
\operatorname{clr}(p + \delta)`, where :math:`\delta_i` is five times the standard error of class i.
Due to this offset an absent class has coordinates too, and within a few standard errors of zero the
logarithm is nearly linear, as the error is there. The region is the set of p with

.. math:: (y - \hat y)' S^+ (y - \hat y) \le r

where S is the covariance of y and r a quantile: of Hotelling's distribution in k - 1 dimensions
with the degrees of freedom of S, or of the bootstrap replicates themselves. Replicates of a bag
without a class never show it, however many of the population belong to it: S is therefore at least
the covariance that error-free labels of the bag would have, as intervals are at least as wide as
Wilson's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri, fdtri, softmax

from kdey.bags import Array
from kdey.model import Model
from kdey.simplex import check_posteriors, sample_uniform

#: Directions of S below this share of the largest count as exactly known.
CUTOFF = 1e-10
#: Smallest offset: shares that differ by less count as equal.
MIN_OFFSET = 1e-6
#: Number of draws by which the errors of templates are kept; a multiple of 64.
TEMPLATE_DRAWS = 128


@dataclass(frozen=True, eq=False)
class Region:
    """A joint confidence region for the prevalences of all classes.

    Attributes
    ----------
    centre : array of shape (k,)
        Log-ratio coordinates of the centre.
    precision : array of shape (k, k)
        The pseudo-inverse of S.
    threshold : float
        The quantile r: the region is the set with :meth:`distance` at most this.
    offset : array of shape (k,)
        The offset added to prevalences before the logarithm.
    confidence : float
        Nominal coverage, strictly between 0 and 1.

    See Also
    --------
    kdey.Estimate : Prevalences of one bag with intervals.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> region = kdey.EMQ().fit(X[::2], y[::2]).estimate(X[1::2], check_fit=False).region
    >>> bool(region.distance([0.0, 0.0, 1.0]) > region.threshold)
    True
    """

    centre: Array
    precision: Array
    threshold: float
    offset: Array
    confidence: float

    def distance(self, prevalence: ArrayLike) -> Array:
        """Return the quadratic form at prevalences.

        Parameters
        ----------
        prevalence : array-like of shape (k,) or (n, k)

        Returns
        -------
        array of shape () or (n,)

        Raises
        ------
        ValueError
            If a row is no prevalence of k classes.
        """
        p = np.asarray(prevalence, dtype=np.float64)
        checked = check_posteriors(np.atleast_2d(p), len(self.centre), name="prevalence")
        d = log_ratios(np.asarray(checked, dtype=np.float64), self.offset) - self.centre
        distances = np.einsum("ni,ij,nj->n", d, self.precision, d)
        return np.asarray(distances if p.ndim == 2 else distances[0])

    def contains(self, prevalence: ArrayLike) -> bool | NDArray[np.bool_]:
        """Return whether prevalences lie in the region.

        Parameters
        ----------
        prevalence : array-like of shape (k,) or (n, k)

        Returns
        -------
        bool, or bool array of shape (n,)
        """
        inside = self.distance(prevalence) <= self.threshold
        return bool(inside) if inside.ndim == 0 else inside

    def volume(self, n_draws: int = 20_000, random_state: int = 0) -> float:
        """Return the share of the simplex that the region takes, between 0 and 1.

        Points are drawn uniformly in the ellipsoid of log-ratios, and counted by how much of the
        simplex each stands for, so that small regions are measured as well as large ones. For a
        region without bounds in some direction, points are drawn in the simplex.

        Parameters
        ----------
        n_draws : int
        random_state : int
            Seed of the draws.

        Returns
        -------
        float
        """
        k = len(self.centre)
        rng = np.random.default_rng(random_state)
        values, vectors = np.linalg.eigh(self.precision)
        bounded = values > CUTOFF * max(float(values[-1]), np.finfo(np.float64).tiny)
        if k < 2 or bounded.sum() < k - 1:
            inside = self.distance(sample_uniform(k, n_draws, rng)) <= self.threshold
            return float(np.mean(inside))
        d = k - 1
        basis, scales = vectors[:, bounded], np.sqrt(self.threshold / values[bounded])
        points = rng.standard_normal((n_draws, d))
        points *= (rng.random(n_draws) ** (1.0 / d) / np.linalg.norm(points, axis=1))[:, None]
        total = 1.0 + float(self.offset.sum())
        q = softmax(self.centre + (points * scales) @ basis.T, axis=1)
        # Slope of the prevalence, total times softmax minus offset, along the basis.
        slopes = total * q[:, :, None] * (basis - (q @ basis)[:, None, :])
        stretch = np.sqrt(np.maximum(np.linalg.det(slopes.transpose(0, 2, 1) @ slopes), 0.0))
        inside = (total * q - self.offset >= 0).all(axis=1)
        log_ball = d / 2.0 * math.log(math.pi) - math.lgamma(d / 2.0 + 1.0)
        log_simplex = 0.5 * math.log(k) - math.lgamma(k)
        volume = np.mean(stretch * inside) * math.exp(log_ball - log_simplex) * scales.prod()
        return float(min(volume, 1.0))


def log_ratios(prevalence: Array, offset: Array) -> Array:
    """Return centred log-ratios of prevalences (..., k) with an offset (k,), of the same shape."""
    logs = np.log(np.maximum(prevalence + offset, np.finfo(np.float64).tiny))
    return np.asarray(logs - logs.mean(axis=-1, keepdims=True))


def region_from_covariance(
    prevalence: Array, covariance: Array, freedom: float, confidence: float
) -> Region:
    """Return the region around an estimate with known covariance, by the delta method.

    Parameters
    ----------
    prevalence : array of shape (k,)
        The estimate, which may lie slightly outside the simplex.
    covariance : array of shape (k, k)
    freedom : float
        Degrees of freedom of the covariance.
    confidence : float

    Returns
    -------
    Region
    """
    k = len(prevalence)
    offset = _offset(np.sqrt(np.diag(covariance)))
    prevalence = np.maximum(prevalence, -0.8 * offset)
    jacobian = _log_ratio_slopes(prevalence, offset)
    precision = _inverse(jacobian @ covariance @ jacobian.T)
    threshold = hotelling(max(k - 1, 1), freedom, confidence)
    return Region(log_ratios(prevalence, offset), precision, threshold, offset, confidence)


def region_from_draws(
    prevalence: Array,
    draws: Array,
    confidence: float,
    n_labels: float = np.inf,
    freedom: float = np.inf,
) -> Region:
    """Return the region around an estimate that contains the nominal share of draws.

    Parameters
    ----------
    prevalence : array of shape (k,)
    draws : array of shape (n, k)
    confidence : float
    n_labels : float
        The region is at least as large as the one that so many error-free labels would give.
    freedom : float
        Degrees of freedom of the spread of the draws; they are finite if clusters were drawn.

    Returns
    -------
    Region
    """
    k = len(prevalence)
    least = label_covariance(prevalence, n_labels)
    squares = np.mean((draws - prevalence) ** 2, axis=0)
    offset = _offset(np.sqrt(np.maximum(squares, np.diag(least))))
    centre, y = log_ratios(prevalence, offset), log_ratios(draws, offset)
    deviations = y - centre
    covariance = np.asarray(deviations.T @ deviations / len(y))
    slopes = _log_ratio_slopes(prevalence, offset)
    missing = _missing_covariance(covariance, slopes @ least @ slopes.T)
    precision = _inverse(covariance + missing)
    distances = np.einsum("ni,ij,nj->n", deviations, precision, deviations)
    threshold = float(np.quantile(distances, confidence))
    if missing.any():  # the draws do not show how far the truth may be
        threshold = max(threshold, hotelling(max(k - 1, 1), np.inf, confidence))
    if math.isfinite(freedom):
        d = max(k - 1, 1)
        threshold *= hotelling(d, freedom, confidence) / hotelling(d, np.inf, confidence)
    return Region(centre, precision, threshold, offset, confidence)


def label_covariance(prevalence: Array, n_labels: float) -> Array:
    """Return the covariance of shares counted in ``n_labels`` error-free labels, shape (k, k).

    One more label of each class is counted, so that a class without any has a variance too.
    """
    k = len(prevalence)
    if math.isinf(n_labels):
        return np.zeros((k, k))
    shares = (n_labels * prevalence + 1.0) / (n_labels + k)
    return np.asarray((np.diag(shares) - np.outer(shares, shares)) / n_labels)


def _missing_covariance(covariance: Array, least: Array) -> Array:
    """Return the smallest matrix that makes ``covariance`` at least ``least`` in all directions."""
    values, vectors = np.linalg.eigh(least)
    known = values > CUTOFF * max(float(values[-1]), np.finfo(np.float64).tiny)
    root = vectors[:, known] * np.sqrt(values[known])
    whitened = (vectors[:, known] / np.sqrt(values[known])).T
    ratios, axes = np.linalg.eigh(whitened @ covariance @ whitened.T)
    spread = root @ axes
    return np.asarray((spread * np.maximum(1.0 - ratios, 0.0)) @ spread.T)


def _log_ratio_slopes(prevalence: Array, offset: Array) -> Array:
    """Return the derivatives of :func:`log_ratios`, one row per log-ratio, shape (k, k)."""
    slope = 1.0 / (prevalence + offset)
    return np.asarray(np.diag(slope) - slope / len(slope))


def _offset(errors: Array) -> Array:
    """Return five standard errors of each class, at least ``MIN_OFFSET``, shape (k,)."""
    return np.maximum(5.0 * errors, MIN_OFFSET)


def hotelling(dimension: int, freedom: float, confidence: float) -> float:
    """Return the quantile of Hotelling's T squared; of chi-square for large ``freedom``."""
    rest = max(freedom - dimension + 1.0, 1.0)
    if rest > 1e6:
        return float(chdtri(dimension, 1.0 - confidence))
    return float(dimension * freedom / rest * fdtri(dimension, rest, confidence))


def _inverse(covariance: Array) -> Array:
    return np.asarray(np.linalg.pinv(covariance, CUTOFF, hermitian=True), dtype=np.float64)


def whole_simplex(n_classes: int, confidence: float) -> Region:
    """Return the region that contains every prevalence."""
    k = n_classes
    return Region(np.zeros(k), np.zeros((k, k)), 0.0, np.ones(k), confidence)


class Uncertainty:
    """The uncertainty behind the intervals of one bag, from which other measures are computed."""

    #: How the intervals were computed: "analytic", "bootstrap" or "none".
    method: ClassVar[str] = "none"

    @property
    def template_noise(self) -> bool:
        """Whether the intervals include the uncertainty that a limited training set leaves."""
        return self.shared_model is not None and self.shared_model.is_learnt

    @property
    def shared_model(self) -> Model | None:
        """The fitted model whose template errors the intervals include, or None.

        The errors of two estimates with the same shared model are correlated.
        """
        return None

    def bootstrap_draws(self) -> Array | None:
        """Return bootstrap draws of the target, shape (n_replicates, k), or None."""
        return None

    def corrected(self) -> Array | None:
        """Return the estimate without smoothing and calibration bias, shape (k,), or None."""
        return None

    def centre(self) -> Array | None:
        """Return the estimate before it was moved into the simplex, (k,); None if there is none."""
        return None

    def freedom(self) -> float:
        """Return the degrees of freedom of the covariance, for all classes together."""
        return np.inf

    @property
    def n_labels(self) -> float:
        """Number of error-free labels than which the region must not know more; may be infinite."""
        return np.inf

    def template_covariance(self, other: Uncertainty | None = None) -> Array | None:
        """Return the covariance of the errors that templates cause with those of another bag.

        By default it is their variance, shape (k, k); None if these errors are not known apart.
        Bags that are estimated by the same templates have such errors in common.
        """
        return None

    def template_draws(self) -> Array | None:
        """Return draws of the errors that templates cause, shape (TEMPLATE_DRAWS, k), or None.

        Each draw changes the templates of a model in the same way for every bag, so that the mean
        product of the draws of two bags is the covariance of such errors.
        """
        return None

    def covariance_at(self, prevalence: Array) -> Array | None:
        """Return the covariance of the error if this prevalence (k,) were true, or None."""
        return None

    def covariance(self) -> Array:
        """Return the covariance of the error, shape (k, k)."""
        raise NotImplementedError

    def sampling_variance(self) -> Array:
        """Return the variance of each class without the errors that bags share, shape (k,).

        These are the errors of the templates. Where they cannot be told from the others, they are
        included.
        """
        return np.diag(self.covariance()).copy()

    def region(self, confidence: float) -> Region:
        """Return the joint region of all classes."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class UnknownUncertainty(Uncertainty):
    """The uncertainty of a bag of one unit, about whose error nothing is known.

    Attributes
    ----------
    n_classes : int
    """

    n_classes: int

    def covariance(self) -> Array:
        """Return NaN, shape (k, k)."""
        return np.full((self.n_classes, self.n_classes), np.nan)

    def region(self, confidence: float) -> Region:
        """Return the whole simplex."""
        return whole_simplex(self.n_classes, confidence)
