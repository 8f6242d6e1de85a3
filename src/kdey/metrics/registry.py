"""The registry of metrics: metrics by name, and metrics as scikit-learn scorers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from kdey._support.frames import take_rows
from kdey.bags import Bags
from kdey.metrics import errors
from kdey.protocols.draw import BagProtocol, whole_pool
from kdey.simplex import Array


@dataclass(frozen=True)
class Metric:
    """A named error between true and estimated prevalences.

    Attributes
    ----------
    name : str
        The short name, as in tables of the literature.
    function : callable
        ``function(true, estimated)``, or ``function(true, estimated, bag_size=...)`` if
        ``needs_bag_size``. It takes prevalences of shape (n_bags, k) and returns one value per
        bag, shape (n_bags,).
    title : str
        The full name.
    needs_bag_size : bool
        Whether the metric smooths and must therefore know the size of the bags.
    ordered : bool
        Whether the order of the classes matters.
    lower_is_better : bool
    """

    name: str
    function: Callable[..., ArrayLike]
    title: str
    needs_bag_size: bool = False
    ordered: bool = False
    lower_is_better: bool = True

    @property
    def sign(self) -> int:
        """Factor that makes larger values better: -1 for errors."""
        return -1 if self.lower_is_better else 1

    def __call__(
        self, true: ArrayLike, estimated: ArrayLike, *, bag_size: ArrayLike | None = None
    ) -> Array:
        """Return one value per bag.

        Parameters
        ----------
        true, estimated : array-like of shape (..., k)
        bag_size : array-like of shape () or (...), optional
            Ignored by metrics that do not need it.

        Returns
        -------
        array of shape (...)

        Raises
        ------
        ValueError
            If the bag size is missing, or the function returns another shape.
        """
        if self.needs_bag_size and bag_size is None:
            raise ValueError(f"metric {self.name!r} smooths by the bag size: pass bag_size")
        extra = {"bag_size": bag_size} if self.needs_bag_size else {}
        values = np.asarray(self.function(true, estimated, **extra), dtype=np.float64)
        bags = np.broadcast_shapes(np.shape(true), np.shape(estimated))[:-1]
        if values.shape != bags:
            raise ValueError(
                f"metric {self.name!r} must return one value per bag, shape {bags}, "
                f"but returned shape {values.shape}"
            )
        return values


MetricLike: TypeAlias = "str | Metric | Callable[..., ArrayLike]"

_ALL = (
    Metric("ae", errors.absolute_error, "absolute error"),
    Metric("nae", errors.normalised_absolute_error, "normalised absolute error"),
    Metric("rae", errors.relative_absolute_error, "relative absolute error", True),
    Metric(
        "nrae",
        errors.normalised_relative_absolute_error,
        "normalised relative absolute error",
        True,
    ),
    Metric("se", errors.squared_error, "squared error"),
    Metric("kld", errors.kullback_leibler, "Kullback-Leibler divergence", True),
    Metric(
        "nkld",
        errors.normalised_kullback_leibler,
        "normalised Kullback-Leibler divergence",
        True,
    ),
    Metric("md", errors.match_distance, "match distance", ordered=True),
    Metric("nmd", errors.normalised_match_distance, "normalised match distance", ordered=True),
    Metric(
        "rnod",
        errors.root_normalised_order_aware_divergence,
        "root normalised order-aware divergence",
        ordered=True,
    ),
    Metric("bray_curtis", errors.bray_curtis, "Bray-Curtis dissimilarity"),
    Metric("aitchison", errors.aitchison, "Aitchison distance", True),
)

#: Other names of metrics, in other libraries.
_ALIASES = {"aqe": "aitchison", "maqe": "aitchison"}

#: Every metric by its short name.
METRICS: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _ALL})


def get_metric(metric: MetricLike) -> Metric:
    """Return the metric for a name, a function or a :class:`Metric`.

    Parameters
    ----------
    metric : str, callable or Metric
        A short name ("rae"), the name of its mean over bags ("mrae") or the name of its function
        ("relative_absolute_error"); "aqe" is another name of "aitchison". Case does not matter, and
        "-" and blanks are read as "_". A
        callable ``f(true, estimated)`` takes all bags at once and is an error (lower is better);
        it is called with ``bag_size`` if it has a parameter of that name.

    Returns
    -------
    Metric

    Raises
    ------
    ValueError
        If the name is unknown, or the argument is of another type.
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return _by_name(metric)
    if callable(metric):
        return _from_callable(metric)
    raise ValueError(f"metric must be a name, a callable or a Metric, got {metric!r}")


