"""Metrics as scikit-learn scorers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing

from kdey.bags import Bags
from kdey.metrics.registry import Metric, MetricLike, get_metric
from kdey.protocols.labels import BagProtocol, whole_pool


@dataclass(frozen=True)
class Scorer:
    """A metric with scikit-learn's scorer signature; larger is better. See :func:`scorer`."""

    metric: Metric
    protocol: BagProtocol | None = None

    def __call__(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        """Return the signed mean of the metric over the bags of ``(X, y)``."""
        if not hasattr(estimator, "classes_"):
            raise NotFittedError(f"{type(estimator).__name__} is not fitted: it has no classes_")
        if self.protocol is None:
            labelled = whole_pool(y, estimator.classes_)
        else:
            labelled = self.protocol.bags(y, classes=estimator.classes_)
        estimated = _predict_bags(estimator, X, labelled.bags)
        values = self.metric(labelled.prevalences, estimated, bag_size=labelled.sizes)
        return self.metric.sign * float(values.mean())


def scorer(metric: MetricLike, protocol: BagProtocol | None = None) -> Scorer:
    """Return ``metric`` as a scorer: ``scorer(estimator, X, y) -> float``, larger is better.

    Errors come back negative, so that the scorer can be handed to scikit-learn as ``scoring``.

    Parameters
    ----------
    metric : str, callable or Metric
        As in :func:`get_metric`.
    protocol : protocol, optional
        Draws the bags from ``y``; the score is the mean over them. Without it ``(X, y)`` is
        scored as a single bag, which says how the estimator does at one prevalence only.

    Notes
    -----
    The estimator needs ``classes_`` and either ``predict_bags(X, bags)``, giving prevalences of
    shape (n_bags, k), or ``predict(X)``, giving one of shape (k,), which is then called bag by
    bag.
    """
    return Scorer(get_metric(metric), protocol)


def _predict_bags(estimator: Any, X: Any, bags: Bags) -> ArrayLike:
    if hasattr(estimator, "predict_bags"):
        prevalences: ArrayLike = estimator.predict_bags(X, bags)
        return prevalences
    if bags.weights is not None:
        raise ValueError(
            f"{type(estimator).__name__} has no predict_bags, so weighted bags cannot be scored"
        )
    if bags.is_whole:
        return np.asarray(estimator.predict(X))[None, :]
    return np.stack([estimator.predict(_safe_indexing(X, bag)) for bag in bags])
