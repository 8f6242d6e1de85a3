"""Commands on a labelled table: ``kdey check``, ``fit`` and ``evaluate``.

What is fitted is named here: methods, classifiers, and the options of a pool of them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from kdey.cli.command_options import (
    check_columns,
    label_options,
    make_protocol,
    names,
    open_table,
    protocol_options,
    read_labelled,
    settings,
    table_options,
    with_options,
)
from kdey.cli.terminal import (
    Command,
    check_outputs,
    deliver,
    guarded,
    in_options,
    output_options,
    printable,
    say,
    saying_what_is_logged,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.pipeline import Pipeline

    from kdey.evaluation.evaluating import Results
    from kdey.quantifiers import AggregativeQuantifier
    from kdey.quantifiers.base import BaseQuantifier
    from kdey.quantifiers.quantifier import Quantifier
    from kdey.tables.schema import TableSchema
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
_POSITIVE = click.FloatRange(min=0, min_open=True)
#: Name -> class in ``kdey``.
METHODS = {
    POOL: "Quantifier",
    "kdey-ml": "KDEyML",
    "kdey-hd": "KDEyHD",
    "kdey-cs": "KDEyCS",
    "kdey-l2": "KDEyL2",
    "emq": "EMQ",
    "pacc": "PACC",
    "acc": "ACC",
    "dir": "DIR",
    "dm": "DM",
    "hdy": "HDy",
    "dys": "DyS",
    "mm": "MM",
    "rlls": "RLLS",
    "friedman": "Friedman",
    "edy": "EDy",
    "sord": "SORD",
    "t50": "T50",
    "max": "MAX",
    "threshold-x": "ThresholdX",
    "ms": "MS",
    "ms2": "MS2",
    "pcc": "PCC",
    "cc": "CC",
}
#: Name -> module and class of scikit-learn, and the settings that differ from its defaults.
CLASSIFIERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "logistic": ("sklearn.linear_model", "LogisticRegression", {"max_iter": 1000}),
    "extra-trees": ("sklearn.ensemble", "ExtraTreesClassifier", {"n_estimators": 300}),
    "random-forest": ("sklearn.ensemble", "RandomForestClassifier", {"n_estimators": 300}),
    "boosting": ("sklearn.ensemble", "HistGradientBoostingClassifier", {}),
    "naive-bayes": ("sklearn.naive_bayes", "GaussianNB", {}),
    # Trees of neighbours are compiled objects, which a model file must not contain.
    "neighbours": (
        "sklearn.neighbors",
        "KNeighborsClassifier",
        {"n_neighbors": 15, "algorithm": "brute"},
    ),
}


def method_option(default: str) -> Callable[[Command], Command]:
    """Return ``--method`` with this default."""
    return click.option("--method", type=click.Choice(list(METHODS)), default=default)


def model_options(command: Command) -> Command:
    """Give a command the options that say what is fitted."""
    return with_options(
        command,
        click.option(
            "--classifier",
            multiple=True,
            help=f"Any of {', '.join(CLASSIFIERS)}; a pool (--method {POOL}) takes several: "
            "repeat, or commas. Default: auto, those that suit the columns; other methods: "
            "logistic.",
        ),
        click.option(
            "--classifier-option",
            "classifier_options",
            multiple=True,
            help="name=value for the only classifier, such as C=0.1; repeat.",
        ),
        click.option("--seed", default=0, help="Shuffles folds and draws."),
        click.option("--jobs", default=1, help="Fits at once; -1: all cores."),
    )


def classification(method: str, options: Mapping[str, Any], schema: TableSchema) -> dict[str, Any]:
    """Return the parameters of a method that say how the rows of a table are classified.

    Parameters
    ----------
    method : str
    options : mapping
        Those of :func:`model_options` and, for a pool, of ``kdey fit``.
    schema : TableSchema
    """
    chosen, seed = _classifier_names(options), options["seed"]
    given = settings(options["classifier_options"], "--classifier-option")
    if method != POOL:
        refuse_pool_options(method, options)
        if len(chosen) > 1:
            raise click.UsageError(
                f"--classifier: {method} takes one; --method {POOL} pools several"
            )
        name = chosen[0] if chosen else "logistic"
        return {"classifier": make_classifier(name, given, seed, schema)}
    if given and len(chosen) != 1:
        raise click.UsageError("--classifier-option needs one --classifier that it is for")
    classifiers = {
        PORTFOLIO.get(name, name): PORTFOLIO[name]
        if name in PORTFOLIO and not given
        else _prepared(name, given, seed, schema)
        for name in chosen
    }
    return {"classifiers": classifiers or "auto", "schema": schema, **pool_parameters(options)}


def _classifier_names(options: Mapping[str, Any]) -> list[str]:
    """Return the classifiers that are asked for; none for "auto"."""
    chosen = list(dict.fromkeys(names(options["classifier"])))
    if chosen == ["auto"]:
        return []
    for name in chosen:
        if name not in CLASSIFIERS:
            raise click.UsageError(
                f"--classifier: no {name!r}; known are {', '.join(CLASSIFIERS)}, and auto alone"
            )
    return chosen


def make_classifier(
    name: str, settings: Mapping[str, Any], seed: int, schema: TableSchema
) -> Pipeline:
    """Return an unfitted pipeline: a table is read, its columns are prepared, then classified."""
    from kdey.tables.features import reading_tables

    return reading_tables(_prepared(name, settings, seed, schema), schema)


def _prepared(name: str, settings: Mapping[str, Any], seed: int, schema: TableSchema) -> Any:
    """Return an unfitted classifier of the features of a table, with its preparation."""
    from kdey.tables.features import prepare

    home, kind, defaults = CLASSIFIERS[name]
    classifier = getattr(import_module(home), kind)(**defaults)
    known = classifier.get_params()
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise click.UsageError(
            f"--classifier-option: {name} has no {unknown[0]!r}; it has {', '.join(sorted(known))}"
        )
    seeded = {"random_state": seed} if "random_state" in known else {}
    classifier.set_params(**{**seeded, **settings})
    return prepare(classifier, schema.kinds)


def make_method(
    name: str, parameters: Mapping[str, Any], settings: Mapping[str, Any], seed: int, jobs: int
) -> AggregativeQuantifier:
    """Return an unfitted quantifier.

    Parameters
    ----------
    name : str
    parameters : mapping
        Those of :func:`classification`; none for a method that is fitted on scores.
    settings : mapping
        What the user sets with ``--option``.
    seed, jobs : int
    """
    import kdey

    cls = getattr(kdey, METHODS[name])
    known = set(cls().get_params(deep=False)) - {"classifier", "classifiers", "schema"}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise click.UsageError(
            f"--option: {name} has no {unknown[0]!r}; it has {', '.join(sorted(known))}"
        )
    quantifier: AggregativeQuantifier = cls(
        **{**parameters, "random_state": seed, "n_jobs": jobs, **settings}
    )
    return quantifier


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
    with saying_what_is_logged():
        return quantifier.fit(training.X, training.y, **training.drawn, cache=folder)


#: Width of the screen, and rows of the quick fit.
WIDTH, MOST_ROWS = 80, 2000


@click.command()
@click.argument("table")
@label_options
@click.option("--fit/--no-fit", "quick_fit", default=True, help="Try a quick fit as well.")
@click.option("--seed", default=0, help="Of the rows of the quick fit.")
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
        _print(f"refused: {in_options(problem)}")
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
    from kdey.evaluation.contract import TrainingSummary

    X, y = _some_rows(training, seed)
    classifier = make_classifier("logistic", {}, seed, training.schema)
    quantifier = make_method("pacc", {"classifier": classifier}, {}, seed, 1)
    summary = TrainingSummary.of(quantifier.fit(X, y), seed)
    rows = "" if len(y) == len(training.y) else f", {len(y):,} of the rows"
    _print(f"quick fit (logistic regression, PACC{rows}):")
    for sentence in summary.sentences():
        _print(f"- {sentence}")


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
    "--clusters",
    metavar="COLUMN",
    help="Ids of the clusters (patients, users, documents) in which rows were drawn: folds leave "
    "them whole, and intervals allow for them.",
)
@click.option(
    "--strata",
    metavar="COLUMN",
    help="Shops, languages or seasons in which a class may look different: kdey estimate --strata "
    "then has templates for each.",
)
@click.option(
    "--scores",
    multiple=True,
    help="Columns of held-out posteriors: no classifier is fitted. --method acc or cc: or one "
    "column of labels that rules, people or a language model decided for.",
)
@method_option(POOL)
@click.option("--option", "options", multiple=True, help="name=value for the method; repeat.")
@model_options
@click.option(
    "--effort",
    type=click.Choice(["low", "default", "high"]),
    help="How many folds, trees and rounds of boosting a pool has.",
)
@click.option(
    "--time-limit",
    type=_POSITIVE,
    help="Seconds for the classifiers of a pool; what takes longer is left out.",
)
@click.option(
    "--size-limit",
    type=_POSITIVE,
    help="MB of the model file of a pool; the largest classifiers are left out. Default: 60.",
)
@click.option(
    "--resume",
    metavar="FOLDER",
    help="Keep finished classifiers of a pool in FOLDER, and go on from there if the same command "
    "was stopped. The files are pickles, which can run code when read: use a folder that nobody "
    "else can write to.",
)
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

    TABLE is CSV, JSON, Parquet, Arrow or Excel, - for standard input. All columns that look like
    features are used unless said otherwise. Several classifiers and methods are fitted and pooled
    by default; --method chooses a single one, with one classifier. With --scores the columns are
    the posteriors of a classifier of your own, on rows it was not fitted on.
    """
    check_outputs((table,), (output, "model"))
    training = read_labelled(table, {**options, "label": label})
    if training.hint:
        say(f"{table}: {in_options(training.hint)}")
    quantifier = _fit(training, names(options["scores"]), table, options)
    from kdey import save

    save(quantifier, output)
    n_rows, n_classes = len(training.y), len(quantifier.classes_)
    say(f"{type(quantifier).__name__} on {n_rows:,} rows, {n_classes} classes; wrote {output}")
    _say_essentials(quantifier, options["seed"])


