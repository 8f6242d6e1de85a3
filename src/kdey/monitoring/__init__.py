"""Monitoring: a history of estimates, one period after another, and the alarms that it raises.

New data become periods of a history here, and the history one HTML page. ``history`` keeps it in
one file with what is watched, and ``alarms`` finds what rings, by sequential tests.

A period is estimated like a group. Beside the numbers that people read we keep what sequential
tests need: the estimate before it was moved into the simplex, the variance that the classifier's
mistakes add per instance, and the variance of the template error, which all periods share.

The page shows what rings, the shares over time with the alarms in them, and all numbers.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from kdey._display import count_of
from kdey._fingerprints import fingerprint
from kdey._io import write_whole
from kdey.bags import Array
from kdey.diagnostics.performance import expected_accuracy
from kdey.groups import Request, ScoredTable, answer, score
from kdey.intervals import Estimate
from kdey.intervals.checks import ColumnVerdict
from kdey.model import AnyModel, Fitted, model_of
from kdey.monitoring.alarms import ALARM_COLUMNS, Alarm, find_alarms, metrics_text
from kdey.monitoring.history import (
    FIT,
    HORIZON,
    Bound,
    History,
    HistoryError,
    MonitorSettings,
    Period,
    period_name,
    read_history,
    update_history,
)
from kdey.options import Options
from kdey.report.explorer import Explorer, explore_classes, explore_groups
from kdey.report.page import (
    Highlight,
    Page,
    Section,
    csv_file,
    listed,
    percent,
    render_page,
)
from kdey.report.sections import MOST_ROWS, group_records, groups_table
from kdey.report.shown_groups import GroupTable, group_table
from kdey.report.words import quoted
from kdey.tables import canonical_text
from kdey.tables.output import Cell, Heading, Row, Table

logger = logging.getLogger(__name__)

__all__ = [
    "Alarm",
    "Bound",
    "History",
    "HistoryError",
    "MonitorSettings",
    "MonitorUpdate",
    "Period",
    "find_alarms",
    "history_page",
    "metrics_text",
    "model_fingerprint",
    "monitor",
    "period_name",
    "read_history",
    "undo_period",
    "update_history",
    "write_history_page",
]


@dataclass(frozen=True, eq=False)
class MonitorUpdate:
    """What an update of a history did.

    Attributes
    ----------
    history : History
        After the update.
    periods : tuple of str
        The periods that were sent, with their groups if there are any, whether they were new or
        not.
    added : tuple of str
        Those of them that were not in the history, or replaced another.
    alarms : tuple of Alarm
        Those that ring at the periods that were sent.
    """

    history: History
    periods: tuple[str, ...]
    added: tuple[str, ...]
    alarms: tuple[Alarm, ...]


def monitor(
    quantifier: Fitted,
    table: Any,
    history: str | PathLike[str],
    *,
    period: Any = None,
    time: str | None = None,
    every: str | None = None,
    groups: str | None = None,
    settings: MonitorSettings | None = None,
    overwrite: bool = False,
    new_model: bool = False,
    scores: Sequence[str] | None = None,
    confidence: float = 0.95,
    options: Options | None = None,
) -> MonitorUpdate:
    """Add the estimates of new data to a history, and return the alarms that they raise.

    Parameters
    ----------
    quantifier : fitted quantifier
    table : path, or data frame of pandas, polars or pyarrow
        A file is CSV, Parquet or Excel.
    history : path-like
        A Parquet file; created if it does not exist.
    period : int, date, datetime or text that spells one of these, optional
        The period of all rows.
    time : name of a column of dates or times, optional
        In the place of ``period``: the rows belong to the periods that it names.
    every : str, optional
        Period that times are cut down to, such as "1w"; see :func:`kdey.predict_groups`.
    groups : name of a column, optional
        A history of each of its values, in one file: the chance of a false alarm is that of all
        groups together. By default as the history was started.
    settings : MonitorSettings, optional
        By default those of the history, or the default ones for a new one. A history keeps the
        settings that it was started with.
    overwrite : bool
        Whether periods that are there are replaced. Without it, other data for such a period are
        refused, and the same data change nothing.
    new_model : bool
        Whether the model may be another one than that of the last period. Tests start afresh then.
    scores : names of columns, optional
        As for :func:`kdey.predict_groups`.
    confidence : float in (0, 1)
        Nominal coverage of the intervals.
    options : Options, optional
        ``missing``, ``min_size``, ``date_format`` and others, as for :func:`kdey.predict_groups`;
        whether the fit is checked, and how, is said by ``settings``. Dates are read as those of
        the last table unless ``date_format`` says otherwise.

    Returns
    -------
    MonitorUpdate

    Raises
    ------
    HistoryError
        If the file is not a history or does not fit the model, the settings or the periods.
    ValueError
        If the data cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> path = Path(tempfile.mkdtemp()) / "history.parquet"
    >>> for week in (1, 2):
    ...     update = kdey.monitoring.monitor(q, X[week::4], path, period=week)
    >>> update.history.names, update.alarms
    (['1', '2'], ())
    """
    model_of(quantifier)  # raises where it is not fitted
    if (period is None) == (time is None):
        raise ValueError("give either period, or time: the column that says it")
    if period is not None:
        period_name(period)  # raises, before any work, where it is none
    before = read_history(history) if Path(history).exists() else None
    chosen = _settings_for(history, before, settings)
    known = Options() if options is None else options
    if before is not None and isinstance(known, Options) and known.date_format == "auto":
        known = replace(known, date_format=before.date_format)
    by = _groups_for(history, before, groups)
    request = Request.of(
        by or (), time=time, every=every, scores=scores, confidence=confidence, options=known
    )
    if request.merge is not None:
        raise ValueError(
            "a history has every class of the model: leave merge out, and merge the classes of its "
            "estimates where they are read"
        )
    scored = score(quantifier, table, request)
    named = _named_groups(scored, period, by)
    known_groups = set() if before is None else {p.group for p in before.periods}
    n_null = chosen.n_null(len(known_groups | {group for _, group in named}))
    judged = replace(request.options, check_fit=chosen.check_fit, n_null=n_null)
    request = replace(request, options=judged)
    periods = _estimate_periods(quantifier, scored, request, named, chosen.accuracy_below)
    return _add_periods(
        history,
        model_of(quantifier),
        periods,
        chosen,
        by=by,
        every=every,
        date_format=scored.date_format,
        overwrite=overwrite,
        new_model=new_model,
    )


def _settings_for(
    path: str | PathLike[str], history: History | None, settings: MonitorSettings | None
) -> MonitorSettings:
    """Return the settings of a history, or those of a new one.

    Raises HistoryError if the history was started with other settings than those asked for.
    """
    if history is None:
        return MonitorSettings() if settings is None else settings
    known = history.settings
    if settings is not None and settings != known:
        raise HistoryError(
            f"{path}: was started with other settings ({known}; now {settings}): leave them out, "
            "or start a new history"
        )
    return known


def _groups_for(
    path: str | PathLike[str], history: History | None, groups: str | None
) -> str | None:
    """Return the column of the groups of a history; raises HistoryError if it has others."""
    if history is None or not history.periods:
        return groups
    if groups not in (None, history.by):
        known = "no groups" if history.by is None else f"groups by column {history.by!r}"
        raise HistoryError(
            f"{path}: was started with {known}, not by column {groups!r}: leave groups as they "
            "were, or start a new history"
        )
    return history.by


def _named_groups(scored: ScoredTable, period: Any, by: str | None) -> list[tuple[str, str]]:
    """Return the names of the period and the group of each group of a table."""
    found = []
    for key in scored.keys.values:
        for column, value in zip(scored.keys.names, key, strict=True):
            if value is None:
                what = "group" if column == by else "time"
                raise ValueError(f"column {column!r} lacks the {what} of some rows")
        values = dict(zip(scored.keys.names, key, strict=True))
        group = "" if by is None else canonical_text(values.pop(by))
        found.append((period_name(next(iter(values.values()), period)), group))
    return found


def _estimate_periods(
    quantifier: Fitted,
    scored: ScoredTable,
    request: Request,
    named: Sequence[tuple[str, str]],
    accuracy_below: float | None,
) -> list[Period]:
    """Return the periods of a table whose rows are scored."""
    model, now = model_fingerprint(quantifier), datetime.now(UTC).isoformat(timespec="seconds")
    estimates = answer(quantifier, scored, request, kept=sys.maxsize)
    rows = scored.rows
    accuracies: list[dict[str, float]] = [{}] * len(named)
    if accuracy_below is not None:
        try:
            accuracies = expected_accuracy(quantifier, estimates, accuracy_below)
        except ValueError as error:
            raise ValueError(
                "the accuracy cannot be watched, because nothing is known of the classifier's "
                "decisions on labelled instances: fit a method that keeps posteriors of training "
                "instances (PACC, KDEyML, EMQ with a calibration, Quantifier), or leave "
                "accuracy_below out"
            ) from error
    periods = []
    for group, (name, title) in enumerate(named):
        if not estimates.size[group]:
            of_group = f" of group {title}" if title else ""
            raise ValueError(f"period {name}{of_group} has no row without a missing value")
        estimate = estimates[group]
        share, noise, template = error_parts(estimate)
        periods.append(
            Period(
                name=name,
                group=title,
                n=estimate.size,
                n_missing=int(np.asarray(estimates.n_missing)[group]),
                effective_size=float(estimate.diagnostics["effective_size"]),
                estimate=estimate.estimate,
                low=estimate.low,
                high=estimate.high,
                classify_and_count=np.asarray(estimates.counted)[group],
                share=share,
                noise=noise,
                template_variance=template,
                template_draws=template_draws(estimate),
                **accuracies[group],
                fit_p_value=float(np.asarray(estimates.fit_p_value)[group]),
                status=estimate.status,
                model=model,
                added=now,
                data=fingerprint(np.sort(rows.hashes[rows.groups == group]))[:16],
                findings=_findings(estimate),
            )
        )
    return periods


def _findings(estimate: Estimate) -> str:
    """Return how the columns that do not fit differ, the surest first, as one text."""
    columns = None if estimate.checks is None else estimate.checks.columns
    found = columns.findings if isinstance(columns, ColumnVerdict) else ()
    more = [f"{len(found) - 3} more columns have changed"] if len(found) > 3 else []
    return "; ".join([*(finding.sentence for finding in found[:3]), *more])


def error_parts(estimate: Estimate) -> tuple[Array, Array, Array]:
    """Return the share, the noise per instance and the template variance of each class, (k,)."""
    uncertainty = estimate.uncertainty
    centre = uncertainty.centre()
    share = estimate.estimate if centre is None else centre
    sampling = uncertainty.sampling_variance()
    inside = np.clip(share, 0.0, 1.0)
    size = float(estimate.diagnostics["effective_size"])
    noise = np.maximum(size * sampling - inside * (1.0 - inside), 0.0)
    template = np.maximum(np.diag(uncertainty.covariance()) - sampling, 0.0)
    return np.asarray(share), np.asarray(noise), np.asarray(template)


def template_draws(estimate: Estimate) -> Array:
    """Return the draws of the template error of each class, (k, TEMPLATE_DRAWS) or (k, 0)."""
    draws = estimate.uncertainty.template_draws()
    return np.zeros((len(estimate.classes), 0)) if draws is None else draws.T.astype(np.float32)


#: Attributes that say where a model works, how long its fit took and with which version, and an
#: index of neighbours, which is built from the instances and counts its queries.
_NO_STATE = frozenset({"n_jobs", "device", "seconds", "_sklearn_version", "_tree"})
#: What has a fingerprint of its own.
_KNOWN = (type, FunctionType, np.ndarray, np.generic, np.random.RandomState, np.random.Generator)


def model_fingerprint(quantifier: Fitted) -> str:
    """Return a short text that is the same for the same fitted model, loaded from a file or not.

    Parameters
    ----------
    quantifier : fitted quantifier
        Its parameters and all that it learnt count, those of its classifier too; ``n_jobs`` and
        ``device`` do not. A search counts as its ``best_estimator_``.

    Returns
    -------
    str
        16 hexadecimal digits.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> narrow, wide = (kdey.KDEyML(bandwidth=h).fit(X, y) for h in (0.1, 0.2))
    >>> same = kdey.monitoring.model_fingerprint(narrow.set_params(n_jobs=2))
    >>> same == kdey.monitoring.model_fingerprint(kdey.KDEyML(bandwidth=0.1).fit(X, y))
    True
    >>> same == kdey.monitoring.model_fingerprint(wide)
    False
    """
    model_of(quantifier)  # raises where it is not fitted
    return fingerprint(_state(getattr(quantifier, "best_estimator_", quantifier), ()))[:16]


def _state(value: Any, owners: tuple[int, ...]) -> Any:
    """Return what an object holds as plain values that have a fingerprint, ``owners`` around it.

    Objects of kdey are known by what a model file keeps of them, others by what pickle would.
    """
    if id(value) in owners:  # it is a part of itself
        return "..."
    inside = (*owners, id(value))
    if isinstance(value, list | tuple):
        return [_state(item, inside) for item in value]
    if isinstance(value, dict):
        items = value.items()
        return {key: _state(item, inside) for key, item in items if key not in _NO_STATE}
    if isinstance(value, np.ndarray) and value.dtype.names:  # gaps between fields hold anything
        return {name: value[name] for name in value.dtype.names}
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return value.shape, [_state(item, inside) for item in value.ravel().tolist()]
    kind = type(value)
    if kind.__module__ == "builtins" or isinstance(value, _KNOWN) or issparse(value):
        return value
    is_own = kind.__module__.startswith("kdey.")
    if is_own and is_dataclass(value) and not isinstance(value, BaseEstimator):
        held: Any = {
            field.name: getattr(value, field.name) for field in fields(value) if field.init
        }
    elif is_own and isinstance(value, BaseEstimator):
        held = {name: item for name, item in vars(value).items() if not name.startswith("_")}
    else:
        made = value.__reduce_ex__(4)
        parts = made[1:3] if isinstance(made, tuple) else made
        held = [parts, *(list(part) for part in made[3:5] if part is not None)]
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}", _state(held, inside)


def _add_periods(
    path: str | PathLike[str],
    fitted: AnyModel,
    periods: Sequence[Period],
    settings: MonitorSettings,
    *,
    by: str | None,
    every: str | None,
    date_format: str,
    overwrite: bool,
    new_model: bool,
) -> MonitorUpdate:
    """Write periods to a history, which has ``settings`` if it is new, whole or not at all."""
    classes = _plain_labels(fitted.classes)
    known: set[int] = set()

    def change(before: History | None) -> History:
        history = before
        if history is None:
            history = History(classes, tuple(fitted.prevalence.tolist()), settings, by=by)
        by_now = _groups_for(path, history, by)  # another process may have started it meanwhile
        if by_now != by:
            raise HistoryError(f"{path}: was started with groups by column {by_now!r}: say so")
        history = replace(history, by=by)
        _check_same_model(path, history, classes, periods, new_model)
        known.update(map(id, history.periods))
        if every is not None:
            history = history.with_length(every)
        if date_format != "auto":
            history = replace(history, date_format=date_format)
        return history.with_periods(periods, overwrite=overwrite)

    history = update_history(path, change)
    sent = {(period.name, period.group) for period in periods}
    of_groups = [(period, (period.name, period.group)) for period in history.periods]
    alarms = [a for a in find_alarms(history) if (a.period, a.group) in sent]
    for alarm in alarms:
        logger.warning("%s: %s", path, alarm)
    return MonitorUpdate(
        history,
        tuple(dict.fromkeys(period.title for period, key in of_groups if key in sent)),
        tuple(period.title for period, _ in of_groups if id(period) not in known),
        tuple(alarms),
    )


def undo_period(path: str | PathLike[str], period: Any) -> History:
    """Remove a period from a history, as if it had never been sent.

    Parameters
    ----------
    path : path-like
    period : int, date, datetime or text that spells one of these

    Returns
    -------
    History
        Without the period.

    Raises
    ------
    HistoryError
        If there is no such period.
    """
    name = period_name(period)

    def change(before: History | None) -> History:
        if before is None:
            raise HistoryError(f"{path}: there is no such history")
        return before.without(name)

    return update_history(path, change)


def _plain_labels(classes: NDArray[Any]) -> tuple[int | str, ...]:
    """Return the classes as whole numbers where all are, otherwise as texts."""
    labels = np.asarray(classes)
    return tuple(labels.tolist()) if labels.dtype.kind in "iu" else tuple(map(str, labels))


def _check_same_model(
    path: str | PathLike[str],
    history: History,
    classes: tuple[int | str, ...],
    periods: Sequence[Period],
    new_model: bool,
) -> None:
    if history.classes != classes:
        raise HistoryError(
            f"{path}: has other classes ({', '.join(history.labels)}) than the model "
            f"({', '.join(map(str, classes))})"
        )
    last = history.periods[-1].model if history.periods else None
    if not new_model and last is not None and any(p.model != last for p in periods):
        raise HistoryError(
            f"{path}: the last period, {history.periods[-1].name}, was estimated by another "
            "model. If the model was replaced on purpose, say so (new_model=True): "
            "comparisons then start afresh"
        )


#: Alarms of the newest period that stand on top.
_MOST_FINDINGS = 8
#: Kinds of alarms in words.
_KINDS = {
    "moved": "share moved",
    "bound": "beyond a bound",
    "fit": "does not fit",
    "accuracy": "accuracy too low",
}


def history_page(history: History, title: str = "Shares over time") -> str:
    """Return the page of a history as HTML: one file that needs nothing else.

    Needs jinja2 (``pip install 'kdey[report]'``).

    Parameters
    ----------
    history : History
        With at least one period.
    title : str

    Raises
    ------
    ValueError
        If the history has no period.
    """
    if not len(history):
        raise ValueError("the history has no period: there is nothing to show")
    found = find_alarms(history)
    alarm_rows = [list(alarm.row().values()) for alarm in found]
    table = _group_table(history)
    names = {name: table.calendar.name(_moment(name)) for name in history.names}
    alarms = [
        replace(alarm, period=names[alarm.period], since=names.get(alarm.since, alarm.since))
        for alarm in found
    ]
    periods = list(names.values())
    explorer = _explorer(history, table, alarms, periods)
    first, *more = _lead(history, alarms, names)
    tone, heading, ringing = _verdict(alarms, periods[-1])
    return render_page(
        Page(
            title=title,
            headline=first,
            findings=[*_alarm_findings(alarms, explorer, periods[-1]), *map(Highlight, more)],
            facts={"Checked?": [heading, ringing], "What next?": _next_steps(alarms, periods[-1])},
            tone=tone,
            sections=[_time_section(table, explorer), _alarm_section(history, alarms, periods)],
            settings=_setting_lines(history),
            downloads={
                "history.csv": csv_file(*group_records(table), "kdey.monitoring.read_history"),
                "alarms.csv": csv_file(ALARM_COLUMNS, alarm_rows),
            },
            created=datetime.now(UTC),
        )
    )


def write_history_page(
    path: str | PathLike[str], history: History, title: str = "Shares over time"
) -> Path:
    """Write the page of a history to a file, whole or not at all; return its path.

    Parameters
    ----------
    path : path-like
    history : History
    title : str
    """
    write_whole(path, history_page(history, title))
    return Path(path)


def _group_table(history: History) -> GroupTable:
    rows: list[dict[str, Any]] = []
    by = [] if history.by is None else ["group" if history.by == "period" else history.by]
    for period in history.periods:
        shared = {
            **dict.fromkeys(by, period.group),
            "period": _moment(period.name),
            "n": period.n,
            "p_value": period.fit_p_value,
            "status": period.status,
        }
        for code, label in enumerate(history.labels):
            rows.append(
                {
                    **shared,
                    "class": label,
                    "estimate": period.estimate[code],
                    "low": period.low[code],
                    "high": period.high[code],
                    "naive": period.classify_and_count[code],
                    "training": history.training_prevalence[code],
                }
            )
    return group_table(rows, [*by, "period"], "period")


def _moment(name: str) -> int | str:
    """Return a period as the figure places it: whole numbers by value, times by their text."""
    return int(name) if name.lstrip("-").isdecimal() else name


def _lead(history: History, alarms: Sequence[Alarm], names: Mapping[str, str]) -> list[str]:
    """Return what is known of the newest period, and what the history has.

    ``names`` has periods as people say them, as in ``alarms``.
    """
    last, shown = history.periods[-1], list(names.values())
    count = "one period" if len(names) == 1 else f"{len(names):,} periods"
    since = "" if len(names) == 1 else f", from {shown[0]} to {shown[-1]}"
    if history.by is not None:
        ringing = {alarm.group for alarm in alarms if alarm.period == shown[-1]}
        groups = count_of(len(history.groups), "group")
        some = f"{len(ringing):,}" if ringing else "None"
        sentences = [
            f"{some} of {groups} by {history.by} raised an alarm for {shown[-1]}.",
            f"The history has {count}{since}.",
        ]
    else:
        order = last.estimate.argsort()[::-1][:3]
        named = [
            f"{percent(last.estimate[i])} are “{history.labels[i]}” ({percent(last.low[i])} to "
            f"{percent(last.high[i])})"
            for i in order
        ]
        sentences = [
            f"Of the {last.n:,} records of {shown[-1]}, an estimated {listed(named)}.",
            f"The history has {count}{since}.",
        ]
    if history.settings.accuracy_below is not None and np.isfinite(last.accuracy):
        where = f" of {last.group}" if last.group else ""
        sentences.append(
            f"The expected accuracy{where} for {shown[-1]} is {percent(last.accuracy)}."
        )
    if history.gaps:
        between = listed([f"{names[a]} and {names[b]}" for a, b in history.gaps[-5:]])
        sentences.append(f"Periods are missing between {between}.")
    return [*sentences, _alarms_so_far(alarms)]


def _alarms_so_far(alarms: Sequence[Alarm]) -> str:
    if not alarms:
        return "No alarm has been raised so far."
    if len(alarms) == 1:
        return f"One alarm has been raised, for {alarms[0].period}."
    return f"{len(alarms):,} alarms have been raised, the last for {alarms[-1].period}."


def _verdict(alarms: Sequence[Alarm], last: str) -> tuple[str, str, str]:
    current = [alarm for alarm in alarms if alarm.period == last]
    if not current:
        return "good", "No alarm.", f"None was raised for {last}."
    return "bad", "Alarm.", f"{count_of(len(current), 'alarm')} for {last}."


def _alarm_section(history: History, alarms: Sequence[Alarm], periods: Sequence[str]) -> Section:
    settings = history.settings
    words = [
        f"If nothing changes, the chance of any alarm within {HORIZON} periods is at most "
        f"{percent(settings.false_alarms)}"
        + ("" if history.by is None else ", for all groups together")
        + ". Shares are compared with those of all periods since the last alarm, so that a small "
        "change that lasts is found as well as a large one."
    ]
    if not alarms:
        return Section("alarms", "Alarms", [*words, "There has been no alarm so far."])
    group = () if history.by is None else ("Group",)
    headings = ("Period", *group, "What", "Class", "Since", "Before", "Now")
    numeric = ("Before", "Now")
    columns = tuple(Heading(name, numeric=name in numeric) for name in headings)
    rows = tuple(
        Row(
            (
                Cell(alarm.period, float(periods.index(alarm.period))),
                *(Cell(alarm.group) for _ in group),
                *(Cell(text) for text in (_KINDS[alarm.kind], alarm.label, alarm.since)),
                *(_share(alarm, value) for value in (alarm.before, alarm.after)),
            )
        )
        for alarm in reversed(alarms)
    )
    title = "All alarms, the newest first; before: the bound, where there is one"
    return Section("alarms", "Alarms", words, tables=[Table("alarm-rows", title, columns, rows)])


def _share(alarm: Alarm, value: float) -> Cell:
    return Cell("–", -1.0) if alarm.kind == FIT else Cell(percent(value), value)


def _explorer(
    history: History, table: GroupTable, alarms: Sequence[Alarm], periods: Sequence[str]
) -> Explorer:
    """Return the table of classes, or of groups, with alarms and bounds in their lines."""
    newest, labels = table.newest(), history.labels
    if history.by is None:
        made = explore_classes(newest.groups[0].rows, table, None)
        places = {("", label): (row, 0) for row, label in enumerate(labels)}
    else:
        made = explore_groups(table, newest)
        numbers = {row: number for number, row in enumerate(made.rows)}
        places = {
            (group, label): (numbers[group], code)
            for group in history.groups
            for code, label in enumerate(labels)
        }
    marks: dict[tuple[int, int], list[int]] = {}
    ringing: dict[int, list[Alarm]] = {}
    for alarm in alarms:
        for label in [alarm.label] if alarm.label else labels:
            place = places[alarm.group, label]
            marks.setdefault(place, []).append(periods.index(alarm.period))
            ringing.setdefault(place[0], []).append(alarm)
    bounds = {
        place: [bound.share for bound in history.settings.bounds if bound.label == label]
        for (_, label), place in places.items()
    }
    last = periods[-1]
    latest = [ringing[row][-1].period if row in ringing else "" for row in range(len(made.rows))]
    return replace(
        made,
        marks=marks,
        bounds={place: shares for place, shares in bounds.items() if shares},
        flags=["alarm" if period == last else "" for period in latest],
        notes=[f"alarm for {period}" if period not in ("", last) else "" for period in latest],
        share_name=f"newest estimate, {last},",
        mark_name="alarm",
    )


def _alarm_findings(alarms: Sequence[Alarm], explorer: Explorer, last: str) -> list[Highlight]:
    """Return the alarms of the newest period, or the last one, with links to their rows."""
    findings = []
    newest = [alarm for alarm in alarms if alarm.period == last][:_MOST_FINDINGS]
    for alarm in newest or alarms[-1:]:
        name = alarm.group or alarm.label
        link = {name: explorer.link(list(explorer.rows).index(name))} if name else {}
        reason = quoted(alarm.reason).replace(repr(alarm.label), f"“{alarm.label}”")
        reason = reason.replace(" %", "\u00a0%")
        when = "" if newest else f" (alarm for {alarm.period})"
        text = reason if link else reason[0].upper() + reason[1:]
        findings.append(Highlight(f"{text}{when}.", link, alarm.label))
    return findings


def _next_steps(alarms: Sequence[Alarm], last: str) -> list[str]:
    """Return what to do about the alarms of the newest period."""
    kinds = {alarm.kind for alarm in alarms if alarm.period == last}
    if not kinds:
        return ["Send the next period when it is there."]
    if kinds & {FIT, "accuracy"}:
        return ["Look at some of the newest records by hand: the classes may have changed."]
    return ["Find out what changed; from here on, shares are compared with those since the alarm."]


def _time_section(table: GroupTable, explorer: Explorer) -> Section:
    words = [
        "Estimates with their intervals. In the lines over time, red dashes are alarms and other "
        "dashes are bounds."
    ]
    newest = replace(table, groups=tuple(reversed(table.groups)))
    n_rows = sum(len(group.rows) for group in table.groups)
    if n_rows > MOST_ROWS:
        words.append(
            f"The table of periods shows the newest {MOST_ROWS:,} of {n_rows:,} rows; for "
            "all, see the files below."
        )
    rows = groups_table(newest, "Shares by period, the newest first")
    return Section("time", "Shares over time", words, explorer, tables=[rows])


def _setting_lines(history: History) -> list[tuple[str, str]]:
    settings = history.settings
    bounds = "; ".join(map(str, settings.bounds)) or "none"
    accuracy = settings.accuracy_below
    models = list(dict.fromkeys(period.model for period in history.periods))
    return [
        (f"False alarms within {HORIZON} periods", f"{settings.false_alarms:g}"),
        ("Bounds", bounds),
        *([] if history.by is None else [("Groups", f"by {history.by}, {len(history.groups):,}")]),
        ("Accuracy", "not watched" if accuracy is None else f"below {accuracy:g}"),
        ("Ordinary fluctuation", f"{settings.fluctuation:g}"),
        ("Fit", "checked" if settings.check_fit else "not checked"),
        ("Models", ", ".join(models)),
    ]
