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

**The predictions** f of the labels are posteriors adapted to an estimate :math:`\alpha` (see
:mod:`kdey.intervals.moments`). Under label shift their mean in a bag is T times its prevalence,
where column l of T is their mean in training class l. So :math:`z = T^{-1} f` has the mean of the
one-hot labels y, in every class; this is what the test of label shift looks at.

**The test** of label shift by the labels of the bag. Under label shift :math:`z = T^{-1} f` has the
mean of y in every class, so that :math:`d = \overline{(y - z)}_L` has mean zero. Its covariance is
:math:`V = \sum_l (p_l/n + c\, p_l^2/n_l)\, \mathrm{Cov}_l(z)`, with p the shares among the n
labels, :math:`n_l` the training instances of class l and c the inflation of the variance of
templates. The statistic :math:`d' V^- d` would have a chi-square
distribution with k - 1 degrees of freedom if d were normal. With good classifiers and few labels
it is not: a single confusion that training hardly shows is enough to reject. We therefore compare
the statistic with draws of it, in which every label gets the residual of a random training instance
of its class; with more than 500 labels, with the chi-square distribution.

The difference of the estimates with and without label shift could be tested by the difference of
their variances (Hausman); in a prototype this rejected label shift in 18 to 35 % of the bags where
it held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from kdey.bags import Array, offsets_of
from kdey.intervals import estimate_points
from kdey.intervals.analytic import densities, moment_rows as rows_of_moments, training_rows
from kdey.intervals.estimate import Estimate, Estimates
from kdey.intervals.merging import Merging
from kdey.intervals.moments import PSEUDO_OBSERVATIONS, ClassRows, adapted, class_rows, smoothed
from kdey.labelled.sample import (
    LabelledSample,
    Shares,
    joined_bags,
    onto_simplex,
    sample_offsets,
    score_interval,
    upper_quantile,
)
from kdey.matching.base import Solution, exact_solution
from kdey.matching.likelihood import MaximiseLikelihood, MixtureLikelihood
from kdey.model import Model, Place
from kdey.options import Options
from kdey.rows.base import Rows
from kdey.rows.posterior import RatioMap

#: Factor of the variance of templates.
_TEMPLATE_FACTOR = 2.0
#: The iteration for c ends when no share moves by more than this. Six steps are typical, more are
#: needed where labels and the estimate without them disagree.
_TOLERANCE, _MOST_STEPS = 1e-4, 50
#: Singular values of T below this share of the largest count as zero.
_CUTOFF = 1e-6
#: Factor of the variance of T in the test of label shift. T comes from classifiers that saw a part
#: of the labels, and from instances that the classifiers of the other folds were fitted on: with
#: redrawn training sets the errors of the moment equation had 1.3 to 1.8 times the variance of
#: means of n_l instances. With factor 2 the test rejected 5 to 9 % under label shift, with factor 3
#: 2 to 4 % (docs/decisions/0020-labels-of-the-bag.md).
TEMPLATE_INFLATION = 3.0
#: With more labels the statistic is compared with a chi-square distribution.
_MOST_DRAWN = 500
#: Number of residuals that are drawn in all, about 30 ms.
_MOST_RESIDUALS = 200_000


