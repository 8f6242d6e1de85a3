r"""The prediction-powered estimate, which is unbiased whatever has shifted, and labels alone.

With one-hot labels y of n instances L, predictions f of all M instances and U the N unlabelled
ones, the estimate corrects the mean prediction by what the labels say about its error:

.. math:: \alpha = \bar y_L + \lambda (\bar f_U - \bar f_L), \qquad
          \lambda = \frac{\sum_i \mathrm{Cov}_L(y_i, f_i)}{(1 + n/N) \sum_i \mathrm{Var} f_i}

with :math:`\lambda` clipped to [0, 1]. There is one :math:`\lambda` for all classes, because the
shares would not sum to one otherwise. With :math:`r = y - \lambda f`, and S the sums of squares
about the mean over L, the limits of class i are all t with

.. math:: (t - \alpha_i)^2 \le q^2 \Bigl[ \frac{\lambda^2 \mathrm{Var} f_i}{N}
          + \frac{\rho_i\, t (1 - t)}{n} \Bigr], \qquad
          \rho_i = \min\Bigl(1, \frac{S_{r_i} + 1}{S_{y_i} + 1}\Bigr)

so that a class without labels has Wilson's limits; those of Wald, by the variance of r, are far too
narrow there. Labels alone are the same with :math:`\lambda = 0`.

Labels that were chosen with known probabilities :math:`\pi` have weights :math:`w = 1/\pi`: the
estimate is :math:`\lambda \bar f + \sum w r / \sum w` over all instances and over L,
:math:`\lambda` loses the factor (1 + n/N), N becomes M, n becomes
:math:`(\sum w)^2 / \sum w^2`, and :math:`S_r` is weighted by :math:`w^2`, as the variance of such a
sum is. The share of this very bag has :math:`\lambda` without that factor, too, no first term,
and the second one times 1 - n/M.
"""

from __future__ import annotations

import numpy as np

from kdey.bags import Array
from kdey.intervals.moments import smoothed
from kdey.labelled.limits import onto_simplex, score_limits, upper_quantile
from kdey.labelled.sample import LabelledSample, effective_size
from kdey.labelled.shares import Shares


def labels_alone(y: Array, sample: LabelledSample, tail: float, population: bool) -> Shares:
    """Return the shares among the labels, with Wilson's limits; parameters as below."""
    return prediction_powered(y, np.zeros((sample.size, y.shape[1])), sample, tail, population)


def prediction_powered(
    y: Array, f: Array, sample: LabelledSample, tail: float, population: bool
) -> Shares:
    """Return the prediction-powered shares and their limits.

    Parameters
    ----------
    y : array of shape (n, k)
        One-hot labels.
    f : array of shape (size, k)
        Predictions of all instances.
    sample : LabelledSample
    tail : float
        Probability outside each end of a limit.
    population : bool
        Whether the target is the population; otherwise it is the bag.

    Returns
    -------
    Shares
    """
    # With random labels of the population, predictions of U and L enter as separate samples.
    separate = population and sample.selection is None and len(sample.unlabelled) > 0
    base = sample.unlabelled if separate else sample.members
    shares, w, labelled = sample.shares(base), sample.label_weights, f[sample.positions]
    n, n_base = sample.label_size, effective_size(shares)
    ratio = n / n_base if separate else 0.0
    everyone = sample.shares(sample.members)
    variance = _variance(f[sample.members], everyone)
    power = _power(y, labelled, w, float(variance.sum()) * (1.0 + ratio))
    r = y - power * labelled
    base_mean, r_mean = shares @ f[base], w @ r
    centre = power * base_mean + r_mean
    estimate = onto_simplex(centre)

    influence = np.zeros(f.shape)
    if population:
        influence[base] = power * shares[:, None] * (f[base] - base_mean)
    influence[sample.positions] += w[:, None] * (r - r_mean)
    effect = sample.design_effect(influence)
    rest = 1.0 if population else 1.0 - sample.labelled_mass
    rho = relative_variance(_design_squares(r, w), n * _variance(y, w))
    constant = power**2 * variance / n_base if population else np.zeros(len(variance))
    quantile = upper_quantile(tail, sample.freedom)
    low, high = score_limits(estimate, constant * effect, rest * rho / n * effect, quantile)
    if not population:
        low, high = within_known(low, high, y, sample)
        estimate = np.clip(estimate, low, high)
        estimate = estimate / estimate.sum()
        low, high = np.minimum(low, estimate), np.maximum(high, estimate)
    a = smoothed(estimate, n)
    scale = np.sqrt(effect * rho)
    covariance = np.outer(scale, scale) * (np.diag(a) - np.outer(a, a)) * rest / n
    if population:
        covariance += power**2 * np.cov(f[base].T, aweights=shares, ddof=0) / n_base
    return Shares(estimate, low, high, centre, covariance, sample.freedom)


def relative_variance(residual: Array, label: Array) -> Array:
    """Return rho of the formula from two sums of squares, both of shape (k,)."""
    return np.minimum(1.0, (residual + 1.0) / (label + 1.0))


def within_known(low: Array, high: Array, y: Array, sample: LabelledSample) -> tuple[Array, Array]:
    """Return limits of this very bag that honour the labels that are known.

    Parameters
    ----------
    low, high : arrays of shape (k,)
    y : array of shape (n, k)
    sample : LabelledSample

    Returns
    -------
    low, high : arrays of shape (k,)
    """
    known = sample.weights[sample.positions] @ y / sample.weights.sum()
    most = known + 1.0 - sample.labelled_mass
    return np.clip(low, known, most), np.clip(high, known, most)


def _power(y: Array, f: Array, w: Array, variance: float) -> float:
    """Return lambda, in [0, 1]; zero if the predictions do not vary."""
    covariance = float((w[:, None] * (y - w @ y) * (f - w @ f)).sum())
    return min(max(covariance / variance, 0.0), 1.0) if variance > 0 else 0.0


def _variance(values: Array, weights: Array) -> Array:
    """Return the variance of each column of (n, k) with weights that sum to one."""
    return np.asarray(weights @ (values - weights @ values) ** 2)


def _design_squares(r: Array, w: Array) -> Array:
    """Return the sums of squares of r, weighted as in the variance of its mean, shape (k,)."""
    squares = w**2
    return np.asarray(effective_size(w) * (squares @ (r - w @ r) ** 2) / squares.sum())
