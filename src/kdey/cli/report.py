"""``kdey report``: a model and a table in, one HTML page out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import check_output, guarded, names, say
from kdey.cli.options import group_options, grouping_of

if TYPE_CHECKING:
    from kdey.diagnostics import FitCheck
    from kdey.groups import Grouping, GroupKeys, GroupSettings, ScoredBatch
    from kdey.intervals import Estimate, IntervalOptions
    from kdey.quantifiers.aggregative import AggregativeQuantifier
    from kdey.report import Report
    from kdey.tables.columns import Frame
    from kdey.tables.files import TableFile

#: Groups beyond this number are not checked for fit one by one.
_MOST_CHECKED = 50


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
        check=scored.check(),
        groups=groups,
        by=grouping.by,
        time=grouping.time,
        truth=truth,
        title=options["title"] or f"Class prevalences in {Path(table).name}",
        settings=_settings(model, table, scored.batch),
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

    def check(self) -> FitCheck | bool:
        """Return the fit check by the fold models, if the quantifier has them.

        Otherwise return True, which asks the report to check the posteriors themselves.
        """
        import numpy as np

        from kdey.diagnostics import FitChecker
        from kdey.groups import ScoredRows

        rows = self.batch.rows
        if not isinstance(rows, ScoredRows) or rows.fold_posteriors is None:
            return True
        checker = FitChecker.fit(self.quantifier, held=True)
        return checker.check_points(rows.fold_posteriors, None, np.random.default_rng(0))


def _read(
    model: str,
    file: TableFile,
    grouping: Grouping,
    limits: IntervalOptions,
    options: dict[str, Any],
) -> tuple[_Scored, list[float] | None, list[dict[str, Any]] | None]:
    """Return the scored table, the shares of its labels and its groups; errors name the file."""
    from kdey import load
    from kdey.groups import BatchReader, GroupKeys, GroupSettings, Scorer
    from kdey.tables.files import TableError

    quantifier = load(model)
    frame = file.read(grouping.names)
    score_columns = names(options["scores"]) or _named_after_classes(quantifier, frame)
    try:
        scorer = Scorer.of(
            quantifier, score_columns, options["missing"], check_fit=True, decimal=file.decimal
        )
        keys = GroupKeys(grouping.names)
        reader = BatchReader(scorer, grouping, label=options["label"])
        batch = reader.batch(frame, keys, file.first_row)
        scored = _Scored(quantifier, keys, batch)
        truth = _truth(quantifier, frame, options["label"], file.first_row)
        groups = _groups(scored, GroupSettings(limits, options["min_size"]))
    except ValueError as error:
        raise TableError(f"{file.name}: {error}") from error
    return scored, truth, groups


def _named_after_classes(quantifier: AggregativeQuantifier, frame: Frame) -> list[str] | None:
    """Return the score columns of a model fitted on scores, where they are named as its classes."""
    labels = [str(label) for label in quantifier.classes_]
    fitted_on_scores = quantifier.n_features is None
    return labels if fitted_on_scores and set(labels) <= set(frame.columns) else None


def _truth(
    quantifier: AggregativeQuantifier, frame: Frame, label: str | None, first: int = 1
) -> list[float] | None:
    """Return the share of each class among known labels."""
    if label is None:
        return None
    from kdey.tables.training import labels_seen

    schema = quantifier.table_schema
    label_type = "auto" if schema is None else schema.label_type
    labels = labels_seen(frame, label, quantifier.classes_, first, label_type)
    if len(labels) == 0:
        raise ValueError(f"label column {label!r} holds no labels")
    return [float((labels == name).mean()) for name in quantifier.classes_]


def _groups(scored: _Scored, settings: GroupSettings) -> list[dict[str, Any]] | None:
    """Return the table of groups as the report takes it; None without keys."""
    from kdey.groups import FileGroups, ScoredRows, estimate_groups
    from kdey.groups.answers import key_types

    keys, batch = scored.keys, scored.batch
    if not keys.names:
        return None
    check = (
        isinstance(batch.rows, ScoredRows)
        and len(keys) <= _MOST_CHECKED
        and _keeps_posteriors(scored.quantifier)
    )
    answers = estimate_groups(
        scored.quantifier,
        batch.rows,
        batch.usable_codes,
        len(keys),
        replace(settings, check_fit=check),
        missing=batch.missing(len(keys)),
    )
    groups = FileGroups(keys, answers, key_types(batch.keys)).table()
    return [row for row in groups.to_pylist() if row["n"]]


def _keeps_posteriors(quantifier: AggregativeQuantifier) -> bool:
    from kdey.report.classifier import kept_training

    training = kept_training(quantifier)
    return training is not None and training.posteriors is not None


def _settings(model: str, table: str, batch: ScoredBatch) -> dict[str, Any]:
    """Return what a reader needs to make the page again."""
    import shlex
    import sys

    settings: dict[str, Any] = {"Command": shlex.join(["kdey", *sys.argv[1:]])}
    left_out, unseen = int((~batch.usable).sum()), batch.rows.unseen
    if left_out:
        settings["Rows left out"] = f"{left_out:,} with a missing value"
    if unseen is not None:
        settings["Values that training lacks"] = "; ".join(map(str, unseen.findings))
    for path in (Path(model), Path(table)):
        if path.exists():
            settings[f"SHA-256 of {path.name}"] = _digest(path)
    return settings


def _digest(path: Path) -> str:
    import hashlib

    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
