"""Speed of intervals: bootstrap replicates of a bag of 1,000 x 28, and what analytic limits add."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from kdey import PACC, Bags, KDEyML, Options
from kdey.intervals.analytic import training_rows
from kdey.posteriors import Posteriors
from printing import markdown, significant


def posteriors(rng: np.random.Generator, labels: np.ndarray, k: int) -> Posteriors:
    """Return posteriors that favour the label, as a fair classifier gives them."""
    scores = rng.normal(size=(len(labels), k))
    scores[np.arange(len(labels)), labels] += 2.5
    shares = np.exp(1.5 * scores)
    return shares / shares.sum(axis=1, keepdims=True)


def best(call: Callable[[], object], repeats: int) -> float:
    """Return the best time of a call in seconds, after one that warms up."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


Row = tuple[str, str]


def row(name: str, value: float, unit: str) -> Row:
    return name, f"{significant(value)} {unit}"


def bootstrap(quantifier: KDEyML, bag: Posteriors, repeats: int) -> list[Row]:
    def run(templates: bool) -> None:
        quantifier.estimate_posteriors(
            bag, options=Options(method="bootstrap", resample_templates=templates)
        )

    fixed, full = best(lambda: run(False), repeats), best(lambda: run(True), max(1, repeats // 3))
    return [
        row("500 replicates of a bag of 1,000 x 28, bag part", fixed, "s"),
        row("the same with the templates of all training points", full, "s"),
    ]


def analytic(quantifier: KDEyML | PACC, pool: Posteriors, bags: Bags, repeats: int) -> list[Row]:
    """Compare a table of disjoint groups with and without limits, rows included and not."""
    name = type(quantifier).__name__
    # In turns: a machine that slows down does so for both.
    turns = [
        (best(lambda: quantifier.aggregate_bags(pool, bags), 1),
         best(lambda: quantifier.estimate_posteriors(pool, bags), 1))
        for _ in range(repeats)
    ]  # fmt: skip
    plain, limits = (min(times) for times in zip(*turns, strict=True))
    n = len(bags)
    return [
        row(f"{name}: prevalences of {n} groups of 1,000, per group", 1e3 * plain / n, "ms"),
        row(f"{name}: the same with analytic limits", 1e3 * limits / n, "ms"),
        row(f"{name}: added", 100.0 * (limits / plain - 1.0), "%"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--training", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    rng, k = np.random.default_rng(0), 28
    labels = np.arange(given.training) % k
    training = posteriors(rng, labels, k)
    pool = posteriors(rng, rng.choice(k, 20_000, p=rng.dirichlet(np.ones(k))), k)
    bags = Bags.from_indices(np.arange(20_000).reshape(20, 1000), 20_000)
    density = KDEyML(bandwidth=0.1, n_jobs=given.jobs).fit_posteriors(training, labels)
    table = bootstrap(density, pool[:1000], given.repeats)
    begin = time.perf_counter()
    held = training_rows(density.model_, given.jobs).rows
    spent = time.perf_counter() - begin
    table.append(row(f"KDEyML: {len(held):,} leave-one-out rows, once per fit", spent, "s"))
    table += analytic(density, pool, bags, given.repeats)
    means = PACC(n_jobs=given.jobs).fit_posteriors(training, labels)
    many = Bags.from_indices(np.tile(np.arange(20_000).reshape(20, 1000), (5, 1)), 20_000)
    table += analytic(means, pool, many, 10 * given.repeats)
    print(f"{given.training:,} training points of {k} classes, {given.jobs} threads:\n")
    print(markdown(["", "measured"], table))


if __name__ == "__main__":
    main()
