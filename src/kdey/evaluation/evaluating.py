"""Errors of fitted quantifiers on the bags of a protocol, in a table or as a scorer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _num_samples

from kdey._caching import fingerprint
from kdey._display import Progress, progress
from kdey.arrays import take_rows
from kdey.bags import Bags
from kdey.evaluation.bag_drawing import BagProtocol, LabelledBags, check_protocol, whole_pool
from kdey.evaluation.protocols import APP
from kdey.evaluation.results import MethodResults, Results
from kdey.matching.base import concatenate
from kdey.metrics import Metric, MetricLike, get_metric
from kdey.model import Pool
from kdey.posteriors import FittedStage
from kdey.quantifiers.composed import QuantifierLike, as_quantifier, pool_solver, settle_table
from kdey.validation import check_count, training_labels

#: Drawn instances per batch of bags. It limits memory and paces the progress bar; results do not
#: depend on it.
BATCH = 1 << 20


def fit_many(
    quantifiers: Mapping[str, QuantifierLike],
    X: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    n_jobs: int | None = None,
) -> dict[str, Any]:
    """Fit clones of several quantifiers, each distinct classifier stage once.

    Quantifiers that agree on classifier, ``cv`` and ``random_state`` share the fitted classifier
    object and its training posteriors, so that :func:`kdey.evaluate` computes posteriors once.
    Quantifiers without such a stage are fitted separately.

    Parameters
    ----------
    quantifiers : mapping from names to quantifiers
        Unfitted; they are not changed.
    X : training instances
    y : array-like of shape (n,)
    sample_weight : array-like of shape (n,), optional
    n_jobs : int, optional
        Number of classifier fits that run at the same time.

    Returns
    -------
    fitted : dict from the names to fitted clones

    Raises
    ------
    TypeError
        If ``quantifiers`` is not a mapping from names to quantifiers.

    See Also
    --------
    kdey.evaluate : Estimate bags of known prevalence.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> fitted = kdey.evaluation.fit_many({"ACC": kdey.ACC(), "PACC": kdey.PACC()}, X, y)
    >>> fitted["ACC"].classifier_ is fitted["PACC"].classifier_
    True
    """
    if not isinstance(quantifiers, Mapping):
        raise TypeError(f"quantifiers must map names to quantifiers, got {quantifiers!r}")
    codes, classes = training_labels(y)
    stages: dict[str, FittedStage] = {}
    fitted = {}
    for name, quantifier in quantifiers.items():
        if not hasattr(quantifier, "fit") or isinstance(quantifier, type):
            raise TypeError(
                f"quantifiers must map names to quantifiers, but {name!r} is {quantifier!r}"
            )
        settled = settle_table(clone(quantifier), X)
        copy, features = settled.quantifier, settled.X
        method = as_quantifier(copy).stages()
        if method is None:
            extra = {} if sample_weight is None else {"sample_weight": sample_weight}
            copy.fit(features, y, **extra)
            fitted[name] = copy
            continue
        key = fingerprint(method.classifier)
        if key not in stages:
            stages[key] = method.classifier.fit(features, codes, classes, sample_weight, n_jobs)
        fitted[name] = copy.fit_stage(stages[key], features, y)
    return fitted


def evaluate(
    quantifiers: QuantifierLike | Mapping[str, QuantifierLike],
    X: Any,
    y: ArrayLike | None,
    protocol: BagProtocol | None = None,
    *,
    metrics: MetricLike | Sequence[MetricLike] = ("ae", "rae"),
    n_jobs: int | None = None,
    chunk_size: int | None = None,
    verbose: bool | Literal["auto"] = "auto",
) -> Results:
    """Estimate the prevalences of a protocol's bags and compare them with the true ones.

    Posteriors and rows are computed once for the pool, whatever the number of bags. Quantifiers
    that share the same classifier object (see :func:`fit_many`) share its posteriors.

    Parameters
    ----------
    quantifiers : fitted quantifier, or mapping from names to fitted quantifiers
        Any object with ``classes_`` and ``predict_bags(X, bags)`` or ``predict(X)`` is accepted.
    X : instances of the pool
    y : array-like of shape (m,) or None
        Labels of the pool. None is allowed for protocols that need no labels (``GivenBags``).
    protocol : protocol
        Draws the bags from the labels; default ``APP()``.
    metrics : metric or sequence of metrics
        Names such as "ae" and "rae", functions of true and estimated prevalences, or both; see
        :func:`kdey.metrics.get_metric`.
    n_jobs : int, optional
        Native threads; default: that of each quantifier. Results do not depend on it.
    chunk_size : int, optional
        Bags per batch; by default as many as have about a million instances together.
    verbose : bool or "auto"
        Whether to show progress; see :func:`kdey._display.progress`.

    Returns
    -------
    results : Results
        One row per bag and method; see ``results.to_frame()`` and ``results.summary()``.

    Raises
    ------
    NotFittedError
        If a quantifier is not fitted.
    ValueError
        If quantifiers differ in their classes, bags do not fit the pool, or a parameter is not
        allowed.

    See Also
    --------
    kdey.evaluation.Results : Errors of methods on bags.
    kdey.evaluation.fit_many : Fit several quantifiers at once.
    kdey.APP : Bags with prevalences uniform on the simplex.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> fitted = {"PACC": kdey.PACC().fit(X[::2], y[::2]), "CC": kdey.CC().fit(X[::2], y[::2])}
    >>> protocol = kdey.APP(n_bags=50, bag_size=60, random_state=0)
    >>> results = kdey.evaluate(fitted, X[1::2], y[1::2], protocol, metrics="ae", verbose=False)
    >>> results.estimated("PACC").shape
    (50, 3)
    >>> bool(results.errors("ae", "PACC").mean() < 0.1)
    True
    """
    named = _named(quantifiers)
    chosen_metrics = _metrics(metrics)
    classes = _common_classes(named)
    if protocol is not None:
        check_protocol(protocol)
    labelled = (APP() if protocol is None else protocol).bags(y, classes)  # type: ignore[arg-type]
    if labelled.bags.pool_size != _num_samples(X):
        raise ValueError(
            f"X has {_num_samples(X)} instances, but the bags of the protocol refer to a pool of "
            f"{labelled.bags.pool_size}"
        )
    batches = list(_batches(labelled.bags, chunk_size))
    pool = Pool(X)
    with progress(len(named) * len(labelled), "bags", verbose) as shown:
        methods = {
            name: _evaluate_method(
                quantifier, pool, n_jobs, labelled, batches, chosen_metrics, shown
            )
            for name, quantifier in named.items()
        }
    return Results(classes, labelled.prevalences, labelled.sizes, methods)


def _evaluate_method(
    quantifier: QuantifierLike,
    pool: Pool,
    n_jobs: int | None,
    labelled: LabelledBags,
    batches: list[slice],
    metrics: list[Metric],
    shown: Progress[Any],
) -> MethodResults:
    """Solve all batches of bags by one quantifier and compute its errors."""
    start = time.perf_counter()
    solve = pool_solver(quantifier, pool, n_jobs)
    pool_seconds = time.perf_counter() - start
    parts, seconds = [], []
    for batch in batches:
        start = time.perf_counter()
        parts.append(solve(labelled.bags[batch]))
        n = len(parts[-1])
        seconds.append(np.full(n, (time.perf_counter() - start) / n))
        shown.advance(n)
    solution = concatenate(parts)
    errors = {
        metric.name: metric(labelled.prevalences, solution.prevalence, bag_size=labelled.sizes)
        for metric in metrics
    }
    return MethodResults(solution, errors, np.concatenate(seconds), pool_seconds)


def _named(
    quantifiers: QuantifierLike | Mapping[str, QuantifierLike],
) -> dict[str, QuantifierLike]:
    if not isinstance(quantifiers, Mapping):
        return {type(quantifiers).__name__: quantifiers}
    if not quantifiers:
        raise ValueError("quantifiers is empty: pass at least one fitted quantifier")
    return {str(name): quantifier for name, quantifier in quantifiers.items()}


def _metrics(metrics: MetricLike | Sequence[MetricLike]) -> list[Metric]:
    several = not isinstance(metrics, str | Metric) and isinstance(metrics, Sequence)
    chosen = [get_metric(metric) for metric in (metrics if several else [metrics])]  # type: ignore
    if len({metric.name for metric in chosen}) != len(chosen) or not chosen:
        raise ValueError("metrics must name at least one metric, and each only once")
    return chosen


def _common_classes(named: Mapping[str, Any]) -> NDArray[Any]:
    """Return the classes of the quantifiers, or raise if these differ."""
    for name, quantifier in named.items():
        if not hasattr(quantifier, "classes_"):
            raise NotFittedError(
                f"quantifier {name!r} is not fitted (it has no classes_): call fit first"
            )
    first = next(iter(named.values())).classes_
    for name, quantifier in named.items():
        if np.asarray(quantifier.classes_).tolist() != np.asarray(first).tolist():
            raise ValueError(f"quantifiers must agree on the classes, but {name!r} differs")
    return np.asarray(first)


def _batches(bags: Bags, chunk_size: int | None) -> Iterator[slice]:
    """Yield slices of ``chunk_size`` bags, or of about ``BATCH`` drawn instances."""
    if chunk_size is not None:
        check_count(chunk_size, "chunk_size")
    start = 0
    while start < len(bags):
        if chunk_size is None:
            target = bags.offsets[start] + BATCH
            last = int(np.searchsorted(bags.offsets, target, side="right")) - 1
            stop = max(last, start + 1)
        else:
            stop = start + int(chunk_size)
        yield slice(start, min(stop, len(bags)))
        start = stop


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
