r"""How much one instance moves an estimate: the asymptotic variance of a quantifier.

An instance contributes features f(x) in k dimensions whose class means are the columns of R. The
estimate inverts E f = R alpha, so a bag's instance moves it by

.. math:: \psi(x) = R^+ (f(x) - R \alpha)

with :math:`R^+` the inverse along prevalences (vectors that sum to zero). With :math:`V_i` the
covariance of psi within class i, m instances in the bag and :math:`n_i` training instances of
class i, the variance is

.. math:: \frac1m \sum_i \alpha_i V_i
          + \frac1m \left(\mathrm{diag}\,\alpha - \alpha\alpha^\top\right)
          + \sum_i \frac{\alpha_i^2}{n_i} V_i :

which label an instance has, which instances the bag drew (absent where this bag itself is
asked for), and which instances the templates were made from. For PACC f is the posterior, for
ACC the decision; for likelihood f_i = p_i / p_alpha, whose class means make R the Fisher
information.

Identifiability: whether classes can be told apart, and how wide intervals will be.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from kdey._support.frames import make_frame
from kdey._support.threads import thread_count
from kdey._support.validation import check_count, check_share
from kdey.diagnostics.densities import Array, TrainingDensities, default_kernel, warn_single
from kdey.diagnostics.fit_check import DEFAULT_BANDWIDTH
from kdey.fitted import FittedQuantifier, fitted_stages, training_of
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import RowMap
from kdey.rows.references import KernelSpec, reference_order
from kdey.simplex import check_prevalence

#: Singular values below this, relative to the features, are rounding: a direction not seen.
_UNSEEN = 1e-10
#: Variance along such a direction; any number that makes no bag and no training set enough.
_NOTHING_KNOWN = 1e12


@dataclass(frozen=True, eq=False)
class Influence:
    """Variance of an estimate at a prevalence, split by its sources.

    Attributes
    ----------
    prevalence : array of shape (k,)
    spread : array of shape (k, k, k)
        Covariance of psi within each class: entry i is the V_i of the module.
    singular_values : array of shape (k - 1,)
        Of R along prevalences, scaled to at most one; small ones are directions not seen.
    weakest : array of shape (k,)
        The change of prevalence that is seen least, of length one.
    """

    prevalence: Array
    spread: Array
    singular_values: Array
    weakest: Array

    @property
    def labels_part(self) -> Array:
        """Covariance from unknown labels, times the bag's size, shape (k, k)."""
        return np.asarray(np.einsum("i,iab->ab", self.prevalence, self.spread))

    @property
    def draw_part(self) -> Array:
        """Covariance from drawing the bag, times its size, shape (k, k)."""
        return np.diag(self.prevalence) - np.outer(self.prevalence, self.prevalence)

    @property
    def template_parts(self) -> Array:
        """Covariance from the templates of each class, times its size, shape (k, k, k)."""
        return np.asarray(self.prevalence[:, None, None] ** 2 * self.spread)


def influence(features: Array, training: TrainingDensities, prevalence: Array) -> Influence:
    """Return the variance parts of features (n, k) of the training points at a prevalence."""
    matrix = training.class_means(features).T
    tangent = tangent_basis(training.n_classes)
    left, values, right = np.linalg.svd(matrix @ tangent, full_matrices=False)
    usable = values > _UNSEEN * np.linalg.norm(features, axis=1).max()
    inverse = np.where(usable, 1.0 / np.where(usable, values, 1.0), 0.0)
    moved = (features @ left) * inverse @ right @ tangent.T
    centred = moved - training.class_means(moved)[training.labels]
    weighted = centred * training.class_weights[:, None]
    ends = training.references.offsets
    spread = np.array([weighted[a:b].T @ centred[a:b] for a, b in pairwise(ends)])
    unseen = tangent @ right[~usable].T
    return Influence(
        prevalence=prevalence,
        spread=_unbiased(spread, training.counts) + _NOTHING_KNOWN * (unseen @ unseen.T),
        singular_values=values / _scale(features, training, tangent),
        weakest=tangent @ right[-1],
    )


def tangent_basis(n_classes: int) -> Array:
    """Return an orthonormal basis of the vectors that sum to zero, shape (k, k - 1)."""
    start = np.eye(n_classes)[:, 1:] - 1.0 / n_classes
    return np.asarray(np.linalg.qr(start)[0])


def features_of(
    row_map: RowMap, training: TrainingDensities, points: Array, prevalence: Array
) -> Array:
    """Return what an instance contributes under the method of ``row_map``, shape (n, k).

    Posteriors or decisions for ACC and PACC; density ratios for everything else, which is exact
    for KDEy-ML and stands for what the posteriors can tell elsewhere.
    """
    features = row_map.influence_features(points)
    if features is not None:
        return features
    mixed = training.held_out.rows @ prevalence
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = training.held_out.rows / mixed[:, None]
    return np.asarray(np.where(mixed[:, None] > 0, ratios, 1.0))


