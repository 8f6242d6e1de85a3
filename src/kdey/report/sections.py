"""From a report to its page: first what everybody reads, then what specialists ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kdey._display import count_of
from kdey.diagnostics import FitCheck, FitVerdict
from kdey.diagnostics.fit_check import FitResult
from kdey.intervals import Estimate
from kdey.model import kept_training
from kdey.report.classifier import ClassifierView, classifier_view
from kdey.report.comparisons import (
    MOST_DRAWN,
    ComparisonTable,
    comparison_records,
    comparisons_answer,
    comparisons_figure,
    comparisons_table,
)
from kdey.report.figures.cells import heat_figure
from kdey.report.figures.fit import fit_figure, reliability_figure
from kdey.report.figures.groups import (
    MOST_GROUP_PANELS,
    MOST_NAMED_GROUPS,
    MOST_PANELS,
    MOST_THIN_LINES,
    groups_figure,
)
from kdey.report.figures.shares import prevalence_figure
from kdey.report.figures.simplex import posteriors_figures, prevalence_triangle
from kdey.report.figures.time import drawn_classes, drawn_series, time_figure
from kdey.report.group_words import groups_answer, groups_checked
from kdey.report.groups import ClassRow, GroupTable, estimate_rows
from kdey.report.page import Report, bag_posteriors
from kdey.report.parts import Download, Figure, Page, Section, csv_file, json_file
from kdey.report.settings import settings_of
from kdey.report.tables import (
    MOST_ROWS,
    class_records,
    confusions_table,
    group_records,
    groups_table,
    overview_table,
    prevalence_table,
)
from kdey.report.trust import (
    MEANING_OF_CHECKED,
    fit_headline,
    fit_meaning,
    fit_result,
    fit_sentences,
)
from kdey.report.vocabulary import listed, percent, plain_status
from kdey.report.words import against_labels, answer, question

#: Longer tables of groups can be filtered.
_FILTERED_ROWS = 12


def page_of(report: Report) -> Page:
    """Return the page of a report."""
    rows, groups = report.rows, report.shown_groups
    verdict = None
    if report.check is not None:
        verdict = (*fit_headline(report.check), fit_result(report.check))
    return Page(
        title=report.title,
        question=question(report.estimate, groups),
        lead=_lead(report, rows, groups),
        sections=[part for part in _front_sections(report, rows, groups) if part is not None],
        settings=settings_of(report),
        downloads=_downloads(report),
        created=report.created,
        verdict=verdict,
        technical=[part for part in _technical_sections(report, rows, groups) if part is not None],
        technical_words=_technical_words(report),
    )


def _lead(report: Report, rows: Sequence[ClassRow] | None, groups: GroupTable | None) -> list[str]:
    sentences = []
    if report.estimate is not None and rows is not None:
        sentences += answer(report.estimate, rows)
        sentences[1:1] = _warning(report.estimate, rows)
    if groups is not None:
        sentences += groups_answer(groups, report.totals)
    return sentences


def _warning(estimate: Estimate, rows: Sequence[ClassRow]) -> list[str]:
    """Return what is the matter with the answer, where something is."""
    reasons = [plain_status(problem) for problem in estimate.problems]
    wrong = sum(row.outside(row.truth) for row in rows)
    if wrong:
        classes = count_of(wrong, "class", "classes")
        reasons.append(f"the share of known labels lies outside the limits of {classes}")
    if not reasons:
        return []
    return [f"Beware: {'; '.join(reasons)}. The section on trust says more."]


def _front_sections(
    report: Report, rows: Sequence[ClassRow] | None, groups: GroupTable | None
) -> list[Section | None]:
    return [
        _prevalence_section(report, rows),
        None if groups is None else _groups_section(report, groups),
        None if report.comparisons is None else _comparisons_section(report.comparisons),
        _trust_section(report, rows),
    ]


def _technical_sections(
    report: Report, rows: Sequence[ClassRow] | None, groups: GroupTable | None
) -> list[Section | None]:
    view = None
    if report.quantifier is not None:
        labels = [str(label) for label in report.quantifier.classes_]
        view = classifier_view(report.quantifier, labels)
    return [
        None if groups is None else _numbers_section(groups),
        None if report.check is None else _fit_section(report.check),
        _simplex_section(report, rows),
        None if view is None else _classifier_section(view),
    ]


def _technical_words(report: Report) -> list[str]:
    """Return what was chosen automatically, and what went wrong in the computation."""
    sentences = []
    quantifier = report.quantifier
    if quantifier is not None:
        sentences += [quantifier.description, quantifier.summary()]
    if report.estimate is not None and not report.estimate.converged:
        sentences.append("The solver did not converge: see the optimality gap in the settings.")
    return [sentence for sentence in sentences if sentence]


def _prevalence_section(report: Report, rows: Sequence[ClassRow] | None) -> Section | None:
    if report.estimate is None or rows is None:
        return None
    confidence = report.estimate.confidence
    level = f"{100 * confidence:g}\u00a0%"
    joint = " that hold for all classes at once" if report.estimate.simultaneous else ""
    caption = (
        f"Estimated shares with {level} intervals{joint}. The uncorrected count is what the model "
        "takes the records for, with its mistakes; the share in training is that of the examples "
        "that it learnt from."
    )
    figure = Figure.for_screens(
        lambda name, width: prevalence_figure(rows, confidence, name, width), "prevalence", caption
    )
    table = prevalence_table(rows, f"Share of each class, with {level} intervals")
    return Section("classes", "Share of each class", (), [figure], [table])


def _groups_section(report: Report, table: GroupTable) -> Section:
    totals = report.totals if report.totals is not None else table
    overview = overview_table(
        totals, report.rows, None if report.estimate is None else report.estimate.size
    )
    words = []
    if len(totals.groups) > MOST_ROWS:
        words.append(
            f"The table shows the first {MOST_ROWS:,} of {len(totals.groups):,} groups; all are in "
            "the file groups.csv below."
        )
    filtered = len(overview.rows) > _FILTERED_ROWS
    if table.time is not None:
        figure = Figure.for_screens(
            lambda name, width: time_figure(table, name, width=width), "time", _time_caption(table)
        )
        title = f"Shares over time ({table.time})"
    else:
        figure = Figure.for_screens(
            lambda name, width: groups_figure(table, name, width), "groups", _groups_caption(table)
        )
        title = f"Shares by {listed(table.by)}"
    return Section("groups", title, words, [figure], [overview], filtered)


def _groups_caption(table: GroupTable) -> str:
    caption, n_groups = f"Shares by {listed(table.by)}.", len(table.groups)
    if n_groups > MOST_NAMED_GROUPS:
        caption += " Each line is a group; in each panel the groups are sorted by their share."
        if n_groups > MOST_THIN_LINES:
            caption += f" {MOST_THIN_LINES} of {n_groups:,} groups are drawn, evenly chosen."
        if len(table.classes) > MOST_PANELS:
            caption += f" {MOST_PANELS} of {len(table.classes)} classes are drawn."
    elif len(table.classes) > MOST_PANELS and n_groups > MOST_GROUP_PANELS:
        caption += " Stronger colour: more frequent; numbers are per cent."
    elif len(table.classes) > MOST_PANELS:
        caption += " A panel for each group, all on one scale."
    return caption


def _time_caption(table: GroupTable) -> str:
    classes, series = drawn_classes(table), drawn_series(table)
    caption = "Estimated shares with their intervals; the dotted line is the share in training."
    if len(series) > 1:
        caption += " A panel for each group, with the others in grey, on one scale for each class."
    if len(classes) < len(table.classes):
        caption += f" The {len(classes)} classes with the largest shares are drawn."
    if len(series) < len(table.series):
        caption += f" The {len(series)} largest of {len(table.series):,} groups are drawn."
    return caption


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
    figure = Figure.for_screens(
        lambda name, width: comparisons_figure(table, name, width), "comparisons", caption
    )
    return Section("comparisons", "Did it change?", words, [figure], [rows], filtered)


def _trust_section(report: Report, rows: Sequence[ClassRow] | None) -> Section | None:
    """Return the section on what was checked, what known labels say, and what to beware of."""
    words, tone, headline = [], "", ""
    if report.check is not None:
        tone, headline = fit_headline(report.check)
        words += fit_sentences(report.check)
    if report.groups is not None:
        groups = groups_checked(report.groups)
        words += [MEANING_OF_CHECKED, *groups] if groups and report.check is None else groups
    if rows is not None:
        words += against_labels(rows)
    if report.estimate is not None:
        words += [f"Note: {note}." for note in report.estimate.notes]
    if not words:
        return None
    return Section("trust", "How far can this be trusted?", words, verdict=tone, headline=headline)


def _numbers_section(table: GroupTable) -> Section:
    """Return the section with all numbers of all groups."""
    words, n_rows = [], sum(len(group.rows) for group in table.groups)
    if n_rows > MOST_ROWS:
        words.append(
            f"The table shows the first {MOST_ROWS:,} of {n_rows:,} rows; all are in the file "
            "groups.csv."
        )
    rows = groups_table(table, f"Prevalence by {listed(table.by)} and class")
    filtered = len(rows.rows) > _FILTERED_ROWS
    return Section("numbers", "All groups in numbers", words, (), [rows], filtered)


def _fit_section(result: FitResult) -> Section:
    words, figures = [result.verdict], []
    if isinstance(result, FitVerdict):
        words += fit_meaning(result)
    if isinstance(result, FitCheck):
        caption = (
            f"How well this bag fits, among {len(result.null)} bags of the same size that were "
            "drawn from the training data at the estimated shares."
        )
        figures = [
            Figure.for_screens(lambda name, width: fit_figure(result, name, width), "fit", caption)
        ]
    tone = fit_headline(result)[0]
    return Section("fit", "Does the bag fit?", words, figures, verdict=tone)


def _simplex_section(report: Report, rows: Sequence[ClassRow] | None) -> Section | None:
    """Return the section on three classes; None for another number of classes."""
    estimate, quantifier = report.estimate, report.quantifier
    if estimate is None or rows is None or len(rows) != 3:
        return None
    # Corners are in the order of training, in which posteriors and regions are.
    in_training = {row.name: row for row in rows}
    corners = [in_training[str(label)] for label in estimate.classes]
    names = [row.name for row in corners]
    caption = "The prevalence as a point of the triangle, with its joint confidence region."
    figures = [
        Figure.for_screens(
            lambda name, width: prevalence_triangle(estimate, corners, name, width),
            "region",
            caption,
        )
    ]
    merged = quantifier is not None and not np.array_equal(estimate.classes, quantifier.classes_)
    # Posteriors are those of the classes of training.
    points = None if merged else bag_posteriors(estimate)
    if points is not None:
        parts = [("this bag", points)]
        training = kept_training(quantifier)
        if training is not None and training.posteriors is not None:
            trained = [
                (f"training: {name}", training.posteriors[training.labels == code].astype(float))
                for code, name in enumerate(names)
            ]
            parts = [(label, rows) for label, rows in trained if len(rows)] + parts
        figures += [Figure(drawing, "") for drawing in posteriors_figures(parts, names)]
    words = [
        "The small triangles show the classifier's posteriors. The picture of the bag should look "
        "like a mixture of the pictures of training."
    ]
    return Section("simplex", "The three classes as a triangle", words[: len(figures) - 1], figures)


def _classifier_section(view: ClassifierView) -> Section:
    accuracy = percent(view.curve.accuracy)
    source = "from models that did not see the instances" if view.held_out else "as given"
    figures = [
        Figure.for_screens(
            lambda name, width: reliability_figure(view.curve, name, width),
            "reliability",
            f"Calibration, by training posteriors {source}.",
        ),
        Figure.for_screens(
            lambda name, width: heat_figure(
                view.confusion,
                view.classes,
                view.classes,
                name=name,
                title="Confusion of the classifier",
                description=f"Share of each true class by predicted class; {accuracy} of all are "
                "right.",
                axes=("true class", "predicted class, per cent of the true class"),
                width=width,
            ),
            "confusion",
            f"Confusion, by training posteriors {source}.",
        ),
    ]
    words = [
        *view.words(),
        "The estimate corrects for these mistakes, and methods on densities need no calibrated "
        "posteriors; but the less the classes are confused, the narrower the intervals.",
    ]
    confusions = view.frequent()
    tables = [confusions_table(confusions)] if confusions else []
    return Section("classifier", "The classifier", words, figures, tables)


def _downloads(report: Report) -> list[Download]:
    """Return the files, in which classes are in the order of training."""
    downloads = []
    everything: dict[str, Any] = {"title": report.title, "made": report.created.isoformat()}
    if report.estimate is not None:
        rows = estimate_rows(report.estimate, report.truth)
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
