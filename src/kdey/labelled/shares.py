r"""The labelled sample of a bag, and the shares that each of three ways to use its labels gives.

A :class:`LabelledSample` says which instances have labels, and how they were chosen.

**Intervals** of a share with estimate a are all t with

.. math:: (t - a)^2 \le q^2 \, [v + s\, t (1 - t)]

the roots of a quadratic. With v = 0 and s = 1 / n this is Wilson's interval of n labels.

**The prediction-powered estimate** is unbiased whatever has shifted. With one-hot labels y of n
instances L, predictions f of all M instances and U the N unlabelled ones, it corrects the mean
prediction by what the labels say about its error:

.. math:: \alpha = \bar y_L + \lambda (\bar f_U - \bar f_L), \qquad
          \lambda = \frac{\sum_i \mathrm{Cov}_L(y_i, f_i)}{(1 + n/N) \sum_i \mathrm{Var} f_i}

with :math:`\lambda` clipped to [0, 1]. There is one :math:`\lambda` for all classes, because the
shares would not sum to one otherwise. With :math:`r = y - \lambda f`, and S the sums of squares
about the mean over L, the interval of class i has all t with

.. math:: (t - \alpha_i)^2 \le q^2 \Bigl[ \frac{\lambda^2 \mathrm{Var} f_i}{N}
          + \frac{\rho_i\, t (1 - t)}{n} \Bigr], \qquad
          \rho_i = \min\Bigl(1, \frac{S_{r_i} + 3}{S_{y_i} + 3}\Bigr)

so that a class without labels has Wilson's interval; that of Wald, by the variance of r, is far too
narrow there. Labels alone are the same with :math:`\lambda = 0`.

Labels that were chosen with known probabilities :math:`\pi` have weights :math:`w = 1/\pi`: the
estimate is :math:`\lambda \bar f + \sum w r / \sum w` over all instances and over L,
:math:`\lambda` loses the factor (1 + n/N), N becomes M, n becomes
:math:`(\sum w)^2 / \sum w^2`, and :math:`S_r` is weighted by :math:`w^2`, as the variance of such a
sum is. Where weights are related to the class, the bound of :math:`\rho_i` is not one but the same
ratio for the labels themselves. The share of this very bag has :math:`\lambda` without that factor,
too, no first term, and the second one times 1 - n/M.

**The estimate under label shift** has labels as one-hot rows of the likelihood, because the class
of a labelled instance is known:

.. math:: \sum_U \log (D_j \cdot \alpha) + \sum_L \log \alpha_{y_l}

is the mixture problem as it stands, solved with a certificate. It also holds if instances were
chosen for labelling by their features. The intervals combine the moment estimate :math:`c_U` of the
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

**Strata and finite populations.** The error of each estimate is that of the labels as a draw of the
bag, and that of the bag as a draw of the population *as if all of its rows had labels*. Only the
second one is less within strata, and ends where all of the population has been drawn. The
linearised variance within strata of what all rows of the bag add (for labels alone, those without
a label add zero) is right for both: strata make it less by products of rows of one stratum, and
such pairs are as frequent among the labels as in the bag. With a share f of the population in the
bag the variance is :math:`(1 - f) V_P + f V_B`, with V_P that of an unbounded population and V_B
that of this very bag: for labels alone :math:`1 - n / N` times that of n draws, with N the rows of
the population.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Array, Bags, SampledBag, SampledBags, offsets_of
from kdey.intervals import estimate_points
from kdey.intervals.analytic import densities
from kdey.intervals.estimate import Estimate, Estimates
from kdey.intervals.merging import Merging
from kdey.intervals.moments import smoothed
from kdey.intervals.profile import upper_quantile
from kdey.intervals.region import Region, Uncertainty, region_from_covariance
from kdey.matching import Composite, Solution, exact_solution
from kdey.matching.likelihood import MaximiseLikelihood, MixtureLikelihood
from kdey.model import Model, Place
from kdey.options import Options
from kdey.rows import Rows
from kdey.validation import check_weights, encode_labels, for_numpy

Indices = NDArray[np.int64]
#: What ``labelled=`` takes: positions in the bag, and the labels at these positions.
Labelled: TypeAlias = tuple[ArrayLike, ArrayLike]
#: The design effect of labels that are all in one cluster: nothing shows how clusters differ.
_UNKNOWN_EFFECT = 1e6


@dataclass(frozen=True, eq=False)
class LabelledSample:
    """A bag of M instances of which n have labels.

    Instances of weight zero are neither labelled nor unlabelled: they do not belong to the bag.

    Attributes
    ----------
    size : int
        Number of instances of the pool, those of weight zero included.
    positions : int64 array of shape (n,)
        Positions of the labelled instances.
    codes : int64 array of shape (n,)
        Class number of each label.
    n_classes : int
    weights : array of shape (size,)
        Sampling weights of all instances.
    selection : array of shape (n,) or None
        The probability with which each labelled instance was chosen for labelling; None if all
        instances had the same.
    clusters, strata : int64 arrays of shape (size,) or None
        Number of the cluster of each instance, and of the stratum in which it was drawn.
    unseen : float
        Share of the population that is not in the bag; one if nothing is said of its size.
    """

    size: int
    positions: Indices
    codes: Indices
    n_classes: int
    weights: Array
    selection: Array | None
    clusters: Indices | None
    strata: Indices | None = None
    unseen: float = 1.0

    @property
    def n_labels(self) -> int:
        """Number of labels n."""
        return len(self.positions)

    @cached_property
    def members(self) -> Indices:
        """Positions of the instances of the bag, those of positive weight."""
        return np.flatnonzero(self.weights > 0)

    @cached_property
    def unlabelled(self) -> Indices:
        """Positions of the instances of the bag without a label."""
        rest = self.weights > 0
        rest[self.positions] = False
        return np.flatnonzero(rest)

    @cached_property
    def label_weights(self) -> Array:
        """Weights of the labels in means over the bag, summing to one, shape (n,)."""
        w = self.weights[self.positions]
        w = w if self.selection is None else w / self.selection
        return np.asarray(w / w.sum())

    @property
    def label_size(self) -> float:
        """Effective number of labels, 1 / sum of squared weights."""
        return effective_size(self.label_weights)

    @property
    def bag_size(self) -> float:
        """Effective number of instances of the bag, with and without labels."""
        return effective_size(self.shares(self.members))

    @property
    def labelled_mass(self) -> float:
        """Share of the bag's weight that has labels."""
        return float(self.weights[self.positions].sum() / self.weights.sum())

    @cached_property
    def one_hot(self) -> Array:
        """The labels as one-hot rows, shape (n, k)."""
        rows = np.zeros((self.n_labels, self.n_classes))
        rows[np.arange(self.n_labels), self.codes] = 1.0
        return rows

    def shares(self, positions: Indices) -> Array:
        """Return the weights of instances relative to their sum, in the shape of positions."""
        w = self.weights[positions]
        return np.asarray(w / w.sum())

    def bag(self, positions: Indices) -> Bags:
        """Return one bag of the instances at these positions, with their weights."""
        offsets = np.array([0, len(positions)], dtype=np.int64)
        return Bags(positions, offsets, self.size, self.weights[positions])

    def design_effect(
        self, influence: Array, independent: Array | None = None, target: str = "population"
    ) -> Array:
        """Return the variance of a sum over instances as drawn, relative to independent ones.

        Parameters
        ----------
        influence : array of shape (size, c)
            What each instance adds to the error of an estimate.
        independent : array of shape (c,), optional
            The variance to compare with; by default that of instances drawn one by one.
        target : {"population", "bag"}
            Strata count for the population only. For the bag clusters count as far as whole
            clusters were labelled, and not where labels lie in all of them alike.

        Returns
        -------
        array of shape (c,)
            At least one, because few clusters can show too little variance by chance; so large
            that nothing is known where labels lie in one cluster (in each stratum). Strata may have
            less than one, see :meth:`kdey.bags.SampledBag.design_effect`.
        """
        design = self.design if target == "population" else replace(self.design, strata=None)
        if self._is_lonely(design):
            return np.full(influence.shape[1], _UNKNOWN_EFFECT)
        singly = (influence**2).sum(axis=0)
        independent = singly if independent is None else independent
        drawn, least = singly, 1.0
        if design.clusters is not None:
            drawn = design.variance_of_sum(influence[self.members])
        if target == "bag":
            drawn = singly + self._labelled_whole * (drawn - singly)
        if design.strata is not None:
            rows = replace(design, clusters=None).variance_of_sum(influence[self.members])
            drawn = rows if design.clusters is None else np.maximum(drawn, rows)
            least = min(1.0, 2.0 * len(design.stratum_sizes) / design.n_units)
        positive = independent > 0
        ratio = np.where(positive, drawn / np.where(positive, independent, 1.0), 1.0)
        return np.maximum(ratio, least)

    def _pairs(self, positions: Indices, shares: Array) -> tuple[Array, float]:
        """Return the shares of clusters in a mean, and of pairs of instances within one cluster."""
        assert self.clusters is not None, "pairs are those of clusters"
        n_clusters = int(self.clusters.max()) + 1
        sums = np.bincount(self.clusters[positions], shares, n_clusters).astype(np.float64)
        return sums, float(sums @ sums - shares @ shares)

    @cached_property
    def _labelled_whole(self) -> float:
        """How far clusters were labelled as a whole: 1, or 0 for rows in all of them alike."""
        rest = 1.0 - self.labelled_mass
        if self.clusters is None or rest <= 0.0:
            return 0.0
        of_labels = self._pairs(self.positions, self.label_weights)[1]
        in_bag = self._pairs(self.members, self.shares(self.members))[1]
        if of_labels <= 0.0:
            return 0.0
        return min(max((1.0 - in_bag / of_labels) / rest, 0.0), 1.0)

    @cached_property
    def shared_clusters(self) -> float:
        """How much of what clusters add to the variance of labels the other rows have in common."""
        if self.clusters is None or not len(self.unlabelled):
            return 0.0
        labels, pairs = self._pairs(self.positions, self.label_weights)
        others, _ = self._pairs(self.unlabelled, self.shares(self.unlabelled))
        return min(float(labels @ others) / pairs, 1.0) if pairs > 0.0 else 0.0

    @cached_property
    def design(self) -> SampledBag:
        """The instances of the bag, labelled or not, as they were drawn."""
        members = self.members
        parts = (
            None if codes is None else np.unique(codes[members], return_inverse=True)[1]
            for codes in (self.clusters, self.strata)
        )
        clusters, strata = parts
        return SampledBag(members, self.shares(members), clusters, self.unseen, strata)

    def _is_lonely(self, design: SampledBag) -> bool:
        """Whether no stratum of a design (or the whole bag) shows how units with labels differ."""
        if design.clusters is None:
            return design.strata is not None and design.is_lonely
        clusters, strata = self._labelled_units
        return design.is_lonely or clusters <= (1 if design.strata is None else strata)

    @cached_property
    def _labelled_units(self) -> tuple[int, int]:
        """Numbers of clusters and of strata that have labels."""
        clusters, strata = (
            1 if codes is None else len(np.unique(codes[self.positions]))
            for codes in (self.clusters, self.strata)
        )
        return clusters, strata

    @property
    def freedom(self) -> float:
        """Clusters with labels minus their strata; rows minus strata; inf without both."""
        if self.clusters is None:
            return self.design.freedom
        clusters, strata = self._labelled_units
        return float(max(clusters - strata, 1))


