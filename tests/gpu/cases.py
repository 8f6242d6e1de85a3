"""Kernel sums to try on a device, with the float64 oracle, and fitted quantifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import kdey
from kdey.kernels import class_log_sums_numpy


@dataclass(frozen=True)
class Sums:
    """Arguments of the kernel sums."""

    queries: np.ndarray
    references: np.ndarray
    offsets: np.ndarray
    bandwidths: list[float]
    weights: np.ndarray | None
    exclude: np.ndarray | None

    def oracle(self):
        h = np.array(self.bandwidths)
        return class_log_sums_numpy(
            self.queries, self.references, self.offsets, h, self.weights, self.exclude
        )

    def on(self, class_log_sums, **options):
        return class_log_sums(
            self.queries,
            self.references,
            self.offsets,
            self.bandwidths,
            weights=self.weights,
            exclude=self.exclude,
            **options,
        )


def sums(seed, m=45, n=160, k=5, *, bandwidths=(0.05, 0.1, 0.4), weighted=False, leaving=False):
    """Return random sums; the last class but one has no reference, and some weights are zero."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.choice([i for i in range(k) if i != k - 2], n))
    lean = 0.3 + 2.0 * np.eye(k)
    references = np.array([rng.dirichlet(lean[i]) for i in labels])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=k))])
    weights = rng.random(n) * (rng.random(n) > 0.2) if weighted else None
    exclude = rng.integers(-1, n, m) if leaving else None
    queries = rng.dirichlet(np.full(k, 0.5), m)
    return Sums(queries, references, offsets, list(bandwidths), weights, exclude)


def posteriors(rng, labels, k):
    """Return posteriors that lean towards their labels."""
    logits = rng.normal(size=(len(labels), k)) * 1.2
    logits[np.arange(len(labels)), labels] += 2.5
    made = np.exp(logits)
    return made / made.sum(axis=1, keepdims=True)


def problem(seed=0, k=5, n=300, m=900, n_bags=24, weighted=False):
    """Return training posteriors and labels, a pool, and bags of very unequal sizes over it."""
    rng = np.random.default_rng(seed)
    labels, pool_labels = rng.integers(0, k, n), rng.integers(0, k, m)
    sizes = np.concatenate([[1, m], rng.integers(20, 300, n_bags - 2)])
    drawn = [rng.integers(0, m, size) for size in sizes]
    weights = [0.01 + rng.random(size) for size in sizes] if weighted else None
    bags = kdey.Bags.from_indices(drawn, m, weights)
    return posteriors(rng, labels, k), labels, posteriors(rng, pool_labels, k), bags


def methods() -> dict[str, Any]:
    """Return a quantifier per route."""
    few = {"n_points": 400, "random_state": 0, "bandwidth": 0.1}
    return {
        "ML": kdey.KDEyML(bandwidth=0.1),
        "ML-narrow": kdey.KDEyML(bandwidth=0.02),
        "ML-double": kdey.KDEyML(bandwidth=0.1, precision="double"),
        "ML-aitchison": kdey.KDEyML(bandwidth=0.5, kernel="aitchison"),
        "CS": kdey.KDEyCS(bandwidth=0.1),
        "L2": kdey.KDEyL2(bandwidth=0.1),
        **{f"HD-{d}": kdey.KDEyHD(divergence=d, **few) for d in DIVERGENCES},
        "EMQ": kdey.EMQ(),
        "EMQ-em": kdey.EMQ(solver="em"),
        "DIR": kdey.DIR(),
        "pool": kdey.Quantifier(random_state=0),
    }


def mean_methods() -> dict[str, Any]:
    """Return the methods of which a device computes mean rows."""
    return {
        "CC": kdey.CC(),
        "PCC": kdey.PCC(),
        "ACC": kdey.ACC(),
        "PACC": kdey.PACC(),
        "Friedman": kdey.Friedman(),
        "RLLS": kdey.RLLS(random_state=0),
    }


DIVERGENCES = ("hellinger", "topsoe", "jensen-shannon", "kl", "chi2")
