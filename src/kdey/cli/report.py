"""``kdey report``: a model and a table in, one HTML page out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdey._display import count_of
from kdey.cli.common import check_output, guarded, say
from kdey.cli.design import request_of, survey_options
from kdey.cli.options import comparison_options, comparison_side, group_options
from kdey.cli.reading import open_table

if TYPE_CHECKING:
    from kdey.diagnostics import FitCheck, NotChecked
    from kdey.groups import GroupKeys, Request
    from kdey.groups.scoring import GroupRows
    from kdey.groups.table import ScoredTable
    from kdey.intervals import Estimate
    from kdey.quantifiers.aggregative import AggregativeQuantifier
    from kdey.report import Report
    from kdey.tables.files import TableFile


@click.command()
@click.argument("model")
@click.argument("table")
@group_options
@survey_options
@comparison_options
@click.option("--label", help="Column of known labels, shown beside the estimates.")
@click.option("--jobs", default=-1, show_default=True, help="Threads; -1: all cores.")
@click.option("--title", help="Heading of the page.")
@click.option("-o", "--output", default="report.html", show_default=True, help="File to write.")
@click.option("--figures", help="Folder to write each figure to, as a file of its own.")
@click.option(
    "--figure-format",
    "figure_formats",
    type=click.Choice(["svg", "png"]),
    multiple=True,
    default=["svg"],
    show_default=True,
    help="Format of the figures; repeat for both.",
)
@click.option("--slide", help="File to write the answer with one figure to, .svg or .png (16:9).")
@guarded
def report(model: str, table: str, **options: Any) -> None:
    """Estimate the prevalences of TABLE by MODEL and write one HTML page.

    TABLE is CSV (also gzipped), Parquet or Excel. The page needs nothing but a browser, and no
    network.
    """
    _check_outputs(options)
    page = _make(model, table, options)
    page.write(options["output"])
    say(f"wrote {options['output']}")
    if options["figures"] is not None:
        written = page.write_figures(options["figures"], options["figure_formats"])
        say(f"wrote {count_of(len(written), 'figure')} to {options['figures']}")
    if options["slide"] is not None:
        page.write_slide(options["slide"])
        say(f"wrote {options['slide']}")


def _check_outputs(options: dict[str, Any]) -> None:
    """Raise where a file cannot be written, before any work."""
    from kdey.report.export import check_format, slide_format

    check_output(options["output"])
    for kind in options["figure_formats"] if options["figures"] is not None else ():
        check_format(kind)
    if options["slide"] is not None:
        check_format(slide_format(options["slide"]))
        check_output(options["slide"])


def _make(model: str, table: str, options: dict[str, Any]) -> Report:
    """Return the report."""
    from dataclasses import replace

    from kdey import load
    from kdey.groups import score
    from kdey.report import make_report
    from kdey.tables.files import TableError

    quantifier = load(model).set_params(n_jobs=options["jobs"])
    file = open_table(table, options)
    scores = _named_after_classes(quantifier, file)
    request = replace(request_of(options, quantifier.classes_, scores), label=options["label"])
    if options["label"] is not None and options["label"] not in file.columns:
        raise TableError(f"{file.name}: no label column {options['label']!r}")
    scored = score(quantifier, file, request)
    if not len(scored.rows):
        raise TableError(f"{file.name}: no row without a missing value")
    grouping = request.grouping
    return make_report(
        _whole_estimate(quantifier, scored, request),
        quantifier=quantifier,
        check=_check(quantifier, scored.rows, options["check_fit"]),
        groups=_groups(quantifier, scored, request),
        totals=_totals(quantifier, scored, request),
        comparisons=_comparisons(quantifier, scored, request, options),
        by=grouping.by,
        time=grouping.time,
        every=grouping.every,
        truth=_truth(quantifier, scored, options["label"], request),
        title=options["title"] or f"Shares of classes in {Path(table).name}",
        settings=_settings(model, table, scored),
        keep_order=True if options["order"] is not None else None,
    )


def _named_after_classes(quantifier: AggregativeQuantifier, file: TableFile) -> list[str] | None:
    """Return the score columns of a model fitted on scores, where they are named as its classes."""
    labels = [str(label) for label in quantifier.classes_]
    fitted_on_scores = quantifier.n_features is None
    return labels if fitted_on_scores and set(labels) <= set(file.columns) else None


def _whole_estimate(
    quantifier: AggregativeQuantifier, scored: ScoredTable, request: Request
) -> Estimate:
    """Return the estimate of the whole table, with a note on values that training lacks."""
    import sys
    from dataclasses import replace

    from kdey.groups import Grouping, GroupKeys, answer
    from kdey.status import MOST_UNSEEN, UNSEEN_VALUES
    from kdey.tables.features import unseen_values_note

    whole = _regrouped(scored, GroupKeys(()), [()] * len(scored))
    plain = replace(request, grouping=Grouping(), options=replace(request.options, check_fit=False))
    estimates = answer(quantifier, whole, plain, kept=sys.maxsize)
    estimate = replace(estimates, statuses=None)[0]
    note = unseen_values_note(scored.findings)
    if note is None:
        return estimate
    details = dict(estimate.diagnostics)
    details["notes"] = [*estimate.notes, note]
    if scored.unseen.sum() > MOST_UNSEEN * len(scored.rows):
        details["marks"] = (*details.get("marks", ()), UNSEEN_VALUES)
    return replace(estimate, diagnostics=details)


def _regrouped(scored: ScoredTable, keys: GroupKeys, values: list[tuple[Any, ...]]) -> ScoredTable:
    """Return a table by coarser keys, of which each group has the given values."""
    import numpy as np

    numbers = keys.encode_values(values).astype(np.int64)
    first = np.unique(numbers, return_index=True)[1].tolist()
    return scored.regrouped(keys, scored.key_rows[first].select(keys.names), numbers)


def _check(
    quantifier: AggregativeQuantifier, rows: GroupRows, wanted: bool
) -> FitCheck | NotChecked:
    """Return the fit check of the whole table, or why there is none."""
    from kdey.diagnostics import NotChecked, full_check, unchecked_reason
    from kdey.groups import ScoredRows
    from kdey.status import TURNED_OFF

    reason = unchecked_reason(quantifier) if wanted else TURNED_OFF
    if reason is not None or not isinstance(rows, ScoredRows):
        return NotChecked(reason or "the rows have no posteriors")
    by_folds = rows.fold_posteriors is not None
    return full_check(quantifier, rows.checked_posteriors, by_folds=by_folds)


def _truth(
    quantifier: AggregativeQuantifier, scored: ScoredTable, label: str | None, request: Request
) -> list[float] | None:
    """Return the share of each class that is shown among known labels."""
    if label is None:
        return None
    counts = scored.label_counts
    total = sum(counts.values())
    if total == 0:
        raise ValueError(f"label column {label!r} holds no labels")
    shares = [counts.get(name, 0) / total for name in quantifier.classes_.tolist()]
    shown: list[float] = (request.merging(quantifier.classes_).matrix @ shares).tolist()
    return shown


def _groups(
    quantifier: AggregativeQuantifier, scored: ScoredTable, request: Request
) -> list[dict[str, Any]] | None:
    """Return the table of groups as the report takes it; None without keys."""
    from kdey.groups import estimate_scored

    if not scored.keys.names:
        return None
    groups = estimate_scored(quantifier, scored, request).to_frame("pyarrow")
    return [row for row in groups.to_pylist() if row["n"]]


def _totals(
    quantifier: AggregativeQuantifier, scored: ScoredTable, request: Request
) -> list[dict[str, Any]] | None:
    """Return the groups over all times together; None where there are no times or no other keys."""
    from dataclasses import replace

    from kdey.groups import Grouping, GroupKeys

    by = request.grouping.by
    if request.grouping.time is None or not by:
        return None
    values = [key[: len(by)] for key in scored.keys.values]
    # The groups themselves are checked, and the page says what came out.
    unchecked = replace(
        request, grouping=Grouping(by), options=replace(request.options, check_fit=False)
    )
    return _groups(quantifier, _regrouped(scored, GroupKeys(by), values), unchecked)


def _comparisons(
    quantifier: AggregativeQuantifier,
    scored: ScoredTable,
    request: Request,
    options: dict[str, Any],
) -> list[dict[str, Any]] | None:
    """Return the table of comparisons as the report takes it; None where none was asked for."""
    from dataclasses import replace

    from kdey.groups import compare_scored

    against = comparison_side(options["against"])
    if against is None:
        return None
    # The section on groups shows whether they fit.
    unchecked = replace(request, options=replace(request.options, check_fit=False))
    correction = None if options["correction"] == "none" else options["correction"]
    made = compare_scored(quantifier, scored, unchecked, against, correction)
    rows: list[dict[str, Any]] = made.to_frame("pyarrow").to_pylist()
    return rows


def _settings(model: str, table: str, collected: ScoredTable) -> dict[str, Any]:
    """Return what a reader needs to make the page again."""
    import shlex
    import sys

    settings: dict[str, Any] = {"Command": shlex.join(["kdey", *sys.argv[1:]])}
    left_out = int(collected.missing.sum())
    if left_out:
        settings["Rows left out"] = f"{left_out:,} with a missing value"
    if collected.findings:
        settings["Values that training lacks"] = "; ".join(map(str, collected.findings))
    for path in (Path(model), Path(table)):
        if path.is_file():  # A pipe was read already, and a device may have no end.
            settings[f"SHA-256 of {path.name}"] = _digest(path)
    return settings


def _digest(path: Path) -> str:
    import hashlib

    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
