"""Pictures of estimates, evaluations and classifiers, in the style of scikit-learn's displays.

Each display is made by ``from_estimator``, ``from_estimate`` or ``from_results``, can be drawn
again by ``plot(ax=...)`` and keeps ``ax_`` and ``figure_``. matplotlib is needed to draw only.
``docs/gallery`` has a picture of each.
"""

from kdey.plots.calibration import ReliabilityDisplay
from kdey.plots.errors import BiasDisplay, DiagonalDisplay, ErrorByShiftDisplay
from kdey.plots.intervals import IntervalsDisplay, PrevalenceOverTimeDisplay
from kdey.plots.sensitivity import SensitivityDisplay
from kdey.plots.simplex import SimplexDisplay
from kdey.significance import CriticalDifferenceDisplay
from kdey.tuning import TuningDisplay

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
