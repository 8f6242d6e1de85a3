"""Labelled tables on the command line: the options that say which column is what."""

from __future__ import annotations

from typing import Any

import click

from kdey.cli.common import names, say


def label_options(command: Any) -> Any:
    """Give a command the options of a labelled table."""
    for option in (
        click.option(
            "--missing",
            type=click.Choice(["error", "drop"]),
            default="error",
            show_default=True,
            help="Rows with a missing value: refuse them, or leave them out.",
        ),
        click.option("--ignore", multiple=True, help="Columns to leave out; repeat, or commas."),
        click.option("--features", multiple=True, help="Columns to use. Default: all others."),
        click.option("--label", required=True, help="Column of the classes."),
    ):
        command = option(command)
    return command


def read_labelled(
    table: str,
    label: str,
    features: tuple[str, ...],
    ignore: tuple[str, ...],
    missing: str,
    scores: tuple[str, ...] = (),
) -> Any:
    """Return the training data of a table; errors name the file."""
    from kdey.tables.reading import TableError, TableFile
    from kdey.tables.training import training_table

    file = TableFile.open(table)
    frame = file.read()
    try:
        made = training_table(
            frame,
            label,
            features=names(features),
            ignore=names(ignore),
            scores=names(scores),
            missing=missing,
        )
    except ValueError as error:
        raise TableError(f"{file.name}: {error}") from error
    if made.dropped:
        say(f"{file.name}: {made.dropped} rows with missing values left out")
    return made
