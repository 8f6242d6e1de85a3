"""Gibbs sampling: speed, and coverage and width of its credible intervals on synthetic bags.

Run with ``python benchmarks/gibbs.py [--bags 500]`` (minutes). Speed: 2,000 sweeps (4 chains of
500) of a 1,000 x 28 bag. Coverage: two classes with scores from Beta(2, 4) and Beta(4, 2),
densities known exactly, so that a 90 % interval under a uniform prior must hold the truth, drawn
from that prior, 90 % of the time; the normal interval of the likelihood stands beside it.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.stats import beta, norm

from kdey.bags import Bags
from kdey.bayes import gibbs_sweeps, sample_rows
from kdey.bayes.gibbs import Chains
from kdey.problems import MixtureLikelihood
from kdey.solvers import solve_mixture

CONFIDENCE = 0.9


def speed() -> None:
    rng = np.random.default_rng(0)
    rows = rng.gamma(0.3, size=(1000, 28))
    for n_threads in (1, 2):
        seconds = []
        for _ in range(5):
            chains = Chains.dispersed(4, np.ones(28), np.random.SeedSequence(0))
            start = time.perf_counter()
            gibbs_sweeps(rows, np.ones(28), chains, 500, n_threads=n_threads)
            seconds.append(time.perf_counter() - start)
        print(f"2,000 sweeps of 1,000 x 28 on {n_threads} thread(s): {min(seconds):.3f} s")


def normal_interval(problem: MixtureLikelihood) -> tuple[float, float]:
    """Return the interval from the curvature of the likelihood along the prevalence."""
    found = solve_mixture(problem).prevalence
    step = np.array([-1.0, 1.0])
    curvature = len(problem.rows) * step @ problem.hessian(found)[0] @ step
    half = norm.ppf(0.5 + CONFIDENCE / 2) / np.sqrt(curvature)
    return max(found[0, 1] - half, 0.0), min(found[0, 1] + half, 1.0)


def coverage(n_bags: int, size: int) -> None:
    held, widths = np.zeros((n_bags, 3)), np.zeros((n_bags, 3))
    for number in range(n_bags):
        rng = np.random.default_rng(number)
        true = rng.random()
        labels = rng.random(size) < true
        x = np.where(labels, rng.beta(4, 2, size), rng.beta(2, 4, size))
        rows = np.stack([beta.pdf(x, 2, 4), beta.pdf(x, 4, 2)], axis=1)
        problem = MixtureLikelihood(rows, Bags.whole(size))
        draws = sample_rows(problem, random_state=number)
        for column, (target, truth) in enumerate((("population", true), ("bag", labels.mean()))):
            low, high = draws.interval(CONFIDENCE, target)
            held[number, column] = low[1] <= truth <= high[1]
            widths[number, column] = high[1] - low[1]
        low, high = normal_interval(problem)
        held[number, 2], widths[number, 2] = low <= true <= high, high - low
    for name, c, w in zip(
        ("Gibbs, population", "Gibbs, this bag", "normal, population"),
        held.mean(axis=0), widths.mean(axis=0), strict=True,
    ):  # fmt: skip
        print(f"| {size} | {name} | {c:.3f} | {w:.4f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=500)
    args = parser.parse_args()
    speed()
    print(
        f"\n| bag size | interval | coverage ({CONFIDENCE:.0%}) | mean width |\n|---|---|---|---|"
    )
    for size in (50, 200, 1000):
        coverage(args.bags, size)


if __name__ == "__main__":
    main()
