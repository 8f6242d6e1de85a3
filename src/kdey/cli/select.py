"""``kdey select``: the best settings of a method on bags of a labelled table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import check_output, deliver, guarded, literal, output_options, say
from kdey.cli.options import (
    classification,
    label_options,
    make_method,
    make_protocol,
    method_option,
    model_options,
    protocol_options,
    read_labelled,
)

if TYPE_CHECKING:
    from kdey import GridSearchQ
    from kdey.tables.training import TrainingTable


@click.command()
@click.argument("table")
@label_options
@method_option("kdey-ml")
@click.option(
    "--grid",
    multiple=True,
    required=True,
    help="name=value,value,... such as bandwidth=0.05,0.1 or classifier.C=0.1,1; repeat.",
)
@click.option("--metric", default="ae", show_default=True)
@click.option("--model", "model", help="Model file to write the best to.")
@protocol_options
@model_options
@output_options
@guarded
def select(table: str, **options: Any) -> None:
    """Try settings of a method on validation bags; the best is fitted on the whole TABLE."""
    for path in (options["output"], options["model"]):
        check_output(path)
    training = read_labelled(table, options)
    search = _search(training, options)
    if options["model"]:
        from kdey import save

        save(search.best_estimator_, options["model"])
        say(f"wrote {options['model']}")
    deliver(search.to_frame("pyarrow"), options["format"], options["output"])
    best_params = ", ".join(f"{name}={value}" for name, value in search.best_params_.items())
    say(f"best: {best_params.replace('__classify__', '.')}")


def _search(training: TrainingTable, options: dict[str, Any]) -> GridSearchQ:
    from kdey import GridSearchQ

    name = options["method"]
    parameters = classification(name, options, training.schema)
    method = make_method(name, parameters, {}, options["seed"], options["jobs"])
    search = GridSearchQ(
        method,
        _grid(options["grid"]),
        scoring=options["metric"],
        protocol=make_protocol(options),
        refit=True,
        random_state=options["seed"],
        n_jobs=options["jobs"],
    )
    return search.fit(training.X, training.y)


def _grid(texts: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return the grid of ``name=value,value`` options, ``classifier.`` leading to its settings."""
    grid = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise click.UsageError(f"--grid takes name=value,value,..., got {text!r}")
        path = name.strip().replace("classifier.", "classifier__classify__", 1)
        grid[path] = [literal(value.strip()) for value in values.split(",")]
    return grid
