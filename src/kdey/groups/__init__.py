"""Tables by group: one estimate per group, in one pass over the instances.

A table is a frame in memory, a file, or a data frame of Dask or Spark. ``predict.py`` holds the
functions that start the pipeline, step by step; ``request.py`` says what can be asked for.
A batch of a table becomes scored rows (``scoring.py``) with group numbers (``keys.py``,
``batches.py``; ``partitions.py`` and ``cluster.py`` where the table lies in partitions), and these
become answers (``estimate.py``, ``answers.py``). Groups that are never held at once are estimated
from sums over their parts (``sums/``). ``design.py`` reads how rows were drawn and which of them
have labels, ``run.py`` estimates such groups, ``labelled_answers.py`` holds what labels say.
``comparisons.py`` compares groups with one another, in the
pairs that ``pairs.py`` finds.
"""

from __future__ import annotations

from kdey.class_columns import match_scores
from kdey.groups.answers import FileGroups, GroupAnswers
from kdey.groups.batches import BatchReader, GroupStream, ScoredBatch, ScoredTable
from kdey.groups.cluster import DaskSource, SparkSource, first_pass, fits_on_cluster, next_pass
from kdey.groups.comparisons import (
    Comparisons,
    adjust_p_values,
    compare_collected,
    compare_file,
    compare_groups,
    compare_scored,
)
from kdey.groups.design import Design, RowDesign
from kdey.groups.estimate import estimate_groups
from kdey.groups.keys import Grouping, GroupKeys, truncate
from kdey.groups.pairs import Pair, find_pairs
from kdey.groups.partitions import PartitionReader, PartitionSums, merge_partitions
from kdey.groups.predict import estimate_file, predict_groups, predict_partitioned
from kdey.groups.request import GroupRequest, GroupSettings, Pooling
from kdey.groups.scoring import Instances, ScoredRows, Scorer
from kdey.groups.sides import estimate_sides

__all__ = [
    "BatchReader",
    "Comparisons",
    "DaskSource",
    "Design",
    "FileGroups",
    "GroupAnswers",
    "GroupKeys",
    "GroupRequest",
    "GroupSettings",
    "GroupStream",
    "Grouping",
    "Instances",
    "Pair",
    "PartitionReader",
    "PartitionSums",
    "Pooling",
    "RowDesign",
    "ScoredBatch",
    "ScoredRows",
    "ScoredTable",
    "Scorer",
    "SparkSource",
    "adjust_p_values",
    "compare_collected",
    "compare_file",
    "compare_groups",
    "compare_scored",
    "estimate_file",
    "estimate_groups",
    "estimate_sides",
    "find_pairs",
    "first_pass",
    "fits_on_cluster",
    "match_scores",
    "merge_partitions",
    "next_pass",
    "predict_groups",
    "predict_partitioned",
    "truncate",
]
