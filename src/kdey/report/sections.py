"""From a report to its page: first what everybody reads, then what specialists ask for.

A section is one function from a report to its words, figures, tables and files, or to None where
there is nothing to show. To add one, write the function and name it in :data:`FRONT`, or in
``SECTIONS`` of the technical part. What it shows beyond the estimates, it asks of the scored rows
in ``report.table``.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kdey._display import count_of
from kdey.intervals import Estimate
from kdey.model import kept_training
from kdey.quantifiers.base import BaseQuantifier
from kdey.report.page import (
    File,
    Highlight,
    Page,
    Section,
    csv_file,
    json_file,
    listed,
    percent,
    plain_status,
)
from kdey.report.shown_groups import (
    ClassRow,
    Group,
    GroupTable,
    calendar_of,
    dictionaries,
    estimate_rows,
    key_names,
    key_text,
    number,
    plain_value,
    position,
    require_columns,
)
from kdey.report.technical import SECTIONS
from kdey.report.words import (
    MEANING_OF_CHECKED,
    against_labels,
    against_others,
    change_findings,
    change_withstands_drift,
    fit_headline,
    fit_result,
    fit_sentences,
    group_findings,
    groups_checked,
    groups_described,
    headline,
    how_sure,
    need_a_look,
    next_steps,
    question,
    withstands_drift,
)
from kdey.status import POOR_FIT, status_parts
from kdey.tables.output import Cell, Heading, Row, Table

if TYPE_CHECKING:
    from kdey.report import Report


#: Longest text of one setting.
_LONGEST = 400
#: Rows of groups that stand in the JSON file, too; more are in groups.csv alone.
_MOST_IN_JSON = 2_000


def page_of(report: Report) -> Page:
    """Return the page of a report."""
    front, technical = (
        [part for part in (make(report) for make in makers) if part is not None]
        for makers in (FRONT, TECHNICAL)
    )
    files = {name: data for part in (*front, *technical) for name, data in part.files.items()}
    return Page(
        title=report.title,
        question=question(report.estimate, report.shown_groups, report.focus),
        headline=_headline(report),
        facts=_facts(report),
        findings=_findings(report),
        tone=_verdict(report)[0],
        sections=front,
        settings=settings_of(report),
        downloads={**files, "report.json": json_file(_all_numbers(report))},
        created=report.created,
        technical=technical,
        technical_words=_technical_words(report),
    )


def _verdict(report: Report) -> tuple[str, str]:
    """Return the tone and the headline of the checks of the whole bag and of all groups."""
    if report.checks is None:
        return "", ""
    if report.group_explorer is not None:
        flagged = len(report.group_explorer.misfits)
    else:
        groups = () if report.groups is None else report.groups.groups
        flagged = sum(POOR_FIT in status_parts(group.status) for group in groups)
    return fit_headline(report.checks, flagged)


def _headline(report: Report) -> str:
    """Return the answer to what was asked, in a sentence."""
    if report.estimate is not None and report.rows is not None:
        return headline(report.estimate, report.rows, report.focus)
    assert report.shown_groups is not None, "a report has an estimate or groups"
    return groups_described(report.shown_groups)


def _facts(report: Report) -> dict[str, list[str]]:
    """Return how sure the answer is, whether it was checked, how wrong it could be, what next."""
    estimate, rows, checks = report.estimate, report.rows, report.checks
    facts: dict[str, list[str]] = {}
    if estimate is not None and rows is not None:
        facts["How sure?"] = how_sure(estimate, rows, report.by_labels)
    if checks is not None:
        result = [_MISFIT_WITH_LABELS] if report.by_labels and checks.rejected else []
        facts["Checked?"] = [_verdict(report)[1], *(result or [fit_result(checks)])]
    facts["How wrong could it be?"] = _drift(report)
    facts["What next?"] = next_steps(report)
    return {name: sentences for name, sentences in facts.items() if sentences}


def _drift(report: Report) -> list[str]:
    """Return how large a change of the classes themselves would overturn the conclusions."""
    if report.estimate is None:
        return []
    words = withstands_drift(report.estimate, report.focus)
    table, groups = report.table, report.groups
    only_times = groups is not None and groups.by == (groups.time,)
    if only_times and table is not None and table.looks_closer:
        words += change_withstands_drift(table.answers)
    return words


def _findings(report: Report) -> list[Highlight]:
    """Return what stands out, with links to the rows that show it."""
    estimate, rows = report.estimate, report.rows
    groups, totals = report.shown_groups, report.totals
    findings: list[Highlight] = []
    if estimate is not None and rows is not None:
        findings += map(Highlight, _warning(estimate, rows))
    if report.group_explorer is not None and groups is not None and totals is not None:
        findings += group_findings(groups, totals, report.group_explorer, report.focus)
    elif report.class_explorer is not None:
        findings += change_findings(report.class_explorer)
    if report.comparisons is not None:
        findings += _clearest(report)
    if estimate is not None and rows is not None:
        findings += map(Highlight, against_others(rows, report.focus))
    return findings


def _clearest(report: Report) -> list[Highlight]:
    """Return the clearest differences, each with a link to its group."""
    rows = [row for row in report.comparisons or () if row.is_finding]
    explorer = report.group_explorer
    known = {} if explorer is None else {name: n for n, name in enumerate(explorer.rows)}
    findings = []
    for row in rows[:_MOST_NAMED]:
        place = known.get(row.group)
        link = "" if explorer is None or place is None else explorer.link(place)
        verb = "more" if (row.values["difference"] or 0.0) > 0 else "less"
        points = _points(row.values["difference"])
        ends = sorted((row.values[end] or 0.0 for end in ("low", "high")), key=abs)
        than = f"than in {'the rest' if row.against == 'rest' else row.against}"
        span = f"{_points(ends[0])} to {_points(ends[1])}"
        text = f"{points} points {verb} “{row.name}” {than} ({span})."
        findings.append(Highlight(text, {row.group: link}, row.name))
    return findings


def _warning(estimate: Estimate, rows: Sequence[ClassRow]) -> list[str]:
    """Return what is the matter with the answer, where something is."""
    reasons = [plain_status(problem) for problem in estimate.problems]
    wrong = sum(row.outside(row.truth) for row in rows)
    if wrong:
        classes = count_of(wrong, "class", "classes")
        reasons.append(f"the share of known labels lies outside the interval of {classes}")
    if not reasons:
        return []
    return [f"Beware: {'; '.join(reasons)}. The section on trust says more."]


def _all_numbers(report: Report) -> dict[str, Any]:
    """Return all numbers of a report, in which classes are in the order of training."""
    everything: dict[str, Any] = {"title": report.title, "made": report.created.isoformat()}
    if report.estimate is not None:
        everything["estimate"] = report.estimate.to_dict()
    columns, records = ([], []) if report.groups is None else group_records(report.groups)
    if 0 < len(records) <= _MOST_IN_JSON:
        # One list per column: names repeated for each row would make most of the file.
        everything["groups"] = dict(
            zip(columns, map(list, zip(*records, strict=True)), strict=True)
        )
    if report.checks is not None:
        everything |= report.checks.summary()
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
    """Return the section on the share of each class, over time where time is the only key."""
    explorer, estimate = report.class_explorer, report.estimate
    if explorer is None:
        return None
    words, files = [], {}
    if estimate is not None:
        joint = ", which are right for all classes at once" if estimate.simultaneous else ""
        level = f"{100 * estimate.confidence:g}\u00a0%"
        words.append(
            f"Estimated shares with {level} intervals{joint}. The uncorrected count is what the "
            "model takes the records for, with its mistakes; the share in training is that of the "
            "examples that it learnt from."
        )
        # Files have the classes in the order of training.
        records = class_records(estimate_rows(estimate, report.truth))
        files["classes.csv"] = csv_file(*records)
    if report.groups is not None and report.group_explorer is None:
        words += [groups_described(report.groups)] * (estimate is not None)
        files["groups.csv"] = csv_file(*group_records(report.groups))
    title = f"Share of each class{' over time' if explorer.times else ''}"
    return Section("classes", title, words, explorer, files=files)


def _groups(report: Report) -> Section | None:
    """Return the section on groups beside each other, with lines over time if there are times."""
    table, explorer = report.shown_groups, report.group_explorer
    if report.groups is None or table is None or explorer is None:
        return None
    over_time = " and over time" if explorer.times else ""
    title = f"Shares by {listed([name for name in table.by if name != table.time])}{over_time}"
    files = {"groups.csv": csv_file(*group_records(report.groups))}
    words = [] if report.estimate is None else [groups_described(table)]
    return Section("groups", title, words, explorer, files=files)


def _comparisons(report: Report) -> Section | None:
    """Return the section on differences between groups."""
    if report.comparisons is None:
        return None
    by = () if report.groups is None else report.groups.by
    return differences_section(report.comparisons, by)


def _trust(report: Report) -> Section | None:
    """Return the section on what was checked, what known labels say, and what to beware of."""
    words, tone, title = [], "", ""
    if report.checks is not None:
        tone, title = _verdict(report)
        words += fit_sentences(report.checks)
    if report.groups is not None:
        checked = [*groups_checked(report.groups), *need_a_look(report.groups)]
        words += [MEANING_OF_CHECKED, *checked] if checked and report.check is None else checked
    if report.rows is not None:
        look_trained = report.table is not None and report.table.labels_look_trained
        words += against_labels(report.rows, look_trained)
    if report.estimate is not None:
        words += [f"Note: {note}." for note in report.estimate.notes]
    if not words:
        return None
    return Section("trust", "How far can this be trusted?", words, verdict=tone, headline=title)


def _numbers(report: Report) -> Section | None:
    """Return the section with all numbers of all groups."""
    table = report.shown_groups
    if table is None:
        return None
    words, n_rows = [], sum(len(group.rows) for group in table.groups)
    if n_rows > MOST_ROWS:
        words.append(
            f"The table shows the first {MOST_ROWS:,} of {n_rows:,} rows; for all, see the files."
        )
    rows = groups_table(table, f"Prevalence by {listed(table.by)} and class")
    return Section("numbers", "All groups in numbers", words, tables=[rows])


def settings_of(report: Report) -> list[tuple[str, str]]:
    """Return names and values: the caller's own, the method, the intervals, the versions."""
    estimate, quantifier = report.estimate, report.quantifier
    parts = [(str(name), str(value)) for name, value in report.settings.items()]
    if quantifier is not None:
        parts.append(("Method", _call(quantifier)))
        parts += _training(quantifier)
    if estimate is not None:
        parts += [
            ("Confidence", f"{estimate.confidence:g}"),
            ("Intervals", f"{estimate.method}, for the {estimate.target}"),
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


#: Rows of groups shown on the page.
MOST_ROWS = 200
#: The shares of a class with their headings on the page.
_HEADINGS = {
    "estimate": "Estimate",
    "low": "Low",
    "high": "High",
    "naive": "Uncorrected count",
    "training": "Share in training",
    "truth": "Known labels",
}
#: What files call a column where it is not its name here: as in the frames of estimates.
_FILE_NAMES = {"naive": "classify_and_count", "training": "training_prevalence", "truth": "labels"}


def _key_cells(table: GroupTable, group: Group) -> list[Cell]:
    """Return the keys of a group as people say them, sorted by what they are."""
    return [
        Cell(text, position(key) if name == table.time else _sort_value(key))
        for name, text, key in zip(table.by, table.key_texts(group), group.keys, strict=True)
    ]


def groups_table(table: GroupTable, title: str) -> Table:
    """Return one row per group and class, the first :data:`MOST_ROWS` of them."""
    pairs = [(group, row) for group in table.groups for row in group.rows]
    names = known_shares([row for _, row in pairs])
    checked = any(group.p_value is not None for group in table.groups)
    columns = [Heading(name, numeric=False) for name in (*table.by, "Class")] + [Heading("Records")]
    columns += [Heading(_HEADINGS[name]) for name in names]
    columns += [Heading("Fit p\u2011value")] * checked + [Heading("Status", numeric=False)]
    rows = []
    for group, row in pairs[:MOST_ROWS]:
        cells = _key_cells(table, group)
        cells += [Cell(row.name), Cell(f"{group.n:,}", float(group.n))]
        cells += [_share(getattr(row, name)) for name in names]
        if checked:
            cells.append(_fit_p_value(group.p_value))
        rows.append(Row((*cells, Cell(group.status))))
    return Table("group-rows", title, tuple(columns), tuple(rows))


def group_records(table: GroupTable) -> tuple[list[str], list[list[Any]]]:
    """Return column names and rows of all groups, for a file."""
    names = [name for name in _HEADINGS if name != "truth"]
    columns = [*table.by, "class", "n", *_file_names(names), "fit_p_value", "status"]
    rows = [
        [
            *(key_text(key) for key in group.keys),
            row.name,
            group.n,
            *(getattr(row, name) for name in names),
            group.p_value,
            group.status,
        ]
        for group in table.groups
        for row in group.rows
    ]
    return columns, rows


def class_records(rows: Sequence[ClassRow]) -> tuple[list[str], list[list[Any]]]:
    """Return column names and rows of all classes, for a file."""
    names = known_shares(rows)
    records = [[row.name, *(getattr(row, name) for name in names)] for row in rows]
    return ["class", *_file_names(names)], records


def known_shares(rows: Sequence[ClassRow]) -> list[str]:
    """Return the names of the shares that any row knows."""
    return [name for name in _HEADINGS if any(getattr(row, name) is not None for row in rows)]


def _file_names(names: Sequence[str]) -> list[str]:
    return [_FILE_NAMES.get(name, name) for name in names]


def _share(value: float | None) -> Cell:
    return Cell(percent(value), -1.0 if value is None else round(value, 9))


def _fit_p_value(value: float | None) -> Cell:
    return Cell("–", -1.0) if value is None else Cell(f"{value:.3f}", value)


def _sort_value(key: Any) -> float | None:
    return float(key) if isinstance(key, int | float) and not isinstance(key, bool) else None


_MISFIT_WITH_LABELS = (
    "The records do not look like any mix of the classes as they were in training. Labels of the "
    "records themselves keep the shares right all the same."
)
#: Differences that are named in sentences.
_MOST_NAMED = 3
#: Adjusted p-values up to this are findings.
LEVEL = 0.05
#: The numbers of a difference.
DIFFERENCE_COLUMNS = (
    *("estimate", "estimate_against", "difference", "low", "high"),
    *("ratio", "ratio_low", "ratio_high", "p_value", "adjusted_p_value"),
)


@dataclass(frozen=True)
class ShownDifference:
    """The difference of one class between two groups.

    Attributes
    ----------
    keys : mapping from names of keys to texts
        Of the group.
    against : str
        The other side in words.
    name : str
        The class.
    values : mapping from names of columns to numbers
        None where a number is not known, such as a ratio without an upper end.
    """

    keys: dict[str, str]
    against: str
    name: str
    values: dict[str, float | None]

    @property
    def group(self) -> str:
        """The keys as one text."""
        return ", ".join(self.keys.values())

    @property
    def is_finding(self) -> bool:
        """Whether the difference remains after allowing for the number of tests."""
        p_value = self.values["adjusted_p_value"]
        return p_value is not None and p_value <= LEVEL


def differences_of(
    table: Any, by: Sequence[str], time: str | None = None, *, every: str | None = None
) -> tuple[ShownDifference, ...]:
    """Return the differences in a table of :func:`kdey.compare_groups`, the clearest first.

    Parameters
    ----------
    table : iterable of mappings, or a frame of pandas, polars or pyarrow
    by : names of the keys
    time : str, optional
        One more key.
    every : str, optional
        The length of its periods, by which they are named.
    """
    names = key_names(by, time)
    listed = list(dictionaries(table))
    calendar = calendar_of([plain_value(row.get(time)) for row in listed] if time else [], every)
    rows = []
    for row in listed:
        require_columns(row, (*names, "against", "class", *DIFFERENCE_COLUMNS), "comparisons")
        values = {name: _finite(row[name]) for name in DIFFERENCE_COLUMNS}
        if values["difference"] is None:
            continue  # A side has no instances.
        keys = {name: plain_value(row[name]) for name in names}
        texts = {
            name: calendar.name(key) if name == time else key_text(key)
            for name, key in keys.items()
        }
        rows.append(ShownDifference(texts, str(row["against"]), str(row["class"]), values))
    return tuple(sorted(rows, key=lambda row: _order(row.values)))


def _finite(value: Any) -> float | None:
    parsed = number(value)
    return None if parsed is None or math.isinf(parsed) else parsed


def _order(values: dict[str, float | None]) -> tuple[float, float]:
    p_value = values["p_value"]
    return (1.0 if p_value is None else p_value, -abs(values["difference"] or 0.0))


def differences_section(rows: Sequence[ShownDifference], by: Sequence[str]) -> Section:
    """Return the section on differences between groups with the keys ``by``."""
    words = [comparisons_answer(rows)]
    if len(rows) > MOST_ROWS:
        words.append(
            f"The table shows the {MOST_ROWS:,} clearest of {len(rows):,} differences; for "
            "all, see the files below."
        )
    table, files = _rows_table(rows, by), _csv_file(rows, by)
    return Section("comparisons", "Did it change?", words, tables=[table], files=files)


def comparisons_answer(rows: Sequence[ShownDifference]) -> str:
    """Return how many comparisons show a difference."""
    found = sum(row.is_finding for row in rows)
    if not found:
        return (
            f"None of {len(rows):,} differences is larger than chance explains, given that "
            "so many were looked at."
        )
    return (
        f"{found:,} of {len(rows):,} differences are larger than chance explains, even though so "
        "many were looked at."
    )


def _rows_table(differences: Sequence[ShownDifference], by: Sequence[str]) -> Table:
    """Return one row per comparison and class, the clearest first."""
    headings = [Heading(name, numeric=False) for name in (*by, "Against", "Class")]
    headings += [Heading(name) for name in ("Share", "Other share", "Difference", "Low", "High")]
    headings += [Heading(name) for name in ("Ratio", "Low", "High", "p\u2011value", "Adjusted")]
    rows = []
    for row in differences[:MOST_ROWS]:
        values = row.values
        cells = [Cell(text) for text in (*row.keys.values(), row.against, row.name)]
        cells += [_share(values[name]) for name in ("estimate", "estimate_against")]
        cells += [_difference(values[name]) for name in ("difference", "low", "high")]
        cells += [_ratio(values[name]) for name in ("ratio", "ratio_low", "ratio_high")]
        cells += [_p_value(values[name]) for name in ("p_value", "adjusted_p_value")]
        rows.append(Row(tuple(cells), "best" if row.is_finding else "plain"))
    title = "Differences in points, with the interval of each by itself; in bold, findings"
    return Table("comparison-rows", title, tuple(headings), tuple(rows))


def _csv_file(differences: Sequence[ShownDifference], by: Sequence[str]) -> dict[str, File]:
    """Return all comparisons as a file."""
    records = [
        [
            *row.keys.values(),
            row.against,
            row.name,
            *(row.values[name] for name in DIFFERENCE_COLUMNS),
        ]
        for row in differences
    ]
    columns = [*by, "against", "class", *DIFFERENCE_COLUMNS]
    return {"comparisons.csv": csv_file(columns, records, "kdey compare")}


def _points(difference: float | None) -> str:
    return f"{100 * abs(difference or 0.0):.1f}"


def _difference(value: float | None) -> Cell:
    return Cell() if value is None else Cell(f"{100 * value:+.1f}", value)


def _ratio(value: float | None) -> Cell:
    if value is None:
        return Cell("–", math.inf)
    return Cell(f"{value:.2f}" if value < 100 else f"{value:.3g}", value)


def _p_value(value: float | None) -> Cell:
    if value is None:
        return Cell()
    return Cell("<\u20090.001" if value < 0.001 else f"{value:.3f}", value)


#: The sections for everybody, and those for specialists, in their order.
FRONT = (_groups, _classes, _comparisons, _trust)
TECHNICAL = (_numbers, *SECTIONS)
