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
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.diagnostics.densities import Array, TrainingDensities
from kdey.rows.posterior import PosteriorMap

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


def features_of(row_map: Any, training: TrainingDensities, points: Any, prevalence: Array) -> Array:
    """Return what an instance contributes under the method of ``row_map``, shape (n, k).

    Posteriors or decisions for ACC and PACC; density ratios for everything else, which is exact
    for KDEy-ML and stands for what the posteriors can tell elsewhere.
    """
    if isinstance(row_map, PosteriorMap) and row_map.templates.size:
        return np.asarray(row_map(points).array)
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
