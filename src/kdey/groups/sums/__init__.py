"""Estimates of groups that are never held at once, from sums over parts of the data.

A group may be larger than any memory. ``group_sums.py`` says what a part of the data contributes
and how parts add up, over batches in one process or partitions on a cluster. From sums alone
``solve.py`` solves all groups at once, ``limits.py`` and ``bootstrap.py`` give limits, and
``estimate.py`` runs it all.
"""

from kdey.groups.sums.bootstrap import key_hashes, poisson_weights
from kdey.groups.sums.estimate import SummedEstimates, estimate_sums
from kdey.groups.sums.group_sums import (
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
