"""kdey: class prevalences in unlabelled data.

Not "which label does this item have" but "how many per cent of each class are in this bag", when
the mix has shifted since training::

    from kdey import Quantifier
    q = Quantifier().fit(X, y)     # labelled data
    q.estimate(X_bag)              # shares of the classes in X_bag, with limits

========================  ========================================================
You want to               Use
========================  ========================================================
estimate one bag          Quantifier, or one method: KDEyML, EMQ, PACC, ACC, ...
estimate groups, weeks    predict_groups, compare_groups, kdey.monitoring
know whether to trust it  check_fit, identifiability
use a few new labels      q.estimate(X, labelled=(positions, labels)), plan_labels
plan                      plan_bag_size, plan_labels
compare two bags          difference
show it to others         write_report, estimate.plot(), the ...Display classes
compare methods           evaluate with APP, NPP, ...; kdey.evaluation
tune                      GridSearchQ, RandomSearchQ, OptunaSearchQ
keep a model              save, load
correct a classifier      adapt_posteriors, AdaptedClassifier
========================  ========================================================

``help(kdey.Quantifier)`` has the parameters and an example, and so has every other name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdey.bags import Bags
    from kdey.bayes import PosteriorDraws, sample_posterior
    from kdey.diagnostics import (
        AdaptedClassifier,
        FitCheck,
        FitChecker,
        Identifiability,
        adapt_posteriors,
        check_fit,
        identifiability,
        importance_weights,
        plan_bag_size,
        plan_labels,
    )
    from kdey.evaluation import Results, evaluate, fit_many
    from kdey.evaluation.checks import check_quantifier
    from kdey.evaluation.protocols import (
        APP,
        NPP,
        AtPrevalences,
        DirichletProtocol,
        GivenBags,
        GridAPP,
    )
    from kdey.evaluation.searches import GridSearchQ, OptunaSearchQ, RandomSearchQ
    from kdey.evaluation.stage_scoring import StageCache
    from kdey.groups import compare_groups, predict_groups
    from kdey.intervals import Difference, Estimate, Estimates, Region, difference
    from kdey.matching.base import Solution
    from kdey.options import Options
    from kdey.persistence import load, save
    from kdey.plots import (
        BiasDisplay,
        CriticalDifferenceDisplay,
        DiagonalDisplay,
        ErrorByShiftDisplay,
        FitCheckDisplay,
        IdentifiabilityDisplay,
        IntervalsDisplay,
        PrevalenceOverTimeDisplay,
        RegionDisplay,
        ReliabilityDisplay,
        SensitivityDisplay,
        SimplexDisplay,
        TuningDisplay,
    )
    from kdey.quantifiers.adjusting import ACC, PACC, RLLS, Friedman
    from kdey.quantifiers.composed import compose
    from kdey.quantifiers.counting import CC, PCC, TrainingPrevalence
    from kdey.quantifiers.embeddings import KMM, EDx, EDy
    from kdey.quantifiers.ensemble import Ensemble
    from kdey.quantifiers.histograms import DM, DMx, HDx, HDy
    from kdey.quantifiers.kde import KDEyCS, KDEyHD, KDEyL2, KDEyML
    from kdey.quantifiers.likelihood import DIR, EMQ
    from kdey.quantifiers.mixture_models import MM, DyS
    from kdey.quantifiers.ordered import Ordered
    from kdey.quantifiers.quantifier import Quantifier
    from kdey.quantifiers.thresholds import MAX, MS, MS2, SORD, T50, ThresholdX
    from kdey.quantifiers.wrappers import Median, OneVsAll
    from kdey.report import Report, make_report, write_report
    from kdey.tuning import Tuning
    from kdey.versions import show_versions


#: The one place of the version: the package's metadata are read from here.
__version__ = "0.2.0.dev0"

#: Where each public name lives; it is imported when first asked for, so that importing kdey is
#: quick and a tool that needs one part does not pay for the others.
_HOMES = {
    "ACC": "kdey.quantifiers.adjusting",
    "APP": "kdey.evaluation",
    "AdaptedClassifier": "kdey.diagnostics",
    "AtPrevalences": "kdey.evaluation",
    "Bags": "kdey.bags",
    "BiasDisplay": "kdey.plots",
    "CC": "kdey.quantifiers.counting",
    "CriticalDifferenceDisplay": "kdey.plots",
    "DIR": "kdey.quantifiers.likelihood",
    "DM": "kdey.quantifiers.histograms",
    "DMx": "kdey.quantifiers.histograms",
    "DiagonalDisplay": "kdey.plots",
    "Difference": "kdey.intervals",
    "DirichletProtocol": "kdey.evaluation",
    "DyS": "kdey.quantifiers.mixture_models",
    "EDx": "kdey.quantifiers.embeddings",
    "EDy": "kdey.quantifiers.embeddings",
    "EMQ": "kdey.quantifiers.likelihood",
    "Ensemble": "kdey.quantifiers.ensemble",
    "ErrorByShiftDisplay": "kdey.plots",
    "Estimate": "kdey.intervals",
    "Estimates": "kdey.intervals",
    "FitCheck": "kdey.diagnostics",
    "FitCheckDisplay": "kdey.plots",
    "FitChecker": "kdey.diagnostics",
    "Friedman": "kdey.quantifiers.adjusting",
    "GivenBags": "kdey.evaluation",
    "GridAPP": "kdey.evaluation",
    "GridSearchQ": "kdey.evaluation",
    "HDx": "kdey.quantifiers.histograms",
    "HDy": "kdey.quantifiers.histograms",
    "Identifiability": "kdey.diagnostics",
    "IdentifiabilityDisplay": "kdey.plots",
    "IntervalsDisplay": "kdey.plots",
    "KDEyCS": "kdey.quantifiers.kde",
    "KDEyHD": "kdey.quantifiers.kde",
    "KDEyL2": "kdey.quantifiers.kde",
    "KDEyML": "kdey.quantifiers.kde",
    "KMM": "kdey.quantifiers.embeddings",
    "MAX": "kdey.quantifiers.thresholds",
    "MM": "kdey.quantifiers.mixture_models",
    "MS": "kdey.quantifiers.thresholds",
    "MS2": "kdey.quantifiers.thresholds",
    "Median": "kdey.quantifiers.wrappers",
    "NPP": "kdey.evaluation",
    "OneVsAll": "kdey.quantifiers.wrappers",
    "OptunaSearchQ": "kdey.evaluation",
    "Options": "kdey.options",
    "Ordered": "kdey.quantifiers.ordered",
    "PACC": "kdey.quantifiers.adjusting",
    "PCC": "kdey.quantifiers.counting",
    "PosteriorDraws": "kdey.bayes",
    "PrevalenceOverTimeDisplay": "kdey.plots",
    "Quantifier": "kdey.quantifiers.quantifier",
    "RLLS": "kdey.quantifiers.adjusting",
    "RandomSearchQ": "kdey.evaluation",
    "Region": "kdey.intervals",
    "RegionDisplay": "kdey.plots",
    "ReliabilityDisplay": "kdey.plots",
    "Report": "kdey.report",
    "Results": "kdey.evaluation",
    "SORD": "kdey.quantifiers.thresholds",
    "SensitivityDisplay": "kdey.plots",
    "SimplexDisplay": "kdey.plots",
    "Solution": "kdey.matching.base",
    "StageCache": "kdey.evaluation",
    "T50": "kdey.quantifiers.thresholds",
    "ThresholdX": "kdey.quantifiers.thresholds",
    "TrainingPrevalence": "kdey.quantifiers.counting",
    "Tuning": "kdey.tuning",
    "TuningDisplay": "kdey.plots",
    "adapt_posteriors": "kdey.diagnostics",
    "check_fit": "kdey.diagnostics",
    "check_quantifier": "kdey.evaluation",
    "compare_groups": "kdey.groups",
    "compose": "kdey.quantifiers.composed",
    "difference": "kdey.intervals",
    "evaluate": "kdey.evaluation",
    "fit_many": "kdey.evaluation",
    "identifiability": "kdey.diagnostics",
    "importance_weights": "kdey.diagnostics",
    "load": "kdey.persistence",
    "make_report": "kdey.report",
    "plan_bag_size": "kdey.diagnostics",
    "plan_labels": "kdey.diagnostics",
    "predict_groups": "kdey.groups",
    "sample_posterior": "kdey.bayes",
    "save": "kdey.persistence",
    "show_versions": "kdey.versions",
    "write_report": "kdey.report",
}

#: Packages that can be used after ``import kdey`` alone, imported when first asked for.
_PACKAGES = (
    *("bayes", "calibration", "datasets", "diagnostics", "evaluation", "groups", "interop"),
    *("intervals", "labelled", "metrics", "monitoring", "persistence"),
    *("plots",),
    *("quantifiers", "report", "simplex", "tuning"),
)

__all__ = [
    "ACC",
    "APP",
    "CC",
    "DIR",
    "DM",
    "EMQ",
    "KMM",
    "MAX",
    "MM",
    "MS",
    "MS2",
    "NPP",
    "PACC",
    "PCC",
    "RLLS",
    "SORD",
    "T50",
    "AdaptedClassifier",
    "AtPrevalences",
    "Bags",
    "BiasDisplay",
    "CriticalDifferenceDisplay",
    "DMx",
    "DiagonalDisplay",
    "Difference",
    "DirichletProtocol",
    "DyS",
    "EDx",
    "EDy",
    "Ensemble",
    "ErrorByShiftDisplay",
    "Estimate",
    "Estimates",
    "FitCheck",
    "FitCheckDisplay",
    "FitChecker",
    "Friedman",
    "GivenBags",
    "GridAPP",
    "GridSearchQ",
    "HDx",
    "HDy",
    "Identifiability",
    "IdentifiabilityDisplay",
    "IntervalsDisplay",
    "KDEyCS",
    "KDEyHD",
    "KDEyL2",
    "KDEyML",
    "Median",
    "OneVsAll",
    "Options",
    "OptunaSearchQ",
    "Ordered",
    "PosteriorDraws",
    "PrevalenceOverTimeDisplay",
    "Quantifier",
    "RandomSearchQ",
    "Region",
    "RegionDisplay",
    "ReliabilityDisplay",
    "Report",
    "Results",
    "SensitivityDisplay",
    "SimplexDisplay",
    "Solution",
    "StageCache",
    "ThresholdX",
    "TrainingPrevalence",
    "Tuning",
    "TuningDisplay",
    "adapt_posteriors",
    "check_fit",
    "check_quantifier",
    "compare_groups",
    "compose",
    "difference",
    "evaluate",
    "fit_many",
    "identifiability",
    "importance_weights",
    "load",
    "make_report",
    "plan_bag_size",
    "plan_labels",
    "predict_groups",
    "sample_posterior",
    "save",
    "show_versions",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its home, or a package."""
    if name in _PACKAGES:
        return import_module(f"kdey.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'kdey' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names and packages."""
    return [*__all__, *_PACKAGES, "__version__"]
