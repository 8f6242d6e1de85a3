"""Automatic choice of parameters from the training posteriors: bandwidth, geometry, bins.

``hold_outs`` divides the training posteriors into parts and draws tuning bags from each; ``search``
evaluates settings on them, with templates from the other parts, and walks a lattice of values from
coarse to fine; ``kernel``, ``bins``, ``strength`` and ``choice`` are the row specs that choose;
``result`` has the record of what was tried and chosen. ``docs/automatic.md`` describes the
criterion.
"""

from __future__ import annotations

from kdey.tuning.bins import AutomaticBins
from kdey.tuning.choice import AutomaticChoice
from kdey.tuning.kernel import AutomaticKernel
from kdey.tuning.result import Tuning, TuningWarning
from kdey.tuning.search import TuningPlan
from kdey.tuning.strength import AutomaticStrength

__all__ = [
    "AutomaticBins",
    "AutomaticChoice",
    "AutomaticKernel",
    "AutomaticStrength",
    "Tuning",
    "TuningPlan",
    "TuningWarning",
]
