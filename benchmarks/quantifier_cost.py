"""What ``Quantifier()`` costs from X and y: the fit, a bag of 1,000 instances, and the model file.

    python benchmarks/quantifier_cost.py [--sets NAME ...]    # can be resumed
    python benchmarks/quantifier_cost.py --table

The fit is compared with the cross-validated fits of its classifiers alone (five folds, and a refit
of those that are refitted), measured first, in the same process, by processor time of all threads.
A prediction is timed beyond its classifiers: the models of the pool hand posteriors through that
they made before. Beside it stand ``KDEyML()`` and KDEy-ML with its best kernel alone, on posteriors
too, as the mean over the three classifiers. One line per set in ``results/quantifier_cost.jsonl``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import kdey
from cases import EXTRA, PAPER, Records, load_case, quiet
from kdey.classifiers import make_splits
from kdey.posteriors import FittedStage, cross_fit
from kdey.stacking import EFFORTS, portfolio
from kdey.validation import training_labels
from printing import markdown

BAG = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=[*PAPER, *EXTRA])
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    records = Records("quantifier_cost.jsonl", ("set",))
    if args.table:
        print_table(records.rows)
        return
    quiet()
    for name in args.sets:
        if (name,) not in records:
            records.add(measure(name))


def measure(name: str) -> dict[str, Any]:
    """Return times and sizes on the first split of a set."""
    case = load_case(name, 0)
    seconds, fits = cross_fits(case.X, case.y)
    alone = sum(seconds.values())
    wall, start = time.perf_counter(), time.process_time()
    q = kdey.Quantifier(random_state=0).fit(case.X, case.y)
    wall, spent = time.perf_counter() - wall, time.process_time() - start
    bag = np.resize(case.X_test, (BAG, case.X_test.shape[1]))
    pool = q.classifier_
    models = [model for fitted in pool.models_.values() for model in fitted]
    through = copy(q)
    through.classifier_ = copy(pool)
    through.classifier_.models_ = {
        name: [HandedThrough(model, bag) for model in fitted]
        for name, fitted in pool.models_.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        size = Path(kdey.save(q, Path(folder) / "q.kdey")).stat().st_size
    return {
        "set": name,
        "shape": [*case.X.shape, len(q.classes_)],
        "classifiers_s": round(alone, 2),
        "fit_s": round(spent, 2),
        "wall_s": round(wall, 2),
        "beyond_ms": round(fastest(lambda: through.predict(bag)), 3),
        **kernel_milliseconds(fits, bag),
        "classifiers_ms": round(fastest(lambda: [m.predict_proba(bag) for m in models]), 2),
        "megabytes": round(size / 1e6, 2),
        "members": len(q.stack_.members),
        "kernels": sum(len(member.kernels) for member in pool.members),
    }


class HandedThrough:
    """A model whose posteriors of a bag are known."""

    def __init__(self, model: Any, bag: np.ndarray) -> None:
        self.classes_ = model.classes_
        self.posteriors = np.asarray(model.predict_proba(bag))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the posteriors."""
        return self.posteriors


def kernel_milliseconds(fits: dict[str, FittedStage], bag: np.ndarray) -> dict[str, float]:
    """Return the time of a bag of posteriors by one kernel and by ``KDEyML()``."""
    spent: dict[str, list[float]] = {"kernel_ms": [], "kdeyml_ms": []}
    for fit in fits.values():
        training = fit.training
        model = fit.fold_models[0] if fit.classifier is None else fit.classifier
        posteriors = model.predict_proba(bag)
        for key, average in (("kernel_ms", False), ("kdeyml_ms", True)):
            q = kdey.KDEyML(average=average, random_state=0)
            X = np.zeros((len(training.labels), 1))
            q._fit_stage(FittedStage(None, training), X, training.labels)
            spent[key].append(fastest(partial(q.aggregate, posteriors)))
    return {key: round(float(np.mean(values)), 3) for key, values in spent.items()}


def cross_fits(X: np.ndarray, y: np.ndarray) -> tuple[dict[str, float], dict[str, FittedStage]]:
    """Return the processor time of the cross-validated fits of each classifier, and the fits."""
    codes, classes = training_labels(y)
    splits = make_splits(EFFORTS["default"][0], X, codes, classes, random_state=0)
    seconds, fits = {}, {}
    for name, (classifier, refit) in portfolio("auto", None, "default", 0).items():
        start = time.process_time()
        fits[name] = cross_fit(classifier, X, codes, classes, splits, refit=refit)
        seconds[name] = time.process_time() - start
    return seconds, fits


def fastest(call: Callable[[], Any], times: int = 7) -> float:
    """Return the milliseconds of the fastest of several calls, by processor time."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return 1000 * min(spent)


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print one line per set."""
    lines = [
        [
            *(row["set"], " x ".join(map(str, row["shape"]))),
            *(f"{row['classifiers_s']:.1f}", f"{row['fit_s']:.1f}"),
            f"{row['fit_s'] / row['classifiers_s']:.2f}",
            f"{row['wall_s']:.0f}",
            *(f"{row[key]:.1f}" for key in ("kernel_ms", "kdeyml_ms", "beyond_ms")),
            *(f"{row[key] / row['kernel_ms']:.1f}" for key in ("kdeyml_ms", "beyond_ms")),
            *(f"{row['classifiers_ms']:.0f}", f"{row['megabytes']:.1f}", row["members"]),
            row["kernels"],
        ]
        for row in rows
    ]
    heads = [
        *("set", "instances x features x classes", "classifiers, s", "fit, s", "ratio", "wall, s"),
        *("a bag of 1,000 by one kernel, ms", "KDEyML(), ms", "Quantifier(), ms"),
        *("KDEyML() / kernel", "Quantifier() / kernel"),
        *("classifiers, ms", "model, MB", "members", "kernels"),
    ]
    print(markdown(heads, lines))


if __name__ == "__main__":
    main()
