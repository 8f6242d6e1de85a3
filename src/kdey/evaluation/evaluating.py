"""Errors of fitted quantifiers on the bags of a protocol, as results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _num_samples

from kdey._display import Overview, Progress, bar_column, progress, row_names, text_column
from kdey._fingerprints import fingerprint
from kdey.bags import Array
from kdey.evaluation.protocols import APP, BagProtocol, LabelledBags, check_protocol
from kdey.matching import Solution, concatenate
from kdey.metrics import Metric, MetricLike, get_metric
from kdey.model import Scored
from kdey.posteriors import FittedStage
from kdey.quantifiers.composed import (
    QuantifierLike,
    as_quantifier,
    pool_solver,
    read_training,
)
from kdey.validation import check_choice, check_same_rows, make_frame, training_labels

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
    check_same_rows(X, y)
    codes, classes = training_labels(y)
    stages: dict[str, FittedStage] = {}
    fitted = {}
    for name, quantifier in quantifiers.items():
        if not hasattr(quantifier, "fit") or isinstance(quantifier, type):
            raise TypeError(
                f"quantifiers must map names to quantifiers, but {name!r} is {quantifier!r}"
            )
        copy, features, _ = read_training(clone(quantifier), X)
        shell = as_quantifier(copy)
        method = shell._stages()
        if method is None:
            extra = {} if sample_weight is None else {"sample_weight": sample_weight}
            copy.fit(features, y, **extra)
            fitted[name] = copy
            continue
        stage = method[0]
        key = fingerprint(stage)
        if key not in stages:
            stages[key] = stage.fit(features, codes, classes, sample_weight, n_jobs)
        fitted[name] = shell._fit_stage(stages[key], features, y)
    return fitted


def evaluate(
    quantifiers: QuantifierLike | Mapping[str, QuantifierLike],
    X: Any,
    y: ArrayLike | None,
    protocol: BagProtocol | None = None,
    *,
    metrics: MetricLike | Sequence[MetricLike] = ("ae", "rae"),
    n_jobs: int | None = None,
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
    batches = list(labelled.bags.runs(BATCH))
    scored: Scored = {}
    with progress(len(named) * len(labelled), "bags", verbose) as shown:
        methods = {
            name: _evaluate_method(
                quantifier, X, scored, n_jobs, labelled, batches, chosen_metrics, shown
            )
            for name, quantifier in named.items()
        }
    return Results(classes, labelled.prevalences, labelled.sizes, methods)


def _evaluate_method(
    quantifier: QuantifierLike,
    X: Any,
    scored: Scored,
    n_jobs: int | None,
    labelled: LabelledBags,
    batches: list[slice],
    metrics: list[Metric],
    shown: Progress[Any],
) -> MethodResults:
    """Solve all batches of bags by one quantifier and compute its errors."""
    start = time.perf_counter()
    solve = pool_solver(quantifier, X, n_jobs, scored)
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


#: Displays by the name of the plot.
_DISPLAYS = {
    "diagonal": "DiagonalDisplay",
    "bias": "BiasDisplay",
    "shift": "ErrorByShiftDisplay",
}
#: Fields of a solution that are columns of the frame.
_SOLUTION_COLUMNS = ("gap", "n_iter", "converged")


@dataclass(frozen=True, eq=False)
class MethodResults:
    """Results of one method.

    Attributes
    ----------
    solution : Solution
        Estimated prevalences of all bags, with their certificates.
    errors : mapping from the name of a metric to an array of shape (n_bags,)
    seconds : array of shape (n_bags,)
        Wall time of each bag: its share of the batch in which it was solved.
    pool_seconds : float
        Wall time of the work on the pool: rows, and posteriors that no earlier method had
        computed.
    """

    solution: Solution
    errors: Mapping[str, Array]
    seconds: Array
    pool_seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """Results of :func:`kdey.evaluate`.

    Attributes
    ----------
    classes : array of shape (k,)
    true : array of shape (n_bags, k)
        True prevalences, in the order of ``classes``.
    sizes : int array of shape (n_bags,)
    methods : mapping from the name of a method to :class:`MethodResults`

    See Also
    --------
    kdey.evaluate : Estimate bags of known prevalence.
    kdey.plots.DiagonalDisplay : Draw estimated against true prevalences.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> protocol = kdey.APP(n_bags=10, bag_size=50)
    >>> results = kdey.evaluate(q, X[1::2], y[1::2], protocol, verbose=False)
    >>> results.errors("ae").shape
    (10,)
    """

    classes: NDArray[Any]
    true: Array
    sizes: NDArray[np.int64]
    methods: Mapping[str, MethodResults]

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.true)

    def estimated(self, method: str | None = None) -> Array:
        """Return the estimated prevalences of a method.

        Parameters
        ----------
        method : str, optional
            Name of the method; not needed if there is only one.

        Returns
        -------
        array of shape (n_bags, k)

        Raises
        ------
        ValueError
            If there is no such method.
        """
        return self._method(method).solution.prevalence

    def errors(self, metric: MetricLike, method: str | None = None) -> Array:
        """Return the errors of a method.

        Parameters
        ----------
        metric : str, callable or Metric
            As it was passed to :func:`kdey.evaluate`, or any other name of it ("ae", "mae",
            "absolute_error"). Errors are those of single bags, whatever the name.
        method : str, optional
            Name of the method; not needed if there is only one.

        Returns
        -------
        array of shape (n_bags,)

        Raises
        ------
        ValueError
            If there is no such metric or method.
        """
        errors = self._method(method).errors
        if isinstance(metric, str) and metric in errors:  # a metric of the user's, by its name
            return errors[metric]
        try:
            name = get_metric(metric).name
        except ValueError:
            name = ""
        if name not in errors:
            raise ValueError(f"metric must be one of {list(errors)}, got {metric!r}")
        return errors[name]

    def plot(self, kind: str = "diagonal", *, ax: Any = None, **options: Any) -> Any:
        """Draw the results; needs matplotlib (``pip install 'kdey[plot]'``).

        Parameters
        ----------
        kind : {"diagonal", "bias", "shift"}
            Estimated against true prevalences (:class:`kdey.plots.DiagonalDisplay`), the
            distribution of errors (:class:`kdey.plots.BiasDisplay`), or the error by the shift of
            the bag (:class:`kdey.plots.ErrorByShiftDisplay`, which needs
            ``training_prevalence``).
        ax : matplotlib axes, optional
        **options
            Passed to ``from_results`` of the display.

        Returns
        -------
        The display, with ``ax_`` and ``figure_``.

        Raises
        ------
        ValueError
            If ``kind`` is none of these.
        """
        import kdey  # Displays are a layer above results, so we reach them by the public name.

        check_choice(kind, "kind", _DISPLAYS)
        return getattr(kdey.plots, _DISPLAYS[kind]).from_results(self, ax=ax, **options)

    def to_frame(self, backend: str | None = None, *, by_class: bool = False) -> Any:
        """Return a data frame with one row per method and bag.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.
        by_class : bool
            Whether to return one row per method, bag and class instead.

        Returns
        -------
        data frame
            With columns ``method``, ``bag``, ``size``, a ``true[c]`` and an ``estimated[c]`` for
            each class c, one for each metric, then ``gap``, ``n_iter``, ``converged`` and
            ``seconds``; by class, ``method``, ``bag``, ``class``, ``true`` and ``estimated``.
        """
        columns = self._class_columns if by_class else self._bag_columns
        tables = [columns(name, results) for name, results in self.methods.items()]
        return make_frame(
            {key: np.concatenate([table[key] for table in tables]) for key in tables[0]}, backend
        )

    def summary(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per method, ordered by the first metric.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
            With the mean errors over bags, the largest gap (NaN if no bag has a certificate), the
            number of bags that did not converge, and the total of seconds.
        """
        return make_frame(self._summary_columns(), backend)

    def overview(self) -> Overview:
        """Return the method of the smallest mean error, and a table of the mean errors.

        Beside each mean stands its standard error over the bags.
        """
        columns = self._summary_columns()
        names, metrics = columns["method"], list(self._means(columns["method"][0]))
        shown = []
        for number, metric in enumerate(metrics):
            errors = [self.methods[name].errors[metric] for name in names]
            cells = [f"{e.mean():.4f} +- {_standard_error(e):.4f}" for e in errors]
            shown.append(text_column(metric, cells, importance=9 if number == 0 else 6))
        first = np.array(columns[metrics[0]])
        if first.max() > 0:
            shown.insert(1, bar_column(first / first.max()))
        shown.append(text_column("seconds", [f"{s:.3g}" for s in columns["seconds"]], importance=2))
        failed = columns["not_converged"]
        if any(failed):
            shown.append(text_column("not converged", map(str, failed), importance=8))
        return Overview(
            self._sentence(names, metrics[0]),
            row_names("method", names),
            tuple(shown),
            ("means over bags and their standard errors; bars: the first metric",),
        )

    def _sentence(self, names: Sequence[str], metric: str) -> str:
        """Return how many bags there were, and which method had the smallest error."""
        n = len(self)
        bags = "1 bag" if n == 1 else f"{n:,} bags"
        start = f"{bags} of {len(self.classes)} classes"
        mean = self.methods[names[0]].errors[metric].mean()
        title = _title(metric)
        if len(names) == 1:
            return f"{start}: {names[0]} has a mean {title} of {mean:.4f}."
        return (
            f"{start}: of {len(names)} methods, {names[0]} has the smallest mean {title}, "
            f"{mean:.4f}. Whether that is chance, kdey.evaluation.significance says."
        )

    def __repr__(self) -> str:
        """Return the :meth:`overview` as text."""
        return str(self.overview())

    def _repr_html_(self) -> str:
        return self.overview().html()

    def _summary_columns(self) -> dict[str, list[Any]]:
        rows = sorted(self.methods, key=lambda name: tuple(self._means(name).values()))
        table: dict[str, list[Any]] = {"method": rows}
        for metric in self._means(rows[0]):
            table[metric] = [self._means(name)[metric] for name in rows]
        methods = [self.methods[name] for name in rows]
        table["largest_gap"] = [_largest(m.solution.gap) for m in methods]
        table["not_converged"] = [int((~m.solution.converged).sum()) for m in methods]
        table["seconds"] = [float(m.seconds.sum()) + m.pool_seconds for m in methods]
        return table

    def _method(self, method: str | None) -> MethodResults:
        if method is None and len(self.methods) == 1:
            return next(iter(self.methods.values()))
        if method is None or method not in self.methods:
            raise ValueError(f"method must be one of {list(self.methods)}, got {method!r}")
        return self.methods[method]

    def _means(self, name: str) -> dict[str, float]:
        return {metric: float(e.mean()) for metric, e in self.methods[name].errors.items()}

    def _bag_columns(self, name: str, results: MethodResults) -> dict[str, NDArray[Any]]:
        table = {
            "method": np.full(len(self), name),
            "bag": np.arange(len(self)),
            "size": self.sizes,
        }
        for label, column in zip(self.classes.tolist(), self.true.T, strict=True):
            table[f"true[{label}]"] = column
        for label, column in zip(self.classes.tolist(), results.solution.prevalence.T, strict=True):
            table[f"estimated[{label}]"] = column
        table |= dict(results.errors)
        table |= {column: getattr(results.solution, column) for column in _SOLUTION_COLUMNS}
        return table | {"seconds": results.seconds}

    def _class_columns(self, name: str, results: MethodResults) -> dict[str, NDArray[Any]]:
        n, k = self.true.shape
        return {
            "method": np.full(n * k, name),
            "bag": np.repeat(np.arange(len(self)), k),
            "class": np.tile(self.classes, n),
            "true": self.true.ravel(),
            "estimated": results.solution.prevalence.ravel(),
        }


def _standard_error(errors: Array) -> float:
    """Return the standard error of the mean over bags; NaN for one bag."""
    n = len(errors)
    return float(errors.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")


def _title(metric: str) -> str:
    """Return the title of a metric, or the name of one that the user passed as a function."""
    try:
        return get_metric(metric).title
    except ValueError:
        return metric


def _largest(gaps: Array) -> float:
    """Return the largest gap that is known, or NaN."""
    known = gaps[~np.isnan(gaps)]
    return float(known.max()) if len(known) else float("nan")