def _fit(
    training: TrainingTable, scores: list[str], table: str, options: dict[str, Any]
) -> AggregativeQuantifier:
    from kdey.tables.sources import TableError

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
        quantifier.fit(*(training.X, training.y), **training.drawn, keep_fold_models=keep)
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
    from kdey.evaluation.contract import TrainingSummary

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

    from kdey.classifiers import one_hot
    from kdey.groups.scoring import bad_score
    from kdey.simplex import class_texts, match_scores
    from kdey.tables.schema import Column, TableSchema

    classes = np.unique(training.y)
    if len(scores) == 1 and quantifier.row_spec().needs == "decisions":
        decided = one_hot(training.X[:, 0], classes)
        fitted = quantifier.fit_posteriors(decided, training.y, **training.drawn)
        columns = [Column(scores[0], "feature", "decision", tuple(class_texts(classes)))]
    elif len(scores) == 1:
        raise ValueError(
            f"one column of scores ({scores[0]}) holds decided labels, which --method acc or cc "
            "counts; other methods need a column of posteriors for each class"
        )
    else:
        ordered = match_scores(scores, classes)
        p = training.X[:, [scores.index(name) for name in ordered]]
        fault = bad_score(p)
        if fault is not None:
            row = training.rows[fault[0]]
            raise ValueError(f"row {row} {fault[1]}: the scores must be posteriors")
        fitted = quantifier.fit_posteriors(p, training.y, **training.drawn)
        columns = [Column(name, "feature", "score") for name in ordered]
    label = training.schema.with_role("label")
    known = TableSchema((*label, *columns), training.schema.decimal)
    fitted.model_ = fitted.model_.with_scorer(schema=known)
    return fitted


