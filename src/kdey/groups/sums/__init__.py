"""Estimates of groups from sums: what a part of the data contributes, and what is made of it.

A group may be larger than any memory. ``plan.py`` says what must be known of a quantifier to go
through a part of the data, ``batch.py`` makes its rows and first sums, ``likelihood.py``,
``replicates.py`` and ``soft.py`` sum over rows again; ``group_sums.py`` puts parts together. From
sums alone ``newton.py``, ``em.py`` and ``finish.py`` solve all groups at once, ``analytic.py`` and
``bootstrap.py`` give limits, ``estimate.py`` runs it all over a ``source.py``: batches in one
process, or an engine of many (``kdey.groups.cluster``).
"""

from kdey.groups.sums.bootstrap import key_hashes, poisson_weights
from kdey.groups.sums.estimate import SummedEstimates, estimate_sums
from kdey.groups.sums.source import (
    Contribution,
    GroupedRows,
    GroupSums,
    LocalSource,
    Plan,
    Source,
    make_batch,
    merge,
    plan_of,
)

__all__ = [
    "Contribution",
    "GroupSums",
    "GroupedRows",
    "LocalSource",
    "Plan",
    "Source",
    "SummedEstimates",
    "estimate_sums",
    "key_hashes",
    "make_batch",
    "merge",
    "plan_of",
    "poisson_weights",
]
