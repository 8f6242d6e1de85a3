"""The interface of matchings: the problem made of templates and rows, and its solver.

A matching is the last stage of a quantifier and has only the parameters of that stage. A new
matching overrides ``problem`` and ``solve`` (or ``match``). Everything else that the library asks
of a matching is declared here, with a default that is valid for any matching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags
from kdey.matching.one_bag import OneBag
from kdey.rows.interface import RowMap, Rows
from kdey.solvers import Solution

if TYPE_CHECKING:
    from kdey.matching.likelihood import MaximiseLikelihood


class HasObjective(Protocol):
    """The minimal interface of a problem: a value to minimise for each bag."""

    def objective(self, prevalences: Array) -> Array:
        """Return the value at prevalences of shape (n_bags, k), shape (n_bags,)."""


P = TypeVar("P", bound=HasObjective)
#: What a matching needs to know about a bag: all rows, their mean, or the log of their mean.
BagSummary: TypeAlias = Literal["rows", "mean", "log mean"]
#: How confidence limits are computed: from the moment equation (if templates are class means of the
#: rows), from numerical derivatives of the matching (if they exist), or by a bootstrap.
LimitsSource: TypeAlias = Literal["moments", "derivatives", "bootstrap"]


@dataclass(frozen=True)
class DeviceProblem:
    """A problem that can be solved on a device (``kdey.gpu``).

    Attributes
    ----------
    kind : {"mixture", "cauchy-schwarz", "quadratic", "divergence", "means"}
        "means": the device averages the rows of bags, and the matching solves the small problem
        that remains on the host.
    divergence : str
        Name of the generator, for a divergence.
    tol : float
        Gap to reach, for a mixture.
    max_iter : int or None
        None: the default of the solver.
    pseudo_share : float
        Weight of one pseudo-instance per class, for a mixture.
    """

    kind: Literal["mixture", "cauchy-schwarz", "quadratic", "divergence", "means"]
    divergence: str = ""
    tol: float = 1e-8
    max_iter: int | None = None
    pseudo_share: float = 0.0


@dataclass(frozen=True)
class Matching(Generic[P]):
    """Base of all matchings: a problem for each run of bags, and its solver."""

    #: How confidence limits are computed by default, unless a likelihood is maximised: then by its
    #: moment equation.
    limits_source: ClassVar[LimitsSource] = "derivatives"
    #: Whether :meth:`match_templates` is implemented, so that every bag may have its own templates.
    takes_templates: ClassVar[bool] = False

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> P:
        """Return the problem of these bags; ``full`` adds terms independent of the prevalence."""
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
        """Whether rows accurate to six digits of their largest entries are accurate enough."""
        return False

    @property
    def bag_summary(self) -> BagSummary:
        """What is needed about a bag, and so how groups larger than memory are summarised."""
        return "mean"

    @property
    def likelihood(self) -> MaximiseLikelihood | None:
        """The mixture likelihood that this, or every member of an average, maximises; or None."""
        return None

    def match_templates(self, templates: Array, targets: Array, n_threads: int = 1) -> Array:
        """Return the prevalences of n bags with their own templates, shape (n, k).

        ``templates`` has shape (n, r, k); ``targets``, the mean rows, has shape (n, r).
        """
        raise NotImplementedError

    def one_bag(self, row_map: RowMap) -> OneBag | None:
        """Return a faster way to the same answer for one bag; None if there is none."""
        return None

    def device_problem(self, row_map: RowMap) -> DeviceProblem | None:
        """Return the problem of ``kdey.gpu`` for these rows; None if only the host can solve it."""
        return None

    @property
    def member(self) -> Matching[Any]:
        """The matching of each member of a composite; otherwise the matching itself."""
        return self

    @property
    def minimises(self) -> bool:
        """Whether estimates are minima of a problem, as opposed to counts."""
        return True

    def with_member(self, change: Callable[[Matching[Any]], Matching[Any]]) -> Matching[Any]:
        """Return the matching with ``change`` applied to it, or to the member of a composite."""
        return change(self)

    def combine(self, parts: Sequence[Solution], shares: Array) -> Solution:
        """Return the solution of a composite from those of its members."""
        return parts[0]

    def combine_estimates(self, estimates: Array, shares: Array) -> Array:
        """Return prevalences (n, k) of a composite from those of its members, (members, n, k)."""
        return np.asarray(estimates[0])


#: Any matching, whatever its problem.
AnyMatching: TypeAlias = Matching[Any]


def means_on_device(row_map: RowMap) -> DeviceProblem | None:
    """Return the problem of a matching that needs nothing but mean rows; None without a route."""
    return DeviceProblem("means") if row_map.has_tensor_rows else None


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
