"""``kdey report``: a model and a table in, one HTML page out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import check_output, guarded, names, say
from kdey.cli.options import comparison_options, comparison_side, group_options, grouping_of
from kdey.cli.reading import open_table

if TYPE_CHECKING:
    from kdey.diagnostics import FitCheck, NotChecked
    from kdey.groups import GroupRequest, GroupSettings
    from kdey.groups.batches import CollectedRows, ScoredTable
    from kdey.groups.scoring import GroupRows
    from kdey.intervals import Estimate, IntervalOptions
    from kdey.quantifiers.aggregative import AggregativeQuantifier
    from kdey.report import Report
    from kdey.tables.files import TableFile


@click.command()
@click.argument("model")
@click.argument("table")
@group_options
@comparison_options
@click.option("--label", help="Column of known labels, shown beside the estimates.")
@click.option("--title", help="Heading of the page.")
@click.option("-o", "--output", default="report.html", show_default=True, help="File to write.")
@guarded
def report(model: str, table: str, **options: Any) -> None:
    """Estimate the prevalences of TABLE by MODEL and write one HTML page.

    TABLE is CSV (also gzipped), Parquet or Excel. The page needs nothing but a browser, and no
    network.
    """
    check_output(options["output"])
    _make(model, table, options).write(options["output"])
    say(f"wrote {options['output']}")


def _make(model: str, table: str, options: dict[str, Any]) -> Report:
    """Return the report."""
    from kdey import load
    from kdey.groups import GroupRequest, GroupSettings
    from kdey.groups.predict import score_file
    from kdey.intervals import IntervalOptions
    from kdey.report import make_report
    from kdey.tables.files import TableError

    quantifier, file = load(model), open_table(table, options)
    grouping, limits = grouping_of(options), IntervalOptions(options["confidence"])
    scores = names(options["scores"]) or _named_after_classes(quantifier, file)
    settings = GroupSettings(limits, options["min_size"], options["check_fit"])
    request = GroupRequest(grouping, settings, scores, options["missing"])
    if options["label"] is not None and options["label"] not in file.columns:
        raise TableError(f"{file.name}: no label column {options['label']!r}")
    scored = score_file(quantifier, file, request, label=options["label"])
    with scored.stream.collected(quantifier, len(scored.keys)) as collected:
        if not len(collected.rows):
            raise TableError(f"{file.name}: no row without a missing value")
        return make_report(
            _whole_estimate(quantifier, collected, limits),
            quantifier=quantifier,
            check=_check(quantifier, collected.rows, options["check_fit"]),
            groups=_groups(quantifier, scored, collected, settings),
            comparisons=_comparisons(quantifier, scored, collected, request, options),
            by=grouping.by,
            time=grouping.time,
            truth=_truth(quantifier, scored, options["label"]),
            title=options["title"] or f"Class prevalences in {Path(table).name}",
            settings=_settings(model, table, collected),
        )


def _named_after_classes(quantifier: AggregativeQuantifier, file: TableFile) -> list[str] | None:
    """Return the score columns of a model fitted on scores, where they are named as its classes."""
    labels = [str(label) for label in quantifier.classes_]
    fitted_on_scores = quantifier.n_features is None
    return labels if fitted_on_scores and set(labels) <= set(file.columns) else None


def _whole_estimate(
    quantifier: AggregativeQuantifier, collected: CollectedRows, limits: IntervalOptions
) -> Estimate:
    """Return the estimate of the whole table, with a note on values that training lacks."""
    import numpy as np

    from kdey.bags import as_bags
    from kdey.status import MOST_UNSEEN, UNSEEN_VALUES
    from kdey.tables.features import unseen_values_note

    n_rows = len(collected.rows)
    whole = as_bags([np.arange(n_rows)], n_rows)
    estimates = collected.rows.estimates(quantifier, whole, limits)
    note = unseen_values_note(collected.findings)
    if note is not None:
        share = collected.unseen.sum() / n_rows
        estimates = estimates.with_notes([note])
        estimates = estimates.marked(UNSEEN_VALUES, np.array([share > MOST_UNSEEN]))
    return estimates[0]


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
    quantifier: AggregativeQuantifier, scored: ScoredTable, label: str | None
) -> list[float] | None:
    """Return the share of each class among known labels."""
    if label is None:
        return None
    counts = scored.label_counts
    total = sum(counts.values())
    if total == 0:
        raise ValueError(f"label column {label!r} holds no labels")
    return [counts.get(name, 0) / total for name in quantifier.classes_.tolist()]


def _groups(
    quantifier: AggregativeQuantifier,
    scored: ScoredTable,
    collected: CollectedRows,
    settings: GroupSettings,
) -> list[dict[str, Any]] | None:
    """Return the table of groups as the report takes it; None without keys."""
    from kdey.groups import FileGroups
    from kdey.groups.answers import key_types

    n_groups = len(scored.keys)
    if not scored.keys.names:
        return None
    answers = collected.answers(quantifier, n_groups, settings)
    groups = FileGroups(scored.keys, answers, key_types(scored.first_keys)).table()
    return [row for row in groups.to_pylist() if row["n"]]


def _comparisons(
    quantifier: AggregativeQuantifier,
    scored: ScoredTable,
    collected: CollectedRows,
    request: GroupRequest,
    options: dict[str, Any],
) -> list[dict[str, Any]] | None:
    """Return the table of comparisons as the report takes it; None where none was asked for."""
    from dataclasses import replace

    from kdey.groups import compare_collected, find_pairs
    from kdey.groups.answers import key_types

    against = comparison_side(options["against"])
    if against is None:
        return None
    pairs = find_pairs(scored.keys, request.grouping, against)
    # The section on groups shows whether they fit.
    unchecked = replace(request, settings=replace(request.settings, check_fit=False))
    correction = None if options["correction"] == "none" else options["correction"]
    comparisons = compare_collected(
        quantifier, collected, scored.keys, pairs, unchecked, correction=correction
    )
    rows: list[dict[str, Any]] = comparisons.table(key_types(scored.first_keys)).to_pylist()
    return rows


def _settings(model: str, table: str, collected: CollectedRows) -> dict[str, Any]:
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
