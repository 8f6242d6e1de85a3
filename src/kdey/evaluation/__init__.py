"""Evaluation: errors of fitted quantifiers on the bags that a protocol draws from labelled data."""

from kdey.evaluation.results import MethodResults, Results
from kdey.evaluation.run import evaluate, fit_many

__all__ = ["MethodResults", "Results", "evaluate", "fit_many"]
