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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.diagnostics.densities import Array, TrainingDensities
from kdey.rows.posterior import PosteriorMap


@dataclass(frozen=True, eq=False)
class Influence:
    """Variance of an estimate at a prevalence, split by its sources.

    Attributes
    ----------
    labels_part : array of shape (k,)
        Variance from unknown labels, times the bag's size.
    draw_part : array of shape (k,)
        Variance from drawing the bag, times its size.
    template_parts : array of shape (k, k)
        Entry (i, c): variance of the estimate of class c from the templates of class i, times
        the training size of class i.
    singular_values : array of shape (k - 1,)
        Of R along prevalences, scaled to at most one; small ones are directions not seen.
    weakest : array of shape (k,)
        The change of prevalence that is seen least, of length one.
    """

    labels_part: Array
    draw_part: Array
    template_parts: Array
    singular_values: Array
    weakest: Array


def influence(features: Array, training: TrainingDensities, prevalence: Array) -> Influence:
    """Return the variance parts of features (n, k) of the training points at a prevalence."""
    matrix = training.class_means(features).T
    tangent = tangent_basis(training.n_classes)
    left, values, right = np.linalg.svd(matrix @ tangent, full_matrices=False)
    usable = values > 1e-10 * max(values[0], 1e-300)
    inverse = np.where(usable, 1.0 / np.where(usable, values, 1.0), 1e10)
    moved = (features @ left) * inverse @ right @ tangent.T
    centred = moved - training.class_means(moved)[training.labels]
    spread = _unbiased(training.class_means(centred**2), training.counts)
    return Influence(
        labels_part=prevalence @ spread,
        draw_part=prevalence * (1.0 - prevalence),
        template_parts=prevalence[:, None] ** 2 * spread,
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
    """Return the within-class variances (k, k) of psi, corrected for the classes' means.

    One instance shows no spread: such a class gets the largest of the others'.
    """
    several = counts > 1
    corrected = spread * np.where(several, counts / np.maximum(counts - 1.0, 1.0), 0.0)[:, None]
    return np.where(several[:, None], corrected, corrected.max(axis=0))


def _scale(features: Array, training: TrainingDensities, tangent: Array) -> float:
    """Return the largest singular value that classes told apart perfectly would have."""
    largest = float(np.sqrt(training.class_means((features**2).sum(axis=1)).max()))
    return max(largest, 1e-300) * float(np.linalg.norm(tangent, 2))
