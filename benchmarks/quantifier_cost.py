"""What ``Quantifier()`` costs from X and y: the fit, a bag of 1,000 instances, and the model file.

    python benchmarks/quantifier_cost.py [--sets NAME ...]    # can be resumed
    python benchmarks/quantifier_cost.py --table

The fit is compared with the cross-validated fits of its classifiers alone (five folds, and a refit
of those that are refitted), measured first, in the same process, by processor time of all threads.
One line per set in ``results/quantifier_cost.jsonl``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kdey
from cases import EXTRA, PAPER, Records, load_case, quiet
from kdey.labels import training_labels
from kdey.posteriors import cross_fit
from kdey.splits import make_splits
from kdey.stacking.portfolio import EFFORTS, portfolio
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
    alone = sum(seconds_of_fits(case.X, case.y).values())
    wall, start = time.perf_counter(), time.process_time()
    q = kdey.Quantifier(random_state=0).fit(case.X, case.y)
    wall, spent = time.perf_counter() - wall, time.process_time() - start
    bag = np.resize(case.X_test, (BAG, case.X_test.shape[1]))
    models = [model for fitted in q.classifier_.models_.values() for model in fitted]
    with tempfile.TemporaryDirectory() as folder:
        size = Path(kdey.save(q, Path(folder) / "q.kdey")).stat().st_size
    return {
        "set": name,
        "shape": [*case.X.shape, len(q.classes_)],
        "classifiers_s": round(alone, 2),
        "fit_s": round(spent, 2),
        "wall_s": round(wall, 2),
        "predict_ms": round(fastest(lambda: q.predict(bag)), 2),
        "classifiers_ms": round(fastest(lambda: [m.predict_proba(bag) for m in models]), 2),
        "megabytes": round(size / 1e6, 2),
        "members": len(q.stack_.members),
    }


def seconds_of_fits(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the processor time of the cross-validated fits of each classifier."""
    codes, classes = training_labels(y)
    splits = make_splits(EFFORTS["default"].folds, X, codes, classes, random_state=0)
    seconds = {}
    for candidate in portfolio("auto", None, EFFORTS["default"], 0):
        start = time.process_time()
        cross_fit(candidate.classifier, X, codes, classes, splits, refit=candidate.refit)
        seconds[candidate.name] = time.process_time() - start
    return seconds


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
            f"{row['predict_ms'] - row['classifiers_ms']:.1f}",
            *(f"{row['classifiers_ms']:.0f}", f"{row['megabytes']:.1f}", row["members"]),
        ]
        for row in rows
    ]
    heads = [
        *("set", "instances x features x classes", "classifiers, s", "fit, s", "ratio", "wall, s"),
        *("bag of 1,000 beyond classifiers, ms", "classifiers, ms", "model, MB", "members"),
    ]
    print(markdown(heads, lines))


if __name__ == "__main__":
    main()
