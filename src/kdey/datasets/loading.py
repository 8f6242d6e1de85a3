"""``load_dataset``: from a name to features, labels, and an account of both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from kdey.datasets.bundled import load_bundled
from kdey.datasets.data import Dataset
from kdey.datasets.homes import home
from kdey.datasets.locate import PathLike, Root, locate, require, roots, sha256
from kdey.datasets.preparation import features, frequent_rows
from kdey.datasets.registry import DataFile, Entry, find
from kdey.datasets.scaling import Scaling
from kdey.datasets.sparse import read_sparse
from kdey.datasets.tables import read_table

_SCALING: dict[str, Scaling] = {"text": None, "tweets": None, "tweets-approx": "tfidf"}


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
    if entry.group == "lequa":
        raise ValueError(
            f"name: {name!r} is a set of bags, load it with load_lequa({entry.name!r})"
        )
    where = roots(data_dir)
    if entry.bundled and (not entry.files or locate(entry.files[0], where) is None):
        X, y, source, notes = load_bundled(entry)
        return _finish(entry, X, y, source, notes, min_class_size)
    if entry.group.startswith("tweets"):
        return _load_parts(entry, where, min_class_size)
    return _load_table(entry, where, min_class_size)


def _load_table(entry: Entry, where: Sequence[Root], min_class_size: int) -> Dataset:
    root, path = require(entry, entry.files[0], where)
    table = read_table(path, entry.categorical)
    X, notes = features(table)
    source = f"{home(entry).page}, {_copy(entry.files[0], root, path)}"
    given = table.split if entry.group == "text" else None
    if table.split is not None and given is None:
        notes = (*notes, "the train/test split of the source is not used")
    return _finish(entry, X, table.labels, source, notes, min_class_size, given)


def _load_parts(entry: Entry, where: Sequence[Root], min_class_size: int) -> Dataset:
    """Return a set whose parts lie in files of their own; the validation part may be missing."""
    parts, roles, copies = [], [], []
    for file in entry.files:
        found = locate(file, where)
        if found is None and file.role == "validation":
            continue
        root, path = found or require(entry, file, where)
        parts.append(read_sparse(path))
        roles.append(np.full(len(parts[-1][1]), file.role))
        copies.append(_copy(file, root, path))
    width = max(X.shape[1] for X, _ in parts)
    widened = [
        sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width)) for X, _ in parts
    ]
    X = sp.vstack(widened, format="csr")
    y = np.concatenate([y for _, y in parts])
    source = f"{home(entry).page}; {', '.join(copies)}"
    return _finish(entry, X, y, source, (), min_class_size, np.concatenate(roles))


def _copy(file: DataFile, root: Root, path: Path) -> str:
    """Say which copy of a file was read, without a path of this machine."""
    found = sha256(path)
    known = " (the known copy)" if found == file.sha256 else ""
    return f"{path.relative_to(root.path).as_posix()} from {root.label}, sha256 {found[:12]}{known}"


def _finish(
    entry: Entry,
    X: Any,
    y: Any,
    source: str,
    notes: tuple[str, ...],
    min_class_size: int,
    given: Any = None,
) -> Dataset:
    if given is None or min_class_size > 0:
        keep, rare = frequent_rows(y, min_class_size, entry.full_name)
        if not keep.all():
            X, y, notes = X[keep], y[keep], (*notes, *rare)
            given = None if given is None else given[keep]
    scaling = _SCALING.get(entry.group, "standard")
    return Dataset(entry.title, entry.group, X, y, np.unique(y), source, notes, scaling, given)
