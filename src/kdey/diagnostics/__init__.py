"""Diagnostics: whether an estimate can be trusted, and how to use it.

``check_fit`` tests whether a bag fits the training classes, ``identifiability`` reports whether the
classes can be distinguished at all, ``plan_bag_size`` and ``plan_labels`` say how large a bag or a
training set is needed, ``audit`` what decided labels are worth, ``estimate_performance`` how well a
classifier does on unlabelled data, and ``adapt_posteriors`` and ``importance_weights`` carry the
estimated prevalence over to posteriors and training weights.
"""

from kdey.diagnostics.adaptation import AdaptedClassifier, adapt_posteriors, importance_weights
from kdey.diagnostics.column_check import score_histogram, unknown_share_bound
from kdey.diagnostics.decided_labels import Audit, audit
from kdey.diagnostics.default_checks import (
    fit_checks,
    full_check,
    unchecked_scores,
    with_fit_checks,
)
from kdey.diagnostics.identify import Identifiability, identifiability
from kdey.diagnostics.performance import Performance, estimate_performance
from kdey.diagnostics.planning import (
    BagPlan,
    LabelPlan,
    Plan,
    SamplingPlan,
    plan_bag_size,
    plan_labels,
)
from kdey.diagnostics.score_check import FitCheck, FitChecker, check_fit
from kdey.intervals.checks import Checks, ColumnFinding, ColumnVerdict, FitVerdict, NotChecked

__all__ = [
    "AdaptedClassifier",
    "Audit",
    "BagPlan",
    "Checks",
    "ColumnFinding",
    "ColumnVerdict",
    "FitCheck",
    "FitChecker",
    "FitVerdict",
    "Identifiability",
    "LabelPlan",
    "NotChecked",
    "Performance",
    "Plan",
    "SamplingPlan",
    "adapt_posteriors",
    "audit",
    "check_fit",
    "estimate_performance",
    "fit_checks",
    "full_check",
    "identifiability",
    "importance_weights",
    "plan_bag_size",
    "plan_labels",
    "score_histogram",
    "unchecked_scores",
    "unknown_share_bound",
    "with_fit_checks",
]
