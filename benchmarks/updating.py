"""What new labels are worth: an update of templates beside a fit of everything.

    python benchmarks/updating.py [--seeds 3]
    python benchmarks/updating.py --table

Half of the training rows of each set are known at ``fit``, and the others come later, half of them
at a time. Errors are those of 300 bags, relative to those without the new labels, on three splits;
times are processor seconds. One line per set, split and method goes to ``results/updating.csv``.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kdey
from cases import geometric_mean, load_case, quiet
from printing import markdown
from summaries import RESULTS

SUMMARY = RESULTS / "updating.csv"
SETS = (
    *("uci-extra/maternal-health-risk", "uci-extra/cmc", "uci-extra/yeast", "uci-extra/phishing"),
    *("uci-extra/abalone", "uci-extra/page-blocks"),
    *("uci-multi/academic-success", "uci-multi/dry-bean"),
)
METHODS: dict[str, Callable[[], Any]] = {
    "KDEyML()": lambda: kdey.KDEyML(random_state=0),
    'Quantifier(effort="low")': lambda: kdey.Quantifier(effort="low", random_state=0),
}
COLUMNS = ("set", "seed", "method", "before", "updated", "refitted", "update s", "refit s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        print_table()
        return
    quiet()
    with SUMMARY.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name in SETS:
            for seed in range(args.seeds):
                for method in METHODS:
                    writer.writerow([name, seed, method, *measure(name, seed, method)])
                    stream.flush()


def measure(name: str, seed: int, method: str) -> list[float]:
    """Return errors before, after two updates and after a new fit, and the times of both."""
    case = load_case(name, seed)
    order = np.random.default_rng(seed).permutation(len(case.y))
    first, *later = np.array_split(order, 4)
    first, later = np.concatenate([first, later[0]]), later[1:]
    bags = case.bags(300, 0)
    q = METHODS[method]().fit(case.X[first], case.y[first])
    errors = [error(q, case, bags)]
    start = time.process_time()
    for rows in later:
        q.update(case.X[rows], case.y[rows])
    seconds = [time.process_time() - start]
    errors.append(error(q, case, bags))
    start = time.process_time()
    whole = METHODS[method]().fit(case.X, case.y)
    seconds.append(time.process_time() - start)
    return [*(float(f"{e:.4g}") for e in (*errors, error(whole, case, bags))),
            *(round(s, 3) for s in seconds)]  # fmt: skip


def error(q: Any, case: Any, bags: Any) -> float:
    return float(np.abs(q.predict_bags(case.X_test, bags.bags) - bags.prevalences).mean())


def print_table() -> None:
    """Print the ratios of errors by method, and the ratio of times."""
    with SUMMARY.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    lines = []
    for method in METHODS:
        own = [row for row in rows if row["method"] == method]
        ratio = {
            kind: [float(row[kind]) / float(row["before"]) for row in own]
            for kind in ("updated", "refitted")
        }
        times = geometric_mean(float(row["refit s"]) / float(row["update s"]) for row in own)
        values = [f"{geometric_mean(ratio[kind]):.2f}" for kind in ratio]
        worse = sum(value > 1.0 for value in ratio["updated"])
        lines.append([method, len(own), *values, worse, f"{times:.0f}"])
    head = ["method", "splits", "updated", "fitted again", "splits made worse", "times faster"]
    print(markdown(head, lines))


if __name__ == "__main__":
    main()
