r"""Rows made of the posteriors themselves.

``PosteriorMap`` has the rows of CC, PCC, ACC and PACC, ``FriedmanMap`` those of Friedman's method,
``RatioMap`` those of EMQ, ``DirichletMap`` those of DIR: the log densities of Dirichlet
distributions, one fitted to the posteriors of each class.

The mean log-density of rows p_j with weights w_j (summing to one) under Dirichlet(alpha) is

    F(alpha) = log Gamma(A) - sum_i log Gamma(alpha_i) + sum_i (alpha_i - 1) g_i,

with A = sum_i alpha_i and g_i = sum_j w_j log p_ji. F is concave and its Hessian is a diagonal
plus a rank-one matrix, so that a Newton step costs O(k) (Minka, "Estimating a Dirichlet
distribution", 2000). The objective needs the k numbers g_i only, so the data are read once.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaln, polygamma, softmax

from kdey.bags import Array
from kdey.calibration import make_calibrator
from kdey.classifiers import ClassifierOutput
from kdey.kernels import check_shrinkage
from kdey.posteriors import TrainingPosteriors
from kdey.rows import (
    ArrayRows,
    Replicator,
    RowMap,
    TensorFunction,
    class_means,
    fitted,
    no_templates,
)
from kdey.simplex import check_posteriors

#: Relative error by which a number in single precision may have been rounded down.
_ROUNDING = 2.0**-22


@dataclass(frozen=True)
class PosteriorMap(RowMap):
    """Row of an instance: its posterior, or its one-hot decision (``crisp``).

    ``templates`` is the (soft) misclassification matrix of shape (k, k): column i holds the mean
    row of training class i. It is empty, shape (k, 0), for methods without adjustment. ``mass`` is
    the number, or total weight, of training instances of each class, shape (k,), if ``adjusted``.
    """

    crisp: bool
    adjusted: bool
    templates: Array = fitted()
    mass: Array | None = fitted()

    @property
    def needs(self) -> ClassifierOutput:
        """Decisions if they are counted, scores if templates are learnt, or probabilities."""
        if self.crisp:
            return "decisions"
        return "scores" if self.adjusted else "probabilities"

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> PosteriorMap:
        """Return the map, with class means of the training rows as templates if ``adjusted``."""
        if not self.adjusted:
            return replace(self, templates=no_templates(n_classes))
        rows = self(training.required()).array
        templates = class_means(rows, training.labels, n_classes, training.weights)
        mass = np.bincount(training.labels, weights=training.weights, minlength=n_classes)
        return replace(self, templates=templates, mass=mass.astype(np.float64))

    def __call__(self, points: NDArray[np.floating], n_threads: int = 1) -> ArrayRows:
        """Return the rows of posteriors of shape (m, k)."""
        rows = one_hot_argmax(points) if self.crisp else np.asarray(points, dtype=np.float64)
        return ArrayRows(rows)

    @property
    def tensor_rows(self) -> TensorFunction:
        """The posteriors themselves, or their decisions."""
        return _decisions if self.crisp else _unchanged

    def replicate_templates(self, training: TrainingPosteriors) -> Replicator:
        """Return a function from training weights to templates, weighted class means of rows."""
        rows = self(training.required()).array
        classes = [np.flatnonzero(training.labels == i) for i in range(self.templates.shape[1])]

        def replicate(weights: Array) -> Array:
            parts = [(weights[:, members], rows[members]) for members in classes]
            return np.stack([w @ x / w.sum(axis=1, keepdims=True) for w, x in parts], axis=2)

        return replicate


@dataclass(frozen=True)
class FriedmanMap(RowMap):
    """Row of an instance: whether each posterior reaches the training prevalence, and a one.

    The one says that prevalences sum to one, which the least squares on the simplex know anyway,
    and intervals would not. ``templates`` has shape (k + 1, k).
    """

    prior: Array = fitted()
    templates: Array = fitted()

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> FriedmanMap:
        """Return the map, with class means of the training rows as templates."""
        mass = np.bincount(training.labels, weights=training.weights, minlength=n_classes)
        untrained = replace(self, prior=mass / mass.sum())
        rows = untrained(training.required()).array
        templates = class_means(rows, training.labels, n_classes, training.weights)
        return replace(untrained, templates=templates)

    def __call__(self, points: NDArray[np.floating], n_threads: int = 1) -> ArrayRows:
        """Return the rows of posteriors of shape (m, k)."""
        # A posterior that equals the prevalence reaches it in single precision, too.
        reached = np.asarray(points, dtype=np.float64) >= self.prior * (1.0 - _ROUNDING)
        return ArrayRows(np.hstack([reached, np.ones((len(reached), 1))]).astype(np.float64))

    @property
    def tensor_rows(self) -> TensorFunction:
        """The rows of a tensor, shape (m, k + 1): it can be compared like an array."""
        return self._tensor_rows

    def _tensor_rows(self, points: Any) -> Any:
        exact = points.double()
        rows = exact.new_ones((len(points), points.shape[1] + 1))
        rows[:, :-1] = exact >= exact.new_tensor(self.prior * (1.0 - _ROUNDING))
        return rows


def inverted_features(row_map: RowMap, points: NDArray[Any]) -> Array | None:
    """Return k numbers per instance whose class means the method inverts, shape (m, k).

    These are the posteriors or decisions of ACC, PACC and Friedman's method; None for all others.
    """
    if isinstance(row_map, PosteriorMap) and row_map.templates.size:
        return row_map(points).array
    return row_map(points).array[:, :-1] if isinstance(row_map, FriedmanMap) else None


@dataclass(frozen=True)
class RatioMap(RowMap):
    """Row of an instance: its (calibrated) posterior divided by the training prevalence, for EMQ.

    By Bayes' rule p(y|x) / p(y) is the class density p(x|y) up to a factor per row, and such
    factors do not change the maximum of the likelihood (Saerens, Latinne and Decaestecker, 2002).
    Without calibration the training prevalence ``prior`` is that of the labels; with calibration it
    is the mean calibrated posterior, as Alexandari, Kundaje and Shrikumar (2020) advise.
    ``pseudo_share`` is that of :class:`kdey.matching.likelihood.MixtureLikelihood`.
    """

    calibration: Any = None
    pseudo_share: float = 0.0
    prior: Array = fitted()
    calibrator: Any = fitted()

    @property
    def needs(self) -> ClassifierOutput:
        """Probabilities, which a calibration makes of scores."""
        return "probabilities" if self.calibration is None else "scores"

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> RatioMap:
        """Return the map, with its calibrator fitted on the training posteriors."""
        w = training.weights
        if self.calibration is None:
            prior = np.bincount(training.labels, weights=w, minlength=n_classes).astype(np.float64)
            return replace(self, prior=prior / prior.sum())
        calibrator = make_calibrator(self.calibration)
        p = training.required()
        calibrator.fit(p, training.labels, sample_weight=w)
        prior = np.average(calibrator.transform(p), axis=0, weights=w)
        # A calibrator that did not converge may give a class probability zero; this avoids 0 / 0.
        prior = np.maximum(prior, np.finfo(np.float64).tiny)
        return replace(self, prior=prior, calibrator=calibrator)

    @property
    def templates(self) -> Array:
        """Empty, shape (k, 0): the method has no templates."""
        return no_templates(len(self.prior))

    def __call__(self, points: NDArray[np.floating], n_threads: int = 1) -> ArrayRows:
        """Return the rows of posteriors of shape (m, k)."""
        p = points if self.calibrator is None else self.calibrator.transform(points)
        return ArrayRows(np.asarray(p, dtype=np.float64) / self.prior)

    @property
    def tensor_rows(self) -> TensorFunction | None:
        """The rows of a tensor, (m, k), if posteriors are not calibrated, or that takes tensors."""
        calibrator = self.calibrator
        takes_tensors = calibrator is None or hasattr(calibrator, "transform_tensor")
        return self._tensor_rows if takes_tensors else None

    def _tensor_rows(self, points: Any) -> Any:
        calibrator = self.calibrator
        exact = points.double() if calibrator is None else calibrator.transform_tensor(points)
        return exact / exact.new_tensor(self.prior)


def _unchanged(points: Any) -> Any:
    return points


def _decisions(points: Any) -> Any:
    """Return the most probable class of each row of a tensor as a one-hot row, shape (m, k)."""
    is_largest = points == points.amax(dim=1, keepdim=True)
    # Of several largest posteriors the first counts, as on the host.
    return (is_largest & (is_largest.cumsum(dim=1) == 1)).to(points.dtype)


def one_hot_argmax(posteriors: NDArray[np.floating]) -> Array:
    """Return the most probable class of each row as a one-hot row, shape (m, k)."""
    crisp = np.zeros(posteriors.shape)
    crisp[np.arange(len(posteriors)), posteriors.argmax(axis=1)] = 1.0
    return crisp


#: Default of :func:`shrink_zeros`: keeps logarithms finite without a visible change of a density.
SHRINKAGE = 1e-6

#: Largest concentration A, since (nearly) equal rows have an infinite one. At this value a class is
#: about 1e-4 wide, and log Gamma(A) is still accurate to nine decimals.
MAX_CONCENTRATION = 1e8

#: Newton steps end when one promises to raise F by less than this, or after so many.
_GAIN, _STEPS = 1e-12, 200


@dataclass(frozen=True)
class DirichletMap(RowMap):
    """Row of an instance: the log of the k class Dirichlet densities.

    ``parameters`` has shape (k, k): row i is the Dirichlet fitted to training class i.
    ``shrinkage`` keeps the logarithms of zeros finite.
    """

    shrinkage: float
    parameters: Array = fitted()

    def __post_init__(self) -> None:
        check_shrinkage(self.shrinkage)

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> DirichletMap:
        """Return the map with one maximum likelihood Dirichlet per class."""
        points = shrink_zeros(training.required(), self.shrinkage)
        weights = training.weights
        parameters = [
            fit_dirichlet(points[members], None if weights is None else weights[members])
            for members in (training.labels == i for i in range(n_classes))
        ]
        return replace(self, parameters=np.array(parameters))

    @property
    def templates(self) -> Array:
        """Empty, shape (k, 0): the method has no templates."""
        return no_templates(len(self.parameters))

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> ArrayRows:
        """Return the log densities at posteriors of shape (m, k)."""
        return ArrayRows(
            dirichlet_log_density(shrink_zeros(points, self.shrinkage), self.parameters)
        )


def shrink_zeros(posteriors: ArrayLike, shrinkage: float = SHRINKAGE) -> Array:
    """Return ``(1 - s) p + s / k`` for each row: exact zeros get a finite logarithm.

    Parameters
    ----------
    posteriors : array-like of shape (m, k)
    shrinkage : float in (0, 1)
        The s above: weight of the uniform prevalence.
    """
    if not 0.0 < shrinkage < 1.0:
        raise ValueError(f"shrinkage must lie strictly between 0 and 1, got {shrinkage!r}")
    p = np.asarray(check_posteriors(posteriors), dtype=np.float64)
    return np.asarray((1.0 - shrinkage) * p + shrinkage / p.shape[1])


def fit_dirichlet(posteriors: Array, weights: Array | None = None) -> Array:
    """Return the Dirichlet distribution of maximum likelihood, shape (k,).

    If the rows are so nearly equal that the optimal concentration would exceed
    ``MAX_CONCENTRATION`` (for one row, or equal rows, the likelihood is unbounded), that
    concentration is used, with a warning.

    Parameters
    ----------
    posteriors : array of shape (n, k)
        Strictly positive (see :func:`shrink_zeros`), k >= 2; rows are rescaled to sum to one.
    weights : array of shape (n,), optional
        Only their ratios matter.
    """
    p = posteriors / posteriors.sum(axis=1, keepdims=True)
    w = np.ones(len(p)) if weights is None else weights
    if not w.sum() > 0:
        raise ValueError("a class has no training posterior of positive weight to fit")
    w = w / w.sum()
    g = w @ np.log(p)
    # F(A m) grows like (k - 1)/2 log A - A excess at its best m, softmax(g): Jensen's
    # inequality makes the excess positive unless all rows are equal.
    excess = -math.log(np.exp(g).sum())
    if excess * 2.0 * MAX_CONCENTRATION <= p.shape[1] - 1:
        warnings.warn(
            "posteriors are all (nearly) equal: the Dirichlet likelihood is unbounded, its "
            f"concentration is capped at {MAX_CONCENTRATION:g}",
            UserWarning,
            stacklevel=2,
        )
        return MAX_CONCENTRATION * np.asarray(softmax(g))
    return _newton(_moment_start(p, w), g)


def dirichlet_log_density(posteriors: Array, alphas: Array) -> Array:
    """Return the log-density of each row under each Dirichlet, shape (m, n_components).

    Parameters
    ----------
    posteriors : array of shape (m, k)
        Strictly positive rows.
    alphas : array of shape (n_components, k)
    """
    p = posteriors / posteriors.sum(axis=1, keepdims=True)
    constant = gammaln(alphas.sum(axis=1)) - gammaln(alphas).sum(axis=1)
    return np.asarray(np.log(p) @ (alphas - 1.0).T + constant)


def _moment_start(p: Array, w: Array) -> Array:
    """Return an alpha that matches the mean and, on average, the variances (Ronning, 1989)."""
    mean = w @ p
    variance = w @ (p - mean) ** 2
    varies = variance > 0
    ratio = np.log((mean * (1.0 - mean))[varies] / variance[varies]).mean() if varies.any() else 0.0
    concentration = max(math.expm1(min(ratio, 18.0)), 1e-3 * len(mean))
    return mean * concentration


def _newton(alpha: Array, g: Array) -> Array:
    value = _objective(alpha, g)
    for _ in range(_STEPS):
        step, gain = _newton_step(alpha, g)
        alpha, value = _backtrack(alpha, step, gain, value, g)
        if gain <= _GAIN:
            break
    return alpha


def _newton_step(alpha: Array, g: Array) -> tuple[Array, float]:
    """Return the Newton step and the rise of F that it promises (half the squared decrement).

    With H = -diag(d) + c 1 1', the step -H^{-1} grad is (grad + shift) / d with one scalar
    shift (Sherman and Morrison).
    """
    total = alpha.sum()
    gradient = digamma(total) - digamma(alpha) + g
    d, c = polygamma(1, alpha), polygamma(1, total)
    shift = (gradient / d).sum() / (1.0 / c - (1.0 / d).sum())
    step = (gradient + shift) / d
    return step, 0.5 * float(gradient @ step)


def _backtrack(
    alpha: Array, step: Array, gain: float, value: float, g: Array
) -> tuple[Array, float]:
    """Halve the step until alpha is positive and F rises by a quarter of the promised rise.

    F is a small difference of large terms. A change within its rounding error is accepted, because
    the gradient is far more accurate.
    """
    size = 1.0
    rounding = 8.0 * np.finfo(np.float64).eps * (1.0 + abs(float(gammaln(alpha.sum()))))
    for _ in range(60):
        moved = alpha + size * step
        if (moved > 0).all():
            reached = _objective(moved, g)
            if reached >= value + 0.25 * size * gain - rounding:
                return moved, reached
        size *= 0.5
    return alpha, value


def _objective(alpha: Array, g: Array) -> float:
    return float(gammaln(alpha.sum()) - gammaln(alpha).sum() + (alpha - 1.0) @ g)
