r"""The mixture likelihood of bags: KDEy-ML, EMQ and DIR.

The problem, its solver (native, or the generic one of ``sqp.py``), expectation maximisation as the
literature runs it, and the matchings that use them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey import native
from kdey.bags import Array, Bags, Indices
from kdey.matching import (
    DeviceForm,
    Matching,
    Problem,
    Solution,
    blank_solution,
    check_non_negative,
    check_start,
    put_bags,
    warn_stalled,
    warn_uninformative,
)
from kdey.matching.divergence import NEGATIVE_LOG, SeparableLoss
from kdey.matching.sqp import solve_sqp
from kdey.rows import RowMap, Rows
from kdey.rows.posterior import RatioMap


@dataclass(frozen=True, eq=False)
class MixtureLikelihood(Problem):
    r"""Mean negative log-likelihood of each bag's rows under a mixture of the classes.

    .. math:: f(\alpha) = -\sum_j w_j \log(D_j \cdot \alpha) / \sum_j w_j

    over the informative instances j of a bag. A row of zeros has likelihood zero for every alpha,
    so it is left out and counted (``n_ignored``). A bag that has only such rows has no optimum: its
    objective and gap are NaN.

    Scaling a row changes f by a constant only. Each row is therefore divided by its largest entry,
    and nothing underflows or overflows.

    With a ``pseudo_share`` s > 0, k pseudo-instances are added to each bag, one of each class and
    each with the share s of the bag's weight:

    .. math:: f(\alpha) = -\frac{\sum_j w_j \log(D_j \cdot \alpha) / \sum_j w_j
              + s \sum_i \log \alpha_i}{1 + s k}

    The minimum is then the mode of a posterior distribution with a Dirichlet prior. Where rows can
    hardly tell classes apart, the maximum likelihood is an arbitrary corner of the simplex, and a
    small share moves it to the middle of the prevalences that explain the bag about as well.

    Attributes
    ----------
    rows : array of shape (pool_size, k)
        D >= 0. Rows may be given on any scale; they are stored with a largest entry of one.
    bags : Bags
        Positions and weights of the rows of each bag.
    log_scales : array of shape (pool_size,)
        Log of the divisor of each row (zero for rows of zeros), so that ``objective`` refers to
        the original rows.
    pseudo_share : float
        Weight of one pseudo-instance per class, relative to that of the bag.
    """

    rows: Array
    bags: Bags
    log_scales: Array = None  # type: ignore[assignment]
    pseudo_share: float = 0.0
    _empty: NDArray[np.bool_] = field(init=False, repr=False)
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_share(self.pseudo_share)
        rows, log_scales, is_empty = _scale_rows(self.rows, logs=False)
        if self.log_scales is not None:
            log_scales = self.log_scales + log_scales
        self._set(rows, log_scales, is_empty)

    def _set(self, rows: Array, log_scales: Array, is_empty: NDArray[np.bool_]) -> None:
        if len(rows) != self.bags.pool_size:
            raise ValueError(
                f"rows has {len(rows)} rows, but bags were made for a pool of "
                f"{self.bags.pool_size} instances"
            )
        vars(self).update(rows=rows, log_scales=log_scales, _empty=is_empty)

    @classmethod
    def from_log_rows(
        cls, log_rows: ArrayLike, bags: Bags, pseudo_share: float = 0.0
    ) -> MixtureLikelihood:
        """Return the problem of rows whose logarithms are given, shape (pool_size, k).

        -inf stands for zero; the largest entry of a row is subtracted before ``exp``.
        """
        _check_share(pseudo_share)
        problem = cls.__new__(cls)  # the rows need not be checked and scaled again
        vars(problem).update(bags=bags, pseudo_share=pseudo_share)
        problem._set(*_scale_rows(log_rows, logs=True))
        return problem

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.bags)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.rows.shape[1])

    @property
    def n_ignored(self) -> NDArray[np.int64]:
        """How many instances of each bag have a row of zeros, shape (n_bags,)."""
        return np.add.reduceat(self._empty[self.bags.indices].astype(np.int64), self._starts)

    @property
    def is_informative(self) -> NDArray[np.bool_]:
        """Whether a bag has any row of positive weight that is not all zeros, shape (n_bags,)."""
        if self.bags.weights is None and not self._empty.any():
            return np.ones(self.n_bags, dtype=np.bool_)
        weights = 1.0 if self.bags.weights is None else self.bags.weights
        counts = np.where(self._empty[self.bags.indices], 0.0, weights)
        return np.asarray(np.add.reduceat(counts, self._starts) > 0)

    def loss(self, bag: int) -> SeparableLoss:
        """Return the loss of one bag on its informative rows, as stored."""
        indices, weights = self._instances(bag)
        rows, shares = self.rows[indices], weights / weights.sum()
        if self.pseudo_share > 0:
            k = self.n_classes
            rows = np.concatenate([rows, np.eye(k)])
            shares = np.concatenate([shares, np.full(k, self.pseudo_share)])
            shares = shares / (1.0 + k * self.pseudo_share)
        return SeparableLoss(rows, shares, np.zeros(len(rows)), NEGATIVE_LOG)

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,)."""
        values = np.full(self.n_bags, np.nan)
        for bag in map(int, np.flatnonzero(self.is_informative)):
            indices, weights = self._instances(bag)
            offset = np.average(self.log_scales[indices], weights=weights)
            offset /= 1.0 + self.n_classes * self.pseudo_share
            values[bag] = self.loss(bag).value(prevalences[bag]) - offset
        return values

    def gradient(self, prevalences: Array) -> Array:
        """Return the gradient -g of f, shape (n_bags, k), g as in :meth:`gap`."""
        return self._per_bag(prevalences, SeparableLoss.gradient, (self.n_classes,))

    def hessian(self, prevalences: Array) -> Array:
        """Return the Hessian of f, shape (n_bags, k, k)."""
        return self._per_bag(prevalences, SeparableLoss.hessian, (self.n_classes,) * 2)

    def gap(self, prevalences: Array) -> Array:
        r"""Return max_i g_i - 1, a bound on f - min f, shape (n_bags,).

        .. math:: g_i = \sum_j w_j \frac{D_{ji}}{D_j \cdot \alpha} / \sum_j w_j

        Since alpha . g = 1 this is the Frank-Wolfe gap.
        """
        largest = np.asarray((-self.gradient(prevalences)).max(axis=1))
        return np.maximum(largest - 1.0, 0.0)

    def em_step(self, prevalences: Array) -> Array:
        """Return one step of expectation maximisation, alpha_i g_i, shape (n_bags, k)."""
        with np.errstate(invalid="ignore"):
            step = np.where(prevalences > 0, -prevalences * self.gradient(prevalences), 0.0)
        return np.asarray(step / step.sum(axis=1, keepdims=True))

    def with_pseudo_rows(self) -> MixtureLikelihood:
        """Return the same problem with its pseudo-instances as rows, for solvers of plain rows."""
        if self.pseudo_share == 0:
            return self
        k, bags = self.n_classes, self.bags
        weights = np.ones(len(bags.indices)) if bags.weights is None else bags.weights
        mass = np.add.reduceat(np.where(self._empty[bags.indices], 0.0, weights), self._starts)
        ends = np.repeat(bags.offsets[1:], k)
        pseudo = np.tile(np.arange(k) + bags.pool_size, len(bags))
        expanded = Bags(
            np.insert(bags.indices, ends, pseudo),
            bags.offsets + k * np.arange(len(bags) + 1),
            bags.pool_size + k,
            np.insert(weights, ends, np.repeat(self.pseudo_share * mass, k)),
        )
        rows = np.concatenate([self.rows, np.eye(k)])
        return MixtureLikelihood(rows, expanded, np.concatenate([self.log_scales, np.zeros(k)]))

    def take(self, which: Indices) -> Self:
        """Return the problem of the bags at positions ``which``."""
        parts = [np.arange(self.bags.offsets[b], self.bags.offsets[b + 1]) for b in which]
        flat = np.concatenate(parts)
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        weights = None if self.bags.weights is None else self.bags.weights[flat]
        bags = Bags(self.bags.indices[flat], offsets.astype(np.int64), self.bags.pool_size, weights)
        return self._with(bags=bags)

    @property
    def _starts(self) -> Indices:
        return self.bags.offsets[:-1]

    def _instances(self, bag: int) -> tuple[Indices, Array]:
        indices = self.bags.indices[self.bags.offsets[bag] : self.bags.offsets[bag + 1]]
        weights = self.bags.bag_weights(bag)
        keep = ~self._empty[indices] & (weights > 0)
        return indices[keep], weights[keep]

    def _per_bag(
        self,
        prevalences: Array,
        method: Callable[[SeparableLoss, Array], Array],
        shape: tuple[int, ...],
    ) -> Array:
        values = np.full((self.n_bags, *shape), np.nan)
        for bag in map(int, np.flatnonzero(self.is_informative)):
            values[bag] = method(self.loss(bag), prevalences[bag])
        return values