def ratio_metric(training: ArrayLike) -> Metric:
    """Return the squared ratio error (SRE) to a training prevalence as a metric.

    Parameters
    ----------
    training : array-like of shape (k,)
        Such as ``quantifier.prevalence_``.

    Returns
    -------
    Metric
        Named "sre".
    """

    def squared_ratio_error(true: ArrayLike, estimated: ArrayLike) -> Array:
        return errors.squared_ratio_error(true, estimated, training)

    return Metric("sre", squared_ratio_error, "squared ratio error")


#: Measures that are no metric of one bag by itself, and how to compute them.
_ELSEWHERE = {
    "sre": "needs the training prevalence: kdey.metrics.ratio_metric(q.prevalence_) is the metric",
    "bias": "is signed, one number per class: kdey.metrics.bias(results.true, results.estimated())",
    "macro_nmd": "is one number for all bags: kdey.metrics.macro_normalised_match_distance("
    "results.true, results.estimated())",
}


def _by_name(name: str) -> Metric:
    normalised = name.strip().lower().replace("-", "_").replace(" ", "_")
    normalised = _ALIASES.get(normalised, normalised)
    for metric in _ALL:
        if normalised in (metric.name, "m" + metric.name, metric.function.__name__):
            return metric
    for known, remedy in _ELSEWHERE.items():
        if normalised in (known, "m" + known, known + "_binary"):
            raise ValueError(f"{name!r} {remedy}")
    raise ValueError(f"metric {name!r} is unknown; the names are {', '.join(METRICS)}")


def _from_callable(function: Callable[..., ArrayLike]) -> Metric:
    for metric in _ALL:
        if metric.function is function:
            return metric
    name = getattr(function, "__name__", type(function).__name__)
    parameters = inspect.signature(function).parameters
    return Metric(name, function, name.replace("_", " "), "bag_size" in parameters)


@dataclass(frozen=True)
class Scorer:
    """A metric with the signature of a scikit-learn scorer; larger is better.

    Created by :func:`scorer`.

    Attributes
    ----------
    metric : Metric
    protocol : protocol or None
        Draws the bags; None if all instances are one bag.
    """

    metric: Metric
    protocol: BagProtocol | None = None

    def __call__(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        """Return the signed mean of the metric over the bags of ``(X, y)``."""
        if not hasattr(estimator, "classes_"):
            raise NotFittedError(
                f"{type(estimator).__name__} is not fitted: it has no classes_; call fit first"
            )
        if self.protocol is None:
            labelled = whole_pool(y, estimator.classes_)
        else:
            labelled = self.protocol.bags(y, classes=estimator.classes_)
        estimated = _predict_bags(estimator, X, labelled.bags)
        values = self.metric(labelled.prevalences, estimated, bag_size=labelled.sizes)
        return self.metric.sign * float(values.mean())


def scorer(metric: MetricLike, protocol: BagProtocol | None = None) -> Scorer:
    """Return ``metric`` as a scorer: ``scorer(estimator, X, y) -> float``, larger is better.

    Errors are returned with a negative sign, so that scikit-learn accepts the scorer as
    ``scoring``.

    Parameters
    ----------
    metric : str, callable or Metric
        As in :func:`get_metric`.
    protocol : protocol, optional
        Draws the bags from ``y``; the score is the mean over the bags. Without a protocol
        ``(X, y)`` is a single bag, and the score measures performance at one prevalence only.

    Returns
    -------
    Scorer

    Notes
    -----
    The estimator needs ``classes_`` and either ``predict_bags(X, bags)``, which returns
    prevalences of shape (n_bags, k), or ``predict(X)``, which returns a prevalence of shape (k,)
    and is called once per bag.
    """
    return Scorer(get_metric(metric), protocol)


def _predict_bags(estimator: Any, X: Any, bags: Bags) -> ArrayLike:
    if hasattr(estimator, "predict_bags"):
        prevalences: ArrayLike = estimator.predict_bags(X, bags)
        return prevalences
    if bags.weights is not None:
        raise ValueError(
            f"{type(estimator).__name__} has no predict_bags, so weighted bags cannot be scored; "
            "use a protocol without weights"
        )
    if bags.is_whole:
        return np.asarray(estimator.predict(X))[None, :]
    return np.stack([estimator.predict(take_rows(X, bag)) for bag in bags])
