"""Reports: one self-contained HTML file with the answer, its figures, tables and settings.

A report is made of estimates, or of a table: its rows are scored once, and answered as a whole, by
group, and by group over all times. Python and the command line make their reports here.

``sections`` puts the page together, one function for each section, and lists the numbers in tables;
``technical`` has the sections for specialists. ``words`` writes the sentences, ``explorer`` the
tables that readers sort, search and see over time. ``shown_groups`` holds groups and periods as
they are shown; ``page`` has what all pages consist of.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kdey._io import write_whole
from kdey.bags import Array
from kdey.diagnostics import FitCheck, FitVerdict, NotChecked, full_check, unchecked_scores
from kdey.groups import (
    Comparisons,
    GroupKeys,
    Request,
    ScoredTable,
    answer,
    compare_scored,
    score,
)
from kdey.intervals import Estimate, Estimates
from kdey.intervals.checks import Checks, FitResult
from kdey.model import Fitted, Model, model_of, training_of
from kdey.options import LABEL_SHIFT, Options
from kdey.quantifiers.base import BaseQuantifier
from kdey.report.explorer import Explorer, explore_classes, explore_groups
from kdey.report.page import Page, render_page
from kdey.report.sections import ShownDifference, differences_of, page_of
from kdey.report.shown_groups import (
    ClassRow,
    Group,
    GroupTable,
    by_size,
    estimate_rows,
    group_table,
    identity,
    is_table,
)
from kdey.simplex import check_prevalence, in_class_order
from kdey.status import MOST_UNSEEN, TURNED_OFF, UNSEEN_VALUES
from kdey.tables import as_frame, parse_number
from kdey.tables.features import unseen_values_note
from kdey.tables.sources import TableError, TableSource, is_frame, open_source

__all__ = [
    "Group",
    "GroupTable",
    "Report",
    "differences_of",
    "group_table",
    "make_report",
    "write_report",
]


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
        Of the scores of the whole bag; None if there is no such bag. :attr:`checks` has columns,
        too.
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
    table : ScoredSource or None
        The scored rows of the table that the report is on: sections may ask for more of them.
    focus : str or None
        The class that was asked for, which the headline is about; None for all.

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
    table: ScoredSource | None = None
    focus: str | None = None

    @property
    def checks(self) -> Checks | None:
        """The checks of scores and columns of the whole bag; None if there is no such bag."""
        if self.check is None:
            return None
        made = None if self.estimate is None else self.estimate.checks
        if made is None:
            return Checks(self.check, NotChecked("no columns were seen"))
        return replace(made, scores=self.check)

    @property
    def by_labels(self) -> bool:
        """Whether the shares rest on labels of some of the rows themselves."""
        if self.table is None or self.table.request.labelled is None:
            return False
        return self.table.request.options.believe != LABEL_SHIFT

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
        """The groups over all times together; None where there are none but times."""
        groups = self.shown_groups
        if groups is None or groups.by == (groups.time,):
            return None
        if groups.time is None:
            return groups
        total = groups.totals() if self.table is None else self.table.totals()
        total = total.with_classes_in_order(self.classes)
        of_keys = {identity(group.keys): group for group in total.groups}
        ordered = (of_keys[keys] for keys in groups.by_keys)
        return replace(total, groups=tuple(ordered))

    @cached_property
    def group_explorer(self) -> Explorer | None:
        """The table of groups, or of series; None where there are none but times."""
        if self.shown_groups is None or self.totals is None:
            return None
        return explore_groups(self.shown_groups, self.totals, self.focus)

    @cached_property
    def class_explorer(self) -> Explorer | None:
        """The table of the classes of the whole bag, or of all times; None where there is none."""
        groups = self.shown_groups
        timed = None if groups is None or self.group_explorer is not None else groups
        rows, confidence = self.rows, None
        if rows is None and timed is not None:
            rows = timed.totals().groups[0].rows
        if rows is None:
            return None
        if self.estimate is not None:
            confidence = self.estimate.confidence
        elif timed is not None:
            confidence = timed.confidence
        return explore_classes(rows, timed, confidence)

    def _keeps_order(self, names: Sequence[str]) -> bool:
        """Return whether classes are shown in their order, not by size."""
        if self.keep_order is not None:
            return self.keep_order
        return len(names) > 2 and all(parse_number(name) is not None for name in names)

    def page(self) -> Page:
        """Return what the page consists of: its sentences, figures, tables and files."""
        return page_of(self)

    def html(self) -> str:
        """Return the page: one file that needs nothing else. Needs jinja2 (extra ``report``)."""
        return render_page(self.page())

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, whole or not at all; return its path."""
        write_whole(path, self.html())
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
    subject: Any,
    table: Any = None,
    by: str | Sequence[str] = (),
    *,
    time: str | None = None,
    every: str | None = None,
    against: str | Mapping[str, Any] | None = None,
    truth: ArrayLike | str | None = None,
    title: str | None = None,
    quantifier: BaseQuantifier | None = None,
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
    truth : array-like of shape (k,), or name of a column, optional
        Shares of known labels, in the order of the classes; with a quantifier, the column of
        labels.
    title : str, optional
        The heading of the page.
    quantifier : fitted quantifier, optional
        With an Estimate, the one that made it: adds the classifier's calibration and confusion, the
        automatic choices, the settings and, for three classes, the training posteriors.
    options : Options, optional
        With a quantifier, everything else that can be asked of a table: ``confidence``, ``scores``,
        ``weights``, ``clusters``, ``merge``, ``correction`` (of the p-values of comparisons),
        ``min_size``, ...; see :class:`kdey.Options`. ``focus`` is the class that was asked for: the
        headline is about it, and tables show it first. With an Estimate, ``focus`` and
        ``check_fit``, whether its fit is to be checked, may be set, and nothing else.

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
    >>> one_or_not = kdey.Options(merge={"one": [1], "another": [0, 2]}, confidence=0.9)
    >>> report = kdey.make_report(q, new, by="field", options=one_or_not)
    >>> report = kdey.make_report(q.estimate(X[1::2]), quantifier=q)
    """
    if hasattr(subject, "classes_") and hasattr(subject, "estimate"):
        if not isinstance(truth, str | None) or quantifier is not None:
            raise ValueError("with a quantifier and a table, truth is the name of a column")
        check_is_fitted(subject, "classes_")
        if table is None:
            raise ValueError("a report by a quantifier needs a table: a path or a data frame")
        request = Request.of(by, time=time, every=every, label=truth, options=options)
        return _report_on_table(subject, table, request, against, title)
    if against is not None:
        raise ValueError("against needs a quantifier and a table, whose groups it compares")
    options = options or Options()
    _refuse_options(options)
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
    report = Report(
        title or "Shares of classes",
        estimate,
        None
        if groups is None
        else group_table(groups, by, time, every=every, confidence=confidence),
        _result(estimate, quantifier, options.check_fit),
        quantifier,
        None if truth is None else _known_shares(truth, estimate),
    )
    return _focused(report, options.focus)


def _focused(report: Report, focus: Any) -> Report:
    """Return the report on a class, which it must have."""
    if focus is None:
        return report
    if str(focus) not in report.classes:
        raise ValueError(f"focus must be one of {list(report.classes)[:10]}, got {focus!r}")
    return replace(report, focus=str(focus))


def _refuse_options(options: Options) -> None:
    """Raise TypeError if options ask for more of estimates than what a report says of them."""
    for entry in fields(Options):
        said = getattr(options, entry.name) != entry.default
        if said and entry.name not in ("check_fit", "focus"):
            raise TypeError(f"option {entry.name} needs a quantifier and a table")


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
    return check_prevalence(shares, name="truth")  # counts and percentages are no shares


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


def _result(
    estimate: Estimate | None, quantifier: BaseQuantifier | None, check_fit: bool
) -> FitResult | None:
    """Return what the report says of the fit of the whole bag; None if there is no such bag."""
    if estimate is None:
        return None
    if not check_fit:
        return NotChecked(TURNED_OFF)
    known = None if estimate.checks is None else estimate.checks.scores
    verdict = known if isinstance(known, FitVerdict) else None
    return _check_posteriors(estimate, quantifier, verdict)


def _check_posteriors(
    estimate: Estimate, quantifier: BaseQuantifier | None, verdict: FitVerdict | None
) -> FitResult:
    """Return the check of a bag by its posteriors, unless the estimate's own sees more."""
    points = _bag_posteriors(estimate)
    if quantifier is None or points is None:
        return verdict or NotChecked(
            "the report was made without the quantifier"
            if quantifier is None
            else "the method works on features"
        )
    unchecked = unchecked_scores(quantifier)
    if unchecked is not None:
        return unchecked
    folds = training_of(quantifier).folds
    one_model = folds is None or len(np.unique(folds)) == 1
    if verdict is not None and verdict.cross_fitted and not one_model:
        return verdict  # by the models that scored the training set; the posteriors are another's
    bags = None if estimate.decisions is None else estimate.decisions.bags
    weights = None if bags is None or bags.weights is None else bags.bag_weights(estimate.number)
    return full_check(quantifier, points, weights)


