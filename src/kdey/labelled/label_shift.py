r"""The estimate under label shift, with labels as one-hot rows of the likelihood.

The class of a labelled instance is known, so that its row is one-hot:

.. math:: \sum_U \log (D_j \cdot \alpha) + \sum_L \log \alpha_{y_l}

is the mixture problem as it stands, solved with a certificate. It also holds if instances were
chosen for labelling by their features. The limits combine the moment estimate :math:`c_U` of the
unlabelled instances with the shares among the labels,

.. math:: c = c_U + G\, (\bar y - c_U), \quad V = V_U - G V_U, \quad G = V_U (V_U + V_L)^-,
          \quad V_L = (\operatorname{diag} \alpha - \alpha \alpha') / n

Methods without a likelihood use this c as their estimate. If instances were chosen with unequal
probabilities, the unlabelled ones are no random part of the bag: the moment estimate is then that
of all instances, which is correlated with the labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array
from kdey.intervals import FittedModel, IntervalOptions, estimate_points
from kdey.intervals.estimate import Estimate
from kdey.intervals.merging import Merging
from kdey.intervals.model import densities
from kdey.intervals.moments import smoothed
from kdey.labelled.limits import onto_simplex, score_limits, upper_quantile
from kdey.labelled.sample import LabelledSample, effective_size
from kdey.labelled.shares import Shares
from kdey.matching import MaximiseLikelihood
from kdey.matching.interface import exact_solution
from kdey.problems import MixtureLikelihood
from kdey.rows.interface import Rows
from kdey.solvers.solution import Solution


def without_labels(
    model: FittedModel, points: NDArray[Any], sample: LabelledSample, options: IntervalOptions
) -> Estimate:
    """Return the estimate from the unlabelled instances, or from all if these are no random part.

    Parameters
    ----------
    model : FittedModel
    points : array of shape (size, d)
    sample : LabelledSample
        With at least one unlabelled instance.
    options : IntervalOptions

    Returns
    -------
    Estimate
    """
    base = sample.unlabelled if sample.selection is None else sample.members
    return estimate_points(model, points, sample.bag(base), options, sample.clusters)[0]


def joint_solution(
    model: FittedModel, rows: Rows, sample: LabelledSample, base: Estimate
) -> Solution:
    """Return the prevalences from all instances, labelled ones as one-hot rows.

    Parameters
    ----------
    model : FittedModel
    rows : Rows
        Those of all instances.
    sample : LabelledSample
    base : Estimate
        The estimate without labels.

    Returns
    -------
    Solution
        Of one bag.
    """
    likelihood = model.likelihood
    if likelihood is None and base.target == "bag" and sample.selection is None:
        known = sample.labelled_mass * (sample.label_weights @ sample.one_hot)
        return exact_solution((known + (1.0 - sample.labelled_mass) * base.estimate)[None])
    if likelihood is None:
        return exact_solution(onto_simplex(combine(sample, base)[0])[None])
    parts = [_member_solution(likelihood, part, sample, model.n_threads) for part in rows.members]
    return model.matching.combine(parts, model.row_map.shares)


def _member_solution(
    likelihood: MaximiseLikelihood, rows: Rows, sample: LabelledSample, n_threads: int
) -> Solution:
    values = densities(rows.each(), likelihood.log_rows)
    values[sample.positions] = sample.one_hot
    # A labelled instance counts once, whatever the probability with which it was chosen.
    problem = MixtureLikelihood(values, sample.bag(sample.members))
    return likelihood.solve(problem, n_threads)


def combine(sample: LabelledSample, base: Estimate) -> tuple[Array, Array]:
    """Return c and V of the formula at the top of this file, shapes (k,) and (k, k).

    Parameters
    ----------
    sample : LabelledSample
    base : Estimate
        The estimate without labels, for the population, or for the bag if labels were chosen with
        known probabilities.

    Returns
    -------
    centre : array of shape (k,)
    covariance : array of shape (k, k)
    """
    w, y = sample.label_weights, sample.one_hot
    mean = w @ y
    mixed = (mean * sample.label_size + base.estimate * base.size) / (sample.label_size + base.size)
    a = smoothed(mixed, sample.label_size)
    multinomial = np.diag(a) - np.outer(a, a)
    influence = np.zeros((sample.size, len(a)))
    influence[sample.positions] = w[:, None] * (y - mean)
    scale = np.sqrt(sample.design_effect(influence))
    from_labels = np.outer(scale, scale) * multinomial / sample.label_size
    shared = np.zeros_like(multinomial)
    if sample.selection is not None:
        in_bag = multinomial / effective_size(sample.shares(sample.members))
        if base.target == "population":
            shared = in_bag
        else:
            from_labels = from_labels - in_bag
    known = base.uncertainty.centre()
    centre, covariance = base.estimate if known is None else known, base.covariance
    if not np.isfinite(covariance).all():  # a bag of one instance or cluster
        return np.asarray(mean), from_labels
    total = covariance + from_labels - 2.0 * shared
    gain = (covariance - shared) @ np.linalg.pinv(total, rcond=1e-10, hermitian=True)
    combined = covariance - gain @ (covariance - shared).T
    return np.asarray(centre + gain @ (mean - centre)), np.asarray(combined)


def label_shift_shares(
    estimate: Array,
    sample: LabelledSample,
    base: Estimate,
    merging: Merging,
    options: IntervalOptions,
) -> Shares:
    """Return the shares of groups of classes under label shift, with limits.

    Parameters
    ----------
    estimate : array of shape (k,)
        The joint estimate.
    sample : LabelledSample
    base : Estimate
        The estimate without labels, of the target of the options.
    merging : Merging
    options : IntervalOptions

    Returns
    -------
    Shares
        Of g groups.
    """
    matrix = merging.matrix
    if options.target == "bag" and sample.selection is None:
        return _bag_shares(matrix @ estimate, sample, merging.apply(base), matrix)
    centre, covariance = combine(sample, base)
    centre, covariance = matrix @ centre, matrix @ covariance @ matrix.T
    shares, freedom = matrix @ estimate, base.uncertainty.freedom()
    quantile = upper_quantile(options.tail(len(matrix)), freedom)
    half = quantile * np.sqrt(np.maximum(np.diag(covariance), 0.0))
    low = np.minimum(np.clip(centre - half, 0.0, 1.0), shares)
    high = np.maximum(np.clip(centre + half, 0.0, 1.0), shares)
    if options.target == "population":  # not narrower than the limits of a bag with all labels
        size = effective_size(sample.shares(sample.members))
        first, last = score_limits(shares, 0.0, 1.0 / size, quantile)
        low, high = np.minimum(low, first), np.maximum(high, last)
    return Shares(shares, low, high, centre, covariance, freedom)


def _bag_shares(shares: Array, sample: LabelledSample, base: Estimate, matrix: Array) -> Shares:
    """Return the shares of this very bag: labels are known, only the others are uncertain."""
    known, rest = sample.labelled_mass, 1.0 - sample.labelled_mass
    of_labels = known * (matrix @ (sample.label_weights @ sample.one_hot))
    moments = base.uncertainty.centre()
    return Shares(
        shares,
        np.minimum(of_labels + rest * base.low, shares),
        np.maximum(of_labels + rest * base.high, shares),
        of_labels + rest * (base.estimate if moments is None else moments),
        rest**2 * base.covariance,
        base.uncertainty.freedom(),
    )
