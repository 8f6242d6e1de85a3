"""Intervals: how far an estimated prevalence may be from the truth.

Two targets (the population, this bag), two ways (analytic, bootstrap), one result
(:class:`Estimate`). ``moments.py`` and ``score_interval.py`` hold the analytic interval,
``bootstrap.py``, ``resampling.py`` and ``resolving.py`` the bootstrap, ``limits.py`` what holds for
both, ``run.py`` puts them together.
"""

from kdey.intervals.differences import Difference, difference
from kdey.intervals.estimate import Estimate, Estimates
from kdey.intervals.model import FittedModel
from kdey.intervals.options import IntervalOptions, IntervalWarning
from kdey.intervals.region import Region
from kdey.intervals.run import estimate_points, estimate_solver

__all__ = [
    "Difference",
    "Estimate",
    "Estimates",
    "FittedModel",
    "IntervalOptions",
    "IntervalWarning",
    "Region",
    "difference",
    "estimate_points",
    "estimate_solver",
]
