"""Displays of estimates, evaluations and classifiers, in the style of scikit-learn's.

Each display is made by ``from_estimator``, ``from_estimate`` or ``from_results``, can be drawn
again by ``plot(ax=...)`` and keeps ``ax_`` and ``figure_``. matplotlib is needed only to draw.
``docs/gallery`` has a picture of each.
"""

from kdey.plots.estimate_displays import (
    DriftDisplay,
    FitCheckDisplay,
    IdentifiabilityDisplay,
    IntervalsDisplay,
    PrevalenceOverTimeDisplay,
    ReliabilityDisplay,
    write_figures,
)
from kdey.plots.method_displays import (
    BiasDisplay,
    CriticalDifferenceDisplay,
    DiagonalDisplay,
    ErrorByShiftDisplay,
    TuningDisplay,
)

__all__ = [
    "BiasDisplay",
    "CriticalDifferenceDisplay",
    "DiagonalDisplay",
    "DriftDisplay",
    "ErrorByShiftDisplay",
    "FitCheckDisplay",
    "IdentifiabilityDisplay",
    "IntervalsDisplay",
    "PrevalenceOverTimeDisplay",
    "ReliabilityDisplay",
    "TuningDisplay",
    "write_figures",
]
