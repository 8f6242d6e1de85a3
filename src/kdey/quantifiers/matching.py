"""Matchings: which problem is made of templates and rows, and which solver solves it.

One frozen dataclass per problem family. A matching is the last stage of a quantifier, and holds
only the parameters of that stage.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags
from kdey.problems import (
    CauchySchwarz,
    CdfDistance,
    Divergence,
    HistogramCauchySchwarz,
    LeastSquares,
    MeanHellinger,
    MixtureLikelihood,
    QuadraticMatch,
)
from kdey.problems.dissimilarity import Dissimilarity, resolve_dissimilarity
from kdey.problems.generator import resolve_generator
from kdey.solvers import (
    Solution,
    solve_cauchy_schwarz,
    solve_cdf_distance,
    solve_divergence,
    solve_least_squares,
    solve_mixture,
    solve_mixture_em,
    solve_nonconvex,
    solve_quadratic,
    ternary_search,
)
from kdey.solvers.quadratic import warn_uninformative

#: Smallest share of a bag at a point or bin, relative to the classes', that counts.
_NEGLIGIBLE = 1e-24


@dataclass(frozen=True)
class Matching:
    """Base: a problem made per run of bags, and its solver."""

    @property
    def takes_quick_rows(self) -> bool:
        """Whether rows good to six digits of their largest entries change next to nothing."""
        return False

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> Any:
        """Return the problem of these bags; ``full`` adds terms without the prevalence."""
        raise NotImplementedError

    def solve(self, problem: Any, n_threads: int = 1) -> Solution:
        """Return the problem's solution."""
        raise NotImplementedError

    def match(self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1) -> Solution:
        """Return the prevalences of all bags, made in runs that bound the memory."""
        parts = (
            self.solve(self.problem(row_map, rows, part, n_threads), n_threads)
            for part in _runs(rows, bags)
        )
        return concatenate(parts)

    def full_objective(
        self, row_map: Any, rows: Any, bags: Bags, prevalence: NDArray[Any], n_threads: int = 1
    ) -> Array:
        """Return the full objective of each bag at ``prevalence``, shape (n_bags,)."""
        out, start = [], 0
        for part in _runs(rows, bags):
            problem = self.problem(row_map, rows, part, n_threads, full=True)
            out.append(problem.objective(np.asarray(prevalence[start : start + len(part)])))
            start += len(part)
        return np.concatenate(out)


def _runs(rows: Any, bags: Bags) -> Iterable[Bags]:
    return rows.chunks(bags) if hasattr(rows, "chunks") else [bags]


def concatenate(parts: Iterable[Solution]) -> Solution:
    """Return the solutions of successive runs of bags as one."""
    found = list(parts)
    if len(found) == 1:
        return found[0]
    fields = ("prevalence", "objective", "gap", "n_iter", "converged")
    return Solution(*(np.concatenate([getattr(s, name) for s in found]) for name in fields))


@dataclass(frozen=True)
class Mean(Matching):
    """The mean row is the prevalence: CC and PCC."""

    def match(self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1) -> Solution:
        """Return the mean rows, scaled to a sum of one (rows may miss it by a tolerance)."""
        means = rows.mean(bags)
        return exact_solution(means / means.sum(axis=1, keepdims=True))

    def full_objective(
        self, row_map: Any, rows: Any, bags: Bags, prevalence: NDArray[Any], n_threads: int = 1
    ) -> Array:
        """Return half the squared distance from the mean row."""
        return np.asarray(0.5 * ((rows.mean(bags) - prevalence) ** 2).sum(axis=1))


def exact_solution(prevalence: Array) -> Solution:
    """Return prevalences that need no iteration as a solution with gap zero."""
    n = len(prevalence)
    zeros = np.zeros(n)
    return Solution(prevalence, zeros, zeros, np.zeros(n, np.int64), np.ones(n, np.bool_))


@dataclass(frozen=True)
class MatchMeans(Matching):
    """Least squares between mean rows and templates: ACC, PACC."""

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> LeastSquares:
        """Return the least squares problem."""
        return LeastSquares(row_map.templates, rows.mean(bags))

    def solve(self, problem: LeastSquares, n_threads: int = 1) -> Solution:
        """Return the solution on the simplex."""
        return solve_least_squares(problem, n_threads=n_threads)


