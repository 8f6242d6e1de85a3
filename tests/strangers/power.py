"""A quantifier of somebody else's, in one file outside kdey: rows of its own."""

from dataclasses import dataclass, replace

import numpy as np

from kdey.matching.squares import MatchMeans
from kdey.quantifiers import AggregativeQuantifier
from kdey.rows import ArrayRows, RowMap, class_means, fitted
from kdey.tuning import AutomaticChoice


@dataclass(frozen=True)
class PowerMap(RowMap):
    power: float
    templates: np.ndarray = fitted()

    def fit(self, training, n_classes, n_threads=1):
        rows = self(training.required()).array
        means = class_means(rows, training.labels, n_classes, training.weights)
        return replace(self, templates=means)

    def __call__(self, points, n_threads=1):
        return ArrayRows(np.asarray(points, dtype=float) ** self.power)


class PowerPACC(AggregativeQuantifier):
    """PACC on powers of the posteriors."""

    power: float | str = "auto"

    def row_spec(self):
        if self.power != "auto":
            return PowerMap(self.power)
        maps = {power: PowerMap(power) for power in (0.5, 1.0, 2.0)}
        return AutomaticChoice("power", maps, self.matching())

    def matching(self):
        return MatchMeans()
