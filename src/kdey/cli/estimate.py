"""``kdey estimate``: prevalences of a table, or of its groups, by a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import check_table_output, deliver, guarded, names, output_options, say
from kdey.cli.options import group_options, grouping_of
from kdey.cli.reading import open_table

if TYPE_CHECKING:
    from kdey.groups import FileGroups
    from kdey.groups.answers import GroupAnswers


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

    TABLE is CSV (also gzipped), Parquet or Excel, - for standard input; CSV and Parquet are read in
    batches and may be larger than memory. Columns are found by name.
    """
    check_table_output(options)
    groups = _estimate_groups(model, table, options)
    deliver(groups.table(options["wide"]), options["format"], options["output"])
    answers = groups.answers
    _report_problems(answers)
    if options["fail_on_misfit"] and answers.misfits:
        say(f"{answers.misfits} of {len(answers)} groups do not fit the training classes")
        raise click.exceptions.Exit(1)


def _estimate_groups(model: str, table: str, options: dict[str, Any]) -> FileGroups:
    from kdey import load
    from kdey._support.progress import progress
    from kdey.groups import GroupSettings, estimate_file
    from kdey.groups.answers import check_key_names
    from kdey.intervals import IntervalOptions

    quantifier = load(model).set_params(n_jobs=options["jobs"])
    grouping = grouping_of(options)
    check_key_names(grouping.names, quantifier.classes_, options["wide"])
    limits = IntervalOptions(options["confidence"], options["target"])
    check = options["check_fit"] or options["fail_on_misfit"]
    settings = GroupSettings(limits, options["min_size"], check, options["level"])
    file = open_table(table, options)
    # Reading and solving each count a row once.
    with progress(2 * (file.n_rows or 0), "rows", "auto" if file.n_rows else False) as shown:
        return estimate_file(
            quantifier,
            file,
            grouping,
            settings,
            scores=names(options["scores"]) or None,
            missing=options["missing"],
            on_batch=shown.advance,
            on_run=shown.advance,
        )


def _report_problems(answers: GroupAnswers) -> None:
    """Say how many groups have a problem, and which."""
    from collections import Counter

    counts = Counter(part for status in answers.status for part in status.split("; "))
    problems = [f"{n} {part}" for part, n in counts.items() if part != "ok"]
    if problems:
        say(f"{len(answers)} groups: {', '.join(problems)}")
