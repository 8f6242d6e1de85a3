"""Whether an answer can be trusted, and what is done with it.

Does the bag fit the training classes (``check_fit``), can the classes be told apart at all
(``identifiability``), how large a bag or training set is needed (``plan_bag_size``,
``plan_labels``), and posteriors and weights at the estimated prevalence (``adapt_posteriors``,
``importance_weights``).
"""

from kdey.diagnostics.adaptation import AdaptedClassifier, adapt_posteriors, importance_weights
from kdey.diagnostics.fit_check import FitCheck, FitChecker, check_fit, with_fit_checks
from kdey.diagnostics.fold_models import FoldModels, fold_models, hold_fold_models
from kdey.diagnostics.identify import Identifiability, identifiability
from kdey.diagnostics.planning import BagPlan, LabelPlan, plan_bag_size, plan_labels

__all__ = [
    "AdaptedClassifier",
    "BagPlan",
    "FitCheck",
    "FitChecker",
    "FoldModels",
    "Identifiability",
    "LabelPlan",
    "adapt_posteriors",
    "check_fit",
    "fold_models",
    "hold_fold_models",
    "identifiability",
    "importance_weights",
    "plan_bag_size",
    "plan_labels",
    "with_fit_checks",
]
