"""Coverage and width where rows are no independent draws: weights, clusters, finite populations.

Each case redraws training data and a bag, and asks whether the 95 % interval of the first class
contains its share. "relative width" compares the mean width with that of an oracle that knows the
standard deviation of the error over all redraws: 2 x 1.96 of it.

    python benchmarks/designs.py                        # all cases, PACC and EMQ
    python benchmarks/designs.py --cases "30 clusters" --methods EMQ --redraws 400
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import kdey

Rng = np.random.Generator


def beta(labels: np.ndarray, rng: Rng) -> np.ndarray:
    """Return the true posteriors of two broad, overlapping Beta classes that are equally common."""
    s = np.where(labels == 1, rng.beta(4, 2, len(labels)), rng.beta(2, 3, len(labels)))
    first, second = 12 * s * (1 - s) ** 2, 20 * s**3 * (1 - s)
    p = second / (first + second)
    return np.column_stack([1 - p, p])


#: Labels, arguments of an estimate, and the true share.
Drawn = tuple[np.ndarray, dict, float]


def independent(rng: Rng, share: float = 0.3, m: int = 500, population: int | None = None) -> Drawn:
    """Return independent rows, of a population without bounds or of so many rows."""
    if population is None:
        return (rng.random(m) < share).astype(int), {}, share
    everyone = (rng.random(population) < share).astype(int)
    return rng.permutation(everyone)[:m], {"fpc": population}, float(everyone.mean())


def weighted(rng: Rng, share: float = 0.8, rest: float = 0.02, m: int = 1_000) -> Drawn:
    """Return rows of which 1.1 % have weight ten and another share."""
    heavy = rng.random(m) < 0.011
    labels = (rng.random(m) < np.where(heavy, share, rest)).astype(int)
    truth = (0.011 * 10 * share + 0.989 * rest) / (0.011 * 10 + 0.989)
    return labels, {"sample_weight": np.where(heavy, 10.0, 1.0)}, truth


def clustered(rng: Rng, share: float, n_clusters: int, size: int, correlation: float) -> Drawn:
    """Return clusters whose shares have a Beta distribution with this intra-class correlation."""
    if correlation:
        both = 1 / correlation - 1
        shares = rng.beta(share * both, (1 - share) * both, n_clusters)
    else:
        shares = np.full(n_clusters, share)
    labels = (rng.random((n_clusters, size)) < shares[:, None]).astype(int).ravel()
    clusters = np.repeat(np.arange(n_clusters), size)
    return labels, {"clusters": clusters}, share


CASES: dict[str, Callable[[Rng], Drawn]] = {
    "independent": independent,
    "equal weights": lambda rng: _with_weights(independent(rng)),
    "finite population": lambda rng: independent(rng, population=800),
    "informative weights": weighted,
    "informative weights, opposed": lambda rng: weighted(rng, 0.02, 0.3),
    "ten arbitrary clusters": lambda rng: clustered(rng, 0.27, 10, 200, 0.0),
    "30 clusters": lambda rng: clustered(rng, 0.3, 30, 30, 0.1),
    "30 clusters, share 0.05": lambda rng: clustered(rng, 0.05, 30, 30, 0.1),
    "ten clusters": lambda rng: clustered(rng, 0.3, 10, 50, 0.1),
    "ten clusters, share 0.03": lambda rng: clustered(rng, 0.03, 10, 50, 0.1),
    "four clusters": lambda rng: clustered(rng, 0.3, 4, 100, 0.05),
    "30 clusters, absent": lambda rng: clustered(rng, 1e-9, 30, 30, 0.0),
}
METHODS = {
    "PACC": (kdey.PACC, "auto"),
    "EMQ": (kdey.EMQ, "auto"),
    "PACC, bootstrap": (kdey.PACC, "bootstrap"),
}


def _with_weights(drawn: Drawn) -> Drawn:
    labels, arguments, truth = drawn
    return labels, {**arguments, "sample_weight": np.full(len(labels), 2.5)}, truth


def measure(case: str, method: str, redraws: int, seed: int = 0) -> tuple[float, float]:
    """Return coverage, and width relative to that of an oracle."""
    quantifier, way = METHODS[method]
    hits, widths, errors = 0, [], []
    for number in range(redraws):
        rng = np.random.default_rng([seed, number])
        y = np.arange(1_000) % 2
        fitted = quantifier().fit_posteriors(beta(y, rng), y)
        labels, arguments, truth = CASES[case](rng)
        options = kdey.Options(
            method=way, n_replicates=200, check_fit=False, fpc=arguments.pop("fpc", None)
        )
        made = fitted.estimate_posteriors(beta(labels, rng), options=options, **arguments)
        hits += made.low[1] <= truth <= made.high[1]
        widths.append(made.high[1] - made.low[1])
        errors.append(made.estimate[1] - truth)
    return hits / redraws, float(np.mean(widths) / (2 * 1.96 * np.std(errors)))


def main() -> None:
    """Print one line per case and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--redraws", type=int, default=400)
    arguments = parser.parse_args()
    print(f"{'case':<30}{'method':<18}{'coverage':>16}{'relative width':>16}")
    for case in arguments.cases:
        for method in arguments.methods:
            covered, width = measure(case, method, arguments.redraws)
            error = np.sqrt(max(covered * (1 - covered), 1e-4) / arguments.redraws)
            print(f"{case:<30}{method:<18}{covered:>9.3f} ±{error:.3f}{width:>16.2f}", flush=True)


if __name__ == "__main__":
    main()
