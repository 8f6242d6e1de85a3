"""The tasks of LeQua 2022 and 2024 in the layout of the official archives.

Below ``T1B/public/`` lie ``training_data.txt`` (label and features, or label and text),
``dev_samples/<i>.txt`` and ``test_samples/<i>.txt`` (one bag each, without labels),
``dev_prevalences.txt`` and ``test_prevalences.txt`` (bag, one column per class) and
``label_map.txt`` (names of classes). The training data of T3 are ``training_samples/<i>.txt``.
Bags are read one at a time, when they are asked for, from a directory, from zip archives, or from
some of each (:class:`Tree`).

Esuli, Moreo, Sebastiani, Sperduti, "A concise overview of LeQua@CLEF 2022: learning to quantify";
https://lequa2024.github.io for the second edition.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile, ZipFile
from zlib import error as ZlibError

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags, offsets_of
from kdey.datasets.loading import (
    Bagged,
    IndexBags,
    Part,
    Pool,
    Transform,
    check_n_bags,
    check_number,
    read_numbers as numbers_in,
)
from kdey.datasets.registry import DataFile, Entry, PathLike, Roots, find, missing, roots
from kdey.evaluation.protocols import GivenBags
from kdey.simplex import SUM_TOLERANCE

#: Samples of the development and of the test part.
N_DEVELOPMENT, N_TEST = 1000, 5000


@dataclass(frozen=True)
class LequaTask:
    """What is known of a task without its files.

    Attributes
    ----------
    name : str
    edition : int
        2022 or 2024.
    bag_size : int
    n_classes : int
    documents : bool
        Whether instances are texts instead of vectors.
    ordered : bool
        Whether the classes are ordered; the measures are then those of ordinal quantification.
    training : {"instances", "samples"}
        Whether the training data are one file, or samples in one file each.
    """

    name: str
    edition: int
    bag_size: int
    n_classes: int
    documents: bool = False
    ordered: bool = False
    training: Literal["instances", "samples"] = "instances"

    @property
    def folder(self) -> str:
        """The folder of the edition below a data directory."""
        return f"lequa{self.edition}"

    @property
    def title(self) -> str:
        """What to call the task in a sentence."""
        return f"LeQua {self.edition}, task {self.name}"


#: Task by name; the names of the two editions differ.
TASKS: dict[str, LequaTask] = {
    task.name: task
    for task in (
        LequaTask("T1A", 2022, 250, 2),
        LequaTask("T1B", 2022, 1000, 28),
        LequaTask("T2A", 2022, 250, 2, documents=True),
        LequaTask("T2B", 2022, 1000, 28, documents=True),
        LequaTask("T1", 2024, 250, 2),
        LequaTask("T2", 2024, 1000, 28),
        LequaTask("T3", 2024, 200, 5, ordered=True, training="samples"),
        LequaTask("T4", 2024, 250, 2),
    )
}


def find_task(name: str) -> LequaTask:
    """Return the task of a name; raises ValueError if there is none."""
    if name not in TASKS:
        raise ValueError(f"task must be one of {list(TASKS)}, got {name!r}")
    return TASKS[name]


Array = NDArray[np.float64]
Indices = NDArray[np.int64]
#: From the name of a file to its content.
Reader = Callable[[str], bytes]
#: Column of the documents, and that of the labels in front of documents and numbers.
TEXT, LABEL = "text", "label"
#: What must be there of the test part.
TestPart = Literal["truth", "samples"] | None
#: The file by which the archives of a task are known to be there, in the order of the registry.
_SIGNS = ("{training}", "test_samples/0.txt", "test_prevalences.txt")


def load_lequa(task: str, data_dir: PathLike | None = None, *, test: TestPart = "truth") -> Bagged:
    """Return a task of LeQua: training data, development bags, test bags.

    Parameters
    ----------
    task : {"T1A", "T1B", "T2A", "T2B", "T1", "T2", "T3", "T4"}
        2022: T1A (2 classes, bags of 250) and T1B (28 classes, bags of 1,000) with 300 features;
        T2A and T2B are the same as texts, and X is then an array of texts. 2024: T1 (2 classes,
        bags of 250), T2 (28, 1,000), T3 (5 ordered classes, bags of 200) and T4 (2, 250), with 256
        features. T3 is trained on samples: ``train`` holds the instances of all of them, and
        ``training_bags`` says which belong together.
    data_dir : path, optional
        Holds ``lequa2022/`` or ``lequa2024/`` (or is it), with the official zip files of the task
        or what they unpack to. By default ``$KDEY_DATA``, then the cache.
    test : {"truth", "samples", None}
        What must be there of the test part: bags with their true prevalences, bags alone (whose
        ``prevalences`` are NaN), or nothing (``test`` has no bag, and the archive for training and
        development is enough).

    Raises
    ------
    FileNotFoundError
        Names what is missing and where to download it.
    ValueError
        Names the file and line that do not fit.
    """
    facts = find_task(task)
    if test not in ("truth", "samples", None):
        raise ValueError(f"test must be 'truth', 'samples' or None, got {test!r}")
    entry, directories = find(task), roots(data_dir)
    files = Tree(containers(entry, directories), f"{task}/public/")
    _check_presence(files, facts, entry, directories, test)
    train, training_bags, features = _training(files, facts)
    classes = np.unique(train.y)
    names = _class_names(files, classes)
    if test == "truth":
        shares = _prevalences(files, "test", classes)
    else:
        n_test = _count_samples(files, "test_samples/") if test else 0
        shares = np.full((n_test, len(classes)), np.nan)
    validation, test_bags = (
        BagFiles(files, f"{part}_samples/{{}}.txt", prevalences, features, facts.documents)
        for part, prevalences in (("dev", _prevalences(files, "dev", classes)), ("test", shares))
    )
    counts = f"{len(validation)} development and {len(test_bags)} test bags"
    return Bagged(
        task,
        train,
        validation,
        test_bags,
        classes,
        f"{facts.title}, {entry.page}",
        (f"{counts} as given; not scaled",),
        training_bags,
        names,
    )


def _check_presence(
    files: Tree, facts: LequaTask, entry: Entry, directories: Roots, test: TestPart
) -> None:
    """Raise FileNotFoundError for the first archive that is needed and not there."""
    training = "training_data.txt" if facts.training == "instances" else "training_samples/0.txt"
    n_needed = {None: 1, "samples": 2, "truth": 3}[test]
    for file, sign in list(zip(entry.files, _SIGNS, strict=True))[:n_needed]:
        if sign.format(training=training) not in files.places:
            message = missing(entry, file, directories)
            if file.role != "train":
                without = "'samples' or None" if file.role == "prevalences" else "None"
                message += (
                    f" Without it: load_lequa({facts.name!r}, test={without}); the development "
                    f"bags alone: kdey lequa submit {facts.name} FILE --part dev."
                )
            raise FileNotFoundError(message)


def containers(entry: Entry, directories: Roots) -> list[Path]:
    """Return the directories and archives that hold files of a task."""
    paths: list[Path] = []
    for directory in directories.values():
        for folder in (directory / find_task(entry.name).folder, directory):
            if (folder / entry.name / "public").is_dir():
                paths.append(folder)
            paths += [path for file in entry.files if (path := _archive(folder, file)).is_file()]
    return paths


def _archive(folder: Path, file: DataFile) -> Path:
    return folder / file.path.rpartition("/")[2]


def _training(files: Tree, facts: LequaTask) -> tuple[Part, IndexBags | None, tuple[str, ...]]:
    """Return the training data, the samples that they consist of, and the names of features."""
    if facts.training == "samples":
        return _training_samples(files, facts)
    with files.open() as read:
        content = read("training_data.txt")
    return _labelled(content, files.where("training_data.txt"), facts), None, _features(content)


def _labelled(content: bytes, where: str, facts: LequaTask) -> Part:
    read = read_labelled_documents if facts.documents else read_labelled_numbers
    return Part(*read(content, where))


def _features(content: bytes) -> tuple[str, ...]:
    """Return the names of the columns after the label."""
    return tuple(read_header(content)[1:])


def _training_samples(files: Tree, facts: LequaTask) -> tuple[Part, IndexBags, tuple[str, ...]]:
    folder = "training_samples/"
    n_samples = _count_samples(files, folder)
    parts, headers = [], []
    with files.open() as read:
        for number in range(n_samples):
            content, where = read(f"{folder}{number}.txt"), files.where(f"{folder}{number}.txt")
            parts.append(_labelled(content, where, facts))
            headers.append(_features(content))
            if headers[-1] != headers[0]:
                raise ValueError(
                    f"{where}, line 1: the features are not those of {folder}0.txt, in their order"
                )
    train = Part(
        np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts])
    )
    sizes = np.array([len(part) for part in parts])
    bags = Bags(np.arange(len(train), dtype=np.int64), offsets_of(sizes), len(train))
    classes = np.unique(train.y)
    shares = np.stack([(part.y[:, None] == classes).mean(axis=0) for part in parts])
    _check_training_prevalences(files, classes, shares)
    return train, IndexBags(train, bags, shares), headers[0]


def _check_training_prevalences(files: Tree, classes: NDArray[np.int64], shares: Array) -> None:
    """Raise ValueError if the file of prevalences, where there is one, is not what is counted."""
    name = "training_prevalences.txt"
    if name not in files.places:
        return
    with files.open() as read:
        stated = read_prevalences(read(name), files.where(name), classes)
    if len(stated) != len(shares):
        raise ValueError(
            f"{files.where(name)}: {len(stated)} lines, but {len(shares)} training samples"
        )
    off = np.abs(stated - shares).max(axis=1) > SUM_TOLERANCE
    if off.any():
        raise ValueError(
            f"{files.where(name)}: the prevalences of sample {int(np.argmax(off))} are not those "
            "of its labels"
        )


def _class_names(files: Tree, classes: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the names of the classes; empty if there is no file of them."""
    name = "label_map.txt"
    if name not in files.places:
        return ()
    with files.open() as read:
        names = read_label_map(read(name), files.where(name))
    if classes.tolist() != list(range(len(names))):
        raise ValueError(
            f"{files.where(name)}: {len(names)} classes, but the training data have the labels "
            f"{', '.join(map(str, classes.tolist()))}"
        )
    return names


