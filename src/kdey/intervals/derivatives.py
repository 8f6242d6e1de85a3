r"""Analytic limits of any method on mean rows, by numerical derivatives of its matching.

Let g map a mean row q to the estimate, and let column l of T be the mean row of training class l.
A method that answers a mixture of the classes with its prevalence has :math:`g(T \alpha) = \alpha`,
so that its derivative J satisfies :math:`J (T_l - T_m) = e_l - e_m` wherever it is taken, and

.. math:: c = \tilde\alpha + J (q - T \tilde\alpha)

is free of bias to first order: the moment equation of ``moments.py`` with J for the inverse of T.
J is taken by central differences at a point :math:`\tilde\alpha` inside the simplex, along the
directions in which training rows differ. Where it does not exist (two step lengths disagree, or g
does not return the prevalence of a mixture) there are no such limits, and a bootstrap is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags
from kdey.intervals.analytic import linearised
from kdey.intervals.class_rows import ClassRows
from kdey.intervals.moment_rows import training_rows
from kdey.intervals.moments import MomentEquations, Moments, projected_moments
from kdey.intervals.sampled_bags import SampledBags
from kdey.model import Model
from kdey.rows.base import ArrayRows, CompositeRows, Rows

#: Share of the uniform prevalence in the point at which derivatives are taken, so that steps stay
#: inside the simplex.
INSIDE = 0.1
#: Length of a step, in standard deviations of the training rows along its direction.
STEP = 0.02
#: We ignore directions in which rows differ by less than this share of the largest difference.
FLAT = 1e-7
#: Largest accepted error of derivatives (between two step lengths) and of returned mixtures.
TOLERANCE = 0.05
#: With longer rows than this a bootstrap is cheaper.
WIDEST = 512


def linearise_matching(
    model: Model,
    means: Array,
    bags: SampledBags,
    estimates: Array,
    rows: Rows | None = None,
    n_threads: int = 1,
) -> MomentEquations | None:
    """Return the moment equation of every bag; None if a derivative does not exist.

    Parameters
    ----------
    model : Model
        Has training rows, and a matching that summarises a bag by its mean row.
    means : array of shape (n_bags, r)
        Mean row of every bag.
    bags : SampledBags
    estimates : array of shape (n_bags, k)
    rows : Rows, optional
        Rows of the pool, needed if the bags were drawn in clusters.

    Returns
    -------
    MomentEquations or None
    """
    training = training_rows(model, n_threads)
    if training is None or training.rows.shape[1] > WIDEST:
        return None
    directions = Directions.of(training)
    centres, effects = np.empty(estimates.shape), np.ones(estimates.shape)
    moments: list[Moments] = []
    for number in range(len(bags)):
        inside = (1.0 - INSIDE) * estimates[number] + INSIDE / model.n_classes
        derivative = directions.derivative(model, inside, n_threads)
        if derivative is None:
            return None
        moments.append(projected_moments(training, derivative))
        centres[number] = inside + derivative @ (means[number] - directions.means @ inside)
        if rows is not None and bags.codes is not None:
            bag = bags[number]
            effects[number] = bag.design_effect(rows.each()[bag.indices] @ derivative.T)
    return linearised(centres, estimates, effects, bags, moments)


@dataclass(frozen=True, eq=False)
class Directions:
    """The directions in which training rows differ.

    Attributes
    ----------
    means : array of shape (r, k)
        Mean row of each class: T.
    basis : array of shape (r, d)
        Orthonormal directions.
    lengths : array of shape (d,)
        Standard deviation of the rows along each.
    """

    means: Array
    basis: Array
    lengths: Array

    @classmethod
    def of(cls, training: ClassRows) -> Directions:
        """Return the directions of training rows, by a singular value decomposition."""
        rows = training.rows.astype(np.float64)
        weighted = rows * training.weights.astype(np.float64)[:, None]
        means = np.add.reduceat(weighted, training.offsets[:-1]).T
        centred = training.thin_rows.astype(np.float64) - means.mean(axis=1)
        _, values, right = np.linalg.svd(centred, full_matrices=False)
        kept = values > FLAT * max(values[0], np.finfo(np.float64).tiny)
        return cls(means, right[kept].T, values[kept] / np.sqrt(len(centred)))

    def derivative(self, model: Model, prevalence: Array, n_threads: int = 1) -> Array | None:
        """Return the derivative of the estimate by the mean row, (k, r); None if there is none."""
        long = self._difference(model, prevalence, STEP, n_threads)
        short = self._difference(model, prevalence, STEP / 2.0, n_threads)
        if long is None or short is None:
            return None
        tangent = np.eye(len(prevalence)) - 1.0 / len(prevalence)
        returned = short @ self.means @ tangent
        scale = np.abs(short * self._spread).max()
        smooth = np.abs((long - short) * self._spread).max() <= TOLERANCE * scale
        consistent = np.abs(returned - tangent).max() <= TOLERANCE
        return short if smooth and consistent else None

    @property
    def _spread(self) -> Array:
        """Standard deviation of each number of a row, shape (r,)."""
        return np.asarray(np.sqrt((self.basis**2) @ self.lengths**2))

    def _difference(
        self, model: Model, prevalence: Array, step: float, n_threads: int
    ) -> Array | None:
        """Return central differences of one step length, shape (k, r); None if they fail."""
        middle = self.means @ prevalence
        moves = step * (self.basis * self.lengths).T
        try:
            answers = match_means(
                model, np.concatenate([middle[None], middle + moves, middle - moves]), n_threads
            )
        except ValueError:  # A step left the domain of the problem: there is no derivative.
            return None
        d = len(moves)
        if np.abs(answers[0] - prevalence).max() > TOLERANCE * INSIDE:
            return None
        slopes = (answers[1 : d + 1] - answers[d + 1 :]) / (2.0 * step * self.lengths[:, None])
        return np.asarray(slopes.T @ self.basis.T)


def match_means(model: Model, means: NDArray[np.floating], n_threads: int = 1) -> Array:
    """Return the prevalences (n, k) of n bags that are known by their mean rows (n, r) only."""
    n = len(means)
    single = Bags(np.arange(n, dtype=np.int64), np.arange(n + 1, dtype=np.int64), n)
    rows: Rows = ArrayRows(np.asarray(means, dtype=np.float64))
    if model.row_map.is_composite:
        rows = CompositeRows((rows,) * len(model.row_map.members))
    return model.matching.match(model.row_map, rows, single, n_threads).prevalence
