"""``kdey compare``: how the groups or periods of a table differ, by a model file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import check_table_output, deliver, guarded, output_options, say
from kdey.cli.design import request_of
from kdey.cli.options import comparison_options, comparison_side, group_options
from kdey.cli.reading import open_table

if TYPE_CHECKING:
    import pyarrow as pa


#: Findings that are named on standard error; the table has all of them.
_MOST_NAMED = 5


@click.command()
@click.argument("model")
@click.argument("table")
@group_options
@comparison_options
@click.option("--jobs", default=-1, show_default=True, help="Threads; -1: all cores.")
@output_options
@guarded
def compare(model: str, table: str, **options: Any) -> None:
    """Compare the groups or periods of TABLE by MODEL, to see whether something changed.

    Differences and ratios have limits of their own; adjusted p-values allow for the number of tests
    in the table. Errors that groups share, because the same training data are behind them, cancel.
    """
    check_table_output(options)
    against = comparison_side(options["against"]) or "previous"
    compared = _compare(model, table, against, options)
    deliver(compared, options["format"], options["output"])
    _say_findings(compared, options["correction"])


def _compare(
    model: str, table: str, against: str | dict[str, str], options: Mapping[str, Any]
) -> pa.Table:
    from kdey import load
    from kdey.groups import compare_scored, score

    quantifier = load(model).set_params(n_jobs=options["jobs"])
    correction = None if options["correction"] == "none" else options["correction"]
    request = request_of(options, quantifier.classes_)
    scored = score(quantifier, open_table(table, options), request)
    return compare_scored(quantifier, scored, request, against, correction).to_frame("pyarrow")


def _say_findings(table: pa.Table, correction: str) -> None:
    """Say how many differences are findings at 5 %, and the clearest of them."""
    rows = [row for row in table.to_pylist() if row["adjusted_p_value"] <= 0.05]
    keys = table.column_names[: table.column_names.index("against")]
    rows.sort(key=lambda row: row["adjusted_p_value"])
    how = "" if correction == "none" else f" ({correction})"
    say(f"{len(rows)} of {table.num_rows} differences have an adjusted p-value up to 0.05{how}")
    for row in rows[:_MOST_NAMED]:
        group = ", ".join(f"{key}={row[key]}" for key in keys)
        say(
            f"  {group} against {row['against']}: {row['class']} {100 * row['difference']:+.1f} "
            f"points ({100 * row['low']:+.1f} to {100 * row['high']:+.1f})"
        )
