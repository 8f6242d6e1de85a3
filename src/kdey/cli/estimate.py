"""``kdey estimate``: prevalences of a table, or of its groups, by a model file."""

from __future__ import annotations

from typing import Any

import click

from kdey.cli.common import check_table_output, deliver, guarded, names, output_options, say
from kdey.cli.options import group_options, grouping_of


@click.command()
@click.argument("model")
@click.argument("table")
@group_options
@click.option(
    "--target",
    type=click.Choice(["population", "bag"]),
    default="population",
    show_default=True,
    help="Limits for the population behind a group, or for this very group.",
)
@click.option("--wide", is_flag=True, help="One row per group instead of one per group and class.")
@click.option("--check-fit", is_flag=True, help="Ask if groups look like mixtures of training.")
@click.option("--level", default=0.01, show_default=True, help="Fit p-values up to it are poor.")
@click.option(
    "--fail-on-misfit", is_flag=True, help="Check the fit; exit with code 1 where it is poor."
)
@click.option("--jobs", default=-1, show_default=True, help="Threads; -1: all cores.")
@output_options
@guarded
def estimate(model: str, table: str, **options: Any) -> None:
    """Estimate the prevalences of TABLE by MODEL, with limits.

    TABLE is CSV (also gzipped) or Parquet, - for standard input; Parquet is read in batches and
    may be larger than memory. Columns are found by name.
    """
    check_table_output(options)
    made = _estimated(model, table, options)
    deliver(made.table(options["wide"]), options["format"], options["output"])
    _tell(made.answers)
    if options["fail_on_misfit"] and made.answers.misfits:
        say(f"{made.answers.misfits} of {len(made.answers)} groups do not fit the training classes")
        raise click.exceptions.Exit(1)


def _estimated(model: str, table: str, options: dict[str, Any]) -> Any:
    from kdey import load
    from kdey._support.progress import progress
    from kdey.groups import GroupSettings, estimate_file
    from kdey.intervals import IntervalOptions
    from kdey.tables.files import TableFile

    quantifier = load(model).set_params(n_jobs=options["jobs"])
    limits = IntervalOptions(options["confidence"], options["target"])
    check = options["check_fit"] or options["fail_on_misfit"]
    settings = GroupSettings(limits, options["min_size"], check, options["level"])
    file = TableFile.open(table)
    # Reading and solving each count a row once.
    with progress(2 * (file.n_rows or 0), "rows", "auto" if file.n_rows else False) as shown:
        return estimate_file(
            quantifier,
            file,
            grouping_of(options),
            settings,
            scores=names(options["scores"]) or None,
            missing=options["missing"],
            on_batch=shown.advance,
            on_run=shown.advance,
        )


def _tell(answers: Any) -> None:
    """Say how many groups have something the matter with them."""
    from collections import Counter

    counts = Counter(part for one in answers.status for part in one.split("; "))
    told = [f"{n} {status}" for status, n in counts.items() if status != "ok"]
    if told:
        say(f"{len(answers)} groups: {', '.join(told)}")
