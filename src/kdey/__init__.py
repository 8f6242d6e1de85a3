"""kdey: class prevalences in unlabelled data.

Not "which label does this item have" but "how many per cent of each class are in this bag", when
the mix has shifted since training. Start with ``KDEyML().fit(X, y).predict(X_bag)``.
"""

from kdey.bags import Bags
from kdey.checks import check_quantifier
from kdey.evaluation import Results, evaluate, fit_many
from kdey.model_selection import GridSearchQ, OptunaSearchQ, RandomSearchQ, StageCache
from kdey.protocols import APP, NPP, DirichletProtocol, GivenBags, GridAPP, GroupBags
from kdey.quantifiers.adjusting import ACC, PACC
from kdey.quantifiers.counting import CC, PCC, TrainingPrevalence
from kdey.quantifiers.ensemble import Ensemble
from kdey.quantifiers.histograms import DM, DMx, HDx, HDy
from kdey.quantifiers.kde import KDEyCS, KDEyHD, KDEyL2, KDEyML
from kdey.quantifiers.likelihood import DIR, EMQ
from kdey.quantifiers.median import Median
from kdey.quantifiers.mixture_models import MM, DyS
from kdey.quantifiers.one_vs_all import OneVsAll
from kdey.solvers.solution import Solution

__version__ = "0.1.0.dev0"

__all__ = [
    "ACC",
    "APP",
    "CC",
    "DIR",
    "DM",
    "EMQ",
    "MM",
    "NPP",
    "PACC",
    "PCC",
    "Bags",
    "DMx",
    "DirichletProtocol",
    "DyS",
    "Ensemble",
    "GivenBags",
    "GridAPP",
    "GridSearchQ",
    "GroupBags",
    "HDx",
    "HDy",
    "KDEyCS",
    "KDEyHD",
    "KDEyL2",
    "KDEyML",
    "Median",
    "OneVsAll",
    "OptunaSearchQ",
    "RandomSearchQ",
    "Results",
    "Solution",
    "StageCache",
    "TrainingPrevalence",
    "check_quantifier",
    "evaluate",
    "fit_many",
]