def _count_samples(files: Tree, folder: str) -> int:
    """Return the number of samples in a folder; ValueError unless they are 0.txt, 1.txt, ..."""
    present = {path.removeprefix(folder) for path in files.places if path.startswith(folder)}
    unexpected = present - {f"{number}.txt" for number in range(len(present))}
    if unexpected:
        raise ValueError(
            f"{folder}: samples must be numbered 0..{len(present) - 1}, each once, but there is "
            f"{min(unexpected)}"
        )
    return len(present)


def _prevalences(files: Tree, part: str, classes: NDArray[np.int64]) -> Array:
    """Return the prevalences of the bags of "dev" or "test", one line for each bag."""
    name, folder = f"{part}_prevalences.txt", f"{part}_samples/"
    with files.open() as read:
        prevalences = read_prevalences(read(name), files.where(name), classes)
    present = {path.removeprefix(folder) for path in files.places if path.startswith(folder)}
    listed = {f"{number}.txt" for number in range(len(prevalences))}
    if present != listed:
        first = min(present ^ listed)
        fault = "has no line" if first in present else "is not there"
        raise ValueError(
            f"{files.where(name)}: {len(prevalences)} lines, but {len(present)} bags in "
            f"{folder}; {folder}{first} {fault}"
        )
    return prevalences


