"""``kdey estimate``: prevalences of a table, or of its groups, by a model file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import check_table_output, deliver, guarded, names, output_options, say
from kdey.cli.design import design_of, labelled_options, merge_of, survey_options
from kdey.cli.exit_codes import PROBLEMS
from kdey.cli.options import group_options, grouping_of
from kdey.cli.reading import open_table

if TYPE_CHECKING:
    from kdey.groups import FileGroups
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
    deliver(groups.table(options["wide"]), options["format"], options["output"])
    answers = groups.answers
    _report_problems(groups, quantifier)
    _report_verdicts(groups)
    if options["fail_on_misfit"] and answers.misfits:
        say(f"{answers.misfits} of {len(answers)} groups do not fit the training classes")
        raise click.exceptions.Exit(PROBLEMS)


def _estimate_groups(
    model: str, table: str, options: dict[str, Any]
) -> tuple[AggregativeQuantifier, FileGroups]:
    """Return the model and its answers."""
    from kdey import load
    from kdey._support.progress import progress
    from kdey.groups import Borrowing, GroupSettings, estimate_file
    from kdey.groups.answers import check_key_names
    from kdey.options import Options

    quantifier = load(model).set_params(n_jobs=options["jobs"])
    grouping = grouping_of(options)
    design = design_of(options)
    limits = Options(options["confidence"], options["target"])
    settings = GroupSettings(
        limits,
        options["min_size"],
        options["check_fit"],
        options["level"],
        merge=merge_of(options, quantifier.classes_),
        believe=options["believe"],
    )
    shown_classes = settings.merging(quantifier.classes_).names
    check_key_names(grouping.names, shown_classes, options["wide"], design.labelled is not None)
    file = open_table(table, options)
    # Reading and solving each count a row once.
    with progress(2 * (file.n_rows or 0), "rows", "auto" if file.n_rows else False) as shown:
        groups = estimate_file(
            quantifier,
            file,
            grouping,
            settings,
            scores=names(options["scores"]) or None,
            missing=options["missing"],
            borrowing=Borrowing(options["shrink_within"] or options["shrink"], options["smooth"]),
            on_batch=shown.advance,
            on_run=shown.advance,
            design=design,
        )
    return quantifier, groups


def _report_problems(groups: FileGroups, quantifier: AggregativeQuantifier) -> None:
    """Say for every problem how many groups have it, and which; and of few labels, of what class.

    The status of a group has no room for the class.
    """
    from kdey.status import FEW_LABELS, OK, status_parts

    affected: dict[str, list[int]] = {}
    for number in groups.keys.order().tolist():
        for part in status_parts(groups.answers.status[number]):
            affected.setdefault(part, []).append(number)
    affected.pop(OK, None)
    values = groups.keys.values if affected else []
    for problem, numbers in affected.items():
        if not groups.keys.names:
            say(f"{problem}: the whole table")
            continue
        shown = [_group_name(groups.keys.names, values[n]) for n in numbers[:_MOST_NAMED]]
        more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
        of_all = f"{len(numbers)} of {len(groups.answers)} groups"
        say(f"{problem}: {of_all} ({'; '.join(shown)}{more})")
    training = quantifier.interval_model()
    if FEW_LABELS in affected and training is not None:
        for note in training.training_notes:
            say(note)


def _report_verdicts(groups: FileGroups) -> None:
    """Say which estimate to believe, of the whole table or of the first groups."""
    labelled = groups.answers.labelled
    if labelled is None:
        return
    order = groups.keys.order().tolist()
    for number in order[:_MOST_NAMED]:
        name = _group_name(groups.keys.names, groups.keys.values[number])
        say(f"{name}: {labelled.verdict[number]}" if name else labelled.verdict[number])
    if len(order) > _MOST_NAMED:
        say(f"and {len(order) - _MOST_NAMED} more groups: see the column 'verdict'")


def _group_name(keys: Iterable[str], values: Iterable[Any]) -> str:
    """Return the keys of a group and their values, such as ``shop=A, week=2024-01-01``."""
    return ", ".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