#: Rows with a largest entry of one, the log of their divisors, and which rows are all zero.
_ScaledRows: TypeAlias = tuple[Array, Array, NDArray[np.bool_]]


def _check_share(pseudo_share: float) -> None:
    if not 0.0 <= pseudo_share < np.inf:
        raise ValueError(f"pseudo_share must not be negative, got {pseudo_share!r}")


def _scale_rows(rows: ArrayLike, *, logs: bool) -> _ScaledRows:
    """Divide non-negative rows, or with ``logs`` their exponentials, by their largest entries."""
    values = np.ascontiguousarray(rows, dtype=np.float64)
    if native.available() and values.ndim == 2 and values.size:
        m = len(values)
        scaled = np.empty(values.shape), np.empty(m), np.empty(m, dtype=np.bool_)
        # Where the native core refuses them, the lines below say what is wrong.
        with suppress(ValueError):
            native.call("kdey_scale_rows", *(values, *values.shape, int(logs)), *scaled)
            return scaled
    if not logs:
        # Rows are divided by their largest entry, so entries may have any finite size.
        values = check_non_negative(values, "rows", (None, None), largest=np.inf)
        largest = values.max(axis=1)
        is_empty = largest == 0
        largest[is_empty] = 1.0
        return values / largest[:, None], np.log(largest), is_empty
    if values.ndim != 2 or values.size == 0:
        raise ValueError(f"log_rows must have shape (pool_size, k), got {values.shape}")
    largest = values.max(axis=1)
    if np.isnan(largest).any() or np.isposinf(largest).any():
        raise ValueError("log_rows contains NaN or +inf")
    is_empty = np.isneginf(largest)
    scales = np.where(is_empty, 0.0, largest)
    return np.exp(values - scales[:, None]), scales, is_empty


