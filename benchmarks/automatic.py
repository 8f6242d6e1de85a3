"""The automatic choice against every fixed (kernel, bandwidth), and against the published numbers.

    python benchmarks/automatic.py [--sets 5] [--seeds 3] [--jobs 2]    # appends, can be resumed
    python benchmarks/automatic.py --table                              # tables in markdown

All sets x split seeds x {logistic regression, extra trees}; 1,000 bags of 500 (100 from small
pools). The best fixed choice in hindsight is picked on 250 other bags of the same pool. One line
per case and metric goes to ``results/automatic.jsonl``.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import kdey
from cases import EXTRA, PAPER, Case, Records, geometric_mean, load_case, make_classifier, quiet
from experiments.scores import published_values
from kdey.metrics import get_metric
from kdey.posteriors import ClassifierStage, FittedStage, predict_posteriors
from kdey.validation import training_labels
from printing import markdown

CLASSIFIERS = ("logistic regression", "extra trees")
METRICS = ("ae", "rae")
FIXED = [
    *(("gaussian", h) for h in (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)),
    *(("aitchison", h) for h in (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0)),
]
KEYS = ("set", "seed", "classifier", "metric")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="print tables of what there is")
    parser.add_argument("--sets", type=int, default=len(PAPER + EXTRA), help="the first so many")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bags", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    records = Records("automatic.jsonl", KEYS)
    if args.table:
        for metric in METRICS:
            print_tables(records.rows, metric)
        return
    quiet()
    for group in (PAPER, EXTRA):
        for seed in range(args.seeds):
            for name in [n for n in group if n in (PAPER + EXTRA)[: args.sets]]:
                run_case(records, name, seed, args.bags, args.jobs)


def run_case(records: Records, name: str, seed: int, n_bags: int, n_jobs: int) -> None:
    """Add the lines of one split that are missing."""
    todo = [c for c in CLASSIFIERS if any((name, seed, c, m) not in records for m in METRICS)]
    if not todo:
        return
    case = load_case(name, seed)
    for classifier in todo:
        for row in evaluate(case, classifier, n_bags, n_jobs):
            records.add(row)


def evaluate(case: Case, classifier: str, n_bags: int, n_jobs: int) -> list[dict[str, Any]]:
    """Return one line per metric."""
    codes, classes = training_labels(case.y)
    start = time.perf_counter()
    stage = ClassifierStage(make_classifier(classifier), 5, 0).fit(
        case.X, codes, classes, n_jobs=n_jobs
    )
    fits = time.perf_counter() - start
    pool = predict_posteriors(stage.classifier, case.X_test, classes)
    bags, other = case.bags(n_bags, 0), case.bags(250, 1)
    fixed: dict[str, Any] = {}
    for kernel, h in FIXED:
        q = kdey.KDEyML(bandwidth=h, kernel=kernel, random_state=0, n_jobs=n_jobs)
        q._fit_stage(stage, case.X, case.y)
        estimates = [(b, q.aggregate_bags(pool, b.bags)) for b in (bags, other)]
        fixed[f"{kernel} {h:g}"] = {m: [error(m, b, e) for b, e in estimates] for m in METRICS}
    lines = []
    for metric in METRICS:
        line = dict(zip(KEYS, (case.name, case.seed, classifier, metric), strict=True))
        line |= {"k": len(classes), "training": len(case.y), "pool": len(case.y_test)}
        line |= {"bag_size": case.bag_size, "bags": n_bags, "classifier_s": round(fits, 2)}
        line |= automatic(case, stage, pool, bags, metric, n_jobs)
        line["fixed"] = {name: values[metric] for name, values in fixed.items()}
        lines.append(line)
    return lines


def automatic(
    case: Case, stage: FittedStage, pool: Any, bags: Any, metric: str, n_jobs: int
) -> dict[str, Any]:
    """Return the errors of the automatic choice, averaged and of its best geometry alone."""
    made: dict[str, Any] = {}
    for name, average in (("automatic", True), ("single", False)):
        start = time.perf_counter()
        q = kdey.KDEyML(
            tune_for=metric, tune_bag_size=case.bag_size, average=average, random_state=0,
            n_jobs=n_jobs,
        )  # fmt: skip
        q._fit_stage(stage, case.X, case.y)
        made[f"{name}_s"] = round(time.perf_counter() - start, 2)
        made[name] = error(metric, bags, q.aggregate_bags(pool, bags.bags))
        made[f"{name}_choice"] = [
            [t.setting, t.value, round(t.weight, 3)] for t in q.tuning_.members
        ]
    return made


def error(metric: str, bags: Any, estimates: np.ndarray) -> float:
    return float(get_metric(metric)(bags.prevalences, estimates, bag_size=bags.sizes).mean())


def hindsight(row: dict[str, Any]) -> float:
    """Return the error of the fixed choice that was best on the other bags."""
    return float(min(row["fixed"].values(), key=lambda pair: pair[1])[0])


def print_tables(rows: list[dict[str, Any]], metric: str) -> None:
    """Print the table by set, and the means over sets."""
    rows = [row for row in rows if row["metric"] == metric]
    if not rows:
        return
    published = read_published(f"m{metric}")
    names = [n for n in PAPER + EXTRA if any(row["set"] == n for row in rows)]
    print(f"\n### M{metric.upper()}\n")
    head = ["set", "published KDEy-ML"]
    for classifier in CLASSIFIERS:
        head += [f"automatic, {classifier}", "best fixed in hindsight", "ratio"]
    print(markdown(head, [set_line(rows, name, published) for name in names]) + "\n")
    print_sentences(rows, published)


def set_line(rows: list[dict[str, Any]], name: str, published: dict[str, float]) -> list[Any]:
    line: list[Any] = [name.split("/")[1], published.get(name.split("/")[1], "")]
    for classifier in CLASSIFIERS:
        own = [r for r in rows if r["set"] == name and r["classifier"] == classifier]
        if not own:
            line += ["", "", ""]
            continue
        ours = float(np.mean([r["automatic"] for r in own]))
        best = float(np.mean([hindsight(r) for r in own]))
        line += [ours, best, f"{ours / best:.2f}"]
    return line


def print_sentences(rows: list[dict[str, Any]], published: dict[str, float]) -> None:
    ours = geometric_mean(r["automatic"] for r in rows)
    single = geometric_mean(r["single"] for r in rows)
    best = geometric_mean(hindsight(r) for r in rows)
    fixed = {n: geometric_mean(r["fixed"][n][0] for r in rows) for n in rows[0]["fixed"]}
    name = min(fixed, key=lambda n: fixed[n])
    print(
        f"Geometric means over {len(rows)} cases: automatic {ours:.5f}, its best geometry alone "
        f"{single:.5f}, best fixed per case in hindsight {best:.5f} (ratio {ours / best:.3f}), "
        f"best single fixed choice {fixed[name]:.5f} ({name}; ratio "
        f"{ours / fixed[name]:.3f})."
    )
    slowest = max(rows, key=lambda r: r["automatic_s"])
    print(f"The slowest choice took {slowest['automatic_s']:.1f} s ({slowest['set']}).")
    for classifier in CLASSIFIERS:
        own = [r for r in rows if r["classifier"] == classifier and r["set"] in PAPER]
        sets = sorted({r["set"] for r in own})
        if not sets:
            continue
        means = {s: np.mean([r["automatic"] for r in own if r["set"] == s]) for s in sets}
        below = [s for s in sets if means[s] < published[s.split("/")[1]]]
        ratio = geometric_mean(means[s] / published[s.split("/")[1]] for s in sets)
        print(
            f"With {classifier}, against the published KDEy-ML (logistic regression, a grid): "
            f"geometric-mean ratio {ratio:.3f}, below on {len(below)} of {len(sets)} sets."
        )


def read_published(metric: str) -> dict[str, float]:
    """Return the published errors of KDEy-ML by set."""
    values = published_values("multiclass", "UCI-multi", metric)
    return {name: value for (name, method), value in values.items() if method == "KDEy-ML"}


if __name__ == "__main__":
    main()