@dataclass(frozen=True)
class MaximiseLikelihood(Matching):
    """Mixture likelihood of the bag, to a certified optimum: EMQ, DIR, KDEy-ML.

    Attributes
    ----------
    log_rows : bool
        Whether rows are logarithms of densities.
    tol : float
        Gap of the mean log-likelihood to reach.
    max_iter : int or None
        None: the solver's own.
    """

    log_rows: bool = True
    tol: float = 1e-8
    max_iter: int | None = None

    def __post_init__(self) -> None:
        check_stopping(self.tol, self.max_iter)

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> MixtureLikelihood:
        """Return the mixture problem."""
        make = MixtureLikelihood.from_log_rows if self.log_rows else MixtureLikelihood
        return make(rows.array, bags)

    def solve(self, problem: MixtureLikelihood, n_threads: int = 1) -> Solution:
        """Return the maximum likelihood prevalences."""
        options: dict[str, Any] = {} if self.max_iter is None else {"max_iter": self.max_iter}
        return solve_mixture(problem, tol=self.tol, n_threads=n_threads, **options)


@dataclass(frozen=True)
class ExpectationMaximisation(MaximiseLikelihood):
    """EM as the literature runs it, from the training prevalence ``row_map.prior``."""

    tol: float = 1e-4

    def match(self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1) -> Solution:
        """Return what EM reaches by its stopping rule; the gap tells how far that is."""
        problem = self.problem(row_map, rows, bags)
        start = np.tile(row_map.prior / row_map.prior.sum(), (len(bags), 1))
        options: dict[str, Any] = {} if self.max_iter is None else {"max_iter": self.max_iter}
        return solve_mixture_em(problem, tol=self.tol, start=start, **options)


def check_stopping(tol: Any, max_iter: Any) -> None:
    """Raise unless ``tol`` is positive and ``max_iter`` None or at least one."""
    if not (isinstance(tol, int | float) and tol > 0):
        raise ValueError(f"tol must be a positive number, got {tol!r}")
    if max_iter is not None and not (isinstance(max_iter, int | np.integer) and max_iter >= 1):
        raise ValueError(f"max_iter must be a positive integer, got {max_iter!r}")


@dataclass(frozen=True)
class MatchCauchySchwarz(Matching):
    """Cauchy-Schwarz divergence between densities: KDEy-CS."""

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> CauchySchwarz:
        """Return the problem; ``full`` adds the test-test term."""
        log_self = rows.log_self(bags, n_threads) if full else np.zeros(len(bags))
        return CauchySchwarz(row_map.templates, rows.log_mean(bags), log_self)

    def solve(self, problem: CauchySchwarz, n_threads: int = 1) -> Solution:
        """Return the global optimum."""
        return solve_cauchy_schwarz(problem, n_threads=n_threads)


@dataclass(frozen=True)
class MatchSquares(Matching):
    """Integrated squared error between densities: KDEy-L2."""

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> QuadraticMatch:
        """Return the problem; ``full`` adds the test-test term."""
        constants = np.zeros(len(bags))
        if full:
            constants = 0.5 * np.exp(rows.log_self(bags, n_threads))
        return QuadraticMatch(row_map.templates, rows.mean(bags), constants)

    def solve(self, problem: QuadraticMatch, n_threads: int = 1) -> Solution:
        """Return the optimum on the simplex."""
        return solve_quadratic(problem, n_threads=n_threads)


@dataclass(frozen=True)
class MatchDivergence(Matching):
    """An f-divergence averaged over the row map's terms: KDEy-HD, DM-T, DM-HD.

    A term is a reference point (Monte Carlo) or a histogram (DM): ``row_map.n_terms`` of them.
    """

    divergence: str

    def __post_init__(self) -> None:
        resolve_generator(self.divergence)

    @property
    def takes_quick_rows(self) -> bool:
        """Only where the bag's profile enters without a logarithm or a quotient."""
        return self.divergence == "hellinger"

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> Divergence:
        """Return the divergence problem."""
        templates = row_map.templates
        reference = np.full(len(templates), float(row_map.n_terms))
        targets = rows.mean(bags)
        # Densities this far below the classes' own cannot move a divergence by the solver's
        # tolerance, and where a bag has no others its curvature would underflow.
        targets[targets < _NEGLIGIBLE] = 0.0
        return Divergence(templates, targets, resolve_generator(self.divergence), reference)

    def solve(self, problem: Divergence, n_threads: int = 1) -> Solution:
        """Return the optimum on the simplex; uniform, with a warning, for bags without mass."""
        solution = solve_divergence(problem, n_threads=n_threads)
        lost = ~problem.targets.any(axis=1)
        if lost.any():
            warn_uninformative(int(lost.sum()), "the bag lies far from every reference point")
            solution.prevalence[lost] = 1.0 / problem.n_classes
            solution.objective[lost] = solution.gap[lost] = np.nan
            solution.converged[lost] = False
        return solution


