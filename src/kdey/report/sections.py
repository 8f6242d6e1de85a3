"""From a report to its page: first what everybody reads, then what specialists ask for.

A section is one function from a report to its words, figures, tables and files, or to None where
there is nothing to show. To add one, write the function and name it in :data:`FRONT` or
:data:`TECHNICAL`.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import numpy as np

from kdey._display import count_of
from kdey.diagnostics import FitCheck, FitVerdict
from kdey.intervals import Estimate
from kdey.model import kept_training
from kdey.quantifiers.base import BaseQuantifier
from kdey.report.differences import (
    differences_section,
)
from kdey.report.html import FILTERED_ROWS, Figure, Page, Section, csv_address, json_address
from kdey.report.page import Report, bag_posteriors
from kdey.report.page_tables import (
    MOST_ROWS,
    class_records,
    confusions_table,
    group_records,
    groups_table,
    overview_table,
    prevalence_table,
)
from kdey.report.share_figures import (
    MOST_GROUP_PANELS,
    MOST_NAMED_GROUPS,
    MOST_PANELS,
    MOST_THIN_LINES,
    groups_figure,
    heat_figure,
    prevalence_figure,
)
from kdey.report.shown_groups import ClassRow, GroupTable, estimate_rows
from kdey.report.technical_figures import (
    classifier_view,
    fit_figure,
    posteriors_figures,
    prevalence_triangle,
    reliability_figure,
)
from kdey.report.time_figures import drawn_classes, drawn_series, time_figure
from kdey.report.vocabulary import listed, percent, plain_status
from kdey.report.words import (
    MEANING_OF_CHECKED,
    against_labels,
    answer,
    fit_headline,
    fit_meaning,
    fit_result,
    fit_sentences,
    groups_answer,
    groups_checked,
    question,
)

#: Longest text of one setting.
_LONGEST = 400


def page_of(report: Report) -> Page:
    """Return the page of a report."""
    verdict = None
    if report.check is not None:
        verdict = (*fit_headline(report.check), fit_result(report.check))
    front, technical = (
        [part for part in (make(report) for make in makers) if part is not None]
        for makers in (FRONT, TECHNICAL)
    )
    files = {name: data for part in (*front, *technical) for name, data in part.files.items()}
    return Page(
        title=report.title,
        question=question(report.estimate, report.shown_groups),
        lead=_lead(report),
        sections=front,
        settings=settings_of(report),
        downloads={**files, "report.json": json_address(_all_numbers(report))},
        created=report.created,
        verdict=verdict,
        technical=technical,
        technical_words=_technical_words(report),
    )


def _lead(report: Report) -> list[str]:
    sentences = []
    if report.estimate is not None and report.rows is not None:
        sentences += answer(report.estimate, report.rows)
        sentences[1:1] = _warning(report.estimate, report.rows)
    if report.shown_groups is not None:
        sentences += groups_answer(report.shown_groups, report.totals)
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


def _all_numbers(report: Report) -> dict[str, Any]:
    """Return all numbers of a report, in which classes are in the order of training."""
    everything: dict[str, Any] = {"title": report.title, "made": report.created.isoformat()}
    if report.estimate is not None:
        everything["estimate"] = report.estimate.to_dict()
    if report.groups is not None:
        columns, records = group_records(report.groups)
        # One list per column: names repeated for each row would make most of the file.
        everything["groups"] = dict(
            zip(columns, map(list, zip(*records, strict=True)), strict=True)
        )
    if report.check is not None:
        everything["fit"] = report.check.summary()
    everything["settings"] = dict(settings_of(report))
    return everything


def _technical_words(report: Report) -> list[str]:
    """Return what was chosen automatically, and what went wrong in the computation."""
    sentences = []
    quantifier = report.quantifier
    if quantifier is not None:
        sentences += [quantifier._description, quantifier.summary()]
    if report.estimate is not None and not report.estimate.converged:
        sentences.append("The solver did not converge: see the optimality gap in the settings.")
    return [sentence for sentence in sentences if sentence]


def _classes(report: Report) -> Section | None:
    """Return the section on the share of each class."""
    estimate, rows = report.estimate, report.rows
    if estimate is None or rows is None:
        return None
    confidence = estimate.confidence
    level = f"{100 * confidence:g}\u00a0%"
    joint = " that hold for all classes at once" if estimate.simultaneous else ""
    caption = (
        f"Estimated shares with {level} intervals{joint}. The uncorrected count is what the model "
        "takes the records for, with its mistakes; the share in training is that of the examples "
        "that it learnt from."
    )
    figure = Figure.for_screens(
        lambda name, width: prevalence_figure(rows, confidence, name, width), "prevalence", caption
    )
    table = prevalence_table(rows, f"Share of each class, with {level} intervals")
    # Files have the classes in the order of training.
    files = {"classes.csv": csv_address(*class_records(estimate_rows(estimate, report.truth)))}
    return Section("classes", "Share of each class", (), [figure], [table], files=files)


def _groups(report: Report) -> Section | None:
    """Return the section on groups beside each other, or over time."""
    table = report.shown_groups
    if report.groups is None or table is None:
        return None
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
    filtered = len(overview.rows) > FILTERED_ROWS
    files = {"groups.csv": csv_address(*group_records(report.groups))}
    return Section("groups", title, words, [figure], [overview], filtered, files=files)


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


def _comparisons(report: Report) -> Section | None:
    """Return the section on differences between groups."""
    if report.comparisons is None:
        return None
    by = () if report.groups is None else report.groups.by
    return differences_section(report.comparisons, by)


def _trust(report: Report) -> Section | None:
    """Return the section on what was checked, what known labels say, and what to beware of."""
    words, tone, headline = [], "", ""
    if report.check is not None:
        tone, headline = fit_headline(report.check)
        words += fit_sentences(report.check)
    if report.groups is not None:
        groups = groups_checked(report.groups)
        words += [MEANING_OF_CHECKED, *groups] if groups and report.check is None else groups
    if report.rows is not None:
        words += against_labels(report.rows)
    if report.estimate is not None:
        words += [f"Note: {note}." for note in report.estimate.notes]
    if not words:
        return None
    return Section("trust", "How far can this be trusted?", words, verdict=tone, headline=headline)


def _numbers(report: Report) -> Section | None:
    """Return the section with all numbers of all groups."""
    table = report.shown_groups
    if table is None:
        return None
    words, n_rows = [], sum(len(group.rows) for group in table.groups)
    if n_rows > MOST_ROWS:
        words.append(
            f"The table shows the first {MOST_ROWS:,} of {n_rows:,} rows; all are in the file "
            "groups.csv."
        )
    rows = groups_table(table, f"Prevalence by {listed(table.by)} and class")
    filtered = len(rows.rows) > FILTERED_ROWS
    return Section("numbers", "All groups in numbers", words, (), [rows], filtered)


def _fit(report: Report) -> Section | None:
    """Return the section on the fit check of the whole bag."""
    result = report.check
    if result is None:
        return None
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


def _simplex(report: Report) -> Section | None:
    """Return the section on three classes; None for another number of classes."""
    estimate, quantifier, rows = report.estimate, report.quantifier, report.rows
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


def _classifier(report: Report) -> Section | None:
    """Return the section on the classifier; None where no training posteriors are kept."""
    view = None if report.quantifier is None else classifier_view(report.quantifier)
    if view is None:
        return None
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


#: The sections for everybody, and those for specialists, in their order.
FRONT = (_classes, _groups, _comparisons, _trust)
TECHNICAL = (_numbers, _fit, _simplex, _classifier)


def settings_of(report: Report) -> list[tuple[str, str]]:
    """Return names and values: the caller's own, the method, the limits, the versions."""
    estimate, quantifier = report.estimate, report.quantifier
    parts = [(str(name), str(value)) for name, value in report.settings.items()]
    if quantifier is not None:
        parts.append(("Method", _call(quantifier)))
        parts += _training(quantifier)
    if estimate is not None:
        parts += [
            ("Confidence", f"{estimate.confidence:g}"),
            ("Limits", f"{estimate.method}, for the {estimate.target}"),
            ("Optimality gap", _gap(estimate)),
        ]
    return [*parts, *_versions()]


