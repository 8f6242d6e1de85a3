"""The report: what goes into it, the settings it was made with, and the one file it becomes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kdey._io import write_whole
from kdey.arrays import in_class_order
from kdey.bags import Array
from kdey.diagnostics import FitVerdict, NotChecked, full_check, unchecked_reason
from kdey.diagnostics.fit_check import FitResult
from kdey.diagnostics.fit_checker import default_checker
from kdey.intervals import Estimate, Estimates
from kdey.options import Options
from kdey.quantifiers.base import BaseQuantifier
from kdey.report.differences import ShownDifference
from kdey.report.html import Page
from kdey.report.shown_groups import (
    ClassRow,
    GroupTable,
    by_size,
    estimate_rows,
    estimates_table,
    group_table,
    is_table,
    key_names,
)
from kdey.status import TURNED_OFF
from kdey.tables.columns import parse_number

if TYPE_CHECKING:
    from kdey.report.html import FigureFormat


@dataclass(frozen=True, eq=False)
class Report:
    """A report on one bag, on its groups, or on both.

    Attributes
    ----------
    title : str
    estimate : Estimate or None
        Of the whole bag.
    groups : GroupTable or None
    check : FitResult or None
        Of the whole bag; None if there is no such bag.
    quantifier : fitted quantifier or None
        Its classifier, automatic choices and settings are reported.
    truth : array of shape (k,) or None
        Shares of known labels, to compare with.
    settings : mapping
        More to show under the settings: file names, commands.
    keep_order : bool or None
        Whether figures and tables have the classes in their order, not by size. None: only if all
        of them are numbers, such as grades.
    created : datetime
    comparisons : tuple of ShownDifference, or None
        Differences between the groups; see :func:`~kdey.report.differences_of`.
    total_groups : GroupTable or None
        Groups over all times together, where there are both times and other keys.

    See Also
    --------
    kdey.make_report : Make a report as an HTML page.
    kdey.write_report : Write a report to a file.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> estimate = kdey.EMQ().fit(X[::2], y[::2]).estimate(X[1::2])
    >>> report = kdey.make_report(estimate, title="Irises")
    >>> report.title
    'Irises'
    """

    title: str
    estimate: Estimate | None
    groups: GroupTable | None = None
    check: FitResult | None = None
    quantifier: BaseQuantifier | None = None
    truth: Array | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    keep_order: bool | None = None
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    comparisons: tuple[ShownDifference, ...] | None = None
    total_groups: GroupTable | None = None

    @cached_property
    def rows(self) -> tuple[ClassRow, ...] | None:
        """What is known of each class of the whole bag, in the order in which it is shown."""
        if self.estimate is None:
            return None
        rows = estimate_rows(self.estimate, self.truth)
        return tuple(rows if self._keeps_order([row.name for row in rows]) else by_size(rows))

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The classes in the order in which they are shown, everywhere the same."""
        if self.rows is not None:
            return tuple(row.name for row in self.rows)
        assert self.groups is not None, "a report has an estimate or groups"
        if self._keeps_order(self.groups.classes):
            return self.groups.classes
        shares = dict.fromkeys(self.groups.classes, 0.0)
        for group in self.groups.groups:
            for row in group.rows:
                shares[row.name] += group.n * (row.estimate or 0.0)
        return tuple(sorted(shares, key=lambda name: -shares[name]))

    @cached_property
    def shown_groups(self) -> GroupTable | None:
        """The groups, with their classes in the order in which they are shown."""
        return None if self.groups is None else self.groups.with_classes_in_order(self.classes)

    @cached_property
    def totals(self) -> GroupTable | None:
        """The groups over all times together; None where there are no times or no other keys."""
        groups = self.groups
        if groups is None or groups.time is None or len(groups.by) == 1:
            return None
        total = groups.totals() if self.total_groups is None else self.total_groups
        return total.with_classes_in_order(self.classes)

    def _keeps_order(self, names: Sequence[str]) -> bool:
        """Return whether classes are shown in their order, not by size."""
        if self.keep_order is not None:
            return self.keep_order
        return len(names) > 2 and all(parse_number(name) is not None for name in names)

    def page(self) -> Page:
        """Return what the page consists of: its sentences, figures, tables and files."""
        from kdey.report.sections import page_of

        return page_of(self)

    def html(self) -> str:
        """Return the page: one file that needs nothing else. Needs jinja2 (extra ``report``)."""
        from kdey.report.html import render_page

        return render_page(self.page())

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, whole or not at all; return its path."""
        write_whole(path, self.html())
        return Path(path)

    def write_figures(
        self, folder: str | os.PathLike[str], formats: Sequence[FigureFormat] = ("svg",)
    ) -> list[Path]:
        """Write each figure to a file of its own, with its title and its caption.

        Parameters
        ----------
        folder : path-like
            Made if it does not exist.
        formats : sequence of "svg" and "png"
            PNG needs resvg (``pip install 'kdey[png]'``).

        Returns
        -------
        list of Path
            The files, in the order of the figures on the page.

        Raises
        ------
        ValueError
            If a format is not known.
        ImportError
            If PNG is asked for and resvg is not installed.
        """
        from kdey.report.html import FORMATS, figure_files

        unknown = [kind for kind in formats if kind not in FORMATS]
        if unknown:
            raise ValueError(f"formats must be of {', '.join(FORMATS)}, got {unknown[0]!r}")
        files = figure_files(self.page(), formats)
        home = Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_whole(home / name, data)
        return [home / name for name in files]

    def _repr_html_(self) -> str:
        page = escape(self.html())
        style = "width:100%;height:700px;border:1px solid #8884"
        # The page needs its script and its files, but nothing of the notebook around it.
        rights = "allow-scripts allow-downloads"
        title = escape(self.title)
        return (
            f'<iframe srcdoc="{page}" sandbox="{rights}" style="{style}" title="{title}"></iframe>'
        )


def make_report(
    subject: Any,
    table: Any = None,
    by: str | Sequence[str] = (),
    *,
    time: str | None = None,
    every: str | None = None,
    against: str | Mapping[str, Any] | None = None,
    correction: str | None = "holm",
    truth: ArrayLike | str | None = None,
    title: str | None = None,
    quantifier: BaseQuantifier | None = None,
    scores: Sequence[str] | None = None,
    weights: str | None = None,
    clusters: str | None = None,
    merge: Mapping[Any, Any] | None = None,
    confidence: float | None = None,
    options: Options | None = None,
) -> Report:
    """Return the report on a table, on an estimate, or on groups.

    Parameters
    ----------
    subject : fitted quantifier, Estimate, Estimates, or table of groups
        A quantifier estimates the rows of ``table``. Estimates are those of
        :func:`kdey.predict_groups`, or of several bags, which are named by their number. A table
        of groups has one row per group and class: the keys of the group, ``class``, ``n``,
        ``estimate``, ``low``, ``high`` and, where known, ``naive``, ``training``, ``p_value``,
        ``status``.
    table : path or data frame, optional
        With a quantifier: CSV, Parquet or Excel, or a frame of pandas, polars or pyarrow, whose
        rows are estimated. With an Estimate: the groups that it consists of, as
        Estimates or as a table.
    by : name or names of the keys of the groups
    time : str, optional
        The key that is a time.
    every : str, optional
        The length of the periods of ``time``, such as "1w", by which they are cut and named: week
        14 of 2026. For groups that are estimated already it is guessed from the times by default.
    against : "previous", "rest" or mapping from key columns to values, optional
        With a quantifier: what groups are compared with; see :func:`kdey.compare_groups`.
    correction : {"holm", "fdr"} or None
        Of the p-values of these comparisons.
    truth : array-like of shape (k,), or name of a column, optional
        Shares of known labels, in the order of the classes; with a quantifier, the column of
        labels.
    title : str, optional
        The heading of the page.
    quantifier : fitted quantifier, optional
        With an Estimate, the one that made it: adds the classifier's calibration and confusion, the
        automatic choices, the settings and, for three classes, the training posteriors.
    scores, weights, clusters, merge, confidence : optional
        With a quantifier, as for :func:`kdey.predict_groups`.
    options : Options, optional
        With a quantifier, as for :func:`kdey.predict_groups`. With an Estimate, ``check_fit`` says
        whether its fit is to be checked.

    Returns
    -------
    Report
        With ``html()`` and ``write(path)``. Further fields, such as ``settings`` and
        ``keep_order``, are set by ``dataclasses.replace``.

    Raises
    ------
    TypeError
        If no report can be made of ``subject``, or something is asked for that needs a quantifier.
    ValueError
        If a part does not fit the others.

    See Also
    --------
    kdey.write_report : Write a report to a file.
    kdey.report.Report : A report on a bag and its groups.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> new = X[1::2].assign(field=["east" if i % 3 else "west" for i in range(75)])
    >>> report = kdey.make_report(q, new, by="field", title="Iris")
    >>> "<title>Iris" in report.html()
    True
    >>> report = kdey.make_report(q.estimate(X[1::2]), quantifier=q)
    """
    wanted = {
        "scores": scores,
        "weights": weights,
        "clusters": clusters,
        "merge": merge,
        "confidence": confidence,
    }
    asked = {name: value for name, value in wanted.items() if value is not None}
    if hasattr(subject, "classes_") and hasattr(subject, "estimate"):
        if not isinstance(truth, str | None) or quantifier is not None:
            raise ValueError("with a quantifier and a table, truth is the name of a column")
        check_is_fitted(subject, "classes_")
        if table is None:
            raise ValueError("a report by a quantifier needs a table: a path or a data frame")
        from kdey.report.from_table import report_on_table

        keys = {"by": by, "time": time, "every": every, "label": truth}
        return report_on_table(
            subject, table, {**keys, **asked}, options, against, correction, title
        )
    if against is not None:
        raise ValueError("against needs a quantifier and a table, whose groups it compares")
    if asked:
        raise TypeError(f"option {next(iter(asked))} needs a quantifier and a table")
    check_fit = options is None or options.check_fit
    estimate = subject if isinstance(subject, Estimate) else None
    groups = table if estimate is not None else subject
    if estimate is None and not isinstance(subject, Estimates) and not is_table(subject):
        raise TypeError(
            "a report is made of a fitted quantifier with a table, of an estimate or of a table of "
            f"groups, got {subject!r}"
        )
    if estimate is None and table is not None:
        raise ValueError("give estimates of several bags or groups, not both")
    confidence = None if estimate is None else estimate.confidence
    if isinstance(groups, Estimates):
        confidence = groups.options.confidence
        groups, by = _rows_of(groups, key_names(by, None))
    if groups is not None:
        groups = group_table(groups, by, time, every=every, confidence=confidence)
    return Report(
        title or "Shares of classes",
        estimate,
        groups,
        _result(estimate, quantifier, check_fit),
        quantifier,
        None if truth is None else _known_shares(truth, estimate),
    )


def _rows_of(estimates: Estimates, by: Sequence[str]) -> tuple[Any, Sequence[str]]:
    """Return estimates as a table of groups with its keys; bags without keys are numbered."""
    if estimates.keys is not None:
        return estimates.to_frame(), by or list(estimates.keys.columns)
    numbers = [{"bag": number} for number in range(len(estimates))]
    return estimates_table(estimates, numbers), ["bag"]


def _known_shares(truth: ArrayLike | str, estimate: Estimate | None) -> Array:
    """Return the shares of known labels in the order of the classes."""
    if estimate is None:
        raise ValueError("truth must hold one share for each class of estimate")
    ordered = in_class_order(truth, estimate.classes, "truth")
    try:
        shares = np.asarray(ordered, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"truth must be numbers: {error}") from error
    if shares.shape != estimate.estimate.shape:
        raise ValueError("truth must hold one share for each class of estimate")
    return shares


def write_report(
    path: str | os.PathLike[str], subject: Any, table: Any = None, **parts: Any
) -> Path:
    """Write one self-contained HTML file.

    Parameters
    ----------
    path : path-like
        The file, which is written whole or not at all.
    subject : fitted quantifier, Estimate, Estimates, or table of groups
        What the report is on; a quantifier estimates the rows of ``table``.
    table : path or data frame, optional
        The rows to estimate or, with an Estimate, the groups that it consists of.
    **parts
        Further arguments of :func:`make_report`, by name.

    Returns
    -------
    Path
        The path of the file.

    See Also
    --------
    kdey.report.Report : A report on a bag and its groups.
    kdey.make_report : Make a report as an HTML page.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> estimate = kdey.EMQ().fit(X[::2], y[::2]).estimate(X[1::2])
    >>> with TemporaryDirectory() as folder:
    ...     kdey.write_report(Path(folder) / "report.html", estimate).name
    'report.html'
    """
    return make_report(subject, table, **parts).write(path)


def bag_posteriors(estimate: Estimate | None) -> Array | None:
    """Return the posteriors (m, k) of an estimate's bag; None where it has none."""
    if estimate is None or estimate.decisions is None:
        return None
    decisions = estimate.decisions
    bag = decisions.bags[estimate.number : estimate.number + 1]
    return np.asarray(decisions.posteriors[bag.indices], dtype=np.float64)


