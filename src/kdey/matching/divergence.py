r"""Divergences as sums of a generator: KDEy-HD and histogram matching (DM).

Separable losses are sums sum_j v_j phi(p_j, q_j) with p = R alpha. The mixture likelihood and the
divergences have this form; :class:`SeparableLoss` is the arithmetic that they share. A generator
phi(p, q) is convex in p and zero at p = q, and it comes with its derivatives in p. Each divergence
is written with d/dp phi(q, q) = 0, so that sums over importance-sampled points stay non-negative
and unbiased (an f-divergence generator with f'(1) = 0). All limits at p = 0 and q = 0 are exact: no
epsilon is added anywhere.

The native core runs SQP with exact active-set steps for all bags (``src/native/separable.cpp``);
the NumPy path is the generic solver of ``sqp.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import rel_entr

from kdey import native
from kdey.bags import Array, Bags
from kdey.matching import (
    DeviceForm,
    IntervalSource,
    Matching,
    Problem,
    Solution,
    blank_solution,
    check_non_negative,
    put_bags,
    warn_stalled,
    warn_uninformative,
)
from kdey.matching.sqp import solve_sqp
from kdey.rows import RowMap, Rows
from kdey.rows.monte_carlo import MonteCarloMap

Function = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Generator:
    """One divergence generator phi(p, q), vectorised over arrays of equal shape.

    Attributes
    ----------
    name : str
    code : int
        Number of the generator in the native solver (``separable_kernels.hpp``).
    value, first, second : callable
        phi and its first two derivatives in p. At p = 0 < q a derivative may be infinite, which
        is its limit; at p = q = 0 it is the limit p -> 0 of phi(., 0).
    """

    name: str
    code: int
    value: Function
    first: Function
    second: Function


@dataclass(frozen=True, eq=False)
class SeparableLoss:
    """sum_j v_j phi(R_j . alpha, q_j) for one bag.

    Attributes
    ----------
    rows : array of shape (n, k), R >= 0
    weights : array of shape (n,), v >= 0
    targets : array of shape (n,), q >= 0
    generator : Generator
    """

    rows: Array
    weights: Array
    targets: Array
    generator: Generator

    def value(self, prevalence: Array) -> float:
        """Return the loss; inf if a limit of phi is infinite."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            terms = self.weights * self.generator.value(self.rows @ prevalence, self.targets)
        return float(np.sum(np.where(self.weights > 0, terms, 0.0)))

    def gradient(self, prevalence: Array) -> Array:
        """Return R' (v phi'), shape (k,); entries may be infinite at the border."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = self.weights * self.generator.first(self.rows @ prevalence, self.targets)
        slope[self.weights == 0] = 0.0
        steep = np.flatnonzero(~np.isfinite(slope))
        if len(steep) == 0:
            return np.asarray(slope @ self.rows, dtype=np.float64)
        # An infinite slope counts only for the classes present in that row (0 * inf is 0).
        infinite = (np.where(self.rows[steep] > 0, slope[steep, None], 0.0)).sum(axis=0)
        slope[steep] = 0.0
        return np.asarray(slope @ self.rows + infinite, dtype=np.float64)

    def hessian(self, prevalence: Array) -> Array:
        """Return R' diag(v phi'') R, shape (k, k)."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            curve = self.weights * self.generator.second(self.rows @ prevalence, self.targets)
        curve[(self.weights == 0) | ~np.isfinite(curve)] = 0.0
        scaled = self.rows * np.sqrt(curve)[:, None]
        return np.asarray(scaled.T @ scaled, dtype=np.float64)


def resolve_generator(generator: str | Generator) -> Generator:
    """Return the generator of that name, or ``generator`` itself; raises ValueError otherwise."""
    if isinstance(generator, Generator):
        return generator
    if not isinstance(generator, str) or generator not in GENERATORS:
        raise ValueError(f"divergence must be one of {sorted(GENERATORS)}, got {generator!r}")
    return GENERATORS[generator]


