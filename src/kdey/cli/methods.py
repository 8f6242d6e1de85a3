"""Methods and classifiers by the names that the command line knows them by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

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
