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

from kdey._io import write_whole
from kdey.arrays import in_class_order
from kdey.bags import Array
from kdey.diagnostics import FitVerdict, NotChecked, full_check, unchecked_reason
from kdey.diagnostics.fit_check import FitResult
from kdey.diagnostics.fit_checker import default_checker
from kdey.intervals import Estimate, Estimates
from kdey.quantifiers.base import BaseQuantifier
from kdey.report.comparisons import ComparisonTable, comparison_table
from kdey.report.group_frames import estimates_table, group_table
from kdey.report.groups import ClassRow, GroupTable, by_size, estimate_rows
from kdey.report.parts import Page
from kdey.status import TURNED_OFF
from kdey.tables.columns import parse_number

if TYPE_CHECKING:
    from kdey.report.export import FigureFormat


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
    comparisons : ComparisonTable or None
        Differences between the groups.
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
    comparisons: ComparisonTable | None = None
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

    @property
    def shown_groups(self) -> GroupTable | None:
        """The groups, with their classes in the order in which they are shown."""
        return None if self.groups is None else self.groups.with_classes_in_order(self.classes)

    @property
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
        from kdey.report.render import render_page

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
        from kdey.report.export import FORMATS, figure_files

        unknown = [kind for kind in formats if kind not in FORMATS]
        if unknown:
            raise ValueError(f"formats must be of {', '.join(FORMATS)}, got {unknown[0]!r}")
        files = figure_files(self.page(), formats)
        home = Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_whole(home / name, data)
        return [home / name for name in files]

    def write_slide(self, path: str | os.PathLike[str]) -> Path:
        """Write the answer with one figure to a picture of the size of a slide (16:9).

        Parameters
        ----------
        path : path-like
            Ends in ".svg" or ".png"; PNG needs resvg (``pip install 'kdey[png]'``).

        Returns
        -------
        Path
            The file, which is written whole or not at all.

        Raises
        ------
        ValueError
            If the name has another ending.
        ImportError
            If PNG is asked for and resvg is not installed.
        """
        from kdey.report.export import encoded, slide_format, slide_svg

        kind = slide_format(path)
        write_whole(path, encoded(slide_svg(self), kind))
        return Path(path)

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
    estimate: Estimate | Estimates | None = None,
    *,
    quantifier: BaseQuantifier | None = None,
    check: FitResult | bool = True,
    groups: Any = None,
    by: Sequence[str] = (),
    time: str | None = None,
    truth: ArrayLike | None = None,
    title: str | None = None,
    settings: Mapping[str, Any] | None = None,
    keep_order: bool | None = None,
    comparisons: Any = None,
    every: str | None = None,
    totals: Any = None,
) -> Report:
    """Return the report on an estimate, on a table of groups, or on both.

    Parameters
    ----------
    estimate : Estimate or Estimates, optional
        Of the whole bag; those of several bags are shown as groups, by their number.
    quantifier : fitted quantifier, optional
        The one that made it: adds the classifier's calibration and confusion, the automatic
        choices, the settings and, for three classes, the training posteriors.
    check : FitCheck or bool
        A fit check of the bag. True: that of the estimate, or one that is made here from the bag's
        posteriors where the quantifier allows it. False: none.
    groups : frame or list of dicts, optional
        One row per group and class: the keys of the group, ``class``, ``n``, ``estimate``, ``low``,
        ``high`` and, where known, ``naive``, ``training``, ``p_value``, ``status``.
    by : names of the keys of the groups
    time : str, optional
        The key that is a time.
    truth : array-like of shape (k,), optional
        Shares of known labels in the bag, in the order of the classes.
    title : str, optional
        The heading of the page.
    settings : mapping, optional
        More to show under the settings.
    keep_order : bool, optional
        Whether figures and tables have the classes in their order, or the most frequent first. By
        default classes that are numbers, such as grades, keep their order.
    comparisons : frame or list of dicts, optional
        Differences between the groups, as :func:`kdey.compare_groups` returns them for the same
        ``by`` and ``time``.
    every : str, optional
        The length of the periods of ``time``, such as "1w", by which they are named: week 14 of
        2026. By default it is guessed from the times.
    totals : frame or list of dicts, optional
        The groups over all times together, in the form of ``groups``, such as
        :func:`kdey.predict_groups` returns them without ``time``. By default means of the times,
        with limits that are rather too wide.

    Returns
    -------
    Report
        With ``html()`` and ``write(path)``.

    Raises
    ------
    TypeError
        If ``estimate`` is no estimate.
    ValueError
        If there is nothing to report, or there are both estimates of several bags and groups.

    See Also
    --------
    kdey.write_report : Write a report to a file.
    kdey.report.Report : A report on a bag and its groups.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> estimate = kdey.EMQ().fit(X[::2], y[::2]).estimate(X[1::2])
    >>> report = kdey.make_report(estimate, title="Iris")
    >>> "<title>Iris" in report.html()
    True
    """
    if not isinstance(estimate, Estimate | Estimates | None):
        raise TypeError(f"estimate must be an Estimate or Estimates, got {estimate!r}")
    shared_confidence = None
    if isinstance(estimate, Estimates):
        shared_confidence = estimate.options.confidence
        if groups is not None:
            raise ValueError("give estimates of several bags or groups, not both")
        numbers = [{"bag": number} for number in range(len(estimate))]
        groups, by = estimates_table(estimate, numbers), ["bag"]
        estimate = None
    if estimate is None and groups is None:
        raise ValueError("a report needs an estimate or groups")
    shares = None
    if truth is not None:
        if estimate is not None:
            truth = in_class_order(truth, estimate.classes, "truth")
        try:
            shares = np.asarray(truth, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"truth must be numbers: {error}") from error
        if estimate is None or shares.shape != estimate.estimate.shape:
            raise ValueError("truth must hold one share for each class of estimate")
    confidence = None if estimate is None else estimate.confidence
    return Report(
        title or "Shares of classes",
        estimate,
        None
        if groups is None
        else group_table(groups, by, time, every=every, confidence=confidence or shared_confidence),
        _result(estimate, quantifier, check),
        quantifier,
        shares,
        settings or {},
        keep_order=keep_order,
        comparisons=None
        if comparisons is None
        else comparison_table(comparisons, by, time, every=every),
        total_groups=None
        if totals is None
        else group_table(totals, [name for name in by if name != time], confidence=confidence),
    )


def write_report(
    path: str | os.PathLike[str], estimate: Estimate | Estimates | None = None, **parts: Any
) -> Path:
    """Write one self-contained HTML file.

    Parameters
    ----------
    path : path-like
        The file, which is written whole or not at all.
    estimate : Estimate or Estimates, optional
        Of the whole bag; those of several bags are shown as groups.
    **parts
        See :func:`make_report`.

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
    return make_report(estimate, **parts).write(path)


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
    estimate: Estimate | None, quantifier: BaseQuantifier | None, check: FitResult | bool
) -> FitResult | None:
    """Return what the report says of the fit of the whole bag; None if there is no such bag."""
    if isinstance(check, FitResult):
        return check
    if estimate is None:
        return None
    if not check:
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
    reason = unchecked_reason(quantifier.answering)
    if reason is not None:
        return NotChecked(reason)
    by_posteriors = default_checker(quantifier.answering, held=False)
    if verdict is not None and verdict.cross_fitted and not by_posteriors.cross_fitted:
        return verdict
    return full_check(quantifier.answering, points, bag_weights(estimate))