def _topsoe_value(p: Array, q: Array) -> Array:
    # Both arguments are doubled, because half of the smallest positive number would be zero.
    total = p + q
    return np.asarray((_entropy(2 * p, total) + _entropy(2 * q, total)) / 2, dtype=np.float64)


def _topsoe_first(p: Array, q: Array) -> Array:
    # log(2p / (p + q)); the ratio is 2 if q = 0, for any p.
    return np.log(np.where(q > 0, _ratio(2 * p, p + q), 2.0))


def _topsoe_second(p: Array, q: Array) -> Array:
    return _ratio(q, p * (p + q))


def _entropy(above: Array, below: Array) -> Array:
    """Return above log(above / below), with 0 log 0 = 0 and infinity if only below is zero."""
    value = np.asarray(rel_entr(above, below), dtype=np.float64)
    wrong = np.isneginf(value)  # some versions of SciPy take the log of an underflow
    if wrong.any():
        above, below = np.broadcast_arrays(above, below)
        value[wrong] = above[wrong] * (np.log(above[wrong]) - np.log(below[wrong]))
    return value


def _ratio(above: Array, below: Array) -> Array:
    """Return above / below, with 0 / 0 = 0."""
    return np.where(above > 0, above / np.where((above > 0) | (below > 0), below, 1.0), 0.0)


#: Divergences between densities or histograms, by name: ``hellinger`` is (sqrt p - sqrt q)^2 (on
#: distributions twice 1 - sum sqrt(pq)); ``topsoe`` p log 2p/(p+q) + q log 2q/(p+q);
#: ``jensen-shannon`` half of it; ``kl`` q log q/p - q + p (the bag against the mixture);
#: ``reverse-kl`` p log p/q - p + q; ``chi2`` the symmetric (p-q)^2/(p+q).
GENERATORS: dict[str, Generator] = {
    g.name: g
    for g in (
        Generator(
            "hellinger",
            1,
            lambda p, q: (np.sqrt(p) - np.sqrt(q)) ** 2,
            lambda p, q: 1.0 - _ratio(np.sqrt(q), np.sqrt(p)),
            lambda p, q: 0.5 * _ratio(np.sqrt(q), p * np.sqrt(p)),
        ),
        Generator("topsoe", 2, _topsoe_value, _topsoe_first, _topsoe_second),
        Generator(
            "jensen-shannon",
            3,
            lambda p, q: 0.5 * _topsoe_value(p, q),
            lambda p, q: 0.5 * _topsoe_first(p, q),
            lambda p, q: 0.5 * _topsoe_second(p, q),
        ),
        Generator(
            "kl",
            4,
            lambda p, q: _entropy(q, p) - q + p,
            lambda p, q: 1.0 - _ratio(q, p),
            lambda p, q: _ratio(q, p * p),
        ),
        Generator(
            "reverse-kl",
            5,
            lambda p, q: _entropy(p, q) - p + q,
            lambda p, q: np.log(np.where(q > 0, _ratio(p, q), np.inf)),
            lambda p, q: np.where(q > 0, 1.0 / p, 0.0),
        ),
        Generator(
            "chi2",
            6,
            lambda p, q: _ratio((p - q) ** 2, p + q),
            lambda p, q: 1.0 - 4.0 * _ratio(q, p + q) ** 2,
            lambda p, q: 8.0 * _ratio(q * q, (p + q) ** 3),
        ),
    )
}

#: -log p: the loss of the mixture likelihood (not a divergence, since it ignores q).
NEGATIVE_LOG = Generator(
    "negative-log",
    0,
    lambda p, q: -np.log(p),
    lambda p, q: -1.0 / p,
    lambda p, q: 1.0 / (p * p),
)


