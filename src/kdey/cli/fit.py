"""``kdey fit``: a labelled table to a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import check_output, guarded, names, say, settings
from kdey.cli.options import (
    config_option,
    fit_options,
    label_options,
    make_classifier,
    make_method,
    method_option,
    model_options,
    read_labelled,
)

if TYPE_CHECKING:
    from kdey.quantifiers.aggregative import AggregativeQuantifier
    from kdey.tables.training import TrainingTable


@click.command()
@click.argument("table")
@label_options
@click.option(
    "--scores", multiple=True, help="Columns of held-out posteriors: no classifier is fitted."
)
@method_option
@fit_options
@model_options
@config_option
@click.option(
    "--fold-models/--no-fold-models",
    default=True,
    show_default=True,
    help="Keep the models of the folds in the file: fit checks are sharper, the file larger.",
)
@click.option("-o", "--output", required=True, help="Model file to write.")
@guarded
def fit(table: str, label: str, output: str, **options: Any) -> None:
    """Fit on a labelled TABLE and write a model file.

    TABLE is CSV (also gzipped), Parquet or Excel, - for standard input. Columns of texts become
    one-hot; all columns but the label are features unless said otherwise. With --scores the
    columns are the posteriors of a classifier of your own, on rows it was not fitted on.
    """
    check_output(output)
    training = read_labelled(table, {**options, "label": label})
    quantifier = _fit(training, names(options["scores"]), table, options)
    from kdey import save

    save(quantifier, output)
    n_rows, n_classes = len(training.y), len(quantifier.classes_)
    say(f"{type(quantifier).__name__} on {n_rows:,} rows, {n_classes} classes; wrote {output}")
    _say_essentials(quantifier, options["seed"])


def _fit(
    training: TrainingTable, scores: list[str], table: str, options: dict[str, Any]
) -> AggregativeQuantifier:
    from kdey.tables.files import TableError

    method_settings = settings(options["options"], "--option")
    name, seed, jobs = options["method"], options["seed"], options["jobs"]
    try:
        if scores:
            unfitted = make_method(name, None, method_settings, seed, jobs)
            return _fit_scores(unfitted, training, scores)
        classifier_settings = settings(options["classifier_options"], "--classifier-option")
        classifier = make_classifier(
            options["classifier"], classifier_settings, seed, training.schema
        )
        quantifier = make_method(name, classifier, method_settings, seed, jobs)
        quantifier.fit(training.X, training.y)
        if options["fold_models"]:
            _keep_fold_models(quantifier, training)
    except ValueError as error:
        raise TableError(f"{table}: {error}") from error
    return quantifier


def _say_essentials(quantifier: AggregativeQuantifier, seed: int) -> None:
    """Say how well the model does on its training data, and what to do about it."""
    import textwrap

    from kdey.evaluation.training_summary import TrainingSummary

    for sentence in TrainingSummary.of(quantifier, seed).sentences():
        for line in textwrap.wrap(sentence, 80, initial_indent="- ", subsequent_indent="  "):
            say(line)


def _keep_fold_models(quantifier: AggregativeQuantifier, training: TrainingTable) -> None:
    """Keep the models of the folds in the model, for sharper fit checks."""
    from kdey.diagnostics import hold_fold_models
    from kdey.report.classifier import kept_training

    kept = kept_training(quantifier)
    if kept is not None and kept.posteriors is not None:
        hold_fold_models(quantifier, training.X, training.y)


def _fit_scores(
    quantifier: AggregativeQuantifier, training: TrainingTable, scores: list[str]
) -> AggregativeQuantifier:
    """Fit on columns of scores, which may stand in any order."""
    import numpy as np

    from kdey.groups.scoring import bad_score, match_scores
    from kdey.tables.schema import Column, TableSchema

    classes = np.unique(training.y)
    ordered = match_scores(scores, classes)
    p = training.X[:, [scores.index(name) for name in ordered]]
    fault = bad_score(p)
    if fault is not None:
        row = training.rows[fault[0]]
        raise ValueError(f"row {row} {fault[1]}: the scores must be posteriors")
    fitted = quantifier.fit_posteriors(p, training.y)
    schema = training.schema
    columns = (Column(name, "feature", "score") for name in ordered)
    fitted.table_ = TableSchema((*schema.with_role("label"), *columns), schema.decimal)
    return fitted
