"""Automatic choice of parameters from the training posteriors: bandwidth, geometry, bins.

``trials`` draws tuning bags from parts of the training posteriors, evaluates settings on them, with
templates from the other parts, walks a lattice of values from coarse to fine, and has the record of
what was tried and chosen. ``automatic`` has the row specs that choose. ``docs/automatic.md``
describes the criterion.
"""

from kdey.tuning.automatic import AutomaticBins, AutomaticChoice, AutomaticKernel
from kdey.tuning.trials import Tuning, TuningPlan, TuningWarning

__all__ = [
    "AutomaticBins",
    "AutomaticChoice",
    "AutomaticKernel",
    "Tuning",
    "TuningPlan",
    "TuningWarning",
]
