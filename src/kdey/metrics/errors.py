r"""Errors between true and estimated prevalences, vectorised over bags.

Every function takes ``true`` and ``estimated`` of shape (..., k), checks that their last axis
lies on the simplex, broadcasts the leading axes (the bags) and returns one error per bag, shape
(...). Write :math:`\alpha` for the true and :math:`\hat\alpha` for the estimated prevalence of
one bag. Unless stated otherwise, definitions follow Sebastiani, "Evaluation measures for
quantification: an axiomatic approach" (Information Retrieval Journal, 2020).

**Absent classes.** Metrics that would divide by zero or take the logarithm of zero smooth the
prevalences with :math:`\epsilon = 1/(2z)`, where z is the bag size (Forman, 2008). A class that is
absent from the bag, from the estimate or from both therefore never gives NaN or infinity.

**One class.** With k = 1 both prevalences are (1,) and every error is zero.

**No bags.** Inputs of shape (0, k) give an empty result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kdey.class_columns import in_order_of
from kdey.simplex import Array, check_posteriors
from kdey.tensors import for_numpy

#: Mean ratings are sums of k products: this keeps a whole number from being rounded below itself.
_ROUNDING = 1e-9


def absolute_error(true: ArrayLike, estimated: ArrayLike) -> Array:
    r"""AE: :math:`\frac1k\sum_i|\alpha_i-\hat\alpha_i|`, from 0 to 2/k.

    Examples
    --------
    >>> from kdey.metrics import absolute_error
    >>> float(absolute_error([0.2, 0.8], [0.3, 0.7]).round(3))
    0.1
    """
    a, b = _checked(true, estimated)
    return _array(np.abs(a - b).mean(axis=-1))


def normalised_absolute_error(true: ArrayLike, estimated: ArrayLike) -> Array:
    r"""NAE: AE divided by its largest value at this true prevalence, from 0 to 1.

    .. math:: \frac{\sum_i|\alpha_i-\hat\alpha_i|}{2(1-\min_i\alpha_i)}

    The largest value belongs to an estimate that puts all mass on the rarest class. The error is
    zero for k = 1.
    """
    a, b = _checked(true, estimated)
    return _ratio(np.abs(a - b).sum(axis=-1), 2 * (1 - a.min(axis=-1)))


def relative_absolute_error(true: ArrayLike, estimated: ArrayLike, *, bag_size: ArrayLike) -> Array:
    r"""RAE: :math:`\frac1k\sum_i\frac{|\alpha_i-\hat\alpha_i|}{\alpha_i+\epsilon}`.

    Smoothing both prevalences first, as most of the literature writes it, gives the same number:
    with :math:`\nu(x)=(x+\epsilon)/(1+k\epsilon)` the factor :math:`1+k\epsilon` cancels in
    :math:`|\nu(\alpha_i)-\nu(\hat\alpha_i)|/\nu(\alpha_i)`.

    Parameters
    ----------
    true, estimated : array-like of shape (..., k)
    bag_size : array-like of shape () or (...)
        Size z of each bag; :math:`\epsilon = 1/(2z)`.

    Examples
    --------
    >>> from kdey.metrics import relative_absolute_error
    >>> float(relative_absolute_error([0.2, 0.8], [0.3, 0.7], bag_size=100).round(3))
    0.306
    """
    a, b = _checked(true, estimated)
    epsilon = _epsilon(bag_size, a)
    return _array((np.abs(a - b) / (a + epsilon)).mean(axis=-1))


def normalised_relative_absolute_error(
    true: ArrayLike, estimated: ArrayLike, *, bag_size: ArrayLike
) -> Array:
    r"""NRAE: RAE divided by :math:`\frac1k(k-1+(1-\nu_{\min})/\nu_{\min})`, within [0, 1).

    :math:`\nu_{\min}` is the smallest smoothed true prevalence. We keep the normaliser of the
    literature so that numbers are comparable; because of the smoothing it lies slightly above the
    largest possible RAE, and NRAE stays just below 1. The error is zero for k = 1.
    """
    a, b = _checked(true, estimated)
    rarest = smooth(a, bag_size).min(axis=-1)
    n_classes = a.shape[-1]
    total = n_classes * relative_absolute_error(a, b, bag_size=bag_size)
    return _ratio(total, n_classes - 1 + (1 - rarest) / rarest)


def squared_error(true: ArrayLike, estimated: ArrayLike) -> Array:
    r"""SE: :math:`\frac1k\sum_i(\alpha_i-\hat\alpha_i)^2`."""
    a, b = _checked(true, estimated)
    return _array(np.square(a - b).mean(axis=-1))


def kullback_leibler(true: ArrayLike, estimated: ArrayLike, *, bag_size: ArrayLike) -> Array:
    r"""KLD: :math:`\sum_i\nu(\alpha_i)\log(\nu(\alpha_i)/\nu(\hat\alpha_i))`, both smoothed."""
    a, b = _smoothed(true, estimated, bag_size)
    # Rounding can give -1e-17 if both agree, but the divergence is never negative.
    return _array(np.maximum((a * np.log(a / b)).sum(axis=-1), 0.0))


def normalised_kullback_leibler(
    true: ArrayLike, estimated: ArrayLike, *, bag_size: ArrayLike
) -> Array:
    r"""NKLD: :math:`2e^{\mathrm{KLD}}/(1+e^{\mathrm{KLD}})-1=\tanh(\mathrm{KLD}/2)`, in [0, 1)."""
    return _array(np.tanh(kullback_leibler(true, estimated, bag_size=bag_size) / 2))


def match_distance(true: ArrayLike, estimated: ArrayLike) -> Array:
    r"""MD, for ordered classes: :math:`\sum_{i<k}|\sum_{j\le i}(\alpha_j-\hat\alpha_j)|`.

    The earth mover's distance: mass times the number of classes by which it must move, from 0 to
    k - 1. The order of the classes is that of the columns.
    """
    a, b = _checked(true, estimated)
    return _array(np.abs(np.cumsum(a - b, axis=-1)[..., :-1]).sum(axis=-1))


def normalised_match_distance(true: ArrayLike, estimated: ArrayLike) -> Array:
    """NMD: match distance divided by k - 1, from 0 to 1; zero for k = 1."""
    distance = match_distance(true, estimated)
    return _array(distance / max(np.shape(true)[-1] - 1, 1))


def bray_curtis(true: ArrayLike, estimated: ArrayLike) -> Array:
    r"""Bray-Curtis dissimilarity, from 0 to 1.

    .. math:: \frac{\sum_i|\alpha_i-\hat\alpha_i|}{\sum_i(\alpha_i+\hat\alpha_i)}

    On the simplex it is the total variation distance.
    """
    a, b = _checked(true, estimated)
    return _array(np.abs(a - b).sum(axis=-1) / (a + b).sum(axis=-1))


def aitchison(true: ArrayLike, estimated: ArrayLike, *, bag_size: ArrayLike) -> Array:
    r"""Aitchison distance :math:`\|\mathrm{clr}(\nu(\alpha))-\mathrm{clr}(\nu(\hat\alpha))\|_2`.

    Both prevalences are smoothed; clr is the centred log-ratio, :math:`\log x` minus its mean.
    """
    a, b = _smoothed(true, estimated, bag_size)
    ratio = np.log(a / b)
    return _array(np.linalg.norm(ratio - ratio.mean(axis=-1, keepdims=True), axis=-1))


def root_normalised_order_aware_divergence(true: ArrayLike, estimated: ArrayLike) -> Array:
    r"""RNOD, for ordered classes, from 0 to 1 (Sakai, 2018).

    .. math:: \sqrt{\frac{1}{(k-1)\,|C|}
              \sum_{i \in C} \sum_j |i - j| (\alpha_j - \hat\alpha_j)^2}, \qquad
              C = \{i : \alpha_i > 0\}

    Errors far from the classes that occur cost more. The error is zero for k = 1.
    """
    a, b = _checked(true, estimated)
    k = a.shape[-1]
    distance = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    weighted = np.square(a - b) @ distance
    present = a > 0
    mean = (weighted * present).sum(axis=-1) / present.sum(axis=-1)
    return _array(np.sqrt(mean / max(k - 1, 1)))


def macro_normalised_match_distance(true: ArrayLike, estimated: ArrayLike) -> float:
    """Macro-NMD: the mean over ratings of the mean NMD of their bags (LeQua 2024).

    Bags are sorted by the mean of the true rating, with classes rated 1 to k, into the bins [1, 2),
    ..., [k - 1, k]; bins without a bag are left out. Bags with rare ratings therefore count as
    much as the others. It is one number for all bags, and so no metric of
    :data:`~kdey.metrics.METRICS`.

    Parameters
    ----------
    true, estimated : array-like of shape (n_bags, k)

    Returns
    -------
    float
    """
    a, b = _checked(true, estimated)
    if a.ndim != 2 or len(a) == 0:
        raise ValueError(f"macro-NMD needs prevalences of shape (n_bags, k), got {a.shape}")
    k = a.shape[1]
    errors = normalised_match_distance(a, b)
    bins = np.minimum(np.floor(a @ np.arange(1, k + 1) + _ROUNDING), max(k - 1, 1))
    return float(np.mean([errors[bins == rating].mean() for rating in np.unique(bins)]))


def bias(true: ArrayLike, estimated: ArrayLike) -> Array:
    """Signed error of each class, estimated minus true, shape (..., k).

    For two classes the last column is the bias of the positive class. It has a sign, so that it is
    nothing to minimise, and no metric of :data:`~kdey.metrics.METRICS`.
    """
    a, b = _checked(true, estimated)
    return _array(b - a)


def squared_ratio_error(true: ArrayLike, estimated: ArrayLike, training: ArrayLike) -> Array:
    r"""SRE: squared error of the ratios to the training prevalence :math:`\pi`.

    .. math:: \frac1k\sum_i\left(\frac{\alpha_i-\hat\alpha_i}{\pi_i}\right)^2

    The ratios are the weights by which a classifier is adapted to the bag.
    :func:`~kdey.metrics.ratio_metric` makes it a metric for ``evaluate`` and searches.

    Parameters
    ----------
    true, estimated : array-like of shape (..., k)
    training : array-like of shape (k,)
        Positive.
    """
    a, b = _checked(true, estimated)
    prior = _check(training, "training")
    if prior.shape != a.shape[-1:] or not (prior > 0).all():
        raise ValueError(
            f"training must hold {a.shape[-1]} positive prevalences, got shape {prior.shape}"
        )
    return _array(np.square((a - b) / prior).mean(axis=-1))


def smooth(prevalence: ArrayLike, bag_size: ArrayLike) -> Array:
    r"""Return :math:`\nu(x)=(x+\epsilon)/(1+k\epsilon)` with :math:`\epsilon=1/(2z)`.

    Parameters
    ----------
    prevalence : array-like of shape (..., k)
    bag_size : array-like of shape () or (...)
        Size z of each bag.

    Returns
    -------
    array of shape (..., k)

    Raises
    ------
    ValueError
        If a prevalence is not on the simplex, or a bag size is not positive.
    """
    p = _check(prevalence, "prevalence")
    epsilon = _epsilon(bag_size, p)
    return _array((p + epsilon) / (1 + p.shape[-1] * epsilon))


def _smoothed(true: ArrayLike, estimated: ArrayLike, bag_size: ArrayLike) -> tuple[Array, Array]:
    a, b = _checked(true, estimated)
    return smooth(a, bag_size), smooth(b, bag_size)


def _checked(true: ArrayLike, estimated: ArrayLike) -> tuple[Array, Array]:
    """Return both prevalences as arrays of the same shape (..., k), or raise ValueError."""
    estimated = in_order_of(true, estimated, "estimated")
    a, b = _check(true, "true"), _check(estimated, "estimated")
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"true has {a.shape[-1]} classes (last axis), but estimated has {b.shape[-1]}"
        )
    try:
        a, b = np.broadcast_arrays(a, b)
    except ValueError as error:
        raise ValueError(
            f"true and estimated must hold the same bags, got shapes {a.shape} and {b.shape}"
        ) from error
    return a, b


def _check(prevalence: ArrayLike, name: str) -> Array:
    """Return prevalences of shape (..., k) as an array, or raise ValueError."""
    p = np.asarray(for_numpy(prevalence, name))
    if p.ndim == 0 or p.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., n_classes), got shape {p.shape}")
    if p.size == 0:
        return np.zeros(p.shape)
    return _array(check_posteriors(p.reshape(-1, p.shape[-1]), name=name).reshape(p.shape))


def _epsilon(bag_size: ArrayLike, prevalences: Array) -> Array:
    """Return 1 / (2 z) with a trailing axis for the classes."""
    z = np.asarray(for_numpy(bag_size, "bag_size"), dtype=np.float64)
    if not (np.isfinite(z) & (z > 0)).all():
        raise ValueError(f"bag_size must be positive and finite, got {bag_size!r:.60}")
    bags = prevalences.shape[:-1]
    if z.ndim and z.shape != bags:
        raise ValueError(f"bag_size must be a number or have shape {bags}, got {z.shape}")
    return _array(0.5 / z[..., None])


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Divide, with 0 / 0 = 0: the denominator is zero only for k = 1, where errors are zero."""
    safe = np.where(denominator > 0, denominator, 1.0)
    return _array(np.where(denominator > 0, numerator / safe, 0.0))


def _array(values: object) -> Array:
    return np.asarray(values, dtype=np.float64)
