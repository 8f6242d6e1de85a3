"""From a report to its page: sections with figures, tables and files, put into a template."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any

import numpy as np

from kdey.diagnostics import FitCheck, FitResult, FitVerdict
from kdey.quantifiers.base import BaseQuantifier
from kdey.report.classifier import ClassifierView, classifier_view, kept_training
from kdey.report.comparisons import (
    MOST_DRAWN,
    ComparisonTable,
    comparison_records,
    comparisons_answer,
    comparisons_figure,
    comparisons_table,
)
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
from kdey.report.svg import Drawing
from kdey.report.tables import (
    MOST_ROWS,
    class_records,
    confusions_table,
    group_records,
    groups_table,
    prevalence_table,
)
from kdey.report.vocabulary import page_colours, percent
from kdey.report.words import answer, fit_headline, fit_meaning, groups_answer
from kdey.tables.display import Table
from kdey.tables.formats import csv_text, sortable_html

#: Longer tables of groups can be filtered.
_FILTERED_ROWS = 12


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
    filtered : bool
        Whether the page offers to show only the rows that contain a text.
    verdict : str
        "good", "bad" or "", the tone of the first paragraph.
    """

    name: str
    title: str
    words: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    filtered: bool = False
    verdict: str = ""


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


@dataclass(frozen=True)
class Page:
    """Everything that a page shows.

    Attributes
    ----------
    title : str
    lead : sequence of sentences
        The answer, on top.
    sections : sequence of Section
    settings : sequence of pairs of name and value
    downloads : sequence of Download
    created : datetime
    verdict : (tone, headline, sentence), optional
        The tone is "good", "bad" or "".
    tuning : str
        What was chosen automatically, in words; empty if nothing was.
    """

    title: str
    lead: Sequence[str]
    sections: Sequence[Section]
    settings: Sequence[tuple[str, str]]
    downloads: Sequence[Download]
    created: datetime
    verdict: tuple[str, str, str] | None = None
    tuning: str = ""


def render(report: Report) -> str:
    """Return the page of a report."""
    rows = None if report.estimate is None else estimate_rows(report.estimate, report.truth)
    verdict = None
    if report.check is not None:
        verdict = (*fit_headline(report.check), report.check.verdict)
    return render_page(
        Page(
            title=report.title,
            lead=_lead(report, rows),
            sections=[part for part in _sections(report, rows) if part is not None],
            settings=settings_of(report),
            downloads=_downloads(report, rows),
            created=report.created,
            verdict=verdict,
            tuning=_tuning(report.quantifier),
        )
    )


def render_page(page: Page) -> str:
    """Return a page as HTML, one file that needs nothing else."""
    style, script = _style(), _text("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    html: str = _template().render(
        page=page, style=style, script=script, script_hash=digest, table_html=sortable_html
    )
    return html


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


def _style() -> str:
    """Return the style sheet with the colours of both themes."""
    style = _text("style.css")
    for theme in ("light", "dark"):
        style = style.replace(f"/* {theme} colours */", page_colours(theme))
    return style


def _text(name: str) -> str:
    return files("kdey.report").joinpath("templates", name).read_text(encoding="utf-8")


def _lead(report: Report, rows: Sequence[ClassRow] | None) -> list[str]:
    sentences = []
    if report.estimate is not None and rows is not None:
        sentences += answer(report.estimate, rows)
        if not report.estimate.converged:
            sentences.append("The solver did not converge: see the optimality gap in the settings.")
        sentences += [f"Note: {note}." for note in report.estimate.diagnostics.get("notes", ())]
    if report.groups is not None:
        sentences += groups_answer(report.groups)
    if report.quantifier is not None and report.quantifier.description is not None:
        sentences.append(report.quantifier.description)
    return sentences


def _sections(report: Report, rows: Sequence[ClassRow] | None) -> list[Section | None]:
    classes = [row.name for row in rows] if rows is not None else []
    view = None
    if report.quantifier is not None:
        labels = [str(label) for label in report.quantifier.classes_]
        view = classifier_view(report.quantifier, labels)
    return [
        _prevalence_section(report, rows),
        None if report.groups is None else _groups_section(report.groups),
        None if report.comparisons is None else _comparisons_section(report.comparisons),
        None if report.check is None else _fit_section(report.check),
        _simplex_section(report, rows) if len(classes) == 3 else None,
        None if view is None else _classifier_section(view),
    ]


def _prevalence_section(report: Report, rows: Sequence[ClassRow] | None) -> Section | None:
    if report.estimate is None or rows is None:
        return None
    level = f"{100 * report.estimate.confidence:g} %"
    drawing = prevalence_figure(rows, report.estimate.confidence, keep_order=report.keep_order)
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
    rows = groups_table(table, caption)
    filtered = len(rows.rows) > _FILTERED_ROWS
    if table.time is not None:
        figure = Figure(time_figure(table), _time_caption(table))
        title = f"Prevalence over time ({table.time})"
        return Section("groups", title, words, [figure], [rows], filtered)
    shown = ""
    if len(table.groups) > MOST_GROUPS:
        shown = f" The first {MOST_GROUPS} of {len(table.groups):,} groups are drawn."
    darker = " Stronger colour: more frequent." if len(table.classes) > MOST_PANELS else ""
    figure = Figure(groups_figure(table), f"{caption}.{darker}{shown}")
    return Section("groups", caption, words, [figure], [rows], filtered)


