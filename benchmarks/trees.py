"""Time the same work in two versions of the source tree, alternately, on this machine.

Run with ``python benchmarks/trees.py OLD/src NEW/src [--rounds N]``. Each version works in a
process of its own; rounds alternate, so that a busy machine slows both, and the best round counts.
Only names that both versions have are used.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

#: Seconds that one operation is repeated for in a round.
_BUDGET = 0.4


def posteriors(n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return posteriors (n, k) that lean towards their labels, and the labels."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
    p = rng.dirichlet(np.full(k, 0.3), size=n) + np.eye(k)[y] * rng.random((n, 1))
    return p / p.sum(axis=1, keepdims=True), y


def operations() -> dict[str, Callable[[], Any]]:
    """Return the work by name; everything that is prepared once is prepared here."""
    import pandas as pd

    import kdey

    big, labels = posteriors(20_000, 28, 0)
    small, few = posteriors(2_000, 5, 1)
    bag = posteriors(1_000, 28, 2)[0]
    pool, pool_labels = posteriors(5_000, 5, 3)
    fixed = kdey.KDEyML(bandwidth=0.1).fit_posteriors(big, labels)
    automatic = kdey.KDEyML().fit_posteriors(small, few)
    pacc, emq = (q.fit_posteriors(small, few) for q in (kdey.PACC(), kdey.EMQ()))
    hellinger = kdey.KDEyHD(bandwidth=0.1, random_state=0, n_points=2_000)
    hellinger.fit_posteriors(small, few)
    bags = kdey.APP(500, 200, random_state=0).bags(pool_labels, np.arange(5)).bags
    frame = pd.DataFrame(pool, columns=[f"p_{i}" for i in range(5)])
    frame["group"] = np.arange(len(frame)) % 100
    scores = list(frame.columns[:5])
    # Older trees take the fields of Options by name.
    asked: dict[str, Any] = {"method": "bootstrap"}
    resampled = {"options": kdey.Options(**asked)} if hasattr(kdey, "Options") else asked
    return {
        "KDEyML aggregate, 1,000 x 20,000 x 28": lambda: fixed.aggregate(bag),
        "KDEyML automatic, bag of 10": lambda: automatic.aggregate(pool[:10]),
        "KDEyML automatic, 500 bags of 200": lambda: automatic.aggregate_bags(pool, bags),
        "KDEyML fit, automatic, 2,000 x 5": lambda: kdey.KDEyML().fit_posteriors(small, few),
        "KDEyHD, 50 bags of 200": lambda: hellinger.aggregate_bags(pool, bags[:50]),
        "PACC, bag of 10": lambda: pacc.aggregate(pool[:10]),
        "PACC, 500 bags of 200": lambda: pacc.aggregate_bags(pool, bags),
        "EMQ, 500 bags of 200": lambda: emq.aggregate_bags(pool, bags),
        "KDEyML estimate, bag of 500": lambda: automatic.estimate_posteriors(pool[:500]),
        "PACC estimate, 500 bags": lambda: pacc.estimate_posteriors(pool, bags),
        "PACC bootstrap, bag of 500": lambda: pacc.estimate_posteriors(pool[:500], **resampled),
        "KDEyML groups, 100 of 50": lambda: automatic.predict_groups(frame, "group", scores=scores),
    }


def work() -> None:
    """Time every operation for a moment and print the best as JSON, in a process of its own."""
    best = {}
    for name, call in operations().items():
        call()
        times, end = [], time.perf_counter() + _BUDGET
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        best[name] = min(times)
    print(json.dumps(best))


def measure(source: str) -> dict[str, float]:
    """Return the times of one round in the tree at ``source``."""
    command = [sys.executable, __file__, "--work"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": source}, capture_output=True, check=True
    )
    times: dict[str, float] = json.loads(done.stdout)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", metavar="SRC")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work()
        return
    old, new = given.trees
    rounds = [(measure(old), measure(new)) for _ in range(given.rounds)]
    print(f"{'operation':42}{'old, ms':>10}{'new, ms':>10}{'ratio':>8}")
    for name in rounds[0][0]:
        before = 1e3 * min(times[name] for times, _ in rounds)
        after = 1e3 * min(times[name] for _, times in rounds)
        print(f"{name:42}{before:10.3f}{after:10.3f}{after / before:8.2f}")


if __name__ == "__main__":
    main()
