r"""Intervals by the profile of the moment equation over the simplex.

With q, T and V as in ``moments.py``, the distance of a prevalence from what the bag shows is

.. math:: Q(\alpha) = (q - T\alpha)' V^{-1} (q - T\alpha)

with V taken near the minimum of Q over the simplex, the moment estimate :math:`\hat x`. For class i
and a share t let v(t) be the variance of the class if it had the share t and the others shared
the rest as estimated, and v_0 that behind V. The interval of the class has the ends of the set of
all t with

.. math:: D(t) = \min \{ Q(\alpha) : \alpha_i = t, \alpha \text{ in the simplex} \} - Q(\hat x)
          \le c(t)^2 \, \frac{v(t)}{v_0}

where c(t) is the quantile of Student's t with Satterthwaite's degrees of freedom of v(t). The other
classes are not negative either, which intervals around the unconstrained :math:`T^{-1} q` ignore:
where classes are hard to distinguish the profile halves the width. T is inverted for v only, so
that classes which cannot be distinguished need no special case. With two classes and
:math:`\hat x` inside the simplex the ends are the roots of a quadratic: Wilson's score interval
with perfect classes, Fieller's with template noise alone.

V is too small if a class with few labels has a share that the moment estimate does not show: the
estimate may have sent it to other classes, whose intervals would then be sure of that. Where
another class has few labels we therefore also try prevalences with :math:`\alpha_i = t` that give
it half of the rest, and the nearest ones from there, each judged by the V at this very prevalence;
the smallest value counts. Any prevalence bounds a minimum from above: this only widens intervals.

Each value of D is a quadratic program on a face of the simplex. We solve the programs of all bags,
classes and sides together, and subtract the certified gap of each from D, so that a program that
stopped early can widen the intervals but not narrow them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from kdey.bags import Array, Indices
from kdey.intervals.moments import MomentEquations, freedom_of_sums, smoothed
from kdey.matching import frank_wolfe_gap
from kdey.matching.sqp import solve_programs

#: Numbers per array of a chunk of bags, which bounds the memory.
CHUNK = 1 << 20
#: From so many classes on the ends of one bag are work enough, and its covariances one matrix.
MANY_CLASSES = 32
#: Variances below this are rounding: training rows are held in single precision.
SMALLEST_VARIANCE = 1e-12
#: Share of the trace of V that is added to its diagonal.
RIDGE = 1e-10
#: A search for an end stops when sqrt(D) is this close to the quantile, relative to it.
TOLERANCE = 1e-7
#: An end is first looked for at this multiple of the distance that a normal distribution has; if it
#: is further, at so many times that, and then at the end of the simplex.
BEYOND, FURTHER = 1.2, 4.0
#: Largest number of evaluations per end. Five are typical.
MAX_EVALUATIONS = 60
#: Classes with fewer labels than this can have a share that the moment estimate does not show.
FEW_LABELS = 50
#: Share of the rest that such classes get where we look for prevalences beside the moment estimate,
#: and number of steps from there.
HIDDEN_SHARE, HIDDEN_STEPS = 0.5, 2
#: Smallest share that the other classes have in a quadratic program.
SMALLEST_REST = 1e-9


def profile_intervals(
    equations: MomentEquations, tail: float, unseen: Array | float, n_threads: int = 1
) -> tuple[Array, Array, Array]:
    """Return the intervals of every class and bag, and the moment estimates.

    Parameters
    ----------
    equations : MomentEquations
    tail : float
        Probability outside each end.
    unseen : array of shape (B,) or float
        Share of the population that is not in each bag; zero if the target is the bag itself.
    n_threads : int

    Returns
    -------
    low, high, moment_estimates : arrays of shape (B, k)
        Intervals in [0, 1], with the moment estimates between them.
    """
    low, high, middle = (np.empty(equations.estimates.shape) for _ in range(3))
    k = equations.estimates.shape[1]
    # Each pair of a bag and a class gathers the errors of templates by cluster.
    per_class = max(k**2, equations.moments[0].cluster_errors.size)
    step = max(1, CHUNK // (k * per_class)) if k < MANY_CLASSES else 1
    shares = np.broadcast_to(np.asarray(unseen, dtype=np.float64), len(low))
    for start in range(0, len(low), step):
        run = slice(start, start + step)
        chunk = Chunk.of(equations, run, shares[run])
        faces = _Faces.of(chunk, tail, n_threads)
        middle[run] = faces.minimum
        low[run], high[run] = faces.intervals()
    return low, high, middle


@dataclass(frozen=True, eq=False)
class Chunk:
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
    cluster_errors: Array
    cluster_spread: Array
    cluster_freedom: Array
    unseen: Array

    @classmethod
    def of(cls, equations: MomentEquations, run: slice, unseen: Array) -> Chunk:
        """Return the equations of a run of bags."""
        means = equations.means[run]
        shared = len(equations.moments) == 1

        def stack(name: str) -> Array:
            if shared:
                single = np.asarray(getattr(equations.moments[0], name))
                return np.broadcast_to(single, (len(means), *single.shape))
            return np.stack([getattr(item, name) for item in equations.moments[run]])

        matrix, covariances = stack("matrix"), stack("covariances")
        if covariances.shape[1] and (unseen > 0.0).any():
            # The labels of the bag are a draw, too: T (diag a - a a') T', of which the first term
            # has the form of the covariances.
            equal = shared and bool((unseen == unseen[0]).all())
            few = slice(0, 1) if equal else slice(None)
            columns = matrix[few].transpose(0, 2, 1)
            outer = columns[:, :, :, None] * columns[:, :, None, :]
            within = covariances[few] + unseen[few, None, None, None] * outer
            covariances = np.broadcast_to(within, covariances.shape)
        return cls(
            means,
            equations.estimates[run],
            equations.sizes[run],
            equations.bag_sizes[run],
            equations.units[run],
            matrix,
            covariances,
            stack("template_covariances"),
            stack("spread"),
            stack("template_spread"),
            stack("freedom"),
            equations.moments[0].sizes,
            stack("cluster_errors"),
            stack("cluster_spread"),
            equations.moments[0].cluster_freedom,
            unseen,
        )

    def variance_at(self, prevalence: Array, bags: Indices, classes: Indices) -> Array:
        """Return V at prevalences (N, k) of some bags, with the bag sizes of some classes."""
        m = self.bag_sizes[bags, classes][:, None]
        total = _mixed(prevalence / m, self.covariances, bags)
        total += _mixed(prevalence**2 / self.template_sizes, self.template_covariances, bags)
        if self.cluster_errors.shape[1]:
            sums = _mixed(prevalence, self.cluster_errors.transpose(0, 2, 1, 3), bags)
            total += sums.transpose(0, 2, 1) @ sums
        if self.unseen.any():
            mean = _times(self.matrix[bags], prevalence)
            total -= mean[:, :, None] * (mean * (self.unseen[bags, None] / m))[:, None, :]
        return total

    def solved(self, variance: Array, bags: Indices) -> Array:
        """Return V^-1 [T q] of some bags for their V (N, r, r), shape (N, r, k + 1)."""
        columns = np.concatenate([self.matrix[bags], self.means[bags][:, :, None]], axis=2)
        return np.asarray(np.linalg.solve(invertible(variance), columns))

    def program(self, solved: Array, bags: Indices) -> tuple[Array, Array]:
        """Return T'V^-1 T (N, k, k) and T'V^-1 q (N, k), of which Q is made."""
        products = self.matrix[bags].transpose(0, 2, 1) @ solved
        gram = products[:, :, :-1]
        return (gram + gram.transpose(0, 2, 1)) / 2.0, products[:, :, -1].copy()

    def distance(self, solved: Array, bags: Indices, x: Array) -> Array:
        """Return Q at the prevalences x (N, k), shape (N,)."""
        residual = self.means[bags] - _times(self.matrix[bags], x)
        weighted = solved[:, :, -1] - _times(solved[:, :, :-1], x)
        return np.asarray((residual * weighted).sum(axis=1))

    def moment_estimates(self, n_threads: int) -> tuple[Array, Array, Array, Array]:
        """Return the minimum of Q over the simplex, with V at the minimum.

        Returns
        -------
        minimum : array of shape (B, k)
            The moment estimates.
        mix : array of shape (B, k)
            The prevalences without zeros at which V is taken.
        gram : array of shape (B, k, k)
            Half the Hessian of Q.
        slope : array of shape (B, k)
            Half the gradient of Q at the minimum.
        """
        bags, widest = np.arange(len(self.means)), self.bag_sizes.argmin(axis=1)
        x = self.start
        for _ in range(2):  # first with V at the quantifier's own estimate
            mix = smoothed(x, self.sizes)
            gram, linear = self.program(
                self.solved(self.variance_at(mix, bags, widest), bags), bags
            )
            x, _ = solve_programs(gram, linear, simplex=True, n_threads=n_threads)
            x = np.maximum(x, 0.0)
            x /= x.sum(axis=1, keepdims=True)
        return x, mix, gram, _times(gram, x) - linear


@dataclass(frozen=True, eq=False)
class ShareVariances:
    """The variance v(t) of each pair of a bag and a class, and its degrees of freedom.

    A pair is ``number of the bag * k + i``; there are P = B k pairs. The variance is

        t own_0 + t^2 own_1 + (1 - t) others_0 + (1 - t)^2 others_1 + t (1 - t) labels
        + t^2 clusters_0 + 2 t (1 - t) clusters_1 + (1 - t)^2 clusters_2

    Attributes
    ----------
    own, others : arrays of shape (2, P)
    labels : array of shape (P,)
    clusters : array of shape (3, P)
        Of errors of templates that the training instances of a cluster share.
    cluster_freedom : array of shape (P,)
    own_freedom : array of shape (P,)
        Degrees of freedom of the covariance of class i.
    products : array of shape (3, P)
        Sums over the other classes of squares of their two terms, and of the terms' product, each
        divided by the degrees of freedom of the class.
    at_fit : array of shape (P,)
        The variance at the prevalence of V.
    units : array of shape (P,)
    """

    own: Array
    others: Array
    labels: Array
    clusters: Array
    cluster_freedom: Array
    own_freedom: Array
    products: Array
    at_fit: Array
    units: Array

    @classmethod
    def of(cls, chunk: Chunk, mix: Array, rest: Array) -> ShareVariances:
        """Return the variances if the others share the rest as ``rest`` (B, k, k) says.

        V was taken at ``mix``, shape (B, k).
        """
        m = chunk.bag_sizes
        first = rest * chunk.spread / m[:, :, None]
        second = rest**2 / chunk.template_sizes * chunk.template_spread
        own = np.diagonal(chunk.spread, axis1=1, axis2=2) / m
        own_templates = np.diagonal(chunk.template_spread, axis1=1, axis2=2) / chunk.template_sizes
        sums = np.einsum("bil,bcli->bci", rest, chunk.cluster_spread)
        alone = np.diagonal(chunk.cluster_spread, axis1=2, axis2=3)
        clusters = [(alone**2).sum(axis=1), (alone * sums).sum(axis=1), (sums**2).sum(axis=1)]
        freedom = chunk.freedom[:, None, :]
        products = [first**2 / freedom, first * second / freedom, second**2 / freedom]
        variances = cls(
            np.array([own.ravel(), own_templates.ravel()]),
            np.array([first.sum(axis=2).ravel(), second.sum(axis=2).ravel()]),
            (chunk.unseen[:, None] / m).ravel(),
            np.array([part.ravel() for part in clusters]),
            freedom_of_sums(chunk.cluster_spread, mix, chunk.cluster_freedom).ravel(),
            chunk.freedom.ravel(),
            np.array([product.sum(axis=2).ravel() for product in products]),
            np.empty(0),
            np.repeat(chunk.units, m.shape[1]),
        )
        # V has the bag size of the widest class.
        factor = (m / m.min(axis=1, keepdims=True)).ravel()
        pairs, t = np.arange(m.size), mix.ravel()
        at_fit = variances.value(pairs, t)
        templates = t**2 * variances.own[1] + (1.0 - t) ** 2 * variances.others[1]
        templates = templates + variances._clusters(pairs, t)
        return replace(variances, at_fit=templates + (at_fit - templates) * factor)

    def value(self, pairs: Indices, t: Array) -> Array:
        """Return v(t) of some pairs, shape (N,)."""
        drawn = self._own(pairs, t) + self._others(pairs, t) + t * (1.0 - t) * self.labels[pairs]
        return np.asarray(drawn + self._clusters(pairs, t))

    def scale(self, pairs: Indices, t: Array) -> Array:
        """Return v(t) / v_0 of some pairs, shape (N,)."""
        small = SMALLEST_VARIANCE
        return np.asarray((self.value(pairs, t) + small) / (self.at_fit[pairs] + small))

    def freedom(self, pairs: Indices, t: Array) -> Array:
        """Return the degrees of freedom of v(t), shape (N,)."""
        rest = 1.0 - t
        squares, mixed, template_squares = self.products[:, pairs]
        uncertain = self._own(pairs, t) ** 2 / self.own_freedom[pairs]
        uncertain = uncertain + rest**2 * (
            squares + 2.0 * rest * mixed + rest**2 * template_squares
        )
        uncertain = uncertain + self._clusters(pairs, t) ** 2 / self.cluster_freedom[pairs]
        degrees = self.value(pairs, t) ** 2 / np.maximum(uncertain, np.finfo(np.float64).tiny)
        return np.asarray(np.minimum(degrees, self.units[pairs]))

    def _own(self, pairs: Indices, t: Array) -> Array:
        return np.asarray(t * (self.own[0, pairs] + t * self.own[1, pairs]))

    def _clusters(self, pairs: Indices, t: Array) -> Array:
        rest = 1.0 - t
        own, both, others = self.clusters[:, pairs]
        return np.asarray(t * t * own + 2.0 * t * rest * both + rest * rest * others)

    def _others(self, pairs: Indices, t: Array) -> Array:
        rest = 1.0 - t
        return np.asarray(rest * (self.others[0, pairs] + rest * self.others[1, pairs]))


@dataclass(frozen=True, eq=False)
class _Faces:
    """One face of the simplex per pair of a bag and a class: prevalences that give it a share t.

    On the face Q - Q(minimum) is a quadratic in the distance d of the prevalence from the minimum,
    of which the class has its own number and the k - 1 other classes theirs.

    Attributes
    ----------
    chunk : Chunk
    minimum : array of shape (B, k)
        The moment estimates.
    slope : array of shape (B, k)
        Half the gradient of Q there.
    variances : ShareVariances
    rest : array of shape (P, k)
        How the other classes share what class i leaves; zero for class i.
    gram : array of shape (P, k - 1, k - 1)
        Half the Hessian among the others.
    column : array of shape (P, k - 1)
        Half the Hessian between class i and the others.
    corner : array of shape (P,)
        Half the Hessian of class i.
    hessian : array of shape (B, k, k)
        Half the Hessian of all.
    tail : float
    n_threads : int
    """

    chunk: Chunk
    minimum: Array
    slope: Array
    variances: ShareVariances
    rest: Array
    gram: Array
    column: Array
    corner: Array
    hessian: Array
    tail: float
    n_threads: int

    @classmethod
    def of(cls, chunk: Chunk, tail: float, n_threads: int) -> _Faces:
        """Return the faces of all bags and classes."""
        minimum, mix, gram, slope = chunk.moment_estimates(n_threads)
        n_bags, k = minimum.shape
        rest = np.repeat(mix[:, None, :], k, axis=1) * (1.0 - np.eye(k))
        rest /= rest.sum(axis=2, keepdims=True)  # (B, class i, class l)
        others, classes = _other_classes(k), np.arange(k)
        return cls(
            chunk,
            minimum,
            slope,
            ShareVariances.of(chunk, mix, rest),
            rest.reshape(n_bags * k, k),
            gram[:, others[:, :, None], others[:, None, :]].reshape(-1, k - 1, k - 1),
            gram[:, classes[:, None], others].reshape(-1, k - 1),
            gram[:, classes, classes].ravel(),
            gram,
            tail,
            n_threads,
        )

    def intervals(self) -> tuple[Array, Array]:
        """Return the intervals of all pairs, two arrays of shape (B, k).

        Prevalences beside the moment estimate are looked at from the ends that it gives on: they
        only widen intervals, and are most of the work where classes are many.
        """
        shape, middle = self.minimum.shape, np.tile(self.minimum.ravel(), 2)
        pairs = np.tile(np.arange(self.minimum.size), 2)
        ends = np.repeat([0.0, 1.0], self.minimum.size)
        reach = np.tile(self.reach, 2) * np.where(ends > 0.0, 1.0, -1.0)
        far = np.clip(middle + reach, 0.0, 1.0)
        t = crossings(self.excess, pairs, middle, np.full(len(pairs), -1.0), far, ends)
        wide = np.flatnonzero(self._has_hidden_classes[pairs % shape[1]] & (t != ends))
        if len(wide):
            value = self.hidden_excess(pairs[wide], t[wide])
            wide, value = wide[value < 0.0], value[value < 0.0]
            last = ends[wide]
            t[wide] = crossings(self.hidden_excess, pairs[wide], t[wide], value, last, last)
        low, high = t.reshape(2, *shape)
        return low, high

    @property
    def reach(self) -> Array:
        """Where ends lie, about, if no other class reaches zero, as distances (P,); rarely less."""
        k = self.minimum.shape[1]
        hessian = self.hessian + np.trace(self.hessian, axis1=1, axis2=2)[:, None, None] / k
        try:
            variance = np.diagonal(np.linalg.inv(hessian), axis1=1, axis2=2).ravel()
        except np.linalg.LinAlgError:
            return np.ones(self.minimum.size)
        pairs = np.arange(self.minimum.size)
        quantile = t_quantile(self.tail, self.variances.freedom(pairs, self.minimum.ravel()))
        reach = BEYOND * quantile * np.sqrt(np.abs(variance))
        return np.asarray(np.where(np.isfinite(reach), reach, 1.0))

    def excess(self, pairs: Indices, t: Array) -> Array:
        """Return sqrt(D / scale) / c(t) - 1 of some pairs, shape (N,): negative inside."""
        distance, error = self.distance(pairs, t)
        scaled = np.maximum(distance - error, 0.0) / self.variances.scale(pairs, t)
        quantile = t_quantile(self.tail, self.variances.freedom(pairs, t))
        return np.asarray(np.sqrt(scaled) / quantile - 1.0)

    def hidden_excess(self, pairs: Indices, t: Array) -> Array:
        """As :func:`excess`, from prevalences that give much to classes with few labels."""
        distance = np.maximum(self._hidden_distance(pairs, t), 0.0)
        quantile = t_quantile(self.tail, self.variances.freedom(pairs, t))
        return np.asarray(np.sqrt(distance) / quantile - 1.0)

    def distance(self, pairs: Indices, t: Array) -> tuple[Array, Array]:
        """Return D and a certified bound on its error, two arrays of shape (N,)."""
        bags, classes = np.divmod(pairs, self.rest.shape[1])
        rows, others = np.arange(len(t))[:, None], _other_classes(self.rest.shape[1])[classes]
        minimum, slope = self.minimum[bags], self.slope[bags]
        gram, column, middle = self.gram[pairs], self.column[pairs], minimum[rows, others]
        moved = t - minimum[rows[:, 0], classes]
        rest = np.maximum(1.0 - t, SMALLEST_REST)[:, None]
        # Half the gradient among the others where these stay at the minimum.
        pull = slope[rows, others] + moved[:, None] * column
        face = np.ones((len(t), 1))
        if middle.shape[1] > 1:
            linear = (_times(gram, middle) - pull) / rest
            share = middle.sum(axis=1, keepdims=True)
            start = np.where(share > 0, middle / np.where(share > 0, share, 1.0), 1.0)
            start /= start.sum(axis=1, keepdims=True)
            face, _ = solve_programs(
                gram, linear, simplex=True, start=start, n_threads=self.n_threads
            )
            face = np.maximum(face, 0.0)
            face /= face.sum(axis=1, keepdims=True)
        d = (1.0 - t)[:, None] * face - middle
        bent = _times(gram, d)
        own = slope[rows[:, 0], classes]
        total = (d * (bent + 2.0 * pull)).sum(axis=1)
        total += moved * (2.0 * own + moved * self.corner[pairs])
        gap = frank_wolfe_gap(face, (1.0 - t)[:, None] * (bent + pull))
        return total, 2.0 * np.maximum(gap, 0.0)

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
        for step in range(HIDDEN_STEPS):
            variance = chunk.variance_at(smoothed(a, chunk.sizes[bags]), bags, classes)
            solved = chunk.solved(variance, bags)
            further = chunk.distance(solved, bags, a)
            further = further - chunk.distance(solved, bags, self.minimum[bags])
            nearest = np.minimum(nearest, further)
            if step + 1 < HIDDEN_STEPS:
                a = _nearest_on_face(*chunk.program(solved, bags), classes, t, self.n_threads)
        return nearest


def _nearest_on_face(
    gram: Array, linear: Array, classes: Indices, t: Array, n_threads: int
) -> Array:
    """Return the prevalences (N, k) with a_i = t at which Q is least.

    Parameters
    ----------
    gram, linear : arrays of shape (N, k, k) and (N, k)
        T'V^-1 T and T'V^-1 q.
    classes : int64 array of shape (N,)
        The class i of each equation.
    t : array of shape (N,)
    n_threads : int

    Returns
    -------
    array of shape (N, k)
    """
    n, k = linear.shape
    rows, rest, others = np.arange(n)[:, None], 1.0 - t, _other_classes(k)[classes]
    # With a = t e_i + (1 - t) y the program is one over the simplex of the other classes.
    inner = gram[rows[:, :, None], others[:, :, None], others[:, None, :]]
    pull = linear[rows, others] - t[:, None] * gram[rows, classes[:, None], others]
    face, _ = solve_programs(
        inner,
        pull / np.maximum(rest, SMALLEST_REST)[:, None],
        simplex=True,
        n_threads=n_threads,
    )
    a = np.zeros((n, k))
    a[rows[:, 0], classes] = t
    a[rows, others] = rest[:, None] * np.maximum(face, 0.0)
    return a


def _other_classes(k: int) -> Indices:
    """Return the classes other than i in row i, shape (k, k - 1)."""
    table = np.tile(np.arange(k), (k, 1))
    return table[~np.eye(k, dtype=np.bool_)].reshape(k, k - 1)


def crossings(
    excess: Callable[[Indices, Array], Array],
    pairs: Indices,
    inside: Array,
    value_inside: Array,
    far: Array,
    ends: Array,
) -> Array:
    """Return where a function crosses zero between a point inside the interval and an end.

    The method is that of Anderson and Bjoerck (1973): regula falsi that lowers the value of an
    end which stays for the second time. sqrt(D) is nearly linear in t, so it takes few steps.

    Parameters
    ----------
    excess : callable
        Takes pairs and shares t, negative inside the interval.
    pairs : int64 array of shape (N,)
    inside, value_inside : arrays of shape (N,)
    far : array of shape (N,)
        Where to look first; probably outside.
    ends : array of shape (N,)

    Returns
    -------
    array of shape (N,)
        ``ends`` where the function is not positive there.
    """
    near, low = inside.copy(), value_inside.copy()
    far, high = far.copy(), excess(pairs, far)
    for further in (FURTHER, None):
        short = np.flatnonzero((high <= 0.0) & (far != ends))
        if len(short) == 0:
            break
        beyond = ends[short]
        if further is not None:
            beyond = np.clip(inside[short] + further * (far - inside)[short], 0.0, 1.0)
        near[short], low[short], far[short] = far[short], high[short], beyond
        high[short] = excess(pairs[short], beyond)
    t = far.copy()
    moved = np.zeros(len(t), dtype=np.int8)  # the end that the last step replaced
    active = np.flatnonzero((high > 0.0) & (near != far))
    for _ in range(MAX_EVALUATIONS):
        if len(active) == 0:
            break
        a, b, f, g = near[active], far[active], low[active], high[active]
        point = (a * g - b * f) / (g - f)
        value = excess(pairs[active], point)
        t[active] = point
        is_inside = value <= 0.0
        side = np.where(is_inside, 1, -1).astype(np.int8)
        factor = 1.0 - value / np.where(is_inside, f, g)
        factor = np.where(side != moved[active], 1.0, np.where(factor > 0.0, factor, 0.5))
        near[active], low[active] = (
            np.where(is_inside, point, a),
            np.where(is_inside, value, f * factor),
        )
        far[active], high[active] = (
            np.where(is_inside, b, point),
            np.where(is_inside, g * factor, value),
        )
        moved[active] = side
        is_done = (np.abs(value) <= TOLERANCE) | (
            np.abs(far[active] - near[active]) <= TOLERANCE**2
        )
        active = active[~is_done]
    return t


def invertible(variance: Array) -> Array:
    """Return V (..., r, r) with what makes it invertible.

    Residuals sum to zero, so V is singular along the vector of ones. What we add there changes no
    distance.
    """
    r = variance.shape[-1]
    size = np.trace(variance, axis1=-2, axis2=-1)[..., None, None] + SMALLEST_VARIANCE
    return np.asarray(variance + size / r + (RIDGE * size + SMALLEST_VARIANCE) * np.eye(r))


def t_quantile(tail: float, freedom: Array) -> Array:
    """Return the upper quantile of Student's t at a tail probability, in the shape of ``freedom``.

    From 60 degrees of freedom the Cornish-Fisher expansion is accurate enough, and faster.
    """
    z = float(-ndtri(tail))
    f = np.maximum(freedom, 1.0)
    out = z + (z**3 + z) / 4 / f + (5 * z**5 + 16 * z**3 + 3 * z) / 96 / f / f
    few = f < 60.0
    if few.any():
        out[few] = -stdtrit(f[few], tail)
    return np.asarray(out)


def upper_quantile(tail: float, freedom: float) -> float:
    """Return the upper quantile of Student's t, normal if ``freedom`` is infinite."""
    return float(-ndtri(tail)) if np.isinf(freedom) else float(-stdtrit(freedom, tail))