def without_labels(
    model: Model,
    points: NDArray[Any],
    samples: Sequence[LabelledSample],
    options: Options,
    n_threads: int = 1,
) -> Estimates:
    """Return the estimates from unlabelled instances, or from all if these are no random part.

    Parameters
    ----------
    model : Model
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
    place = Place(n_threads)
    return estimate_points(model, points, joined_bags(samples, used), options, clusters, place)


def joint_solution(
    model: Model,
    rows: Rows,
    samples: Sequence[LabelledSample],
    bases: Sequence[Estimate],
    n_threads: int = 1,
) -> Solution:
    """Return the prevalences from all instances, labelled ones as one-hot rows.

    Parameters
    ----------
    model : Model
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
    parts = [_member_solution(likelihood, part, samples, n_threads) for part in rows.members]
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
    of_templates = base.uncertainty.template_covariance()
    if of_templates is not None:
        covariance = covariance + (_TEMPLATE_FACTOR - 1.0) * of_templates
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
        in_bag = multinomial / sample.bag_size
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
        size = sample.bag_size
        first, last = score_interval(shares, 0.0, 1.0 / size, quantile)
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
    def of(
        cls, model: Model, points: NDArray[Any], rows: Rows, n_threads: int = 1
    ) -> LabelPredictor | None:
        """Return the predictor of some points; None for methods on features.

        Likelihood methods predict by their densities (of the heaviest member), other methods on
        posteriors by the posteriors.

        Parameters
        ----------
        model : Model
        points : array of shape (m, d)
        rows : Rows
            Those of the points.

        Returns
        -------
        LabelPredictor or None
        """
        if model.likelihood is not None:
            return cls(rows_of_moments(model, rows.each()), training_rows(model, n_threads))
        if not model.takes_posteriors:
            return None
        if not np.isfinite(model.prevalence).all():
            return cls(np.asarray(points, dtype=np.float64), None, adapts=False)
        ratios = RatioMap(prior=model.prevalence)
        known = _ratio_rows(model, ratios, n_threads)
        return cls(densities(ratios(points).each(), logs=False), known)

    def predict(
        self, run: slice, estimate: Array, size: float
    ) -> tuple[Array, ClassMoments | None]:
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
        f : array of shape (m, k)
        moments : ClassMoments or None
            None if the method keeps no training posteriors.
        """
        values, training = self.values[run], self.training
        if not self.adapts:
            return values, None
        smallest = size if training is None else min(size, training.typical_size)
        prevalence = smoothed(estimate, smallest)
        moments = None if training is None else class_moments(training, prevalence)
        return adapted(values, prevalence), moments


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


def _ratio_rows(model: Model, ratios: RatioMap, n_threads: int) -> ClassRows | None:
    """Return the class rows of posteriors divided by the training prevalence."""
    if model.training is None or not model.is_learnt:
        return None

    def moment_rows(rows: NDArray[np.floating]) -> Array:
        return densities(rows, logs=False)

    return class_rows(ratios, model.training, model.n_classes, moment_rows, n_threads)


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


@dataclass(frozen=True)
class LabelShiftTest:
    """The result of the test.

    Attributes
    ----------
    statistic : float
    freedom : int
        Degrees of freedom.
    p_value : float
        Probability of such labels, or more extreme ones, under label shift.
    level : float
        P-values below this reject label shift.
    """

    statistic: float
    freedom: int
    p_value: float
    level: float = 0.05

    @property
    def rejected(self) -> bool:
        """Whether the labels contradict label shift at the level."""
        return self.p_value < self.level

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "statistic": self.statistic,
            "freedom": self.freedom,
            "p_value": self.p_value,
            "level": self.level,
            "rejected": self.rejected,
        }


def label_shift_test(
    f: Array, moments: ClassMoments, sample: LabelledSample, seed: int = 0
) -> LabelShiftTest:
    """Return the test of label shift.

    Parameters
    ----------
    f : array of shape (size, k)
        Predictions of all instances, adapted to an estimate.
    moments : ClassMoments
        Those of the same predictions.
    sample : LabelledSample
    seed : int
        Seed of the draws.

    Returns
    -------
    LabelShiftTest
    """
    y, w = sample.one_hot, sample.label_weights
    error = y - f[sample.positions] @ moments.inverse.T
    d = w @ error
    influence = np.zeros(f.shape)
    influence[sample.positions] = w[:, None] * (error - d)
    effect = float(sample.design_effect(influence).max())
    covariance = effect * moments.covariance(w @ y, sample.label_size)
    basis = np.linalg.qr(np.eye(len(d))[:, 1:] - 1.0 / len(d))[0]  # vectors that sum to zero
    precision = np.linalg.pinv(basis.T @ covariance @ basis, hermitian=True)

    def statistics(means: Array) -> Array:
        inside = means @ basis
        return np.asarray(((inside @ precision) * inside).sum(axis=1))

    statistic = float(statistics(d[None])[0])
    if sample.n_labels > _MOST_DRAWN:
        p_value = float(chdtrc(len(d) - 1, statistic))
    else:
        n_draws = min(max(_MOST_RESIDUALS // sample.n_labels, 199), 999)
        # Clusters widen the draws as they widen V.
        null = effect * statistics(moments.draw_means(sample.codes, w, n_draws, seed))
        p_value = float((1 + (null >= statistic).sum()) / (n_draws + 1))
    return LabelShiftTest(statistic, len(d) - 1, p_value)
