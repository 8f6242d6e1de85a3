"""What analytic limits cost by the number of classes: PACC and calibrated EMQ, bags of 100.

Run with ``python benchmarks/limits_cost.py`` (a minute). 2,000 training posteriors, one thread,
processor time per bag; PACC shares its moments between bags, EMQ stands for the likelihood methods.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from intervals import posteriors
from kdey import EMQ, PACC, Bags
from printing import markdown, significant

CLASSES = (2, 3, 5, 10, 28)
N_TRAINING, BAG_SIZE = 2_000, 100


def milliseconds(call: Callable[[], object], n_bags: int, repeats: int) -> float:
    """Return the least processor time of a call per bag, after one call that warms up."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return 1e3 * min(times) / n_bags


def costs(k: int, n_bags: int, repeats: int) -> list[str]:
    """Return the cells of one number of classes: each method without and with limits."""
    rng = np.random.default_rng(0)
    labels = np.arange(N_TRAINING) % k
    training = posteriors(rng, labels, k)
    pool = posteriors(rng, rng.integers(k, size=n_bags * BAG_SIZE), k)
    bags = Bags.from_indices(np.arange(len(pool)).reshape(n_bags, BAG_SIZE), len(pool))
    cells = []
    for method in (PACC(), EMQ(calibration="bcts")):
        q = method.fit_posteriors(training, labels)
        calls = (
            lambda q=q: q.aggregate_bags(pool, bags),
            lambda q=q: q.estimate_posteriors(pool, bags, check_fit=False),
        )
        cells += [significant(milliseconds(call, n_bags, repeats)) for call in calls]
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bags", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    rows = [[k, *costs(k, asked.bags, asked.repeats)] for k in CLASSES]
    print(
        f"{N_TRAINING:,} training posteriors, bags of {BAG_SIZE}, one thread; milliseconds of "
        "processor time per bag:\n"
    )
    head = ["classes", "PACC", "PACC with limits", "EMQ", "EMQ with limits"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
