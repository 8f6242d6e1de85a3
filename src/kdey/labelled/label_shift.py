r"""The estimate under label shift, with labels as one-hot rows of the likelihood.

The class of a labelled instance is known, so that its row is one-hot:

.. math:: \sum_U \log (D_j \cdot \alpha) + \sum_L \log \alpha_{y_l}

is the mixture problem as it stands, solved with a certificate. It also holds if instances were
chosen for labelling by their features. The limits combine the moment estimate :math:`c_U` of the
unlabelled instances with the shares among the labels,

.. math:: c = c_U + G\, (\bar y - c_U), \quad V = V_U - G V_U, \quad G = V_U (V_U + V_L)^-,
          \quad V_L = (\operatorname{diag} c - c c') / n

where :math:`V_L` is taken at c itself, by iteration. Taken at the estimate without labels it trusts
the labels far too much where this estimate is wrong: a class that it calls absent would have labels
without variance. The variance of the templates within :math:`V_U` counts twice: with redrawn
training sets it was up to 1.8 times that of means of independent instances (decision 20).

Methods without a likelihood use this c as their estimate. If instances were chosen with unequal
probabilities, the unlabelled ones are no random part of the bag: the moment estimate is then that
of all instances, which is correlated with the labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, offsets_of
from kdey.intervals import FittedModel, estimate_points
from kdey.intervals.estimate import Estimate, Estimates
from kdey.intervals.merging import Merging
from kdey.intervals.model import densities
from kdey.intervals.moments import smoothed
from kdey.labelled.limits import onto_simplex, score_limits, upper_quantile
from kdey.labelled.sample import LabelledSample, effective_size, joined_bags, sample_offsets
from kdey.labelled.shares import Shares
from kdey.matching import MaximiseLikelihood
from kdey.matching.interface import exact_solution
from kdey.options import Options
from kdey.problems import MixtureLikelihood
from kdey.rows.interface import Rows
from kdey.solvers.solution import Solution

#: Factor of the variance of templates.
_TEMPLATE_FACTOR = 2.0
#: The iteration for c ends when no share moves by more than this. Six steps are typical, more are
#: needed where labels and the estimate without them disagree.
_TOLERANCE, _MOST_STEPS = 1e-4, 50


def without_labels(
    model: FittedModel,
    points: NDArray[Any],
    samples: Sequence[LabelledSample],
    options: Options,
) -> Estimates:
    """Return the estimates from unlabelled instances, or from all if these are no random part.

    Parameters
    ----------
    model : FittedModel
    points : array of shape (total size of the samples, d)
    samples : sequence of LabelledSample
        Each with at least one unlabelled instance. They own consecutive points.
    options : Options

    Returns
    -------
    Estimates
        One per sample.
    """
    used = [s.unlabelled if s.selection is None else s.members for s in samples]
    numbers = [s.clusters for s in samples if s.clusters is not None]
    clusters = None
    if len(numbers) == len(samples):
        # Bags have no cluster in common, but their clusters are numbered from zero.
        starts = offsets_of(np.array([codes.max() + 1 for codes in numbers], dtype=np.int64))
        clusters = np.concatenate([c + s for c, s in zip(numbers, starts[:-1], strict=True)])
    return estimate_points(model, points, joined_bags(samples, used), options, clusters)


def joint_solution(
    model: FittedModel, rows: Rows, samples: Sequence[LabelledSample], bases: Sequence[Estimate]
) -> Solution:
    """Return the prevalences from all instances, labelled ones as one-hot rows.

    Parameters
    ----------
    model : FittedModel
    rows : Rows
        Those of all instances.
    samples : sequence of LabelledSample
        They own consecutive rows.
    bases : sequence of Estimate
        The estimates without labels.

    Returns
    -------
    Solution
        One bag per sample.
    """
    likelihood = model.likelihood
    if likelihood is None:
        return exact_solution(
            np.array([_combined_shares(s, b) for s, b in zip(samples, bases, strict=True)])
        )
    parts = [_member_solution(likelihood, part, samples, model.n_threads) for part in rows.members]
    return model.matching.combine(parts, model.row_map.shares)


def _combined_shares(sample: LabelledSample, base: Estimate) -> Array:
    """Return the estimate of a method without a likelihood, shape (k,)."""
    if base.target == "bag" and sample.selection is None:
        known = sample.labelled_mass * (sample.label_weights @ sample.one_hot)
        return np.asarray(known + (1.0 - sample.labelled_mass) * base.estimate)
    return onto_simplex(combine(sample, base)[0])


def _member_solution(
    likelihood: MaximiseLikelihood, rows: Rows, samples: Sequence[LabelledSample], n_threads: int
) -> Solution:
    values = densities(rows.each(), likelihood.log_rows)
    for start, sample in zip(sample_offsets(samples)[:-1], samples, strict=True):
        values[start + sample.positions] = sample.one_hot
    # A labelled instance counts once, whatever the probability with which it was chosen.
    problem = MixtureLikelihood(values, joined_bags(samples, [s.members for s in samples]))
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
    known = base.uncertainty.centre()
    centre, covariance = base.estimate if known is None else known, base.covariance
    errors = base.uncertainty.template_errors()
    if errors is not None:
        covariance = covariance + (_TEMPLATE_FACTOR - 1.0) * errors.covariance()
    mean = np.asarray(sample.label_weights @ sample.one_hot)
    effects = _design_effects(sample, mean)
    of_labels, shared = _label_covariance(mean, sample, base.target, effects)
    if not np.isfinite(covariance).all():  # a bag of one instance or cluster
        return mean, of_labels
    c = mean
    for _ in range(_MOST_STEPS):
        total = covariance + of_labels - 2.0 * shared
        gain = (covariance - shared) @ np.linalg.pinv(total, rcond=1e-10, hermitian=True)
        previous, c = c, np.asarray(centre + gain @ (mean - centre))
        if np.abs(c - previous).max() <= _TOLERANCE:
            break
        of_labels, shared = _label_covariance(onto_simplex(c), sample, base.target, effects)
    return c, np.asarray(covariance - gain @ (covariance - shared).T)


def _design_effects(sample: LabelledSample, mean: Array) -> Array:
    """Return the design effects of the shares among labels, whose mean is known, (k,)."""
    influence = np.zeros((sample.size, len(mean)))
    influence[sample.positions] = sample.label_weights[:, None] * (sample.one_hot - mean)
    return sample.design_effect(influence)


def _label_covariance(
    prevalence: Array, sample: LabelledSample, target: str, effects: Array
) -> tuple[Array, Array]:
    """Return the covariance of label shares, and with the estimate without labels, (k, k) each."""
    a = smoothed(prevalence, sample.label_size)
    multinomial = np.diag(a) - np.outer(a, a)
    scale = np.sqrt(effects)
    of_labels = np.outer(scale, scale) * multinomial / sample.label_size
    shared = np.zeros_like(multinomial)
    if sample.selection is not None:
        in_bag = multinomial / effective_size(sample.shares(sample.members))
        if target == "population":
            shared = in_bag
        else:
            of_labels = of_labels - in_bag
    return of_labels, shared


def label_shift_shares(
    estimate: Array,
    sample: LabelledSample,
    base: Estimate,
    merging: Merging,
    options: Options,
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
    options : Options

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
