"""``load_dataset``: from a name to labelled instances, or to a training set with given bags.

:class:`Dataset` is cut into training, validation and test parts by :meth:`Dataset.split`.
:class:`Bagged` comes with bags whose prevalences are known, as the LeQua tasks do. Columns of words
become indicators, and classes too rare to be split are left out.

Numbers are read in one pass of NumPy; only when that fails are they read cell by cell, to name the
line and column that is wrong. :func:`load_beans` reads the one table that comes with kdey:
``beans.md`` beside this file says where it is from, its licence, and what was drawn.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from kdey.bags import Bags
from kdey.datasets.registry import (
    DataFile,
    Entry,
    PathLike,
    Roots,
    find,
    locate,
    require,
    roots,
    sha256,
)
from kdey.evaluation.protocols import GivenBags

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
Labels = NDArray[Any]
Indices = NDArray[np.int64]
Scaling = Literal["standard", "tfidf"] | None
#: Features (m, d) to what is kept of them, (m, r), such as posteriors.
Transform: TypeAlias = Callable[[Array], Any]

#: Columns at the right end that are not features.
_SPECIAL = ("split", "label")
_TRAIN_OF_ALL, _TRAIN_OF_DEVELOPMENT = 0.7, 0.6


@dataclass(frozen=True, eq=False)
class Part:
    """Labelled instances: features X (n, d), dense float64 or CSR, and labels y (n,)."""

    X: Any
    y: Labels

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Split:
    """The three parts of a data set.

    Attributes
    ----------
    train, validation, test : Part
    classes : array of shape (k,)
        All classes, sorted.
    notes : tuple of str
        All preprocessing, that of the data set included.
    """

    train: Part
    validation: Part
    test: Part
    classes: Labels
    notes: tuple[str, ...]

    @property
    def development(self) -> Part:
        """The training and the validation part, one above the other."""
        both: Any = [self.train.X, self.validation.X]
        X = sp.vstack(both, format="csr") if sp.issparse(self.train.X) else np.vstack(both)
        return Part(X, np.concatenate([self.train.y, self.validation.y]))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled instances and where they come from.

    Attributes
    ----------
    name : str
        For tables: the paper's name where the paper has the set.
    group : str
    X : float64 array or CSR array of shape (n, d)
        Not scaled; scaling depends on the split and happens in :meth:`split`.
    y : array of shape (n,)
        Integers or text.
    classes : array of shape (k,)
        Sorted.
    source : str
        One sentence: where the data come from.
    notes : tuple of str
        Preprocessing applied so far.
    scaling : {"standard", "tfidf", None}
        What :meth:`split` fits on the development part and applies to all parts.
    parts : array of str of shape (n,) or None
        The part each row belongs to, where the source says so: "train", "validation" or "test".
    """

    name: str
    group: str
    X: Any
    y: Labels
    classes: Labels
    source: str
    notes: tuple[str, ...] = ()
    scaling: Scaling = None
    parts: NDArray[np.str_] | None = field(default=None, repr=False)

    def split(self, seed: int = 0) -> Split:
        """Return training, validation and test parts.

        70 % of the rows, stratified, are for development (random state ``seed``); 60 % of these,
        stratified, for training (random state ``seed + 1``), the others for validation. Seed 0 is
        the paper's split. Parts that the source defines stay as they are; where it defines no
        validation part, 40 % of the training rows become one.

        Parameters
        ----------
        seed : int
        """
        train, validation, test, note = self._split_rows(seed)
        development = np.concatenate([train, validation])
        X, scaled = scale(self.X, development, self.scaling)
        parts = [Part(X[rows], self.y[rows]) for rows in (train, validation, test)]
        return Split(parts[0], parts[1], parts[2], self.classes, (*self.notes, note, *scaled))

    def _split_rows(self, seed: int) -> tuple[Indices, Indices, Indices, str]:
        rows = np.arange(len(self.y))
        if self.parts is None:
            development, test = self._stratified(rows, _TRAIN_OF_ALL, seed)
            train, validation = self._stratified(development, _TRAIN_OF_DEVELOPMENT, seed + 1)
            return train, validation, test, f"70/30 and 60/40 stratified split, seed {seed}"
        train, validation, test = (
            np.flatnonzero(self.parts == part) for part in ("train", "validation", "test")
        )
        if len(validation):
            return train, validation, test, "parts as the source defines them"
        train, validation = self._stratified(train, _TRAIN_OF_DEVELOPMENT, seed + 1)
        note = f"test part of the source; 40 % of its training part for validation, seed {seed}"
        return train, validation, test, note

    def _stratified(self, rows: Indices, share: float, seed: int) -> tuple[Indices, Indices]:
        first, second = train_test_split(
            rows, train_size=share, stratify=self.y[rows], random_state=seed
        )
        return first, second


