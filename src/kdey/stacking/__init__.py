"""Stacking: several classifiers and methods combined into one likelihood (``kdey.Quantifier``).

A *member* is a classifier with a likelihood method (``members.py``). Its predictive distribution is
the distribution of the class of an instance at the training prevalence. The distributions of all
members are averaged with the weights that make the held-out labels most likely (``pool.py``). The
average is a classifier like any other, which is recalibrated and then matched by maximum likelihood
(``rows.py``).
"""

from kdey.stacking.members import FittedMember, MemberMethod
from kdey.stacking.pool import PooledClassifier, pool_weights
from kdey.stacking.portfolio import CLASSIFIERS, Candidate, portfolio
from kdey.stacking.rows import PooledMap, PooledRows, SmoothedRatioRows
from kdey.stacking.stage import FitProgress, MemberCache, MemberWarning, PooledStage

__all__ = [
    "CLASSIFIERS",
    "Candidate",
    "FitProgress",
    "FittedMember",
    "MemberCache",
    "MemberMethod",
    "MemberWarning",
    "PooledClassifier",
    "PooledMap",
    "PooledRows",
    "PooledStage",
    "SmoothedRatioRows",
    "pool_weights",
    "portfolio",
]
