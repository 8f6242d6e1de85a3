"""A task: one data set under one split, with the bags that all methods meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array
from kdey.experiments.settings import Setting
from kdey.fingerprint import fingerprint
from kdey.labels import encode_labels
from kdey.protocols import APP, GivenBags, LabelledBags

#: Added to the seed of the validation bags: test bags must have other prevalences.
_VALIDATION_SEED = 10_000


@dataclass(frozen=True, eq=False)
class Labelled:
    """Instances ``X`` and their labels ``y``, shape (n,)."""

    X: Any
    y: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Bagged:
    """A pool and the bags drawn from it; ``y`` is None where only prevalences are known."""

    X: Any
    labelled: LabelledBags
    y: NDArray[Any] | None = None

    @property
    def protocol(self) -> GivenBags:
        """The bags as a protocol, for searches and evaluations."""
        return GivenBags(self.labelled.bags, self.labelled.prevalences)


@dataclass(frozen=True, eq=False)
class Task:
    """What one column of cells works on.

    Attributes
    ----------
    dataset : str
    seed : int
        Of the split, the bags, the folds and whatever a method draws.
    train : Labelled
        What candidates are fitted on.
    validation : Bagged
        What they are scored on.
    development : Labelled
        What the chosen ones are fitted on: train and validation together.
    tests : callable that returns an iterable of Bagged
        Test bags, in parts so that a large pool need not be held whole.
    source : str
        Where the data come from.
    notes : tuple of str
        What was done to the data.
    """

    dataset: str
    seed: int
    train: Labelled
    validation: Bagged
    development: Labelled
    tests: Callable[[], Any]
    source: str = ""
    notes: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """Fingerprint of the training data and the validation bags."""
        bags = self.validation.labelled
        return fingerprint(self.train.X, self.train.y, bags.bags.indices, bags.prevalences)

    @cached_property
    def shift(self) -> Array:
        """Absolute error between each test bag's prevalence and development's, (n_bags,)."""
        classes = np.unique(self.development.y)
        codes, _ = encode_labels(self.development.y, classes)
        known = np.bincount(codes, minlength=len(classes)) / len(codes)
        parts = [np.abs(part.labelled.prevalences - known).mean(axis=1) for part in self.tests()]
        return np.asarray(np.concatenate(parts), dtype=np.float64)


def make_task(dataset: Any, setting: Setting, seed: int) -> Task:
    """Split a data set as the paper does and draw its bags.

    Parameters
    ----------
    dataset : kdey.datasets.Dataset
        Or anything with ``name``, ``source`` and ``split(seed)``.
    setting : Setting
    seed : int
    """
    split = dataset.split(seed=seed)
    classes = np.unique(split.development.y)

    def drawn(part: Any, n_bags: int, random_state: int) -> Bagged:
        protocol = APP(n_bags, setting.bag_size, random_state=random_state)
        return Bagged(part.X, protocol.bags(part.y, classes), part.y)

    test = drawn(split.test, setting.n_test, seed)
    return Task(
        dataset=dataset.name,
        seed=seed,
        train=Labelled(split.train.X, split.train.y),
        validation=drawn(split.validation, setting.n_validation, _VALIDATION_SEED + seed),
        development=Labelled(split.development.X, split.development.y),
        tests=lambda: [test],
        source=dataset.source,
        notes=tuple(split.notes),
    )
