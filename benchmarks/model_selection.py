"""The paper's model selection on letter, against the time of the classifier fits alone.

Run with ``python benchmarks/model_selection.py [--classifiers 14] [--methods ML CS HD]``.
14 logistic regressions (C in 1e-3..1e3, with and without class weights) with 10-fold posteriors x
20 bandwidths (0.01..0.20) x 250 bags of 500. The first search fits the classifiers; the ratio is
its wall time over that of its classifier fits (pool posteriors included). Later searches share the
fits by a StageCache; their ratio is (fits + their own time) / fits. ``--classifiers 2`` takes the
two at C = 1, to see the ratio in little time.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import kdey
from letter import split_letter
from printing import markdown

METHODS = {"ML": kdey.KDEyML, "CS": kdey.KDEyCS, "HD": kdey.KDEyHD, "L2": kdey.KDEyL2}
#: The middle of the grid first, for runs on a part of it.
PENALTIES = (1.0, 10.0, 0.1, 100.0, 0.01, 1000.0, 0.001)


def grid(n_classifiers: int) -> list[dict[str, Any]]:
    pairs = [(c, w) for c in PENALTIES for w in (None, "balanced")][:n_classifiers]
    return [
        {
            "classifier__C": [c],
            "classifier__class_weight": [w],
            "bandwidth": [round(0.01 * i, 2) for i in range(1, 21)],
        }
        for c, w in pairs
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifiers", type=int, default=14)
    parser.add_argument("--methods", nargs="+", default=["ML", "CS", "HD"], choices=METHODS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y, _, _, source = split_letter()
    X, X_val, y, y_val = train_test_split(X, y, test_size=0.4, stratify=y, random_state=1)
    n = args.classifiers
    print(f"{n} classifiers x 10 folds x 20 bandwidths x 250 bags of 500 on {source}, all cores:\n")
    cache, fits, rows = kdey.evaluation.StageCache(max_solutions=1), 0.0, []
    for name in args.methods:
        search = kdey.GridSearchQ(
            METHODS[name](LogisticRegression(max_iter=3000), cv=10, random_state=0),
            grid(args.classifiers),
            protocol=kdey.APP(250, 500),
            cache=cache,
            refit=False,
            n_jobs=-1,
        )
        start = time.perf_counter()
        search.fit(X, y, X_val=X_val, y_val=y_val)
        wall = time.perf_counter() - start
        spent = np.array(search.cv_results_["mean_fit_time"]).reshape(args.classifiers, 20)[:, 0]
        if not fits:
            fits = float(spent.sum())
            wall -= fits
        ratio, best = f"{1 + wall / fits:.3f}", f"{search.best_params_['bandwidth']:g}"
        error = f"{-search.best_score_:.5f}"
        rows.append([f"KDEy-{name}", f"{fits:.1f}", f"{wall:.1f}", ratio, best, error])
    head = ["search", "fits, s", "beyond, s", "(fits + beyond) / fits"]
    print(markdown([*head, "bandwidth", "MAE"], rows))


if __name__ == "__main__":
    main()
