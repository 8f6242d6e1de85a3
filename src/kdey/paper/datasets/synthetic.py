"""Synthetic data of the size and shape of LeQua T1B, where its files are missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kdey.paper.datasets.data import Bagged, IndexBags, Part
from kdey.protocols import APP

Array = NDArray[np.float64]
#: Synthetic classes come in families, whose members are hard to tell apart.
_FAMILY_SIZE = 4


def synthetic_lequa(
    *,
    n_train: int = 20_000,
    n_features: int = 300,
    n_classes: int = 28,
    n_validation: int = 1000,
    n_test: int = 5000,
    bag_size: int = 1000,
    pool_size: int = 28_000,
    seed: int = 0,
) -> Bagged:
    r"""Return synthetic data of the size and shape of T1B.

    Class i, of family f, has the mean :math:`\mu_i = 0.14 a_f + 0.12 b_i` with a and b standard
    normal in d dimensions; an instance is :math:`x = \mu_i + s \epsilon`, :math:`\epsilon` standard
    normal and s uniform on [0.7, 1.3]: some texts are clearer than others. Training classes have
    unequal prevalences, proportional to :math:`i^{-1/2}` in random order; the two pools have all
    classes alike. Bags are drawn from a pool at prevalences uniform on the simplex, as in
    LeQua 2022. A logistic regression gets about seven instances in ten right.

    Parameters
    ----------
    n_train, n_features, n_classes : int
    n_validation, n_test : int
        Numbers of bags.
    bag_size : int
    pool_size : int
        Instances of each of the two pools; bags are positions in them.
    seed : int
    """
    rng = np.random.default_rng(seed)
    families = rng.standard_normal((-(-n_classes // _FAMILY_SIZE), n_features))
    offsets = rng.standard_normal((n_classes, n_features))
    means = 0.14 * families[np.arange(n_classes) // _FAMILY_SIZE] + 0.12 * offsets
    prior = rng.permutation(1.0 / np.sqrt(np.arange(1, n_classes + 1)))
    train = _draw(rng, means, _counts(n_train, prior / prior.sum()))
    even = _counts(pool_size, np.full(n_classes, 1.0 / n_classes))
    classes = np.arange(n_classes)
    validation, test = (
        _drawn_bags(_draw(rng, means, even), APP(n_bags, bag_size, seed + offset), classes)
        for offset, n_bags in ((1, n_validation), (2, n_test))
    )
    source = f"made up by kdey.paper.datasets.synthetic_lequa, seed {seed}; not LeQua data"
    notes = (f"bags of {bag_size} as positions in pools of {pool_size}",)
    return Bagged("synthetic-T1B", train, validation, test, classes, source, notes)


def _counts(total: int, shares: Array) -> NDArray[np.int64]:
    """Return integer class counts with this total, at least two each."""
    counts = np.maximum(np.floor(total * shares), 2).astype(np.int64)
    counts[np.argmax(counts)] += total - counts.sum()
    if counts.min() < 2:
        raise ValueError(f"{total} instances are too few for {len(shares)} classes")
    return counts


def _draw(rng: np.random.Generator, means: Array, counts: NDArray[np.int64]) -> Part:
    y = rng.permutation(np.repeat(np.arange(len(means)), counts))
    X = rng.standard_normal((len(y), means.shape[1]))
    X *= rng.uniform(0.7, 1.3, size=(len(y), 1))
    X += means[y]
    return Part(X, y)


def _drawn_bags(instances: Part, protocol: APP, classes: NDArray[np.int64]) -> IndexBags:
    drawn = protocol.bags(instances.y, classes)
    return IndexBags(instances, drawn.bags, drawn.prevalences)
