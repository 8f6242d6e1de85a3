"""Whether one method is better than another, or chance.

``pairs`` tests methods bag by bag on one data set or on all (Wilcoxon), ``ranks`` compares many
methods over many data sets (Friedman, Nemenyi), ``diagram`` draws that comparison, ``correction``
adjusts for many tests (Holm).
"""

from kdey.significance.diagram import CriticalDifferenceDisplay
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
    "CriticalDifferenceDisplay",
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