@dataclass(frozen=True)
class MatchHistograms(Matching):
    """A dissimilarity of histograms that is not convex: DM-CS, and DM-HD without the square."""

    kind: str

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> HistogramCauchySchwarz | MeanHellinger:
        """Return the problem, with one block of bins per histogram."""
        shape = (row_map.n_terms, row_map.n_bins)
        templates = row_map.templates.reshape(*shape, -1)
        targets = rows.mean(bags).reshape(len(bags), *shape)
        make: dict[str, Any] = {
            "cauchy-schwarz": HistogramCauchySchwarz,
            "mean-hellinger": MeanHellinger,
        }
        made: HistogramCauchySchwarz | MeanHellinger = make[self.kind](templates, targets)
        return made

    def solve(
        self, problem: HistogramCauchySchwarz | MeanHellinger, n_threads: int = 1
    ) -> Solution:
        """Return the best of several starts; no certificate exists."""
        return solve_nonconvex(problem)


@dataclass(frozen=True)
class MatchHistogramsBinary(MatchHistograms):
    """The same for two classes, by ternary search as the literature does: HDx."""

    def solve(
        self, problem: HistogramCauchySchwarz | MeanHellinger, n_threads: int = 1
    ) -> Solution:
        """Return the minimum found by ternary search."""
        return ternary_search(problem.objective, problem.n_bags)


@dataclass(frozen=True)
class MatchBinary(Matching):
    """Any dissimilarity of two histograms, by ternary search: DyS."""

    dissimilarity: Any

    def __post_init__(self) -> None:
        resolve_dissimilarity(self.dissimilarity)

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> Dissimilarity:
        """Return the dissimilarity problem."""
        return Dissimilarity(row_map.templates, rows.mean(bags), self.dissimilarity)

    def solve(self, problem: Dissimilarity, n_threads: int = 1) -> Solution:
        """Return the minimum found by ternary search."""
        return ternary_search(problem.objective, problem.n_bags)


@dataclass(frozen=True)
class MatchCdf(Matching):
    """A norm between cumulative histograms of the positive posterior: MM."""

    norm: str

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> CdfDistance:
        """Return the distance problem, every bin with the same width."""
        spacing = np.full(len(row_map.templates), 1.0 / row_map.n_bins)
        return CdfDistance(row_map.templates, rows.mean(bags), spacing, self.norm)

    def solve(self, problem: CdfDistance, n_threads: int = 1) -> Solution:
        """Return the optimum: exact for L1, by ternary search for the maximum norm."""
        return solve_cdf_distance(problem)


@dataclass(frozen=True)
class MedianOf(Matching):
    """The median of the solutions of stacked row maps (``kdey.rows.stack``): HDy, HDx."""

    inner: Matching

    def match(self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1) -> Solution:
        """Solve each part and take class-wise medians, scaled back to a sum of one."""
        parts = [
            self.inner.match(part_map, part_rows, bags, n_threads)
            for part_map, part_rows in zip(row_map.parts, rows.parts, strict=True)
        ]
        return median_solution(parts)

    def full_objective(
        self, row_map: Any, rows: Any, bags: Bags, prevalence: NDArray[Any], n_threads: int = 1
    ) -> Array:
        """Raise: a median has no objective of its own."""
        raise NotImplementedError(
            "the median over several numbers of bins minimises no divergence of its own; "
            "ask a method with one number of bins (DM, DyS)"
        )


def median_solution(parts: list[Solution]) -> Solution:
    """Return the class-wise median of several solutions, scaled back to a sum of one.

    The gap is NaN: a median solves no problem of its own.
    """
    middle = np.median([part.prevalence for part in parts], axis=0)
    middle = middle / middle.sum(axis=1, keepdims=True)
    unknown = np.full(len(middle), np.nan)
    n_iter = np.sum([part.n_iter for part in parts], axis=0)
    converged = np.all([part.converged for part in parts], axis=0)
    return Solution(middle, unknown, unknown, n_iter, converged)
