"""Tables by group: one estimate per group, in one pass over the instances.

A table is a frame in memory, a file, or a data frame of Dask or Spark. ``predict.py`` holds the
functions that start the pipeline, step by step; ``request.py`` says what can be asked for.
A batch of a table becomes scored rows (``scoring.py``) with group numbers (``keys.py``,
``batches.py``; ``partitions.py`` and ``cluster.py`` where the table lies in partitions), and these
become answers (``estimate.py``, ``answers.py``). Groups that are never held at once are estimated
from sums over their parts (``sums/``).
"""

from __future__ import annotations

from kdey.class_columns import match_scores
from kdey.groups.answers import FileGroups, GroupAnswers
from kdey.groups.batches import BatchReader, GroupStream, ScoredBatch
from kdey.groups.cluster import DaskSource, SparkSource, first_pass, fits_on_cluster, next_pass
from kdey.groups.estimate import estimate_groups
from kdey.groups.keys import Grouping, GroupKeys, truncate
from kdey.groups.partitions import PartitionReader, PartitionSums, merge_partitions
from kdey.groups.predict import estimate_file, predict_groups, predict_partitioned
from kdey.groups.request import Borrowing, GroupRequest, GroupSettings
from kdey.groups.scoring import Instances, ScoredRows, Scorer

__all__ = [
    "BatchReader",
    "Borrowing",
    "DaskSource",
    "FileGroups",
    "GroupAnswers",
    "GroupKeys",
    "GroupRequest",
    "GroupSettings",
    "GroupStream",
    "Grouping",
    "Instances",
    "PartitionReader",
    "PartitionSums",
    "ScoredBatch",
    "ScoredRows",
    "Scorer",
    "SparkSource",
    "estimate_file",
    "estimate_groups",
    "first_pass",
    "fits_on_cluster",
    "match_scores",
    "merge_partitions",
    "next_pass",
    "predict_groups",
    "predict_partitioned",
    "truncate",
]
