"""Tables by group on the command line: the options that say what the groups are."""

from __future__ import annotations

from typing import Any

import click

from kdey.cli.common import names


def group_options(command: Any) -> Any:
    """Give a command the options of groups, scores, limits and missing values."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def grouping_of(options: dict[str, Any]) -> Any:
    """Return the ``Grouping`` that the options ask for."""
    from kdey.groups import Grouping

    return Grouping(tuple(names(options["by"])), options["time"], options["every"])


_OPTIONS = (
    click.option("--by", multiple=True, help="Key columns of the groups; repeat, or commas."),
    click.option("--time", help="Column of dates or times: one more, last key."),
    click.option("--every", help="Period that times are cut down to: 1d, 1w, 1mo, 1q, 1y, 6h ..."),
    click.option("--scores", multiple=True, help="Columns of posteriors in the place of features."),
    click.option("--confidence", default=0.95, show_default=True),
    click.option("--min-size", default=10, show_default=True, help="Below it: 'too small'."),
    click.option(
        "--missing",
        type=click.Choice(["error", "drop"]),
        default="error",
        show_default=True,
        help="Rows with a missing value: refuse them, or leave them out and count them.",
    ),
)
