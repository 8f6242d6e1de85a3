"""``load_dataset``: from a name to features, labels, and notes on how they were obtained.

Tables and tweet sets are read from files; a few sets come with scikit-learn. Columns of words
become indicators, and classes too rare to be split are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from kdey.paper.datasets.data import Dataset, Scaling
from kdey.paper.datasets.files import PathLike, Root, locate, require, roots, sha256
from kdey.paper.datasets.registry import DataFile, Entry, find, home
from kdey.paper.datasets.tables import Table, read_sparse, read_table

Array = NDArray[np.float64]
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


def load_dataset(
    name: str,
    data_dir: PathLike | None = None,
    *,
    group: str | None = None,
    min_class_size: int = 0,
) -> Dataset:
    """Return a data set of the registry.

    Parameters
    ----------
    name : str
        "letter" or "uci-multi/letter"; a bare name that two groups share is refused.
    data_dir : path, optional
        Where the files lie. By default ``$KDEY_DATA``, then the cache of ``kdey data fetch``, then
        what scikit-learn brings along.
    group : str, optional
        The group, where ``name`` does not carry it.
    min_class_size : int
        Classes with fewer rows are left out, with a note. Classes too small to be split (fewer
        than 4 rows) always are, but for sets whose parts the source defines.

    Raises
    ------
    FileNotFoundError
        Names the file, its official home, and what to do.
    ValueError
        Names the file, line and column that cannot be read.
    """
    entry = find(name, group)
    if entry.is_lequa:
        raise ValueError(
            f"name: {name!r} is a set of bags, load it with load_lequa({entry.name!r})"
        )
    directories = roots(data_dir)
    if entry.bundled and (not entry.files or locate(entry.files[0], directories) is None):
        X, y, source, notes = load_bundled(entry)
        return _dataset(entry, X, y, source, notes, min_class_size)
    if entry.group.startswith("tweets"):
        return _load_parts(entry, directories, min_class_size)
    return _load_table(entry, directories, min_class_size)


def _load_table(entry: Entry, directories: Sequence[Root], min_class_size: int) -> Dataset:
    root, path = require(entry, entry.files[0], directories)
    table = read_table(path, entry.categorical)
    X, notes = features(table)
    source = f"{home(entry).page}, {_copy_description(entry.files[0], root, path)}"
    parts = table.split if entry.group == "text" else None
    if table.split is not None and parts is None:
        notes = (*notes, "the train/test split of the source is not used")
    return _dataset(entry, X, table.labels, source, notes, min_class_size, parts)


def _load_parts(entry: Entry, directories: Sequence[Root], min_class_size: int) -> Dataset:
    """Return a set with one file per part; the validation part may be missing."""
    parts, roles, copies = [], [], []
    for file in entry.files:
        location = locate(file, directories)
        if location is None and file.role == "validation":
            continue
        root, path = location or require(entry, file, directories)
        parts.append(read_sparse(path))
        roles.append(np.full(len(parts[-1][1]), file.role))
        copies.append(_copy_description(file, root, path))
    width = max(X.shape[1] for X, _ in parts)
    widened = [
        sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width)) for X, _ in parts
    ]
    X = sp.vstack(widened, format="csr")
    y = np.concatenate([y for _, y in parts])
    source = f"{home(entry).page}; {', '.join(copies)}"
    return _dataset(entry, X, y, source, (), min_class_size, np.concatenate(roles))


def _copy_description(file: DataFile, root: Root, path: Path) -> str:
    """Return which copy of a file was read, without the path of the directory."""
    checksum = sha256(path)
    known = " (the known copy)" if checksum == file.sha256 else ""
    return (
        f"{path.relative_to(root.path).as_posix()} from {root.label}, sha256 {checksum[:12]}{known}"
    )


def _dataset(
    entry: Entry,
    X: Any,
    y: Any,
    source: str,
    notes: tuple[str, ...],
    min_class_size: int,
    parts: Any = None,
) -> Dataset:
    if parts is None or min_class_size > 0:
        keep, rare = frequent_rows(y, min_class_size, entry.full_name)
        if not keep.all():
            X, y, notes = X[keep], y[keep], (*notes, *rare)
            parts = None if parts is None else parts[keep]
    scaling = _SCALING.get(entry.group, "standard")
    return Dataset(entry.title, entry.group, X, y, np.unique(y), source, notes, scaling, parts)


def features(table: Table) -> tuple[Array, tuple[str, ...]]:
    """Return the features of a table, and notes.

    A column of words with v distinct ones becomes v - 1 indicators, of all but the first word in
    sorted order; it keeps its place among the numeric columns.

    Returns
    -------
    X : float64 array of shape (n, d)
    notes : tuple of str
    """
    if not table.words:
        return table.numbers, ()
    blocks, at = [], 0
    for column in table.columns:
        if column in table.words:
            distinct, codes = np.unique(table.words[column], return_inverse=True)
            blocks.append(np.eye(len(distinct))[codes][:, 1:])
        else:
            blocks.append(table.numbers[:, at : at + 1])
            at += 1
    note = f"one-hot without the first value: {', '.join(table.words)}"
    return np.hstack(blocks), (note,)


def frequent_rows(
    labels: NDArray[Any], min_class_size: int, where: str
) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Return which rows belong to a class of the required size, and notes.

    Parameters
    ----------
    labels : array of shape (n,)
    min_class_size : int
        Never less than ``SMALLEST_CLASS``.
    where : str
        Named in the error where fewer than two classes are left.
    """
    least = max(min_class_size, SMALLEST_CLASS)
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    rare = counts < least
    if (~rare).sum() < 2:
        raise ValueError(
            f"{where}: {(~rare).sum()} classes have {least} rows or more, two are needed; "
            "lower min_class_size"
        )
    if not rare.any():
        return np.ones(len(labels), dtype=bool), ()
    listed = ", ".join(f"{name} ({n})" for name, n in zip(classes[rare], counts[rare], strict=True))
    note = f"{rare.sum()} classes of fewer than {least} rows left out: {listed}"
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
