"""The page of a history: what rings, the shares over time with the alarms in them, all numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from kdey._io import write_whole
from kdey.monitoring.alarms import ALARM_COLUMNS, Alarm, find_alarms
from kdey.monitoring.history import History
from kdey.monitoring.settings import FIT
from kdey.monitoring.windows import HORIZON
from kdey.report.figures.time import MOST_CLASSES, TimeMarks, time_figure
from kdey.report.group_frames import group_table
from kdey.report.groups import GroupTable
from kdey.report.parts import Figure, Page, Section, csv_file
from kdey.report.render import render_page
from kdey.report.tables import MOST_ROWS, group_records, groups_table
from kdey.report.vocabulary import listed, percent
from kdey.tables.output import Cell, Heading, Row, Table

#: Kinds of alarms in words.
_KINDS = {"moved": "share moved", "bound": "beyond a bound", "fit": "does not fit"}


def history_page(history: History, title: str = "Prevalences over time") -> str:
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
    alarms = find_alarms(history)
    table = _group_table(history)
    alarm_rows = [list(alarm.row().values()) for alarm in alarms]
    return render_page(
        Page(
            title=title,
            lead=_lead(history, alarms),
            sections=[_alarm_section(history, alarms), _time_section(history, table, alarms)],
            settings=_settings(history),
            downloads=[
                csv_file("history.csv", *group_records(table)),
                csv_file("alarms.csv", ALARM_COLUMNS, alarm_rows),
            ],
            created=datetime.now(UTC),
            verdict=_verdict(history, alarms),
        )
    )


def write_history_page(
    path: str | PathLike[str], history: History, title: str = "Prevalences over time"
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
    for period in history.periods:
        shared = {
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
    return group_table(rows, ["period"], "period")


def _moment(name: str) -> int | str:
    """Return a period as the figure places it: whole numbers by value, times by their text."""
    return int(name) if name.lstrip("-").isdecimal() else name


def _lead(history: History, alarms: Sequence[Alarm]) -> list[str]:
    last = history.periods[-1]
    order = last.estimate.argsort()[::-1][:3]
    named = [
        f"{percent(last.estimate[i])} are “{history.labels[i]}” ({percent(last.low[i])} to "
        f"{percent(last.high[i])})"
        for i in order
    ]
    count = "one period" if len(history) == 1 else f"{len(history):,} periods"
    since = "" if len(history) == 1 else f", from {history.names[0]} to {last.name}"
    sentences = [
        f"In {last.name}, of {last.n:,} records, an estimated {listed(named)}.",
        f"The history has {count}{since}.",
    ]
    rung = len(alarms)
    if rung:
        times = "once" if rung == 1 else f"{rung} times"
        sentences.append(f"An alarm rang {times}, the last time in {alarms[-1].period}.")
    return sentences


def _verdict(history: History, alarms: Sequence[Alarm]) -> tuple[str, str, str]:
    last = history.names[-1]
    current = [alarm for alarm in alarms if alarm.period == last]
    if not current:
        return "good", "No alarm.", f"Nothing rings in {last}."
    return "bad", "Alarm.", " ".join(f"{alarm}." for alarm in current)


def _alarm_section(history: History, alarms: Sequence[Alarm]) -> Section:
    settings = history.settings
    words = [
        f"If nothing changes, the chance that any alarm rings within {HORIZON} periods is at most "
        f"{percent(settings.false_alarms)}. Shares are compared with those of all periods since "
        "the last alarm, so that a small change that lasts is found as well as a large one."
    ]
    if not alarms:
        return Section("alarms", "Alarms", [*words, "No alarm has rung so far."])
    headings = ("Period", "What", "Class", "Since", "Before", "Now")
    numeric = ("Before", "Now")
    columns = tuple(Heading(name, numeric=name in numeric) for name in headings)
    rows = tuple(
        Row(
            (
                *(Cell(text) for text in (alarm.period, _KINDS[alarm.kind], alarm.label)),
                Cell(alarm.since),
                *(_share(alarm, value) for value in (alarm.before, alarm.after)),
            )
        )
        for alarm in reversed(alarms)
    )
    title = "All alarms, the newest first; before: the bound, where there is one"
    return Section("alarms", "Alarms", words, tables=[Table("alarm-rows", title, columns, rows)])


def _share(alarm: Alarm, value: float) -> Cell:
    return Cell("–", -1.0) if alarm.kind == FIT else Cell(percent(value), value)


def _time_section(history: History, table: GroupTable, alarms: Sequence[Alarm]) -> Section:
    marks = {
        label: TimeMarks(
            tuple(
                (_moment(alarm.period), str(alarm))
                for alarm in alarms
                if alarm.label == label or alarm.kind == FIT
            ),
            tuple((b.share, str(b)) for b in history.settings.bounds if b.label == label),
        )
        for label in history.labels
    }
    marked = {label: mark for label, mark in marks.items() if mark.moments or mark.levels}
    caption = (
        "Estimates with their intervals; the dotted line is the share in training. Red lines are "
        "alarms, dashed lines are bounds."
    )
    if len(table.classes) > MOST_CLASSES:
        caption += f" {MOST_CLASSES} of {len(table.classes)} classes are drawn."
    words = []
    newest = GroupTable(table.by, table.time, tuple(reversed(table.groups)))
    n_rows = sum(len(group.rows) for group in table.groups)
    if n_rows > MOST_ROWS:
        words.append(
            f"The table shows the newest {MOST_ROWS:,} of {n_rows:,} rows; all are in the file "
            "history.csv below."
        )
    figure = Figure.for_screens(
        lambda name, width: time_figure(table, name, marked, width), "over-time", caption
    )
    rows = groups_table(newest, "Shares by period, the newest first")
    return Section("time", "Shares over time", words, [figure], [rows], filtered=True)


def _settings(history: History) -> list[tuple[str, str]]:
    settings = history.settings
    bounds = "; ".join(map(str, settings.bounds)) or "none"
    models = list(dict.fromkeys(period.model for period in history.periods))
    return [
        (f"False alarms within {HORIZON} periods", f"{settings.false_alarms:g}"),
        ("Bounds", bounds),
        ("Ordinary fluctuation", f"{settings.fluctuation:g}"),
        ("Fit", "checked" if settings.check_fit else "not checked"),
        ("Models", ", ".join(models)),
    ]
