"""Stable names of types: how model files and fingerprints refer to a class wherever its code is.

A class keeps the name under which it was first written to a file. A class whose code moves gets an
entry in :data:`MOVED_TYPES`, so that older files, search logs and results can still be loaded.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType
from typing import Any

#: From the name under which a class was first written to the module that has it now.
MOVED_TYPES = {
    "kdey.automatic.bins:AutomaticBins": "kdey.tuning.bins",
    "kdey.automatic.hold_outs:Effort": "kdey.rows.interface",
    "kdey.automatic.kernel:AutomaticKernel": "kdey.tuning.kernel",
    "kdey.automatic.kernel:Geometry": "kdey.tuning.kernel",
    "kdey.automatic.plan:TuningPlan": "kdey.tuning.search",
    "kdey.automatic.tuning:Trial": "kdey.tuning.result",
    "kdey.automatic.tuning:Tuning": "kdey.tuning.result",
    "kdey.matching.average:AverageOf": "kdey.matching.composite",
    "kdey.matching.divergences:MatchDivergence": "kdey.matching.densities",
    "kdey.matching.median:MedianOf": "kdey.matching.composite",
    "kdey.metrics.scorer:Scorer": "kdey.metrics.registry",
    "kdey.problems.generator:Generator": "kdey.problems.separable",
    "kdey.protocols.artificial:APP": "kdey.protocols.drawn",
    "kdey.protocols.artificial:DirichletProtocol": "kdey.protocols.drawn",
    "kdey.protocols.artificial:GridAPP": "kdey.protocols.drawn",
    "kdey.protocols.natural:NPP": "kdey.protocols.drawn",
    "kdey.quantifiers.median:Median": "kdey.quantifiers.wrappers",
    "kdey.quantifiers.one_vs_all:OneVsAll": "kdey.quantifiers.wrappers",
    "kdey.rows.committee:CommitteeMap": "kdey.rows.composite",
    "kdey.rows.committee:CommitteeSpec": "kdey.rows.composite",
    "kdey.rows.density:DirichletMap": "kdey.rows.dirichlet",
    "kdey.rows.density:DirichletRows": "kdey.rows.dirichlet",
    "kdey.rows.stack:StackedMap": "kdey.rows.composite",
    "kdey.rows.stack:StackedSpec": "kdey.rows.composite",
    "kdey.stages:ClassifierStage": "kdey.posteriors",
    "kdey.stages:FittedStage": "kdey.posteriors",
}
#: Classes whose name changed as well as their module.
RENAMED_TYPES = {"kdey.automatic.hold_outs:Effort": "TuningEffort"}

#: Parameters that a class has got since its first release, by the stable name of the class. Where
#: they have their default, fingerprints leave them out, so that a search log that was written
#: before them still belongs to its search.
ADDED_PARAMETERS: dict[str, tuple[str, ...]] = {
    "kdey.automatic.plan:TuningPlan": ("smoothest",),
    "kdey.quantifiers.kde:KDEyHD": ("sampling",),
    "kdey.quantifiers.ensemble:Ensemble": ("n_selected",),
    "kdey.rows.monte_carlo:MonteCarloSpec": ("sampling",),
}


def without_added_defaults(value: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of an object, less those that were added later and have defaults."""
    kinds = type(value).__mro__
    added = {name for kind in kinds for name in ADDED_PARAMETERS.get(stable_name(kind), ())}
    if not added:
        return parameters
    declared = inspect.signature(type(value)).parameters
    return {
        name: item
        for name, item in parameters.items()
        if name not in added or item != declared[name].default
    }


def stable_name(kind: Any) -> str:
    """Return the name under which a class or function was first written, "module:qualname"."""
    place = f"{kind.__module__}:{kind.__qualname__}"
    return _FIRST_NAMES.get(place, place)


def current_place(name: str) -> tuple[str, str]:
    """Return the module and the qualified name that a stable name refers to now."""
    module, _, qualified = name.partition(":")
    return MOVED_TYPES.get(name, module), RENAMED_TYPES.get(name, qualified)


def find_module(name: str) -> ModuleType:
    """Return the module that a stable name refers to; raises ImportError if there is none."""
    return import_module(current_place(name)[0])


def _place(name: str) -> str:
    module, qualified = current_place(name)
    return f"{module}:{qualified}"


_FIRST_NAMES = {_place(name): name for name in MOVED_TYPES}
