"""Shares of classes with limits, as each of the three ways to use labels gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kdey.bags import Array
from kdey.intervals.region import Region, Uncertainty, region_from_covariance


@dataclass(frozen=True, eq=False)
class Shares:
    """Estimated shares of k classes with limits.

    Attributes
    ----------
    estimate, low, high : arrays of shape (k,)
    centre : array of shape (k,)
        The estimate before it was moved into the simplex.
    covariance : array of shape (k, k)
        Covariance of the error of the centre.
    freedom : float
        Degrees of freedom of the covariance.
    """

    estimate: Array
    low: Array
    high: Array
    centre: Array
    covariance: Array
    freedom: float = np.inf


@dataclass(frozen=True, eq=False)
class LabelledUncertainty(Uncertainty):
    """The uncertainty of shares that labels of the bag contribute to.

    Attributes
    ----------
    shares : Shares
    """

    shares: Shares
    method: ClassVar[str] = "analytic"

    @property
    def template_noise(self) -> bool:
        """True: the limits leave out no uncertainty of the templates.

        Those under label shift include it, and the others do not depend on the templates.
        """
        return True

    def covariance(self) -> Array:
        """Return the covariance of the error, shape (k, k)."""
        return self.shares.covariance

    def region(self, confidence: float) -> Region:
        """Return the joint region of all classes."""
        return region_from_covariance(
            self.shares.centre, self.shares.covariance, self.shares.freedom, confidence
        )
