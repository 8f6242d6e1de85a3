r"""Identifiability: whether classes can be distinguished, and how wide intervals will be.

The report computes the asymptotic variance of a quantifier from the influence of one instance. An
instance contributes features f(x) in k dimensions whose class means are the columns of R. The
estimate inverts E f = R alpha, so an instance of the bag moves it by

.. math:: \psi(x) = R^+ (f(x) - R \alpha)

with :math:`R^+` the inverse along prevalences (vectors that sum to zero). With :math:`V_i` the
covariance of psi within class i, m instances in the bag and :math:`n_i` training instances of
class i, the variance is

.. math:: \frac1m \sum_i \alpha_i V_i
          + \frac1m \left(\mathrm{diag}\,\alpha - \alpha\alpha^\top\right)
          + \sum_i \frac{\alpha_i^2}{n_i} V_i .

The three terms are due to the unknown labels of the instances, to the drawing of the bag (zero if
the target is this bag itself), and to the drawing of the training set. For PACC f is the posterior,
for ACC the decision; for likelihood methods f_i = p_i / p_alpha, and R is the Fisher information.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from kdey._display import Overview, Shown, bar_column, percentages, row_names, text_column
from kdey.bags import Array
from kdey.diagnostics.score_statistics import DEFAULT_KERNEL, TrainingDensities, warn_single
from kdey.model import Fitted, posterior_model, training_of
from kdey.native import thread_count
from kdey.posteriors import TrainingPosteriors
from kdey.rows import RowMap
from kdey.rows.kernel import KernelSpec, class_references, reference_order
from kdey.rows.posterior import inverted_features
from kdey.simplex import check_prevalence
from kdey.validation import check_count, check_share, make_frame

#: Singular values below this, relative to the features, are rounding errors: the features carry no
#: information in that direction.
_RANK_TOLERANCE = 1e-10
#: Variance in such a direction, so large that no bag and no training set is enough.
_UNKNOWN_VARIANCE = 1e12
#: Pairs of classes with a larger affinity are reported as hard to distinguish.
INSEPARABLE = 0.95


def _influence(features: Array, training: TrainingDensities) -> dict[str, Array]:
    """Return the variance parts that features (n, k) of the training points lead to.

    These are ``spread``, ``singular_values`` and ``weakest`` of :class:`Identifiability`.
    """
    matrix = training.class_means(features).T
    tangent = tangent_basis(training.n_classes)
    left, values, right = np.linalg.svd(matrix @ tangent, full_matrices=False)
    usable = values > _RANK_TOLERANCE * np.linalg.norm(features, axis=1).max()
    inverse = np.where(usable, 1.0 / np.where(usable, values, 1.0), 0.0)
    psi = (features @ left) * inverse @ right @ tangent.T
    centred = psi - training.class_means(psi)[training.labels]
    weighted = centred * training.class_weights[:, None]
    ends = training.references.offsets
    spread = np.array([weighted[a:b].T @ centred[a:b] for a, b in pairwise(ends)])
    unknown = tangent @ right[~usable].T
    return {
        "spread": _unbiased(spread, training.counts) + _UNKNOWN_VARIANCE * (unknown @ unknown.T),
        "singular_values": values / _scale(features, training, tangent),
        "weakest": tangent @ right[-1],
    }


def tangent_basis(n_classes: int) -> Array:
    """Return an orthonormal basis of the vectors that sum to zero, shape (k, k - 1)."""
    start = np.eye(n_classes)[:, 1:] - 1.0 / n_classes
    return np.asarray(np.linalg.qr(start)[0])


def _features(
    row_map: RowMap, training: TrainingDensities, points: Array, prevalence: Array
) -> Array:
    """Return the features of the training points under the method of ``row_map``, shape (n, k).

    These are posteriors or decisions for ACC and PACC, and density ratios for all other methods.
    Density ratios are exact for KDEy-ML; for the others they say what the posteriors contain.
    ``points`` (n, k) are the training posteriors in the order of the references.
    """
    features = inverted_features(row_map, points)
    if features is not None:
        return features
    mixed = training.held_out.rows @ prevalence
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = training.held_out.rows / mixed[:, None]
    return np.asarray(np.where(mixed[:, None] > 0, ratios, 1.0))


def _unbiased(spread: Array, counts: NDArray[np.int64]) -> Array:
    """Return the within-class covariances (k, k, k), corrected for the estimation of the means.

    A class with one instance shows no spread and gets the largest of the other classes.
    """
    several = counts > 1
    factors = np.where(several, counts / np.maximum(counts - 1.0, 1.0), 0.0)
    corrected = spread * factors[:, None, None]
    largest = corrected[np.trace(corrected, axis1=1, axis2=2).argmax()]
    return np.where(several[:, None, None], corrected, largest)


def _scale(features: Array, training: TrainingDensities, tangent: Array) -> float:
    """Return the largest singular value that perfectly separated classes would have."""
    largest = float(np.sqrt(training.class_means((features**2).sum(axis=1)).max()))
    return max(largest, 1e-300) * float(np.linalg.norm(tangent, 2))


@dataclass(frozen=True, eq=False, repr=False)
class Identifiability(Shown):
    """How precisely prevalences can be known, before there is any bag.

    Attributes
    ----------
    classes : array of shape (k,)
    prevalence : array of shape (k,)
        The prevalence at which everything below was computed.
    affinity : array of shape (k, k)
        Bhattacharyya affinity of the class densities: 0 if they do not overlap, 1 if they are the
        same.
    spread : array of shape (k, k, k)
        Covariance of psi within each class: entry i is the V_i of the formula.
    singular_values : array of shape (k - 1,)
        Singular values of R along prevalences, scaled to at most one, in falling order; small
        values belong to directions with little information.
    weakest : array of shape (k,)
        The change of prevalence, of length one, about which there is least information.
    training_counts : array of shape (k,)
    bag_size : int
    confidence : float

    See Also
    --------
    kdey.identifiability : Report how precisely prevalences can be known.
    kdey.plan_bag_size : Plan the size of a bag.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> report = kdey.identifiability(kdey.KDEyML(bandwidth=0.1).fit(X, y), bag_size=200)
    >>> report.affinity.shape
    (3, 3)
    >>> report.inseparable
    []
    """

    classes: NDArray[Any]
    prevalence: Array
    affinity: Array
    spread: Array
    singular_values: Array
    weakest: Array
    training_counts: Array
    bag_size: int
    confidence: float

    @property
    def condition(self) -> float:
        """Ratio of the largest to the smallest singular value of the templates."""
        values = self.singular_values
        return float(values[0] / values[-1]) if values[-1] > 0 else float("inf")

    @property
    def inseparable(self) -> list[tuple[Any, Any, float]]:
        """Pairs of classes with an affinity above 0.95, by falling affinity."""
        upper = np.triu(self.affinity, 1)
        positions = np.argwhere(upper > INSEPARABLE)
        pairs = [(self.classes[i], self.classes[j], float(upper[i, j])) for i, j in positions]
        return sorted(pairs, key=lambda pair: -pair[2])

    def bag_covariance(self, bag_size: int | None = None, target: str = "population") -> Array:
        """Return the part of the covariance that a larger bag lowers, shape (k, k).

        Parameters
        ----------
        bag_size : int, optional
            Default: that of the report.
        target : {"population", "bag"}

        Returns
        -------
        array of shape (k, k)

        Raises
        ------
        ValueError
            If ``target`` is none of the two.
        """
        if target not in ("population", "bag"):
            raise ValueError(f"target must be 'population' or 'bag', got {target!r}")
        alpha = self.prevalence
        total = np.einsum("i,iab->ab", alpha, self.spread)  # due to the unknown labels
        if target == "population":
            total = total + np.diag(alpha) - np.outer(alpha, alpha)
        return np.asarray(total / (self.bag_size if bag_size is None else bag_size))

    @property
    def template_parts(self) -> Array:
        """Covariance due to each class's template, times the class size, shape (k, k, k)."""
        return np.asarray(self.prevalence[:, None, None] ** 2 * self.spread)

    def template_covariance(self, training_counts: Array | None = None) -> Array:
        """Return the part of the covariance that more labels lower, shape (k, k)."""
        n = self.training_counts if training_counts is None else training_counts
        return np.asarray(np.einsum("iab,i->ab", self.template_parts, 1.0 / n))

    def bag_variance(self, bag_size: int | None = None, target: str = "population") -> Array:
        """Return the diagonal of :meth:`bag_covariance`, shape (k,)."""
        return np.diag(self.bag_covariance(bag_size, target)).copy()

    def template_variance(self, training_counts: Array | None = None) -> Array:
        """Return the diagonal of :meth:`template_covariance`, shape (k,)."""
        return np.diag(self.template_covariance(training_counts)).copy()

    def width(self, bag_size: int | None = None, target: str = "population") -> Array:
        """Return the expected width of the intervals, shape (k,).

        Data with little information cannot make an interval wider than the simplex. We therefore
        combine the covariance with that of a uniform distribution on the simplex.

        Parameters
        ----------
        bag_size : int, optional
            Default: that of the report.
        target : {"population", "bag"}

        Returns
        -------
        array of shape (k,)
        """
        covariance = self.bag_covariance(bag_size, target) + self.template_covariance()
        variance = np.diag(_within_simplex(covariance))
        return np.minimum(2.0 * z_score(self.confidence) * np.sqrt(np.maximum(variance, 0.0)), 1.0)

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per class.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
            With columns ``class``, ``prevalence``, ``width`` (population), ``width_bag``,
            ``bag_share`` (share of the variance that is due to the bag), ``closest`` and
            ``affinity`` (the most similar class and its affinity).
        """
        return make_frame(self.columns(), backend)

    def columns(self) -> dict[str, Any]:
        """Return the columns of :meth:`to_frame` by name, each of length k."""
        others = self.affinity - 2.0 * np.eye(len(self.classes))
        bag, template = self.bag_variance(), self.template_variance()
        total = bag + template
        return {
            "class": self.classes,
            "prevalence": self.prevalence,
            "width": self.width(),
            "width_bag": self.width(target="bag"),
            "bag_share": np.where(total > 0, bag / np.where(total > 0, total, 1.0), 1.0),
            "closest": self.classes[others.argmax(axis=1)],
            "affinity": others.max(axis=1),
        }

    def plot(self, *, bag_sizes: Sequence[int] | None = None, ax: Any = None) -> Any:
        """Draw the expected widths of intervals by class.

        Needs matplotlib (``pip install 'kdey[plot]'``).

        Parameters
        ----------
        bag_sizes : sequence of int, optional
            Default: that of the report, a quarter of it and four times it.
        ax : matplotlib axes, optional
            By default a new figure.

        Returns
        -------
        kdey.plots.IdentifiabilityDisplay
            With ``ax_`` and ``figure_``.
        """
        import kdey  # Displays are a layer above reports, so we reach them by the public name.

        return kdey.plots.IdentifiabilityDisplay.from_report(self, bag_sizes=bag_sizes, ax=ax)

    def overview(self) -> Overview:
        """Return the verdict, and a table of expected widths and look-alike classes."""
        columns = self.columns()
        return Overview(
            self.verdict,
            row_names("class", self.classes),
            (
                text_column("width", percentages(columns["width"]), importance=9),
                bar_column(columns["width"]),
                text_column("of this sample", percentages(columns["width_bag"]), importance=6),
                text_column(
                    "due to the sample", percentages(columns["bag_share"], 0), importance=3
                ),
                text_column("most like", map(str, columns["closest"]), numeric=False, importance=5),
                text_column("affinity", [f"{a:.2f}" for a in columns["affinity"]], importance=5),
            ),
            ("width: of the intervals, in percentage points",),
        )

    @property
    def verdict(self) -> str:
        """The meaning of the report, in a few sentences."""
        widths = self.width()
        worst = int(widths.argmax())
        sentences = [
            f"In a sample of {self.bag_size}, {self.confidence:.0%} intervals are expected to be "
            f"{np.median(widths):.3f} wide (median), up to {widths[worst]:.3f} for class "
            f"{self.classes[worst]}."
        ]
        for first, second, affinity in self.inseparable[:5]:
            sentences.append(
                f"Classes {first} and {second} can hardly be told apart (affinity {affinity:.2f}): "
                "only their sum is known well."
            )
        return " ".join(sentences)

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict


def identifiability(
    quantifier: Fitted,
    bag_size: int = 500,
    *,
    prevalence: ArrayLike | None = None,
    confidence: float = 0.95,
    n_jobs: int | None = None,
) -> Identifiability:
    """Report how precisely prevalences can be known from a quantifier's posteriors.

    The class densities have the kernel that the user chose for the quantifier, or bandwidth 0.1 on
    the plain simplex if there is none or it was chosen automatically.

    Variances are first-order (see :mod:`kdey.diagnostics.identify`). They are accurate for bags of
    a hundred or more in the interior of the simplex, and too large at its border, where an estimate
    cannot fall below zero.

    Parameters
    ----------
    quantifier : fitted quantifier on posteriors that keeps its training posteriors
    bag_size : int
    prevalence : array-like of shape (k,), optional
        The prevalence at which to compute the report; default: the training prevalence.
    confidence : float in (0, 1)
    n_jobs : int, optional
        Number of native threads.

    Returns
    -------
    Identifiability

    Raises
    ------
    ValueError
        If the quantifier keeps no training posteriors, or a parameter is not allowed.

    See Also
    --------
    kdey.Identifiability : How precisely prevalences can be known.
    kdey.plan_bag_size : Plan the size of a bag.
    kdey.plan_labels : Plan labels.

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
    model = posterior_model(quantifier)
    classes = np.asarray(model.classes)
    alpha = check_prevalence(
        model.prevalence if prevalence is None else prevalence, classes=classes
    )
    kernel, n_threads = _kernel(quantifier), thread_count(n_jobs)
    fitted = TrainingDensities.fit(training, len(classes), kernel, n_threads)
    warn_single(fitted, classes)
    points = _sorted_posteriors(training)
    features = _features(model.row_map, fitted, points, alpha)
    return Identifiability(
        classes=classes,
        prevalence=alpha,
        affinity=_affinity(fitted),
        **_influence(features, fitted),
        training_counts=fitted.counts.astype(np.float64),
        bag_size=int(bag_size),
        confidence=confidence,
    )


