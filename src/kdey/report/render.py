"""Files inside the page: CSV and JSON as data addresses.

From a report to its page: sections with figures, tables and files, put into a template.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from kdey.diagnostics import FitCheck
from kdey.report.classifier import ClassifierView, classifier_view
from kdey.report.figures.fit import fit_figure, reliability_figure
from kdey.report.figures.shares import (
    MOST_GROUPS,
    MOST_PANELS,
    groups_figure,
    heat_figure,
    prevalence_figure,
)
from kdey.report.figures.simplex import posteriors_figure, prevalence_triangle
from kdey.report.figures.time import MOST_CLASSES, MOST_SERIES, time_figure
from kdey.report.groups import ClassRow, GroupTable, estimate_rows
from kdey.report.page import Report, bag_posteriors, settings_of
from kdey.report.svg import Drawing, percent
from kdey.report.tables import (
    MOST_ROWS,
    Table,
    class_records,
    group_records,
    groups_table,
    pairs_table,
    prevalence_table,
)
from kdey.report.words import answer, fit_meaning, groups_answer


@dataclass(frozen=True)
class Download:
    """A file that the page carries.

    Attributes
    ----------
    name : str
    kind : str
        Media type.
    data : bytes
    """

    name: str
    kind: str
    data: bytes

    @property
    def address(self) -> str:
        """The file as a data address."""
        return f"data:{self.kind};base64,{base64.b64encode(self.data).decode('ascii')}"


def csv_download(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Download:
    """Return a table as CSV (RFC 4180); None is an empty field."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(columns)
    writer.writerows(rows)
    return Download(name, "text/csv;charset=utf-8", stream.getvalue().encode("utf-8", "replace"))


def json_download(name: str, value: Any) -> Download:
    """Return plain values as JSON."""
    text = json.dumps(value, allow_nan=False, default=str, ensure_ascii=False)
    return Download(name, "application/json", text.encode("utf-8", "replace"))


