"""Model selection: grids over stages that are computed once, with a log to resume from."""

from kdey.model_selection.grid import GridEdgeWarning, GridSearchQ, RandomSearchQ
from kdey.model_selection.optuna_search import OptunaSearchQ
from kdey.model_selection.scoring import StageCache

__all__ = ["GridEdgeWarning", "GridSearchQ", "OptunaSearchQ", "RandomSearchQ", "StageCache"]
