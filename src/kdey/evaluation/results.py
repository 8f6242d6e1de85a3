"""Results of an evaluation: one entry per bag and method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey._display import Overview, bar_column, row_names, text_column
from kdey.arrays import make_frame
from kdey.bags import Array
from kdey.matching.base import Solution
from kdey.metrics import MetricLike, get_metric
from kdey.validation import check_choice

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
