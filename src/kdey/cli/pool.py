"""The options of ``--method quantifier``, the default: several classifiers and methods pooled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import Command, say

if TYPE_CHECKING:
    from kdey.quantifiers.aggregative import AggregativeQuantifier
    from kdey.quantifiers.quantifier import Quantifier
    from kdey.stacking import FitProgress
    from kdey.tables.training import TrainingTable

#: The name of the method.
POOL = "quantifier"
#: The names of classifiers on the command line, and in the portfolio of a pool.
PORTFOLIO = {
    "logistic": "logistic regression",
    "extra-trees": "extra trees",
    "boosting": "gradient boosting",
}
#: Options that other methods do not have.
_ONLY_POOL = ("effort", "time_limit", "size_limit", "resume")


def pool_options(command: Command) -> Command:
    """Give a command the options of a pool."""
    positive = click.FloatRange(min=0, min_open=True)
    for option in reversed(
        (
            click.option(
                "--effort",
                type=click.Choice(["low", "default", "high"]),
                help="Of a pool: number of folds, trees and rounds of boosting.",
            ),
            click.option(
                "--time-limit",
                type=positive,
                help="Of a pool: seconds for its classifiers; what does not fit is left out.",
            ),
            click.option(
                "--size-limit",
                type=positive,
                help="Of a pool: MB of the model file; the largest classifiers are left out. "
                "Default: 100.",
            ),
            click.option(
                "--resume",
                metavar="FOLDER",
                help="Of a pool: keep finished classifiers in FOLDER, and go on from there if the "
                "same command was stopped. The files are pickles, which can run code when read: "
                "use a folder that nobody else can write to.",
            ),
        )
    ):
        command = option(command)
    return command


def refuse_pool_options(method: str, options: Mapping[str, Any]) -> None:
    """Raise click.UsageError if an option of a pool is used with another method."""
    for name in _ONLY_POOL:
        if options.get(name) is not None:
            raise click.UsageError(
                f"--{name.replace('_', '-')} is for --method {POOL}, not for {method}"
            )


def pool_parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a pool that the options set."""
    megabytes = options.get("size_limit")
    parameters = {
        "effort": options.get("effort"),
        "time_limit": options.get("time_limit"),
        "size_limit": None if megabytes is None else 1e6 * megabytes,
    }
    return {name: value for name, value in parameters.items() if value is not None}


def fit_pool(
    quantifier: Quantifier, training: TrainingTable, options: Mapping[str, Any]
) -> AggregativeQuantifier:
    """Fit a pool on a table; each finished classifier is a line on standard error."""
    if options["fold_models"] is not None:
        raise click.UsageError(
            f"--fold-models and --no-fold-models are not for --method {POOL}, whose file has the "
            "models that it needs"
        )
    folder = options["resume"]
    if folder is not None:
        say(f"finished classifiers are kept in {folder} as pickles, which can run code when read")
    return quantifier.fit(
        training.X, training.y, progress=lambda step: say(progress_line(step)), cache=folder
    )


def progress_line(progress: FitProgress) -> str:
    """Return how far a fit is, and how long it may take."""
    line = (
        f"{progress.step}: done after {progress.seconds:.1f} s "
        f"({progress.done} of {progress.total} classifiers)"
    )
    if progress.done == progress.total:
        return line
    return f"{line}, about {max(1, round(progress.seconds_left))} s left"
