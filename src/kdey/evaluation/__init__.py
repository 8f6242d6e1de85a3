"""Comparing quantifiers: bags of known prevalences, errors, searches and tests of significance.

``protocols`` draw bags from labels; ``evaluating`` estimates them and judges by the errors of
:mod:`kdey.metrics`; ``searches`` find settings (``stage_scoring`` has how candidates are scored,
with every stage computed once); ``significance`` says what of a difference is chance; and
``contract`` tries a quantifier of one's own.
"""

from kdey.evaluation.contract import TrainingSummary, check_quantifier
from kdey.evaluation.evaluating import MethodResults, Results, evaluate, fit_many
from kdey.evaluation.protocols import (
    APP,
    NPP,
    AtPrevalences,
    BagProtocol,
    DirichletProtocol,
    GivenBags,
    GridAPP,
    LabelledBags,
)
from kdey.evaluation.searches import GridEdgeWarning, GridSearchQ, RandomSearchQ
from kdey.evaluation.significance import (
    LEVELS,
    BestComparison,
    CriticalDifference,
    FriedmanTest,
    PairTest,
    average_ranks,
    compare_to_best,
    friedman,
    nemenyi,
    pooled_wilcoxon,
    wilcoxon,
)
from kdey.evaluation.stage_scoring import StageCache
from kdey.intervals.differences import holm

__all__ = [
    "APP",
    "LEVELS",
    "NPP",
    "AtPrevalences",
    "BagProtocol",
    "BestComparison",
    "CriticalDifference",
    "DirichletProtocol",
    "FriedmanTest",
    "GivenBags",
    "GridAPP",
    "GridEdgeWarning",
    "GridSearchQ",
    "LabelledBags",
    "MethodResults",
    "PairTest",
    "RandomSearchQ",
    "Results",
    "StageCache",
    "TrainingSummary",
    "average_ranks",
    "check_quantifier",
    "compare_to_best",
    "evaluate",
    "fit_many",
    "friedman",
    "holm",
    "nemenyi",
    "pooled_wilcoxon",
    "wilcoxon",
]
