"""What a part of the data must know of a fitted quantifier, and no more: this travels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kdey.inference import FittedModel
from kdey.matching import AverageOf, MatchCauchySchwarz, MaximiseLikelihood, MedianOf

#: "likelihood": rows are held and visited again; "mean" and "log mean": one pass is enough.
Kind = Literal["likelihood", "mean", "log mean"]


@dataclass(frozen=True, eq=False)
class Plan:
    """The row maps of a quantifier and what is summed of their rows.

    Attributes
    ----------
    row_maps : tuple
        One per member: several for committees and medians.
    kind : {"likelihood", "mean", "log mean"}
    log_rows : bool
        Whether the rows of a likelihood are logarithms.
    n_classes : int
    on_posteriors : bool
        Whether points are posteriors, of which decisions can be counted.
    n_threads : int
    """

    row_maps: tuple[Any, ...]
    kind: Kind
    log_rows: bool
    n_classes: int
    on_posteriors: bool
    n_threads: int = 1


def plan_of(quantifier: Any) -> Plan:
    """Return the plan of a fitted quantifier, or raise where bags are no sums to it."""
    if not hasattr(quantifier, "interval_model"):
        raise ValueError(
            f"{type(quantifier).__name__} does not estimate from sums over instances: use a method "
            "with rows and a matching (KDEyML, EMQ, DIR, ACC, PACC, CC, PCC, DM, HDy, ...), or "
            "estimate in memory"
        )
    return plan_of_model(quantifier.interval_model())


def plan_of_model(model: FittedModel) -> Plan:
    """Return the plan of fitted stages."""
    several = isinstance(model.matching, AverageOf | MedianOf)
    inner = model.matching.inner if several else model.matching
    maps = tuple(model.row_map.parts) if several else (model.row_map,)
    kind: Kind = "mean"
    if isinstance(inner, MaximiseLikelihood):
        kind = "likelihood"
    elif isinstance(inner, MatchCauchySchwarz):
        kind = "log mean"
    logs = kind == "likelihood" and inner.log_rows
    return Plan(maps, kind, logs, model.n_classes, model.on_posteriors, model.n_threads)
