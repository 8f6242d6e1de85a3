"""The side of other libraries of ``rivals.py``: arrays in, estimates and seconds out.

Every library chooses among four methods on three classifiers, with small grids, by the mean
absolute error of 50 bags drawn from 40 % of the training data, at prevalences uniform on the
simplex; the choice is fitted again to all of them. QuaPy searches by its own ``GridSearchQ``.
FLAML chooses a classifier, by log-loss and by its own rules, for EMQ-BCTS.
mlquantify's reads a bandwidth once only and quantificationlib's cannot search methods that get
posteriors, so that the same search is written out for them.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split

CLASSIFIERS = {
    "logistic regression": (LogisticRegression(max_iter=1000), {"C": [0.1, 1.0, 10.0]}),
    "random forest": (RandomForestClassifier(random_state=0), {"min_samples_leaf": [1, 5]}),
    "boosted trees": (HistGradientBoostingClassifier(random_state=0), {}),
}
BANDWIDTHS, BINS = [0.02, 0.05, 0.1, 0.15, 0.2], [4, 8, 16, 32]
N_BAGS, N_TRIALS = 50, 100


def quapy_best(X: np.ndarray, y: np.ndarray, size: int) -> tuple[str, Any]:
    import quapy as qp
    from quapy.data import LabelledCollection
    from quapy.method.aggregative import EMQ, PACC, DMy, KDEyML
    from quapy.model_selection import GridSearchQ
    from quapy.protocol import UPP

    qp.environ["SAMPLE_SIZE"] = size
    data = LabelledCollection(X, y)
    training, validation = data.split_stratified(train_prop=0.6, random_state=1)
    methods: dict[str, tuple[Any, dict[str, list[Any]]]] = {
        "EMQ-BCTS": (lambda c: EMQ(c, calib="bcts", val_split=5, on_calib_error="backup"), {}),
        "KDEyML": (KDEyML, {"bandwidth": BANDWIDTHS}),
        "PACC": (PACC, {}),
        "DMy": (DMy, {"nbins": BINS}),
    }
    best: tuple[float, str, Any] = (np.inf, "", None)
    for (name, (make, grid)), kind in itertools.product(methods.items(), CLASSIFIERS):
        classifier, own = CLASSIFIERS[kind]
        every = grid | {f"classifier__{key}": values for key, values in own.items()}
        protocol = UPP(validation, sample_size=size, repeats=N_BAGS, random_state=0)
        # Without a parameter there is nothing to search, and GridSearchQ wants one.
        every = every or {"val_split": [5]}
        search = GridSearchQ(make(clone(classifier)), every, protocol, error="mae", refit=False)
        search.fit(*training.Xy)
        if search.best_score_ < best[0]:
            best = (search.best_score_, f"{name}, {kind}, {search.best_params_}", search)
    return best[1], best[2].best_model().fit(*data.Xy).predict


def settings(grid: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


#: Methods of the libraries that get the search written out here, with their grids.
GRIDS: dict[str, dict[str, dict[str, list[Any]]]] = {
    "mlquantify": {
        "EMQ-BCTS": {},
        "KDEyML": {"bandwidth": BANDWIDTHS},
        "PACC": {},
        "DMy": {"bins": BINS},
    },
    "quantificationlib": {"EMQ": {}, "EDy": {}, "PACC": {}, "DMy": {"n_bins": BINS}},
}


def fit_mlquantify(method: str, classifier: Any, given: dict[str, Any], X: Any, y: Any) -> Any:
    from mlquantify.counting import GPACC
    from mlquantify.likelihood import EMQ
    from mlquantify.matching import GHDy, KDEyML

    made: Any = {
        "EMQ-BCTS": lambda: EMQ(classifier, calib_function="bcts"),
        "KDEyML": lambda: KDEyML(classifier, cv=5, **given),
        "PACC": lambda: GPACC(classifier, cv=5),
        "DMy": lambda: GHDy(classifier, cv=5, **given),
    }[method]()
    made.fit(X, y)
    return lambda bag: prevalence(made.predict(bag))


def prevalence(answer: Any) -> np.ndarray:
    """Return an answer as an array; mlquantify gives some as a dict from classes."""
    return np.array(list(answer.values()) if isinstance(answer, dict) else answer, dtype=float)


def fit_quantificationlib(
    method: str, classifier: Any, given: dict[str, Any], X: Any, y: Any
) -> Any:
    """Return ``predict`` of a method that gets the posteriors of five folds."""
    from quantificationlib.baselines.ac import PAC
    from quantificationlib.multiclass.df import HDy
    from quantificationlib.multiclass.em import EM
    from quantificationlib.multiclass.energy import EDy

    kind: Any = {"EMQ": EM, "EDy": EDy, "PACC": PAC, "DMy": HDy}[method]
    held_out = cross_val_predict(classifier, X, y, cv=5, method="predict_proba")
    made = kind(estimator_test=classifier, **given)
    made.fit(X, y, predictions_train=held_out)
    return made.predict


def flaml_best(X: np.ndarray, y: np.ndarray) -> tuple[str, Any]:
    """Return QuaPy's EMQ-BCTS on the classifier with the best log-loss of as many trials."""
    from flaml import AutoML
    from quapy.data import LabelledCollection
    from quapy.method.aggregative import EMQ

    search = AutoML()
    asked = {"max_iter": N_TRIALS, "n_jobs": 1, "seed": 0, "verbose": 0}
    search.fit(X, y, task="classification", metric="log_loss", **asked)
    made = EMQ(clone(search.model.estimator), calib="bcts", val_split=5, on_calib_error="backup")
    made.fit(*LabelledCollection(X, y).Xy)
    return f"EMQ-BCTS, {search.best_estimator}", made.predict


