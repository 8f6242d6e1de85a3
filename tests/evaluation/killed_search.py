"""A search in a process of its own, to be killed: ``python killed_search.py LOG``.

Prints ``started`` when the search begins, then the scores and a prediction as hexadecimal digits.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

from sklearn.linear_model import LogisticRegression

import kdey
from tests.evaluation.cases import blobs


class SlowClassifier(LogisticRegression):
    """Slow enough that a kill can come in the middle of everything."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SlowClassifier:
        time.sleep(0.02)
        return super().fit(X, y, sample_weight)


def main(log: str) -> None:
    warnings.simplefilter("ignore")
    X, y = blobs(300, seed=4)
    search = kdey.GridSearchQ(
        kdey.KDEyHD(SlowClassifier(), cv=3, n_points=200, random_state=0),
        {"classifier__C": [0.01, 0.1, 1.0], "bandwidth": [0.1, 0.2, 0.4]},
        protocol=kdey.APP(20, 50),
        log=log,
    )
    print("started", flush=True)
    search.fit(X, y)
    results = search.cv_results_
    for name in ("mean_test_score", "std_test_score"):
        print(name, results[name].tobytes().hex())
    print("best", search.best_index_, search.predict(X).tobytes().hex(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
