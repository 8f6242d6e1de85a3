"""Tables by group: one estimate per group, in one pass over the instances.

``predict.py`` starts the pipeline, ``request.py`` says what can be asked for. A batch of a table is
scored (``scoring.py``) and becomes rows with group numbers (``table.py``); whole groups become
estimates (``answers.py``), which may lean on one another (``pooling.py``). ``cluster.py`` does the
same on Dask and Spark. ``compare.py`` compares groups with one another.
"""

from __future__ import annotations

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
from kdey.groups.predict import estimate_table, predict_groups
from kdey.groups.request import Grouping, Request, truncate
from kdey.groups.scoring import TableScorer, score
from kdey.groups.table import GroupKeys, ScoredRows, ScoredTable
from kdey.simplex import match_scores

__all__ = [
    "Comparisons",
    "GroupKeys",
    "Grouping",
    "Pair",
    "Request",
    "ScoredRows",
    "ScoredTable",
    "TableScorer",
    "adjust_p_values",
    "answer",
    "compare_groups",
    "compare_scored",
    "estimate_table",
    "find_pairs",
    "fits_on_cluster",
    "match_scores",
    "predict_groups",
    "score",
    "truncate",
]
