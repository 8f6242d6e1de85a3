"""Whether one method is better than another, or whether it is chance.

``pairs`` tests methods bag by bag on one data set or on all (Wilcoxon) and corrects for many tests
(Holm); ``ranks`` compares many methods over many data sets (Friedman, Nemenyi).
:class:`kdey.CriticalDifferenceDisplay` draws that comparison.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

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


def __getattr__(name: str) -> Any:
    """Return the display under the name it had in 0.1.0."""
    if name != "CriticalDifferenceDisplay":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"{__name__}.{name} is now kdey.plots.{name}; the old name goes with kdey 0.4",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(import_module("kdey.plots"), name)
