"""``kdey fit``: a labelled table to a model file."""

from __future__ import annotations

from typing import Any

import click

from kdey.cli.common import check_output, guarded, names, say, settings
from kdey.cli.group import config_option
from kdey.cli.options import (
    fit_options,
    label_options,
    make_classifier,
    make_method,
    method_option,
    model_options,
    read_labelled,
)


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

    TABLE is CSV (also gzipped) or Parquet, - for standard input. Columns of texts become
    one-hot; all columns but the label are features unless said otherwise. With --scores the
    columns are the posteriors of a classifier of your own, on rows it was not fitted on.
    """
    check_output(output)
    training = read_labelled(
        table,
        label,
        options["features"],
        options["ignore"],
        options["missing"],
        options["scores"],
    )
    made = _fitted(training, names(options["scores"]), table, options)
    from kdey import save

    save(made, output)
    say(
        f"{type(made).__name__} on {len(training.y):,} rows, {len(made.classes_)} classes; "
        f"wrote {output}"
    )


def _fitted(training: Any, scores: list[str], table: str, options: dict[str, Any]) -> Any:
    from kdey.tables.files import TableError

    own = settings(options["options"], "--option")
    name, seed, jobs = options["method"], options["seed"], options["jobs"]
    try:
        if scores:
            return _fit_scores(make_method(name, None, own, seed, jobs), training, scores)
        given = settings(options["classifier_options"], "--classifier-option")
        classifier = make_classifier(options["classifier"], given, seed, training.layout)
        made = make_method(name, classifier, own, seed, jobs).fit(training.X, training.y)
        made.table_ = training.layout.to_dict()
        if options["fold_models"]:
            _hold(made, training)
    except ValueError as error:
        raise TableError(f"{table}: {error}") from error
    return made


def _hold(quantifier: Any, training: Any) -> None:
    """Keep the models of the folds in the model, for sharper fit checks."""
    from kdey.diagnostics import hold_fold_models

    posteriors = getattr(getattr(quantifier, "training_", None), "posteriors", None)
    if posteriors is not None and hasattr(quantifier, "classifier_"):
        hold_fold_models(quantifier, training.X, training.y)


def _fit_scores(quantifier: Any, training: Any, scores: list[str]) -> Any:
    import numpy as np

    from kdey.groups.scoring import bad_score, match_scores
    from kdey.tables.layout import TableLayout

    classes = np.unique(training.y)
    ordered = match_scores(scores, classes)
    p = training.X[:, [scores.index(name) for name in ordered]]
    found = bad_score(p)
    if found is not None:
        raise ValueError(f"row {found[0] + 1} {found[1]}: the scores must be posteriors")
    made = quantifier.fit_posteriors(p, training.y)
    made.table_ = TableLayout(training.layout.label, scores=tuple(ordered)).to_dict()
    return made
