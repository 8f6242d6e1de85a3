"""``kdey check``: what the columns of a labelled table are taken for, before anything is fitted."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from kdey._display import count_of
from kdey.cli.common import guarded, printable
from kdey.cli.options import (
    label_options,
    make_classifier,
    make_method,
    table_options,
)
from kdey.cli.reading import open_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdey.tables.schema import Column, TableSchema
    from kdey.tables.training import TrainingTable

#: Width of the screen, lines for columns, and rows of the quick fit.
WIDTH, MOST_COLUMNS, MOST_ROWS = 80, 12, 2000


@click.command()
@click.argument("table")
@label_options
@click.option("--fit/--no-fit", "quick_fit", default=True, help="Try a quick fit as well.")
@click.option("--seed", default=0, show_default=True, help="Of the rows of the quick fit.")
@guarded
def check(table: str, **options: Any) -> None:
    """Show what the columns of a labelled TABLE are taken for, and why.

    Ids, dates, constant columns and copies of others are not used; rare classes are named. A quick
    fit then shows how well the classes can be told apart. Exit code 1: kdey fit would refuse the
    table as it is.
    """
    from kdey.tables.training import survey_table, training_table

    file = open_table(table, options)
    frame = file.read()
    reading = table_options(options, file)
    columns, problems = survey_table(frame, reading, file.first_row)
    _print(f"{file.name}: {len(frame):,} rows, {len(frame.columns)} columns")
    _print_columns(columns)
    try:
        training = training_table(frame, reading, file.first_row)
    except ValueError as error:
        problems.append(str(error))
    for problem in dict.fromkeys(problems):
        _print(f"refused: {problem}")
    if problems:
        raise click.exceptions.Exit(1)
    _print_classes(training)
    if options["quick_fit"]:
        _print_quick_fit(training, options["seed"])


def _print(text: str) -> None:
    for line in textwrap.wrap(printable(text), WIDTH, subsequent_indent="  "):
        click.echo(line)


def _print_columns(columns: Sequence[Column]) -> None:
    """Print one line per column, those that are not plain features first."""
    ordered = sorted(columns, key=_is_plain)
    width = min(24, max(len(column.name) for column in columns))
    for column in ordered[:MOST_COLUMNS]:
        role = column.kind if column.role == "feature" else column.role
        line = f"  {_cut(column.name, width):{width}}  {role:8}  {_reason(column)}"
        click.echo(_cut(printable(line), WIDTH))
    rest = ordered[MOST_COLUMNS:]
    if rest:
        features = [column for column in rest if column.role == "feature"]
        kinds = ", ".join(sorted({column.kind for column in features}))
        parts = [f"{len(features)} as {kinds}"] if features else []
        if len(features) < len(rest):
            parts.append(f"{len(rest) - len(features)} that are not features")
        click.echo(f"  ... and {len(rest)} more columns: {', '.join(parts)}")


def _is_plain(column: Column) -> bool:
    return column.role == "feature" and column.kind == "number" and not column.n_missing


def _reason(column: Column) -> str:
    if column.role == "feature" and column.n_missing:
        return f"{column.n_missing:,} missing; {column.reason}"
    return column.reason


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _print_classes(training: TrainingTable) -> None:
    import numpy as np

    from kdey.tables.training import similar_labels

    classes, counts = np.unique(training.y, return_counts=True)
    order = np.argsort(counts, kind="stable")
    shown = ", ".join(f"{classes[i]} {counts[i]:,}" for i in order[:8])
    more = f", and {len(classes) - 8} more" if len(classes) > 8 else ""
    kind = "integers" if classes.dtype.kind == "i" else "text"
    _print(f"{len(classes)} classes ({kind}), the rarest first: {shown}{more}")
    for sentence in similar_labels(classes):
        _print(sentence)
    if training.unlabelled:
        _print(f"{count_of(training.unlabelled, 'row')} without a label left out")
    if training.dropped:
        _print(f"{count_of(training.dropped, 'row')} with missing values left out")


def _print_quick_fit(training: TrainingTable, seed: int) -> None:
    """Fit logistic regression and PACC on some rows, and print how well they do."""
    from kdey.evaluation.training_summary import TrainingSummary

    X, y = _some_rows(training, seed)
    quantifier = make_method("pacc", _classification(training.schema, seed), {}, seed, 1)
    summary = TrainingSummary.of(quantifier.fit(X, y), seed)
    rows = "" if len(y) == len(training.y) else f", {len(y):,} of the rows"
    _print(f"quick fit (logistic regression, PACC{rows}):")
    for sentence in summary.sentences():
        _print(f"- {sentence}")


def _classification(schema: TableSchema, seed: int) -> dict[str, Any]:
    return {"classifier": make_classifier("logistic", {}, seed, schema)}


def _some_rows(training: TrainingTable, seed: int) -> tuple[Any, Any]:
    """Return at most ``MOST_ROWS`` rows, the same share of every class but ten at least."""
    import numpy as np

    share = MOST_ROWS / len(training.y)
    if share >= 1.0:
        return training.X, training.y
    rng = np.random.default_rng(seed)
    parts = []
    for label in np.unique(training.y):
        rows = rng.permutation(np.flatnonzero(training.y == label))
        parts.append(rows[: max(10, round(share * len(rows)))])
    chosen = np.sort(np.concatenate(parts))
    return training.X[chosen], training.y[chosen]
