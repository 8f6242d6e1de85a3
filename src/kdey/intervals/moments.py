r"""The moment equation, on which every analytic interval is based.

Let :math:`\phi(x)` be any r numbers per instance, q their mean in the bag and column l of T their
mean among the training instances of class l. Under label shift

.. math:: E[q] = T \alpha

whatever :math:`\phi` is, so that smoothed densities, miscalibrated posteriors and the training
prior cause no bias. ACC and PACC solve this equation, with the decision or the posterior as
:math:`\phi`. For the likelihood methods :math:`\phi` are calibrated posteriors adapted to the
estimate,

.. math:: \phi_i(x) = \frac{\alpha_i D_i(x)}{\sum_l \alpha_l D_l(x)}

which is the score of the likelihood up to a factor per class. The equation holds at every alpha, so
neither the error of the alpha inside :math:`\phi` nor that of D has an effect of first order.

With m instances in the bag and n_l labels of class l, the error of the equation at the true
prevalence has covariance

.. math:: V(\alpha) = \sum_l \frac{\alpha_l}{m} C_l + \sum_l \frac{\alpha_l^2}{n_l} \tilde C_l
          \;\Bigl[ + \frac{1}{m} T (\operatorname{diag} \alpha - \alpha \alpha') T' \Bigr]

where C_l is the covariance of :math:`\phi` within class l, and the last term is there if the target
is the population and not the bag. A finite population of which the bag is a share f has it times
1 - f: the bag itself is the limit. With weights or clusters m is the effective size divided by the
design effect of :math:`T^{-1} \phi` (``SampledBag.design_effect``). Few labels make C_l
unreliable; the constants below say how we regularise it, and :math:`\tilde C_l` what we add for
the classifier.

**Training clusters.** Where training instances were drawn in clusters, the errors of the templates
are those of the sums :math:`s_c(\alpha) = \sum_l \alpha_l \sum_{i \in c, l} w_i (\phi_i - T_l)`
over the instances of a cluster, which may be of several classes: the second term becomes
:math:`\sum_c s_c s_c'`, each class with the factor that makes it unbiased where the instances of a
cluster are alike (C / (C - 1) for C equal clusters), and the pseudo-observations are those of the
number of independent instances with the same variance.

:class:`ClassRows` are the rows of the training instances as if these were new. A training instance
is part of the templates that produce its row, and would look better placed than a new instance.
Kernel densities therefore leave the instance's own kernel out of its row; for methods whose
templates are a few numbers per class the effect is of order 1 / n, and we use the plain row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices, cluster_factors, joined_clusters, offsets_of
from kdey.posteriors import TrainingPosteriors
from kdey.rows import RowMap
from kdey.rows.kernel import reference_order

#: Spreads are computed from about 2,000 rows in all, and from at least 60 of each class; means use
#: all rows.
SPREAD_ROWS, SPREAD_ROWS_PER_CLASS = 2_000, 60
#: With more classes than this, covariances within classes are not held (``many_classes.py``), and
#: they are computed from so many rows of each.
MOST_CLASSES, FEWER_ROWS_PER_CLASS = 128, 20
#: Largest number of rows per class that is computed at all; with more, the pass over all pairs of
#: training instances costs too much.
MAX_ROWS_PER_CLASS = 5_000


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Training rows sorted by class.

    Attributes
    ----------
    rows : float32 array of shape (n, k)
        Densities relative to the largest of each row, or features. They are float32 because every
        bag needs a pass over all of them.
    offsets : int64 array of shape (k + 1,)
        Class l owns ``rows[offsets[l]:offsets[l + 1]]``.
    weights : array of shape (n,)
        Sum to one within each class.
    thin : int64 array of shape (n',)
        Positions of the rows from which spreads are computed.
    clusters : int64 array of shape (n,) or None
        Number of the cluster of each row, from 0; None if rows were drawn one by one.
    """

    rows: NDArray[np.float32]
    offsets: Indices
    weights: NDArray[np.floating]
    thin: Indices
    clusters: Indices | None = None

    @property
    def counts(self) -> Indices:
        """Number of rows of each class, shape (k,)."""
        return np.diff(self.offsets)

    @cached_property
    def owners(self) -> Indices:
        """Class of each row, shape (n,)."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def thinned(self) -> ClassRows:
        """The rows from which spreads are computed, with weights in double precision."""
        owners = self.owners[self.thin]
        offsets = offsets_of(np.bincount(owners, minlength=len(self.counts)))
        w = self.weights[self.thin].astype(np.float64)
        w = w / np.add.reduceat(w, offsets[:-1])[owners]
        return ClassRows(self.rows[self.thin], offsets, w, np.arange(len(w)))

    def means(self, values: Array) -> Array:
        """Return the mean of values (n, c) of the rows in each class, shape (c, k)."""
        return np.add.reduceat(values * self.weights[:, None], self.offsets[:-1]).T

    def covariances(self, values: Array) -> Array:
        """Return the covariance of values (n, c) of the rows within each class, (k, c, c)."""
        centred = values - self.means(values).T[self.owners]
        weighted = centred * self.weights[:, None]
        runs = [slice(a, b) for a, b in pairwise(self.offsets.tolist())]
        return np.array([weighted[run].T @ centred[run] for run in runs])

    def cluster_sums(self, values: Array) -> Array:
        """Return the errors of class means by cluster, shape (n_clusters, k, c).

        Sums of w (value - mean of the class) over the rows of each cluster and class, of values
        (n, c), times the root of the factor of the class.
        """
        shares = self.cluster_shares
        sums = np.zeros((shares.size, values.shape[1]))
        sums[self._cells[2]] = self._sums_of_cells(values)
        return sums.reshape(*shares.shape, -1) * np.sqrt(cluster_factors(shares))[:, None]

    def _sums_of_cells(self, values: Array) -> Array:
        """Return the sums of w (value - mean of the class) over rows of a cluster and a class."""
        order, starts, _ = self._cells
        weighted = (values - self.means(values).T[self.owners]) * self.weights[:, None]
        return np.asarray(np.add.reduceat(weighted[order], starts))

    def worth(self, values: Array, variances: Array) -> Array:
        """Return how many independent rows of each class would err as much as its rows, (k,).

        Parameters
        ----------
        values : array of shape (n, c)
            Of the rows.
        variances : array of shape (k,)
            Sums of the variances of the c values within each class.

        Returns
        -------
        array of shape (k,)
            Between one, for a class in a single cluster, and ``sizes``.
        """
        expected = np.maximum(variances / self.sizes, np.finfo(np.float64).tiny)
        classes, shares = self._cells[2] % len(self.counts), self.cluster_shares
        squares = (self._sums_of_cells(values) ** 2).sum(axis=1)
        found = np.bincount(classes, squares, len(self.counts)) * cluster_factors(shares)
        effects = np.maximum(found / expected, 1.0)
        several = 1.0 / (shares**2).sum(axis=0) > 1.5
        return np.where(several, np.clip(self.sizes / effects, 1.0, None), 1.0)

    @cached_property
    def _cells(self) -> tuple[Indices, Indices, Indices]:
        """An order of the rows by cluster and class, the starts of these runs, and their cells."""
        assert self.clusters is not None
        cell = self.clusters * len(self.counts) + self.owners
        order = np.argsort(cell, kind="stable")
        cells, starts = np.unique(cell[order], return_index=True)
        return order, starts, cells

    @cached_property
    def cluster_shares(self) -> Array:
        """Share of each cluster in the weight of each class, shape (n_clusters, k)."""
        assert self.clusters is not None
        k, n_clusters = len(self.counts), int(self.clusters.max()) + 1
        cell = self.clusters * k + self.owners
        flat = np.bincount(cell, weights=self.weights, minlength=n_clusters * k)
        return np.asarray(flat.reshape(n_clusters, k))

    @cached_property
    def cluster_freedom(self) -> Array:
        """Degrees of freedom of variances of cluster sums, shape (k + 1,); inf without clusters.

        Those of each class, the number of its clusters (of equal ones with the same variance) less
        one, and the most that all classes together have: one less for every set of classes that
        share no cluster with others, so C - 1, or C - k if every cluster has a single class.
        """
        k = len(self.counts)
        if self.clusters is None:
            return np.full(k + 1, np.inf)
        from scipy.sparse.csgraph import connected_components  # slow to import

        shares = self.cluster_shares
        together = (shares > 0).T.astype(np.float64) @ (shares > 0)
        n_sets, _ = connected_components(together, directed=False)
        every = 1.0 / (shares.mean(axis=1) ** 2).sum() - n_sets
        return np.maximum([*(1.0 / (shares**2).sum(axis=0) - 1.0), every], 1.0)

    def row_weights(self, shares: Array) -> Array:
        """Return the weight of each row in sum_l shares_l mean_l, shape (n,)."""
        return np.asarray(self.weights * shares[self.owners])

    @property
    def typical_size(self) -> float:
        """Harmonic mean of the sizes, which is small if one class is small."""
        return float(len(self.sizes) / (1.0 / self.sizes).sum())

    @cached_property
    def sizes(self) -> Array:
        """Effective number of rows of each class, 1 / sum w^2, shape (k,)."""
        squares = self.weights.astype(np.float64) ** 2
        return np.asarray(1.0 / np.add.reduceat(squares, self.offsets[:-1]))


def class_rows(
    row_map: RowMap,
    training: TrainingPosteriors,
    n_classes: int,
    moment_rows: Callable[[NDArray[np.floating]], Array],
    n_threads: int = 1,
) -> ClassRows:
    """Return the rows of the training instances, each as if the instance were new.

    Parameters
    ----------
    row_map : fitted row map
    training : TrainingPosteriors
    n_classes : int
    moment_rows : callable
        Turns rows of the map into densities on a common scale, or features.
    n_threads : int

    Returns
    -------
    ClassRows
    """
    w = np.ones(len(training.labels)) if training.weights is None else training.weights
    selected = selected_rows(training, n_classes)
    rows = moment_rows(row_map.new_rows(training, selected, n_threads))
    labels, w = training.labels[selected], w[selected]
    counts = np.bincount(labels, minlength=n_classes)
    offsets = offsets_of(counts)
    mass = np.bincount(labels, weights=w, minlength=n_classes)
    shares = (w / mass[labels]).astype(np.float32)
    per_class = SPREAD_ROWS_PER_CLASS if n_classes <= MOST_CLASSES else FEWER_ROWS_PER_CLASS
    thin = _spaced(offsets, max(SPREAD_ROWS // n_classes, per_class))
    clusters = None if training.clusters is None else joined_clusters(training.clusters[selected])
    return ClassRows(rows.astype(np.float32), offsets, shares, thin, clusters)


def selected_rows(training: TrainingPosteriors, n_classes: int) -> Indices:
    """Return the positions of the instances to use, sorted by class and evenly spaced in it."""
    order = reference_order(training)
    counts = np.bincount(training.labels[order], minlength=n_classes)
    offsets = offsets_of(counts)
    return np.asarray(order[_spaced(offsets, MAX_ROWS_PER_CLASS)])


def _spaced(offsets: Indices, most: int) -> Indices:
    """Return at most ``most`` evenly spaced positions of each class."""
    parts = [
        np.unique(np.linspace(start, stop - 1, min(most, stop - start)).astype(np.int64))
        for start, stop in pairwise(offsets.tolist())
    ]
    return np.concatenate(parts)


#: We add 0.75 pseudo-observations per class, spread evenly over the classes, because a class
#: without a single error among n instances may still have an error rate of order 1 / n.
PSEUDO_OBSERVATIONS = 0.75
#: The covariance of each class is averaged with this many observations of the pooled covariance:
#: that of a class with a handful of labels is hardly known.
POOLED_OBSERVATIONS = 5.0
#: The training rows come from classifiers that saw a part of the labels, the rows of a bag from one
#: that saw all. The two differ more the fewer labels a class has, and its features with them: in
#: templates we multiply the variance of feature i by 1 + (5 / n_i)^2.
UNSTABLE_LABELS = 5.0
#: Features are adapted to an estimate after adding this many instances, at least half a one of
#: every class.
ADAPTING_INSTANCES = 4.0
#: Singular values of T below this share of the largest count as zero.
CUTOFF = 1e-6


@dataclass(frozen=True, eq=False)
class Moments:
    r"""T and the covariances of the features within classes.

    Attributes
    ----------
    matrix : array of shape (r, k)
        T: the mean features of each class.
    covariances : array of shape (k, r, r)
        C_l: covariance of the features within class l, regularised.
    sizes : array of shape (k,)
        Number of training instances behind each column of T; inf if T is not learnt.
    freedom : array of shape (k,)
        Degrees of freedom of each covariance.
    training : ClassRows or None
        The rows that T was learnt from; None if it was not learnt.
    prevalence : array of shape (k,) or None
        The prevalence that densities are adapted to; None if the rows are features.
    projection : array of shape (r, c) or None
        Turns rows into features where these are linear combinations of the former.
    """

    matrix: Array
    covariances: Array
    sizes: Array
    freedom: Array
    training: ClassRows | None = None
    prevalence: Array | None = None
    projection: Array | None = None

    @cached_property
    def template_covariances(self) -> Array:
        r"""The matrices :math:`\tilde C_l` of the errors of templates, shape (k, r, r).

        With clusters: what the pseudo-observations add to ``cluster_errors``.
        """
        if not self.is_clustered:
            return unstable(self.covariances, self.sizes)
        share = PSEUDO_OBSERVATIONS * self.sizes / self.worth**2
        return unstable(share[:, None, None] * apart(self.matrix), self.worth)

    @property
    def is_clustered(self) -> bool:
        """Whether the training instances were drawn in clusters."""
        return self.training is not None and self.training.clusters is not None

    @property
    def cluster_freedom(self) -> Array:
        """Degrees of freedom of ``cluster_errors``, as :attr:`ClassRows.cluster_freedom`."""
        if self.training is None:
            return np.full(len(self.sizes) + 1, np.inf)
        return self.training.cluster_freedom

    @cached_property
    def cluster_errors(self) -> Array:
        """Errors of templates by cluster of the training instances, shape (c, k, r).

        With s = sum_l alpha_l errors_l, shape (c, r), the covariance of the error at alpha is s's.
        There are none without clusters (c = 0), and never more than the k r numbers of a cluster.
        """
        if not self.is_clustered:
            return np.zeros((0, len(self.sizes), len(self.matrix)))
        errors = self._steadied(self._cluster_sums())
        n, k, r = errors.shape
        if n <= k * r:
            return errors
        factor: Any = np.linalg.qr(errors.reshape(n, k * r), mode="r")
        return np.asarray(factor.reshape(-1, k, r))

    @property
    def cluster_spread(self) -> Array:
        """The same in coordinates of shares, z = T^-1 phi, shape (c, k, k): class l, share i."""
        return np.asarray(self.cluster_errors @ self.inverse.T)

    @cached_property
    def worth(self) -> Array:
        """Number of independent instances whose templates have errors of the same size, (k,)."""
        training = self.training
        if training is None or training.clusters is None:
            return self.sizes
        variances = np.trace(self.covariances, axis1=1, axis2=2)
        phi = features(training.rows, self.prevalence, self.projection)
        return training.worth(phi, variances)

    def _cluster_sums(self) -> Array:
        assert self.training is not None, "templates that are given have no error"
        phi = features(self.training.rows, self.prevalence, self.projection)
        return self.training.cluster_sums(phi)

    def _steadied(self, errors: Array) -> Array:
        """Return errors by cluster (c, k, r), raised as :func:`unstable` does covariances."""
        if errors.shape[2] != len(self.sizes):
            return errors
        raised = errors * np.sqrt(1.0 + (UNSTABLE_LABELS / self.worth) ** 2)
        return np.asarray(raised - raised.mean(axis=2, keepdims=True))

    @cached_property
    def inverse(self) -> Array:
        """The inverse of T, shape (k, r); a pseudo-inverse if classes cannot be distinguished."""
        return invert(self.matrix)

    @cached_property
    def spread(self) -> Array:
        """Entry (i, l): variance within class l of z_i, where z = T^-1 phi, shape (k, k)."""
        return self._variances(self.covariances)

    @cached_property
    def template_spread(self) -> Array:
        """The same of the errors of templates, shape (k, k)."""
        return self._variances(self.template_covariances)

    @cached_property
    def bias(self) -> Array:
        """Entry (i, l): covariance of z_i and z_l within class l, shape (k, k).

        It gives the bias of T^-1 q that comes from inverting an uncertain T.
        """
        half = self.covariances @ self.inverse.T  # (k, r, k)
        own = half[np.arange(len(half)), :, np.arange(len(half))]  # (k, r)
        return np.asarray(self.inverse @ own.T)

    def covariance(self, bag_shares: Array, mix: Array) -> Array:
        """Return the covariance of T^-1 q, shape (k, k); parameters as below."""
        total = self.feature_covariance(bag_shares, mix)
        return np.asarray(self.inverse @ total @ self.inverse.T)

    def feature_covariance(self, bag_shares: Array, mix: Array) -> Array:
        """Return the covariance of the error of q = T alpha, shape (r, r).

        Parameters
        ----------
        bag_shares : array of shape (k,)
            alpha_l / m.
        mix : array of shape (k,)
            alpha of the errors of templates; zeros leave them out.

        Returns
        -------
        array of shape (r, r)
        """
        total = np.tensordot(bag_shares, self.covariances, axes=1)
        total = total + np.tensordot(mix**2 / self.sizes, self.template_covariances, axes=1)
        if self.is_clustered:
            sums = mix @ self.cluster_errors
            total = total + sums.T @ sums
        return np.asarray(total)

    def inversion_bias(self, mix: Array) -> Array:
        """Return the bias of T^-1 q at a prevalence ``mix`` (k,) from an uncertain T, (k,)."""
        if not self.is_clustered:
            return np.asarray(self.bias @ (mix / self.sizes))
        spread = self.cluster_spread
        return np.asarray(np.einsum("cji,cj->i", spread, mix @ spread))

    def cross(self, other: Moments, mix: Array, other_mix: Array) -> Array:
        """Return the covariance of the errors of templates in T^-1 q of two bags, shape (k, k).

        Parameters
        ----------
        other : Moments
            Moments learnt from the same rows, adapted to another prevalence or not.
        mix, other_mix : arrays of shape (k,)
            The prevalences of the two.
        """
        whole = self.weighs_otherwise(other)
        return np.asarray(self.influences(mix, whole).T @ other.influences(other_mix, whole))

    def weighs_otherwise(self, other: Moments) -> bool:
        """Return whether the templates of two bags are of two strata: other weights of the rows."""
        assert self.training is not None, "templates that are given have no error"
        assert other.training is not None, "both were learnt from the same rows"
        return self.training.weights is not other.training.weights

    def influences(self, mix: Array, whole: bool = False) -> Array:
        """Return how much each row of the templates moves T^-1 q, shape (n', k), as rows show it.

        The products of two such arrays are covariances of the errors that two bags have in common.
        Bags that are estimated by the same templates have them at every prevalence. Where the
        training instances were drawn in clusters, a row stands for a cluster.

        Parameters
        ----------
        mix : array of shape (k,)
            The prevalence of the bag.
        whole : bool
            Whether to look at all rows, as bags must whose templates weigh them differently.
        """
        assert self.training is not None, "templates that are given have no error"
        if self.is_clustered:
            return np.asarray(mix @ self._cluster_sums() @ self.inverse.T)
        rows = self.training if whole else self.training.thinned
        z = features(rows.rows, self.prevalence, self.projection) @ self.inverse.T
        z = z - rows.means(z).T[rows.owners]
        if whole:
            return np.asarray(z * rows.row_weights(mix)[:, None])
        shares = mix[rows.owners] * np.sqrt(rows.weights / self.sizes[rows.owners])
        return np.asarray(z * shares[:, None])

    def _variances(self, covariances: Array) -> Array:
        half = self.inverse @ covariances  # (k, k, r): class l, then class i
        return np.asarray((half * self.inverse).sum(axis=2).T)


@dataclass(frozen=True, eq=False)
class MomentEquations:
    """The moment equations of many bags.

    Attributes
    ----------
    means : array of shape (n_bags, r)
        Mean features of each bag.
    estimates : array of shape (n_bags, k)
        The prevalences that the quantifier answers.
    sizes : array of shape (n_bags,)
        Effective sizes of the bags.
    bag_sizes : array of shape (n_bags, k)
        The same divided by the design effect of each class.
    units : array of shape (n_bags,)
        Degrees of freedom that the clusters leave; inf without clusters.
    moments : sequence of Moments
        One per bag, or a single one that all bags share.
    """

    means: Array
    estimates: Array
    sizes: Array
    bag_sizes: Array
    units: Array
    moments: Sequence[Moments]

    def at(self, bag: int) -> Moments:
        """Return the moments of one bag."""
        return self.moments[0 if len(self.moments) == 1 else bag]

    def centre(self, bag: int, mix: Array) -> Array:
        """Return T^-1 q of one bag without the bias that an uncertain T brings, shape (k,).

        It sums to one but may leave the simplex. ``mix`` (k,) is a prevalence near the truth.
        """
        moments = self.at(bag)
        return np.asarray(moments.inverse @ self.means[bag] - moments.inversion_bias(mix))

    def covariance(self, bag: int, mix: Array, unseen: float) -> Array:
        """Return the covariance of one bag's centre at the prevalence ``mix``, shape (k, k).

        ``unseen`` is the share of the population that is not in the bag, zero if the target is the
        bag itself.
        """
        moments, m = self.at(bag), float(np.min(self.bag_sizes[bag]))
        covariance = moments.covariance(mix / m, mix)
        return np.asarray(covariance + unseen * (np.diag(mix) - np.outer(mix, mix)) / m)

    def freedom(self, bag: int, mix: Array, unseen: float) -> Array:
        """Return the degrees of freedom of each class's variance (Satterthwaite), shape (k,)."""
        moments, m = self.at(bag), self.bag_sizes[bag]
        parts = mix / m[:, None] * moments.spread
        parts = parts + mix**2 / moments.sizes * moments.template_spread
        shared = ((mix @ moments.cluster_spread) ** 2).sum(axis=0)
        total = parts.sum(axis=1) + shared + unseen * mix * (1.0 - mix) / m
        shared_freedom = freedom_of_sums(moments.cluster_spread, mix, moments.cluster_freedom)
        uncertain = (parts**2 / moments.freedom).sum(axis=1) + shared**2 / shared_freedom
        degrees = total**2 / np.maximum(uncertain, np.finfo(np.float64).tiny)
        return np.asarray(np.minimum(np.maximum(degrees, 1.0), self.units[bag]))


def freedom_of_sums(spread: Array, mix: Array, freedom: Array) -> Array:
    """Return the degrees of freedom of the variance that clusters give each share, shape (..., k).

    Satterthwaite's number for the parts of the classes, at most that of all clusters.

    Parameters
    ----------
    spread : array of shape (..., c, k, k)
        As :attr:`Moments.cluster_spread`.
    mix : array of shape (..., k)
        The prevalence.
    freedom : array of shape (k + 1,)
        As :attr:`ClassRows.cluster_freedom`.
    """
    parts = mix[..., :, None] ** 2 * (spread**2).sum(axis=-3)  # class l, share i
    uncertain = (parts**2 / freedom[:-1, None]).sum(axis=-2)
    degrees = parts.sum(axis=-2) ** 2 / np.maximum(uncertain, np.finfo(np.float64).tiny)
    return np.asarray(np.clip(degrees, 1.0, freedom[-1]))


def features(
    rows: NDArray[np.floating], prevalence: Array | None, projection: Array | None = None
) -> Array:
    """Return phi of rows, shape (n', r); parameters as the attributes of :class:`Moments`."""
    values = rows.astype(np.float64, copy=False)
    phi = values if prevalence is None else adapted(values, prevalence)
    return np.asarray(phi if projection is None else phi @ projection.T)


def adapted(rows: NDArray[np.floating], prevalence: Array) -> Array:
    """Return posteriors adapted to a prevalence (k,), shape (m, k), from densities (m, k)."""
    joint = np.asarray(rows * prevalence)
    joint /= (rows @ prevalence)[:, None]
    return joint


def smoothed(prevalence: Array, size: Array | float, per_class: float = 0.5) -> Array:
    """Return prevalences (..., k) after adding ``per_class`` instances of every class.

    Parameters
    ----------
    prevalence : array of shape (..., k)
    size : array of shape (...,) or float
        Number of instances that each prevalence was estimated from.
    per_class : float

    Returns
    -------
    array of shape (..., k)
        Prevalences without zeros.
    """
    k = prevalence.shape[-1]
    n = np.asarray(size, dtype=np.float64)[..., None]
    return np.asarray((n * prevalence + per_class) / (n + per_class * k))


def adapting_prevalence(
    estimates: Array, sizes: Array | float, training: ClassRows | None
) -> Array:
    """Return the prevalences that densities are adapted to, shape (..., k).

    A prevalence far below 1 / n makes features of events that n training instances hardly show, so
    that their means would be noise: we smooth by the training size where it is the smaller.

    Parameters
    ----------
    estimates : array of shape (..., k)
    sizes : array of shape (...,) or float
        Effective sizes of the bags.
    training : ClassRows or None

    Returns
    -------
    array of shape (..., k)
    """
    largest = np.inf if training is None else training.typical_size
    per_class = max(0.5, ADAPTING_INSTANCES / estimates.shape[-1])
    return smoothed(estimates, np.minimum(sizes, largest), per_class)


def training_moments(training: ClassRows, prevalence: Array | None) -> Moments:
    """Return the moments from training rows.

    Parameters
    ----------
    training : ClassRows
    prevalence : array of shape (k,) or None
        The prevalence that densities are adapted to; None if the rows are features.

    Returns
    -------
    Moments
    """
    matrix = class_means(training, prevalence)
    phi = features(training.thinned.rows, prevalence)
    covariances = training.thinned.covariances(phi)
    return moments_of(training, prevalence, matrix, covariances)


def class_means(training: ClassRows, prevalence: Array | None) -> Array:
    """Return T, the mean features of each class, shape (r, k); parameters as above."""
    rows, w = training.rows, training.weights
    if prevalence is not None:
        w = w / (rows @ prevalence.astype(np.float32))
    runs = (slice(a, b) for a, b in pairwise(training.offsets.tolist()))
    matrix = np.array([w[run] @ rows[run] for run in runs], dtype=np.float64).T
    return matrix if prevalence is None else matrix * prevalence[:, None]


def moments_of(
    training: ClassRows, prevalence: Array | None, matrix: Array, covariances: Array
) -> Moments:
    """Return the moments from means and covariances of the training rows.

    Parameters
    ----------
    training : ClassRows
    prevalence : array of shape (k,) or None
        The prevalence that densities are adapted to; None if the rows are features.
    matrix : array of shape (r, k)
        T.
    covariances : array of shape (k, r, r)
        Before regularisation.

    Returns
    -------
    Moments
    """
    raised, sizes = regularised(covariances, matrix, training.sizes), training.sizes
    return Moments(matrix, raised, sizes, freedom_of(sizes), training, prevalence)


def bag_moments(rows: Array, weights: Array, prevalence: Array) -> Moments:
    """Return the moments without training rows, by the adapted posteriors of the bag itself.

    Every instance then belongs to each class with its posterior probability. The densities are
    assumed to be correct (EMQ without training posteriors), as they are in the observed
    information of a likelihood, so T has no uncertainty.

    Parameters
    ----------
    rows : array of shape (m, k)
        Densities of the bag's instances.
    weights : array of shape (m,)
        Weights of the instances, summing to one.
    prevalence : array of shape (k,)
        The prevalence that the densities are adapted to.

    Returns
    -------
    Moments
    """
    phi = adapted(rows, prevalence)
    membership = phi * weights[:, None]
    mass = np.maximum(membership.sum(axis=0), np.finfo(np.float64).tiny)
    membership /= mass
    observed = mass * weights.sum() / (weights**2).sum()
    matrix = np.asarray(phi.T @ membership)
    grams = np.array([(phi * column[:, None]).T @ phi for column in membership.T])
    within = grams - matrix.T[:, :, None] * matrix.T[:, None, :]
    covariances = regularised(within, matrix, np.maximum(observed, 1.0))
    # The densities are assumed to be right, so every instance has its say about every class: a
    # class that the bag lacks is not one of which nothing is known.
    freedom = np.full(len(observed), freedom_of(observed.sum()))
    return Moments(matrix, covariances, np.full(len(observed), np.inf), freedom)


def projected_moments(training: ClassRows, projection: Array) -> Moments:
    """Return the moments of linear combinations of rows whose class means are unit vectors.

    Parameters
    ----------
    training : ClassRows
    projection : array of shape (k, r)
        The derivative of an estimate by the mean row (``analytic.py``).

    Returns
    -------
    Moments
    """
    sizes, matrix = training.sizes, np.eye(len(projection))
    phi = features(training.thinned.rows, None, projection)
    covariances = regularised(training.thinned.covariances(phi), matrix, sizes)
    return Moments(matrix, covariances, sizes, freedom_of(sizes), training, None, projection)


def freedom_of(observed: Array) -> Array:
    """Return the degrees of freedom of covariances from so many observations, at least one."""
    return np.maximum(observed - 1.0, 1.0)


def regularised(covariances: Array, matrix: Array, observed: Array) -> Array:
    """Return covariances within classes (k, r, r) that few observations do not leave too small.

    Parameters
    ----------
    covariances : array of shape (k, r, r)
        Means of squared deviations, not corrected for the number of observations.
    matrix : array of shape (r, k)
        T.
    observed : array of shape (k,)
        Number of observations of each class.

    Returns
    -------
    array of shape (k, r, r)
        Unbiased estimates, averaged with the pooled covariance; the pseudo-observations are added.
    """
    own, common, pseudo, of_pooled = regularising_weights(observed)
    pooled = np.tensordot(of_pooled, covariances, axes=1)
    averaged = own[:, None, None] * covariances + common[:, None, None] * pooled
    return np.asarray(averaged + pseudo[:, None, None] * apart(matrix))


def regularising_weights(observed: Array) -> tuple[Array, Array, Array, Array]:
    """Return what a regularised covariance is made of, by numbers of observations (k,).

    Returns
    -------
    own, common, pseudo : arrays of shape (k,)
        Weights of the covariance of the class, of the pooled one, and of the pseudo-observations.
    of_pooled : array of shape (k,)
        Weights of the covariances in the pooled one.
    """
    several = observed > 1.5
    factor = np.where(several, observed / np.where(several, observed - 1.0, 1.0), 0.0)
    share = np.where(several, observed - 1.0, 0.0)
    n = np.where(several, observed, 0.0) + POOLED_OBSERVATIONS
    own = (n - POOLED_OBSERVATIONS) / n * factor
    of_pooled = share * factor / max(share.sum(), 1.0)
    return own, POOLED_OBSERVATIONS / n, PSEUDO_OBSERVATIONS / observed, of_pooled


def apart(matrix: Array) -> Array:
    """Return for each class l the mean over classes j of (T_j - T_l)(T_j - T_l)', (k, r, r)."""
    differences = matrix.T[None, :, :] - matrix.T[:, None, :]
    return np.asarray(differences.transpose(0, 2, 1) @ differences / len(matrix.T))


def unstable(covariances: Array, sizes: Array) -> Array:
    """Return covariances (k, r, r) with those features raised whose class has few labels.

    Features sum to one, so the result is projected to deviations that sum to zero. Feature i must
    belong to class i (r = k).
    """
    factor = unstable_factors(sizes, covariances.shape[1])
    if factor is None:
        return covariances
    raised = covariances * factor[:, None] * factor
    raised = raised - raised.mean(axis=1, keepdims=True)
    return np.asarray(raised - raised.mean(axis=2, keepdims=True))


def unstable_factors(sizes: Array, n_features: int) -> Array | None:
    """Return by what deviations of features are raised, shape (k,); None: they are not."""
    if not (np.isfinite(sizes).any() and n_features == len(sizes)):
        return None
    return np.asarray(np.sqrt(1.0 + (UNSTABLE_LABELS / sizes) ** 2))


def invert(matrix: Array) -> Array:
    """Return the inverse (k, r) of T (r, k), a pseudo-inverse if it is singular or nearly so."""
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return _pseudo_inverse(matrix)
    # The Frobenius norms bound the condition number from above, so most matrices need no SVD.
    condition = np.linalg.norm(matrix) * np.linalg.norm(inverse)
    if condition < 1.0 / CUTOFF:
        return np.asarray(inverse, dtype=np.float64)
    return _pseudo_inverse(matrix)


def _pseudo_inverse(matrix: Array) -> Array:
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    small = values < CUTOFF * values[0]
    return np.asarray((right.T / np.where(small, np.inf, values)) @ left.T)