def effective_size(weights: Array) -> float:
    """Return (sum w)^2 / sum w^2, the number of equal weights with the same variance."""
    return float(weights.sum() ** 2 / (weights @ weights))


def sample_offsets(samples: Sequence[LabelledSample]) -> Indices:
    """Return where each of consecutive samples starts, and where the last ends, (n + 1,)."""
    return offsets_of(np.array([sample.size for sample in samples], dtype=np.int64))


def joined_bags(samples: Sequence[LabelledSample], positions: Sequence[Indices]) -> Bags:
    """Return one bag per sample over the joined points of consecutive samples.

    Parameters
    ----------
    samples : sequence of LabelledSample
    positions : sequence of int64 arrays
        The instances of each bag, counted within its sample.

    Returns
    -------
    Bags
    """
    starts = sample_offsets(samples)
    pairs = list(zip(samples, positions, strict=True))
    indices = np.concatenate([s + p for s, p in zip(starts[:-1], positions, strict=True)])
    offsets = offsets_of(np.array([len(p) for p in positions], dtype=np.int64))
    weights = np.concatenate([sample.weights[p] for sample, p in pairs])
    return Bags(indices, offsets, int(starts[-1]), weights)


def labelled_sample(
    labelled: Labelled,
    classes: NDArray[Any],
    size: int,
    *,
    weights: ArrayLike | None = None,
    selection: ArrayLike | None = None,
    drawn: SampledBags | None = None,
) -> LabelledSample:
    """Return the labelled sample of a bag, checked.

    Parameters
    ----------
    labelled : pair of array-likes of shape (n,)
        Positions of the labelled instances in the bag, and their labels.
    classes : array of shape (k,)
    size : int
        Number of instances of the bag.
    weights : array-like of shape (size,), optional
        Sampling weights of the instances.
    selection : array-like of shape (n,), optional
        The probability with which each labelled instance was chosen for labelling.
    drawn : SampledBags, optional
        The bag of all instances, as it was drawn.

    Returns
    -------
    LabelledSample

    Raises
    ------
    ValueError
        If positions, labels or probabilities are not allowed.
    """
    if not isinstance(labelled, Sequence) or isinstance(labelled, str) or len(labelled) != 2:
        raise ValueError("labelled must be a pair (positions, labels) of equal length")
    positions = _positions(labelled[0], size)
    _check_order(*labelled, positions)
    labels = np.asarray(for_numpy(labelled[1], "labels"))
    if labels.shape != positions.shape:
        raise ValueError(
            f"labelled has {len(positions)} positions but labels of shape {labels.shape}: give "
            "one label per position"
        )
    try:
        codes = encode_labels(labels, classes)[0]
    except ValueError as error:
        raise ValueError(f"labelled: {error}") from error
    w = np.ones(size) if weights is None else check_weights(weights, size)
    chosen = None if selection is None else _probabilities(selection, len(positions))
    inside = w[positions] > 0
    if not inside.any():
        raise ValueError("labelled: all labelled instances have weight zero")
    return LabelledSample(
        size=size,
        positions=positions[inside],
        codes=codes[inside],
        n_classes=len(classes),
        weights=w,
        selection=None if chosen is None else chosen[inside],
        clusters=None if drawn is None else drawn.codes,
        strata=None if drawn is None else drawn.strata,
        unseen=1.0 if drawn is None else float(drawn.unseen[0]),
    )