@dataclass(frozen=True)
class Figure:
    """A drawing with what is written under it."""

    drawing: Drawing
    caption: str


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes
    ----------
    name, title : str
    words : sequence of paragraphs
    figures : sequence of Figure
    tables : sequence of Table
    verdict : str
        "good", "bad" or "", the tone of the first paragraph.
    """

    name: str
    title: str
    words: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    verdict: str = ""


def render(report: Report) -> str:
    """Return the page of a report."""
    style, script = _text("style.css"), _text("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    rows = None if report.estimate is None else estimate_rows(report.estimate, report.truth)
    page: str = _template().render(
        report=report,
        lead=_lead(report, rows),
        sections=[part for part in _sections(report, rows) if part is not None],
        tuning=_tuning(report.quantifier),
        settings=settings_of(report.estimate, report.quantifier, report.settings),
        downloads=_downloads(report, rows),
        style=style,
        script=script,
        script_hash=digest,
    )
    return page


def _template() -> Any:
    try:
        import jinja2
    except ImportError:
        raise ImportError("a report needs jinja2: pip install 'kdey[report]'") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kdey.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")


def _text(name: str) -> str:
    return files("kdey.report").joinpath("templates", name).read_text(encoding="utf-8")


def _lead(report: Report, rows: Sequence[ClassRow] | None) -> list[str]:
    told = []
    if report.estimate is not None and rows is not None:
        told += answer(report.estimate, rows)
        if not report.estimate.converged:
            told.append("The solver did not converge: see the optimality gap in the settings.")
        told += [f"Note: {note}." for note in report.estimate.diagnostics.get("notes", ())]
    if report.groups is not None:
        told += groups_answer(report.groups)
    return told


def _sections(report: Report, rows: Sequence[ClassRow] | None) -> list[Section | None]:
    classes = [row.name for row in rows] if rows is not None else []
    view = None
    if report.quantifier is not None:
        labels = [str(label) for label in report.quantifier.classes_]
        view = classifier_view(report.quantifier, labels)
    return [
        _prevalence_section(report, rows),
        None if report.groups is None else _groups_section(report.groups),
        None if report.check is None else _fit_section(report.check),
        _simplex_section(report, rows) if len(classes) == 3 else None,
        None if view is None else _classifier_section(view),
    ]


def _prevalence_section(report: Report, rows: Sequence[ClassRow] | None) -> Section | None:
    if report.estimate is None or rows is None:
        return None
    level = f"{100 * report.estimate.confidence:g} %"
    drawing = prevalence_figure(rows, report.estimate.confidence)
    joint = " that hold for all classes at once" if report.estimate.simultaneous else ""
    caption = (
        f"Estimates with {level} intervals{joint}, against the share of the classifier's decisions "
        "(naive count) and the share in training."
    )
    table = prevalence_table(rows, f"Prevalence of each class, {level} intervals")
    return Section("classes", "Prevalence of each class", (), [Figure(drawing, caption)], [table])


def _groups_section(table: GroupTable) -> Section:
    words, n_rows = [], sum(len(group.rows) for group in table.groups)
    if n_rows > MOST_ROWS:
        words.append(
            f"The table shows the first {MOST_ROWS:,} of {n_rows:,} rows; all are in the file "
            "groups.csv below."
        )
    caption = f"Prevalence by {', '.join(table.by)}"
    made = groups_table(table, caption)
    if table.time is not None:
        figure = Figure(time_figure(table), _time_caption(table))
        return Section("groups", f"Prevalence over time ({table.time})", words, [figure], [made])
    shown = ""
    if len(table.groups) > MOST_GROUPS:
        shown = f" The first {MOST_GROUPS} of {len(table.groups):,} groups are drawn."
    darker = " Stronger colour: more frequent." if len(table.classes) > MOST_PANELS else ""
    figure = Figure(groups_figure(table), f"{caption}.{darker}{shown}")
    return Section("groups", caption, words, [figure], [made])


def _time_caption(table: GroupTable) -> str:
    told = "Estimates with their intervals; the dotted line is the share in training."
    if len(table.classes) > MOST_CLASSES:
        told += f" The {MOST_CLASSES} classes with the largest shares are drawn."
    if len(table.series) > MOST_SERIES:
        told += f" The first {MOST_SERIES} of {len(table.series)} series are drawn."
    return told


def _fit_section(check: FitCheck) -> Section:
    caption = (
        f"How well {len(check.null)} bags of the same size fit that were drawn from the training "
        "data at the estimated shares, and how well this bag fits."
    )
    words = [check.verdict, *fit_meaning(check)]
    tone = "bad" if check.rejected else "good"
    title = "Does the bag fit?"
    return Section("fit", title, words, [Figure(fit_figure(check), caption)], verdict=tone)


def _simplex_section(report: Report, rows: Sequence[ClassRow] | None) -> Section | None:
    if report.estimate is None or rows is None:
        return None
    names = [row.name for row in rows]
    caption = "The prevalence as a point of the triangle, with its joint confidence region."
    figures = [Figure(prevalence_triangle(report.estimate, rows), caption)]
    points = bag_posteriors(report.estimate)
    if points is not None:
        parts = [("this bag", points)]
        training = getattr(report.quantifier, "training_", None)
        if training is not None and training.posteriors is not None:
            trained = [
                (f"training: {name}", training.posteriors[training.labels == code].astype(float))
                for code, name in enumerate(names)
            ]
            parts = [(label, held) for label, held in trained if len(held)] + parts
        caption = (
            "The classifier's posteriors. A mixture of the training pictures should look like "
            "that of the bag."
        )
        figures.append(Figure(posteriors_figure(parts, names), caption))
    return Section("simplex", "The three classes as a triangle", (), figures)


def _classifier_section(view: ClassifierView) -> Section:
    accuracy = percent(view.curve.accuracy)
    confusion = heat_figure(
        view.confusion,
        view.classes,
        view.classes,
        name="confusion",
        title="Confusion of the classifier",
        told=f"Share of each true class decided for each class; {accuracy} of all are right.",
        axes=("true class", "decided for, per cent of the true class"),
    )
    source = "from models that did not see the instances" if view.held_out else "as given"
    figures = [
        Figure(reliability_figure(view.curve), f"Calibration, by training posteriors {source}."),
        Figure(confusion, f"Confusion, by training posteriors {source}."),
    ]
    words = [
        *view.words(),
        "The estimate corrects for these mistakes, and methods on densities need no calibrated "
        "posteriors; but the less the classes are confused, the narrower the intervals.",
    ]
    pairs = view.frequent()
    tables = [pairs_table(pairs)] if pairs else []
    return Section("classifier", "The classifier", words, figures, tables)


def _tuning(quantifier: Any) -> str:
    tuning = getattr(quantifier, "tuning_", None)
    return "" if tuning is None else str(tuning.summary())


def _downloads(report: Report, rows: Sequence[ClassRow] | None) -> list[Download]:
    found = []
    whole: dict[str, Any] = {"title": report.title, "made": report.made.isoformat()}
    if report.estimate is not None and rows is not None:
        found.append(csv_download("classes.csv", *class_records(rows)))
        whole["estimate"] = report.estimate.to_dict()
    if report.groups is not None:
        columns, records = group_records(report.groups)
        found.append(csv_download("groups.csv", columns, records))
        # One list per column: names repeated for each row would make most of the file.
        whole["groups"] = dict(zip(columns, map(list, zip(*records, strict=True)), strict=True))
    if report.check is not None:
        whole["fit"] = {"p_value": report.check.p_value, "verdict": report.check.verdict}
    whole["settings"] = dict(settings_of(report.estimate, report.quantifier, report.settings))
    return [*found, json_download("report.json", whole)]
