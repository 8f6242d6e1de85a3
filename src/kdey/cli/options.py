"""Options that several commands share, and what they stand for.

Labelled tables, groups, protocols, methods and classifiers by name, and a TOML file with options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from kdey._display import count_of
from kdey.cli.common import Command, names, say, settings
from kdey.cli.pool import POOL, PORTFOLIO, pool_parameters, refuse_pool_options
from kdey.cli.reading import open_table, reading_options

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from kdey.evaluation.bag_drawing import BagProtocol
    from kdey.quantifiers.aggregative import AggregativeQuantifier
    from kdey.tables.files import TableFile
    from kdey.tables.schema import TableSchema
    from kdey.tables.training import TableOptions, TrainingTable


PROTOCOLS = {"app": "APP", "npp": "NPP", "dirichlet": "DirichletProtocol"}
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

#: Columns that are named one by one where they are not used.
_MOST_NAMED = 8


def method_option(default: str) -> Callable[[Command], Command]:
    """Return ``--method`` with this default."""
    return click.option(
        "--method", type=click.Choice(list(METHODS)), default=default, show_default=True
    )


def label_options(command: Command) -> Command:
    """Give a command the options of a labelled table."""
    return _with_options(
        command,
        click.option("--label", required=True, help="Column of the classes."),
        click.option(
            "--features",
            multiple=True,
            help="Columns to use, whatever they look like. Default: all that look like features.",
        ),
        click.option("--ignore", multiple=True, help="Columns to leave out; repeat, or commas."),
        click.option(
            "--type",
            "types",
            multiple=True,
            help="NAME=number, category, text or date: what a column is taken for; repeat.",
        ),
        click.option(
            "--label-type",
            type=click.Choice(["auto", "text", "integer"]),
            default="auto",
            show_default=True,
            help="What labels are; auto: integers if all are (01 is not), else text.",
        ),
        click.option(
            "--unlabelled",
            type=click.Choice(["error", "drop"]),
            default="error",
            show_default=True,
            help="Rows without a label: refuse them, or leave them out.",
        ),
        click.option(
            "--missing",
            type=click.Choice(["auto", "drop", "error"]),
            default="auto",
            show_default=True,
            help="Rows with a missing value: learn from them, leave them out, refuse them.",
        ),
        reading_options,
    )


def table_options(options: Mapping[str, Any], file: TableFile) -> TableOptions:
    """Return how a labelled table is read, by the options of :func:`label_options`."""
    from kdey.tables.training import TableOptions

    return TableOptions(
        options["label"],
        features=tuple(names(options["features"])),
        ignore=tuple(names(options["ignore"])),
        scores=tuple(names(options.get("scores", ()))),
        types=_column_types(options["types"]),
        missing=options["missing"],
        unlabelled=options["unlabelled"],
        label_type=options["label_type"],
        decimal=file.decimal,
    )


def _column_types(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return the kinds of columns in ``NAME=KIND`` options; a name may contain "="."""
    types = {}
    for text in texts:
        name, equals, kind = text.rpartition("=")
        if not equals or kind not in ("number", "category", "text", "date"):
            raise click.UsageError(
                f"--type takes NAME=number, NAME=category, NAME=text or NAME=date, got {text!r}"
            )
        types[name] = kind
    return types


def read_labelled(table: str, options: Mapping[str, Any]) -> TrainingTable:
    """Return the training data of a table; errors name the file."""
    from kdey.tables.files import TableError
    from kdey.tables.training import training_table

    file = open_table(table, options)
    frame = file.read()
    try:
        training = training_table(frame, table_options(options, file), file.first_row)
    except ValueError as error:
        raise TableError(f"{file.name}: {error}") from error
    _say_what_is_left_out(file.name, training)
    return training


def _say_what_is_left_out(name: str, training: TrainingTable) -> None:
    import numpy as np

    from kdey.tables.training import similar_labels

    if training.unlabelled:
        say(f"{name}: {count_of(training.unlabelled, 'row')} without a label left out")
    if training.dropped:
        say(f"{name}: {count_of(training.dropped, 'row')} with missing values left out")
    for sentence in similar_labels(np.unique(training.y)):
        say(f"{name}: {sentence}")
    unused = [c for c in training.schema.with_role("id", "ignored") if not c.chosen]
    for column in unused[:_MOST_NAMED]:
        say(f"{name}: column {column.name!r} is not used: {column.reason}")
    if len(unused) > _MOST_NAMED:
        say(f"{name}: {len(unused) - _MOST_NAMED} more columns are not used; kdey check shows them")


