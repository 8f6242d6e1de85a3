"""Solvers: functions from a problem of :mod:`kdey.problems` to a certified ``Solution``.

``solution`` has the result and starting points; ``quadratic`` the active-set method and the
problems that are quadratic programs; ``sqp`` a solver for any smooth problem; ``separable`` its
native counterpart for likelihoods and divergences; ``em`` expectation maximisation; ``nonconvex``
several starts, and binary searches.
"""

from kdey.solvers.em import solve_mixture_em
from kdey.solvers.nonconvex import solve_cdf_distance, solve_nonconvex, ternary_search
from kdey.solvers.quadratic import solve_cauchy_schwarz, solve_least_squares, solve_quadratic
from kdey.solvers.separable import solve_divergence, solve_mixture
from kdey.solvers.solution import Solution
from kdey.solvers.sqp import solve_sqp

__all__ = [
    "Solution",
    "solve_cauchy_schwarz",
    "solve_cdf_distance",
    "solve_divergence",
    "solve_least_squares",
    "solve_mixture",
    "solve_mixture_em",
    "solve_nonconvex",
    "solve_quadratic",
    "solve_sqp",
    "ternary_search",
]