def _bag_posteriors(estimate: Estimate) -> Array | None:
    """Return the posteriors (m, k) of an estimate's bag; None where it has none."""
    if estimate.decisions is None:
        return None
    decisions = estimate.decisions
    bag = decisions.bags[estimate.number : estimate.number + 1]
    return np.asarray(decisions.posteriors[bag.indices], dtype=np.float64)


def _report_on_table(
    quantifier: Any,
    source: Any,
    request: Request,
    against: str | Mapping[str, Any] | None,
    title: str | None,
) -> Report:
    """Return the report on the rows of a table, as a whole and by group."""
    model = model_of(quantifier)
    if not is_frame(source):
        source = open_source(source).repeatable()
    is_file = isinstance(source, TableSource)
    name = source.name if is_file else "the table"
    columns = source.columns if is_file else as_frame(source).columns
    labels = [str(label) for label in model.classes]
    if request.scores is None and model.scorer.n_features is None and set(labels) <= set(columns):
        request = replace(request, scores=labels)  # fitted on scores, named after the classes
    if request.label is not None and request.label not in columns:
        raise TableError(f"{name}: no label column {request.label!r}")
    scored = score(quantifier, source, request)
    if not len(scored.rows):
        raise TableError(f"{name}: no row without a missing value")
    compared = None
    if against is not None:
        compared = compare_scored(quantifier, scored, request, against)
    table = ScoredSource(quantifier, scored, request, compared)
    report = Report(
        title or ("Shares of classes" + (f" in {Path(name).name}" if is_file else "")),
        table.whole(),
        table.groups(),
        table.check(),
        quantifier,
        table.truth(),
        table.settings(),
        comparisons=None
        if compared is None
        else differences_of(compared.to_frame(), request.names, request.time, every=request.every),
        table=table,
    )
    return _focused(report, request.options.focus)


