"""LeQua as tasks: a training set and given bags, read once and never held whole in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.experiments.settings import Setting
from kdey.experiments.sources import Source, source_of
from kdey.experiments.task import Bagged, Labelled, Task
from kdey.protocols import GivenBags, LabelledBags

#: Test bags per part where every bag has instances of its own.
_PART = 200


def lequa_sources(setting: Setting, say: Callable[[str], None]) -> list[Source]:
    """Return the task of a LeQua setting, or what takes its place where its files are missing.

    In its place come made-up data of its size and, for many classes, a text collection, under
    names of their own.
    """
    from kdey.datasets import load_dataset, load_lequa, synthetic_lequa

    binary = setting.published[0] == "binary"
    task = "T1A" if binary else "T1B"
    try:
        return [bagged_source(load_lequa(task))]
    except FileNotFoundError as error:
        say(f"LeQua {task} was not found ({error}). Running on data of its size instead")
    sizes = {"n_train": 5000, "n_classes": 2} if binary else {}
    if setting.quick:
        sizes |= {"n_train": 1500, "n_features": 50}
    made = synthetic_lequa(
        n_validation=setting.n_validation,
        n_test=setting.n_test,
        bag_size=setting.bag_size,
        **sizes,
    )
    sources = [bagged_source(made)]
    if not binary:
        try:
            sources.append(source_of(load_dataset("text/news20-lsa300")))
        except FileNotFoundError as error:
            say(f"left out: {error}")
    return sources


def bagged_source(data: Any) -> Source:
    """Return given bags (``kdey.datasets.Bagged``) as a source; the seed changes no bag."""
    size = float(len(data.train.y) * len(data.classes))
    return Source(data.name, size, lambda setting, seed: bagged_task(data, setting, seed))


def bagged_task(data: Any, setting: Setting, seed: int) -> Task:
    """Return given bags as a task.

    Validation bags have no labels of single instances, so the chosen quantifier is fitted on
    the training set alone.
    """
    train = Labelled(data.train.X, data.train.y)
    parts = _Parts(data.test, data.classes, min(setting.n_test, len(data.test)))
    return Task(
        dataset=data.name,
        seed=seed,
        train=train,
        validation=_whole(data.validation, data.classes, setting.n_validation),
        development=train,
        tests=parts,
        source=data.source,
        notes=tuple(data.notes),
    )


def _whole(source: Any, classes: NDArray[Any], n_bags: int) -> Bagged:
    """Return bags as one pool."""
    pool = source.pool(_single, min(n_bags, len(source)))
    return Bagged(pool.X, pool.protocol.bags(classes=classes))


def _single(X: Any) -> Any:
    return X.astype(np.float32)  # half of the memory; the files have no more digits


class _Parts:
    """The test bags: one pool where bags share one, else parts of a file on disk.

    Bags in files are parsed once, into a temporary file, because every method and metric
    goes through them.
    """

    def __init__(self, source: Any, classes: NDArray[Any], n_bags: int) -> None:
        self._source, self._classes, self._n_bags = source, classes, n_bags
        self._held: Any = None

    def __call__(self) -> Iterator[Bagged]:
        """Yield the bags in parts."""
        if hasattr(self._source, "instances"):  # positions in one pool
            yield _whole(self._source, self._classes, self._n_bags)
            return
        for start in range(0, self._n_bags, _PART):
            yield self._part(start, min(start + _PART, self._n_bags))

    def _part(self, start: int, stop: int) -> Bagged:
        X = np.asarray(self._features()[start:stop])
        size = X.shape[1]
        offsets = np.arange(stop - start + 1, dtype=np.int64) * size
        bags = Bags(np.arange(offsets[-1]), offsets, int(offsets[-1]))
        known = GivenBags(bags, self._source.prevalences[start:stop])
        labelled: LabelledBags = known.bags(classes=self._classes)
        return Bagged(X.reshape(-1, X.shape[2]), labelled)

    def _features(self) -> Any:
        """Return the features of all bags, shape (n_bags, bag_size, d), on disk."""
        if self._held is None:
            first = self._source.bag(0)
            shape = (self._n_bags, *first.shape)
            with tempfile.TemporaryFile() as file:
                made = np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
            for number in range(self._n_bags):
                made[number] = self._source.bag(number)
            self._held = made
        return self._held
