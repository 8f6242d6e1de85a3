"""Pictures of estimates, evaluations and classifiers, in the style of scikit-learn's displays.

Each display is made by ``from_estimator``, ``from_estimate`` or ``from_results``, can be drawn
again by ``plot(ax=...)`` and keeps ``ax_`` and ``figure_``. matplotlib is needed to draw only.
``docs/gallery`` has a picture of each.
"""

from kdey.automatic import TuningDisplay
from kdey.plots.bias import BiasDisplay
from kdey.plots.calibration import ReliabilityDisplay
from kdey.plots.diagonal import DiagonalDisplay
from kdey.plots.intervals import IntervalsDisplay
from kdey.plots.sensitivity import SensitivityDisplay
from kdey.plots.shift import ErrorByShiftDisplay
from kdey.plots.simplex import SimplexDisplay
from kdey.plots.time import PrevalenceOverTimeDisplay
from kdey.significance import CriticalDifferenceDisplay

__all__ = [
    "BiasDisplay",
    "CriticalDifferenceDisplay",
    "DiagonalDisplay",
    "ErrorByShiftDisplay",
    "IntervalsDisplay",
    "PrevalenceOverTimeDisplay",
    "ReliabilityDisplay",
    "SensitivityDisplay",
    "SimplexDisplay",
    "TuningDisplay",
]
