"""Model selection: searches that compute every stage once, with a log from which they resume."""

from kdey.model_selection.grid import GridEdgeWarning, GridSearchQ, RandomSearchQ
from kdey.model_selection.optuna_search import OptunaSearchQ
from kdey.model_selection.scoring import StageCache

__all__ = ["GridEdgeWarning", "GridSearchQ", "OptunaSearchQ", "RandomSearchQ", "StageCache"]
