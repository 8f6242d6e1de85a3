"""Displays of estimates, evaluations and classifiers, in the style of scikit-learn's.

Each display is made by ``from_estimator``, ``from_estimate`` or ``from_results``, can be drawn
again by ``plot(ax=...)`` and keeps ``ax_`` and ``figure_``. matplotlib is needed only to draw.
``docs/gallery`` has a picture of each.
"""

from kdey.plots.checks import FitCheckDisplay, IdentifiabilityDisplay, PlanDisplay
from kdey.plots.errors import BiasDisplay, DiagonalDisplay, ErrorByShiftDisplay
from kdey.plots.estimates import IntervalsDisplay, PrevalenceOverTimeDisplay
from kdey.plots.parameters import SensitivityDisplay, TuningDisplay
from kdey.plots.posteriors import ReliabilityDisplay, SimplexDisplay
from kdey.plots.ranks import CriticalDifferenceDisplay
from kdey.plots.regions import RegionDisplay

__all__ = [
    "BiasDisplay",
    "CriticalDifferenceDisplay",
    "DiagonalDisplay",
    "ErrorByShiftDisplay",
    "FitCheckDisplay",
    "IdentifiabilityDisplay",
    "IntervalsDisplay",
    "PlanDisplay",
    "PrevalenceOverTimeDisplay",
    "RegionDisplay",
    "ReliabilityDisplay",
    "SensitivityDisplay",
    "SimplexDisplay",
    "TuningDisplay",
]
