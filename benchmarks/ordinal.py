"""Ordered classes: methods with and without a penalty on rough prevalences.

    python benchmarks/ordinal.py [--sets NAME ...] [--seeds 0 1 2]    # can be resumed
    python benchmarks/ordinal.py --table

Four sets whose classes have an order, split 70/30: wine-quality, abalone (rings with at least 100
rows), maternal-health-risk and chess-krk (moves to the end, zero to sixteen). 500 bags of 500 (100
where the test part has fewer than 700 rows) with prevalences from the smoothest fifth of the
simplex. The error is the normalised match distance. One line per set, seed, classifier and method
in ``results/ordinal.jsonl``. Other libraries on the same posteriors: ``ordinal_peers.py``.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import kdey
from cases import DATA, SMALL_POOL, Records, _read, geometric_mean, quiet
from kdey.metrics import get_metric
from kdey.posteriors import (
    FittedStage,
    TrainingPosteriors,
    predict_posteriors,
    training_posteriors,
)
from printing import markdown
from shifted_bags import SmoothAPP

MOVES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
)
#: Set -> file, its classes in order (None: numbers), rows that a class must have.
SETS: dict[str, tuple[str, tuple[str, ...] | None, int]] = {
    "maternal-health-risk": ("uci-extra/maternal-health-risk", None, 1),
    "wine-quality": ("uci-multi/wine-quality", None, 1),
    "abalone": ("uci-extra/abalone", None, 100),
    "chess-krk": ("uci-extra/chess-krk", MOVES, 1),
}
CLASSIFIERS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "extra trees": ExtraTreesClassifier(random_state=0),
}


def methods() -> dict[str, Any]:
    """Return the methods by name."""
    plain = {
        "CC": kdey.CC(),
        "PCC": kdey.PCC(),
        "ACC": kdey.ACC(),
        "PACC": kdey.PACC(),
        "RLLS": kdey.RLLS(),
        "EMQ": kdey.EMQ(),
        "EMQ-BCTS": kdey.EMQ(calibration="bcts"),
        "EDy": kdey.EDy(),
        "DM, Hellinger": kdey.DM(divergence="hellinger"),
        "KDEyML": kdey.KDEyML(random_state=0),
    }
    ordered = {
        f"Ordered({name})": kdey.Ordered(plain[name])
        for name in ("ACC", "PACC", "EMQ-BCTS", "EDy", "KDEyML")
    }
    return plain | ordered


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and the ranks of the classes."""
    file, order, smallest = SETS[name]
    X, y = _read(DATA / f"{file}.csv.gz")
    if order is not None:
        X, y = X[np.isin(y, order)], y[np.isin(y, order)]
        ranks = np.array([order.index(label) for label in y])
    else:
        ranks = y.astype(int)
    counts = np.bincount(ranks)
    keep = counts[ranks] >= smallest
    return X[keep], np.unique(ranks[keep], return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class Split:
    """The bags of one split, and what makes the posteriors of any classifier on it.

    Attributes
    ----------
    X, y : training instances and their classes, as ranks
    X_test : instances of the bags
    bags : LabelledBags
    bag_size : int
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    bags: Any
    bag_size: int

    def posteriors(self, classifier: str) -> tuple[TrainingPosteriors, np.ndarray]:
        """Return posteriors out of fold, and those of the test instances."""
        classes = np.unique(self.y)
        fitted, training = training_posteriors(
            CLASSIFIERS[classifier], self.X, self.y, classes, cv=5
        )
        return training, predict_posteriors(fitted, self.X_test, classes)

    def error(self, estimates: np.ndarray) -> float:
        """Return the mean match distance of the estimates of all bags."""
        errors = get_metric("nmd")(self.bags.prevalences, estimates, bag_size=self.bag_size)
        return round(float(errors.mean()), 6)


def split(name: str, seed: int, n_bags: int = 500) -> Split:
    """Return one split of a set with its bags."""
    X, y = load(name)
    parts = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    X_train, X_test, y_train, y_test = parts
    size = 100 if len(y_test) < SMALL_POOL else 500
    bags = SmoothAPP(n_bags, size, random_state=seed).bags(y_test, np.unique(y_train))
    return Split(X_train, y_train, X_test, bags, size)


def estimate(
    q: Any, training: TrainingPosteriors, posteriors: np.ndarray, bags: Any
) -> tuple[np.ndarray, float, float]:
    """Return the estimates of a method of kdey, and processor seconds of its fit and the bags."""
    start = time.process_time()
    features = np.zeros((len(training.labels), 1))  # not used: the classifier is fitted
    q._fit_stage(FittedStage(None, training), features, training.labels)
    fitted = time.process_time()
    estimates = q.aggregate_bags(posteriors, bags.bags)
    return estimates, fitted - start, time.process_time() - fitted


def run(records: Records, name: str, seed: int) -> None:
    """Add the lines of one split that the records lack."""
    data = split(name, seed)
    for classifier in CLASSIFIERS:
        missing = [m for m in methods() if (name, seed, classifier, m) not in records]
        if not missing:
            continue
        training, posteriors = data.posteriors(classifier)
        for method in missing:
            estimates, fit_s, _ = estimate(methods()[method], training, posteriors, data.bags)
            head = {"set": name, "seed": seed, "classifier": classifier, "method": method}
            records.add(head | {"nmd": data.error(estimates), "fit_s": round(fit_s, 3)})


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print the mean distance over seeds and classifiers of each set, and the geometric mean."""
    sets = list(dict.fromkeys(row["set"] for row in rows))
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        means = [
            float(np.mean([r["nmd"] for r in rows if (r["set"], r["method"]) == (s, method)]))
            for s in sets
        ]
        lines.append([method, *means, geometric_mean(means)])
    lines.sort(key=lambda line: float(line[-1]))
    print(markdown(["method", *sets, "geometric mean"], lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    records = Records("ordinal.jsonl", ("set", "seed", "classifier", "method"))
    if args.table:
        print_table(records.rows)
        return
    quiet()
    with threadpool_limits(1):
        for seed in args.seeds:
            for name in args.sets:
                run(records, name, seed)


if __name__ == "__main__":
    main()