def bag_weights(estimate: Estimate) -> Array | None:
    """Return the weights (m,) of an estimate's bag; None where all count alike."""
    if estimate.decisions is None or estimate.decisions.bags.weights is None:
        return None
    return estimate.decisions.bags.bag_weights(estimate.number)


def _result(
    estimate: Estimate | None, quantifier: BaseQuantifier | None, check_fit: bool
) -> FitResult | None:
    """Return what the report says of the fit of the whole bag; None if there is no such bag."""
    if estimate is None:
        return None
    if not check_fit:
        return NotChecked(TURNED_OFF)
    known = estimate.diagnostics.get("fit", {})
    verdict = FitVerdict.from_summary(known) if "p_value" in known else None
    return _check_posteriors(estimate, quantifier, verdict)


def _check_posteriors(
    estimate: Estimate, quantifier: BaseQuantifier | None, verdict: FitVerdict | None
) -> FitResult:
    """Return the check of a bag by its posteriors, unless the estimate's own sees more."""
    points = bag_posteriors(estimate)
    if quantifier is None or points is None:
        return verdict or NotChecked(
            "the report was made without the quantifier"
            if quantifier is None
            else "the method works on features"
        )
    reason = unchecked_reason(quantifier)
    if reason is not None:
        return NotChecked(reason)
    by_posteriors = default_checker(quantifier, held=False)
    if verdict is not None and verdict.cross_fitted and not by_posteriors.cross_fitted:
        return verdict
    return full_check(quantifier, points, bag_weights(estimate))