FITS = {"mlquantify": fit_mlquantify, "quantificationlib": fit_quantificationlib}


def searched(library: str, X: np.ndarray, y: np.ndarray, size: int) -> tuple[str, Any]:
    X_fit, X_val, y_fit, y_val = train_test_split(X, y, train_size=0.6, stratify=y, random_state=1)
    rng, k = np.random.default_rng(0), int(y.max()) + 1
    bags = []
    for _ in range(N_BAGS):
        counts = rng.multinomial(size, rng.dirichlet(np.ones(k)))
        drawn = [rng.choice(np.flatnonzero(y_val == c), n) for c, n in enumerate(counts)]
        bags.append((np.concatenate(drawn), counts / size))
    best: tuple[float, str, Any] = (np.inf, "", None)
    failures = 0
    for (method, grid), kind in itertools.product(GRIDS[library].items(), CLASSIFIERS):
        classifier, own = CLASSIFIERS[kind]
        for params, given in itertools.product(settings(own), settings(grid)):
            made = clone(classifier).set_params(**params)
            try:
                predict = FITS[library](method, made, given, X_fit, y_fit)
                errors = [np.abs(np.asarray(predict(X_val[bag])) - true) for bag, true in bags]
            except ImportError:
                raise
            except Exception:  # what a library cannot do is not chosen
                failures += 1
                continue
            if np.mean(errors) < best[0]:
                asked = (method, clone(made), given)
                best = (float(np.mean(errors)), f"{method}, {kind}, {params | given}", asked)
    if best[2] is None:
        raise RuntimeError(f"all {failures} candidates failed")
    return best[1], FITS[library](*best[2], X, y)


def main() -> None:
    warnings.simplefilter("ignore")
    given, made, options = np.load(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    size, library = int(given["bag_size"]), options["method"]
    start = sum(os.times()[:4])
    if library == "QuaPy":
        chosen, predict = quapy_best(given["X"], given["y"], size)
    elif library == "FLAML":
        chosen, predict = flaml_best(given["X"], given["y"])
    else:
        chosen, predict = searched(library, given["X"], given["y"], size)
    X, splits = given["X_test"], given["offsets"][1:-1]
    estimates = np.array([predict(X[bag]) for bag in np.split(given["indices"], splits)])
    seconds = sum(os.times()[:4]) - start
    np.savez(made, estimates=estimates, seconds=seconds, chosen=chosen)


if __name__ == "__main__":
    main()
