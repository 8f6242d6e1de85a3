"""Intervals: how far an estimated prevalence may be from the truth.

An interval has one of two targets (the population, or this very bag) and is computed in one of two
ways (analytically, or by bootstrap). The result is an :class:`Estimate` either way.

``compute.py`` chooses the way and assembles the result. The analytic interval is in ``moments.py``
(the equation), ``analytic.py`` (the equation for each family of methods) and ``profile.py`` (its
interval); the bootstrap is in ``bootstrap.py``. ``differences.py`` and ``merging.py`` put estimates
together.
"""

from kdey.intervals.compute import estimate_points
from kdey.intervals.differences import Difference, difference
from kdey.intervals.estimate import Estimate, Estimates
from kdey.intervals.region import Region

__all__ = [
    "Difference",
    "Estimate",
    "Estimates",
    "Region",
    "difference",
    "estimate_points",
]
