r"""Intervals for many classes, in a time of k^3 and a memory of k^2.

``moments.py`` holds a covariance for each class and ``profile.py`` solves quadratic programs for
each of them, which costs k^4 and memory of k^3. Above ``MOST_CLASSES`` classes we do neither.

**Covariances** within classes stay what they are made of: the rows, and which class they belong to.
For any shares w and any matrix U the sums and variances

.. math:: \sum_l w_l C_l, \qquad (U C_l U')_{ii}

are products of the rows, whatever is added to C_l where labels are few.

**Intervals.** With Q, v(t) and c(t) as in ``profile.py`` the interval of class i has all t with

.. math:: Q(a_i(t)) - Q(\hat x) \le c(t)^2 \, v(t) / v_0

where the profile has the least Q of all prevalences with this share, and we that of one:
:math:`a_i(t)` lies in the direction :math:`d_i` from the moment estimate :math:`\hat x`, with zero
for shares that would be negative. :math:`d_i` says how the shares move along with that of class i
at the least rise of Q, if those classes take part that have a share in :math:`\hat x`. A second
direction has those classes take part as well that are absent by less than ``NEARLY`` standard
errors; the smaller Q counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from kdey.bags import Array, Indices
from kdey.intervals.moments import (
    ClassRows,
    MomentEquations,
    Moments,
    adapted,
    class_means,
    features,
    freedom_of,
    regularising_weights,
    smoothed,
    unstable_factors,
)
from kdey.intervals.profile import RIDGE, Chunk, ShareVariances, crossings, invertible, t_quantile
from kdey.matching.sqp import solve_programs

#: Rows whose products are held at once.
CHUNK = 4_096
#: Standard errors from the moment estimate at which ends are first looked for.
REACH = 2.5
#: Standard errors below zero up to which an absent class takes part.
NEARLY = 2.0


@dataclass(frozen=True, eq=False)
class Within:
    """Covariances within classes, by the rows that they are made of.

    Attributes
    ----------
    rows : array of shape (n, r)
        Features.
    members : sparse matrix or array of shape (n, k)
        Weight of each row in each class; columns sum to one.
    matrix : array of shape (r, k)
        T.
    observed : array of shape (k,)
        Number of observations of each class.
    """

    rows: Array
    members: Any
    matrix: Array
    observed: Array

    @cached_property
    def _shares(self) -> tuple[Array, Array, Array, Array]:
        return regularising_weights(self.observed)

    @cached_property
    def _means(self) -> Array:
        """Mean features of the rows of each class, shape (r, k)."""
        return np.asarray(self.members.T @ self.rows).T

    def _sum(self, shares: Array) -> Array:
        """Return the sum of covariances of the rows alone, weighted by shares (k,), (r, r)."""
        weights = np.asarray(self.members @ shares)
        total = -(self._means * shares) @ self._means.T
        for start in range(0, len(self.rows), CHUNK):
            part = self.rows[start : start + CHUNK]
            total += (part * weights[start : start + CHUNK, None]).T @ part
        return np.asarray(total)

    @cached_property
    def pooled(self) -> Array:
        """The pooled covariance, shape (r, r)."""
        return self._sum(self._shares[3])

    def mixed(self, shares: Array) -> Array:
        """Return the sum of the covariances weighted by shares (k,), shape (r, r)."""
        own, common, pseudo, _ = self._shares
        total = self._sum(shares * own) + float(shares @ common) * self.pooled
        steps = shares * pseudo  # of the mean over j of (T_j - T_l)(T_j - T_l)'
        T, middle, moved = self.matrix, self.matrix.mean(axis=1), self.matrix @ steps
        total += steps.sum() * (T @ T.T) / T.shape[1] + (T * steps) @ T.T
        total -= np.outer(moved, middle) + np.outer(middle, moved)
        return np.asarray(total)

    def variances(self, left: Array) -> Array:
        """Return the variances of numbers that are linear in the features, shape (s, k).

        Parameters
        ----------
        left : array of shape (s, r)
            The coefficients of each number.
        """
        squares = np.zeros((self.matrix.shape[1], len(left)))
        for start in range(0, len(self.rows), CHUNK):
            z = self.rows[start : start + CHUNK] @ left.T
            squares += self.members[start : start + CHUNK].T @ z**2
        own, common, pseudo, _ = self._shares
        seen = squares.T - (left @ self._means) ** 2
        pooled = ((left @ self.pooled) * left).sum(axis=1)
        y = left @ self.matrix
        apart = (y**2).mean(axis=1)[:, None] - 2.0 * y * y.mean(axis=1)[:, None] + y**2
        return np.asarray(own * seen + np.outer(pooled, common) + pseudo * apart)

    def own_covariances(self, left: Array) -> Array:
        """Return the covariances within class l of numbers i and l, one for each class, (k, k)."""
        products = np.zeros((len(left), len(left)))
        for start in range(0, len(self.rows), CHUNK):
            z = self.rows[start : start + CHUNK] @ left.T
            part = self.members[start : start + CHUNK]
            part = part if isinstance(part, np.ndarray) else part.toarray()
            products += z.T @ (part * z)
        own, common, pseudo, _ = self._shares
        means, y = left @ self._means, left @ self.matrix
        seen = products - means * np.diag(means)
        pooled = left @ self.pooled @ left.T
        middle = y.mean(axis=1)
        apart = y @ y.T / y.shape[1] - np.outer(middle, np.diag(y)) - y * middle + y * np.diag(y)
        return np.asarray(own * seen + common * pooled + pseudo * apart)


@dataclass(frozen=True, eq=False)
class ManyMoments(Moments):
    """The moments of many classes, whose covariances are not held.

    Attributes
    ----------
    within : Within
    """

    within: Within | None = None

    @property
    def known(self) -> Within:
        """The covariances."""
        assert self.within is not None, "only the base class has none"
        return self.within

    @property
    def is_clustered(self) -> bool:
        """False: clusters of training instances are allowed for by fewer instances (``sizes``)."""
        return False

    def raised(self, left: Array) -> Array:
        """Return coefficients (s, r) whose variance is that of ``left`` in templates."""
        factors = unstable_factors(self.sizes, len(self.matrix))
        if factors is None:
            return left
        return np.asarray((left - left.mean(axis=1, keepdims=True)) * factors)

    @cached_property
    def spread(self) -> Array:
        """Entry (i, l): variance within class l of z_i, where z = T^-1 phi, shape (k, k)."""
        return self.known.variances(self.inverse)

    @cached_property
    def template_spread(self) -> Array:
        """The same of the errors of templates, shape (k, k)."""
        return self.known.variances(self.raised(self.inverse))

    @cached_property
    def bias(self) -> Array:
        """Entry (i, l): covariance of z_i and z_l within class l, shape (k, k)."""
        return self.known.own_covariances(self.inverse)

    def feature_covariance(self, bag_shares: Array, mix: Array) -> Array:
        """Return the covariance of the error of q - T alpha, shape (r, r)."""
        total = self.known.mixed(bag_shares)
        templates = self.known.mixed(mix**2 / self.sizes)
        factors = unstable_factors(self.sizes, len(self.matrix))
        if factors is not None:
            templates = templates * factors[:, None] * factors
            templates = templates - templates.mean(axis=0)
            templates = templates - templates.mean(axis=1, keepdims=True)
        return np.asarray(total + templates)


def many_training_moments(
    training: ClassRows, prevalence: Array | None, projection: Array | None = None
) -> ManyMoments:
    """Return the moments of many classes from training rows; see ``training_moments``."""
    thin, sizes = training.thinned, training.sizes
    matrix = class_means(training, prevalence) if projection is None else np.eye(len(projection))
    members = sp.csr_array((thin.weights, (np.arange(len(thin.owners)), thin.owners)))
    within = Within(features(thin.rows, prevalence, projection), members, matrix, sizes)
    if training.clusters is not None:
        variances = within.variances(np.eye(len(matrix))).sum(axis=0)
        sizes = training.worth(features(training.rows, prevalence, projection), variances)
        within = replace(within, observed=sizes)
    empty = np.empty((0, *matrix.shape))
    return ManyMoments(
        *(matrix, empty, sizes, freedom_of(sizes), training, prevalence, projection, within)
    )


def many_bag_moments(rows: Array, weights: Array, prevalence: Array) -> ManyMoments:
    """Return the moments of many classes by the posteriors of a bag; see ``bag_moments``."""
    phi = adapted(rows, prevalence)
    membership = phi * weights[:, None]
    mass = np.maximum(membership.sum(axis=0), np.finfo(np.float64).tiny)
    observed = np.maximum(mass * weights.sum() / (weights**2).sum(), 1.0)
    membership /= mass
    matrix = np.asarray(phi.T @ membership)
    within = Within(phi, membership, matrix, observed)
    freedom = np.full(len(mass), freedom_of(observed.sum()))
    known = np.full(len(mass), np.inf)
    return ManyMoments(matrix, np.empty((0, *matrix.shape)), known, freedom, within=within)


def directed_intervals(
    equations: MomentEquations, tail: float, unseen: Array, n_threads: int = 1
) -> tuple[Array, Array, Array]:
    """Return the intervals of many classes, and the moment estimates.

    Parameters
    ----------
    equations : MomentEquations
        Their moments are :class:`ManyMoments`.
    tail : float
        Probability outside each end.
    unseen : array of shape (B,)
        Share of the population that is not in each bag; zero if the target is the bag itself.
    n_threads : int

    Returns
    -------
    low, high, moment_estimates : arrays of shape (B, k)
    """
    low, high, middle = (np.empty(equations.estimates.shape) for _ in range(3))
    for number in range(len(low)):
        low[number], high[number], middle[number] = _intervals(
            equations, number, tail, float(unseen[number]), n_threads
        )
    return low, high, middle


def _intervals(
    equations: MomentEquations, number: int, tail: float, unseen: float, n_threads: int
) -> tuple[Array, Array, Array]:
    moments = equations.at(number)
    assert isinstance(moments, ManyMoments), "there are many classes"
    m, size, q = (
        equations.bag_sizes[number],
        float(equations.sizes[number]),
        equations.means[number],
    )
    x, T, widest = equations.estimates[number], moments.matrix, float(m.min())
    for _ in range(2):  # first with V at the quantifier's own estimate
        mix = smoothed(x, size)
        mean = T @ mix
        variance = moments.feature_covariance(mix / widest, mix)
        variance += unseen / widest * ((T * mix) @ T.T - np.outer(mean, mean))
        factor = cho_factor(invertible(variance), lower=True, overwrite_a=True)
        solved = cho_solve(factor, np.column_stack([T, q]))
        products = T.T @ solved
        gram, linear = (products[:, :-1] + products[:, :-1].T) / 2.0, products[:, -1]
        x = _program(gram, linear, mix, n_threads)
    slope = gram @ x - linear
    few, more = _moves(gram, x, slope)
    chunk = Chunk.of(equations, slice(number, number + 1), np.array([unseen]))
    rest = mix * (1.0 - np.eye(len(x)))
    rest /= rest.sum(axis=1, keepdims=True)
    variances = ShareVariances.of(chunk, mix[None], rest[None])

    def excess(classes: Indices, t: Array) -> Array:
        distance = np.full(len(t), np.inf)
        for moves in (few, more):
            moved = _inside(x, moves[classes], classes, t) - x
            found = ((moved @ gram) * moved).sum(axis=1) + 2.0 * moved @ slope
            distance = np.minimum(distance, np.maximum(found, 0.0))
        scaled = np.sqrt(distance / variances.scale(classes, t))
        return np.asarray(scaled / t_quantile(tail, variances.freedom(classes, t)) - 1.0)

    classes, ends = np.tile(np.arange(len(x)), 2), np.repeat([0.0, 1.0], len(x))
    lengths = 1.0 / np.sqrt(np.maximum(((few @ gram) * few).sum(axis=1), 1e-300))
    reach = np.tile(REACH * lengths, 2) * np.where(ends > 0.0, 1.0, -1.0)
    far, inside = np.clip(np.tile(x, 2) + reach, 0.0, 1.0), np.full(len(classes), -1.0)
    low, high = crossings(excess, classes, np.tile(x, 2), inside, far, ends).reshape(2, -1)
    return low, high, x


def _inside(x: Array, moves: Array, classes: Indices, t: Array) -> Array:
    """Return prevalences (N, k) in the simplex that give classes the shares t (N,).

    They go from ``x`` in the direction of ``moves`` (N, k); shares that would become negative are
    zero, and the other classes make up for it.
    """
    rows = np.arange(len(t))
    a = np.maximum(x + (t - x[classes])[:, None] * moves, 0.0)
    a[rows, classes] = 0.0
    total = a.sum(axis=1)
    a *= ((1.0 - t) / np.where(total > 0.0, total, 1.0))[:, None]
    a[rows, classes] = t
    return a


def _variances(
    moments: ManyMoments, left: Array, mix: Array, m: Array, unseen: float
) -> ShareVariances:
    """Return the variances of shares with the weights ``left`` (k, r), if these are t."""
    spread = moments.known.variances(left)
    of_templates = moments.known.variances(moments.raised(left))
    rest = mix * (1.0 - np.eye(len(mix)))
    rest /= rest.sum(axis=1, keepdims=True)
    first, second = rest * spread / m[:, None], rest**2 / moments.sizes * of_templates
    products = [first**2, first * second, second**2]
    return ShareVariances(
        own=np.array([np.diag(spread) / m, np.diag(of_templates) / moments.sizes]),
        others=np.array([first.sum(axis=1), second.sum(axis=1)]),
        labels=unseen / m,
        clusters=np.zeros((3, len(mix))),
        cluster_freedom=np.ones(len(mix)),
        own_freedom=moments.freedom,
        products=np.array([(part / moments.freedom).sum(axis=1) for part in products]),
        at_fit=np.ones(len(mix)),
        units=np.full(len(mix), np.inf),
    )


def _program(gram: Array, linear: Array, start: Array, n_threads: int) -> Array:
    """Return the minimum of Q over the simplex, shape (k,)."""
    x, _ = solve_programs(
        gram[None], linear[None], simplex=True, start=start[None], n_threads=n_threads
    )
    inside = np.maximum(x[0], 0.0)
    return np.asarray(inside / inside.sum())


def _moves(gram: Array, x: Array, slope: Array) -> tuple[Array, Array]:
    """Return how all shares move along with each, twice (k, k).

    First the classes of the moment estimate take part, then those that are nearly there, too.
    """
    free = x > 0.0
    few = _moves_among(gram, free)
    lengths = np.sqrt(np.maximum(((few @ gram) * few).sum(axis=1), 1e-300))
    absent = np.where(free, np.inf, few @ slope / lengths)  # in standard errors below zero
    near = free | (absent < NEARLY)
    near[np.argsort(absent)[: max(2 - int(near.sum()), 0)]] = True
    return few, _moves_among(gram, near)


def _moves_among(gram: Array, free: NDArray[np.bool_]) -> Array:
    """Return how shares move along with each if only the free classes and itself may, (k, k)."""
    k, inner = len(gram), np.ix_(free, free)
    ridge = RIDGE * np.trace(gram) / k
    factor = cho_factor(gram[inner] + ridge * np.eye(int(free.sum())), lower=True)
    inverse = cho_solve(factor, np.eye(int(free.sum())))
    sums = inverse.sum(axis=1)
    covariance = inverse - np.outer(sums, sums) / sums.sum()
    moves = np.zeros((k, k))
    scale = np.maximum(np.diag(covariance), np.finfo(np.float64).tiny)
    moves[inner] = covariance / scale[:, None]
    others = np.flatnonzero(~free)
    pulled = covariance @ gram[np.ix_(free, ~free)] + (sums / sums.sum())[:, None]
    moves[np.ix_(~free, free)] = -pulled.T
    moves[others, others] = 1.0
    return moves
