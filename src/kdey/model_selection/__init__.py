"""Model selection: grids over stages that are computed once, with a log to resume from."""

from kdey.model_selection.cache import StageCache
from kdey.model_selection.edges import GridEdgeWarning
from kdey.model_selection.grid import GridSearchQ, RandomSearchQ
from kdey.model_selection.optuna_search import OptunaSearchQ

__all__ = ["GridEdgeWarning", "GridSearchQ", "OptunaSearchQ", "RandomSearchQ", "StageCache"]
