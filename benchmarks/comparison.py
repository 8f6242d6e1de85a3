"""The same questions put to kdey and to other quantification libraries; see docs/lab/comparison.md.

``python benchmarks/comparison.py LIBRARY`` (kdey, quapy, mlquantify or quantificationlib), in an
environment that has the library, prints what it answered as JSON and, with ``--out FILE``, adds it
to a file of such lines; ``--table FILE`` lays the answers side by side. Nothing but the library
itself and scikit-learn is needed: data and bags are made here.
"""

from __future__ import annotations

import argparse
import inspect
import json
import time
import warnings
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from comparison_table import as_table

METHODS = ("PACC", "EMQ", "KDEyML", "KDEyHD", "KDEyCS")
#: Where each library keeps a method, under which name, and what its classifier is called there.
HOMES: dict[str, dict[str, str]] = {
    "kdey": {name: f"kdey.{name}" for name in METHODS},
    "quapy": {name: f"quapy.method.aggregative.{name}" for name in METHODS},
    "mlquantify": {
        "PACC": "mlquantify.counting.GPACC",
        "EMQ": "mlquantify.likelihood.EMQ",
        **{name: f"mlquantify.matching.{name}" for name in METHODS[2:]},
    },
    "quantificationlib": {
        "PACC": "quantificationlib.baselines.ac.PAC",
        "EMQ": "quantificationlib.multiclass.em.EM",
    },
}
N_BAGS, BAG_SIZE = 30, 300


def classifier() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def make(library: str, method: str, **parameters: Any) -> Any:
    """Return an unfitted quantifier with the library's defaults, but for ``parameters``."""
    module, _, name = HOMES[library][method].rpartition(".")
    made = getattr(import_module(module), name)
    if library == "quantificationlib":
        return made(estimator_test=classifier(), **parameters)
    return made(classifier(), **parameters)


def fitted(library: str, made: Any, X: Any, y: Any) -> Any:
    """Fit a quantifier; quantificationlib gets the held-out posteriors that others make."""
    if library == "quantificationlib":
        held_out = cross_val_predict(classifier(), X, y, cv=5, method="predict_proba")
        made.fit(X, y, predictions_train=held_out)
        return made
    return made.fit(X, y)


def prevalence(answer: Any) -> np.ndarray:
    """Return an answer as an array; mlquantify gives a dict from classes."""
    return np.array(list(answer.values()) if isinstance(answer, dict) else answer, dtype=float)


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    return X, y, X_test, y_test


def shifted_bags(y: np.ndarray) -> list[np.ndarray]:
    """Return positions of bags whose prevalences are uniform on the simplex."""
    rng = np.random.default_rng(0)
    bags = []
    for _ in range(N_BAGS):
        counts = rng.multinomial(BAG_SIZE, rng.dirichlet(np.ones(10)))
        bags.append(np.concatenate([rng.choice(np.flatnonzero(y == c), n) for c, n in
                                    enumerate(counts)]))  # fmt: skip
    return bags


def error_and_time(library: str, method: str) -> dict[str, float]:
    """Return the mean absolute error over the bags, and milliseconds of one ``predict``.

    Processor time, all threads together: the wall clock would measure who else is at work.
    """
    X, y, X_test, y_test = digits()
    made = fitted(library, make(library, method), X, y)
    bags = shifted_bags(y_test)
    true = np.array([np.bincount(y_test[bag], minlength=10) / len(bag) for bag in bags])
    estimates, seconds = [], []
    for bag in bags:
        start = time.process_time()
        estimates.append(prevalence(made.predict(X_test[bag])))
        seconds.append(time.process_time() - start)
    return {
        "mae": float(np.abs(np.array(estimates) - true).mean()),
        "ms": 1000 * float(np.median(seconds)),
    }


def outcome(action: Callable[[], Any]) -> str:
    """Return what an action comes to: the kind of error, or the answer's numbers."""
    try:
        found = prevalence(action())
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:90]}" if str(error) else (
            type(error).__name__
        )  # fmt: skip
    if np.isnan(found).any():
        return "answers NaN"
    if np.ptp(found) < 1e-12:
        return "answers uniform"
    return f"answers {np.round(found, 3).tolist()}"


def odd_input(library: str) -> dict[str, str]:
    """Return what becomes of an empty bag, of labels in a list and of a bad bandwidth."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 100)
    X = rng.normal(size=(300, 2)) + 2.0 * np.eye(3)[y][:, :2]
    bag = X[::2]

    def plain(labels: Any) -> Any:
        return fitted(library, make(library, "PACC"), X, labels)

    asked = {
        "empty bag (PACC)": lambda: plain(y).predict(X[:0]),
        "labels in a list (PACC)": lambda: plain(y.tolist()).predict(bag),
    }
    if "KDEyML" in HOMES[library]:
        asked["bandwidth=-0.1 (KDEyML)"] = lambda: (
            make(library, "KDEyML", bandwidth=-0.1).fit(X, y).predict(bag)
        )
    return {name: outcome(action) for name, action in asked.items()}


def bandwidth_reached(library: str) -> float | None:
    """Return how far ``set_params(bandwidth=1.0)`` moves an estimate made at 0.1."""
    if "KDEyML" not in HOMES[library]:
        return None
    X, y, X_test, _ = digits()
    first = make(library, "KDEyML", bandwidth=0.1)
    second = make(library, "KDEyML", bandwidth=0.1)
    second.set_params(bandwidth=1.0)
    bag = X_test[:60]
    both = [prevalence(q.fit(X, y).predict(bag)) for q in (first, second)]
    return float(np.abs(both[0] - both[1]).max())


def contract(library: str) -> dict[str, Any]:
    """Return how many of scikit-learn's checks a plain PACC passes."""
    from sklearn.utils.estimator_checks import check_estimator

    try:
        found = check_estimator(make(library, "PACC"), on_fail=None)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:120]}
    status = [str(one["status"]) for one in found]
    failed = [str(one["check_name"]) for one in found if one["status"] == "failed"]
    return {name: status.count(name) for name in sorted(set(status))} | {"names": failed}


def package(library: str) -> dict[str, Any]:
    """Return version, commands, type information and weights of the library."""
    home = Path(inspect.getfile(import_module(library))).parent
    scripts = metadata.entry_points(group="console_scripts")
    owned = [s.name for s in scripts if s.value.split(".")[0].split(":")[0] == library]
    made = make(library, "PACC")
    weights = {
        name: "sample_weight" in inspect.signature(getattr(made, name)).parameters
        for name in ("fit", "predict")
    }
    return {
        "version": getattr(import_module(library), "__version__", None)
        or metadata.version(library),
        "commands": owned,
        "py.typed": (home / "py.typed").exists(),
        "sample_weight": weights,
        "extension modules": len(list(home.rglob("*.so")) + list(home.rglob("*.bin"))),
    }


def ask(library: str) -> dict[str, Any]:
    """Return all answers of one library."""
    return {
        "library": library,
        "package": package(library),
        "methods": {m: error_and_time(library, m) for m in METHODS if m in HOMES[library]},
        "odd input": odd_input(library),
        "set_params(bandwidth) moves the estimate by": bandwidth_reached(library),
        "check_estimator(PACC)": contract(library),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The same questions for several libraries.")
    parser.add_argument("library", nargs="?", choices=HOMES)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        print(as_table([json.loads(line) for line in options.table.read_text().splitlines()]))
        return
    if options.library is None:
        parser.error("name a library, or --table FILE")
    warnings.simplefilter("ignore")
    line = json.dumps(ask(options.library))
    print(line)
    if options.out:
        with options.out.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