def solve_mixture(
    problem: MixtureLikelihood,
    *,
    tol: float = 1e-8,
    max_iter: int = 200,
    start: Array | None = None,
    n_threads: int = 1,
) -> Solution:
    """Maximise the mixture likelihood of every bag over the simplex, to a certified gap.

    A bag without an informative row gets the uniform prevalence, ``converged`` False, NaN
    objective and gap, and a ConvergenceWarning. A bag whose gap is above ``tol`` after ``max_iter``
    iterations also gets the warning, and keeps its values.

    Parameters
    ----------
    problem : MixtureLikelihood
    tol : float
        Gap to reach, in mean log-likelihood.
    max_iter : int
    start : array of shape (n_bags, k), optional
        Warm starts.
    n_threads : int
        Native threads over bags; results do not depend on it.
    """
    shape = (problem.n_bags, problem.n_classes)
    first = None if start is None else check_start(start, *shape)
    problem = problem.with_pseudo_rows()
    informative = problem.is_informative
    if informative.all():
        solution = _solve_mixture(problem, tol, max_iter, first, n_threads)
        return warn_stalled(solution, informative, tol)
    warn_uninformative(int((~informative).sum()), "every row is zero")
    solution, positions = blank_solution(*shape), np.flatnonzero(informative)
    if len(positions):
        part = problem.take(positions)
        from_there = None if first is None else first[positions]
        solved = _solve_mixture(part, tol, max_iter, from_there, n_threads)
        solution = put_bags(solution, positions, solved)
    return warn_stalled(solution, informative, tol)


def _solve_mixture(
    problem: MixtureLikelihood, tol: float, max_iter: int, start: Array | None, n_threads: int
) -> Solution:
    if not native.available():
        return solve_sqp(
            problem,
            tol=tol,
            max_iter=max_iter,
            start=start,
            polish=MixtureLikelihood.em_step,
            n_threads=n_threads,
        )
    bags, solution = problem.bags, blank_solution(problem.n_bags, problem.n_classes)
    native.call(
        "kdey_solve_mixture",
        *(problem.rows, problem.log_scales, problem.bags.pool_size, problem.n_classes),
        *(bags.indices, bags.offsets, bags.weights, len(bags), start),
        # The C side takes a double and integers, and a tol of 1 would be passed as an integer.
        *(float(tol), int(max_iter), int(n_threads)),
        *(solution.prevalence, solution.objective, solution.gap, solution.n_iter),
    )
    np.less_equal(solution.gap, tol, out=solution.converged)
    return solution


#: Smallest mixture whose inverse is finite; a row with a smaller one counts as not explained.
SMALLEST_MIXTURE = 1e-290


