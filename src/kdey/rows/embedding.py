r"""Embedding rows: mean similarities between an instance and each class, for EDy, EDx and KMM.

A similarity s(x, y) that is positive definite (Gaussian, Laplacian), or a negative distance
:math:`-d(x, y)`, embeds a distribution as its mean similarity to every point. Two distributions
differ by the distance of their embeddings: the maximum mean discrepancy, which for a negative
distance is the energy distance (Sejdinovic et al., 2013).

With :math:`S_i(x)` the mean similarity between x and the training instances of class i,
:math:`B_{ij}` that between classes i and j, and bars for means over the classes, the row of x and
the templates are

.. math:: r_i(x) = S_i(x) - \bar S(x) - \bar B_i + \bar{\bar B} + c, \qquad
          G_{ij} = B_{ij} - \bar B_i - \bar B_j + \bar{\bar B} + c.

These are inner products with the mean of the class embeddings as origin. Moving the origin and
adding the constant c change no difference of two prevalences, so the minimiser over the simplex is
that of the literature; but G is positive semidefinite for negative distances too, and rows sum to a
constant, so that templates are class means of rows from which the prevalence can be recovered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from kdey.bags import Array, Indices
from kdey.posteriors import TrainingPosteriors
from kdey.rows import ArrayRows, RowMap, TuningEffort, class_means, fitted
from kdey.validation import check_choice, check_count, check_positive

ScipyMetric: TypeAlias = Literal["euclidean", "cityblock", "sqeuclidean"]
#: Similarities that are negative distances, by scipy's name of the distance.
DISTANCES: dict[str, ScipyMetric] = {"euclidean": "euclidean", "manhattan": "cityblock"}
#: Kernels with a width, by scipy's name of the distance that they decay with.
KERNELS: dict[str, ScipyMetric] = {"gaussian": "sqeuclidean", "laplacian": "cityblock"}
#: Numbers in memory at a time for similarities of instances to references.
_CHUNK = 1 << 22
#: Training instances whose pairwise distances give the median rule for the width.
_MEDIAN_ROWS = 1000


@dataclass(frozen=True, eq=False)
class AllPairs:
    """Similarities to every training instance, sorted by class.

    Attributes
    ----------
    spec : EmbeddingMap
        With a number as width.
    points : array of shape (n, d)
    offsets : int64 array of shape (k + 1,)
        Class i owns ``points[offsets[i]:offsets[i + 1]]``.
    weights : array of shape (n,)
    """

    spec: EmbeddingMap
    points: Array
    offsets: Indices
    weights: Array

    @property
    def mass(self) -> Array:
        """Total weight of each class, shape (k,)."""
        return np.asarray(np.add.reduceat(self.weights, self.offsets[:-1]))

    def similarities(self, points: Array) -> Array:
        """Return the mean similarity of points (m, d) to each class, shape (m, k)."""
        out = np.empty((len(points), len(self.offsets) - 1))
        for part in _chunks(len(points), len(self.points)):
            values = self._pairs(points[part], self.points) * self.weights
            out[part] = np.add.reduceat(values, self.offsets[:-1], axis=1)
        return out / self.mass

    @property
    def own(self) -> float:
        """The similarity of any point to itself."""
        return 0.0 if self.spec.similarity in DISTANCES else 1.0

    def _pairs(self, a: Array, b: Array) -> Array:
        name = self.spec.similarity
        if name in DISTANCES:
            return np.asarray(-cdist(a, b, DISTANCES[name]))
        width = float(self.spec.width)
        divisor = 2.0 * width**2 if name == "gaussian" else width
        return np.asarray(np.exp(-cdist(a, b, KERNELS[name]) / divisor))


@dataclass(frozen=True, eq=False)
class RandomFeatures:
    """Random Fourier features z(x) with s(x, y) = E[z(x) . z(y)], and their class means.

    Attributes
    ----------
    frequencies : array of shape (d, f)
        Drawn from the kernel's spectrum: normal for "gaussian", Cauchy for "laplacian".
    means : array of shape (2 f, k)
    mass : array of shape (k,)
        Total training weight of each class.
    """

    frequencies: Array
    means: Array
    mass: Array
    #: The similarity of any point to itself, as cos^2 + sin^2 is.
    own: ClassVar[float] = 1.0

    @classmethod
    def fit(
        cls, spec: EmbeddingMap, points: Array, labels: Indices, weights: Array, n_classes: int
    ) -> RandomFeatures:
        """Return drawn frequencies with the class means of training points (n, d)."""
        rng = np.random.default_rng(spec.seed)
        shape = (points.shape[1], max(1, int(spec.random_features or 0) // 2))
        draw = rng.standard_normal if spec.similarity == "gaussian" else rng.standard_cauchy
        mass = np.bincount(labels, weights=weights, minlength=n_classes).astype(np.float64)
        unfitted = cls(draw(shape) / float(spec.width), np.empty((2 * shape[1], 0)), mass)
        sums = np.zeros((2 * shape[1], n_classes))
        onehot = np.eye(n_classes)[labels] * weights[:, None]
        for part in _chunks(len(points), 2 * shape[1]):
            sums += unfitted._features(points[part]).T @ onehot[part]
        return replace(unfitted, means=sums / mass)

    def similarities(self, points: Array) -> Array:
        """Return the mean similarity of points (m, d) to each class, shape (m, k)."""
        out = np.empty((len(points), self.means.shape[1]))
        for part in _chunks(len(points), len(self.means)):
            out[part] = self._features(points[part]) @ self.means
        return out

    def _features(self, points: Array) -> Array:
        angles = points @ self.frequencies
        waves = np.hstack([np.cos(angles), np.sin(angles)])
        return np.asarray(waves / np.sqrt(self.frequencies.shape[1]))


Embedding: TypeAlias = AllPairs | RandomFeatures


@dataclass(frozen=True)
class EmbeddingMap(RowMap):
    """Embedding rows; the module docstring has the formulas.

    Attributes
    ----------
    similarity : {"manhattan", "euclidean", "gaussian", "laplacian"}
        The first two are negative distances.
    width : float or "median"
        Width h of a kernel: exp(-d^2 / 2 h^2) for "gaussian" with the Euclidean distance d,
        exp(-d / h) for "laplacian" with the Manhattan distance. "median": the median distance
        between training instances. Distances have no width.
    random_features : int or None
        Number of random features that approximate a kernel (Rahimi and Recht, 2007), for large
        training sets; None computes all pairs.
    standardise : bool
        Whether columns are divided by their training standard deviation first.
    seed : int
        Seed of the random features.
    multiple : float
        Factor of the median distance, if the width is "median".
    templates : array of shape (k, k)
        G.
    embedding : AllPairs or RandomFeatures
    scale : array of shape (d,)
        Columns of points are divided by it.
    shift : array of shape (k,)
        Added to S_i(x) minus its mean over the classes.
    """

    similarity: str = "manhattan"
    width: float | str = "median"
    random_features: int | None = None
    standardise: bool = False
    seed: int = 0
    multiple: float = 1.0
    templates: Array = fitted()
    embedding: Embedding = fitted()
    scale: Array = fitted()
    shift: Array = fitted()
    # Few references, because the cost of the templates is their number squared.
    tuning_effort: ClassVar[TuningEffort] = TuningEffort(bags=100, rows=1_500)

    def __post_init__(self) -> None:
        check_choice(self.similarity, "similarity", [*DISTANCES, *KERNELS])
        if not (isinstance(self.width, str) and self.width == "median"):
            check_positive(self.width, "width")
        if self.random_features is not None:
            check_count(self.random_features, "random_features", least=2)
            if self.similarity in DISTANCES:
                raise ValueError(
                    f"similarity {self.similarity!r} has no random features; use one of "
                    f"{', '.join(KERNELS)}, or random_features=None"
                )

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> EmbeddingMap:
        """Return the map, with the inner products of the class embeddings as templates."""
        points, labels, weights = _sorted_by_class(training)
        scale = np.ones(points.shape[1])
        if self.standardise:
            centred = points - np.average(points, axis=0, weights=weights)
            spread = np.sqrt(np.average(centred**2, axis=0, weights=weights))
            scale = np.where(spread > 0, spread, 1.0)
        points = np.ascontiguousarray(points / scale)
        spec = self if self.similarity in DISTANCES else self._with_width(points, weights)
        embedding: Embedding
        if self.random_features is None:
            offsets = np.searchsorted(labels, np.arange(n_classes + 1)).astype(np.int64)
            embedding = AllPairs(spec, points, offsets, weights)
        else:
            embedding = RandomFeatures.fit(spec, points, labels, weights, n_classes)
        between = class_means(embedding.similarities(points), labels, n_classes, weights)
        return replace(self, embedding=embedding, scale=scale)._matching(
            (between + between.T) / 2.0
        )

    def _matching(self, between: Array) -> EmbeddingMap:
        """Return the map for mean similarities ``between`` classes, shape (k, k)."""
        means, overall = between.mean(axis=0), float(between.mean())
        gram = between - means[:, None] - means + overall
        spread = float(np.trace(gram)) / len(gram)
        level = spread if spread > 0 else 1.0
        return replace(self, templates=gram + level, shift=overall - means + level)

    def _with_width(self, points: Array, weights: Array) -> EmbeddingMap:
        """Return the spec with a number as width, by the median rule if none is given."""
        if not isinstance(self.width, str):
            return self
        # Evenly spaced rows of data sorted by class: a sample that needs no random numbers.
        picks = np.unique(np.linspace(0, len(points) - 1, _MEDIAN_ROWS).astype(np.int64))
        metric: ScipyMetric = (
            "euclidean" if self.similarity == "gaussian" else KERNELS[self.similarity]
        )
        distances = cdist(points[picks], points[picks], metric)
        products, apart = np.outer(weights[picks], weights[picks]), distances > 0
        if not apart.any():
            return replace(self, width=1.0)
        median = _weighted_median(distances[apart], products[apart])
        return replace(self, width=self.multiple * median)

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> ArrayRows:
        """Return the rows of points of shape (m, d)."""
        return ArrayRows(self._centred(self.embedding.similarities(self._scaled(points))))

    def _scaled(self, points: NDArray[Any]) -> Array:
        return np.ascontiguousarray(np.asarray(points, dtype=np.float64) / self.scale)

    def _centred(self, similarities: Array) -> Array:
        """Return the rows for mean similarities to each class, shape (m, k)."""
        return np.asarray(similarities - similarities.mean(axis=1, keepdims=True) + self.shift)

    def new_rows(
        self, training: TrainingPosteriors, picks: Indices, n_threads: int = 1
    ) -> NDArray[np.floating]:
        """Return rows of training instances without their similarity to themselves, (n', k)."""
        points = self._scaled(training.required()[picks])
        labels, values = training.labels[picks], self.embedding.similarities(points)
        w = np.ones(len(picks)) if training.weights is None else training.weights[picks]
        mass, positions = self.embedding.mass[labels], np.arange(len(picks))
        rest = mass - w
        others = mass * values[positions, labels] - w * self.embedding.own
        others = others / np.where(rest > 0, rest, 1.0)
        values[positions, labels] = np.where(rest > 0, others, values[positions, labels])
        return self._centred(values)


def _sorted_by_class(training: TrainingPosteriors) -> tuple[Array, Indices, Array]:
    """Return points, labels and weights of the instances of positive weight, sorted by class."""
    n = len(training.labels)
    weights = np.ones(n) if training.weights is None else training.weights
    order = np.argsort(training.labels, kind="stable")
    order = order[weights[order] > 0]
    points = np.asarray(training.required(), dtype=np.float64)[order]
    return points, training.labels[order], weights[order]


def _chunks(n_rows: int, width: int) -> Iterator[slice]:
    """Yield slices of rows such that an array of that width stays within a bounded memory."""
    step = max(1, _CHUNK // max(1, width))
    for start in range(0, n_rows, step):
        yield slice(start, start + step)


def _weighted_median(values: Array, weights: Array) -> float:
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(mass, mass[-1] / 2.0)])
