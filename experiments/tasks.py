"""Tasks: one data set under one split, with the bags that all methods are tested on.

:func:`find_sources` loads the data sets of a setting, or their stand-ins where the files are
missing; a :class:`Source` makes a :class:`Task` for each seed. LeQua comes as a training set and
given bags, which are read once and never all in memory together.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.settings import Setting
from kdey._fingerprints import fingerprint
from kdey.bags import Array, Bags, offsets_of
from kdey.datasets import (
    Bagged,
    BagSource,
    Dataset,
    IndexBags,
    Part,
    load_dataset,
    load_lequa,
    names,
)
from kdey.evaluation import APP, GivenBags, LabelledBags
from kdey.validation import encode_labels

#: Added to the seed of the validation bags: test bags must have other prevalences.
_VALIDATION_SEED = 10_000
#: Test bags per part where every bag has instances of its own.
_PART = 200


@dataclass(frozen=True, eq=False)
class TaskBags:
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
    """One data set under one split: what every method is fitted, selected and tested on.

    Attributes
    ----------
    dataset : str
    seed : int
        Of the split, the bags, the folds and whatever a method draws.
    train : Part
        What candidates are fitted on.
    validation : TaskBags
        What they are scored on.
    development : Part
        What the chosen ones are fitted on: train and validation together.
    tests : callable that returns an iterable of TaskBags
        Test bags, in parts so that a large pool need not be in memory at once.
    source : str
        Where the data come from.
    notes : tuple of str
        What was done to the data.
    """

    dataset: str
    seed: int
    train: Part
    validation: TaskBags
    development: Part
    tests: Callable[[], Iterable[TaskBags]]
    source: str = ""
    notes: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """Fingerprint of the training data and the validation bags."""
        bags = self.validation.labelled
        return fingerprint(self.train.X, self.train.y, bags.bags.indices, bags.prevalences)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of instances of each test bag, shape (n_bags,)."""
        return np.concatenate([part.labelled.bags.sizes for part in self.tests()])

    @cached_property
    def shift(self) -> Array:
        """Absolute error between each test bag's prevalence and development's, (n_bags,)."""
        classes = np.unique(self.development.y)
        codes, _ = encode_labels(self.development.y, classes)
        prevalence = np.bincount(codes, minlength=len(classes)) / len(codes)
        parts = [
            np.abs(part.labelled.prevalences - prevalence).mean(axis=1) for part in self.tests()
        ]
        return np.asarray(np.concatenate(parts), dtype=np.float64)


def make_task(dataset: Dataset, setting: Setting, seed: int) -> Task:
    """Split a data set as the paper does and draw its bags.

    Parameters
    ----------
    dataset : kdey.datasets.Dataset
    setting : Setting
    seed : int
    """
    split = dataset.split(seed=seed)
    classes = np.unique(split.development.y)

    def draw(part: Part, n_bags: int, random_state: int) -> TaskBags:
        protocol = APP(n_bags, setting.bag_size, random_state=random_state)
        return TaskBags(part.X, protocol.bags(part.y, classes), part.y)

    test = draw(split.test, setting.n_test, seed)
    return Task(
        dataset=dataset.name,
        seed=seed,
        train=split.train,
        validation=draw(split.validation, setting.n_validation, _VALIDATION_SEED + seed),
        development=split.development,
        tests=lambda: [test],
        source=dataset.source,
        notes=tuple(split.notes),
    )


@dataclass(frozen=True, eq=False)
class Source:
    """A data set that can be made into tasks.

    Attributes
    ----------
    name : str
        As in the tables.
    size : float
        Rows times classes: how the cost of its cells compares with that of others.
    task : callable
        From a setting and a seed to the task.
    """

    name: str
    size: float
    task: Callable[[Setting, int], Task]


def source_of(dataset: Dataset) -> Source:
    """Return a data set of :mod:`kdey.datasets` as a source."""
    size = float(len(dataset.y) * len(np.unique(dataset.y)))
    return Source(dataset.name, size, lambda setting, seed: make_task(dataset, setting, seed))


def find_sources(
    setting: Setting, chosen: Sequence[str], say: Callable[[str], None]
) -> list[Source]:
    """Load a setting's data sets, all of them before anything is run.

    Where the files are missing, a quick setting, and one whose stand-ins have names of their own
    (``tweets``, ``lequa``), continues with the stand-ins and says so.

    Parameters
    ----------
    chosen : sequence of str
        Names of data sets; empty: all of the setting.
    """
    if setting.datasets == "lequa":
        return _select_sources(lequa_sources(setting, say), chosen)

    def load(name: str) -> Source:
        # A bare name means the set of this setting, whatever other groups call theirs.
        full = f"{setting.datasets}/{name}"
        return source_of(load_dataset(full if full in names(setting.datasets) else name))

    try:
        return [load(name) for name in chosen or names(setting.datasets)]
    except FileNotFoundError as error:
        if chosen or not (setting.quick or setting.datasets == "tweets"):
            raise
        instead = names(setting.instead)
        say(
            f"{setting.datasets} was not found ({error}). Running on {setting.instead} instead: "
            f"{', '.join(instead)}"
        )
        return [load(name) for name in instead]


def _select_sources(sources: list[Source], chosen: Sequence[str]) -> list[Source]:
    """Return the sources of these names; all where none is named."""
    known = {source.name: source for source in sources}
    for name in chosen:
        if name not in known:
            raise ValueError(f"data set {name!r} is unknown here; there are {', '.join(known)}")
    return [known[name] for name in chosen] if chosen else sources


