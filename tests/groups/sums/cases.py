"""Scores in groups of unequal size, and the quantifiers that take them by sums."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kdey import ACC, CC, DIR, DM, EMQ, MM, PACC, PCC, DyS, HDy, KDEyCS, KDEyHD, KDEyL2, KDEyML
from kdey.groups.sums import LocalSource, key_hashes


@dataclass(frozen=True)
class Case:
    """Training posteriors with labels, and posteriors of instances in groups."""

    training: np.ndarray
    labels: np.ndarray
    points: np.ndarray
    codes: np.ndarray

    @property
    def n_groups(self) -> int:
        return int(self.codes.max()) + 1

    @property
    def bags(self) -> list[np.ndarray]:
        return [np.flatnonzero(self.codes == g) for g in range(self.n_groups)]

    def source(self, cuts: int = 5, keep: bool = True) -> LocalSource:
        """Return the instances cut into so many batches."""
        at = np.linspace(0, len(self.codes), cuts + 1).astype(int)
        hashes = key_hashes(np.arange(len(self.codes)))

        def batches() -> list[Any]:
            runs = [slice(a, b) for a, b in pairwise(at)]
            return [(self.points[run], self.codes[run], hashes[run]) for run in runs]

        return LocalSource(batches, keep)


def posteriors(labels: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    z = rng.normal(size=(len(labels), k))
    z[np.arange(len(labels)), labels] += 1.8
    p = np.exp(z)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def make_case(k: int = 4, n_groups: int = 12, seed: int = 0, largest: int = 1500) -> Case:
    rng = np.random.default_rng(seed)
    labels = np.arange(400) % k
    sizes = np.maximum(2, np.geomspace(2, largest, n_groups)).astype(int)
    codes = np.repeat(np.arange(n_groups), sizes)
    mixes = rng.dirichlet(np.full(k, 0.5), n_groups)
    drawn = np.array([rng.choice(k, p=mixes[g]) for g in codes])
    order = rng.permutation(len(codes))
    points = posteriors(drawn, k, rng)
    return Case(posteriors(labels, k, rng), labels, points[order], codes[order])


def methods(k: int) -> dict[str, Any]:
    made = {
        "CC": CC(),
        "PCC": PCC(),
        "ACC": ACC(),
        "PACC": PACC(),
        "EMQ": EMQ(),
        "EMQ-em": EMQ(solver="em"),
        "DIR": DIR(),
        "DM-HD": DM(),
        "DM-T": DM(divergence="topsoe"),
        "DM-CS": DM(divergence="cauchy-schwarz"),
        "KDEy-ML": KDEyML(bandwidth=0.1),
        "KDEy-ML-log": KDEyML(bandwidth=0.5, kernel="aitchison"),
        "KDEy-CS": KDEyCS(bandwidth=0.1),
        "KDEy-CS-narrow": KDEyCS(bandwidth=0.004, precision="double"),
        "KDEy-L2": KDEyL2(bandwidth=0.1),
        "KDEy-HD": KDEyHD(bandwidth=0.1, n_points=200, random_state=0),
        "KDEy-ML-committee": KDEyML(bandwidth="auto", kernel="auto", random_state=0),
    }
    if k == 2:
        made |= {"HDy": HDy(), "DyS": DyS(), "MM": MM()}
    return made
