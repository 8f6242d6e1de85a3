"""``kdey evaluate``: the errors of methods on bags drawn from a labelled table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import check_table_output, deliver, guarded, names, output_options, say
from kdey.cli.options import (
    METHODS,
    classification,
    label_options,
    make_method,
    make_protocol,
    model_options,
    protocol_options,
    read_labelled,
    table_options,
)
from kdey.cli.reading import open_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kdey.evaluation.results import Results
    from kdey.quantifiers.base import BaseQuantifier


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
    from kdey.groups import Scorer
    from kdey.tables.features import warn_of_unseen_values
    from kdey.tables.files import TableError
    from kdey.tables.training import labelled_rows, match_labels

    quantifier = load(options["model"])
    schema = quantifier.table_schema
    if schema is None or not schema.feature_names:
        raise TableError(f"{options['model']}: the model was not fitted on features of a table")
    file = open_table(table, options)
    frame = file.read()
    try:
        labelled, rows = labelled_rows(frame, table_options(options, file), file.first_row)
        y = match_labels(labelled[options["label"]], quantifier.classes_, rows, schema.label_type)
        scorer = Scorer.of(quantifier, None, options["missing"], decimal=file.decimal)
        X, usable, unseen = scorer.instances(labelled, first=rows)
        if unseen is not None:
            warn_of_unseen_values(unseen.findings)
        return _evaluate_fitted({options["model"]: quantifier}, X, y[usable], options)
    except ValueError as error:
        raise TableError(f"{file.name}: {error}") from error


def _evaluate_fitted(
    fitted: Mapping[str, BaseQuantifier], X: Any, y: NDArray[Any], options: dict[str, Any]
) -> Results:
    import kdey

    return kdey.evaluate(fitted, X, y, make_protocol(options), metrics=names(options["metrics"]))
