"""Commands that compare on labelled tables: ``kdey evaluate`` and ``kdey select``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.model_options import (
    METHODS,
    classification,
    make_method,
    method_option,
    model_options,
)
from kdey.cli.options import (
    label_options,
    literal,
    make_protocol,
    names,
    open_table,
    protocol_options,
    read_labelled,
    table_options,
)
from kdey.cli.printing import (
    check_output,
    check_table_output,
    deliver,
    guarded,
    output_options,
    say,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kdey import GridSearchQ
    from kdey.evaluation.evaluating import Results
    from kdey.quantifiers.base import BaseQuantifier
    from kdey.tables.training import TrainingTable


@click.command()
@click.argument("table")
@label_options
@click.option(
    "--methods",
    multiple=True,
    default=("kdey-ml,pacc,emq,cc",),
    show_default=True,
    help=f"Any of {', '.join(METHODS)}; repeat, or commas.",
)
@click.option("--model", help="Evaluate this model file on TABLE instead of fitting methods.")
@click.option("--test", default=0.3, show_default=True, help="Share of rows held out for bags.")
@protocol_options
@click.option("--each-bag", is_flag=True, help="One row per method and bag, not per method.")
@click.option("--metrics", multiple=True, default=("ae,rae",), show_default=True)
@model_options
@output_options
@guarded
def evaluate(table: str, **options: Any) -> None:
    """Compare methods on bags of a labelled TABLE whose prevalences are known.

    Rows are split once; methods share the classifier that is fitted on one part, and bags are
    drawn from the other.
    """
    check_table_output(options)
    results = (
        _evaluate_model(table, options) if options["model"] else _evaluate_methods(table, options)
    )
    frame = results.to_frame("pyarrow") if options["each_bag"] else results.summary("pyarrow")
    deliver(frame, options["format"], options["output"])


def _evaluate_methods(table: str, options: dict[str, Any]) -> Results:
    from sklearn.model_selection import train_test_split

    from kdey.evaluation.evaluating import fit_many

    chosen = names(options["methods"])
    unknown = [name for name in chosen if name not in METHODS]
    if unknown:
        raise click.UsageError(f"--methods: no {unknown[0]!r}; known are {', '.join(METHODS)}")
    training = read_labelled(table, options)
    seed, jobs = options["seed"], options["jobs"]
    parts = train_test_split(
        training.X, training.y, test_size=options["test"], random_state=seed, stratify=training.y
    )
    say(f"fitting on {len(parts[0]):,} rows, bags from {len(parts[1]):,}")
    methods = {
        name: make_method(name, classification(name, options, training.schema), {}, seed, jobs)
        for name in chosen
    }
    return _evaluate_fitted(
        fit_many(methods, parts[0], parts[2], n_jobs=jobs), parts[1], parts[3], options
    )


def _evaluate_model(table: str, options: dict[str, Any]) -> Results:
    from kdey import load
    from kdey.groups import Request, TableScorer
    from kdey.options import Options
    from kdey.tables.features import warn_of_unseen_values
    from kdey.tables.files import TableError
    from kdey.tables.schema import match_labels
    from kdey.tables.training import labelled_rows

    quantifier = load(options["model"])
    schema = quantifier.model_.table_schema
    if schema is None or not schema.feature_names:
        raise TableError(f"{options['model']}: the model was not fitted on features of a table")
    file = open_table(table, options)
    frame = file.read()
    try:
        labelled, rows = labelled_rows(frame, table_options(options, file), file.first_row)
        y = match_labels(labelled[options["label"]], quantifier.classes_, rows, schema.label_type)
        request = Request(options=Options(missing=options["missing"]))
        scorer = TableScorer.of(quantifier, request, file.decimal)
        X, usable, _, findings = scorer.instances(labelled, rows)
        warn_of_unseen_values(findings)
        return _evaluate_fitted({options["model"]: quantifier}, X, y[usable], options)
    except ValueError as error:
        raise TableError(f"{file.name}: {error}") from error


def _evaluate_fitted(
    fitted: Mapping[str, BaseQuantifier], X: Any, y: NDArray[Any], options: dict[str, Any]
) -> Results:
    import kdey

    return kdey.evaluate(fitted, X, y, make_protocol(options), metrics=names(options["metrics"]))


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
