"""``kdey lequa``: submissions to the LeQua challenges, made, checked and scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kdey.cli.common import guarded, say
from kdey.cli.exit_codes import PROBLEMS
from kdey.cli.options import METHODS, make_method
from kdey.cli.pool import POOL

#: The tasks, as in ``kdey.paper.datasets.lequa_tasks``, which is slow to import.
_TASKS = ("T1A", "T1B", "T2A", "T2B", "T1", "T2", "T3", "T4")
_task = click.argument("task", type=click.Choice(_TASKS))
_bags = click.option("--bags", type=click.IntRange(1), help="Number of bags, if not official.")


@click.group()
def lequa() -> None:
    """Make, check and score submissions to LeQua 2022 and 2024.

    `kdey data fetch T1` downloads a task; KDEY_DATA names the directory of files that are there.
    """


@lequa.command()
@_task
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--part",
    type=click.Choice(["test", "dev"]),
    default="test",
    show_default=True,
    help="Bags to estimate; the truth of the test bags is not needed.",
)
@click.option(
    "--method",
    type=click.Choice([name for name in METHODS if name != POOL]),
    default="kdey-ml",
    show_default=True,
)
@click.option(
    "--from-samples",
    is_flag=True,
    help="T3: choose the penalty on rough prevalences by the error on training samples.",
)
@click.option("--data-dir", type=click.Path(exists=True, file_okay=False), help="Look there alone.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--jobs", default=-1, show_default=True, help="Fits and threads at once; -1: all.")
@guarded
def submit(task: str, output: Path, **options: Any) -> None:
    """Fit on TASK and write the estimates of its bags to OUTPUT, as the organisers want them.

    Classes of T3 are ordered: its method gets a penalty on rough prevalences.
    """
    from kdey.paper.datasets.lequa import load_lequa
    from kdey.paper.datasets.lequa_tasks import find_task
    from kdey.paper.submission import (
        estimate_all,
        fit_task,
        score,
        task_classifier,
        task_quantifier,
        write_submission,
    )

    facts = find_task(task)
    data = load_lequa(
        task, options["data_dir"], test="samples" if options["part"] == "test" else None
    )
    bags = data.test if options["part"] == "test" else data.validation
    method = make_method(
        options["method"],
        {"classifier": task_classifier(facts)},
        {},
        options["seed"],
        options["jobs"],
    )
    say(f"{task}: fitting on {len(data.train):,} instances of {len(data.classes)} classes")
    fitted = fit_task(task_quantifier(facts, method), data, from_samples=options["from_samples"])
    say(f"estimating {len(bags):,} bags")
    estimates = estimate_all(fitted, bags)
    write_submission(output, estimates)
    say(f"wrote {output}")
    if options["part"] == "dev":
        _print_scores(score(task, bags.prevalences, estimates))


@lequa.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--task", type=click.Choice(_TASKS), help="Whose number of classes FILE must have.")
@_bags
@guarded
def check(file: str, task: str | None, bags: int | None) -> None:
    """Say whether FILE is a valid submission; the exit code is 1 if it is not."""
    from kdey.paper.submission import read_submission

    try:
        prevalences = read_submission(file, task, n_bags=bags)
    except ValueError as error:
        click.echo(f"not valid: {error}")
        raise click.exceptions.Exit(PROBLEMS) from None
    click.echo(f"valid: {len(prevalences):,} bags, {prevalences.shape[1]} classes")


@lequa.command(name="score")
@_task
@click.argument("truth", type=click.Path(exists=True, dir_okay=False))
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@_bags
@guarded
def score_(task: str, truth: str, file: str, bags: int | None) -> None:
    """Print the measures of TASK for a submission FILE, given the file of true prevalences."""
    from kdey.paper.submission import read_submission, score

    true = read_submission(truth, task, n_bags=bags)
    estimated = read_submission(file, task, n_bags=bags)
    _print_scores(score(task, true, estimated))


def _print_scores(scores: dict[str, float]) -> None:
    for name, value in scores.items():
        click.echo(f"{name}: {value:.5f}")
