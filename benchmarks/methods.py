"""Every method on the same posteriors: errors, and the time of fit and bags.

    python benchmarks/stacking.py fit --cache FOLDER [--group binary]    # the posteriors, once
    python benchmarks/methods.py --cache FOLDER [--group binary] [--sets NAME ...]    # resumes
    python benchmarks/methods.py --table [--group binary]

The sets, splits, classifiers and bags of ``stacking.py``: 200 bags of 500 of the multiclass sets
(prevalences uniform over the simplex), 200 of 100 of the binary ones. A method sees posteriors out
of fold and those of the test instances by the refitted classifier; those that work on features see
these instead, and count as a classifier of their own. Times are processor seconds of one thread,
without those of the classifier. One line per set, classifier and method in
``results/methods.jsonl`` and ``results/methods_binary.jsonl``. Ordered classes: ``ordinal.py``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import kdey
from cases import EXTRA, PAPER, Records, geometric_mean, load_case, quiet
from kdey.datasets import names
from kdey.evaluation import APP
from kdey.metrics import get_metric
from kdey.posteriors import FittedStage
from kdey.validation import training_labels
from printing import markdown
from stacking import FLOOR, Scored, file_of, load

METRICS = ("ae", "rae")
BAGS = 200
GROUPS = {"multiclass": (500, "methods.jsonl"), "binary": (100, "methods_binary.jsonl")}
#: What stands for the classifier of methods that have none.
FEATURES = "none (features)"
#: Training sets with more instances are too large for distances between all of them.
MOST_INSTANCES = 8_000


def methods(group: str) -> dict[str, Any]:
    """Return the methods on posteriors, at their defaults."""
    common = {
        "CC": kdey.CC(),
        "PCC": kdey.PCC(),
        "ACC": kdey.ACC(),
        "PACC": kdey.PACC(),
        "RLLS": kdey.RLLS(),
        "Friedman": kdey.Friedman(),
        "EMQ": kdey.EMQ(),
        "EMQ-BCTS": kdey.EMQ(calibration="bcts"),
        "DIR": kdey.DIR(),
        "DM, Topsoe": kdey.DM(divergence="topsoe"),
        "DM, Hellinger": kdey.DM(divergence="hellinger"),
        "DM, Cauchy-Schwarz": kdey.DM(divergence="cauchy-schwarz"),
        "EDy": kdey.EDy(),
        "KDEyML": kdey.KDEyML(random_state=0),
        "KDEyML, bandwidth 0.1": kdey.KDEyML(bandwidth=0.1),
        "KDEyCS": kdey.KDEyCS(random_state=0),
        "KDEyL2": kdey.KDEyL2(random_state=0),
        "KDEyHD": kdey.KDEyHD(random_state=0),
    }
    binary = {
        "HDy": kdey.HDy(),
        "DyS": kdey.DyS(),
        "SORD": kdey.SORD(),
        "MM": kdey.MM(),
        "T50": kdey.T50(),
        "MAX": kdey.MAX(),
        "ThresholdX": kdey.ThresholdX(),
        "MS": kdey.MS(),
        "MS2": kdey.MS2(),
    }
    return common | binary if group == "binary" else common


def methods_on_features(group: str) -> dict[str, Any]:
    """Return the methods without a classifier."""
    found = {
        "TrainingPrevalence": kdey.TrainingPrevalence(),
        "DMx": kdey.DMx(),
        "EDx": kdey.EDx(),
        "KMM": kdey.KMM(),
    }
    return found | ({"HDx": kdey.HDx()} if group == "binary" else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path("build/benchmarks/stacking"))
    parser.add_argument("--group", choices=list(GROUPS), default="multiclass")
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    size, file = GROUPS[args.group]
    records = Records(file, ("set", "seed", "classifier", "method"))
    if args.table:
        print_table(records.rows)
        return
    quiet()
    binary = [f"uci-binary/{name.split('/')[-1]}" for name in names("uci-binary")]
    known = binary if args.group == "binary" else [*PAPER, *EXTRA]
    with threadpool_limits(1):
        for seed in args.seeds:
            for name in args.sets or known:
                if file_of(args.cache, name, seed, "gradient boosting").exists():
                    run(records, args, name, seed, size)


def run(records: Records, args: argparse.Namespace, name: str, seed: int, size: int) -> None:
    """Add the lines of one split that the records lack."""
    scored, labels, _ = load(args.cache, name, seed)
    k = next(iter(scored.values())).refit.shape[1]
    bags = APP(BAGS, size, random_state=seed).bags(labels, np.arange(k))
    for classifier, scores in scored.items():
        for method, q in methods(args.group).items():
            if (name, seed, classifier, method) not in records:
                head = {"set": name, "seed": seed, "classifier": classifier, "method": method}
                records.add(head | on_posteriors(q, scores, bags))
    case = load_case(name, seed)
    if len(case.y) > MOST_INSTANCES:
        return
    for method, q in methods_on_features(args.group).items():
        if (name, seed, FEATURES, method) not in records:
            head = {"set": name, "seed": seed, "classifier": FEATURES, "method": method}
            records.add(head | on_features(q, case, bags))


def on_posteriors(q: Any, scores: Scored, bags: Any) -> dict[str, Any]:
    """Return errors and times of a method whose classifier is fitted."""
    training = scores.training
    start = time.process_time()
    q._fit_stage(FittedStage(None, training), np.zeros((len(training.labels), 1)), training.labels)
    fitted = time.process_time()
    estimates = q.aggregate_bags(scores.refit, bags.bags)
    return outcome(bags, estimates, fitted - start, time.process_time() - fitted)


def on_features(q: Any, case: Any, bags: Any) -> dict[str, Any]:
    """Return errors and times of a method without a classifier."""
    start = time.process_time()
    q.fit(case.X, training_labels(case.y)[0])
    fitted = time.process_time()
    estimates = q.predict_bags(case.X_test, bags.bags)
    return outcome(bags, estimates, fitted - start, time.process_time() - fitted)


def outcome(bags: Any, estimates: np.ndarray, fit: float, predict: float) -> dict[str, Any]:
    size = len(bags.bags.indices) // len(estimates)
    found = {
        metric: round(
            float(get_metric(metric)(bags.prevalences, estimates, bag_size=size).mean()), 6
        )
        for metric in METRICS
    }
    return found | {"fit_s": round(fit, 3), "bag_ms": round(1000 * predict / len(estimates), 4)}


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print geometric means relative to KDEyML() with the same classifier, and to the best."""
    known = {(r["set"], r["seed"], r["classifier"], r["method"]): r for r in rows}
    classifiers = [c for c in dict.fromkeys(r["classifier"] for r in rows) if c != FEATURES]
    places = sorted({(r["set"], r["seed"]) for r in rows if r["classifier"] in classifiers})
    lines = []
    for method in dict.fromkeys(r["method"] for r in rows):
        on_scores = (*places[0], classifiers[0], method) in known
        columns: list[Any] = []
        for metric in METRICS:
            for classifier in classifiers:
                own = [(*p, classifier if on_scores else FEATURES, method) for p in places]
                base = [(*p, classifier, "KDEyML") for p in places]
                both = [p for p in zip(own, base, strict=True) if all(key in known for key in p)]
                pairs = [(known[a], known[b]) for a, b in both]
                columns.append(
                    geometric_mean(max(a[metric], FLOOR) / max(b[metric], FLOOR) for a, b in pairs)
                )
        done = [r for r in rows if r["method"] == method]
        times = [f"{np.median([r[t] for r in done]):.3g}" for t in ("fit_s", "bag_ms")]
        lines.append([method, *columns, *times, len({(r["set"], r["seed"]) for r in done})])
    lines.sort(key=lambda line: sum(line[1 : 1 + len(classifiers)]))
    heads = [f"{metric}, {c}" for metric in ("MAE", "MRAE") for c in classifiers]
    print(
        f"{len({p[0] for p in places})} sets; errors relative to KDEyML() on the same classifier,"
    )
    print("geometric means; medians of times.\n")
    print(markdown(["method", *heads, "fit, s", "bag, ms", "sets"], lines))


if __name__ == "__main__":
    main()
