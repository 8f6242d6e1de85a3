"""What analytic intervals cost by the number of classes: PACC and calibrated EMQ.

Run with ``python benchmarks/interval_cost.py`` (a minute): bags of 100, 2,000 training posteriors,
one thread, processor time per bag; PACC shares its moments between bags, EMQ stands for the
likelihood methods. ``--many`` (minutes): one bag of 5,000 and 20 labels of each of up to 1,000
classes, processor time of the first and the second estimate, and peak memory, a process for each.
``--coverage N``: coverage of N redraws of training set and bag, by the profile and by the
directions that take its place where classes are many; the summary goes to
``results/many_classes.csv``.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context

import numpy as np

from intervals import posteriors
from kdey import EMQ, PACC, Bags
from kdey.intervals import analytic, compute
from kdey.intervals.moments import MOST_CLASSES
from printing import markdown, significant
from summaries import RESULTS, update_summary

CLASSES = (2, 3, 5, 10, 28)
N_TRAINING, BAG_SIZE = 2_000, 100
MANY = (60, 120, 200, 500, 1_000)
#: Classes, labels of each, and how far apart they are.
SETTINGS = ((60, 20, 1.5), (60, 20, 3.0), (60, 6, 2.0), (150, 20, 2.0), (150, 10, 2.0))
METHODS = {"PACC": PACC, "EMQ": lambda: EMQ(calibration="bcts")}
#: From ways to the largest number of classes that has the profile.
WAYS = {"profile": MOST_CLASSES, "directions": 0}
SUMMARY = RESULTS / "many_classes.csv"


def milliseconds(call: Callable[[], object], n_bags: int, repeats: int, warm: bool = True) -> float:
    """Return the least processor time of a call per bag, after one call that warms up."""
    if warm:
        call()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return 1e3 * min(times) / n_bags


def costs(k: int, n_bags: int, repeats: int) -> list[str]:
    """Return the cells of one number of classes: each method without and with intervals."""
    rng = np.random.default_rng(0)
    labels = np.arange(N_TRAINING) % k
    training = posteriors(rng, labels, k)
    pool = posteriors(rng, rng.integers(k, size=n_bags * BAG_SIZE), k)
    bags = Bags.from_indices(np.arange(len(pool)).reshape(n_bags, BAG_SIZE), len(pool))
    cells = []
    for make in METHODS.values():
        q = make().fit_posteriors(training, labels)
        calls = (
            lambda q=q: q.aggregate_bags(pool, bags),
            lambda q=q: q.estimate_posteriors(pool, bags, check_fit=False),
        )
        cells += [significant(milliseconds(call, n_bags, repeats)) for call in calls]
    return cells


def first_and_second(k: int, method: str) -> list[str]:
    """Return seconds of two estimates of one bag by a new model, and the peak memory in MB."""
    rng = np.random.default_rng(0)
    labels = np.arange(20 * k) % k
    training = clear_posteriors(rng, labels, k, 3.0)
    drawn = rng.choice(k, 5_000, p=rng.dirichlet(np.ones(k)))
    bag = clear_posteriors(rng, drawn, k, 3.0)
    q = METHODS[method]().fit_posteriors(training, labels)
    seconds = [
        milliseconds(lambda: q.estimate_posteriors(bag, check_fit=False), 1_000, 1, warm=False)
        for _ in range(2)
    ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [*(significant(s) for s in seconds), f"{peak:.0f}"]


def clear_posteriors(
    rng: np.random.Generator, labels: np.ndarray, k: int, scale: float
) -> np.ndarray:
    """Return posteriors by noisy scores, of which that of the label is higher by ``scale``."""
    scores = rng.normal(size=(len(labels), k))
    scores[np.arange(len(labels)), labels] += scale
    raw = np.exp(1.5 * (scores - scores.max(axis=1, keepdims=True)))
    return raw / raw.sum(axis=1, keepdims=True)


def coverage(n_redraws: int) -> None:
    """Store coverage, width and time of both kinds of intervals."""
    rows = []
    for k, per_class, scale in SETTINGS:
        found: dict[tuple[str, str], list[tuple[float, ...]]] = defaultdict(list)
        for number in range(n_redraws):
            rng = np.random.default_rng([number, k, per_class])
            labels, shares = np.arange(per_class * k) % k, rng.dirichlet(np.full(k, 0.5))
            training = clear_posteriors(rng, labels, k, scale)
            bag = clear_posteriors(rng, rng.choice(k, 2_000, p=shares), k, scale)
            for (name, make), (way, most) in product(METHODS.items(), WAYS.items()):
                if way == "profile" and k > MOST_CLASSES:
                    continue
                analytic.MOST_CLASSES = compute.MOST_CLASSES = most
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    q = make().fit_posteriors(training, labels)
                begin = time.process_time()
                made = q.estimate_posteriors(bag, check_fit=False)
                seconds = time.process_time() - begin
                inside = (made.low <= shares) & (shares <= made.high)
                rare = inside[shares < 0.3 / k].mean()
                found[name, way].append(
                    (inside.mean(), rare, (made.high - made.low).mean(), seconds)
                )
        for (name, way), values in found.items():
            mean = np.mean(values, axis=0)
            error = np.std([value[0] for value in values], ddof=1) / np.sqrt(n_redraws)
            numbers = dict(zip(("covered", "rare", "width", "seconds"), mean, strict=True))
            rounded = {key: f"{value:.4f}" for key, value in (numbers | {"error": error}).items()}
            key = {"classes": k, "labels": per_class, "scale": scale, "method": name, "way": way}
            rows.append({**key, **rounded, "redraws": n_redraws})
            print(rows[-1], flush=True)
    update_summary(SUMMARY, rows, ["classes", "labels", "scale", "method", "way"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--many", nargs="*", type=int, help="numbers of classes")
    parser.add_argument("--coverage", type=int, metavar="N", help="redraws")
    parser.add_argument("--bags", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    if asked.coverage:
        coverage(asked.coverage)
        return
    if asked.many is not None:
        rows = []
        for k, method in product(asked.many or MANY, METHODS):
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                rows.append([k, method, *pool.submit(first_and_second, k, method).result()])
        head = ["classes", "method", "first estimate (s)", "second (s)", "peak memory (MB)"]
        print(markdown(head, rows))
        return
    rows = [[k, *costs(k, asked.bags, asked.repeats)] for k in CLASSES]
    print(
        f"{N_TRAINING:,} training posteriors, bags of {BAG_SIZE}, one thread; milliseconds of "
        "processor time per bag:\n"
    )
    head = ["classes", "PACC", "PACC with intervals", "EMQ", "EMQ with intervals"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
