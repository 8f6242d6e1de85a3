"""``kdey estimate``: prevalences of a table, or of its groups, by a model file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import check_table_output, deliver, guarded, output_options, say
from kdey.cli.design import labelled_options, request_of, survey_options
from kdey.cli.exit_codes import PROBLEMS
from kdey.cli.options import group_options
from kdey.cli.reading import open_table
from kdey.status import FEW_LABELS, OK, POOR_FIT, status_parts

if TYPE_CHECKING:
    from kdey.intervals import Estimates
    from kdey.quantifiers.aggregative import AggregativeQuantifier


#: Groups that are named on standard error for each problem; the table has all of them.
_MOST_NAMED = 5


@click.command()
@click.argument("model")
@click.argument("table")
@group_options
@labelled_options
@survey_options
@click.option(
    "--target",
    type=click.Choice(["population", "bag"]),
    default="population",
    show_default=True,
    help="Limits for the population behind a group, or for this very group.",
)
@click.option("--shrink", is_flag=True, help="Small groups lean on the others.")
@click.option(
    "--shrink-within",
    metavar="KEY",
    help="Groups lean on those with the same value of this key column, and these on all.",
)
@click.option("--smooth", is_flag=True, help="Periods (--time) lean on their neighbours.")
@click.option("--wide", is_flag=True, help="One row per group instead of one per group and class.")
@click.option("--level", default=0.01, show_default=True, help="Fit p-values up to it are poor.")
@click.option("--fail-on-misfit", is_flag=True, help="Exit with code 1 where a group does not fit.")
@click.option("--jobs", default=-1, show_default=True, help="Threads; -1: all cores.")
@output_options
@guarded
def estimate(model: str, table: str, **options: Any) -> None:
    """Estimate the prevalences of TABLE by MODEL, with limits.

    TABLE is CSV (also gzipped), Parquet or Excel, - for standard input; CSV and Parquet are read in
    batches and may be larger than memory. Columns are found by name.
    """
    check_table_output(options)
    if options["fail_on_misfit"] and not options["check_fit"]:
        raise click.UsageError("--fail-on-misfit needs the fit check: leave --no-check-fit out")
    quantifier, groups = _estimate_groups(model, table, options)
    made = groups.to_frame("pyarrow", wide=options["wide"])
    deliver(made, options["format"], options["output"])
    _report_problems(groups, quantifier)
    _report_verdicts(groups)
    misfits = sum(POOR_FIT in status_parts(status) for status in groups.status)
    if options["fail_on_misfit"] and misfits:
        say(f"{misfits} of {len(groups)} groups do not fit the training classes")
        raise click.exceptions.Exit(PROBLEMS)


def _estimate_groups(
    model: str, table: str, options: dict[str, Any]
) -> tuple[AggregativeQuantifier, Estimates]:
    """Return the model and its answers."""
    from kdey import load
    from kdey._display import progress
    from kdey.groups import estimate_table
    from kdey.intervals.display import check_key_names

    quantifier = load(model).set_params(n_jobs=options["jobs"])
    request = request_of(options, quantifier.classes_)
    check_key_names(
        request.grouping.names,
        request.merging(quantifier.classes_).names,
        wide=options["wide"],
        labelled=request.labelled is not None,
    )
    file = open_table(table, options)
    # Reading and solving each count a row once.
    with progress(2 * (file.n_rows or 0), "rows", "auto" if file.n_rows else False) as shown:
        groups = estimate_table(
            quantifier, file, request, on_batch=shown.advance, on_rows=shown.advance
        )
    return quantifier, groups


def _report_problems(groups: Estimates, quantifier: AggregativeQuantifier) -> None:
    """Say for every problem how many groups have it, and which; and of few labels, of what class.

    The status of a group has no room for the class.
    """
    affected: dict[str, list[int]] = {}
    for number, status in enumerate(groups.status):
        for part in status_parts(status):
            affected.setdefault(part, []).append(number)
    affected.pop(OK, None)
    keys = groups.keys.columns
    values = groups.keys.rows() if affected else []
    for problem, numbers in affected.items():
        if not keys:
            say(f"{problem}: the whole table")
            continue
        shown = [_group_name(keys, values[n]) for n in numbers[:_MOST_NAMED]]
        more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
        of_all = f"{len(numbers)} of {len(groups)} groups"
        say(f"{problem}: {of_all} ({'; '.join(shown)}{more})")
    training = quantifier.interval_model()
    if FEW_LABELS in affected and training is not None:
        for note in training.training_notes:
            say(note)


def _report_verdicts(groups: Estimates) -> None:
    """Say which estimate to believe, of the whole table or of the first groups."""
    labelled, shown = groups.labelled, groups[:_MOST_NAMED]
    if labelled is None:
        return
    keys = groups.keys.columns
    values = shown.keys.rows() if keys else [()]
    for value, verdict in zip(values, labelled.verdict[:_MOST_NAMED], strict=True):
        name = _group_name(keys, value)
        say(f"{name}: {verdict}" if name else verdict)
    if len(groups) > _MOST_NAMED:
        say(f"and {len(groups) - _MOST_NAMED} more groups: see the column 'verdict'")


def _group_name(keys: Iterable[str], values: Iterable[Any]) -> str:
    """Return the keys of a group and their values, such as ``shop=A, week=2024-01-01``."""
    return ", ".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
