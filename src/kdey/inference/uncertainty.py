"""What limits rest on, kept beside them: covariances, regions and differences come from here.

They are made when asked for: a table of a thousand groups wants limits, not a thousand regions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kdey.bags import Array
from kdey.inference.analytic import Linearised, degrees_of_freedom
from kdey.inference.model import FittedModel
from kdey.inference.region import (
    Region,
    region_from_covariance,
    region_from_draws,
    whole_simplex,
)


@dataclass(frozen=True, eq=False)
class Analytic:
    """A bag's place in the moment equation of a fitted model."""

    model: FittedModel
    line: Linearised
    number: int
    population: bool

    @property
    def draws(self) -> None:
        """No draws."""
        return None

    @property
    def corrected(self) -> Array:
        """The moment estimate moved into the simplex, shape (k,)."""
        inside = np.maximum(self.line.centre[self.number], 0.0)
        return np.asarray(inside / inside.sum())

    def covariance(self) -> Array:
        """Return the covariance of the moment estimate, shape (k, k)."""
        return self.line.covariance(self.number, self.population)

    def region(self, confidence: float) -> Region:
        """Return the joint region."""
        degrees = degrees_of_freedom(self.line, self.population)[self.number]
        freedom = float(len(degrees) / (1.0 / degrees).sum())
        centre = self.line.centre[self.number]
        return region_from_covariance(centre, self.covariance(), freedom, confidence)


@dataclass(frozen=True, eq=False)
class Draws:
    """Bootstrap draws around an estimate; ``model`` None: without training replicates."""

    model: FittedModel | None
    seed: int
    estimate: Array
    draws: Array

    def covariance(self) -> Array:
        """Return the mean square of the draws about the estimate, shape (k, k)."""
        d = self.draws - self.estimate
        return np.asarray(d.T @ d / len(d))

    def region(self, confidence: float) -> Region:
        """Return the joint region."""
        inside = np.clip(self.draws, 0.0, None)
        inside /= inside.sum(axis=1, keepdims=True)
        return region_from_draws(self.estimate, inside, confidence)


@dataclass(frozen=True, eq=False)
class Nothing:
    """A bag of one unit: nothing is known of its error."""

    n_classes: int

    @property
    def draws(self) -> None:
        """No draws."""
        return None

    def covariance(self) -> Array:
        """Return NaN, shape (k, k)."""
        return np.full((self.n_classes, self.n_classes), np.nan)

    def region(self, confidence: float) -> Region:
        """Return the whole simplex."""
        return whole_simplex(self.n_classes, confidence)


Uncertainty: TypeAlias = Analytic | Draws | Nothing