@dataclass(frozen=True, eq=False)
class BagFiles:
    """Bags in one file each.

    Attributes
    ----------
    files : Tree
    pattern : str
        Name of a bag's file, ``"dev_samples/{}.txt"``.
    prevalences : float64 array of shape (n_bags, k)
        NaN if they are not known.
    features : tuple of str
        Names of the features in the training data. A bag that has another number of them, or the
        same names in another order, is refused.
    documents : bool
        Whether instances are texts.
    """

    files: Tree
    pattern: str
    prevalences: Array
    features: tuple[str, ...]
    documents: bool = False

    @property
    def shares_pool(self) -> bool:
        """Each bag has its own instances."""
        return False

    @property
    def has_truth(self) -> bool:
        """Whether the true prevalences are known."""
        return not bool(np.isnan(self.prevalences).any())

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.prevalences)

    def bag(self, number: int) -> NDArray[Any]:
        """Return the features of one bag, shape (bag_size, d), or its texts, (bag_size,)."""
        check_number(number, len(self))
        with self.files.open() as read:
            return self._read(read, number)

    def __iter__(self) -> Iterator[NDArray[Any]]:
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
        if not self.has_truth:
            raise ValueError(
                "the true prevalences of these bags are not known: iterate over the bags instead"
            )
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

    def _read(self, read: Reader, number: int) -> NDArray[Any]:
        name = self.pattern.format(number)
        content, where = read(name), self.files.where(name)
        if self.documents:
            return read_documents(content, where)
        rows = read_numbers(content, where, len(self.features))
        columns = read_header(content)
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