def group_options(command: Command) -> Command:
    """Give a command the options of groups, scores, limits and missing values."""
    return _with_options(
        command,
        click.option("--by", multiple=True, help="Key columns of the groups; repeat, or commas."),
        click.option("--time", help="Column of dates or times: one more, last key."),
        click.option(
            "--every", help="Period that times are cut down to: 1d, 1w, 1mo, 1q, 1y, 6h ..."
        ),
        click.option(
            "--scores",
            multiple=True,
            help="Columns of posteriors in the place of features; acc and cc: or one of decided "
            "labels.",
        ),
        click.option("--confidence", default=0.95, show_default=True),
        click.option("--min-size", default=10, show_default=True, help="Below it: 'too small'."),
        click.option(
            "--check-fit/--no-check-fit",
            default=True,
            show_default=True,
            help="Ask if groups look like mixtures of the training classes.",
        ),
        click.option(
            "--missing",
            type=click.Choice(["auto", "drop", "error"]),
            default="auto",
            show_default=True,
            help="Rows with a missing value: used if learnt from, else left out and counted; or "
            "all left out; or refused.",
        ),
        click.option(
            "--key-type",
            "key_types",
            multiple=True,
            help="NAME=integer or NAME=text: what a key is turned into; repeat. Keys of text "
            "files are text.",
        ),
        reading_options,
    )


def comparison_options(command: Command) -> Command:
    """Give a command the options that say what groups are compared with."""
    return _with_options(
        command,
        click.option(
            "--against",
            multiple=True,
            help="Compare groups with previous: the period (or last key) before; rest: all others "
            "together; NAME=VALUE: the group with this key, repeat for several keys.",
        ),
        click.option(
            "--correction",
            type=click.Choice(["holm", "fdr", "none"]),
            default="holm",
            show_default=True,
            help="For many tests: any false finding at most 5 %, 5 % of the findings, or nothing.",
        ),
    )


def comparison_side(texts: tuple[str, ...]) -> str | dict[str, str] | None:
    """Return the other side of comparisons by ``--against``; None where nothing is compared."""
    if not texts:
        return None
    if len(texts) == 1 and texts[0] in ("previous", "rest"):
        return texts[0]
    reference = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--against takes previous, rest or NAME=VALUE, got {text!r}")
        reference[name] = value
    return reference


def key_types(texts: tuple[str, ...]) -> dict[str, str]:
    """Return the types of keys in ``NAME=TYPE`` options; a name may contain "="."""
    types = {}
    for text in texts:
        name, equals, kind = text.rpartition("=")
        if not equals or kind not in ("integer", "text"):
            raise click.UsageError(f"--key-type takes NAME=integer or NAME=text, got {text!r}")
        types[name] = kind
    return types


def protocol_options(command: Command) -> Command:
    """Give a command the options that say which bags are drawn."""
    return _with_options(
        command,
        click.option(
            "--protocol",
            type=click.Choice(list(PROTOCOLS)),
            default="app",
            show_default=True,
            help="app: prevalences uniform on the simplex; npp: bags as the table is.",
        ),
        click.option("--bags", default=200, show_default=True, help="Number of bags."),
        click.option("--bag-size", default=100, show_default=True),
    )


def make_protocol(options: dict[str, Any]) -> BagProtocol:
    """Return the protocol that the options name."""
    import kdey

    protocol: BagProtocol = getattr(kdey, PROTOCOLS[options["protocol"]])(
        n_bags=options["bags"], bag_size=options["bag_size"], random_state=options["seed"]
    )
    return protocol


def model_options(command: Command) -> Command:
    """Give a command the options that say what is fitted."""
    return _with_options(
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
        Those of :func:`model_options` and, for a pool, of :func:`~kdey.cli.pool.pool_options`.
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


def read_config(ctx: click.Context, _: click.Parameter, path: str | None) -> str | None:
    """Make the entries of a TOML file the defaults of the command's options."""
    if path is None:
        return None
    import tomllib

    from kdey._io import open_regular

    try:
        with open_regular(path) as stream:
            entries = tomllib.load(stream)
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    except tomllib.TOMLDecodeError as error:
        raise click.UsageError(f"{path}: {error}") from None
    except RecursionError:
        raise click.UsageError(f"{path}: its values are nested too deeply") from None
    known = {
        option.name: option for option in ctx.command.params if isinstance(option, click.Option)
    }
    defaults = {}
    for key, value in entries.items():
        name = key.replace("-", "_")
        if name not in known or name == "config":
            raise click.UsageError(
                f"{path}: no option {key!r}; known are {', '.join(sorted(set(known) - {'config'}))}"
            )
        defaults[name] = _option_value(value, known[name].multiple)
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    return path


def _option_value(value: Any, several: bool) -> Any:
    """Return a TOML value as the command line would give it."""
    if isinstance(value, dict):  # a table of settings: name=value, repeated
        return tuple(f"{key}={item!r}" for key, item in value.items())
    if several:
        return tuple(str(item) for item in value) if isinstance(value, list) else (str(value),)
    return value


config_option = click.option(
    "--config",
    is_eager=True,
    expose_value=False,
    callback=read_config,
    help="TOML file with these options by name; the command line wins.",
)


def _with_options(command: Command, *options: Callable[[Command], Command]) -> Command:
    """Give a command options, listed in its help in this order."""
    for option in reversed(options):
        command = option(command)
    return command
