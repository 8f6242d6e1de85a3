"""What a matching is: which problem templates and rows make, and which solver solves it.

A matching is the last stage of a quantifier and holds only the parameters of that stage. A matching
of your own overrides ``problem`` and ``solve`` (or ``match``); everything else that other parts of
the library ask of it is declared here with a default that holds for any matching.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags
from kdey.rows.interface import RowMap, Rows
from kdey.solvers import Solution

if TYPE_CHECKING:
    from kdey.matching.likelihood import MaximiseLikelihood


class HasObjective(Protocol):
    """The least that is asked of a problem: a value to minimise for each bag."""

    def objective(self, prevalences: Array) -> Array:
        """Return the value at prevalences of shape (n_bags, k), shape (n_bags,)."""


P = TypeVar("P", bound=HasObjective)
#: What must be known of a bag: all its rows, their mean, or the logarithm of their mean.
BagSummary: TypeAlias = Literal["rows", "mean", "log mean"]
#: Where limits come from: the moment equation (the method's rows are features whose class means
#: are its templates), numerical derivatives of the matching where they exist, or a bootstrap.
LimitsSource: TypeAlias = Literal["moments", "derivatives", "bootstrap"]


@dataclass(frozen=True)
class DeviceProblem:
    """A problem that can be solved on a device (``kdey.gpu``).

    Attributes
    ----------
    kind : {"mixture", "cauchy-schwarz", "quadratic", "divergence"}
    divergence : str
        Name of the generator, for a divergence.
    tol : float
        Gap to reach, for a mixture.
    max_iter : int or None
        None: the solver's own.
    """

    kind: Literal["mixture", "cauchy-schwarz", "quadratic", "divergence"]
    divergence: str = ""
    tol: float = 1e-8
    max_iter: int | None = None


@dataclass(frozen=True)
class Matching(Generic[P]):
    """Base of all matchings: a problem for each run of bags, and its solver."""

    #: Where the limits of an estimate come from when nothing else is asked for.
    limits_source: ClassVar[LimitsSource] = "derivatives"
    #: Whether :meth:`match_templates` is there: bags may then have templates of their own.
    takes_templates: ClassVar[bool] = False

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> P:
        """Return the problem of these bags; ``full`` adds terms without the prevalence."""
        raise NotImplementedError

    def solve(self, problem: P, n_threads: int = 1) -> Solution:
        """Return the solution of a problem."""
        raise NotImplementedError

    def match(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> Solution:
        """Return the prevalences of all bags, solved in runs that bound the memory."""
        return concatenate(
            self.solve(self.problem(row_map, rows, run, n_threads), n_threads)
            for run in rows.runs(bags)
        )

    def full_objective(
        self,
        row_map: RowMap,
        rows: Rows,
        bags: Bags,
        prevalence: NDArray[np.floating],
        n_threads: int = 1,
    ) -> Array:
        """Return the full objective of each bag at ``prevalence``, shape (n_bags,)."""
        values, start = [], 0
        for run in rows.runs(bags):
            problem = self.problem(row_map, rows, run, n_threads, full=True)
            values.append(problem.objective(np.asarray(prevalence[start : start + len(run)])))
            start += len(run)
        return np.concatenate(values)

    @property
    def takes_quick_rows(self) -> bool:
        """Whether rows good to six digits of their largest entries change next to nothing."""
        return False

    @property
    def bag_summary(self) -> BagSummary:
        """What must be known of a bag, and so what groups beyond memory are summed to."""
        return "mean"

    @property
    def likelihood(self) -> MaximiseLikelihood | None:
        """The mixture likelihood that is maximised (by every member of an average); or None."""
        return None

    def match_templates(self, templates: Array, targets: Array, n_threads: int = 1) -> Array:
        """Return prevalences (n, k) of bags that each have templates of their own.

        ``templates`` has shape (n, r, k), ``targets``, the mean rows, (n, r).
        """
        raise NotImplementedError

    def device_problem(self, row_map: RowMap) -> DeviceProblem | None:
        """Return which problem of ``kdey.gpu`` this is with these rows; None: the host's alone."""
        return None

    @property
    def member(self) -> Matching[Any]:
        """The matching of each member of a composite; otherwise the matching itself."""
        return self

    def combine(self, parts: Sequence[Solution], shares: Array) -> Solution:
        """Return the solution of a composite from those of its members."""
        return parts[0]

    def combine_estimates(self, estimates: Array, shares: Array) -> Array:
        """Return prevalences (n, k) of a composite from those of its members, (members, n, k)."""
        return np.asarray(estimates[0])


#: Any matching, whatever its problem.
AnyMatching: TypeAlias = Matching[Any]


def concatenate(parts: Iterable[Solution]) -> Solution:
    """Return the solutions of successive runs of bags as one."""
    solutions = list(parts)
    if len(solutions) == 1:
        return solutions[0]
    fields = ("prevalence", "objective", "gap", "n_iter", "converged")
    return Solution(*(np.concatenate([getattr(s, name) for s in solutions]) for name in fields))


def exact_solution(prevalence: Array) -> Solution:
    """Return prevalences that need no iteration as a solution with gap zero."""
    n = len(prevalence)
    zeros = np.zeros(n)
    return Solution(prevalence, zeros, zeros, np.zeros(n, np.int64), np.ones(n, np.bool_))
