"""Evaluation: fitted quantifiers, a pool with labels and a protocol in, errors per bag out."""

from kdey.evaluation.evaluate import evaluate
from kdey.evaluation.results import MethodResults, Results
from kdey.evaluation.sharing import fit_many

__all__ = ["MethodResults", "Results", "evaluate", "fit_many"]
