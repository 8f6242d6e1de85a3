"""Objects with the attributes of QuaPy's that ``from_quapy`` reads, for where QuaPy is absent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


class Collection:
    """As ``quapy.data.LabelledCollection``."""

    def __init__(self, instances: Any, labels: Any, classes: Any = None) -> None:
        self.instances, self.labels = instances, np.asarray(labels)
        self.classes_ = np.unique(self.labels if classes is None else classes)

    def part(self, positions: Any) -> Collection:
        return Collection(self.instances[positions], self.labels[positions], self.classes_)

    def prevalence(self) -> np.ndarray:
        return np.array([(self.labels == c).sum() for c in self.classes_]) / len(self.labels)


class Seeded:
    """As a seeded protocol on a collection: draws when called, yields what the collator says."""

    def __init__(self, data: Collection, n_bags: int, size: int, random_state: Any = 0) -> None:
        self.data, self.n_bags, self.size, self.random_state = data, n_bags, size, random_state
        self.collator = lambda bag, positions: (bag.instances, bag.prevalence())

    def get_labelled_collection(self) -> Collection:
        return self.data

    def samples_parameters(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.random_state)
        return [rng.integers(len(self.data.labels), size=self.size) for _ in range(self.n_bags)]

    def __call__(self) -> Iterator[Any]:
        for positions in self.samples_parameters():
            yield self.collator(self.data.part(positions), positions)


class FromIndex:
    """As ``quapy.protocol.ProtocolFromIndex``."""

    def __init__(self, data: Collection, indexes: Any) -> None:
        self.data, self.indexes = data, indexes

    def __call__(self) -> Iterator[Any]:
        for positions in self.indexes:
            bag = self.data.part(positions)
            yield bag.instances, bag.prevalence()


class Given:
    """As ``quapy.protocol.IterateProtocol``."""

    def __init__(self, samples: list[Collection]) -> None:
        self.samples = samples


class Pairs:
    """As a protocol that only yields pairs (LeQua's)."""

    def __init__(self, pairs: list[Any], random_state: Any = 0) -> None:
        self.pairs, self.random_state = pairs, random_state

    def __call__(self) -> Iterator[Any]:
        yield from self.pairs
