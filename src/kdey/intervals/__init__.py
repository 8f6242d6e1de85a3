"""Intervals: how far an estimated prevalence may be from the truth.

An interval has one of two targets (the population, or this very bag) and is computed in one of two
ways (analytically, or by bootstrap). The result is an :class:`Estimate` either way.

``compute.py`` chooses the way and assembles the result. The analytic interval is in ``moments.py``
(the equation), ``analytic.py`` (the equation for each family of methods) and ``profile.py`` (its
interval; that of more than 128 classes is in ``many_classes.py``); the bootstrap is in
``bootstrap.py``. ``differences.py`` and ``merging.py`` put estimates together, and ``drift.py``
says what a change of the classes themselves would leave of them.
"""

from kdey.intervals.compute import estimate_points
from kdey.intervals.differences import Difference, difference
from kdey.intervals.drift import Sensitivity, calibrate_drift
from kdey.intervals.estimate import Estimate, Estimates
from kdey.intervals.region import Region

__all__ = [
    "Difference",
    "Estimate",
    "Estimates",
    "Region",
    "Sensitivity",
    "calibrate_drift",
    "difference",
    "estimate_points",
]