@click.command()
@click.argument("table")
@label_options
@click.option(
    "--methods",
    multiple=True,
    default=("kdey-ml,pacc,emq,cc",),
    help=f"Any of {', '.join(METHODS)}; repeat, or commas.",
)
@click.option("--model", help="Evaluate this model file on TABLE instead of fitting methods.")
@click.option("--test", default=0.3, help="Share of rows held out for bags.")
@protocol_options
@click.option("--each-bag", is_flag=True, help="One row per method and bag, not per method.")
@click.option("--metrics", multiple=True, default=("ae,rae",))
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
    deliver(frame, options["format"], options["output"], options["digits"])


def _evaluate_methods(table: str, options: dict[str, Any]) -> Results:
    chosen = names(options["methods"])
    unknown = [name for name in chosen if name not in METHODS]
    if unknown:
        raise click.UsageError(f"--methods: no {unknown[0]!r}; known are {', '.join(METHODS)}")
    training = read_labelled(table, options)
    from sklearn.model_selection import train_test_split

    from kdey.evaluation.evaluating import fit_many

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
    file = open_table(table, options)
    check_columns(file, options)
    Path(options["model"]).stat()
    from kdey import load
    from kdey.groups import Request, TableScorer
    from kdey.options import Options
    from kdey.tables.features import warn_of_unseen_values
    from kdey.tables.schema import match_labels
    from kdey.tables.sources import TableError
    from kdey.tables.training import labelled_rows

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
