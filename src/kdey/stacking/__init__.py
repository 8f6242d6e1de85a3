"""Stacking: several classifiers and methods combined into one likelihood (``kdey.Quantifier``).

A *member* is a classifier with a likelihood method. Its predictive distribution is the distribution
of the class of an instance at the training prevalence. The distributions of all members are
averaged with the weights that make the held-out labels most likely (``pooled_classifier``). The
average is a classifier like any other, which is recalibrated and then matched by maximum likelihood
(``pooled_rows``). ``portfolio`` has the classifiers, and ``stage`` fits them.
"""

from kdey.stacking.pooled_classifier import CLASSIFIERS, PooledClassifier
from kdey.stacking.pooled_rows import MemberRecord, StackRecord
from kdey.stacking.stage import FitProgress, MemberWarning

__all__ = [
    "CLASSIFIERS",
    "FitProgress",
    "MemberRecord",
    "MemberWarning",
    "PooledClassifier",
    "StackRecord",
]
