"""LeQua 2022, tasks T1A and T1B, in the layout of the official archives, and a synthetic stand-in.

Below ``T1B/public/`` lie ``training_data.txt`` (label and 300 features), ``dev_samples/<i>.txt``
and ``test_samples/<i>.txt`` (one bag each, features only), ``dev_prevalences.txt`` and
``test_prevalences.txt`` (bag, one column per class). The text files hold numbers separated by
commas below one header line. Bags are read one at a time, when they are asked for.

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
from kdey.paper.datasets.data import (
    Bagged,
    IndexBags,
    Part,
    Pool,
    Transform,
    check_n_bags,
    check_number,
)
from kdey.paper.datasets.files import PathLike, Reader, Root, Tree, missing, roots, tree
from kdey.paper.datasets.registry import DataFile, Entry, find, home, names
from kdey.protocols import APP, GivenBags
from kdey.simplex import SUM_TOLERANCE

Array = NDArray[np.float64]
#: Synthetic classes come in families, whose members are hard to tell apart.
_FAMILY_SIZE = 4


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
    entry, directories = find(task, "lequa"), roots(data_dir)
    files = tree(containers(entry, directories), f"{task}/public/")
    for file, needed in zip(
        entry.files,
        ("training_data.txt", "test_samples/0.txt", "test_prevalences.txt"),
        strict=True,
    ):
        if needed not in files.places:
            raise FileNotFoundError(missing(entry, file, directories))
    train, features = _training(files)
    classes = np.unique(train.y)
    source = f"LeQua 2022, task {task}, {home(entry).page}"
    validation, test = (_bags(files, part, features, classes) for part in ("dev", "test"))
    notes = (f"{len(validation)} development and {len(test)} test bags as given; not scaled",)
    return Bagged(task, train, validation, test, classes, source, notes)


def containers(entry: Entry, directories: list[Root]) -> list[Path]:
    """Return the directories and archives that hold files of a task."""
    paths: list[Path] = []
    for root in directories:
        for folder in (root.path / "lequa2022", root.path):
            if (folder / entry.name / "public").is_dir():
                paths.append(folder)
            paths += [path for file in entry.files if (path := _archive(folder, file)).is_file()]
    return paths


def _archive(folder: Path, file: DataFile) -> Path:
    return folder / file.path.rpartition("/")[2]


def _training(files: Tree) -> tuple[Part, tuple[str, ...]]:
    """Return the training data and the names of the features."""
    with files.open() as read:
        content = read("training_data.txt")
    rows = read_numbers(content, files.where("training_data.txt"))
    labels = rows[:, 0]
    if (labels != np.floor(labels)).any():
        line = int(np.argmax(labels != np.floor(labels))) + 2
        where = files.where("training_data.txt")
        raise ValueError(f"{where}, line {line}: the label (first column) is not an integer")
    part = Part(np.ascontiguousarray(rows[:, 1:]), labels.astype(np.int64))
    return part, tuple(_header(content)[1:])


def _bags(
    files: Tree, part: str, features: tuple[str, ...], classes: NDArray[np.int64]
) -> BagFiles:
    name = f"{part}_prevalences.txt"
    with files.open() as read:
        prevalences = read_prevalences(read(name), files.where(name), classes)
    folder = f"{part}_samples/"
    present = {path.removeprefix(folder) for path in files.places if path.startswith(folder)}
    listed = {f"{number}.txt" for number in range(len(prevalences))}
    if present != listed:
        first = min(present ^ listed)
        fault = "has no line for" if first in present else "has a line for, but there is no"
        raise ValueError(
            f"{files.where(name)}: {len(prevalences)} lines, but {len(present)} bags in {folder}; "
            f"the file {fault} {folder}{first}"
        )
    return BagFiles(files, folder + "{}.txt", len(features), prevalences, features)


@dataclass(frozen=True, eq=False)
class BagFiles:
    """Bags in one file each.

    Attributes
    ----------
    files : Tree
    pattern : str
        Name of a bag's file, ``"dev_samples/{}.txt"``.
    n_features : int
    prevalences : float64 array of shape (n_bags, k)
    features : tuple of str
        Names of the features in the training data; empty if unknown. A bag that has the same
        names in another order is refused.
    """

    files: Tree
    pattern: str
    n_features: int
    prevalences: Array
    features: tuple[str, ...] = ()

    @property
    def shares_pool(self) -> bool:
        """Each bag has its own instances."""
        return False

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
        count, rows, sizes = check_n_bags(n_bags, len(self)), None, np.zeros(len(self), dtype=int)
        filled = 0
        with self.files.open() as read:
            for number in range(count):
                X = self._read(read, number)
                bag = np.asarray(X if transform is None else transform(X))
                if len(bag) != len(X):
                    raise ValueError(f"transform: {len(X)} rows in, but {len(bag)} rows out")
                rows = _make_room(rows, bag, filled, count - number)
                rows[filled : filled + len(bag)] = bag
                filled, sizes[number] = filled + len(bag), len(bag)
        offsets = offsets_of(sizes[:count])
        bags = Bags(np.arange(filled, dtype=np.int64), offsets, filled)
        assert rows is not None
        return Pool(rows[:filled], GivenBags(bags, self.prevalences[:count]))

    def _read(self, read: Reader, number: int) -> Array:
        name = self.pattern.format(number)
        content, where = read(name), self.files.where(name)
        rows = read_numbers(content, where, self.n_features)
        columns = _header(content)
        if columns != list(self.features) and sorted(columns) == sorted(self.features):
            raise ValueError(
                f"{where}, line 1: the features have the names of those in training_data.txt, but "
                "another order"
            )
        return rows


def _make_room(rows: Any, bag: Any, filled: int, left: int) -> Any:
    """Return an array with room for ``made``: bags are of one size, so it is made once."""
    if rows is not None and filled + len(bag) <= len(rows):
        return rows
    wider = np.empty((filled + left * len(bag), *bag.shape[1:]), dtype=bag.dtype)
    if rows is not None:
        wider[:filled] = rows[:filled]
    return wider


def read_numbers(data: bytes, where: str, n_columns: int | None = None) -> Array:
    """Return the numbers of a file, shape (n, d).

    Parameters
    ----------
    data : bytes
        Content of the file.
    where : str
        Its name, for messages.
    n_columns : int, optional
        How many columns there must be; by default as many as the header has.
    """
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not a text file of numbers ({error})") from error
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) < 2:
        raise ValueError(f"{where}: a header and at least one line of numbers are needed")
    width = lines[0].count(",") + 1
    if n_columns is not None and width != n_columns:
        raise ValueError(f"{where}, line 1: {width} columns, expected {n_columns}")
    for number, line in enumerate(lines, start=1):
        if line.count(",") != width - 1:
            raise ValueError(
                f"{where}, line {number}: {line.count(',') + 1} columns, expected {width}"
            )
    return _numbers(lines[1:], where)


def _numbers(lines: list[str], where: str) -> Array:
    try:
        numbers = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None)
        if np.isfinite(numbers).all() and len(numbers) == len(lines):
            return numbers
    except ValueError:
        pass
    for number, line in enumerate(lines, start=2):
        for column, cell in enumerate(line.split(","), start=1):
            if not _is_finite(cell):
                raise ValueError(
                    f"{where}, line {number}, column {column}: {cell!r} is not a finite number"
                )
    raise ValueError(f"{where}: not a table of numbers")


def _is_finite(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _header(data: bytes) -> list[str]:
    """Return the cells of the first line of a file that has been read."""
    return [cell.strip().strip('"') for cell in data.splitlines()[0].decode("ascii").split(",")]


def read_prevalences(data: bytes, where: str, classes: NDArray[np.int64]) -> Array:
    """Return prevalences, shape (n_bags, k), in the order of the bags' numbers.

    Parameters
    ----------
    data : bytes
        Number of the bag, then one column per class, named after the classes in their order.
    where : str
        Name of the file, for messages.
    classes : int64 array of shape (k,)
    """
    rows = read_numbers(data, where, len(classes) + 1)
    names, expected = _header(data)[1:], [str(label) for label in classes.tolist()]
    if names != expected:
        raise ValueError(
            f"{where}, line 1: the columns after the first are {', '.join(names)}, expected the "
            f"classes of the training data in their order: {', '.join(expected)}"
        )
    numbers, prevalences = rows[:, 0], rows[:, 1:]
    _refuse(
        (prevalences < 0).any(axis=1) | (np.abs(prevalences.sum(axis=1) - 1) > SUM_TOLERANCE),
        where,
        "the prevalences are negative or do not sum to one",
    )
    order = np.argsort(numbers, kind="stable")
    out = np.zeros(len(rows), dtype=bool)
    out[order] = numbers[order] != np.arange(len(rows))
    _refuse(out, where, f"bags must be numbered 0..{len(rows) - 1}, each once")
    return np.ascontiguousarray(prevalences[order])


def _refuse(bad: NDArray[np.bool_], where: str, why: str) -> None:
    if bad.any():
        raise ValueError(f"{where}, line {int(np.argmax(bad)) + 2}: {why}")


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
