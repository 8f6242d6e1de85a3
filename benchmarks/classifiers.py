"""How much the classifier matters: four classifiers x five quantifiers.

    python benchmarks/classifiers.py [--sets 12] [--jobs 2]    # appends, can be resumed
    python benchmarks/classifiers.py --table

1,000 bags per set (split seed 0); one line per set and classifier in ``results/classifiers.jsonl``.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import kdey
from automatic import error
from cases import EXTRA, PAPER, Records, geometric_mean, load_case, make_classifier, quiet
from printing import markdown

CLASSIFIERS = (
    *("logistic regression", "calibrated logistic regression"),
    *("extra trees", "gradient boosting"),
)
METHODS = ("CC", "PACC", "EMQ", "DM", "KDEyML")
KEYS = ("set", "classifier")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--sets", type=int, default=12, help="the first so many")
    parser.add_argument("--bags", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    records = Records("classifiers.jsonl", KEYS)
    if args.table:
        print_table(records.rows)
        return
    quiet()
    for name in (PAPER + EXTRA)[: args.sets]:
        for classifier in CLASSIFIERS:
            if (name, classifier) not in records:
                records.add(evaluate(name, classifier, args.bags, args.jobs))


def evaluate(name: str, classifier: str, n_bags: int, n_jobs: int) -> dict[str, Any]:
    case = load_case(name, 0)
    methods = {method: getattr(kdey, method)(make_classifier(classifier)) for method in METHODS}
    for q in methods.values():
        names = q.get_params(deep=False)
        extra = {"tune_bag_size": case.bag_size} if "tune_bag_size" in names else {}
        q.set_params(**{n: 0 for n in ("random_state",) if n in names}, n_jobs=n_jobs, **extra)
    fitted = kdey.evaluation.fit_many(methods, case.X, case.y, n_jobs=n_jobs)
    bags = case.bags(n_bags, 0)
    line: dict[str, Any] = {"set": name, "classifier": classifier}
    for method, q in fitted.items():
        estimates = q.predict_bags(case.X_test, bags.bags)
        line[method] = [error(metric, bags, estimates) for metric in ("ae", "rae")]
    return line


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print geometric means over the sets that all classifiers have."""
    sets = [
        s
        for s in PAPER + EXTRA
        if {r["classifier"] for r in rows if r["set"] == s} >= {*CLASSIFIERS}
    ]
    for number, metric in enumerate(("MAE", "MRAE")):
        print(f"\n{metric}, geometric mean over {len(sets)} sets:\n")
        lines = []
        for classifier in CLASSIFIERS:
            own = [r for r in rows if r["set"] in sets and r["classifier"] == classifier]
            lines.append(
                [classifier, *(geometric_mean(r[m][number] for r in own) for m in METHODS)]
            )
        print(markdown(["classifier", *METHODS], lines))
    print_spreads({(r["set"], r["classifier"]): r for r in rows}, sets)


def print_spreads(rows: dict[tuple[str, str], dict[str, Any]], sets: list[str]) -> None:
    """Print how far the best and the worst lie apart, over classifiers and over quantifiers."""
    plain = [name for name in CLASSIFIERS if not name.startswith("calibrated")]
    correcting = [name for name in METHODS if name != "CC"]
    by_set = {s: np.array([[rows[s, c][m][0] for m in correcting] for c in plain]) for s in sets}
    over_classifiers = {s: e.max(axis=0) / e.min(axis=0) for s, e in by_set.items()}
    over_methods = {s: e.max(axis=1) / e.min(axis=1) for s, e in by_set.items()}
    larger = [
        s for s in sets if geometric_mean(over_classifiers[s]) > geometric_mean(over_methods[s])
    ]
    first, second = (
        geometric_mean(np.concatenate(list(spread.values())))
        for spread in (over_classifiers, over_methods)
    )
    print(
        f"\nWorst over best of {len(plain)} classifiers: {first:.2f}; of {len(correcting)} "
        f"quantifiers that correct: {second:.2f}. The classifier makes the larger difference on "
        f"{len(larger)} of {len(sets)} sets."
    )


if __name__ == "__main__":
    main()
