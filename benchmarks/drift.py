"""Coverage, width and cost of the intervals under drift, where the density ratios are known.

``python benchmarks/drift.py`` simulates bags whose classes have changed by a factor of exactly G:
in every class, the instances that speak most for class 0 (or least) get weight G, which are 1 / (G
+ 1) of them, and the others 1 / G. This is the drift that moves the share of class 0 most. Real
sets are reweighted in the same way: a logistic regression on all rows says how much each speaks for
class 0, and bags are drawn from the rows outside training. One line per cell goes to
``results/drift.csv``; ``--time`` measures five classes and 2,000 labels instead, ``--table`` prints
what is stored, and ``--figure`` draws ``docs/figures/drift.png`` of the example of its page.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import kdey
from coverage_default import load
from summaries import HERE, RESULTS, read_summary, update_summary

Array = np.ndarray

SUMMARY = RESULTS / "drift.csv"
KEYS = ("classes", "labels", "place", "factor")
#: Instances of a bag, numbers of a row, and distance of the class means from zero.
SIZE, DIMENSION, APART = 500, 3, 1.3
CELLS = tuple(product((2, 3, 6), (30, 100), ("inside", "vertex"), (1.0, 1.25, 2.0)))
#: Real sets with their numbers of classes, of which 100 labels leave enough rows to draw from.
REAL = {"spambase": 2, "wine-q-white": 2, "cmc": 3, "academic-success": 3}
REAL_CELLS = tuple((k, 100, name, factor) for name, k in REAL.items() for factor in (1.25, 2.0))


class World:
    """Gaussian classes of which some instances become more frequent."""

    def __init__(self, n_classes: int, factor: float, sign: float, rng: np.random.Generator):
        self.rng, self.factor, self.sign = rng, factor, sign
        self.means = APART * rng.normal(size=(n_classes, DIMENSION))
        samples = [self.plain(np.full(20_000, number)) for number in range(n_classes)]
        rest = 1.0 - 1.0 / (factor + 1.0)
        self.cuts = np.array([np.quantile(self.speaks(X), rest) for X in samples])

    def plain(self, y: Array) -> Array:
        """Return instances of classes as in training."""
        return self.means[y] + self.rng.normal(size=(len(y), DIMENSION))

    def speaks(self, X: Array) -> Array:
        """Return how much rows speak for class 0, or against it."""
        logs = -((X[:, None, :] - self.means) ** 2).sum(axis=2) / 2.0
        others = np.logaddexp.reduce(logs[:, 1:], axis=1)
        return self.sign * (logs[:, 0] - others)

    def drifted(self, y: Array) -> Array:
        """Return instances of classes that have changed."""
        X, left = np.empty((len(y), self.plain(y[:1]).shape[1])), np.arange(len(y))
        while len(left):
            drawn = self.plain(y[left])
            chance = np.where(self.speaks(drawn) > self.cuts[y[left]], 1.0, self.factor**-2)
            taken = self.rng.random(len(left)) < chance
            X[left[taken]] = drawn[taken]
            left = left[~taken]
        return X


@cache
def judge_of(name: str) -> Any:
    """Return a classifier of class 0 against the others, fitted on all rows of a real set."""
    X, y = load(name)
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X, y == 0)


class RealWorld(World):
    """The classes of a real set: training rows, and a pool from which the others are drawn."""

    def __init__(self, name: str, n: int, factor: float, sign: float, rng: np.random.Generator):
        self.rng, self.factor, self.sign = rng, factor, sign
        X, y = load(name)
        self.judge = judge_of(name)
        rows = [rng.permutation(np.flatnonzero(y == label)) for label in range(int(y.max()) + 1)]
        self.training = [X[own[:n]] for own in rows]
        self.pools = [X[own[n:]] for own in rows]
        rest = 1.0 - 1.0 / (factor + 1.0)
        self.cuts = np.array([np.quantile(self.speaks(own), rest) for own in self.pools])

    def plain(self, y: Array) -> Array:
        """Return rows of the pool."""
        X = np.empty((len(y), self.pools[0].shape[1]))
        for label in np.unique(y):
            own = y == label
            X[own] = self.rng.choice(self.pools[label], own.sum())
        return X

    def speaks(self, X: Array) -> Array:
        """Return how much rows speak for class 0, or against it."""
        return self.sign * self.judge.decision_function(X)


def outcomes(cell: tuple[int, int, str, float], repetitions: int) -> Iterator[dict[str, Any]]:
    """Yield what happened to each bag of a cell."""
    k, n, place, factor = cell
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, k, n, int(100 * factor), place == "vertex"])
        sign = 1.0 if seed % 2 else -1.0
        y = np.repeat(np.arange(k), n)
        if place in REAL:
            world: World = RealWorld(place, n, factor, sign, rng)
            X = np.concatenate(world.training)
        else:
            world = World(k, factor, sign, rng)
            X = world.plain(y)
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        quantifier = kdey.EMQ(classifier, calibration="bcts").fit(X, y)
        truth = rng.dirichlet(np.full(k, 2.0))
        if place == "vertex":
            truth = np.eye(k)[rng.integers(2)]
        X = world.drifted(rng.choice(k, size=SIZE, p=truth))
        estimate = quantifier.estimate(X, check_fit=False)
        started = time.process_time()
        found = estimate.sensitivity([factor])
        low, high = found.low[-1] - 1e-9, found.high[-1] + 1e-9
        yield {
            "covered": (low <= truth) & (truth <= high),
            "plain": (estimate.low <= truth) & (truth <= estimate.high),
            "width": found.high[-1] - found.low[-1],
            "plain_width": estimate.high - estimate.low,
            "explained_from": found.explained_from or 1.0,
            "seconds": time.process_time() - started,
        }


def summary_of(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the figures of a cell; class 0 is the one that drift aims at."""
    column = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return {
        "bags": len(rows),
        "coverage of class 0": float(column["covered"][:, 0].mean()),
        "coverage": float(column["covered"].mean()),
        "coverage without": float(column["plain"][:, 0].mean()),
        "width": float(column["width"][:, 0].mean()),
        "width without": float(column["plain_width"][:, 0].mean()),
        "explained from, median": float(np.median(column["explained_from"])),
        "above the truth": float((column["explained_from"] > rows[0]["factor"]).mean()),
        "seconds": float(np.median(column["seconds"])),
    }