def _check_order(given: Any, labels: Any, positions: Indices) -> None:
    """Raise where the index of the labels names the positions in another order."""
    index: Any = getattr(labels, "index", None)
    if not hasattr(index, "equals") or len(index) != len(positions):
        return
    own: Any = getattr(given, "index", None)
    for names in (positions, own) if hasattr(own, "equals") else (positions,):
        if set(index) == set(names):
            if list(index) != list(names):
                raise ValueError(
                    "labelled: the index of the labels names the positions in another order: give "
                    "labels.loc[positions], or labels.to_numpy() if the first label belongs to the "
                    "first position"
                )
            return


def _positions(values: ArrayLike, size: int) -> Indices:
    """Return distinct positions in the bag, or raise ValueError."""
    array = np.asarray(for_numpy(values, "positions"))
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(
            f"labelled needs a vector of at least one position, got shape {array.shape}"
        )
    if array.dtype.kind not in "iu":
        raise ValueError(
            f"labelled positions must be integers, row numbers of the bag, got {array.dtype}; "
            "for a boolean mask use np.flatnonzero(mask)"
        )
    if array.min() < 0 or array.max() >= size:
        raise ValueError(
            f"labelled positions must be in 0 to {size - 1}, got {array.min()} to {array.max()}"
        )
    if len(np.unique(array)) != len(array):
        raise ValueError("labelled positions must be distinct: an instance has one label")
    return array.astype(np.int64)


