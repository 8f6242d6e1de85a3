"""The public names of kdey and where each lives: the one list of them.

Type checkers read it, and ``__init__.py`` imports from it what is asked for.
"""

from . import (
    bayes as bayes,
    calibration as calibration,
    datasets as datasets,
    diagnostics as diagnostics,
    evaluation as evaluation,
    groups as groups,
    interop as interop,
    intervals as intervals,
    labelled as labelled,
    metrics as metrics,
    model as model,
    monitoring as monitoring,
    options as options,
    persistence as persistence,
    plots as plots,
    quantifiers as quantifiers,
    report as report,
    simplex as simplex,
    stacking as stacking,
    tuning as tuning,
)
from .bags import Bags as Bags
from .bayes import sample_posterior as sample_posterior
from .diagnostics import (
    AdaptedClassifier as AdaptedClassifier,
    FitCheck as FitCheck,
    Identifiability as Identifiability,
    adapt_posteriors as adapt_posteriors,
    audit as audit,
    check_fit as check_fit,
    estimate_performance as estimate_performance,
    identifiability as identifiability,
    plan_bag_size as plan_bag_size,
    plan_labels as plan_labels,
)
from .evaluation import APP as APP, NPP as NPP, GridSearchQ as GridSearchQ, evaluate as evaluate
from .groups import compare_groups as compare_groups, predict_groups as predict_groups
from .intervals import (
    Difference as Difference,
    Estimate as Estimate,
    Estimates as Estimates,
    calibrate_drift as calibrate_drift,
    difference as difference,
)
from .native import show_versions as show_versions
from .options import Options as Options
from .persistence import load as load, save as save
from .quantifiers.composed import Ordered as Ordered, compose as compose
from .quantifiers.counting import (
    ACC as ACC,
    CC as CC,
    MAX as MAX,
    MS as MS,
    MS2 as MS2,
    PACC as PACC,
    PCC as PCC,
    RLLS as RLLS,
    T50 as T50,
    Friedman as Friedman,
    ThresholdX as ThresholdX,
)
from .quantifiers.densities import (
    DIR as DIR,
    EMQ as EMQ,
    KDEyCS as KDEyCS,
    KDEyHD as KDEyHD,
    KDEyL2 as KDEyL2,
    KDEyML as KDEyML,
)
from .quantifiers.distances import (
    DM as DM,
    KMM as KMM,
    MM as MM,
    SORD as SORD,
    DMx as DMx,
    DyS as DyS,
    EDx as EDx,
    EDy as EDy,
    HDx as HDx,
    HDy as HDy,
)
from .quantifiers.meta import (
    Ensemble as Ensemble,
    Median as Median,
    OneVsAll as OneVsAll,
    TrainingPrevalence as TrainingPrevalence,
)
from .quantifiers.quantifier import Quantifier as Quantifier
from .report import make_report as make_report, write_report as write_report

__version__: str