def scale(X: Any, fit_rows: NDArray[np.int64], scaling: Scaling) -> tuple[Any, tuple[str, ...]]:
    """Return scaled features and notes on what was done.

    Parameters
    ----------
    X : array or CSR array of shape (n, d)
    fit_rows : int64 array
        Rows of the development part.
    scaling : {"standard", "tfidf", None}
        "standard": each column to mean 0 and variance 1. "tfidf": sublinear counts times inverse
        document frequency, rows of length 1.
    """
    if scaling == "standard":
        scaled = StandardScaler().fit(X[fit_rows]).transform(X)
        return scaled, ("columns standardised on the development part",)
    if scaling == "tfidf":
        from sklearn.feature_extraction.text import TfidfTransformer

        scaled = TfidfTransformer(sublinear_tf=True).fit(X[fit_rows]).transform(X)
        return scaled.tocsr(), ("sublinear TF-IDF fitted on the development part",)
    return X, ("features as they are, not scaled",)


class Pool(NamedTuple):
    """Instances of all bags, one above the other, and the bags as positions in them.

    Attributes
    ----------
    X : array of shape (pool_size, d)
        Features, or what a transform made of them.
    protocol : GivenBags
        ``protocol.bags(classes=...)`` gives the bags with their true prevalences.
    """

    X: Any
    protocol: GivenBags


class BagSource(Protocol):
    """Given bags, from files or from memory."""

    @property
    def prevalences(self) -> Array:
        """True prevalences, shape (n_bags, k)."""
        ...

    @property
    def shares_pool(self) -> bool:
        """Whether the bags are positions in one pool; otherwise each has its own instances."""
        ...

    def __len__(self) -> int:
        """Return the number of bags."""
        ...

    def bag(self, number: int) -> Array:
        """Return the features of one bag, shape (bag_size, d)."""
        ...

    def __iter__(self) -> Iterator[Array]:
        """Iterate over the features of the bags; one is in memory at a time."""
        ...

    def pool(self, transform: Transform | None = None, n_bags: int | None = None) -> Pool:
        """Return the (first ``n_bags``) bags as one pool, transformed as they are read."""
        ...


@dataclass(frozen=True, eq=False)
class IndexBags:
    """Bags that are positions in one labelled pool, held in memory.

    Attributes
    ----------
    instances : Part
        The pool.
    bags : Bags
    prevalences : float64 array of shape (n_bags, k)
    """

    instances: Part
    bags: Bags
    prevalences: Array

    @property
    def shares_pool(self) -> bool:
        """Bags are positions in one pool."""
        return True

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.bags)

    def bag(self, number: int) -> Array:
        """Return the features of one bag, shape (bag_size, d)."""
        check_number(number, len(self))
        part = slice(self.bags.offsets[number], self.bags.offsets[number + 1])
        return np.asarray(self.instances.X[self.bags.indices[part]])

    def __iter__(self) -> Iterator[Array]:
        """Iterate over the features of the bags."""
        for positions in self.bags:
            yield np.asarray(self.instances.X[positions])

    def pool(self, transform: Transform | None = None, n_bags: int | None = None) -> Pool:
        """Return the pool, transformed once, and the (first ``n_bags``) bags over it."""
        count = check_n_bags(n_bags, len(self))
        X = self.instances.X if transform is None else transform(self.instances.X)
        return Pool(X, GivenBags(self.bags[:count], self.prevalences[:count]))


