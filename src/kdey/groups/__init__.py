"""Tables by group: one estimate per group, in one pass over the instances.

The path has two halves that any engine can share. A batch of instances becomes *points*
(posteriors) and the codes of their groups (``batch.py``, ``keys.py``, ``periods.py``); points and
codes of whole groups become answers (``solve.py``). ``frame.py`` runs both on a data frame,
``stream.py`` on batches that
arrive one by one, ``files.py`` on those of a table in a file.
"""

from __future__ import annotations

from kdey.groups.answers import GroupAnswers, GroupSettings
from kdey.groups.file import FileGroups, GroupStream, estimate_file
from kdey.groups.frame import predict_groups
from kdey.groups.keys import GroupKeys, truncate
from kdey.groups.scoring import Grouping, Scorer, match_scores
from kdey.groups.solve import estimate_groups

__all__ = [
    "FileGroups",
    "GroupAnswers",
    "GroupKeys",
    "GroupSettings",
    "GroupStream",
    "Grouping",
    "Scorer",
    "estimate_file",
    "estimate_groups",
    "match_scores",
    "predict_groups",
    "truncate",
]
