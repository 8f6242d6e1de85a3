r"""Limits by the profile of the moment equation over the simplex.

With q, T and V as in ``moments.py``, the distance of a prevalence from what the bag shows is

.. math:: Q_V(\alpha) = (q - T\alpha)' V^{-1} (q - T\alpha)

Its minimum over the simplex is the moment estimate :math:`\hat x`. For class i and a share t let
V(t) be the covariance at :math:`\alpha_i = t`, the others sharing the rest as in
:math:`\hat x`. The limits of the class are the ends of the set of all t with

.. math:: D(t) = \min \{ Q_{V(t)}(\alpha) : \alpha_i = t, \alpha \text{ in the simplex} \}
          - Q_{V(t)}(\hat x) \le c(t)^2

where c(t) is the quantile of Student's t with Satterthwaite's degrees of freedom for the variance
of the class at t. The other classes are not negative either, which limits around the unconstrained
:math:`T^{-1} q` ignore: where classes are hard to distinguish the profile halves the width. T is
not inverted, so that classes which cannot be distinguished need no special case. With two classes
and :math:`\hat x` inside the simplex the limits are the roots of a quadratic: Wilson's score
interval with perfect classes, Fieller's with template noise alone.

V(t) is too small if a class with few labels has a share that the moment estimate does not show: the
estimate may have sent it to other classes, whose limits would then be sure of that. Where another
class has few labels we therefore also try prevalences on the face that give it half of the rest,
and those that follow from there, each judged by the V at this very prevalence; D is the smallest
value. Any prevalence in the set bounds D from above, so this can only widen the limits.

Each value of D is a quadratic program on a face of the simplex. We solve the programs of all bags,
classes and sides together, and subtract the certified gap of each from D, so that a program that
stopped early can widen the limits but not narrow them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices
from kdey.intervals.moments import MomentEquations, smoothed
from kdey.intervals.score_interval import t_quantile
from kdey.problems.interface import frank_wolfe_gap
from kdey.solvers.quadratic import solve_programs

#: Numbers per array of a chunk of bags, which bounds the memory.
CHUNK = 1 << 20
#: Variances below this are rounding: training rows are held in single precision.
SMALLEST_VARIANCE = 1e-12
#: Share of the trace of V that is added to its diagonal.
RIDGE = 1e-10
#: A search for a limit ends when sqrt(D) is this close to the quantile, relative to it.
TOLERANCE = 1e-7
#: Largest number of evaluations per limit. Six are typical.
MAX_EVALUATIONS = 60
#: Classes with fewer labels than this can have a share that the moment estimate does not show.
FEW_LABELS = 50
#: Share of the rest that such classes get where we look for prevalences beside the moment estimate,
#: and number of steps from there.
HIDDEN_SHARE, HIDDEN_STEPS = 0.5, 3


def profile_limits(
    equations: MomentEquations, tail: float, population: bool, n_threads: int = 1
) -> tuple[Array, Array, Array]:
    """Return the limits of every class and bag, and the moment estimates.

    Parameters
    ----------
    equations : MomentEquations
    tail : float
        Probability outside each end.
    population : bool
        Whether the target is the population; otherwise it is the bag.
    n_threads : int

    Returns
    -------
    low, high, moment_estimates : arrays of shape (B, k)
        Limits in [0, 1], with the moment estimates between them.
    """
    low, high, middle = (np.empty(equations.estimates.shape) for _ in range(3))
    step = max(1, CHUNK // equations.estimates.shape[1] ** 3)
    for start in range(0, len(low), step):
        run = slice(start, start + step)
        chunk = _Chunk.of(equations, run, population)
        middle[run] = chunk.moment_estimates(n_threads)
        faces = _Faces.of(chunk, middle[run], tail, n_threads)
        low[run], high[run] = faces.limits()
    return low, high, middle


@dataclass(frozen=True, eq=False)
class _Chunk:
    """The moment equations of B bags as stacks of arrays; see :class:`MomentEquations`."""

    means: Array
    start: Array
    sizes: Array
    bag_sizes: Array
    units: Array
    matrix: Array
    covariances: Array
    template_covariances: Array
    spread: Array
    template_spread: Array
    freedom: Array
    template_sizes: Array
    population: bool

    @classmethod
    def of(cls, equations: MomentEquations, run: slice, population: bool) -> _Chunk:
        means = equations.means[run]
        shared = len(equations.moments) == 1

        def stack(name: str) -> Array:
            if shared:
                single = np.asarray(getattr(equations.moments[0], name))
                return np.broadcast_to(single, (len(means), *single.shape))
            return np.stack([getattr(item, name) for item in equations.moments[run]])

        return cls(
            means,
            equations.estimates[run],
            equations.sizes[run],
            equations.bag_sizes[run],
            equations.units[run],
            stack("matrix"),
            stack("covariances"),
            stack("template_covariances"),
            stack("spread"),
            stack("template_spread"),
            stack("freedom"),
            equations.moments[0].sizes,
            population,
        )

    def moment_estimates(self, n_threads: int) -> Array:
        """Return the minima of Q over the simplex, V taken at the estimate and then at them."""
        x, bags = self.start, np.arange(len(self.means))
        widest = self.bag_sizes.argmin(axis=1)
        for _ in range(2):
            variance = self.variance_at(smoothed(x, self.sizes), bags, widest)
            whitened = _Whitened.of(variance, self, bags)
            x, _ = solve_programs(whitened.gram, whitened.linear, simplex=True, n_threads=n_threads)
            x = np.maximum(x, 0.0)
            x /= x.sum(axis=1, keepdims=True)
        return x

    def variance_at(self, prevalence: Array, bags: Indices, classes: Indices) -> Array:
        """Return V at prevalences (N, k) of some bags, with the bag sizes of some classes."""
        m = self.bag_sizes[bags, classes][:, None]
        in_bag, in_templates = prevalence / m, prevalence**2 / self.template_sizes
        r = self.means.shape[1]
        total = np.zeros((len(bags), r, r))
        for label in range(prevalence.shape[1]):
            total += in_bag[:, label, None, None] * self.covariances[bags, label]
            total += in_templates[:, label, None, None] * self.template_covariances[bags, label]
        if self.population:
            total += _multinomial(self.matrix[bags], prevalence) / m[:, :, None]
        return total


@dataclass(frozen=True, eq=False)
class _Whitened:
    """N moment equations with their V, divided by it.

    Attributes
    ----------
    gram : array of shape (N, k, k)
        T'V^-1 T.
    linear : array of shape (N, k)
        T'V^-1 q.
    matrix : array of shape (N, r, k)
        T.
    q : array of shape (N, r)
    solved : array of shape (N, r, k + 1)
        V^-1 [T q].
    """

    gram: Array
    linear: Array
    matrix: Array
    q: Array
    solved: Array

    @classmethod
    def of(cls, variance: Array, chunk: _Chunk, bags: Indices) -> _Whitened:
        """Return the equations of some bags with their V, shape (N, r, r).

        Residuals sum to zero, so V is singular along the vector of ones. What we add there changes
        no distance.
        """
        matrix, q = chunk.matrix[bags], chunk.means[bags]
        r = variance.shape[1]
        size = np.trace(variance, axis1=1, axis2=2)[:, None, None] + SMALLEST_VARIANCE
        raised = variance + size / r + (RIDGE * size + SMALLEST_VARIANCE) * np.eye(r)
        solved = np.linalg.solve(raised, np.concatenate([matrix, q[:, :, None]], axis=2))
        products = matrix.transpose(0, 2, 1) @ solved
        gram = products[:, :, :-1]
        gram = (gram + gram.transpose(0, 2, 1)) / 2.0
        return cls(gram, products[:, :, -1].copy(), matrix, q, solved)

    def difference(self, first: Array, second: Array) -> Array:
        """Return Q at prevalences ``first`` minus Q at ``second``, both (N, k), shape (N,)."""
        return self._distance(first) - self._distance(second)

    def _distance(self, x: Array) -> Array:
        residual = self.q - _times(self.matrix, x)
        weighted = self.solved[:, :, -1] - _times(self.solved[:, :, :-1], x)
        return np.asarray((residual * weighted).sum(axis=1))


@dataclass(frozen=True, eq=False)
class _Faces:
    """One face of the simplex per bag and class: the prevalences that give class i the share t.

    A pair is a bag and a class, ``number of the bag * k + i``; there are P = B k pairs. V(t) is

        t first + t^2 second + (1 - t) third + (1 - t)^2 fourth + t (1 - t) fifth.

    Attributes
    ----------
    chunk : _Chunk
    middle : array of shape (B, k)
        Moment estimates.
    rest : array of shape (P, k)
        How the other classes share what class i leaves; zero for class i.
    terms : five arrays of shape (P, r, r)
    tail : float
    n_threads : int
    """

    chunk: _Chunk
    middle: Array
    rest: Array
    terms: tuple[Array, Array, Array, Array, Array]
    tail: float
    n_threads: int

    @classmethod
    def of(cls, chunk: _Chunk, middle: Array, tail: float, n_threads: int) -> _Faces:
        n_bags, k = middle.shape
        mix = smoothed(middle, chunk.sizes)
        rest = np.repeat(mix[:, None, :], k, axis=1) * (1.0 - np.eye(k))
        rest /= rest.sum(axis=2, keepdims=True)  # (B, class i, class l)
        m, n = chunk.bag_sizes[:, :, None, None], chunk.template_sizes
        own = chunk.covariances / m
        own_templates = chunk.template_covariances / n[:, None, None]
        others = _mixed(rest, chunk.covariances)
        other_templates = _mixed(rest**2 / n, chunk.template_covariances)
        apart = np.zeros_like(others)
        if chunk.population:
            columns = chunk.matrix.transpose(0, 2, 1)  # (B, k, r)
            means = rest @ columns  # (B, k, r)
            outer = _mixed(rest, columns[:, :, :, None] * columns[:, :, None, :])
            others = others + outer - means[:, :, :, None] * means[:, :, None, :]
            d = columns - means
            apart = d[:, :, :, None] * d[:, :, None, :] / m
        terms = (own, own_templates, others / m, other_templates, apart)
        r = chunk.means.shape[1]
        flat = tuple(np.ascontiguousarray(term).reshape(n_bags * k, r, r) for term in terms)
        first, second, third, fourth, fifth = flat
        return cls(
            chunk,
            middle,
            rest.reshape(n_bags * k, k),
            (first, second, third, fourth, fifth),
            tail,
            n_threads,
        )

    def limits(self) -> tuple[Array, Array]:
        """Return the limits of all pairs, two arrays of shape (B, k)."""
        pairs = np.arange(len(self.rest))
        middle = self.middle.ravel()
        both = np.concatenate([pairs, pairs])
        ends = np.repeat([0.0, 1.0], len(pairs))
        t = _crossings(self.excess, both, np.concatenate([middle, middle]), ends)
        return t[: len(pairs)].reshape(self.middle.shape), t[len(pairs) :].reshape(
            self.middle.shape
        )

    def excess(self, pairs: Indices, t: Array) -> Array:
        """Return sqrt(D(t)) / c(t) - 1 of some pairs, shape (N,): negative inside the limits."""
        distance, gap = self.distance(pairs, t)
        lowest = np.maximum(distance - gap, 0.0)
        return np.asarray(np.sqrt(lowest) / self._quantile(pairs, t) - 1.0)

    def distance(self, pairs: Indices, t: Array) -> tuple[Array, Array]:
        """Return D and a certified bound on its error, two arrays of shape (N,)."""
        bags, classes = np.divmod(pairs, self.rest.shape[1])
        whitened = _Whitened.of(self._variance(pairs, t), self.chunk, bags)
        a, gap = _face_minima(whitened, classes, t, self.n_threads)
        distance, error = whitened.difference(a, self.middle[bags]), 2.0 * gap
        hidden = np.flatnonzero(self._has_hidden_classes[classes])
        if len(hidden):
            other = self._hidden_distance(pairs[hidden], t[hidden])
            is_nearer = other < distance[hidden]
            distance[hidden] = np.where(is_nearer, other, distance[hidden])
            error[hidden] = np.where(is_nearer, 0.0, error[hidden])
        return distance, error

    @property
    def _has_hidden_classes(self) -> NDArray[np.bool_]:
        """Whether a class other than class i has few labels, and a third takes part, shape (k,)."""
        few = self.chunk.template_sizes < FEW_LABELS
        return np.asarray((few.sum() - few > 0) & (len(few) > 2))

    def _hidden_distance(self, pairs: Indices, t: Array) -> Array:
        """Return the smallest distance of prevalences that give much to classes with few labels."""
        chunk, k = self.chunk, self.rest.shape[1]
        rows = np.arange(len(t))
        bags, classes = np.divmod(pairs, k)
        hidden = np.tile(1.0 / chunk.template_sizes**2, (len(t), 1))
        hidden[rows, classes] = 0.0
        hidden /= hidden.sum(axis=1, keepdims=True)
        rest = (1.0 - HIDDEN_SHARE) * self.rest[pairs] + HIDDEN_SHARE * hidden
        a = rest * (1.0 - t)[:, None]
        a[rows, classes] = t
        nearest = np.full(len(t), np.inf)
        for _ in range(HIDDEN_STEPS):
            variance = chunk.variance_at(smoothed(a, chunk.sizes[bags]), bags, classes)
            whitened = _Whitened.of(variance, chunk, bags)
            nearest = np.minimum(nearest, whitened.difference(a, self.middle[bags]))
            a, _ = _face_minima(whitened, classes, t, self.n_threads)
        return nearest

    def _variance(self, pairs: Indices, t: Array) -> Array:
        """Return V(t), shape (N, r, r)."""
        rest = 1.0 - t
        weights = (t, t**2, rest, rest**2, t * rest)
        total = np.zeros((len(t), *self.terms[0].shape[1:]))
        for weight, term in zip(weights, self.terms, strict=True):
            total += weight[:, None, None] * term[pairs]
        return total

    def _quantile(self, pairs: Indices, t: Array) -> Array:
        """Return c(t), the quantile for the degrees of freedom of the variance at t, shape (N,)."""
        chunk = self.chunk
        bags, classes = np.divmod(pairs, self.rest.shape[1])
        a = self.rest[pairs] * (1.0 - t)[:, None]
        a[np.arange(len(a)), classes] = t
        m = chunk.bag_sizes[bags, classes]
        parts = a / m[:, None] * chunk.spread[bags, classes]
        parts += a**2 / chunk.template_sizes * chunk.template_spread[bags, classes]
        total = parts.sum(axis=1) + (t * (1.0 - t) / m if chunk.population else 0.0)
        uncertain = (parts**2 / chunk.freedom[bags]).sum(axis=1)
        freedom = total**2 / np.maximum(uncertain, np.finfo(np.float64).tiny)
        return t_quantile(self.tail, np.minimum(freedom, chunk.units[bags]))


def _face_minima(
    whitened: _Whitened, classes: Indices, t: Array, n_threads: int
) -> tuple[Array, Array]:
    """Minimise Q / 2 over the prevalences with a_i = t.

    Parameters
    ----------
    whitened : _Whitened
    classes : int64 array of shape (N,)
        The class i of each program.
    t : array of shape (N,)
    n_threads : int

    Returns
    -------
    a : array of shape (N, k)
    gap : array of shape (N,)
        Bounds on how far the value at ``a`` is above the minimum.
    """
    gram, linear = whitened.gram, whitened.linear
    n, k = linear.shape
    rows, rest = np.arange(n), 1.0 - t
    others = _other_classes(k)[classes]
    a = np.zeros((n, k))
    a[rows, classes] = t
    face = np.ones((n, 1))
    if k > 2:
        # With a = t e_i + (1 - t) y the program is one over the simplex of the other classes.
        inner = gram[rows[:, None, None], others[:, :, None], others[:, None, :]]
        pull = (
            linear[rows[:, None], others]
            - t[:, None] * gram[rows[:, None], classes[:, None], others]
        )
        inner = inner * rest[:, None, None]
        face, _ = solve_programs(inner, pull, simplex=True, n_threads=n_threads)
        face = np.maximum(face, 0.0)
        face /= face.sum(axis=1, keepdims=True)
    a[rows[:, None], others] = rest[:, None] * face
    gradient = (_times(gram, a) - linear)[rows[:, None], others] * rest[:, None]
    return a, np.maximum(frank_wolfe_gap(face, gradient), 0.0)


def _other_classes(k: int) -> Indices:
    """Return the classes other than i in row i, shape (k, k - 1)."""
    table = np.tile(np.arange(k), (k, 1))
    return table[~np.eye(k, dtype=np.bool_)].reshape(k, k - 1)


def _crossings(
    excess: Callable[[Indices, Array], Array], pairs: Indices, inside: Array, ends: Array
) -> Array:
    """Return where a function crosses zero between a point inside the limits and an end.

    The method is that of Anderson and Bjoerck (1973): regula falsi that lowers the value of an
    end which stays for the second time. sqrt(D) is nearly linear in t, so it takes few steps.

    Parameters
    ----------
    excess : callable
        Takes pairs and shares t, returns -1 at ``inside``.
    pairs : int64 array of shape (N,)
    inside, ends : arrays of shape (N,)

    Returns
    -------
    array of shape (N,)
        ``ends`` where the function is not positive there.
    """
    t = ends.copy()
    near, far = inside.copy(), ends.copy()
    low, high = np.full(len(t), -1.0), excess(pairs, ends)
    active = np.flatnonzero((high > 0.0) & (near != far))
    for _ in range(MAX_EVALUATIONS):
        if len(active) == 0:
            break
        a, b, f, g = near[active], far[active], low[active], high[active]
        point = (a * g - b * f) / (g - f)
        value = excess(pairs[active], point)
        t[active] = point
        is_inside = value <= 0.0
        previous = np.where(is_inside, f, g)
        factor = 1.0 - value / previous
        factor = np.where(factor > 0.0, factor, 0.5)
        near[active], low[active] = (
            np.where(is_inside, point, a),
            np.where(is_inside, value, f * factor),
        )
        far[active], high[active] = (
            np.where(is_inside, b, point),
            np.where(is_inside, g * factor, value),
        )
        is_done = (np.abs(value) <= TOLERANCE) | (
            np.abs(far[active] - near[active]) <= TOLERANCE**2
        )
        active = active[~is_done]
    return t


def _mixed(weights: Array, matrices: Array) -> Array:
    """Return sum_l weights[b, i, l] matrices[b, l], shape (B, n, r, r)."""
    n_bags, k, r, _ = matrices.shape
    flat = np.ascontiguousarray(matrices).reshape(n_bags, k, r * r)
    return np.asarray(weights @ flat).reshape(n_bags, weights.shape[1], r, r)


def _multinomial(matrix: Array, prevalence: Array) -> Array:
    """Return T (diag a - a a') T', shape (B, r, r)."""
    mean = _times(matrix, prevalence)
    second = (matrix * prevalence[:, None, :]) @ matrix.transpose(0, 2, 1)
    return np.asarray(second - mean[:, :, None] * mean[:, None, :])


def _times(matrices: Array, vectors: Array) -> Array:
    """Return the products of matrices (N, r, k) and vectors (N, k), shape (N, r)."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])
