"""``kdey report``: a model and a table in, one HTML page out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import check_output, guarded, names, say
from kdey.cli.options import group_options, grouping_of

if TYPE_CHECKING:
    from kdey.fitted import FittedQuantifier
    from kdey.groups import GroupKeys, ScoredBatch
    from kdey.groups.scoring import GroupRows
    from kdey.intervals import Estimate, IntervalOptions
    from kdey.tables.layout import Frame

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


def _make(model: str, table: str, options: dict[str, Any]) -> Any:
    """Return the report."""
    from kdey import load
    from kdey.groups import BatchReader, GroupKeys, Scorer
    from kdey.intervals import IntervalOptions
    from kdey.report import make_report
    from kdey.tables.files import TableError, TableFile
    from kdey.tables.layout import TableLayout

    quantifier, file = load(model), TableFile.open(table)
    limits = IntervalOptions(options["confidence"])
    layout = TableLayout.of(quantifier)
    frame = file.read(() if layout is None else list(layout.texts or {}))
    grouping = grouping_of(options)
    scores = names(options["scores"]) or _named_after_classes(quantifier, frame)
    try:
        scorer = Scorer.of(quantifier, scores, options["missing"], check_fit=True)
        keys = GroupKeys(grouping.names)
        batch = BatchReader(scorer, grouping, label=options["label"]).batch(frame, keys)
        truth = _truth(quantifier, frame, options["label"])
        groups = _groups(quantifier, keys, batch, limits, options["min_size"])
    except ValueError as error:
        raise TableError(f"{file.name}: {error}") from error
    if not batch.usable.any():
        raise TableError(f"{file.name}: no row without a missing value")
    return make_report(
        _estimate(quantifier, batch.rows, limits),
        quantifier=quantifier,
        check=_check(quantifier, batch.rows),
        groups=groups,
        by=grouping.by,
        time=grouping.time,
        truth=truth,
        title=options["title"] or f"Class prevalences in {Path(table).name}",
        settings=_settings(model, table, int((~batch.usable).sum())),
    )


def _named_after_classes(quantifier: FittedQuantifier, frame: Frame) -> list[str] | None:
    """Return the score columns of a model fitted on scores, where they are named as its classes."""
    labels = [str(label) for label in quantifier.classes_]
    fitted_on_scores = quantifier.n_features is None
    return labels if fitted_on_scores and set(labels) <= set(frame.columns) else None


def _truth(quantifier: FittedQuantifier, frame: Frame, label: str | None) -> list[float] | None:
    """Return the share of each class among known labels."""
    if label is None:
        return None
    from kdey.tables.layout import require
    from kdey.tables.training import labels_seen

    require(frame, [label], "label column")
    given = labels_seen(frame, label, quantifier.classes_)
    if len(given) == 0:
        raise ValueError(f"label column {label!r} holds no labels")
    return [float((given == one).mean()) for one in quantifier.classes_]


def _groups(
    quantifier: FittedQuantifier,
    keys: GroupKeys,
    batch: ScoredBatch,
    limits: IntervalOptions,
    min_size: int,
) -> list[dict[str, Any]] | None:
    """Return the table of groups as the report takes it; None without keys."""
    from kdey.groups import FileGroups, GroupSettings, estimate_groups
    from kdey.groups.answers import key_types

    if not keys.names:
        return None
    check = len(keys) <= _MOST_CHECKED and _keeps_training(quantifier)
    settings = GroupSettings(limits, min_size, check_fit=check)
    answers = estimate_groups(
        quantifier,
        batch.rows,
        batch.usable_codes,
        len(keys),
        settings,
        missing=batch.missing(len(keys)),
    )
    table = FileGroups(keys, answers, key_types(batch.keys)).table()
    return [row for row in table.to_pylist() if row["n"]]


def _estimate(quantifier: FittedQuantifier, rows: GroupRows, limits: IntervalOptions) -> Estimate:
    """Return the estimate of the whole table."""
    import numpy as np

    from kdey.bags import Bags

    whole = Bags.from_indices([np.arange(len(rows))], len(rows))
    return rows.estimates(quantifier, whole, limits)[0]


def _check(quantifier: FittedQuantifier, rows: GroupRows) -> Any:
    """Return the fit check by the fold models, where there are any.

    True in the place of a check: it is made from the posteriors themselves.
    """
    import numpy as np

    from kdey.diagnostics import FitChecker
    from kdey.groups import ScoredRows

    if not isinstance(rows, ScoredRows) or rows.fold_posteriors is None:
        return True
    checker = FitChecker.fit(quantifier, held=True)
    return checker.check_points(rows.fold_posteriors, None, np.random.default_rng(0))


def _keeps_training(quantifier: FittedQuantifier) -> bool:
    model = quantifier.interval_model() if quantifier.takes_posteriors else None
    return model is not None and model.is_learnt


def _settings(model: str, table: str, left_out: int) -> dict[str, Any]:
    """Return what a reader needs to make the page again."""
    import shlex
    import sys

    made: dict[str, Any] = {"Command": shlex.join(["kdey", *sys.argv[1:]])}
    if left_out:
        made["Rows left out"] = f"{left_out:,} with a missing value"
    for path in (Path(model), Path(table)):
        if path.exists():
            made[f"SHA-256 of {path.name}"] = _digest(path)
    return made


def _digest(path: Path) -> str:
    import hashlib

    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