def student_tail(tail: float, freedom: Array) -> Array:
    """Return the normal tail whose quantile is that of Student's t, in the shape of ``freedom``.

    Quantiles of normal draws are then as far out as few degrees of freedom demand.
    """
    return np.where(np.isinf(freedom), tail, ndtr(-t_quantile(tail, freedom)))


def wilson(prevalence: Array, sizes: Array, tail: Array | float) -> tuple[Array, Array]:
    """Return Wilson's intervals for shares of error-free labels, in the shape of ``prevalence``.

    Parameters
    ----------
    prevalence : array of shape (n_bags, k)
    sizes : array of shape (n_bags, 1) or (n_bags, k)
    tail : float or array of shape (n_bags, 1)
        Probability outside each end.

    Returns
    -------
    low, high : arrays of shape (n_bags, k)
    """
    q2 = ndtri(tail) ** 2
    n = sizes + q2
    middle = (sizes * prevalence + q2 / 2.0) / n
    half = np.sqrt(q2 * (sizes * prevalence * (1.0 - prevalence) + q2 / 4.0)) / n
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)


def _mixed(shares: Array, covariances: Array, bags: Indices) -> Array:
    """Return the sums over classes of shares (N, k) times covariances, shape (N, c, r).

    Covariances (B, k, c, r) of a single bag need one product of matrices. Its digits depend on N,
    which then is a matter of the bag; with few classes a batch has to give the bits of a loop.
    """
    n, k = shares.shape
    shape = (n, *covariances.shape[2:])
    if k >= MANY_CLASSES:
        return np.asarray((shares @ covariances[0].reshape(k, -1)).reshape(shape))
    total = np.zeros(shape)
    for label in range(k):
        total += shares[:, label, None, None] * covariances[bags, label]
    return total


def _times(matrices: Array, vectors: Array) -> Array:
    """Return the products of matrices (N, r, k) and vectors (N, k), shape (N, r)."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])
