"""The quantifier of ``power.py`` with a matching of its own."""

from dataclasses import dataclass

from kdey.matching import Matching
from kdey.matching.squares import LeastSquares, solve_least_squares
from tests.strangers.power import PowerPACC


@dataclass(frozen=True)
class MatchRelative(Matching):
    """Least squares between mean rows and templates, relative to the mean template."""

    def problem(self, row_map, rows, bags, n_threads=1):
        scale = row_map.templates.mean(axis=1)
        return LeastSquares(row_map.templates / scale[:, None], rows.mean(bags) / scale)

    def solve(self, problem, n_threads=1):
        return solve_least_squares(problem, n_threads=n_threads)


class RelativePACC(PowerPACC):
    """PACC on powers of the posteriors, matched relative to the mean template."""

    def matching(self):
        return MatchRelative()