def _probabilities(values: ArrayLike, n_labels: int) -> Array:
    """Return probabilities of selection, or raise ValueError."""
    p = check_weights(values, n_labels, name="selection")
    if not ((p > 0) & (p <= 1)).all():
        raise ValueError(
            "selection must hold the probability, above 0 and at most 1, with which each "
            f"labelled instance was chosen, got {p.min():g} to {p.max():g}"
        )
    return p


def score_interval(
    estimate: Array, constant: Array | float, slope: Array | float, quantile: float
) -> tuple[Array, Array]:
    """Return the intervals of the formula at the top of this file, within [0, 1].

    Parameters
    ----------
    estimate : array of shape (k,)
        Shares in [0, 1].
    constant, slope : arrays of shape (k,) or floats
        The parts v and s of the variance.
    quantile : float

    Returns
    -------
    low, high : arrays of shape (k,)
        They contain the estimate.
    """
    q2 = quantile**2
    a = 1.0 + q2 * np.asarray(slope)
    half = estimate + 0.5 * q2 * np.asarray(slope)
    root = np.sqrt(np.maximum(half**2 - a * (estimate**2 - q2 * np.asarray(constant)), 0.0))
    low, high = (half - root) / a, (half + root) / a
    low, high = np.minimum(low, estimate), np.maximum(high, estimate)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def onto_simplex(shares: Array) -> Array:
    """Return shares (k,) clipped at zero and scaled to a sum of one."""
    inside = np.maximum(shares, 0.0)
    return np.asarray(inside / inside.sum())