@dataclass(frozen=True, eq=False)
class Bagged:
    """A training set and given bags for validation and test.

    Attributes
    ----------
    name : str
    train : Part
    validation, test : BagSource
    classes : array of shape (k,)
        In the order of the columns of the prevalences.
    source : str
        One sentence: where the data come from.
    notes : tuple of str
    training_bags : IndexBags or None
        The samples that the training set consists of; None if it is one set.
    class_names : tuple of str
        In the order of ``classes``; empty if they have no names.
    """

    name: str
    train: Part
    validation: BagSource
    test: BagSource
    classes: NDArray[Any]
    source: str
    notes: tuple[str, ...] = ()
    training_bags: IndexBags | None = None
    class_names: tuple[str, ...] = ()


def check_number(number: int, n_bags: int) -> None:
    """Raise where there is no bag of this number."""
    if not 0 <= number < n_bags:
        raise IndexError(f"number must be in 0..{n_bags - 1}, got {number}")


def check_n_bags(n_bags: int | None, available: int) -> int:
    """Return the number of bags asked for, by default all of them."""
    count = available if n_bags is None else n_bags
    if not 1 <= count <= available:
        raise ValueError(f"n_bags must be in 1..{available}, got {n_bags}")
    return count


#: A class with fewer rows cannot be in all three parts of a stratified split.
SMALLEST_CLASS = 4
_SCALING: dict[str, Scaling] = {"text": None, "tweets": None, "tweets-approx": "tfidf"}
#: scikit-learn corrected two rows of iris; the UCI file has them as first typed.
_IRIS_NOTE = "iris as in scikit-learn: rows 35 and 38 as Fisher printed them, not as UCI has them"
_LOADERS = {
    "digits-subset": "load_digits",
    "iris": "load_iris",
    "wine": "load_wine",
    "wdbc": "load_breast_cancer",
}


def load_dataset(name: str, data_dir: PathLike | None = None) -> Dataset:
    """Return a data set of the registry.

    Classes too small to be split (fewer than 4 rows) are left out, with a note, but for sets whose
    parts the source defines.

    Parameters
    ----------
    name : str
        "letter" or "uci-multi/letter"; a bare name that two groups share is refused.
    data_dir : path, optional
        Where the files lie. By default ``$KDEY_DATA``, then the cache of
        ``python -m experiments data fetch``, then what scikit-learn brings along.

    Raises
    ------
    FileNotFoundError
        Names the file, its official home, and what to do.
    ValueError
        Names the file, line and column that cannot be read.
    """
    entry = find(name)
    if entry.is_lequa:
        raise ValueError(
            f"name: {name!r} is a set of bags, load it with load_lequa({entry.name!r})"
        )
    directories = roots(data_dir)
    if entry.bundled and (not entry.files or locate(entry.files[0], directories) is None):
        X, y, source, notes = load_bundled(entry)
        return _dataset(entry, X, y, source, notes)
    if entry.group.startswith("tweets"):
        return _load_parts(entry, directories)
    return _load_table(entry, directories)


def _load_table(entry: Entry, directories: Roots) -> Dataset:
    label, path = require(entry, entry.files[0], directories)
    X, labels, split, notes = read_table(path, entry.categorical)
    source = f"{entry.page}, {_copy_description(entry.files[0], label, path, directories)}"
    parts = split if entry.group == "text" else None
    if split is not None and parts is None:
        notes = (*notes, "the train/test split of the source is not used")
    return _dataset(entry, X, labels, source, notes, parts)


def _load_parts(entry: Entry, directories: Roots) -> Dataset:
    """Return a set with one file per part; the validation part may be missing."""
    parts, roles, copies = [], [], []
    for file in entry.files:
        location = locate(file, directories)
        if location is None and file.role == "validation":
            continue
        label, path = location or require(entry, file, directories)
        parts.append(read_sparse(path))
        roles.append(np.full(len(parts[-1][1]), file.role))
        copies.append(_copy_description(file, label, path, directories))
    width = max(X.shape[1] for X, _ in parts)
    widened = [
        sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width)) for X, _ in parts
    ]
    X = sp.vstack(widened, format="csr")
    y = np.concatenate([y for _, y in parts])
    source = f"{entry.page}; {', '.join(copies)}"
    return _dataset(entry, X, y, source, (), np.concatenate(roles))


