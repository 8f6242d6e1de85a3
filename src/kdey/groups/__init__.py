"""Tables by group: one estimate per group, in one pass over the instances.

``predict.py`` starts the pipeline, ``request.py`` says what can be asked for. A batch of a table
becomes scored rows (``scoring.py``) with group numbers (``keys.py``, ``table.py``) and what is
known of how they were drawn (``design.py``); whole groups become estimates (``answers.py``,
``run.py``), which may lean on one another (``pooling.py``). ``cluster.py`` does the same on Dask
and Spark. ``compare.py`` compares groups with one another, in the pairs that ``pairs.py`` finds.
"""

from __future__ import annotations

from kdey.arrays import match_scores
from kdey.groups.answers import answer
from kdey.groups.cluster import fits_on_cluster
from kdey.groups.compare import (
    Comparisons,
    Pair,
    adjust_p_values,
    compare_groups,
    compare_scored,
    find_pairs,
)
from kdey.groups.keys import Grouping, GroupKeys, truncate
from kdey.groups.predict import estimate_scored, estimate_table, predict_groups, score
from kdey.groups.request import Request
from kdey.groups.scoring import Instances, ScoredRows, Scorer
from kdey.groups.table import ScoredTable, TableReader

__all__ = [
    "Comparisons",
    "GroupKeys",
    "Grouping",
    "Instances",
    "Pair",
    "Request",
    "ScoredRows",
    "ScoredTable",
    "Scorer",
    "TableReader",
    "adjust_p_values",
    "answer",
    "compare_groups",
    "compare_scored",
    "estimate_scored",
    "estimate_table",
    "find_pairs",
    "fits_on_cluster",
    "match_scores",
    "predict_groups",
    "score",
    "truncate",
]
