"""A quantifier of somebody else's: rows and a matching of its own, in one file outside kdey."""

from dataclasses import dataclass

import numpy as np

from kdey.matching import LeastSquares, Matching, solve_least_squares
from kdey.quantifiers import AggregativeQuantifier
from kdey.rows import ArrayRows, RowMap, RowSpec, class_means
from kdey.tuning import AutomaticChoice


@dataclass(frozen=True, eq=False)
class PowerMap(RowMap):
    templates: np.ndarray
    power: float

    def __call__(self, points, n_threads=1):
        return ArrayRows(np.asarray(points, dtype=float) ** self.power)


@dataclass(frozen=True)
class PowerRows(RowSpec):
    power: float

    def fit(self, training, n_classes, n_threads=1):
        rows = np.asarray(training.required(), dtype=float) ** self.power
        means = class_means(rows, training.labels, n_classes, training.weights)
        return PowerMap(means, self.power)


@dataclass(frozen=True)
class MatchRelative(Matching):
    """Least squares between mean rows and templates, relative to the mean template."""

    def problem(self, row_map, rows, bags, n_threads=1, full=False):
        scale = row_map.templates.mean(axis=1)
        return LeastSquares(row_map.templates / scale[:, None], rows.mean(bags) / scale)

    def solve(self, problem, n_threads=1):
        return solve_least_squares(problem, n_threads=n_threads)


class PowerPACC(AggregativeQuantifier):
    """PACC on powers of the posteriors."""

    def __init__(self, classifier=None, *, power="auto", cv=5, random_state=None, n_jobs=None):
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.power = power

    def row_spec(self):
        if self.power != "auto":
            return PowerRows(self.power)
        specs = {power: PowerRows(power) for power in (0.5, 1.0, 2.0)}
        return AutomaticChoice("power", specs, self.matching())

    def matching(self):
        return MatchRelative()
