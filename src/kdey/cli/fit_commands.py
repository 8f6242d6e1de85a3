"""Commands around a model file: ``kdey check``, ``kdey fit`` and ``kdey inspect``."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from kdey.cli.model_options import (
    METHODS,
    POOL,
    classification,
    fit_options,
    fit_pool,
    make_classifier,
    make_method,
    method_option,
    model_options,
    pool_options,
    pool_parameters,
    refuse_pool_options,
)
from kdey.cli.options import (
    check_columns,
    config_option,
    label_options,
    literal,
    make_protocol,
    names,
    open_table,
    protocol_options,
    read_labelled,
    settings,
    table_options,
)
from kdey.cli.output import check_outputs, deliver, guarded, output_options, printable, say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kdey import GridSearchQ, Quantifier
    from kdey.evaluation.evaluating import Results
    from kdey.quantifiers.aggregative import AggregativeQuantifier
    from kdey.quantifiers.base import BaseQuantifier
    from kdey.tables.schema import TableSchema
    from kdey.tables.training import TrainingTable


#: Width of the screen, and rows of the quick fit.
WIDTH, MOST_ROWS = 80, 2000


@click.command()
@click.argument("table")
@label_options
@click.option("--fit/--no-fit", "quick_fit", default=True, help="Try a quick fit as well.")
@click.option("--seed", default=0, show_default=True, help="Of the rows of the quick fit.")
@guarded
def check(table: str, **options: Any) -> None:
    """Show what the columns of a labelled TABLE are taken for, and why.

    Ids, dates, constant columns and copies of others are not used; rare classes are named. A quick
    fit then shows how well the classes can be told apart. Exit code 1: kdey fit would refuse the
    table as it is.
    """
    from kdey.tables.schema import column_lines
    from kdey.tables.training import survey_table, training_table

    file = open_table(table, options)
    frame = file.read()
    reading = table_options(options, file)
    columns, problems = survey_table(frame, reading, file.first_row)
    _print(f"{file.name}: {len(frame):,} rows, {len(frame.columns)} columns")
    for line in column_lines(columns):
        click.echo(printable(line))
    try:
        training = training_table(frame, reading, file.first_row)
    except ValueError as error:
        problems.append(str(error))
    for problem in dict.fromkeys(problems):
        _print(f"refused: {problem}")
    if problems:
        raise click.exceptions.Exit(1)
    _print_classes(training)
    if options["quick_fit"]:
        _print_quick_fit(training, options["seed"])


def _print(text: str) -> None:
    for line in textwrap.wrap(printable(text), WIDTH, subsequent_indent="  "):
        click.echo(line)


def _print_classes(training: TrainingTable) -> None:
    import numpy as np

    from kdey._display import count_of
    from kdey.tables.schema import similar_labels

    classes, counts = np.unique(training.y, return_counts=True)
    order = np.argsort(counts, kind="stable")
    shown = ", ".join(f"{classes[i]} {counts[i]:,}" for i in order[:8])
    more = f", and {len(classes) - 8} more" if len(classes) > 8 else ""
    kind = "integers" if classes.dtype.kind == "i" else "text"
    _print(f"{len(classes)} classes ({kind}), the rarest first: {shown}{more}")
    for sentence in similar_labels(classes):
        _print(sentence)
    if training.unlabelled:
        _print(f"{count_of(training.unlabelled, 'row')} without a label left out")
    if training.dropped:
        _print(f"{count_of(training.dropped, 'row')} with missing values left out")


def _print_quick_fit(training: TrainingTable, seed: int) -> None:
    """Fit logistic regression and PACC on some rows, and print how well they do."""
    from kdey.evaluation.checks import TrainingSummary

    X, y = _some_rows(training, seed)
    quantifier = make_method("pacc", _classification(training.schema, seed), {}, seed, 1)
    summary = TrainingSummary.of(quantifier.fit(X, y), seed)
    rows = "" if len(y) == len(training.y) else f", {len(y):,} of the rows"
    _print(f"quick fit (logistic regression, PACC{rows}):")
    for sentence in summary.sentences():
        _print(f"- {sentence}")


def _classification(schema: TableSchema, seed: int) -> dict[str, Any]:
    return {"classifier": make_classifier("logistic", {}, seed, schema)}


def _some_rows(training: TrainingTable, seed: int) -> tuple[Any, Any]:
    """Return at most ``MOST_ROWS`` rows, the same share of every class but ten at least."""
    import numpy as np

    share = MOST_ROWS / len(training.y)
    if share >= 1.0:
        return training.X, training.y
    rng = np.random.default_rng(seed)
    parts = []
    for label in np.unique(training.y):
        rows = rng.permutation(np.flatnonzero(training.y == label))
        parts.append(rows[: max(10, round(share * len(rows)))])
    chosen = np.sort(np.concatenate(parts))
    return training.X[chosen], training.y[chosen]


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
    check_outputs((table,), (output, "model"))
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

    from kdey.evaluation.checks import TrainingSummary

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
        known = TableSchema((*label, decided), training.schema.decimal)
        fitted.model_ = fitted.model_.with_scorer(schema=known)
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


#: Categories of a column that are shown; --json has all of them.
_MOST_TEXTS = 8


@click.command()
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of lines.")
@guarded
def inspect(model: str, as_json: bool) -> None:
    """Show what MODEL was fitted on and with: classes, columns, method, settings."""
    from kdey import load
    from kdey.persistence.model_file import describe

    quantifier = load(model)
    facts = _facts(quantifier, describe(model))
    if as_json:
        click.echo(json.dumps(facts, indent=2, allow_nan=False))
        return
    explanation = facts.pop("explanation", [])
    for name, value in facts.items():
        click.echo(printable(f"{name}: {_line(_shortened(value))}"))
    for line in explanation:
        for part in textwrap.wrap(printable(line), 80, subsequent_indent="  "):
            click.echo(part)


def _facts(quantifier: BaseQuantifier, manifest: dict[str, Any]) -> dict[str, Any]:
    schema = quantifier.model_.table_schema
    labels = quantifier.classes_.tolist()
    shares = quantifier.prevalence_.tolist()
    facts: dict[str, Any] = {
        "method": type(quantifier).__name__,
        "written by": f"kdey {manifest.get('kdey')}",
        "libraries": manifest.get("libraries") or None,
        "classes": {str(label): round(p, 6) for label, p in zip(labels, shares, strict=True)},
        "training rows": _rows(quantifier),
        "classifier": _classifier(quantifier),
        "settings": _plain_settings(quantifier),
    }
    if schema is not None:
        facts |= _column_facts(schema)
    facts |= _choices(quantifier)
    return {name: value for name, value in facts.items() if value not in (None, {}, [])}


def _choices(quantifier: BaseQuantifier) -> dict[str, Any]:
    """Return what was chosen at fit: in a sentence, or in the lines of an explanation."""
    record = quantifier.model_.tuning
    explanation = getattr(quantifier, "explain", quantifier.summary)()
    if explanation is None or (record is not None and explanation == record.summary()):
        return {"tuning": explanation}
    return {"explanation": explanation.splitlines()}


def _column_facts(schema: TableSchema) -> dict[str, Any]:
    """Return what the columns of the training table are taken for."""
    unused = schema.with_role("id", "ignored")
    return {
        "label column": schema.label,
        _needed_title(schema): list(schema.needed),
        "columns of categories": {
            c.name: list(c.categories) for c in schema.feature_columns if c.categories
        },
        "columns of sentences": [c.name for c in schema.feature_columns if c.kind == "text"],
        "columns with missing values": {
            c.name: c.n_missing for c in schema.feature_columns if c.n_missing
        },
        "unused columns": {c.name: c.reason for c in unused},
    }


def _needed_title(schema: TableSchema) -> str:
    """Return what to call the columns that estimates need."""
    if not schema.scores:
        return "feature columns"
    return "column of decisions" if len(schema.scores) == 1 else "score columns"


def _rows(quantifier: BaseQuantifier) -> int | None:
    from kdey.model import kept_training

    training = kept_training(quantifier)
    return None if training is None else len(training.labels)


def _classifier(quantifier: BaseQuantifier) -> str:
    from kdey.stacking.pooled_classifier import pool_of

    classifier = quantifier.model_.scorer.classifier
    if classifier is None:
        return "none: fitted on scores"
    pool = pool_of(classifier)
    if pool is not None:
        return f"a pool of {', '.join(pool.models_)}"
    steps = getattr(classifier, "steps", None)
    return type(classifier if steps is None else steps[-1][1]).__name__


def _plain_settings(quantifier: BaseQuantifier) -> dict[str, Any]:
    plain = (bool, int, float, str)
    return {
        name: value
        for name, value in quantifier.get_params(deep=False).items()
        if isinstance(value, plain)
    }


def _shortened(value: Any) -> Any:
    """Return facts with lists inside them cut short; --json has all of it."""
    if not isinstance(value, dict):
        return value
    return {key: _few(item) if isinstance(item, list) else item for key, item in value.items()}


def _few(texts: list[str]) -> str:
    shown = ", ".join(text if len(text) <= 30 else f"{text[:29]}…" for text in texts[:_MOST_TEXTS])
    more = f", and {len(texts) - _MOST_TEXTS} more" if len(texts) > _MOST_TEXTS else ""
    return f"({shown}{more})"


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


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
    check_outputs((table, options["model"]), (options["output"], options["format"]))
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

    file = open_table(table, options)
    check_columns(file, options)
    quantifier = load(options["model"])
    schema = quantifier.model_.table_schema
    if schema is None or not schema.feature_names:
        raise TableError(f"{options['model']}: the model was not fitted on features of a table")
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
    outputs = (options["output"], options["format"]), (options["model"], "model")
    check_outputs((table,), *outputs)
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