@dataclass(frozen=True, eq=False)
class Divergence(Problem):
    r"""Divergence of each bag's profile to the mixture of the class profiles.

    .. math:: f(\alpha) = \sum_t \phi(p_t, q_t) / r_t, \qquad p = M \alpha

    With M and q densities at points drawn from a reference density u and r_t = (number of
    points) u_t this is the Monte Carlo estimate of an f-divergence (KDEy-HD); with M and q
    histograms and r = 1 it is histogram matching. Convex in alpha for every generator.

    Points where no class has mass (a row of zeros in M) add a constant.

    Attributes
    ----------
    templates : array of shape (t, k)
        M >= 0: column i is the profile of class i.
    targets : array of shape (n_bags, t)
        q >= 0: the profile of each bag.
    generator : Generator
        Or its name, see :data:`GENERATORS`.
    reference : array of shape (t,)
        r > 0; ones by default.
    """

    templates: Array
    targets: Array
    generator: Generator
    reference: Array = None  # type: ignore[assignment]
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        templates = check_non_negative(self.templates, "templates", (None, None))
        targets = check_non_negative(self.targets, "targets", (None, len(templates)))
        divisors = np.ones(len(templates)) if self.reference is None else self.reference
        reference = check_non_negative(divisors, "reference", (len(templates),))
        if not (reference > 0).all():
            raise ValueError("reference must be positive")
        vars(self).update(
            templates=templates,
            targets=targets,
            generator=resolve_generator(self.generator),
            reference=reference,
        )

    @property
    def is_finite(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether any prevalence has a finite value, shape (n_bags,).

        Only ``kl`` (q > 0 where no class has mass) and ``reverse-kl`` (every class has mass
        where q = 0) can fail this.
        """
        if self.generator.name == "kl":
            no_class = ~(self.templates > 0).any(axis=1)
            return np.asarray(~(self.targets[:, no_class] > 0).any(axis=1))
        return np.asarray(self.allowed.any(axis=1))

    @property
    def allowed(self) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """Which classes may have a positive prevalence at a finite value, shape (n_bags, k)."""
        if self.generator.name != "reverse-kl":
            return np.ones((self.n_bags, self.n_classes), dtype=np.bool_)
        missing = (self.targets == 0).astype(np.float64)
        return np.asarray(missing @ (self.templates > 0) == 0)

    def loss(self, bag: int) -> SeparableLoss:
        """Return the loss of one bag."""
        return SeparableLoss(
            self.templates, 1.0 / self.reference, self.targets[bag], self.generator
        )

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,)."""
        values = [self.loss(b).value(alpha) for b, alpha in enumerate(prevalences)]
        return np.asarray(values, dtype=np.float64)

    def gradient(self, prevalences: Array) -> Array:
        """Return the gradient, shape (n_bags, k); infinite if f has no finite slope."""
        return np.stack([self.loss(b).gradient(alpha) for b, alpha in enumerate(prevalences)])

    def hessian(self, prevalences: Array) -> Array:
        """Return the Hessian, shape (n_bags, k, k)."""
        return np.stack([self.loss(b).hessian(alpha) for b, alpha in enumerate(prevalences)])

    def gap(self, prevalences: Array) -> Array:
        """Return the Frank-Wolfe gap, a bound on f - min f, shape (n_bags,); NaN if f is inf."""
        finite = np.isfinite(self.objective(prevalences))
        return np.where(finite, super().gap(prevalences), np.nan)


def solve_divergence(
    problem: Divergence,
    *,
    tol: float = 1e-8,
    max_iter: int = 200,
    n_threads: int = 1,
) -> Solution:
    """Minimise a divergence for every bag over the simplex, to a certified gap.

    A bag for which every prevalence gives an infinite divergence (possible for ``kl`` and
    ``reverse-kl`` only) gets the uniform prevalence, ``converged`` False, NaN objective and gap,
    and a ConvergenceWarning. A bag whose gap is above ``tol`` after ``max_iter`` iterations also
    gets the warning, and keeps its values.

    Parameters
    ----------
    problem : Divergence
    tol : float
        Gap to reach, in units of the objective.
    max_iter, n_threads
        As for :func:`solve_mixture`.
    """
    finite = problem.is_finite
    if not finite.all():
        warn_uninformative(int((~finite).sum()), "the divergence is infinite everywhere")
    solution = blank_solution(problem.n_bags, problem.n_classes)
    free = problem.allowed.all(axis=1)
    whole, partial = np.flatnonzero(finite & free), np.flatnonzero(finite & ~free)
    if len(whole):
        part = problem if len(whole) == problem.n_bags else problem.take(whole)
        solved = _solve_divergence(part, tol, max_iter, n_threads)
        solution = put_bags(solution, whole, solved)
    for bag in partial:
        solved = _solve_restricted(problem.take(np.array([bag])), tol, max_iter, n_threads)
        solution = put_bags(solution, np.array([bag]), solved)
    return warn_stalled(solution, finite, tol)


def _solve_divergence(problem: Divergence, tol: float, max_iter: int, n_threads: int) -> Solution:
    if not native.available():
        return solve_sqp(problem, tol=tol, max_iter=max_iter, n_threads=n_threads)
    solution = blank_solution(problem.n_bags, problem.n_classes)
    native.call(
        "kdey_solve_divergence",
        *(problem.generator.code, problem.templates, problem.targets, problem.reference),
        *(problem.n_bags, len(problem.templates), problem.n_classes, None),
        # The C side takes a double and integers, and a tol of 1 would be passed as an integer.
        *(float(tol), int(max_iter), int(n_threads)),
        *(solution.prevalence, solution.objective, solution.gap, solution.n_iter),
    )
    np.less_equal(solution.gap, tol, out=solution.converged)
    return solution


def _solve_restricted(problem: Divergence, tol: float, max_iter: int, n_threads: int) -> Solution:
    """Solve one bag over the classes that it allows; the others stay at zero."""
    allowed = np.flatnonzero(problem.allowed[0])
    templates = np.ascontiguousarray(problem.templates[:, allowed])
    part = problem._with(templates=templates)
    solved = _solve_divergence(part, tol, max_iter, n_threads)
    prevalence = np.zeros((1, problem.n_classes))
    prevalence[:, allowed] = solved.prevalence
    return Solution(prevalence, solved.objective, solved.gap, solved.n_iter, solved.converged)


#: Densities or shares of a bag below this, relative to those of the classes, count as zero.
NEGLIGIBLE = 1e-24

#: Divergences for the host only, whose solver handles prevalences with infinite values.
ON_HOST = ("reverse-kl",)


@dataclass(frozen=True)
class MatchDivergence(Matching[Divergence]):
    """An f-divergence averaged over the row map's terms: KDEy-HD, DM-T, DM-HD.

    A term is a reference point (Monte Carlo) or a histogram (DM): ``row_map.n_terms`` of them.
    """

    divergence: str
    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def __post_init__(self) -> None:
        resolve_generator(self.divergence)

    def device_form(self, row_map: RowMap) -> DeviceForm | None:
        """Return "divergence" if rows are kernels at drawn points."""
        if not isinstance(row_map, MonteCarloMap) or self.divergence in ON_HOST:
            return None
        return "divergence" if row_map.templates.any(axis=1).all() else None

    def problem(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> Divergence:
        """Return the divergence problem."""
        templates = row_map.templates
        reference = np.full(len(templates), float(row_map.n_terms))
        targets = rows.mean(bags)
        # Densities this far below those of the classes cannot change a divergence by the tolerance
        # of the solver, and the curvature of a bag without larger ones would underflow.
        targets[targets < NEGLIGIBLE] = 0.0
        return Divergence(templates, targets, resolve_generator(self.divergence), reference)

    def solve(self, problem: Divergence, n_threads: int = 1) -> Solution:
        """Return the optimum on the simplex; uniform, with a warning, for bags without mass."""
        solution = solve_divergence(problem, n_threads=n_threads)
        no_mass = ~problem.targets.any(axis=1)
        if no_mass.any():
            warn_uninformative(int(no_mass.sum()), "the bag lies far from every reference point")
            solution.prevalence[no_mass] = 1.0 / problem.n_classes
            solution.objective[no_mass] = solution.gap[no_mass] = np.nan
            solution.converged[no_mass] = False
        return solution