class Tree:
    """Files by their names below a folder (``"T1B/public/"``) of any of some containers.

    Parameters
    ----------
    containers : directories and zip files; the first one that has a file counts
    below : str
        The path in front of the names, with a final slash.

    Attributes
    ----------
    places : dict from name to (container, member)
        The container is a directory or a zip file.
    """

    def __init__(self, containers: Sequence[Path], below: str) -> None:
        self.places: dict[str, tuple[Path, str]] = {}
        for container in containers:
            for member in _members(container, below):
                self.places.setdefault(member.removeprefix(below), (container, member))

    def where(self, name: str) -> str:
        """Return what to call a file in messages."""
        if name not in self.places:
            return name
        container, member = self.places[name]
        return f"{container}:{member}" if container.suffix == ".zip" else str(container / member)

    @contextmanager
    def open(self) -> Iterator[Reader]:
        """Give a function that reads whole files; archives stay open in between."""
        with ExitStack() as stack:
            archives: dict[Path, ZipFile] = {}

            def read(name: str) -> bytes:
                if name not in self.places:
                    looked_in = sorted({str(place) for place, _ in self.places.values()})
                    raise FileNotFoundError(f"{name} was not found in {', '.join(looked_in)}")
                container, member = self.places[name]
                if container.suffix != ".zip":
                    return (container / member).read_bytes()
                if container not in archives:
                    archives[container] = stack.enter_context(ZipFile(container))
                try:
                    return archives[container].read(member)
                except (BadZipFile, ZlibError, EOFError) as error:
                    raise ValueError(
                        f"{self.where(name)}: damaged ({error}); get it again"
                    ) from error

            yield read


def _members(container: Path, below: str) -> list[str]:
    if container.suffix == ".zip":
        try:
            with ZipFile(container) as archive:
                members = archive.namelist()
        except BadZipFile as error:
            raise ValueError(
                f"{container}: not a whole zip file ({error}); get it again"
            ) from error
        return [name for name in members if name.startswith(below) and not name.endswith("/")]
    paths = (path for path in (container / below).rglob("*") if path.is_file())
    return sorted(path.relative_to(container).as_posix() for path in paths)


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
    return numbers_in(lines[1:], where, range(1, width + 1), range(width))


def read_header(data: bytes) -> list[str]:
    """Return the cells of the first line of a file that has been read."""
    return [cell.strip().strip('"') for cell in data.splitlines()[0].decode("ascii").split(",")]


def read_prevalences(data: bytes, where: str, classes: NDArray[np.int64]) -> Array:
    """Return prevalences, shape (n_bags, k), in the order of the bags' numbers.

    Parameters
    ----------
    data : bytes
        Number of the bag in a column ``id``, then one column per class, named after the classes
        in their order.
    where : str
        Name of the file, for messages.
    classes : int64 array of shape (k,)
    """
    rows = read_numbers(data, where, len(classes) + 1)
    first, *names = read_header(data)
    expected = [str(label) for label in classes.tolist()]
    if first != "id":
        raise ValueError(f"{where}, line 1: the first column is {first!r}, expected 'id'")
    if names != expected:
        raise ValueError(
            f"{where}, line 1: the columns after the first are {', '.join(names)}, expected the "
            f"classes of the training data in their order: {', '.join(expected)}"
        )
    numbers, prevalences = rows[:, 0], rows[:, 1:]
    _refuse(
        (prevalences < 0).any(axis=1)
        | (prevalences > 1).any(axis=1)
        | (np.abs(prevalences.sum(axis=1) - 1) > SUM_TOLERANCE),
        where,
        "the prevalences are negative, above one or do not sum to one",
    )
    order = np.argsort(numbers, kind="stable")
    out = np.zeros(len(rows), dtype=bool)
    out[order] = numbers[order] != np.arange(len(rows))
    if out.any():
        absent = sorted(set(range(len(rows))) - set(numbers.tolist()))
        raise ValueError(
            f"{where}, line {int(np.argmax(out)) + 2}: bags must be numbered 0..{len(rows) - 1}, "
            f"each once, but bag {absent[0]} is not there"
        )
    return np.ascontiguousarray(prevalences[order])