@dataclass(frozen=True, eq=False)
class ScoredSource:
    """The scored rows of a table, and what is asked of them.

    Attributes
    ----------
    quantifier : fitted quantifier
    scored : ScoredTable
    request : Request
    compared : Comparisons or None
        Of its groups.
    """

    quantifier: Fitted
    scored: ScoredTable
    request: Request
    compared: Comparisons | None = None

    def whole(self) -> Estimate:
        """Return the estimate of the whole table, with a note on values that training lacks."""
        scored = self._by_first_keys(0) if self.scored.keys.names else self.scored
        estimates = answer(self.quantifier, scored, self.request, kept=sys.maxsize)
        estimate = replace(estimates, statuses=None)[0]
        note = unseen_values_note(scored.findings)
        if note is None:
            return estimate
        details = dict(estimate.diagnostics)
        details["notes"] = [*estimate.notes, note]
        if scored.unseen.sum() > MOST_UNSEEN * len(scored.rows):
            details["marks"] = (*details.get("marks", ()), UNSEEN_VALUES)
        return replace(estimate, diagnostics=details)

    def check(self) -> FitCheck | NotChecked:
        """Return the fit check of the whole table, or why there is none."""
        rows, wanted = self.scored.rows, self.request.options.check_fit
        unchecked = unchecked_scores(self.quantifier) if wanted else NotChecked(TURNED_OFF)
        if unchecked is not None or not rows.on_posteriors:
            return unchecked or NotChecked("the rows have no posteriors")
        by_folds = rows.fold_posteriors is not None
        return full_check(
            self.quantifier, rows.checked_posteriors, by_folds=by_folds, hashes=rows.hashes
        )

    @cached_property
    def answers(self) -> Estimates:
        """The answers for the groups that have rows; few groups keep their uncertainty."""
        if self.compared is not None:
            return _with_keys(self.scored, self.compared.estimates)
        kept = sys.maxsize if self.looks_closer else 0
        return _with_keys(
            self.scored, answer(self.quantifier, self.scored, self.request, kept=kept)
        )

    @property
    def looks_closer(self) -> bool:
        """Whether a report looks at more of the groups than their shares: there are only few."""
        few = len(self.request.names) > 0 and len(self.scored) <= MOST_GROUPS
        return few and self.request.labelled is None

    def groups(self) -> GroupTable | None:
        """Return the groups; None without keys."""
        request = self.request
        if not request.names:
            return None
        return group_table(self.answers, request.names, request.time, every=request.every)

    def totals(self) -> GroupTable:
        """Return the groups over all times together."""
        names = self.request.by
        scored = self._by_first_keys(len(names))
        estimates = answer(self.quantifier, scored, self._unchecked, kept=0)
        return group_table(_with_keys(scored, estimates), names)

    @property
    def _unchecked(self) -> Request:
        """The request for coarser groups: the groups are checked, and the page says how."""
        return replace(self.request, options=replace(self.request.options, check_fit=False))

    def _by_first_keys(self, count: int) -> ScoredTable:
        """Return the table by the first of its keys, without the others."""
        scored, keys = self.scored, GroupKeys(self.scored.keys.names[:count])
        values = [key[:count] for key in scored.keys.values]
        numbers = keys.encode_values(values).astype(np.int64)
        first = np.unique(numbers, return_index=True)[1].tolist()
        return scored.regrouped(keys, scored.key_rows[first].select(keys.names), numbers)

    def truth(self) -> Array | None:
        """Return the share of each class that is shown among known labels."""
        label = self.request.label
        if label is None:
            return None
        counts, classes = self.scored.label_counts, model_of(self.quantifier).classes
        total = sum(counts.values())
        if total == 0:
            raise ValueError(f"label column {label!r} holds no labels")
        shares = [counts.get(name, 0) / total for name in classes.tolist()]
        return np.asarray(self.request.merging(classes).matrix @ shares)

    @property
    def labels_look_trained(self) -> bool:
        """Whether the table has as many known labels of each class as the model was fitted on."""
        model, counts = model_of(self.quantifier), self.scored.label_counts
        if not counts or not isinstance(model, Model):
            return False
        found = [counts.get(name, 0) for name in model.classes.tolist()]
        return bool(np.array_equal(model.label_counts, found))

    def settings(self) -> dict[str, str]:
        """Return what the settings on the page say of the rows."""
        facts = {}
        left_out = int(self.scored.missing.sum())
        if left_out:
            facts["Rows left out"] = f"{left_out:,} with a missing value"
        if self.scored.findings:
            facts["Values that training lacks"] = "; ".join(map(str, self.scored.findings))
        return facts


#: Groups up to which a report looks at more than their shares.
MOST_GROUPS = 500


def _with_keys(scored: ScoredTable, estimates: Estimates) -> Estimates:
    """Return the groups of a table that have rows, with their keys and in their order."""
    order = scored.keys.order()
    order = order[estimates.size[order] > 0]
    return replace(estimates, keys=scored.key_rows).take(order)