def _copy_description(file: DataFile, label: str, path: Path, directories: Roots) -> str:
    """Return which copy of a file was read, without the path of the directory."""
    checksum = sha256(path)
    known = " (the known copy)" if checksum == file.sha256 else ""
    place = path.relative_to(directories[label]).as_posix()
    return f"{place} from {label}, sha256 {checksum[:12]}{known}"


def _dataset(
    entry: Entry,
    X: Any,
    y: Any,
    source: str,
    notes: tuple[str, ...],
    parts: Any = None,
) -> Dataset:
    if parts is None:
        keep, rare = frequent_rows(y, entry.full_name)
        X, y, notes = X[keep], y[keep], (*notes, *rare)
    scaling = _SCALING.get(entry.group, "standard")
    return Dataset(entry.title, entry.group, X, y, np.unique(y), source, notes, scaling, parts)


def frequent_rows(labels: NDArray[Any], where: str) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Return which rows belong to a class of ``SMALLEST_CLASS`` rows or more, and notes.

    Parameters
    ----------
    labels : array of shape (n,)
    where : str
        Named in the error where fewer than two classes are left.
    """
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    rare = counts < SMALLEST_CLASS
    if (~rare).sum() < 2:
        raise ValueError(
            f"{where}: {(~rare).sum()} classes have {SMALLEST_CLASS} rows or more, two are needed"
        )
    if not rare.any():
        return np.ones(len(labels), dtype=bool), ()
    listed = ", ".join(f"{name} ({n})" for name, n in zip(classes[rare], counts[rare], strict=True))
    note = f"{rare.sum()} classes of fewer than {SMALLEST_CLASS} rows left out: {listed}"
    return ~rare[codes], (note,)


def load_bundled(entry: Entry) -> tuple[Any, NDArray[Any], str, tuple[str, ...]]:
    """Return features (n, d), labels (n,), the source in a sentence, and notes.

    A binary set made from one class, such as "wine.2", has label 1 for it and 0 for the others.
    The label 1 of wdbc is malignant, as in the paper.
    """
    from sklearn import datasets  # slow to import, and not needed to read files

    base, _, number = entry.name.partition(".")
    X, y = getattr(datasets, _LOADERS[base])(return_X_y=True)
    notes: tuple[str, ...] = (_IRIS_NOTE,) if base == "iris" else ()
    if number:
        y = (y == int(number) - 1).astype(np.int64)
        notes = (*notes, f"label 1 for class {number}, 0 for the others")
    if base == "wdbc":
        y = 1 - y
        notes = ("label 1 for malignant",)
    return np.asarray(X, dtype=np.float64), y, f"scikit-learn's {_LOADERS[base]}", notes


def read_table(
    path: Path, categorical: Sequence[str] = ()
) -> tuple[Array, NDArray[Any], NDArray[np.str_] | None, tuple[str, ...]]:
    """Return the features, labels and parts of a CSV table, and notes.

    Parameters
    ----------
    path : Path
        A header line, then one line per instance: features, part (where the source has parts) and
        label.
    categorical : sequence of str
        Columns that hold words. One with v distinct words becomes v - 1 indicators, of all but the
        first in sorted order, which take its place among the numeric columns.

    Returns
    -------
    X : float64 array of shape (n, d)
    labels : array of shape (n,)
        Integers where every label is one, else text.
    parts : array of str of shape (n,) or None
        "train" or "test", where the source assigns each row to one.
    notes : tuple of str

    Raises
    ------
    ValueError
        Names the file and, where possible, the line and the column.
    """
    lines = read_lines(path)
    header = _header(path, lines)
    d = len(header) - (2 if "split" in header else 1)
    unknown = set(categorical) - set(header[:d])
    if unknown:
        raise ValueError(f"{path}, line 1: there is no column {min(unknown)!r}")
    is_text = [j >= d or name in categorical for j, name in enumerate(header)]
    texts = dict(
        zip(
            (name for name, kept in zip(header, is_text, strict=True) if kept),
            zip(*(compress(row, is_text) for row in _rows(path, lines, len(header))), strict=True),
            strict=True,
        )
    )
    numeric = [j for j in range(d) if not is_text[j]]
    numbers = read_numbers(lines[1:], str(path), header, numeric)
    labels = _labels(path, [text.strip() for text in texts["label"]])
    split = _split(path, [text.strip() for text in texts["split"]]) if "split" in texts else None
    if not categorical:
        return numbers, labels, split, ()
    blocks = []
    for j, name in enumerate(header[:d]):
        if is_text[j]:
            distinct, codes = np.unique(np.array(texts[name]), return_inverse=True)
            blocks.append(np.eye(len(distinct))[codes][:, 1:])
        else:
            blocks.append(numbers[:, [numeric.index(j)]])
    note = f"one-hot without the first value: {', '.join(categorical)}"
    return np.hstack(blocks), labels, split, (note,)


def _header(path: Path, lines: list[str]) -> list[str]:
    if not lines:
        raise ValueError(f"{path}: the file is empty")
    header = [name.strip() for name in next(_cells(path, lines[:1]))] or [""]
    if header[-1] != "label":
        raise ValueError(
            f"{path}, line 1: the last column must be called label, it is {header[-1]!r}"
        )
    twice = {name for name in header if header.count(name) > 1}
    if twice:
        raise ValueError(f"{path}, line 1: column {min(twice)!r} comes twice")
    if "split" in header and header.index("split") != len(header) - 2:
        raise ValueError(f"{path}, line 1: the column split must stand before label")
    if set(header) <= set(_SPECIAL):
        raise ValueError(f"{path}, line 1: there is no feature column")
    if len(lines) == 1:
        raise ValueError(f"{path}: there is a header but no row")
    return header


def _rows(path: Path, lines: Iterable[str], width: int) -> Iterator[list[str]]:
    """Iterate over the cells of each row after the header, which has this width."""
    for number, row in enumerate(_cells(path, lines), start=1):
        if len(row) != width:
            raise ValueError(f"{path}, line {number}: {len(row)} cells, the header has {width}")
        if number > 1:
            yield row


def _cells(path: Path, lines: Iterable[str]) -> Iterator[list[str]]:
    reader = csv.reader(lines)
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: not CSV ({error})") from error


def read_numbers(
    lines: list[str], where: str, names: Sequence[object], columns: Sequence[int]
) -> Array:
    """Return some columns of lines of CSV, shape (n, len(columns)); all must be finite numbers.

    Parameters
    ----------
    lines : lines after the header
    where : str
        Name of the file, for messages.
    names : what messages call each column
    columns : positions of the columns to read
    """
    if not columns:
        return np.empty((len(lines), 0))
    try:
        numbers = np.loadtxt(
            lines, delimiter=",", usecols=columns, ndmin=2, comments=None, quotechar='"'
        )
        if np.isfinite(numbers).all() and len(numbers) == len(lines):
            return numbers
    except ValueError:  # which does not say where
        pass
    rows = [[row[j] for j in columns] for row in csv.reader(lines)]
    for line, row in enumerate(rows, start=2):
        for j, cell in zip(columns, row, strict=True):
            if not is_finite(cell):
                raise ValueError(
                    f"{where}, line {line}, column {names[j]!r}: {cell!r} is not a finite number"
                )
    return np.array(rows, dtype=np.float64)


def is_finite(cell: str) -> bool:
    """Return whether a cell spells a finite number."""
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _labels(path: Path, texts: list[str]) -> NDArray[Any]:
    if "" in texts:
        raise ValueError(f"{path}, line {texts.index('') + 2}, column 'label': the label is empty")
    numeric = all(_is_integer(label) for label in set(texts))
    return np.array([int(label) for label in texts]) if numeric else np.array(texts)


def _is_integer(label: str) -> bool:
    digits = label.removeprefix("-")
    # Nineteen digits and more need not fit into an integer: they are names.
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(label)) == label


def _split(path: Path, texts: list[str]) -> NDArray[np.str_]:
    for number, part in enumerate(texts):
        if part not in ("train", "test"):
            raise ValueError(
                f"{path}, line {number + 2}, column 'split': {part!r} is neither train nor test"
            )
    return np.array(texts)


def read_sparse(path: Path) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Read ``label column:value column:value ...``, columns counted from 1.

    Returns
    -------
    X : CSR array of shape (n, d), d the largest column of the file
    y : int64 array of shape (n,)

    Raises
    ------
    ValueError
        Names the file, the line and the cell.
    """
    labels, ends, columns, values = [], [0], [], []
    for number, line in enumerate(read_lines(path), start=1):
        label, *cells = line.partition("#")[0].split() or [""]
        if not label:
            continue
        if not (label.removeprefix("-").removeprefix("+").isdecimal() and len(label) < 19):
            raise ValueError(f"{path}, line {number}: the label {label!r} is not an integer")
        labels.append(int(label))
        for cell in cells:
            column, _, value = cell.partition(":")
            if not (column.isdecimal() and 0 < int(column[:10]) < 2**31 and is_finite(value)):
                raise ValueError(
                    f"{path}, line {number}: {cell!r} is not of the form column:value (columns "
                    "from 1)"
                )
            columns.append(int(column) - 1)
            values.append(float(value))
        ends.append(len(columns))
    if not labels:
        raise ValueError(f"{path}: the file is empty")
    shape = (len(labels), max(columns, default=-1) + 1)
    X = sp.csr_array((values, columns, ends), shape, dtype=np.float64)
    X.sort_indices()
    return X, np.array(labels, dtype=np.int64)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 text file; ``.gz`` is unpacked.

    Raises
    ------
    ValueError
        Where the file is no text, or its compression is broken or cut short.
    """
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a whole gzip file ({error}); get it again") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text ({error})") from error
    # splitlines() would also break lines at form feeds and other odd characters inside cells.
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def bean_rows() -> list[dict[str, str]]:
    """Return all beans, a dictionary of texts for each; those without a supplier are labelled."""
    packed = (files("kdey.datasets") / "beans.csv.gz").read_bytes()
    return list(csv.DictReader(io.StringIO(gzip.decompress(packed).decode())))


def load_beans() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return dry beans: labelled ones, new ones by supplier and day, and what is known of these.

    A camera sees the area and the perimeter of a bean. Of 1,200 beans the variety is known. What
    share of each variety is in the deliveries of three suppliers over twelve weeks? Beans and
    measurements are real (Koklu and Ozkan 2020, UCI 602, CC BY 4.0); suppliers, days and the
    shares in each delivery were chosen. In August the hill sends more sira, and the port sends a
    variety of which no bean is labelled. It needs pandas.

    Returns
    -------
    labelled : DataFrame
        1,200 beans with ``area``, ``perimeter`` and ``variety``, five of them.
    new : DataFrame
        3,600 beans with ``supplier``, ``day``, ``area`` and ``perimeter``.
    known : DataFrame
        For each row of ``new``: the true ``variety``; ``sieve`` and ``camera``, what two judges
        take it for; and ``expert``, the variety of 300 beans drawn at random, otherwise missing.

    See Also
    --------
    kdey.predict_groups : The shares of each supplier.
    kdey.audit : What the labels of a judge are worth.

    Examples
    --------
    >>> from kdey import Quantifier
    >>> from kdey.datasets import load_beans
    >>> labelled, new, known = load_beans()
    >>> q = Quantifier(["extra trees"], effort="low", random_state=0)
    >>> q = q.fit(labelled[["area", "perimeter"]], labelled["variety"])
    >>> lake = new["supplier"] == "lake"
    >>> float(q.predict(new[lake])[3].round(1))  # seker
    0.8
    >>> float((known["sieve"][lake] == "seker").mean().round(1))  # by size alone
    0.4
    """
    import pandas as pd

    table = pd.DataFrame(bean_rows())
    table = table.astype({"area": int, "perimeter": float})
    new = table["supplier"] != ""
    labelled = table.loc[~new, ["area", "perimeter", "variety"]].reset_index(drop=True)
    rest = table[new].reset_index(drop=True)
    known = rest[["variety", "sieve", "camera", "expert"]].assign(
        expert=rest["expert"].where(rest["expert"] != "")
    )
    return labelled, rest[["supplier", "day", "area", "perimeter"]], known