def _unbiased(spread: Array, counts: NDArray[np.int64]) -> Array:
    """Return the within-class covariances (k, k, k), corrected for the classes' means.

    One instance shows no spread: such a class gets the largest of the others'.
    """
    several = counts > 1
    factors = np.where(several, counts / np.maximum(counts - 1.0, 1.0), 0.0)
    corrected = spread * factors[:, None, None]
    largest = corrected[np.trace(corrected, axis1=1, axis2=2).argmax()]
    return np.where(several[:, None, None], corrected, largest)


def _scale(features: Array, training: TrainingDensities, tangent: Array) -> float:
    """Return the largest singular value that classes told apart perfectly would have."""
    largest = float(np.sqrt(training.class_means((features**2).sum(axis=1)).max()))
    return max(largest, 1e-300) * float(np.linalg.norm(tangent, 2))


#: Affinity of two classes above which they are named as hard to tell apart.
INSEPARABLE = 0.95


@dataclass(frozen=True, eq=False)
class Identifiability:
    """What can be known about prevalences at all, before any bag is seen.

    Attributes
    ----------
    classes : array of shape (k,)
    prevalence : array of shape (k,)
        Where everything below was computed.
    affinity : array of shape (k, k)
        Bhattacharyya affinity of the class densities: 0 apart, 1 the same.
    influence : Influence
        The variance of the estimate by its sources.
    training_counts : array of shape (k,)
    bag_size : int
    confidence : float
    """

    classes: NDArray[Any]
    prevalence: Array
    affinity: Array
    influence: Influence
    training_counts: Array
    bag_size: int
    confidence: float

    @property
    def condition(self) -> float:
        """Ratio of the largest to the smallest singular value of the templates."""
        values = self.influence.singular_values
        return float(values[0] / values[-1]) if values[-1] > 0 else float("inf")

    @property
    def inseparable(self) -> list[tuple[Any, Any, float]]:
        """Pairs of classes with an affinity above 0.95, most alike first."""
        upper = np.triu(self.affinity, 1)
        found = np.argwhere(upper > INSEPARABLE)
        named = [(self.classes[i], self.classes[j], float(upper[i, j])) for i, j in found]
        return sorted(named, key=lambda pair: -pair[2])

    def bag_covariance(self, bag_size: int | None = None, target: str = "population") -> Array:
        """Return the part of the covariance that a larger bag lowers, shape (k, k)."""
        if target not in ("population", "bag"):
            raise ValueError(f"target must be 'population' or 'bag', got {target!r}")
        drawn = self.influence.draw_part if target == "population" else 0.0
        m = self.bag_size if bag_size is None else bag_size
        return np.asarray((self.influence.labels_part + drawn) / m)

    def template_covariance(self, training_counts: Array | None = None) -> Array:
        """Return the part of the covariance that more labels lower, shape (k, k)."""
        n = self.training_counts if training_counts is None else training_counts
        return np.asarray(np.einsum("iab,i->ab", self.influence.template_parts, 1.0 / n))

    def bag_variance(self, bag_size: int | None = None, target: str = "population") -> Array:
        """Return the diagonal of :meth:`bag_covariance`, shape (k,)."""
        return np.diag(self.bag_covariance(bag_size, target)).copy()

    def template_variance(self, training_counts: Array | None = None) -> Array:
        """Return the diagonal of :meth:`template_covariance`, shape (k,)."""
        return np.diag(self.template_covariance(training_counts)).copy()

    def width(self, bag_size: int | None = None, target: str = "population") -> Array:
        """Return the expected width of the intervals, shape (k,).

        Where the data say little, the simplex says more: the covariance is combined with that
        of a prevalence that may be anything (uniform on the simplex).
        """
        covariance = self.bag_covariance(bag_size, target) + self.template_covariance()
        variance = np.diag(_within_simplex(covariance))
        return np.minimum(2.0 * z_score(self.confidence) * np.sqrt(np.maximum(variance, 0.0)), 1.0)

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a frame with one row per class.

        Columns: ``class``, ``prevalence``, ``width`` (population), ``width_bag``, ``bag_share`` (of
        the variance, by the bag), ``closest`` and ``affinity`` (the class most alike).
        """
        others = self.affinity - 2.0 * np.eye(len(self.classes))
        bag, template = self.bag_variance(), self.template_variance()
        total = bag + template
        table = {
            "class": self.classes,
            "prevalence": self.prevalence,
            "width": self.width(),
            "width_bag": self.width(target="bag"),
            "bag_share": np.where(total > 0, bag / np.where(total > 0, total, 1.0), 1.0),
            "closest": self.classes[others.argmax(axis=1)],
            "affinity": others.max(axis=1),
        }
        return make_frame(table, backend)

    @property
    def verdict(self) -> str:
        """What this means, in a few sentences."""
        widths = self.width()
        worst = int(widths.argmax())
        told = [
            f"At a bag of {self.bag_size}, {self.confidence:.0%} intervals are expected to be "
            f"{np.median(widths):.3f} wide (median), up to {widths[worst]:.3f} for class "
            f"{self.classes[worst]}."
        ]
        for first, second, affinity in self.inseparable[:5]:
            told.append(
                f"Classes {first} and {second} can hardly be told apart (affinity {affinity:.2f}): "
                "only their sum is known well."
            )
        return " ".join(told)

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict


def identifiability(
    quantifier: FittedQuantifier,
    bag_size: int = 500,
    *,
    prevalence: ArrayLike | None = None,
    confidence: float = 0.95,
    bandwidth: float | str | None = None,
    n_jobs: int | None = None,
) -> Identifiability:
    """Report how well prevalences can be known from a quantifier's posteriors.

    Variances are first-order (see :mod:`kdey.diagnostics.identify`): right for bags of a hundred
    or more away from the border of the simplex, too wide at it, where an estimate cannot fall
    below zero.

    Parameters
    ----------
    quantifier : fitted quantifier on posteriors that keeps its training posteriors
    bag_size : int
    prevalence : array-like of shape (k,), optional
        Where to look; default: the training prevalence.
    confidence : float in (0, 1)
    bandwidth : float or {"scott", "silverman"}, optional
        Of the kernel densities; default: the kernel given to the quantifier, or 0.1 on the
        plain simplex where it has none or chose its own.
    n_jobs : int, optional

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> report = kdey.identifiability(kdey.KDEyML(bandwidth=0.1).fit(X, y), bag_size=200)
    >>> report.width(500).round(1)
    array([0.1, 0.1, 0.1])
    """
    check_count(bag_size, "bag_size")
    z_score(confidence)
    training = training_of(quantifier)
    classes = np.asarray(quantifier.classes_)
    given = quantifier.prevalence_ if prevalence is None else prevalence
    alpha = check_prevalence(given, len(classes))
    kernel = _kernel(quantifier, bandwidth)
    fitted = TrainingDensities.fit(training, len(classes), kernel, thread_count(n_jobs))
    warn_single(fitted, classes)
    points = _sorted_posteriors(training)
    features = features_of(fitted_stages(quantifier).row_map, fitted, points, alpha)
    return Identifiability(
        classes=classes,
        prevalence=alpha,
        affinity=_affinity(fitted),
        influence=influence(features, fitted, alpha),
        training_counts=fitted.counts.astype(np.float64),
        bag_size=int(bag_size),
        confidence=confidence,
    )


def z_score(confidence: float) -> float:
    """Return the normal quantile of a two-sided confidence, or raise."""
    return float(ndtri(0.5 + 0.5 * check_share(confidence, "confidence")))


def _within_simplex(covariance: Array) -> Array:
    """Return the covariance of an estimate together with a uniform prior, shape (k, k)."""
    k = len(covariance)
    basis = tangent_basis(k)
    # Along vectors that sum to zero, the uniform distribution on the simplex has this variance.
    anything = np.eye(k - 1) / (k * (k + 1.0))
    own = basis.T @ covariance @ basis
    return np.asarray(
        basis @ (anything - anything @ np.linalg.solve(own + anything, anything)) @ basis.T
    )


def _kernel(quantifier: FittedQuantifier, bandwidth: float | str | None) -> KernelSpec:
    references = fitted_stages(quantifier).row_map.class_references()
    # A bandwidth chosen for small errors can be too small to judge overlap by.
    chosen = quantifier.tuning_record is not None
    if bandwidth is None and not chosen and references is not None:
        return references.spec
    return default_kernel(DEFAULT_BANDWIDTH if bandwidth is None else bandwidth)


def _sorted_posteriors(training: TrainingPosteriors) -> Array:
    """Return the training posteriors in the order of the references."""
    return np.asarray(training.required()[reference_order(training)], dtype=np.float64)


def _affinity(fitted: TrainingDensities) -> Array:
    r"""Return the affinities, :math:`E_{(p_i + p_j)/2}\, 2\sqrt{p_i p_j} / (p_i + p_j)`."""
    rows, k = fitted.held_out.rows, fitted.n_classes
    out = np.eye(k)
    for i in range(k):
        total = rows[:, i : i + 1] + rows
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(total > 0, 2.0 * np.sqrt(rows[:, i : i + 1] * rows) / total, 0.0)
        means = fitted.class_means(ratio)
        out[i] = 0.5 * (means[i] + np.diag(means))
    out[np.diag_indices(k)] = 1.0
    return np.asarray(np.minimum(0.5 * (out + out.T), 1.0))
