r"""Predictions of the labels, and their moments within the training classes.

The predictions f are posteriors adapted to an estimate :math:`\alpha` (see
:mod:`kdey.intervals.moments`). Under label shift their mean in a bag is T times its prevalence,
where column l of T is their mean in training class l. So :math:`z = T^{-1} f` has the mean of the
one-hot labels y, in every class; this is what the test of label shift looks at.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array
from kdey.intervals import FittedModel
from kdey.intervals.class_rows import ClassRows, class_rows
from kdey.intervals.model import densities
from kdey.intervals.moments import PSEUDO_OBSERVATIONS, adapted, smoothed
from kdey.rows.interface import Rows
from kdey.rows.posterior import RatioMap

#: Singular values of T below this share of the largest count as zero.
_CUTOFF = 1e-6
#: Factor of the variance of T. T comes from classifiers that saw a part of the labels, and from
#: instances that the classifiers of the other folds were fitted on: with redrawn training sets the
#: errors of the moment equation had 1.3 to 1.8 times the variance of means of n_l instances
#: (docs/decisions/0020-labels-of-the-bag.md).
TEMPLATE_INFLATION = 2.0


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Moments of z = T^-1 f within the training classes.

    Attributes
    ----------
    inverse : array of shape (k, k)
        T^-1, a pseudo-inverse if classes cannot be distinguished.
    covariances : array of shape (k, k, k)
        Covariance of z within each class.
    sizes : array of shape (k,)
        Effective number of training instances of each class.
    residuals : tuple of k arrays of shape (m_l + k, k)
        z of training instances of each class, minus their mean, followed by the k
        pseudo-observations of the class (see :data:`kdey.intervals.moments.PSEUDO_OBSERVATIONS`).
    """

    inverse: Array
    covariances: Array
    sizes: Array
    residuals: tuple[Array, ...]

    def covariance(self, shares: Array, size: float) -> Array:
        """Return the covariance of a mean of z - y, shape (k, k).

        Parameters
        ----------
        shares : array of shape (k,)
            Shares p of the classes among the instances of the mean.
        size : float
            Effective number n of these instances.

        Returns
        -------
        array of shape (k, k)
            sum_l (p_l / n + c p_l^2 / n_l) Cov_l(z): the second part is that of the templates.
        """
        bag = np.tensordot(shares / size, self.covariances, axes=1)
        return np.asarray(bag + self.template_covariance(shares))

    def template_covariance(self, shares: Array) -> Array:
        """Return the part of the covariance that is due to the templates, shape (k, k)."""
        weights = TEMPLATE_INFLATION * shares**2 / self.sizes
        return np.asarray(np.tensordot(weights, self.covariances, axes=1))

    def draw_means(
        self, codes: NDArray[np.int64], weights: Array, n_draws: int, seed: int
    ) -> Array:
        """Draw weighted means of z - y as they occur under label shift, shape (n_draws, k).

        Every instance gets the residual of a random training instance of its class, and the
        templates get normal errors.

        Parameters
        ----------
        codes : int64 array of shape (n,)
            Classes of the instances.
        weights : array of shape (n,)
            They sum to one.
        n_draws : int
        seed : int

        Returns
        -------
        array of shape (n_draws, k)
        """
        rng, k = np.random.default_rng(seed), len(self.sizes)
        shares = np.bincount(codes, weights=weights, minlength=k).astype(np.float64)
        root = _root(self.template_covariance(shares))
        total = rng.standard_normal((n_draws, k)) @ root.T
        for label in np.unique(codes).tolist():
            pool, w = self.residuals[label], weights[codes == label]
            drawn = rng.integers(len(pool) - k, size=(n_draws, len(w)))
            rare = rng.random(drawn.shape) < PSEUDO_OBSERVATIONS / self.sizes[label]
            drawn[rare] = len(pool) - k + rng.integers(k, size=int(rare.sum()))
            total += np.einsum("bnk,n->bk", pool[drawn], w)
        return total


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted labels of all instances of a bag.

    Attributes
    ----------
    f : array of shape (m, k)
        Posteriors adapted to an estimate.
    moments : ClassMoments or None
        None if the method keeps no training posteriors.
    """

    f: Array
    moments: ClassMoments | None


@dataclass(frozen=True, eq=False)
class LabelPredictor:
    """What predictions of many bags over the same points have in common.

    Attributes
    ----------
    values : array of shape (m, k)
        Densities of the points, or their posteriors if no prevalence is known.
    training : ClassRows or None
        The same of the training instances.
    adapts : bool
        Whether predictions are adapted to an estimate; posteriors are used as they are if the
        error rates were given, so that no prevalence is known.
    """

    values: Array
    training: ClassRows | None
    adapts: bool = True

    @classmethod
    def of(cls, model: FittedModel, points: NDArray[Any], rows: Rows) -> LabelPredictor | None:
        """Return the predictor of some points; None for methods on features.

        Likelihood methods predict by their densities (of the heaviest member), other methods on
        posteriors by the posteriors.

        Parameters
        ----------
        model : FittedModel
        points : array of shape (m, d)
        rows : Rows
            Those of the points.

        Returns
        -------
        LabelPredictor or None
        """
        if model.likelihood is not None:
            return cls(model.moment_rows(rows.each()), model.class_rows)
        if not model.on_posteriors:
            return None
        if not np.isfinite(model.prevalence).all():
            return cls(np.asarray(points, dtype=np.float64), None, adapts=False)
        ratios = RatioMap(model.prevalence, None)
        return cls(densities(ratios(points).each(), logs=False), _ratio_rows(model, ratios))

    def predict(self, run: slice, estimate: Array, size: float) -> Predictions:
        """Return the predictions of some points, adapted to an estimate.

        Parameters
        ----------
        run : slice
            The points of one bag.
        estimate : array of shape (k,)
        size : float
            Effective size of the bag that it was estimated from.

        Returns
        -------
        Predictions
        """
        values, training = self.values[run], self.training
        if not self.adapts:
            return Predictions(values, None)
        smallest = size if training is None else min(size, training.typical_size)
        prevalence = smoothed(estimate, smallest)
        moments = None if training is None else class_moments(training, prevalence)
        return Predictions(adapted(values, prevalence), moments)


def class_moments(training: ClassRows, prevalence: Array) -> ClassMoments:
    """Return the moments of z from the densities of the training instances.

    Parameters
    ----------
    training : ClassRows
    prevalence : array of shape (k,)
        Positive; the densities are adapted to it.

    Returns
    -------
    ClassMoments
    """
    rows, w = training.rows, training.weights
    weighted = w / (rows @ prevalence.astype(np.float32))
    runs = [slice(a, b) for a, b in pairwise(training.offsets.tolist())]
    means = np.array([weighted[run] @ rows[run] for run in runs], dtype=np.float64)
    inverse = np.asarray(np.linalg.pinv(means.T * prevalence[:, None], rcond=_CUTOFF))
    z = adapted(training.thin_rows.astype(np.float64), prevalence) @ inverse.T
    thin = training.thin_weights
    runs = [slice(a, b) for a, b in pairwise(thin.offsets.tolist())]
    covariances = np.array([_covariance(z[run], thin.weights[run]) for run in runs])
    steps = _steps(len(prevalence))
    residuals = tuple(
        np.concatenate([z[run] - thin.weights[run] @ z[run], steps[label]])
        for label, run in enumerate(runs)
    )
    covariances = covariances + _pseudo(training.sizes)
    return ClassMoments(inverse, covariances, training.sizes, residuals)


def _ratio_rows(model: FittedModel, ratios: RatioMap) -> ClassRows | None:
    """Return the class rows of posteriors divided by the training prevalence."""
    if model.training is None or not model.is_learnt:
        return None

    def moment_rows(rows: NDArray[np.floating]) -> Array:
        return densities(rows, logs=False)

    return class_rows(ratios, model.training, model.n_classes, moment_rows, model.n_threads)


def _covariance(values: Array, weights: Array) -> Array:
    """Return the unbiased covariance of values (n, k) with weights that sum to one."""
    centred = values - weights @ values
    free = 1.0 - weights @ weights
    total = (centred * weights[:, None]).T @ centred
    return np.asarray(total / free if free > 1e-9 else total)


def _root(covariance: Array) -> Array:
    """Return a matrix whose product with its transpose is the covariance, (k, k)."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _steps(k: int) -> Array:
    """Return the pseudo-observations of each class: row (l, j) is e_j - e_l, shape (k, k, k)."""
    return np.asarray(np.eye(k)[None, :, :] - np.eye(k)[:, None, :])


def _pseudo(sizes: Array) -> Array:
    """Return the covariances that pseudo-observations add, shape (k, k, k).

    A class without a single error among n instances may still have an error rate of order 1 / n:
    we add 0.75 observations per class, spread evenly over the classes.
    """
    k = len(sizes)
    steps = _steps(k)
    spread = np.einsum("lja,ljb->lab", steps, steps) / k
    return np.asarray(PSEUDO_OBSERVATIONS * spread / sizes[:, None, None])