def z_score(confidence: float) -> float:
    """Return the normal quantile of a two-sided confidence, or raise ValueError."""
    return float(ndtri(0.5 + 0.5 * check_share(confidence, "confidence")))


def _within_simplex(covariance: Array) -> Array:
    """Return the covariance of an estimate combined with a uniform prior, shape (k, k)."""
    k = len(covariance)
    basis = tangent_basis(k)
    # Along vectors that sum to zero, the uniform distribution on the simplex has this variance.
    prior = np.eye(k - 1) / (k * (k + 1.0))
    data = basis.T @ covariance @ basis
    return np.asarray(basis @ (prior - prior @ np.linalg.solve(data + prior, prior)) @ basis.T)


def _kernel(quantifier: Fitted) -> KernelSpec:
    """Return the kernel of the densities: the user's, or the default."""
    model = posterior_model(quantifier)
    references = class_references(model.row_map)
    # A bandwidth that was tuned for small errors can be too small to measure overlap.
    if model.tuning is None and references is not None:
        return references.spec
    return DEFAULT_KERNEL


def _sorted_posteriors(training: TrainingPosteriors) -> Array:
    """Return the training posteriors in the order of the references."""
    return np.asarray(training.required()[reference_order(training)], dtype=np.float64)


def _affinity(fitted: TrainingDensities) -> Array:
    r"""Return :math:`E_{(p_i + p_j)/2}\, 2\sqrt{p_i p_j} / (p_i + p_j)`, shape (k, k)."""
    rows, k = fitted.held_out.rows, fitted.n_classes
    affinity = np.eye(k)
    for i in range(k):
        total = rows[:, i : i + 1] + rows
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(total > 0, 2.0 * np.sqrt(rows[:, i : i + 1] * rows) / total, 0.0)
        means = fitted.class_means(ratio)
        affinity[i] = 0.5 * (means[i] + np.diag(means))
    affinity[np.diag_indices(k)] = 1.0
    return np.asarray(np.minimum(0.5 * (affinity + affinity.T), 1.0))
