"""Evaluation: fitted quantifiers, a pool with labels and a protocol in, errors per bag out."""

from kdey.evaluation.results import MethodResults, Results
from kdey.evaluation.run import evaluate, fit_many

__all__ = ["MethodResults", "Results", "evaluate", "fit_many"]
