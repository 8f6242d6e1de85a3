"""``kdey report``: a model and a table in, one HTML page out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import check_output, guarded, names, say
from kdey.cli.options import group_options, grouping_of

if TYPE_CHECKING:
    from kdey.diagnostics import FitCheck, NotChecked
    from kdey.groups import Grouping, GroupKeys, GroupSettings, ScoredBatch
    from kdey.intervals import Estimate, IntervalOptions
    from kdey.quantifiers.aggregative import AggregativeQuantifier
    from kdey.report import Report
    from kdey.tables.files import TableFile
    from kdey.tables.layout import Frame


@click.command()
@click.argument("model")
@click.argument("table")
@group_options
@click.option("--label", help="Column of known labels, shown beside the estimates.")
@click.option("--title", help="Heading of the page.")
@click.option("-o", "--output", default="report.html", show_default=True, help="File to write.")
@guarded
def report(model: str, table: str, **options: Any) -> None:
    """Estimate the prevalences of TABLE by MODEL and write one HTML page.

    TABLE is CSV (also gzipped) or Parquet. The page needs nothing but a browser, and no network.
    """
    check_output(options["output"])
    _make(model, table, options).write(options["output"])
    say(f"wrote {options['output']}")


def _make(model: str, table: str, options: dict[str, Any]) -> Report:
    """Return the report."""
    from kdey.intervals import IntervalOptions
    from kdey.report import make_report
    from kdey.tables.files import TableError, TableFile

    file, limits = TableFile.open(table), IntervalOptions(options["confidence"])
    grouping = grouping_of(options)
    scored, truth, groups = _read(model, file, grouping, limits, options)
    if not scored.batch.usable.any():
        raise TableError(f"{file.name}: no row without a missing value")
    return make_report(
        scored.estimate(limits),
        quantifier=scored.quantifier,
        check=scored.check(options["check_fit"]),
        groups=groups,
        by=grouping.by,
        time=grouping.time,
        truth=truth,
        title=options["title"] or f"Class prevalences in {Path(table).name}",
        settings=_settings(model, table, int((~scored.batch.usable).sum())),
    )


@dataclass(frozen=True, eq=False)
class _Scored:
    """A table of which every row is scored and numbered by group."""

    quantifier: AggregativeQuantifier
    keys: GroupKeys
    batch: ScoredBatch

    def estimate(self, limits: IntervalOptions) -> Estimate:
        """Return the estimate of the whole table."""
        import numpy as np

        from kdey.bags import as_bags

        n_rows = len(self.batch.rows)
        whole = as_bags([np.arange(n_rows)], n_rows)
        return self.batch.rows.estimates(self.quantifier, whole, limits)[0]

    def check(self, wanted: bool) -> FitCheck | NotChecked:
        """Return the fit check of the whole table, or why there is none."""
        from kdey.diagnostics import NotChecked, full_check, unchecked_reason
        from kdey.groups import ScoredRows
        from kdey.status import TURNED_OFF

        reason = unchecked_reason(self.quantifier) if wanted else TURNED_OFF
        rows = self.batch.rows
        if reason is not None or not isinstance(rows, ScoredRows):
            return NotChecked(reason or "the rows have no posteriors")
        by_folds = rows.fold_posteriors is not None
        return full_check(self.quantifier, rows.checked_posteriors, by_folds=by_folds)


def _read(
    model: str,
    file: TableFile,
    grouping: Grouping,
    limits: IntervalOptions,
    options: dict[str, Any],
) -> tuple[_Scored, list[float] | None, list[dict[str, Any]] | None]:
    """Return the scored table, the shares of its labels and its groups; errors name the file."""
    from pyarrow import default_memory_pool

    from kdey import load
    from kdey.groups import BatchReader, GroupKeys, GroupSettings, Scorer
    from kdey.tables.files import TableError
    from kdey.tables.layout import TableLayout

    quantifier = load(model)
    layout = TableLayout.of(quantifier)
    frame = file.read(() if layout is None else list(layout.texts or {}))
    score_columns = names(options["scores"]) or _named_after_classes(quantifier, frame)
    try:
        check = options["check_fit"]
        scorer = Scorer.of(quantifier, score_columns, options["missing"], check)
        keys = GroupKeys(grouping.names)
        batch = BatchReader(scorer, grouping, label=options["label"]).batch(frame, keys)
        scored = _Scored(quantifier, keys, batch)
        truth = _truth(quantifier, frame, options["label"])
        del frame  # estimates need the memory more, which pyarrow would hold on to
        default_memory_pool().release_unused()
        groups = _groups(scored, GroupSettings(limits, options["min_size"], check))
    except ValueError as error:
        raise TableError(f"{file.name}: {error}") from error
    return scored, truth, groups


def _named_after_classes(quantifier: AggregativeQuantifier, frame: Frame) -> list[str] | None:
    """Return the score columns of a model fitted on scores, where they are named as its classes."""
    labels = [str(label) for label in quantifier.classes_]
    fitted_on_scores = quantifier.n_features is None
    return labels if fitted_on_scores and set(labels) <= set(frame.columns) else None


def _truth(
    quantifier: AggregativeQuantifier, frame: Frame, label: str | None
) -> list[float] | None:
    """Return the share of each class among known labels."""
    if label is None:
        return None
    from kdey.tables.layout import require
    from kdey.tables.training import labels_seen

    require(frame, [label], "label column")
    labels = labels_seen(frame, label, quantifier.classes_)
    if len(labels) == 0:
        raise ValueError(f"label column {label!r} holds no labels")
    return [float((labels == name).mean()) for name in quantifier.classes_]


def _groups(scored: _Scored, settings: GroupSettings) -> list[dict[str, Any]] | None:
    """Return the table of groups as the report takes it; None without keys."""
    from kdey.groups import FileGroups, estimate_groups
    from kdey.groups.answers import key_types

    keys, batch = scored.keys, scored.batch
    if not keys.names:
        return None
    answers = estimate_groups(
        scored.quantifier,
        batch.rows,
        batch.usable_codes,
        len(keys),
        settings,
        missing=batch.missing(len(keys)),
    )
    groups = FileGroups(keys, answers, key_types(batch.keys)).table()
    return [row for row in groups.to_pylist() if row["n"]]


def _settings(model: str, table: str, left_out: int) -> dict[str, Any]:
    """Return what a reader needs to make the page again."""
    import shlex
    import sys

    settings: dict[str, Any] = {"Command": shlex.join(["kdey", *sys.argv[1:]])}
    if left_out:
        settings["Rows left out"] = f"{left_out:,} with a missing value"
    for path in (Path(model), Path(table)):
        if path.exists():
            settings[f"SHA-256 of {path.name}"] = _digest(path)
    return settings


def _digest(path: Path) -> str:
    import hashlib

    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