def read_labelled_numbers(data: bytes, where: str) -> tuple[Array, Indices]:
    """Return features (n, d) and labels (n,) of a file whose first column is ``label``."""
    _check_label_column(read_header(data) if data.strip() else [], where)
    rows = read_numbers(data, where)
    labels = rows[:, 0]
    _refuse(
        labels != np.floor(labels), where, f"the label (column {LABEL!r}) is not a whole number"
    )
    return np.ascontiguousarray(rows[:, 1:]), labels.astype(np.int64)


def read_documents(data: bytes, where: str) -> NDArray[Any]:
    """Return the documents of a file, an object array of texts, shape (n,)."""
    return _texts(_records(data, where, [TEXT]), 0)


def read_labelled_documents(data: bytes, where: str) -> tuple[NDArray[Any], Indices]:
    """Return the documents (n,) and labels (n,) of a file with columns ``label`` and ``text``."""
    records = _records(data, where, [LABEL, TEXT])
    bad = np.array([not record[0].strip().isdigit() for record in records])
    if bad.any():
        number = int(np.argmax(bad))
        raise ValueError(
            f"{where}, document {number + 1}: the label {records[number][0]!r} is no whole number"
        )
    return _texts(records, 1), np.array([int(record[0]) for record in records], dtype=np.int64)


def _records(data: bytes, where: str, columns: list[str]) -> list[list[str]]:
    """Return the cells of all records; documents may hold commas, quotes and line breaks."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not a text file ({error})") from error
    try:
        header, *records = list(csv.reader(io.StringIO(text, newline=""), strict=True)) or [[]]
    except csv.Error as error:
        raise ValueError(f"{where}: {error}") from error
    if header != columns:
        raise ValueError(
            f"{where}, line 1: the columns are {', '.join(header)}, expected {', '.join(columns)}"
        )
    records = [record for record in records if record]
    if not records:
        raise ValueError(f"{where}: a header and at least one document are needed")
    for number, record in enumerate(records, start=1):
        if len(record) != len(columns):
            raise ValueError(
                f"{where}, document {number}: {len(record)} columns, expected {len(columns)}"
            )
    return records


def _texts(records: list[list[str]], column: int) -> NDArray[Any]:
    texts = np.empty(len(records), dtype=object)
    texts[:] = [record[column] for record in records]
    return texts


def read_label_map(data: bytes, where: str) -> tuple[str, ...]:
    """Return the names of classes 0, 1, ... of a file with a name and a number in each line."""
    names: dict[int, str] = {}
    lines = [line for line in data.decode("utf-8").splitlines() if line.strip()]
    for number, line in enumerate(lines, start=1):
        name, _, code = line.strip().rpartition(" ")
        if not name.strip() or not code.isdigit() or int(code) in names:
            raise ValueError(f"{where}, line {number}: {line!r} is not a name and a new number")
        names[int(code)] = name.strip()
    if sorted(names) != list(range(len(lines))):
        raise ValueError(f"{where}: classes must be numbered 0..{len(lines) - 1}, each once")
    return tuple(names[code] for code in range(len(lines)))


def _check_label_column(header: list[str], where: str) -> None:
    if header[:1] != [LABEL]:
        found = repr(header[0]) if header else "missing"
        raise ValueError(f"{where}, line 1: the first column is {found}, expected {LABEL!r}")


def _refuse(bad: NDArray[np.bool_], where: str, why: str) -> None:
    if bad.any():
        raise ValueError(f"{where}, line {int(np.argmax(bad)) + 2}: {why}")