def run(fraction: float, only: int | None, real: bool) -> None:
    """Run all cells, and write each as soon as it is done."""
    for cell in REAL_CELLS if real else CELLS:
        if only is not None and cell[0] != only:
            continue
        repetitions = max(2, round(fraction * {2: 400, 3: 200, 6: 100}[cell[0]]))
        rows = [{**row, "factor": cell[3]} for row in outcomes(cell, repetitions)]
        line = {**dict(zip(KEYS, cell, strict=True)), **summary_of(rows)}
        update_summary(SUMMARY, [line], KEYS)
        print(line, flush=True)


def print_time() -> None:
    """Print the processor time of one bag with five classes and 2,000 labels."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        world, y = World(5, 1.5, 1.0, rng), np.repeat(np.arange(5), 400)
        quantifier = kdey.EMQ(calibration="bcts").fit(world.plain(y), y)
        X = world.drifted(rng.choice(5, size=1000, p=rng.dirichlet(np.ones(5))))
        estimate = quantifier.estimate(X, check_fit=False)
        for factors in ([1.1], [1.25], [1.5], [2.0], [1.1, 1.25, 1.5, 2.0]):
            started = time.process_time()
            estimate.sensitivity(factors)
            print(seed, factors, f"{time.process_time() - started:.3f} s")


def print_table() -> None:
    """Print the stored figures as a table."""
    print("| classes | labels | place | G | coverage | without | width | without |")
    print("|---|---|---|---|---|---|---|---|")
    for row in read_summary(SUMMARY):
        names = [*KEYS, "coverage of class 0", "coverage without", "width", "width without"]
        cells = [row[name] for name in names[:4]] + [
            f"{float(row[name]):.3f}" for name in names[4:]
        ]
        print(f"| {' | '.join(cells)} |")


def draw_figure() -> None:
    """Draw the intervals of the example of ``docs/how-wrong.md`` against the factor."""
    page = (HERE.parent / "docs" / "how-wrong.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], names)
    display = kdey.plots.DriftDisplay.from_estimate(names["estimate"])
    display.figure_.savefig(HERE.parent / "docs" / "figures" / "drift.png", dpi=120)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fraction", type=float, default=1.0, help="of the repetitions")
    parser.add_argument("--classes", type=int, help="only this number of classes")
    parser.add_argument("--real", action="store_true", help="real sets instead of simulations")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--figure", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # thirty labels may be separable
    with threadpool_limits(1):
        if options.figure:
            draw_figure()
        elif options.table:
            print_table()
        elif options.time:
            print_time()
        else:
            run(options.fraction, options.classes, options.real)


if __name__ == "__main__":
    main()