@dataclass(frozen=True, eq=False)
class Shares(Uncertainty):
    """Shares of k classes with intervals, as each of the three ways to use labels gives them.

    Attributes
    ----------
    estimate, low, high : arrays of shape (k,)
    unclipped : array of shape (k,)
        The estimate before it was moved into the simplex.
    errors : array of shape (k, k)
        Covariance of its error.
    degrees : float
        Degrees of freedom of the covariance.
    quantile : float
        That of score intervals; infinite where the intervals are no such ones.
    """

    estimate: Array
    low: Array
    high: Array
    unclipped: Array
    errors: Array
    degrees: float = np.inf
    quantile: float = np.inf
    method: ClassVar[str] = "analytic"

    @property
    def template_noise(self) -> bool:
        """True: the intervals leave out no uncertainty of the templates.

        Those under label shift include it, and the others do not depend on the templates.
        """
        return True

    def covariance(self) -> Array:
        """Return the covariance of the error, shape (k, k)."""
        return self.errors

    def of_finite_population(self, bag: Shares, unseen: float) -> Shares:
        """Return the shares of a population of which the bag, whose own are given, is a part.

        What was not drawn is uncertain as the population is, and what was drawn as the bag is: the
        variances are mixed by these shares of the population. Labelled rows are known, so that the
        bag's own variance is that of its other rows; see the top of this file.
        """
        seen = 1.0 - unseen

        def mixed(own: Array, of_bag: Array) -> Array:
            return unseen * own + seen * of_bag

        def half(own: Array, of_bag: Array) -> Array:
            first, second = own - self.estimate, of_bag - bag.estimate
            return np.sqrt(mixed(first**2, second**2))

        estimate = mixed(self.estimate, bag.estimate)
        return replace(
            self,
            estimate=estimate,
            low=np.clip(estimate - half(self.low, bag.low), 0.0, 1.0),
            high=np.clip(estimate + half(self.high, bag.high), 0.0, 1.0),
            unclipped=mixed(self.unclipped, bag.unclipped),
            errors=mixed(self.errors, bag.errors),
        )

    def region(self, confidence: float) -> Region:
        """Return the joint region of all classes.

        The variance at the estimate is too small where a few labels have missed a class, which
        score intervals know. The standard error of each class is therefore half-way, on the scale
        of logarithms, to what the farther end of its interval says: all of it would be too much
        for the classes together.
        """
        errors = np.sqrt(np.maximum(np.diag(self.errors), np.finfo(np.float64).tiny))
        middle = np.clip(self.unclipped, 0.0, 1.0)
        reach = np.maximum(self.high - middle, middle - self.low) / self.quantile
        wider = np.sqrt(np.maximum(reach / errors, 1.0))
        covariance = np.outer(wider, wider) * self.errors
        return region_from_covariance(self.unclipped, covariance, self.degrees, confidence)


