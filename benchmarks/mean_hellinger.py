"""DM with the mean of Hellinger distances: the objective that kdey reaches, and QuaPy's.

    pip install quapy==0.2.3 abstention
    python benchmarks/mean_hellinger.py

QuaPy's ``DMy(divergence="HD")`` and ``DM(divergence="mean-hellinger")`` minimise the same function,
which is not convex. Handwritten digits with noise, the posteriors of a logistic regression, bags
at prevalences uniform on the simplex: 240 bags in all, from two to ten classes, few and many bins,
small and large bags. Both answers are put into the same objective, that of kdey; the script fails
if kdey's is higher by more than 1e-9 in any bag. One line per setting in
``results/mean_hellinger.jsonl``.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split

import kdey

RESULTS = Path(__file__).parent / "results" / "mean_hellinger.jsonl"
#: Classes, bins, bag size.
SETTINGS = ((2, 8, 50), (3, 32, 20), (5, 8, 200), (6, 32, 40), (10, 32, 60), (10, 4, 500))
N_BAGS = 40
#: How much higher than QuaPy's an objective may be.
TOLERANCE = 1e-9


def main() -> int:
    """Run all settings; return 1 if any bag has a higher objective than QuaPy's."""
    lines = [compare(*setting, seed) for seed, setting in enumerate(SETTINGS)]
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for line in lines:
        print(line)
    return int(any(line["higher"] for line in lines))


def compare(n_classes: int, n_bins: int, bag_size: int, seed: int) -> dict[str, Any]:
    """Return how the objectives of both libraries compare in the bags of a setting."""
    posteriors, labels, pool, pool_labels = noisy_digits(n_classes, seed)
    ours = kdey.DM(divergence="mean-hellinger", n_bins=n_bins).fit_posteriors(posteriors, labels)
    protocol = kdey.APP(N_BAGS, bag_size, random_state=seed, replace=True)
    bags = protocol.bags(pool_labels).bags
    answers = quapy_answers(posteriors, labels, n_bins, [pool[bag] for bag in bags])
    model = ours.model_
    problem = model.matching.problem(model.row_map, model.row_map(pool), bags)
    reached = ours.solve_posteriors(pool, bags).objective
    difference = reached - problem.objective(np.asarray(answers))
    return {
        "classes": n_classes,
        "bins": n_bins,
        "bag_size": bag_size,
        "bags": len(difference),
        "higher": int((difference > TOLERANCE).sum()),
        "lower": int((difference < -TOLERANCE).sum()),
        "largest_difference": float(difference.max()),
        "smallest_difference": float(difference.min()),
    }


def noisy_digits(n_classes: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return training posteriors with labels, and posteriors of a pool with labels."""
    X, y = load_digits(return_X_y=True)
    X, y = X[y < n_classes] / 16, y[y < n_classes]
    X = X + np.random.default_rng(seed).normal(0, 0.35, X.shape)
    X, X_pool, y, y_pool = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    classifier = LogisticRegression(max_iter=1000)
    posteriors = cross_val_predict(classifier, X, y, cv=3, method="predict_proba")
    return posteriors, y, classifier.fit(X, y).predict_proba(X_pool), y_pool


def quapy_answers(posteriors: Any, labels: Any, n_bins: int, bags: list[Any]) -> Any:
    """Return QuaPy's prevalences of bags of posteriors, put exactly onto the simplex."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from quapy.method.aggregative import DMy

    known = LogisticRegression(max_iter=1000).fit(posteriors, labels)  # only for its classes
    method = DMy(known, fit_classifier=False, val_split=None, nbins=n_bins, divergence="HD")
    method.aggregation_fit(posteriors, labels)
    answers = np.maximum([method.aggregate(bag) for bag in bags], 0.0)
    return answers / answers.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    sys.exit(main())
