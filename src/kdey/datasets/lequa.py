"""LeQua 2022, tasks T1A and T1B, in the layout of the official archives.

Below ``T1B/public/`` lie ``training_data.txt`` (label and 300 features), ``dev_samples/<i>.txt``
and ``test_samples/<i>.txt`` (a bag each, features only), ``dev_prevalences.txt`` and
``test_prevalences.txt`` (bag, one column per class). Bags are read one at a time, when asked for.

Esuli, Moreo, Sebastiani, "A concise overview of LeQua 2022: learning to quantify", CLEF 2022.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags, offsets_of
from kdey.datasets.bagged import Bagged, Pool, Transform, check_n_bags, check_number
from kdey.datasets.data import Part
from kdey.datasets.homes import home
from kdey.datasets.lequa_text import read_numbers, read_prevalences
from kdey.datasets.locate import PathLike, Root, missing, roots
from kdey.datasets.registry import DataFile, Entry, find, names
from kdey.datasets.tree import Reader, Tree, tree
from kdey.protocols import GivenBags

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BagFiles:
    """Bags that lie in a file each.

    Attributes
    ----------
    files : Tree
    pattern : str
        Name of a bag's file, ``"dev_samples/{}.txt"``.
    n_features : int
    prevalences : float64 array of shape (n_bags, k)
    """

    files: Tree
    pattern: str
    n_features: int
    prevalences: Array

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.prevalences)

    def __len__(self) -> int:
        """Return the number of bags."""
        return self.n_bags

    def bag(self, number: int) -> Array:
        """Return the features of one bag, shape (bag_size, d)."""
        check_number(number, len(self))
        with self.files.open() as read:
            return self._read(read, number)

    def __iter__(self) -> Iterator[Array]:
        """Iterate over the features of the bags; one is in memory at a time."""
        with self.files.open() as read:
            for number in range(len(self)):
                yield self._read(read, number)

    def pool(self, transform: Transform | None = None, n_bags: int | None = None) -> Pool:
        """Return the bags as one pool.

        Parameters
        ----------
        transform : callable, optional
            Applied to each bag as it is read, from (bag_size, d) to (bag_size, r): with a
            classifier's ``predict_proba`` only posteriors are held, not features. The features of
            T1B's test bags would take 12 GB.
        n_bags : int, optional
            Only that many of the first bags.
        """
        count, done, sizes = check_n_bags(n_bags, len(self)), None, np.zeros(len(self), dtype=int)
        filled = 0
        with self.files.open() as read:
            for number in range(count):
                X = self._read(read, number)
                made = np.asarray(X if transform is None else transform(X))
                if len(made) != len(X):
                    raise ValueError(f"transform: {len(X)} rows in, but {len(made)} rows out")
                done = _make_room(done, made, filled, count - number)
                done[filled : filled + len(made)] = made
                filled, sizes[number] = filled + len(made), len(made)
        offsets = offsets_of(sizes[:count])
        bags = Bags(np.arange(filled, dtype=np.int64), offsets, filled)
        assert done is not None
        return Pool(done[:filled], GivenBags(bags, self.prevalences[:count]))

    def _read(self, read: Reader, number: int) -> Array:
        name = self.pattern.format(number)
        return read_numbers(read(name), self.files.where(name), self.n_features)


def _make_room(done: Any, made: Any, filled: int, left: int) -> Any:
    """Return an array with room for ``made``: bags are of one size, so it is made once."""
    if done is not None and filled + len(made) <= len(done):
        return done
    wider = np.empty((filled + left * len(made), *made.shape[1:]), dtype=made.dtype)
    if done is not None:
        wider[:filled] = done[:filled]
    return wider


def load_lequa(task: str, data_dir: PathLike | None = None) -> Bagged:
    """Return a task of LeQua 2022: training data, development bags, test bags.

    Parameters
    ----------
    task : {"T1A", "T1B"}
        T1A: 2 classes, bags of 250. T1B: 28 classes, bags of 1,000. 300 features each.
    data_dir : path, optional
        Holds ``lequa2022/`` (or is it), with the three official zip files of the task or what they
        unpack to. By default ``$KDEY_DATA``, then the cache.

    Raises
    ------
    FileNotFoundError
        Names what is missing and where to download it.
    ValueError
        Names the file and line that do not fit.
    """
    if task not in names("lequa"):
        raise ValueError(f"task must be one of {names('lequa')}, got {task!r}")
    entry, where = find(task, "lequa"), roots(data_dir)
    files = tree(containers(entry, where), f"{task}/public/")
    for file, needed in zip(
        entry.files,
        ("training_data.txt", "test_samples/0.txt", "test_prevalences.txt"),
        strict=True,
    ):
        if needed not in files.places:
            raise FileNotFoundError(missing(entry, file, where))
    train = _training(files)
    classes = np.unique(train.y)
    source = f"LeQua 2022, task {task}, {home(entry).page}"
    validation, test = (
        _bags(files, part, train.X.shape[1], len(classes)) for part in ("dev", "test")
    )
    notes = (f"{len(validation)} development and {len(test)} test bags as given; not scaled",)
    return Bagged(task, train, validation, test, classes, source, notes)


def containers(entry: Entry, where: list[Root]) -> list[Path]:
    """Return the directories and archives that hold files of a task."""
    found: list[Path] = []
    for root in where:
        for folder in (root.path / "lequa2022", root.path):
            if (folder / entry.name / "public").is_dir():
                found.append(folder)
            found += [path for file in entry.files if (path := _archive(folder, file)).is_file()]
    return found


def _archive(folder: Path, file: DataFile) -> Path:
    return folder / file.path.rpartition("/")[2]


def _training(files: Tree) -> Part:
    with files.open() as read:
        rows = read_numbers(read("training_data.txt"), files.where("training_data.txt"))
    labels = rows[:, 0]
    if (labels != np.floor(labels)).any():
        line = int(np.argmax(labels != np.floor(labels))) + 2
        where = files.where("training_data.txt")
        raise ValueError(f"{where}, line {line}: the label (first column) is not an integer")
    return Part(np.ascontiguousarray(rows[:, 1:]), labels.astype(np.int64))


def _bags(files: Tree, part: str, n_features: int, n_classes: int) -> BagFiles:
    name = f"{part}_prevalences.txt"
    with files.open() as read:
        prevalences = read_prevalences(read(name), files.where(name), n_classes)
    folder = f"{part}_samples/"
    there = {found.removeprefix(folder) for found in files.places if found.startswith(folder)}
    wanted = {f"{number}.txt" for number in range(len(prevalences))}
    if there != wanted:
        odd = min(there ^ wanted)
        fault = "has no line for" if odd in there else "has a line for, but there is no"
        raise ValueError(
            f"{files.where(name)}: {len(prevalences)} lines, but {len(there)} bags in {folder}; "
            f"the file {fault} {folder}{odd}"
        )
    return BagFiles(files, folder + "{}.txt", n_features, prevalences)
