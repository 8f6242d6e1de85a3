"""Intervals: how far an estimated prevalence may be from the truth.

An interval has one of two targets (the population, or this very bag) and is computed in one of two
ways (analytically, or by bootstrap). The result is an :class:`Estimate` either way.

``run.py`` chooses the way and assembles the result. The analytic interval is in ``moments.py`` (the
equation), ``analytic.py`` and ``derivatives.py`` (the equation for each family of methods) and
``score_interval.py`` (its limits); the bootstrap is in ``bootstrap.py`` and ``replicates.py``.
``moment_rows.py`` has the rows of a model that enter the equation.
"""

from kdey.intervals.combine import Difference, difference
from kdey.intervals.compute import estimate_points
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
