"""Tables by group on the command line: the options that say what the groups are.

Labelled tables on the command line: the options that say which column is what.

Protocols by name on the command line.

Methods and classifiers by the names that the command line knows them by.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kdey.cli.common import names, say


def group_options(command: Any) -> Any:
    """Give a command the options of groups, scores, limits and missing values."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def grouping_of(options: dict[str, Any]) -> Any:
    """Return the ``Grouping`` that the options ask for."""
    from kdey.groups import Grouping

    return Grouping(tuple(names(options["by"])), options["time"], options["every"])


_OPTIONS = (
    click.option("--by", multiple=True, help="Key columns of the groups; repeat, or commas."),
    click.option("--time", help="Column of dates or times: one more, last key."),
    click.option("--every", help="Period that times are cut down to: 1d, 1w, 1mo, 1q, 1y, 6h ..."),
    click.option("--scores", multiple=True, help="Columns of posteriors in the place of features."),
    click.option("--confidence", default=0.95, show_default=True),
    click.option("--min-size", default=10, show_default=True, help="Below it: 'too small'."),
    click.option(
        "--missing",
        type=click.Choice(["error", "drop"]),
        default="error",
        show_default=True,
        help="Rows with a missing value: refuse them, or leave them out and count them.",
    ),
)


def label_options(command: Any) -> Any:
    """Give a command the options of a labelled table."""
    for option in (
        click.option(
            "--missing",
            type=click.Choice(["error", "drop"]),
            default="error",
            show_default=True,
            help="Rows with a missing value: refuse them, or leave them out.",
        ),
        click.option("--ignore", multiple=True, help="Columns to leave out; repeat, or commas."),
        click.option("--features", multiple=True, help="Columns to use. Default: all others."),
        click.option("--label", required=True, help="Column of the classes."),
    ):
        command = option(command)
    return command


def read_labelled(
    table: str,
    label: str,
    features: tuple[str, ...],
    ignore: tuple[str, ...],
    missing: str,
    scores: tuple[str, ...] = (),
) -> Any:
    """Return the training data of a table; errors name the file."""
    from kdey.tables.files import TableError, TableFile
    from kdey.tables.training import training_table

    file = TableFile.open(table)
    frame = file.read()
    try:
        made = training_table(
            frame,
            label,
            features=names(features),
            ignore=names(ignore),
            scores=names(scores),
            missing=missing,
        )
    except ValueError as error:
        raise TableError(f"{file.name}: {error}") from error
    if made.dropped:
        say(f"{file.name}: {made.dropped} rows with missing values left out")
    return made


PROTOCOLS = {"app": "APP", "npp": "NPP", "dirichlet": "DirichletProtocol"}


def protocol_options(command: Any) -> Any:
    """Give a command the options that say which bags are drawn."""
    for option in (
        click.option("--bag-size", default=100, show_default=True),
        click.option("--bags", default=200, show_default=True, help="Number of bags."),
        click.option(
            "--protocol",
            type=click.Choice(list(PROTOCOLS)),
            default="app",
            show_default=True,
            help="app: prevalences uniform on the simplex; npp: bags as the table is.",
        ),
    ):
        command = option(command)
    return command


def make_protocol(options: dict[str, Any]) -> Any:
    """Return the protocol that the options name."""
    import kdey

    cls = getattr(kdey, PROTOCOLS[options["protocol"]])
    return cls(n_bags=options["bags"], bag_size=options["bag_size"], random_state=options["seed"])


#: Name -> class in ``kdey``.
METHODS = {
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
    "pcc": "PCC",
    "cc": "CC",
}
#: Name -> module and class of scikit-learn, and settings of ours.
CLASSIFIERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "logistic": ("sklearn.linear_model", "LogisticRegression", {"max_iter": 1000}),
    "extra-trees": ("sklearn.ensemble", "ExtraTreesClassifier", {"n_estimators": 300}),
    "random-forest": ("sklearn.ensemble", "RandomForestClassifier", {"n_estimators": 300}),
    "boosting": ("sklearn.ensemble", "HistGradientBoostingClassifier", {}),
    "naive-bayes": ("sklearn.naive_bayes", "GaussianNB", {}),
    # Trees of neighbours are compiled objects, which no model file is trusted with.
    "neighbours": (
        "sklearn.neighbors",
        "KNeighborsClassifier",
        {"n_neighbors": 15, "algorithm": "brute"},
    ),
}

method_option = click.option(
    "--method", type=click.Choice(list(METHODS)), default="kdey-ml", show_default=True
)


def model_options(command: Any) -> Any:
    """Give a command the options that say what is fitted."""
    for option in (
        click.option("--jobs", default=1, show_default=True, help="Fits at once; -1: all cores."),
        click.option("--seed", default=0, show_default=True, help="Shuffles folds and draws."),
        click.option(
            "--classifier-option",
            "classifier_options",
            multiple=True,
            help="name=value for the classifier, such as C=0.1; repeat.",
        ),
        click.option(
            "--classifier",
            type=click.Choice(list(CLASSIFIERS)),
            default="logistic",
            show_default=True,
        ),
    ):
        command = option(command)
    return command


def make_classifier(name: str, given: Mapping[str, Any], seed: int, layout: Any) -> Any:
    """Return an unfitted pipeline: numbers standardised, texts one-hot, then the classifier."""
    from importlib import import_module

    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    home, kind, own = CLASSIFIERS[name]
    made = getattr(import_module(home), kind)(**own)
    known = made.get_params()
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise click.UsageError(
            f"--classifier-option: {name} has no {unknown[0]!r}; it has {', '.join(sorted(known))}"
        )
    seeded = {"random_state": seed} if "random_state" in known else {}
    made.set_params(**{**seeded, **given})
    texts = layout.text_positions
    if not texts:
        return Pipeline([("prepare", StandardScaler()), ("classify", made)])
    others = [i for i in range(len(layout.features)) if i not in texts]
    seen = [[float(n) for n in range(len(layout.texts[layout.features[i]]))] for i in texts]
    encoder = OneHotEncoder(categories=seen, handle_unknown="ignore", sparse_output=False)
    prepare = ColumnTransformer([("numbers", StandardScaler(), others), ("texts", encoder, texts)])
    return Pipeline([("prepare", prepare), ("classify", made)])


def make_method(name: str, classifier: Any, given: Mapping[str, Any], seed: int, jobs: int) -> Any:
    """Return an unfitted quantifier."""
    import kdey

    cls = getattr(kdey, METHODS[name])
    known = cls().get_params(deep=False)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise click.UsageError(
            f"--option: {name} has no {unknown[0]!r}; it has {', '.join(sorted(known))}"
        )
    return cls(**{"classifier": classifier, "random_state": seed, "n_jobs": jobs, **given})


def fit_options(command: Any) -> Any:
    """Give a command ``--option``."""
    return click.option(
        "--option", "options", multiple=True, help="name=value for the method; repeat."
    )(command)
