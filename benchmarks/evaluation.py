"""Time per 1,000 bags of 500 on letter against QuaPy 0.2.3; prints one table.

Run with ``python benchmarks/evaluation.py [--bags N] [--quapy-bags N]`` where kdey and the extra
``bench`` are installed. Both get the same training posteriors, the same pool posteriors and the
same bags. Times of kdey hold everything from the pool's posteriors on (rows and bags), on all
cores, the best of three; QuaPy is timed on its first few bags, with one BLAS thread and with all,
and the better of its seconds per bag are scaled.
Fitting the templates is outside both. Errors are compared on the bags that QuaPy did.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import kdey
from kdey.posteriors import predict_posteriors, training_posteriors
from letter import split_letter
from printing import markdown

Posteriors = np.ndarray
METHODS: dict[str, tuple[Any, dict[str, Any], float]] = {
    "PACC": (kdey.PACC, {}),
    "KDEyML": (kdey.KDEyML, {"bandwidth": 0.08}),
    "KDEyCS": (kdey.KDEyCS, {"bandwidth": 0.08}),
    "KDEyHD": (kdey.KDEyHD, {"bandwidth": 0.12, "random_state": 0}),
}


class _Given(BaseEstimator):
    """Stands in for QuaPy's classifier, which is asked for its classes only."""

    def __init__(self, classes: np.ndarray) -> None:
        self.classes_ = classes

    def fit(self, X: Any, y: Any) -> _Given:
        return self

    def predict_proba(self, X: Any) -> Any:
        return X


def letter_posteriors() -> tuple[Posteriors, np.ndarray, Posteriors, np.ndarray, str]:
    X, y, X_pool, y_pool, source = split_letter()
    classes, codes = np.unique(y, return_inverse=True)
    fitted, training = training_posteriors(
        LogisticRegression(max_iter=3000), X, codes, classes, cv=5, n_jobs=-1, random_state=0
    )
    pool = predict_posteriors(fitted, X_pool, classes)
    return training.required(), codes, pool, np.searchsorted(classes, y_pool), source


def time_kdey(made: Any, pool: Posteriors, bags: Any) -> tuple[float, np.ndarray]:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        found = made.aggregate_bags(pool, bags)
        seconds.append(time.perf_counter() - start)
    return min(seconds), found


def time_quapy(
    name: str, options: dict[str, Any], training: Posteriors, y: np.ndarray, bags: list[Posteriors]
) -> tuple[float, np.ndarray]:
    from quapy.method import aggregative

    made = getattr(aggregative, name)(_Given(np.unique(y)), fit_classifier=False, **options)
    made.aggregation_fit(training, y)
    seconds = []
    # Its products are small: with one BLAS thread it is often faster. The better one counts.
    for blas_threads in (1, None):
        with threadpool_limits(blas_threads, user_api="blas"):
            start = time.perf_counter()
            found = np.array([made.aggregate(bag) for bag in bags])
            seconds.append((time.perf_counter() - start) / len(bags))
    return min(seconds), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=1000)
    parser.add_argument("--quapy-bags", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    training, y, pool, y_pool, source = letter_posteriors()
    labelled = kdey.APP(args.bags, 500).bags(y_pool)
    few = min(args.quapy_bags, args.bags)
    copies = [pool[bag] for bag in labelled.bags[:few]]
    print(f"{args.bags:,} bags of 500 of {source}; QuaPy's time and both errors from {few} bags:\n")
    rows = []
    for name, (method, options) in METHODS.items():
        made = method(n_jobs=-1, **options).fit_posteriors(training, y)
        ours, found = time_kdey(made, pool, labelled.bags)
        per_bag, theirs = time_quapy(name, options, training, y, copies)
        true = labelled.prevalences[:few]
        a, b = (np.abs(estimate[:few] - true).mean() for estimate in (found, theirs))
        total = per_bag * args.bags
        ratio = f"{total / ours:,.0f}"
        rows.append([name, f"{ours:.3f}", f"{total:.0f}", ratio, f"{a:.5f}", f"{b:.5f}"])
    head = ["method", "kdey, s", "QuaPy, s", "ratio", "MAE of kdey", "MAE of QuaPy"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
