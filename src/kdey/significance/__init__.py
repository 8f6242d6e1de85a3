"""Whether one method is better than another, or whether it is chance.

``pairs`` tests methods bag by bag on one data set or on all (Wilcoxon) and corrects for many tests
(Holm); ``ranks`` compares many methods over many data sets (Friedman, Nemenyi).
:class:`kdey.CriticalDifferenceDisplay` draws that comparison.
"""

from __future__ import annotations

from kdey.significance.pairs import (
    LEVELS,
    BestComparison,
    PairTest,
    compare_to_best,
    holm,
    pooled_wilcoxon,
    wilcoxon,
)
from kdey.significance.ranks import (
    CriticalDifference,
    FriedmanTest,
    average_ranks,
    friedman,
    nemenyi,
)

__all__ = [
    "LEVELS",
    "BestComparison",
    "CriticalDifference",
    "FriedmanTest",
    "PairTest",
    "average_ranks",
    "compare_to_best",
    "friedman",
    "holm",
    "nemenyi",
    "pooled_wilcoxon",
    "wilcoxon",
]
