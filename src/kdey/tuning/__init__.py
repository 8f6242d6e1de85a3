"""Automatic choice of parameters from the training posteriors: bandwidth, geometry, bins.

``hold_outs`` divides the training posteriors into parts and draws tuning bags from each; ``search``
evaluates settings on them, with templates from the other parts, and walks a lattice of values from
coarse to fine; ``kernel``, ``bins`` and ``choice`` are the row specs that choose; ``result`` has
the record of what was tried and chosen, and its plot. ``docs/automatic.md`` describes the
criterion.
"""

from kdey.tuning.bins import AutomaticBins
from kdey.tuning.choice import AutomaticChoice
from kdey.tuning.kernel import AutomaticKernel
from kdey.tuning.result import Tuning, TuningDisplay, TuningWarning
from kdey.tuning.search import TuningPlan

__all__ = [
    "AutomaticBins",
    "AutomaticChoice",
    "AutomaticKernel",
    "Tuning",
    "TuningDisplay",
    "TuningPlan",
    "TuningWarning",
]