def _comparisons_section(table: ComparisonTable) -> Section:
    """Return the section on differences between groups."""
    words = comparisons_answer(table)
    if len(table.rows) > MOST_ROWS:
        words.append(
            f"The table shows the {MOST_ROWS:,} clearest of {len(table.rows):,} differences; all "
            "are in the file comparisons.csv below."
        )
    shown = min(MOST_DRAWN, len(table.rows))
    caption = (
        f"The {shown} clearest differences with their limits, which hold for each by itself. "
        "Filled points: differences that remain after allowing for the number of tests."
    )
    rows = comparisons_table(table, MOST_ROWS)
    filtered = len(rows.rows) > _FILTERED_ROWS
    figures = [Figure(comparisons_figure(table), caption)]
    return Section("comparisons", "Did it change?", words, figures, [rows], filtered)


def _time_caption(table: GroupTable) -> str:
    caption = "Estimates with their intervals; the dotted line is the share in training."
    if len(table.classes) > MOST_CLASSES:
        caption += f" The {MOST_CLASSES} classes with the largest shares are drawn."
    if len(table.series) > MOST_SERIES:
        caption += f" The first {MOST_SERIES} of {len(table.series)} series are drawn."
    return caption


def _fit_section(result: FitResult) -> Section:
    words, figures = [result.verdict], []
    if isinstance(result, FitVerdict):
        words += fit_meaning(result)
    if isinstance(result, FitCheck):
        caption = (
            f"How well this bag fits, among {len(result.null)} bags of the same size that were "
            "drawn from the training data at the estimated shares."
        )
        figures = [Figure(fit_figure(result), caption)]
    tone = fit_headline(result)[0]
    return Section("fit", "Does the bag fit?", words, figures, verdict=tone)


def _simplex_section(report: Report, rows: Sequence[ClassRow] | None) -> Section | None:
    if report.estimate is None or rows is None:
        return None
    names = [row.name for row in rows]
    caption = "The prevalence as a point of the triangle, with its joint confidence region."
    figures = [Figure(prevalence_triangle(report.estimate, rows), caption)]
    quantifier = report.quantifier
    merged = quantifier is not None and not np.array_equal(
        report.estimate.classes, quantifier.classes_
    )
    # Posteriors are those of the classes of training, in their order.
    points = None if merged else bag_posteriors(report.estimate)
    if points is not None:
        parts = [("this bag", points)]
        training = kept_training(report.quantifier)
        if training is not None and training.posteriors is not None:
            trained = [
                (f"training: {name}", training.posteriors[training.labels == code].astype(float))
                for code, name in enumerate(names)
            ]
            parts = [(label, rows) for label, rows in trained if len(rows)] + parts
        caption = (
            "The classifier's posteriors. The picture of the bag should look like a mixture of the "
            "training pictures."
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
        description=f"Share of each true class by predicted class; {accuracy} of all are right.",
        axes=("true class", "predicted class, per cent of the true class"),
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
    confusions = view.frequent()
    tables = [confusions_table(confusions)] if confusions else []
    return Section("classifier", "The classifier", words, figures, tables)


def _tuning(quantifier: BaseQuantifier | None) -> str:
    return "" if quantifier is None else quantifier.summary() or ""


def _downloads(report: Report, rows: Sequence[ClassRow] | None) -> list[Download]:
    downloads = []
    everything: dict[str, Any] = {"title": report.title, "made": report.created.isoformat()}
    if report.estimate is not None and rows is not None:
        downloads.append(csv_file("classes.csv", *class_records(rows)))
        everything["estimate"] = report.estimate.to_dict()
    if report.groups is not None:
        columns, records = group_records(report.groups)
        downloads.append(csv_file("groups.csv", columns, records))
        # One list per column: names repeated for each row would make most of the file.
        everything["groups"] = dict(
            zip(columns, map(list, zip(*records, strict=True)), strict=True)
        )
    if report.comparisons is not None:
        columns, records = comparison_records(report.comparisons)
        downloads.append(csv_file("comparisons.csv", columns, records))
    if report.check is not None:
        everything["fit"] = report.check.summary()
    everything["settings"] = dict(settings_of(report))
    return [*downloads, json_file("report.json", everything)]


def csv_file(name: str, columns: Sequence[str], records: Sequence[Sequence[Any]]) -> Download:
    """Return records as CSV (RFC 4180)."""
    text = csv_text(columns, records, line_end="\r\n")
    return Download(name, "text/csv;charset=utf-8", text.encode("utf-8", "replace"))


def json_file(name: str, value: Any) -> Download:
    """Return a value as JSON."""
    text = json.dumps(value, allow_nan=False, default=str, ensure_ascii=False)
    return Download(name, "application/json", text.encode("utf-8", "replace"))
