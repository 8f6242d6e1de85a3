"""The options that say how a table is written, and the table that they open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import Command, names, say

if TYPE_CHECKING:
    from kdey.tables.files import TableFile


def reading_options(command: Command) -> Command:
    """Give a command the options that say how its table is written."""
    for option in reversed(
        (
            click.option(
                "--encoding",
                default="auto",
                show_default=True,
                help="Of a text file, such as utf-8 or cp1252.",
            ),
            click.option(
                "--separator",
                default="auto",
                show_default=True,
                help="Of the columns of a text file: , ; | tab or another character.",
            ),
            click.option(
                "--decimal",
                type=click.Choice(["auto", ".", ","]),
                default="auto",
                show_default=True,
                help="Decimal mark of numbers that are written as text.",
            ),
            click.option(
                "--date-format",
                default="auto",
                show_default=True,
                help="Of dates that are written as text, such as %d.%m.%Y; auto: ISO 8601, or "
                "what the column shows beyond doubt.",
            ),
            click.option(
                "--sheet", default="auto", help="Of an Excel file: name, or number from 1."
            ),
            click.option(
                "--missing-values",
                multiple=True,
                help="Texts that mean a missing value in all columns but the keys, beside the "
                "empty cell; repeat, or commas.",
            ),
        )
    ):
        command = option(command)
    return command


def open_table(path: str, options: Mapping[str, Any]) -> TableFile:
    """Return the table at a path by the options of :func:`reading_options`.

    What had to be assumed about it is said on standard error.
    """
    from kdey.tables.dialect import ReadOptions
    from kdey.tables.files import TableFile

    file = TableFile.open(
        path,
        ReadOptions(
            options["encoding"],
            options["separator"],
            options["decimal"],
            options["date_format"],
            options["sheet"],
            tuple(names(options["missing_values"])),
        ),
    )
    for note in file.notes:
        say(f"{file.name}: {note}")
    return file
