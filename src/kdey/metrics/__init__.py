"""Errors between true and estimated prevalences: as functions, by name and as scorers.

``errors`` contains the formulae and says what happens in undefined cases; ``registry`` contains the
metrics by name and makes scikit-learn scorers of them.
"""

from kdey.metrics.errors import (
    absolute_error,
    aitchison,
    bray_curtis,
    kullback_leibler,
    match_distance,
    normalised_absolute_error,
    normalised_kullback_leibler,
    normalised_match_distance,
    normalised_relative_absolute_error,
    relative_absolute_error,
    smooth,
    squared_error,
)
from kdey.metrics.registry import METRICS, Metric, MetricLike, Scorer, get_metric, scorer

__all__ = [
    "METRICS",
    "Metric",
    "MetricLike",
    "Scorer",
    "absolute_error",
    "aitchison",
    "bray_curtis",
    "get_metric",
    "kullback_leibler",
    "match_distance",
    "normalised_absolute_error",
    "normalised_kullback_leibler",
    "normalised_match_distance",
    "normalised_relative_absolute_error",
    "relative_absolute_error",
    "scorer",
    "smooth",
    "squared_error",
]
