"""Fitting several quantifiers with one fit per distinct classifier stage.

Evaluation over a protocol: the work per instance once per pool, bags in native batches.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _num_samples

from kdey._support.fingerprint import fingerprint
from kdey._support.progress import Progress, progress
from kdey._support.validation import check_count
from kdey.bags import Bags
from kdey.evaluation.results import MethodResults, Results
from kdey.labels import training_labels
from kdey.matching import concatenate
from kdey.metrics import Metric, MetricLike, get_metric
from kdey.posteriors import FittedStage
from kdey.protocols import APP, BagProtocol, LabelledBags
from kdey.protocols.draw import check_protocol
from kdey.quantifiers.base import PoolWork
from kdey.quantifiers.foreign import QuantifierLike, as_quantifier


def fit_many(
    quantifiers: Mapping[str, QuantifierLike],
    X: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    n_jobs: int | None = None,
) -> dict[str, Any]:
    """Fit clones of several quantifiers, each distinct classifier stage once.

    Quantifiers that agree on classifier, ``cv`` and ``random_state`` get the very same fitted
    classifier and training posteriors (so that :func:`kdey.evaluate` computes its posteriors
    once); those without such a stage are fitted on their own.

    Parameters
    ----------
    quantifiers : mapping from names to quantifiers
        Unfitted; left as they are.
    X, y, sample_weight : as for ``fit``
    n_jobs : int, optional
        Classifier fits run at once.

    Returns
    -------
    fitted : dict from the names to fitted clones

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> fitted = kdey.fit_many({"ACC": kdey.ACC(), "PACC": kdey.PACC()}, X, y)
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
            raise TypeError(f"quantifiers must hold quantifiers, but {name!r} is {quantifier!r}")
        copy = clone(quantifier)
        method = as_quantifier(copy).stages()
        if method is None:
            extra = {} if sample_weight is None else {"sample_weight": sample_weight}
            fitted[name] = copy.fit(X, y, **extra)
            continue
        key = fingerprint(method.classifier)
        if key not in stages:
            stages[key] = method.classifier.fit(X, codes, classes, sample_weight, n_jobs)
        fitted[name] = copy.fit_stage(stages[key], X, y)
    return fitted


#: Drawn instances per batch of bags: bounds memory and paces the progress, not the result.
BATCH = 1 << 20


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

    Classifier and rows are computed once per pool, whatever the number of bags, and quantifiers
    that hold the very same classifier object (see :func:`kdey.fit_many`) share its posteriors.

    Parameters
    ----------
    quantifiers : fitted quantifier, or mapping from names to fitted quantifiers
        Anything with ``classes_`` and ``predict_bags(X, bags)`` or ``predict(X)`` will do.
    X : instances of the pool
    y : array-like of shape (m,)
        Labels of the pool. None is for protocols that need none (``GivenBags``).
    protocol : protocol
        Draws the bags from the labels; default ``APP()``.
    metrics : metric or sequence of metrics
        As in :func:`kdey.metrics.get_metric`.
    n_jobs : int, optional
        Native threads; default: each quantifier's own. Results do not depend on it.
    chunk_size : int, optional
        Bags per batch; by default as many as hold about a million instances.
    verbose : bool or "auto"
        Whether to show progress; see :func:`kdey._support.progress.progress`.

    Returns
    -------
    results : Results
        One row per bag and method; ``results.to_frame()``, ``results.summary()``.

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
    found = _metrics(metrics)
    classes = _common_classes(named)
    if protocol is not None:
        check_protocol(protocol)
    labelled = (APP() if protocol is None else protocol).bags(y, classes)  # type: ignore[arg-type]
    if labelled.bags.pool_size != _num_samples(X):
        raise ValueError(
            f"X has {_num_samples(X)} instances, but the bags are over {labelled.bags.pool_size}"
        )
    batches = list(_batches(labelled.bags, chunk_size))
    pool = PoolWork(X, n_jobs)
    with progress(len(named) * len(labelled), "bags", verbose) as shown:
        methods = {
            name: _evaluate_one(quantifier, pool, labelled, batches, found, shown)
            for name, quantifier in named.items()
        }
    names = np.arange(len(labelled)) if labelled.names is None else labelled.names
    return Results(classes, labelled.prevalences, labelled.sizes, names, methods)


def _evaluate_one(
    quantifier: QuantifierLike,
    pool: PoolWork,
    labelled: LabelledBags,
    batches: list[slice],
    metrics: list[Metric],
    shown: Progress[Any],
) -> MethodResults:
    start = time.perf_counter()
    solve = as_quantifier(quantifier).on_pool(pool)
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
        raise ValueError("quantifiers is empty: at least one is needed")
    return {str(name): quantifier for name, quantifier in quantifiers.items()}


def _metrics(metrics: MetricLike | Sequence[MetricLike]) -> list[Metric]:
    several = not isinstance(metrics, str | Metric) and isinstance(metrics, Sequence)
    found = [get_metric(metric) for metric in (metrics if several else [metrics])]  # type: ignore
    if len({metric.name for metric in found}) != len(found) or not found:
        raise ValueError("metrics must name at least one metric, and each once")
    return found


def _common_classes(named: Mapping[str, Any]) -> NDArray[Any]:
    for name, quantifier in named.items():
        if not hasattr(quantifier, "classes_"):
            raise NotFittedError(f"quantifier {name!r} is not fitted: it has no classes_")
    first = next(iter(named.values())).classes_
    for name, quantifier in named.items():
        if np.asarray(quantifier.classes_).tolist() != np.asarray(first).tolist():
            raise ValueError(f"quantifiers must agree on the classes, but {name!r} differs")
    return np.asarray(first)


def _batches(bags: Bags, chunk_size: int | None) -> Iterator[slice]:
    """Cut the bags into runs of ``chunk_size``, or of about ``BATCH`` drawn instances."""
    if chunk_size is not None:
        check_count(chunk_size, "chunk_size")
    start = 0
    while start < len(bags):
        if chunk_size is None:
            target = bags.offsets[start] + BATCH
            fitting = int(np.searchsorted(bags.offsets, target, side="right")) - 1
            stop = max(fitting, start + 1)
        else:
            stop = start + int(chunk_size)
        yield slice(start, min(stop, len(bags)))
        start = stop
