"""Parameters chosen from the training posteriors: bandwidth, geometry, number of bins.

``hold_outs`` cuts the training posteriors into parts and draws tuning bags from each, ``score``
evaluates settings on them with the templates of the other parts, ``search`` walks a lattice of
values from coarse to fine, ``kernel`` and ``bins`` are the row specs that use them, ``tuning``
holds what was tried and chosen, ``display`` draws it. See ``docs/automatic.md`` for the criterion.
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
