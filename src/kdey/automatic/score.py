"""Errors of settings on the hold-outs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kdey.automatic.hold_outs import HoldOut
from kdey.automatic.parts import Array
from kdey.matching import Matching
from kdey.metrics import Metric
from kdey.rows.references import BandwidthWarning
from kdey.rows.together import families, rows_of_family
from kdey.telling import muted


@dataclass(frozen=True, eq=False)
class Scorer:
    """Judges row specs by the error of a matching on the bags of all hold-outs."""

    hold_outs: Sequence[HoldOut]
    matching: Matching
    metric: Metric
    bag_size: int
    n_threads: int = 1

    def errors(self, specs: Sequence[Any]) -> Array:
        """Return the error of each spec on each bag, shape (n_specs, n_bags).

        Specs of one family (the bandwidths of a kernel) share one pass over the distances.
        """
        # What is tried out may be absurd; the errors tell.
        quiet = muted(BandwidthWarning, ConvergenceWarning)
        with quiet, np.errstate(divide="ignore", invalid="ignore"):
            return np.concatenate([self._on(one, specs) for one in self.hold_outs], axis=1)

    def baseline(self) -> float:
        """Return the mean error of answering the uniform prevalence to every bag."""
        errors = [
            self._error(one, np.full(one.prevalences.shape, 1.0 / one.n_classes))
            for one in self.hold_outs
        ]
        return float(np.concatenate(errors).mean())

    def _on(self, one: HoldOut, specs: Sequence[Any]) -> Array:
        out = np.empty((len(specs), len(one.bags)))
        quick = self.matching.takes_quick_rows
        for family in families(specs, len(one.points), one.n_classes):
            members = [specs[i] for i in family]
            made = rows_of_family(
                members, one.training, one.points, one.n_classes, self.n_threads, quick=quick
            )
            for number, (row_map, rows) in zip(family, made, strict=True):
                solution = self.matching.match(row_map, rows, one.bags, self.n_threads)
                out[number] = self._error(one, solution.prevalence)
        return out

    def _error(self, one: HoldOut, estimated: Array) -> Array:
        return self.metric.sign * -self.metric(one.prevalences, estimated, bag_size=self.bag_size)
