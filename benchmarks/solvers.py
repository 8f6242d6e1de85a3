"""Time and certify the solvers; prints one table.

Run with ``OPENBLAS_NUM_THREADS=1 python benchmarks/solvers.py [--bags N]``. Times are per bag of a
batched call on one thread, the best of several repeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from kdey import native
from kdey.bags import Bags
from kdey.matching import Solution
from kdey.matching.divergence import Divergence, solve_divergence
from kdey.matching.histograms import HistogramCauchySchwarz, MeanHellinger, solve_nonconvex
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture, solve_mixture_em
from kdey.matching.squares import (
    CauchySchwarz,
    LeastSquares,
    QuadraticMatch,
    solve_cauchy_schwarz,
    solve_least_squares,
    solve_quadratic,
)
from printing import markdown, significant

Case = tuple[str, Callable[[], Solution]]


def densities(rng: np.random.Generator, size: int, n_classes: int) -> np.ndarray:
    """Return rows of class densities of overlapping Gaussian classes, shape (size, n_classes)."""
    centres = rng.normal(size=(n_classes, 8))
    labels = rng.integers(0, n_classes, size)
    points = centres[labels] + rng.normal(scale=0.7, size=(size, 8))
    distances = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2)
    return np.exp(-distances / (2 * 0.7**2))


def mixture(rng: np.random.Generator, bags: int, size: int, k: int) -> MixtureLikelihood:
    rows = densities(rng, 20_000, k)
    drawn = [rng.integers(0, len(rows), size) for _ in range(bags)]
    return MixtureLikelihood(rows, Bags.from_indices(drawn, len(rows)))


def profiles(
    rng: np.random.Generator, bags: int, t: int, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return class densities at t points (t, k), bag densities (bags, t) and a reference (t,)."""
    templates = densities(rng, t, k)
    prevalences = rng.dirichlet(np.ones(k), size=bags)
    noise = np.exp(rng.normal(scale=0.2, size=(bags, t)))
    return templates, prevalences @ templates.T * noise, t * templates.mean(axis=1)


def histograms(rng: np.random.Generator, bags: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    templates = rng.dirichlet(np.full(10, 0.5), size=(k, k)).transpose(0, 2, 1)
    prevalences = rng.dirichlet(np.ones(k), size=bags)
    exact = np.einsum("cbk,nk->ncb", templates, prevalences)
    counts = rng.poisson(500 * exact) + 0.0
    counts[counts.sum(axis=2) == 0] = 1.0
    return templates, counts / counts.sum(axis=2, keepdims=True)


def cases(rng: np.random.Generator, bags: int) -> list[Case]:
    mix = mixture(rng, bags, 1000, 28)
    small = mixture(rng, bags, 500, 26)
    m, q, r = profiles(rng, max(bags // 10, 5), 10_000, 28)
    gram, pull = m.T @ (m / r[:, None]), q @ (m / r[:, None])
    many = np.tile(pull, (20, 1))
    wide, target = histograms(rng, bags, 26)
    flat = target.reshape(bags, -1)
    tops = Divergence(wide.reshape(-1, 26), flat, "topsoe")
    return [
        ("mixture 1,000 x 28", lambda: solve_mixture(mix)),
        ("mixture 500 x 26", lambda: solve_mixture(small)),
        ("mixture 1,000 x 28, EM to 1e-4", lambda: solve_mixture_em(mix)),
        (
            "Cauchy-Schwarz k=28",
            lambda: solve_cauchy_schwarz(CauchySchwarz.from_targets(gram, many)),
        ),
        ("quadratic k=28", lambda: solve_quadratic(QuadraticMatch(gram, many))),
        (
            "least squares 260 x 26",
            lambda: solve_least_squares(LeastSquares(wide.reshape(-1, 26), flat)),
        ),
        (
            "Hellinger t=10,000 k=28",
            lambda: solve_divergence(Divergence(m, q, "hellinger", r)),
        ),
        ("Topsoe t=10,000 k=28", lambda: solve_divergence(Divergence(m, q, "topsoe", r))),
        ("Topsoe histograms 260 x 26", lambda: solve_divergence(tops)),
        ("DM-CS 26 x 10 x 26", lambda: solve_nonconvex(HistogramCauchySchwarz(wide, target))),
        ("mean Hellinger 26 x 10 x 26", lambda: solve_nonconvex(MeanHellinger(wide, target))),
    ]


def measure(solve: Callable[[], Solution], repeats: int = 5) -> tuple[float, Solution]:
    """Return the best time per bag in ms, and the solution."""
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        solution = solve()
        best = min(best, time.perf_counter() - begin)
    return 1e3 * best / len(solution), solution


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bags", type=int, default=100)
    bags = parser.parse_args().bags
    core = "the native core" if native.available() else "NumPy"
    print(f"{bags} bags on one thread, {core}:\n")
    rows = []
    for name, solve in cases(np.random.default_rng(0), bags):
        ms, solution = measure(solve)
        gap = float(solution.gap.max())
        certified = "none" if np.isnan(gap) else f"{gap:.1e}"
        rows.append([name, significant(ms), f"{solution.n_iter.mean():.1f}", certified])
    print(markdown(["problem", "ms a bag", "iterations", "largest gap"], rows))


if __name__ == "__main__":
    main()
