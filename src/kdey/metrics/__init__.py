"""Errors between true and estimated prevalences: as functions, by name and as scorers.

``errors`` contains the formulae and says what happens in undefined cases; ``registry`` contains the
metrics by name and makes scikit-learn scorers of them.
"""

from kdey.metrics.errors import (
    absolute_error,
    aitchison,
    bias,
    bray_curtis,
    kullback_leibler,
    macro_normalised_match_distance,
    match_distance,
    normalised_absolute_error,
    normalised_kullback_leibler,
    normalised_match_distance,
    normalised_relative_absolute_error,
    relative_absolute_error,
    root_normalised_order_aware_divergence,
    smooth,
    squared_error,
    squared_ratio_error,
)
from kdey.metrics.registry import (
    METRICS,
    Metric,
    MetricLike,
    Scorer,
    get_metric,
    ratio_metric,
    scorer,
)

__all__ = [
    "METRICS",
    "Metric",
    "MetricLike",
    "Scorer",
    "absolute_error",
    "aitchison",
    "bias",
    "bray_curtis",
    "get_metric",
    "kullback_leibler",
    "macro_normalised_match_distance",
    "match_distance",
    "normalised_absolute_error",
    "normalised_kullback_leibler",
    "normalised_match_distance",
    "normalised_relative_absolute_error",
    "ratio_metric",
    "relative_absolute_error",
    "root_normalised_order_aware_divergence",
    "scorer",
    "smooth",
    "squared_error",
    "squared_ratio_error",
]
