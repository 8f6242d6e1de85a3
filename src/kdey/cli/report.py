"""``kdey report``: a model and a table in, one HTML page out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kdey.cli.common import check_output, guarded, names, say
from kdey.cli.options import group_options, grouping_of

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
    from kdey.groups import Scorer
    from kdey.intervals import IntervalOptions
    from kdey.report import make_report
    from kdey.tables.files import TableError, TableFile
    from kdey.tables.layout import TableLayout

    quantifier, file = load(model), TableFile.open(table)
    limits = IntervalOptions(options["confidence"])
    layout = TableLayout.of(quantifier)
    frame = file.read(() if layout is None else list(layout.texts or {}))
    grouping = grouping_of(options)
    given = names(options["scores"]) or _named_after_classes(quantifier, frame)
    try:
        scorer = Scorer.of(quantifier, given, options["missing"], check_fit=True)
        no_features = (*grouping.names, *filter(None, [options["label"]]))
        points, usable = scorer.points(frame, no_features)
        truth = _truth(quantifier, frame, options["label"])
        groups = _groups(quantifier, frame, points, usable, grouping, limits, options, scorer)
    except ValueError as error:
        raise TableError(f"{file.name}: {error}") from error
    if not usable.any():
        raise TableError(f"{file.name}: no row without a missing value")
    run = quantifier.estimate_posteriors if scorer.on_posteriors else quantifier.estimate
    own, check = _checked(quantifier, points, scorer)
    return make_report(
        run(own, **vars(limits)),
        quantifier=quantifier,
        check=check,
        groups=groups,
        by=grouping.by,
        time=grouping.time,
        truth=truth,
        title=options["title"] or f"Class prevalences in {Path(table).name}",
        settings=_settings(model, table, int((~usable).sum())),
    )


def _named_after_classes(quantifier: Any, frame: Any) -> list[str] | None:
    """Return the score columns of a model fitted on scores, where they are named as its classes."""
    labels = [str(label) for label in quantifier.classes_]
    fitted_on_scores = not hasattr(quantifier, "n_features_in_")
    return labels if fitted_on_scores and set(labels) <= set(frame.columns) else None


def _truth(quantifier: Any, frame: Any, label: str | None) -> list[float] | None:
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
    quantifier: Any,
    frame: Any,
    points: Any,
    usable: Any,
    grouping: Any,
    limits: Any,
    options: dict[str, Any],
    scorer: Any,
) -> Any:
    """Return the table of groups as the report takes it; None without keys."""
    from kdey.groups import FileGroups, GroupKeys, GroupSettings, estimate_groups
    from kdey.groups.file import key_types

    if not grouping.names:
        return None
    keys = GroupKeys(grouping.names)
    codes = grouping.encode(frame, keys)
    import numpy as np

    check = scorer.on_posteriors and len(keys) <= _MOST_CHECKED and _keeps_training(quantifier)
    settings = GroupSettings(limits, options["min_size"], check_fit=check)
    lost = np.bincount(codes[~usable], minlength=len(keys))
    answers = estimate_groups(
        quantifier, points, codes[usable], len(keys), settings, missing=lost.astype(np.int64)
    )
    made = FileGroups(keys, answers, key_types(grouping.keys(frame))).table()
    return [row for row in made.to_pylist() if row["n"]]


def _checked(quantifier: Any, points: Any, scorer: Any) -> tuple[Any, Any]:
    """Return the classifier's posteriors and the fit check by the fold models, where they are.

    True in the place of a check: it is made from the posteriors themselves.
    """
    if not scorer.folds:
        return points, True
    import numpy as np

    from kdey.diagnostics import FitChecker

    k = len(quantifier.classes_)
    checker = FitChecker.fit(quantifier, held=True)
    return points[:, :k], checker.check_points(points[:, k:], None, np.random.default_rng(0))


def _keeps_training(quantifier: Any) -> bool:
    training = getattr(quantifier, "training_", None)
    return getattr(training, "posteriors", None) is not None


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
