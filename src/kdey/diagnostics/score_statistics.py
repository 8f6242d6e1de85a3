r"""What the fit check computes: densities, kernel distances, local p-values, and null bags.

**Class densities** of the posteriors, at new points and (leave-one-out) at the training points. A
density that includes a training point's own kernel is higher at this point than at any point of a
bag. With that kernel left out, densities of training points and of a bag's points are comparable.

**Kernel distance** between a bag and its fitted mixture. With mean kernels
:math:`\mu(l) = E\, K(X, l)` at landmarks l, the statistic is

.. math:: \sum_l \Big(\sum_j w_j K(x_j, l) - \sum_i \alpha_i \mu_i(l)\Big)^2,

the squared maximum mean discrepancy (Gretton et al., 2012) with a sum over landmarks in place of an
integral. It detects a class that moved to the place of another, which the density under the mixture
does not.

**Local p-value** of a point: the share of the fitted mixture whose density is no higher,

.. math:: u(x) = \sum_i \alpha_i P_i\{p_\alpha(X) \le p_\alpha(x)\},

which is uniform for points of the mixture. If a share s of the bag comes from elsewhere, where
densities are low, then the distribution F of the bag's local p-values is F(t) = (1 - s) t + s G(t),
so that (F(t) - t) / (1 - t) <= s for every t: the largest excess is a lower bound on s.

**Null bags** are bags in which nothing but the prevalence differs from training. A null bag has the
size and the prevalence of the bag that is checked, and its instances are training points. The
training points, with which the check compares a bag, are themselves a sample. We therefore draw
each null bag from a bootstrap sample of the training classes, so that the null distribution
reflects both the size of the bag and that of the training set. Where training points were drawn in
clusters, whole clusters are drawn for that sample, and held-out densities leave out all kernels of
the point's own cluster.

Null bag number b uses the same random numbers whatever the prevalence and size: one number per
instance chooses its class and its place in the class, and b has one bootstrap sample of the
training set. The null bags of a bag therefore do not depend on the other bags that are checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey._display import warn
from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.intervals.bootstrap import TrainingReplicates
from kdey.kernels import DEFAULT_SHRINKAGE
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture
from kdey.posteriors import TrainingPosteriors
from kdey.rows.kernel import ClassReferences, KernelSpec, reference_order

#: The Gaussian kernel on the posteriors themselves (no transform).
DEFAULT_KERNEL = KernelSpec(0.1, "gaussian", DEFAULT_SHRINKAGE)
#: Densities are mean kernels in [0, 1]. We add this floor before taking logarithms, so that a
#: single point far from everything cannot dominate a mean of logarithms.
FLOOR = 1e-3
#: Numbers of a temporary array (16 MB).
_CHUNK = 2_000_000
#: The same for kernels to landmarks, which are made faster where they stay in the cache (1 MB).
_TILE = 1 << 17
#: Approximate number of landmarks in all, and smallest number for each class; the smallest number
#: gives way where there are so many classes that it would make more than ``MOST_LANDMARKS``.
N_LANDMARKS = 200
MIN_PER_CLASS = 8
MOST_LANDMARKS = 800
#: Width of the kernel of the distance, in bandwidths of the densities.
RELATIVE_WIDTH = 2.0
#: Directions in which the kernels of landmarks vary less than this, relative to the largest, are
#: left out: they hold less than the distances of null bags differ by.
SMALLEST_DIRECTION = 1e-6
#: Up to this number of classes, comparing with each class in turn is faster than a search.
_FEW_CLASSES = 12


@dataclass(frozen=True)
class Densities:
    """Class densities of m points, stored relative to the largest of each point.

    Attributes
    ----------
    rows : array of shape (m, k)
        Densities relative to the largest of each row, which is one.
    scales : array of shape (m,)
        Logarithms of the largest densities: the density is ``rows * exp(scales)``.
    """

    rows: Array
    scales: Array

    @cached_property
    def _unscaled(self) -> Array:
        """The densities themselves, shape (m, k)."""
        return self.rows * np.exp(self.scales)[:, None]

    @classmethod
    def from_logs(cls, logs: Array) -> Densities:
        """Return densities from their logarithms (m, k), in which -inf stands for zero."""
        largest = logs.max(axis=1)
        scales = np.where(np.isneginf(largest), 0.0, largest)
        return cls(np.exp(logs - scales[:, None]), scales)

    def floored_log(self, prevalences: Array) -> Array:
        r"""Return log(p_alpha + floor) at all points for several mixtures.

        Parameters
        ----------
        prevalences : array of shape (n_prevalences, k)

        Returns
        -------
        array of shape (m, n_prevalences)
        """
        mixed = self._unscaled @ prevalences.T
        return np.asarray(np.log(np.add(mixed, FLOOR, out=mixed), out=mixed))

    def mean_floored_log(self, prevalences: Array, bags: Bags) -> Array:
        """Return the mean of log(p_alpha + floor) over each bag under its own mixture.

        Parameters
        ----------
        prevalences : array of shape (n_bags, k)
        bags : Bags
            Over these m points.

        Returns
        -------
        array of shape (n_bags,)
        """
        out = np.empty(len(bags))
        for part in bags.runs(_CHUNK // self.rows.shape[1]):
            sub = bags[part]
            mixed = np.einsum(
                "sk,sk->s",
                self._unscaled[sub.indices],
                np.repeat(prevalences[part], sub.sizes, axis=0),
            )
            logs = np.log(mixed + FLOOR)
            weights = np.ones(len(logs)) if sub.weights is None else sub.weights
            sums = np.add.reduceat(weights * logs, sub.offsets[:-1])
            out[part] = sums / np.add.reduceat(weights, sub.offsets[:-1])
        return out


@dataclass(frozen=True, eq=False)
class TrainingDensities:
    """The class densities, with the leave-one-out densities of the training points.

    Attributes
    ----------
    references : ClassReferences
        Training points sorted by class.
    held_out : Densities
        Densities of every reference, without its own kernel, or those of its cluster.
    clusters : int64 array of shape (n,) or None
        Number of the cluster of each reference.
    """

    references: ClassReferences
    held_out: Densities
    clusters: Indices | None = None

    @classmethod
    def fit(
        cls, training: TrainingPosteriors, n_classes: int, kernel: KernelSpec, n_threads: int = 1
    ) -> TrainingDensities:
        """Return the densities of training posteriors under a kernel."""
        references = kernel.fit_quietly(training, n_classes)
        if training.clusters is None:
            return cls(references, Densities.from_logs(_held_out_logs(references, n_threads)))
        clusters = training.clusters[reference_order(training)]
        logs = _other_cluster_logs(references, clusters, n_threads)
        return cls(references, Densities.from_logs(logs), clusters)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return len(self.references.offsets) - 1

    @cached_property
    def class_weights(self) -> Array:
        """Weight of each reference within its class, summing to one per class, shape (n,)."""
        weights = self.references.weights
        w = np.ones(len(self.references.points)) if weights is None else weights
        return np.asarray(w / np.repeat(np.exp(self.references.log_mass), self.counts))

    @cached_property
    def counts(self) -> Indices:
        """Number of references of each class, shape (k,)."""
        return np.diff(self.references.offsets)

    @cached_property
    def labels(self) -> Indices:
        """Class of each reference, shape (n,)."""
        return np.repeat(np.arange(self.n_classes), self.counts)

    def at(self, posteriors: NDArray[Any], n_threads: int = 1) -> Densities:
        """Return the densities of new points, posteriors of shape (m, k)."""
        refs = self.references
        logs = refs.log_means(refs.coordinates(posteriors), refs.bandwidth, n_threads)
        return Densities.from_logs(logs)

    def class_means(self, values: Array) -> Array:
        """Return the class means, shape (k, ...), of values of the references, (n, ...)."""
        ends = pairwise(self.references.offsets)
        return np.stack([self.class_weights[a:b] @ values[a:b] for a, b in ends])

    def expected_log(self, prevalences: Array) -> Array:
        """Return the mean of log(p_alpha + floor) over points drawn from p_alpha.

        Parameters
        ----------
        prevalences : array of shape (n, k)

        Returns
        -------
        array of shape (n,)
        """
        step = max(1, _CHUNK // len(self.references.points))
        out = np.empty(len(prevalences))
        for start in range(0, len(prevalences), step):
            part = prevalences[start : start + step]
            means = self.class_means(self.held_out.floored_log(part))
            out[start : start + step] = np.einsum("bk,kb->b", part, means)
        return out

    @cached_property
    def landmarks(self) -> Array:
        """Evenly spaced training points of every class, shape (n_landmarks, d)."""
        points = self.references.points[_landmark_positions(self)]
        return np.asarray(points, dtype=np.float64)

    @cached_property
    def _basis(self) -> Array:
        """An orthonormal basis of the directions in which kernels of landmarks vary, (n, r)."""
        width = RELATIVE_WIDTH * self.references.bandwidth
        values, vectors = np.linalg.eigh(_kernels(self.landmarks, self.landmarks, width))
        return np.ascontiguousarray(vectors[:, values > SMALLEST_DIRECTION * values[-1]])

    @cached_property
    def features(self) -> Array:
        """Features of the references, shape (n, r); see :meth:`embed`."""
        return self._features(self.references.points)

    @cached_property
    def _feature_means(self) -> Array:
        return self.class_means(self.features)

    def embed(self, posteriors: NDArray[Any]) -> Array:
        """Return features of points (m, k) whose differences have the length of kernel distances.

        They are the kernels to the landmarks in a basis of the directions in which the kernels of
        landmarks vary. There are fewer of them than landmarks, because kernels to neighbouring
        landmarks are nearly the same.
        """
        return self._features(self.references.coordinates(posteriors))

    def _features(self, points: NDArray[np.floating]) -> Array:
        width = RELATIVE_WIDTH * self.references.bandwidth
        out = np.empty((len(points), self._basis.shape[1]))
        step = max(1, _TILE // len(self.landmarks))
        for start in range(0, len(points), step):
            part = points[start : start + step]
            out[start : start + step] = _kernels(part, self.landmarks, width) @ self._basis
        return out

    def distance(self, features: Array, bags: Bags, prevalences: Array) -> Array:
        """Return the squared distances of bags from their mixtures, shape (n_bags,).

        Parameters
        ----------
        features : array of shape (n_points, r)
            Features of the points that bags are made of.
        bags : Bags
            Over these points.
        prevalences : array of shape (n_bags, k)
            The mixture that each bag is compared with.

        Returns
        -------
        array of shape (n_bags,)
        """
        gaps = bags.mean(features) - prevalences @ self._feature_means
        return np.asarray((gaps**2).sum(axis=1))


def warn_single(training: TrainingDensities, classes: NDArray[Any]) -> None:
    """Warn if a class has one training instance, from which its spread cannot be estimated."""
    single = np.asarray(classes)[training.counts == 1].tolist()
    if single:
        warn(
            f"class {', '.join(map(repr, single[:5]))} has one training instance, which does not "
            "show how its instances vary: statements about this class are guesses. Add labelled "
            "instances of it",
            UserWarning,
        )


def fit_prevalences(
    densities: Densities, bags: Bags, n_threads: int = 1, start: Array | None = None
) -> Array:
    """Return the maximum likelihood prevalences of bags, shape (n_bags, k).

    Parameters
    ----------
    densities : Densities
        Of m points.
    bags : Bags
        Over these points.
    n_threads : int
    start : array of shape (n_bags, k), optional
        Where the solver starts.

    Returns
    -------
    array of shape (n_bags, k)
    """
    problem = MixtureLikelihood(densities.rows, bags)
    return solve_mixture(problem, tol=1e-7, start=start, n_threads=n_threads).prevalence


def few_per_class(training: TrainingPosteriors, n_classes: int, most: int) -> TrainingPosteriors:
    """Return at most about ``most`` training posteriors, the same number of each large class.

    A class loses instances only if it has more than its even share of ``most``, in which case we
    draw from it at random, always with the same seed.

    Parameters
    ----------
    training : TrainingPosteriors
    n_classes : int
    most : int

    Returns
    -------
    TrainingPosteriors
    """
    labels = training.labels
    if len(labels) <= most:
        return training
    usable = labels >= 0 if training.weights is None else training.weights > 0
    counts = np.bincount(labels[usable], minlength=n_classes)
    limit = _even_share(counts, most)
    rng = np.random.default_rng(0)
    drawn = [
        rng.choice(np.flatnonzero((labels == i) & usable), min(n, limit), replace=False)
        for i, n in enumerate(counts)
    ]
    rows = np.sort(np.concatenate(drawn))
    return TrainingPosteriors(
        training.required()[rows],
        labels[rows],
        None if training.weights is None else training.weights[rows],
        None if training.folds is None else training.folds[rows],
        rows if training.instances is None else training.instances[rows],
        None if training.clusters is None else training.clusters[rows],
    )


def _even_share(counts: Indices, most: int) -> int:
    """Return the largest n, at least two, for which sum(min(counts, n)) <= most."""
    ascending = np.sort(counts)
    below = np.concatenate([[0], np.cumsum(ascending)[:-1]])
    shares = (most - below) // np.arange(len(counts), 0, -1)
    # The classes that are smaller than an even share of the rest are kept whole.
    cut = np.flatnonzero(shares < ascending)
    return max(2, int(shares[cut[0]])) if len(cut) else int(ascending[-1])


def _held_out_logs(references: ClassReferences, n_threads: int) -> Array:
    """Return the leave-one-out log densities of the references, shape (n, k)."""
    refs = references
    n, counts = len(refs.points), np.diff(refs.offsets)
    labels = np.repeat(np.arange(len(counts)), counts)
    sums = refs.packed(n_threads).log_sums(
        refs.points, refs.bandwidth, exclude=np.arange(n), n_threads=n_threads
    )[0]
    mass = np.exp(refs.log_mass)
    weights = np.ones(n) if refs.weights is None else refs.weights
    remaining = np.tile(mass, (n, 1))
    remaining[np.arange(n), labels] = np.where(counts[labels] > 1, mass[labels] - weights, 1.0)
    return np.asarray(sums - np.log(remaining))


def _other_cluster_logs(references: ClassReferences, clusters: Indices, n_threads: int) -> Array:
    """Return the log densities of the references by those of other clusters, shape (n, k).

    The neighbours of a point in its own cluster are nearer than those of a new instance.
    """
    refs, k = references, references.n_classes
    sums = np.exp(refs.packed(n_threads).log_sums(refs.points, refs.bandwidth)[0])
    weights = np.ones(len(refs.points)) if refs.weights is None else refs.weights
    labels = np.repeat(np.arange(k), np.diff(refs.offsets))
    remaining = np.tile(np.exp(refs.log_mass), (len(refs.points), 1))
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    for members in np.split(order, starts[1:]):
        own = np.zeros((len(members), k))
        own[np.arange(len(members)), labels[members]] = weights[members]
        points = refs.points[members]
        sums[members] -= _kernels(points, points.astype(np.float64), refs.bandwidth) @ own
        remaining[members] -= own.sum(axis=0)
    # What is left of a class that is nowhere else, or far away, is rounding.
    known = remaining > 1e-9 * np.exp(refs.log_mass)
    means = np.where(known, np.maximum(sums, 0.0), 0.0) / np.where(known, remaining, 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(means))


def _landmark_positions(training: TrainingDensities) -> Indices:
    """Return the positions of evenly spaced references of every class."""
    k = training.n_classes
    per_class = max(1, min(max(MIN_PER_CLASS, N_LANDMARKS // k), MOST_LANDMARKS // k))
    starts, counts = training.references.offsets[:-1], training.counts
    positions = [
        start + np.unique(np.linspace(0, n - 1, min(per_class, n)).astype(np.int64))
        for start, n in zip(starts, counts, strict=True)
    ]
    return np.concatenate(positions)


def _kernels(points: NDArray[np.floating], landmarks: Array, width: float) -> Array:
    """Return Gaussian kernels between points (m, d) and landmarks, shape (m, n_landmarks)."""
    x = np.asarray(points, dtype=np.float64)
    squares = (x**2).sum(axis=1)[:, None] + (landmarks**2).sum(axis=1)
    squares -= 2.0 * (x @ landmarks.T)
    np.maximum(squares, 0.0, out=squares)
    squares *= -0.5 / width**2
    return np.asarray(np.exp(squares, out=squares))


def local_p_values(
    training: TrainingDensities, bag: Densities, prevalence: Array
) -> tuple[Array, Array]:
    """Return the local p-values of the bag's points and of the training points.

    Parameters
    ----------
    training : TrainingDensities
    bag : Densities
        Of the bag's m points.
    prevalence : array of shape (k,)
        The fitted mixture.

    Returns
    -------
    bag : array of shape (m,)
    training : array of shape (n,)
    """
    alpha = prevalence[None]
    reference = training.held_out.floored_log(alpha)[:, 0]
    mass = training.class_weights * prevalence[training.labels]
    order = np.argsort(reference, kind="stable")
    below = np.concatenate([[0.0], np.cumsum(mass[order])])
    ordered = reference[order]

    def share(values: Array) -> Array:
        positions = np.searchsorted(ordered, values, side="right")
        return np.asarray(np.minimum(below[positions] / below[-1], 1.0))

    return share(bag.floored_log(alpha)[:, 0]), share(reference)


@dataclass(frozen=True, eq=False)
class NullBags:
    """A source of null bags.

    Attributes
    ----------
    training : TrainingDensities
    seed : int
        At least zero.
    largest : int
        Number of instances of the largest bag.
    """

    training: TrainingDensities
    seed: int
    largest: int
    _draws: dict[range, tuple[Array, NDArray[np.int32]]] = field(default_factory=dict, repr=False)

    def draw(
        self,
        prevalences: Array,
        sizes: Indices,
        numbers: range,
        weights: list[Array] | None = None,
    ) -> Bags:
        """Return null bags, as bags over the training points.

        Parameters
        ----------
        prevalences : array of shape (n_bags, k)
        sizes : int64 array of shape (n_bags,)
        numbers : range
            Which null bags to draw for each of the bags.
        weights : list of n_bags arrays, optional
            Weights of the instances of each bag; null bags have them too, in a random order.

        Returns
        -------
        Bags
            All null bags of the first bag, then those of the second, and so on. Unweighted bags
            that are larger than the training set are given by the number of times that each
            training point was drawn.
        """
        (uniform, resampled), n = self._random_numbers(numbers), len(self.training.labels)
        edges = np.cumsum(prevalences, axis=1)
        edges /= edges[:, -1:]
        before = np.concatenate([np.zeros((len(edges), 1)), edges[:, :-1]], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):  # absent classes are never chosen
            # Within the interval of its class a number is uniform again, and chooses the place.
            slopes = self.training.counts / (edges - before)
            shifts = self.training.references.offsets[:-1] - slopes * before
        parts = [
            _positions(uniform[:, :size], resampled, edges[bag], slopes[bag], shifts[bag]).ravel()
            for bag, size in enumerate(sizes)
        ]
        indices = np.concatenate(parts).astype(np.int64)
        n_null = len(numbers)
        null_sizes = np.repeat(sizes, n_null)
        offsets = offsets_of(null_sizes)
        if weights is None:
            bags = Bags(indices, offsets, n)
            return _counted(bags) if offsets[-1] > n * len(null_sizes) else bags
        orders = self._stream(numbers, 2).random((self.largest, n_null), dtype=np.float32).T
        shuffled = [
            w[np.argsort(order[: len(w)], kind="stable")] for w in weights for order in orders
        ]
        return Bags(indices, offsets, n, np.concatenate(shuffled))

    def _random_numbers(self, numbers: range) -> tuple[Array, NDArray[np.int32]]:
        """Return the random numbers of some null bags, which are drawn once.

        These are uniform numbers that choose the class of each instance and its place in the class,
        shape (n_null, size), and a bootstrap sample of the training points of each class, as
        positions of references, shape (n_null, n).
        """
        if numbers not in self._draws:
            # Instances come first in the shape, so that small bags use the first numbers of large
            # ones: the null bags of a bag do not depend on the largest.
            uniform = self._stream(numbers, 0).random((self.largest, len(numbers)))
            if self.training.clusters is None:
                resampled = self._resample(self._stream(numbers, 1), len(numbers))
            else:
                resampled = self._resample_clusters(numbers)
            self._draws[numbers] = np.ascontiguousarray(uniform.T), resampled
        return self._draws[numbers]

    def _stream(self, numbers: range, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, numbers.start, purpose])

    def _resample(self, rng: np.random.Generator, n_null: int) -> NDArray[np.int32]:
        """Return bootstrap samples of every class, as positions of references, (n_null, n)."""
        training = self.training
        labels, counts = training.labels, training.counts
        starts = training.references.offsets[:-1]
        uniform = rng.random((n_null, len(labels)))
        if training.references.weights is None:
            drawn = starts[labels] + (uniform * counts[labels]).astype(np.int64)
        else:
            # The weights of class i fill the interval from i to i + 1.
            edges = np.cumsum(training.class_weights)
            ends = edges[starts + counts - 1]
            first = np.concatenate([[0.0], ends[:-1]])
            drawn = np.searchsorted(
                edges, first[labels] + uniform * (ends - first)[labels], side="right"
            )
        last = (starts + counts - 1)[labels]
        return np.asarray(np.clip(drawn, starts[labels], last), dtype=np.int32)

    def _resample_clusters(self, numbers: range) -> NDArray[np.int32]:
        """As :meth:`_resample`, of whole clusters.

        Every class gets the instances of its drawn clusters, each about as often as the other
        instances of its cluster.
        """
        training = self.training
        counts, starts = training.counts, training.references.offsets[:-1]
        data = TrainingPosteriors(
            None, training.labels, training.class_weights, clusters=training.clusters
        )
        replicates = TrainingReplicates(data, self.seed)
        # The weights of class i fill the interval from i to i + 1, which is cut evenly.
        places = np.arange(len(training.labels)) - starts[training.labels]
        targets = training.labels + (places + 0.5) / counts[training.labels]
        last = (starts + counts - 1)[training.labels]
        drawn = [np.searchsorted(np.cumsum(replicates(b)), targets) for b in numbers]
        return np.asarray(np.clip(drawn, starts[training.labels], last), dtype=np.int32)


def _positions(
    uniform: Array, resampled: NDArray[np.int32], edges: Array, slopes: Array, shifts: Array
) -> NDArray[np.int32]:
    """Return the training points of the null bags of one bag, shape (n_null, size).

    The classes fill the intervals between ``edges``, shape (k,); ``slopes`` and ``shifts`` map the
    interval of a class to its places among the references.
    """
    n = resampled.shape[1]
    code = _choose_classes(edges, uniform)
    place = (slopes[code] * uniform + shifts[code]).astype(np.int64)
    np.clip(place, 0, n - 1, out=place)  # rounding
    place += (np.arange(len(uniform)) * n)[:, None]
    return np.asarray(resampled.ravel()[place])


def _choose_classes(edges: Array, uniform: Array) -> Indices:
    """Return the class of each number: the first whose edge is above it."""
    last = int(np.searchsorted(edges, 1.0))  # the last class of positive prevalence
    if last >= _FEW_CLASSES:
        return np.asarray(np.minimum(np.searchsorted(edges, uniform, side="right"), last))
    code = np.zeros(uniform.shape, dtype=np.int64)
    for edge in edges[:last]:
        code += uniform >= edge
    return code


def _counted(bags: Bags) -> Bags:
    """Return unweighted bags with each point once, weighted by the times that it occurs."""
    n = bags.pool_size
    owner = np.repeat(np.arange(len(bags)), bags.sizes)
    counts = np.bincount(owner * n + bags.indices, minlength=len(bags) * n)
    drawn = np.flatnonzero(counts)
    offsets = np.searchsorted(drawn, np.arange(len(bags) + 1) * n)
    return Bags(drawn % n, offsets.astype(np.int64), n, counts[drawn].astype(np.float64))