def labels_alone(y: Array, sample: LabelledSample, tail: float, population: bool) -> Shares:
    """Return the shares among the labels, with Wilson's intervals; parameters as below."""
    return prediction_powered(y, np.zeros((sample.size, y.shape[1])), sample, tail, population)


def prediction_powered(
    y: Array, f: Array, sample: LabelledSample, tail: float, population: bool
) -> Shares:
    """Return the prediction-powered shares and their intervals.

    Parameters
    ----------
    y : array of shape (n, k)
        One-hot labels.
    f : array of shape (size, k)
        Predictions of all instances.
    sample : LabelledSample
    tail : float
        Probability outside each end of an interval.
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
    effect = sample.design_effect(influence, target="population" if population else "bag")
    rest = 1.0 if population else 1.0 - sample.labelled_mass
    rho = relative_variance(_design_squares(r, w), n * _variance(y, w), _design_squares(y, w))
    weighting = _weighting_effect(f[base], shares)
    constant = power**2 * variance * weighting / n_base if population else np.zeros(len(variance))
    quantile = upper_quantile(tail, sample.freedom)
    low, high = score_interval(estimate, constant * effect, rest * rho / n * effect, quantile)
    if not population:
        low, high = within_known(low, high, y, sample)
        estimate = np.clip(estimate, low, high)
        estimate = estimate / estimate.sum()
        low, high = np.minimum(low, estimate), np.maximum(high, estimate)
    a = smoothed(estimate, n)
    scale = np.sqrt(effect * rho)
    covariance = np.outer(scale, scale) * (np.diag(a) - np.outer(a, a)) * rest / n
    if population:
        scale = np.sqrt(effect * weighting)
        of_base = np.cov(f[base].T, aweights=shares, ddof=0) / n_base
        covariance += power**2 * np.outer(scale, scale) * of_base
    return Shares(estimate, low, high, centre, covariance, sample.freedom, quantile)


def relative_variance(residual: Array, label: Array, weighted: Array | None = None) -> Array:
    """Return rho of the formula, shape (k,).

    Parameters
    ----------
    residual, label : arrays of shape (k,)
        The two sums of squares.
    weighted : array of shape (k,), optional
        The sum of squares of labels in the variance of their weighted mean, which is larger than
        that of as many independent labels where weights are related to the class.
    """
    most = 1.0 if weighted is None else np.maximum((weighted + PSEUDO) / (label + PSEUDO), 1.0)
    return np.asarray(np.minimum(most, (residual + PSEUDO) / (label + PSEUDO)))


def _weighting_effect(values: Array, weights: Array) -> Array:
    """Return the variance of weighted means relative to weights that are unrelated to values."""
    drawn = _design_squares(values, weights)
    unrelated = effective_size(weights) * _variance(values, weights)
    positive = unrelated > 0
    return np.maximum(np.where(positive, drawn / np.where(positive, unrelated, 1.0), 1.0), 1.0)


def within_known(low: Array, high: Array, y: Array, sample: LabelledSample) -> tuple[Array, Array]:
    """Return intervals of this very bag that honour the labels that are known.

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


#: Squares that are added to both sums of squares in rho. A few labels that agree with their
#: predictions do not show that these are always right: with one square, 20 to 200 labels covered
#: 0.86 in the worst case, with two 0.91, with three 0.93 to 0.95.
PSEUDO = 3.0