def _call(quantifier: BaseQuantifier) -> str:
    """Return the call that makes the quantifier."""
    params = quantifier.get_params(deep=False)
    inside = ", ".join(f"{name}={_one_line(value)}" for name, value in params.items())
    return f"{type(quantifier).__name__}({inside})"


def _one_line(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _training(quantifier: BaseQuantifier) -> list[tuple[str, str]]:
    training = kept_training(quantifier)
    facts = [("Classes", str(len(quantifier.classes_)))]
    if training is not None:
        facts.append(("Training instances", f"{len(training.labels):,}"))
    names = quantifier.model_.scorer.feature_names
    if names is not None:
        shown = ", ".join(names[:30])
        facts.append(("Features", shown + (f", … ({len(names)})" if len(names) > 30 else "")))
    return facts


def _gap(estimate: Estimate) -> str:
    state = "converged" if estimate.converged else "not converged"
    return f"{state}, no certificate" if np.isnan(estimate.gap) else f"{state}, {estimate.gap:.2g}"


def _versions() -> list[tuple[str, str]]:
    import sklearn

    import kdey

    libraries = {
        "kdey": kdey.__version__,
        "scikit-learn": sklearn.__version__,
        "NumPy": np.__version__,
        "Python": platform.python_version(),
    }
    return [("Versions", ", ".join(f"{name} {version}" for name, version in libraries.items()))]
