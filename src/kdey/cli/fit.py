"""``kdey fit``: a labelled table to a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import click

from kdey.cli.common import check_output, guarded, names, say, settings
from kdey.cli.options import (
    classification,
    config_option,
    fit_options,
    label_options,
    make_method,
    method_option,
    model_options,
    read_labelled,
)
from kdey.cli.pool import POOL, fit_pool, pool_options, pool_parameters, refuse_pool_options

if TYPE_CHECKING:
    from kdey import Quantifier
    from kdey.quantifiers.aggregative import AggregativeQuantifier
    from kdey.tables.training import TrainingTable


@click.command()
@click.argument("table")
@label_options
@click.option(
    "--scores",
    multiple=True,
    help="Columns of held-out posteriors: no classifier is fitted. --method acc or cc: or one "
    "column of labels that rules, people or a language model decided for.",
)
@method_option(POOL)
@fit_options
@model_options
@pool_options
@config_option
@click.option(
    "--fold-models/--no-fold-models",
    default=None,
    help="Keep the models of the folds in the file: fit checks are sharper, the file larger. "
    "Default: up to 200 MB.",
)
@click.option("-o", "--output", required=True, help="Model file to write.")
@guarded
def fit(table: str, label: str, output: str, **options: Any) -> None:
    """Fit on a labelled TABLE and write a model file.

    TABLE is CSV (also gzipped), Parquet or Excel, - for standard input. All columns that look like
    features are used unless said otherwise. Several classifiers and methods are fitted and pooled
    by default; --method chooses a single one, with one classifier. With --scores the columns are
    the posteriors of a classifier of your own, on rows it was not fitted on.
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
            unfitted = make_method(name, _scored(name, options), method_settings, seed, jobs)
            return _fit_scores(unfitted, training, scores)
        parameters = classification(name, options, training.schema)
        quantifier = make_method(name, parameters, method_settings, seed, jobs)
        if name == POOL:
            return fit_pool(cast("Quantifier", quantifier), training, options)
        asked: bool | None = options["fold_models"]
        keep: bool | Literal["auto"] = "auto" if asked is None else asked
        quantifier.fit(training.X, training.y, keep_fold_models=keep)
    except ValueError as error:
        raise TableError(f"{table}: {error}") from error
    return quantifier


def _scored(method: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a method that is fitted on scores."""
    if method != POOL:
        refuse_pool_options(method, options)
        return {}
    if options["resume"] is not None:
        raise click.UsageError("--resume keeps classifiers, and with --scores none is fitted")
    return pool_parameters(options)


def _say_essentials(quantifier: AggregativeQuantifier, seed: int) -> None:
    """Say how well the model does on its training data, what it chose, and what to do about it."""
    import textwrap

    from kdey.evaluation.training_summary import TrainingSummary

    chosen = quantifier.summary()
    sentences = TrainingSummary.of(quantifier, seed).sentences()
    for sentence in sentences if chosen is None else [*sentences, chosen]:
        for line in textwrap.wrap(sentence, 80, initial_indent="- ", subsequent_indent="  "):
            say(line)


def _fit_scores(
    quantifier: AggregativeQuantifier, training: TrainingTable, scores: list[str]
) -> AggregativeQuantifier:
    """Fit on columns of scores, which may stand in any order, or on one of decided labels."""
    import numpy as np

    from kdey.arrays import class_texts, match_scores
    from kdey.classifiers import one_hot
    from kdey.groups.scoring import bad_score
    from kdey.tables.schema import Column, TableSchema

    classes = np.unique(training.y)
    if len(scores) == 1 and quantifier.row_spec().needs == "decisions":
        fitted = quantifier.fit_posteriors(one_hot(training.X[:, 0], classes), training.y)
        decided = Column(scores[0], "feature", "decision", tuple(class_texts(classes)))
        label = training.schema.with_role("label")
        schema = TableSchema((*label, decided), training.schema.decimal)
        fitted.model_ = fitted.model_.with_scorer(schema=schema)
        return fitted
    if len(scores) == 1:
        raise ValueError(
            f"one column of scores ({scores[0]}) holds decided labels, which --method acc or cc "
            "counts; other methods need a column of posteriors for each class"
        )
    ordered = match_scores(scores, classes)
    p = training.X[:, [scores.index(name) for name in ordered]]
    fault = bad_score(p)
    if fault is not None:
        row = training.rows[fault[0]]
        raise ValueError(f"row {row} {fault[1]}: the scores must be posteriors")
    fitted = quantifier.fit_posteriors(p, training.y)
    schema = training.schema
    columns = (Column(name, "feature", "score") for name in ordered)
    known = TableSchema((*schema.with_role("label"), *columns), schema.decimal)
    fitted.model_ = fitted.model_.with_scorer(schema=known)
    return fitted