#: Factor of the variance of templates.
_TEMPLATE_FACTOR = 2.0
#: The iteration for c ends when no share moves by more than this. Six steps are typical, more are
#: needed where labels and the estimate without them disagree.
_TOLERANCE, _MOST_STEPS = 1e-4, 50


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
    clusters = _joined_codes([s.clusters for s in samples])
    strata = _joined_codes([s.strata for s in samples])
    options = replace(options, variance_strata=strata, fpc=None)
    place = Place(n_threads)
    return estimate_points(model, points, joined_bags(samples, used), options, clusters, place)


def _joined_codes(parts: Sequence[Indices | None]) -> Indices | None:
    """Return codes of consecutive samples, which have none in common but all begin at zero."""
    known = [codes for codes in parts if codes is not None]
    if len(known) < len(parts):
        return None
    starts = offsets_of(np.array([codes.max() + 1 for codes in known], dtype=np.int64))
    return np.concatenate([c + s for c, s in zip(known, starts[:-1], strict=True)])


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
    matching = model.matching
    return matching.combine(parts, model.row_map) if isinstance(matching, Composite) else parts[0]


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
    effects = _design_effects(sample, mean, base.target)
    of_labels, shared = _label_covariance(mean, sample, base.target, effects)
    if not np.isfinite(covariance).all():  # a bag of one instance or cluster
        return mean, of_labels
    c = mean
    for _ in range(_MOST_STEPS):
        if sample.selection is None:
            shared = _at_most(shared, covariance, of_labels)
        total = covariance + of_labels - 2.0 * shared
        gain = (covariance - shared) @ np.linalg.pinv(total, rcond=1e-10, hermitian=True)
        previous, c = c, np.asarray(centre + gain @ (mean - centre))
        if np.abs(c - previous).max() <= _TOLERANCE:
            break
        of_labels, shared = _label_covariance(onto_simplex(c), sample, base.target, effects)
    return c, np.asarray(covariance - gain @ (covariance - shared).T)


def _design_effects(sample: LabelledSample, mean: Array, target: str) -> Array:
    """Return the design effects of the shares among labels, whose mean is known, (k,)."""
    influence = np.zeros((sample.size, len(mean)))
    w = sample.label_weights
    influence[sample.positions] = w[:, None] * (sample.one_hot - mean)
    independent = _variance(sample.one_hot, w) / sample.label_size
    return sample.design_effect(influence, independent, target)


def _label_covariance(
    prevalence: Array, sample: LabelledSample, target: str, effects: Array
) -> tuple[Array, Array]:
    """Return the covariance of label shares, and with the estimate without labels, (k, k) each."""
    a = smoothed(prevalence, sample.label_size)
    multinomial = np.diag(a) - np.outer(a, a)
    scale = np.sqrt(effects)
    of_labels = np.outer(scale, scale) * multinomial / sample.label_size
    scale = np.sqrt(np.maximum(effects - 1.0, 0.0) * sample.shared_clusters)
    shared = np.outer(scale, scale) * multinomial / sample.label_size
    if sample.selection is not None:
        in_bag = multinomial / sample.bag_size
        if target == "population":
            shared = in_bag
        else:
            of_labels = of_labels - in_bag
    return of_labels, shared


def _at_most(shared: Array, *covariances: Array) -> Array:
    """Return the covariance of two estimates, none of whose variances it exceeds, (k, k)."""
    known = np.diag(shared)
    least = np.min([np.diag(each) for each in covariances], axis=0)
    scale = np.sqrt(np.minimum(1.0, least / np.where(known > 0.0, known, 1.0)))
    return np.asarray(np.outer(scale, scale) * shared)


def label_shift_shares(
    estimate: Array,
    sample: LabelledSample,
    base: Estimate,
    merging: Merging,
    options: Options,
) -> Shares:
    """Return the shares of groups of classes under label shift, with intervals.

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
    if options.target == "population":  # not narrower than the intervals of a bag with all labels
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