def lequa_sources(setting: Setting, say: Callable[[str], None]) -> list[Source]:
    """Return the task of a LeQua setting, or what takes its place where its files are missing.

    Its place is taken by synthetic data of its size and, for many classes, by a text collection,
    under names of their own.
    """
    binary = setting.published[0] == "binary"
    task = "T1A" if binary else "T1B"
    try:
        return [bagged_source(load_lequa(task))]
    except FileNotFoundError as error:
        say(f"LeQua {task} was not found ({error}). Running on data of its size instead")
    sizes = {"n_train": 5000, "n_classes": 2} if binary else {}
    if setting.quick:
        sizes |= {"n_train": 1500, "n_features": 50}
    data = synthetic_lequa(
        n_validation=setting.n_validation,
        n_test=setting.n_test,
        bag_size=setting.bag_size,
        **sizes,
    )
    sources = [bagged_source(data)]
    if not binary:
        try:
            sources.append(source_of(load_dataset("text/news20-lsa300")))
        except FileNotFoundError as error:
            say(f"left out: {error}")
    return sources


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
    r"""Return synthetic data of the size and shape of T1B, or of T1A where there are two classes.

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
    train = _draw_part(rng, means, _class_counts(n_train, prior / prior.sum()))
    even = _class_counts(pool_size, np.full(n_classes, 1.0 / n_classes))
    classes = np.arange(n_classes)
    validation, test = (
        _bags_of(_draw_part(rng, means, even), APP(n_bags, bag_size, seed + offset), classes)
        for offset, n_bags in ((1, n_validation), (2, n_test))
    )
    source = f"made up by experiments.tasks.synthetic_lequa, seed {seed}; not LeQua data"
    notes = (f"bags of {bag_size} as positions in pools of {pool_size}",)
    name = "synthetic-T1A" if n_classes == 2 else "synthetic-T1B"
    return Bagged(name, train, validation, test, classes, source, notes)


def _class_counts(total: int, shares: Array) -> NDArray[np.int64]:
    """Return integer class counts with this total, at least two each."""
    counts = np.maximum(np.floor(total * shares), 2).astype(np.int64)
    counts[np.argmax(counts)] += total - counts.sum()
    if counts.min() < 2:
        raise ValueError(f"{total} instances are too few for {len(shares)} classes")
    return counts


def _draw_part(rng: np.random.Generator, means: Array, counts: NDArray[np.int64]) -> Part:
    y = rng.permutation(np.repeat(np.arange(len(means)), counts))
    X = rng.standard_normal((len(y), means.shape[1]))
    X *= rng.uniform(0.7, 1.3, size=(len(y), 1))
    X += means[y]
    return Part(X, y)


def _bags_of(instances: Part, protocol: APP, classes: NDArray[np.int64]) -> IndexBags:
    drawn = protocol.bags(instances.y, classes)
    return IndexBags(instances, drawn.bags, drawn.prevalences)


def bagged_source(data: Bagged) -> Source:
    """Return given bags as a source; the seed changes no bag."""
    size = float(len(data.train.y) * len(data.classes))
    return Source(data.name, size, lambda setting, seed: bagged_task(data, setting, seed))


def bagged_task(data: Bagged, setting: Setting, seed: int) -> Task:
    """Return given bags as a task.

    Validation bags have no labels of single instances, so the chosen quantifier is fitted on
    the training set alone.
    """
    parts = _TestParts(data.test, data.classes, min(setting.n_test, len(data.test)))
    return Task(
        dataset=data.name,
        seed=seed,
        train=data.train,
        validation=_single_pool(data.validation, data.classes, setting.n_validation),
        development=data.train,
        tests=parts,
        source=data.source,
        notes=tuple(data.notes),
    )


def _single_pool(source: BagSource, classes: NDArray[Any], n_bags: int) -> TaskBags:
    """Return bags as one pool."""
    pool = source.pool(_as_float32, min(n_bags, len(source)))
    return TaskBags(pool.X, pool.protocol.bags(classes=classes))


def _as_float32(X: Any) -> Any:
    return X.astype(np.float32)  # half of the memory; the files have no more digits


class _TestParts:
    """The test bags: one pool where bags share one, else parts of a file on disk.

    Bags in files are parsed once, into a temporary file, because every method and metric needs
    them.
    """

    def __init__(self, source: BagSource, classes: NDArray[Any], n_bags: int) -> None:
        self._source, self._classes, self._n_bags = source, classes, n_bags
        self._mapped: tuple[Any, NDArray[np.int64]] | None = None

    def __call__(self) -> Iterator[TaskBags]:
        """Yield the bags in parts."""
        if self._source.shares_pool:
            yield _single_pool(self._source, self._classes, self._n_bags)
            return
        for start in range(0, self._n_bags, _PART):
            yield self._part(start, min(start + _PART, self._n_bags))

    def _part(self, start: int, stop: int) -> TaskBags:
        features, offsets = self._features()
        first, last = int(offsets[start]), int(offsets[stop])
        size = last - first
        bags = Bags(np.arange(size), offsets[start : stop + 1] - first, size)
        known = GivenBags(bags, self._source.prevalences[start:stop])
        labelled: LabelledBags = known.bags(classes=self._classes)
        return TaskBags(np.asarray(features[first:last]), labelled)

    def _features(self) -> tuple[Any, NDArray[np.int64]]:
        """Return the features of all bags on disk, one bag below the other, and their offsets."""
        if self._mapped is None:
            sizes = []
            with tempfile.TemporaryFile() as file:
                for number in range(self._n_bags):
                    X = np.ascontiguousarray(self._source.bag(number), dtype=np.float32)
                    file.write(X.data)
                    sizes.append(len(X))
                file.flush()
                shape = (sum(sizes), X.shape[1])
                features = np.memmap(file, dtype=np.float32, mode="r+", shape=shape)
            self._mapped = features, offsets_of(sizes)
        return self._mapped
