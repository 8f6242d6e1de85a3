"""What is fitted: methods and classifiers by name, and the options of a pool of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.options import names, settings, with_options
from kdey.cli.output import Command, say

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from kdey.quantifiers.aggregative import AggregativeQuantifier
    from kdey.quantifiers.quantifier import Quantifier
    from kdey.stacking import FitProgress
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
    return click.option(
        "--method", type=click.Choice(list(METHODS)), default=default, show_default=True
    )


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
        click.option("--seed", default=0, show_default=True, help="Shuffles folds and draws."),
        click.option("--jobs", default=1, show_default=True, help="Fits at once; -1: all cores."),
    )


def classification(method: str, options: Mapping[str, Any], schema: TableSchema) -> dict[str, Any]:
    """Return the parameters of a method that say how the rows of a table are classified.

    Parameters
    ----------
    method : str
    options : mapping
        Those of :func:`model_options` and, for a pool, of :func:`pool_options`.
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
    from importlib import import_module

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


def fit_options(command: Command) -> Command:
    """Give a command ``--option``."""
    return click.option(
        "--option", "options", multiple=True, help="name=value for the method; repeat."
    )(command)


def pool_options(command: Command) -> Command:
    """Give a command the options of a pool."""
    positive = click.FloatRange(min=0, min_open=True)
    return with_options(
        command,
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