def solve_mixture_em(
    problem: MixtureLikelihood,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: Array | None = None,
) -> Solution:
    """Run alpha_i <- alpha_i g_i until the mean absolute change falls below ``tol``.

    The algorithm of Saerens, Latinne and Decaestecker (2002), with the stopping rule of common
    implementations. It can stop far from the optimum: ``gap`` bounds the distance, and
    ``converged`` only means that the rule was met. :func:`solve_mixture` solves the
    same problem exactly.

    Parameters
    ----------
    problem : MixtureLikelihood
    tol : float
        Mean absolute change of the prevalences at which to stop.
    max_iter : int
    start : array of shape (n_bags, k), optional
        Starting prevalences (the literature starts from the training ones); uniform if None.
        A class that starts at zero stays at zero. A start at which every row of a bag has density
        zero is returned unchanged, not converged and with an infinite gap.

    Returns
    -------
    solution : Solution
    """
    x = check_start(start, problem.n_bags, problem.n_classes)
    informative = problem.is_informative
    n_iter = np.zeros(len(x), dtype=np.int64)
    converged = np.zeros(len(x), dtype=np.bool_)
    for bag in map(int, np.flatnonzero(informative)):
        loss = problem.loss(bag)
        x[bag], n_iter[bag], converged[bag] = _iterate(
            loss.rows, loss.weights, x[bag], tol, max_iter
        )
    if not informative.all():
        x[~informative] = 1.0 / problem.n_classes
        warn_uninformative(int((~informative).sum()), "every row is zero")
    return Solution(x, problem.objective(x), problem.gap(x), n_iter, converged)


def _iterate(
    rows: Array, weights: Array, x: Array, tol: float, max_iter: int
) -> tuple[Array, int, bool]:
    for iteration in range(1, max_iter + 1):
        mixture = rows @ x
        # A row that no class of positive prevalence explains has no effect on those classes.
        ratio = np.divide(
            weights, mixture, out=np.zeros_like(mixture), where=mixture > SMALLEST_MIXTURE
        )
        moved = x * (ratio @ rows)
        if not moved.any():  # the start explains no row, and EM cannot leave it
            return x, iteration, False
        moved /= moved.sum()
        change = float(np.abs(moved - x).mean())
        x = moved
        if change < tol:
            return x, iteration, True
    return x, max_iter, False


@dataclass(frozen=True)
class MaximiseLikelihood(Matching[MixtureLikelihood]):
    """Mixture likelihood of the bag, to a certified optimum: EMQ, DIR, KDEy-ML.

    Attributes
    ----------
    log_rows : bool
        Whether rows are logarithms of densities.
    tol : float
        Gap of the mean log-likelihood to reach.
    max_iter : int or None
        None: the default of the solver.
    """

    log_rows: bool = True
    tol: float = 1e-8
    max_iter: int | None = None

    def __post_init__(self) -> None:
        check_stopping(self.tol, self.max_iter)

    @property
    def likelihood(self) -> MaximiseLikelihood:
        """The likelihood itself."""
        return self

    @property
    def is_exact(self) -> bool:
        """Whether the maximum is reached with a certificate."""
        return True

    def device_form(self, row_map: RowMap) -> DeviceForm | None:
        """Return "mixture", for any rows."""
        return "mixture"

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1
    ) -> MixtureLikelihood:
        """Return the mixture problem."""
        make = MixtureLikelihood.from_log_rows if self.log_rows else MixtureLikelihood
        return make(rows.each(), bags, pseudo_share=row_map.pseudo_share)

    def solve(self, problem: MixtureLikelihood, n_threads: int = 1) -> Solution:
        """Return the maximum likelihood prevalences."""
        options: dict[str, Any] = {} if self.max_iter is None else {"max_iter": self.max_iter}
        return solve_mixture(problem, tol=self.tol, n_threads=n_threads, **options)


@dataclass(frozen=True)
class ExpectationMaximisation(MaximiseLikelihood):
    """EM as the literature runs it, from the training prevalence if rows are ratios to it."""

    tol: float = 1e-4

    @property
    def is_exact(self) -> bool:
        """False, because EM stops by its own rule."""
        return False

    def device_form(self, row_map: RowMap) -> None:
        """Return None, because EM runs on the host only."""
        return

    def match(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> Solution:
        """Return the result of EM; its gap bounds the distance to the maximum."""
        problem = self.problem(row_map, rows, bags)
        start = None
        if isinstance(row_map, RatioMap):
            start = np.tile(row_map.prior / row_map.prior.sum(), (len(bags), 1))
        options: dict[str, Any] = {} if self.max_iter is None else {"max_iter": self.max_iter}
        return solve_mixture_em(problem, tol=self.tol, start=start, **options)


def check_stopping(tol: Any, max_iter: Any) -> None:
    """Raise ValueError unless ``tol`` is positive and ``max_iter`` is None or at least one."""
    if not (isinstance(tol, int | float) and tol > 0):
        raise ValueError(f"tol must be a positive number, got {tol!r}")
    if max_iter is not None and not (isinstance(max_iter, int | np.integer) and max_iter >= 1):
        raise ValueError(f"max_iter must be a positive integer, got {max_iter!r}")
