"""Where data sets are found, and whether their files are as expected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kdey.paper.datasets.download import Checksums
from kdey.paper.datasets.files import (
    PathLike,
    Root,
    cache_dir,
    locate,
    missing,
    require,
    roots,
    sha256,
)
from kdey.paper.datasets.lequa import containers, load_lequa
from kdey.paper.datasets.loading import load_dataset
from kdey.paper.datasets.registry import DataFile, Entry


@dataclass(frozen=True)
class Finding:
    """Something wrong with a data set, in a sentence that names the file."""

    name: str
    problem: str


def paths(entry: Entry, data_dir: PathLike | None = None) -> list[Path]:
    """Return the files of a data set (for LeQua: archives, or the folder they unpack to).

    The list is empty for what comes with scikit-learn. A missing file is an error, but for the
    validation part of tweets, which may be split off.
    """
    directories = roots(data_dir)
    if entry.is_lequa and (archives := containers(entry, directories)):
        return archives
    if entry.bundled and not any(locate(file, directories) for file in entry.files):
        return []
    needed = [
        f for f in entry.files if f.role != "validation" or locate(f, directories) is not None
    ]
    return [require(entry, file, directories)[1] for file in needed]


def place(entry: Entry, data_dir: PathLike | None = None) -> str:
    """Return where a data set is found now: "directory", "cache", "bundled" or "missing"."""
    try:
        files = paths(entry, data_dir)
    except FileNotFoundError:
        return "missing"
    cache = cache_dir()
    if not files:
        return "bundled"
    return "cache" if cache is not None and files[0].is_relative_to(cache) else "directory"


def check(entry: Entry, data_dir: PathLike | None = None) -> list[Finding]:
    """Return what is wrong with the files of a data set; an empty list if nothing is.

    Checked are the sha256, where one is known or was recorded by ``kdey data fetch``, that the
    files can be read (columns, numbers, labels), and the numbers of rows, features and classes.
    For LeQua: training data, prevalences, the list of bags, and the first and last bag.
    """
    problems = [*_checksums(entry, roots(data_dir)), *_contents(entry, data_dir)]
    return [Finding(entry.full_name, problem) for problem in problems]


def _checksums(entry: Entry, directories: list[Root]) -> Iterator[str]:
    cache = cache_dir()
    record = {} if cache is None else Checksums(cache).known
    for file in entry.files:
        location = locate(file, directories)
        if location is None:
            unpacked = entry.is_lequa and containers(entry, directories)
            if file.role != "validation" and not unpacked and not entry.bundled:
                yield missing(entry, file, directories)
            continue
        root, path = location
        recorded = (
            record.get(path.relative_to(root.path).as_posix()) if root.path == cache else None
        )
        actual = sha256(path)
        if recorded is not None and actual != recorded:
            yield f"{path}: sha256 is {actual}, it was {recorded} at the first download"
        elif recorded is None and actual not in (file.sha256, _unknown(file, actual)):
            yield f"{path}: sha256 is {actual}, that of the known copy is {file.sha256}"


def _unknown(file: DataFile, actual: str) -> str | None:
    """Let any checksum pass where none is known."""
    return actual if file.sha256 is None else None


def _contents(entry: Entry, data_dir: PathLike | None) -> Iterator[str]:
    try:
        if entry.is_lequa:
            bagged = load_lequa(entry.name, data_dir)
            for bags in (bagged.validation, bagged.test):
                bags.bag(0)
                bags.bag(len(bags) - 1)
            return
        # Rare classes and indicators aside, the rows and classes must be those of the registry.
        data = load_dataset(entry.full_name, data_dir)
    except FileNotFoundError as error:
        if entry.is_lequa and containers(entry, roots(data_dir)):
            yield str(error)
        return  # otherwise reported with the checksums
    except ValueError as error:
        yield str(error)
        return
    dropped = any("left out" in note for note in data.notes)
    counts = {"rows": len(data.y), "classes": len(data.classes)}
    if not entry.categorical and not entry.group.startswith("tweets"):
        counts["features"] = data.X.shape[1]
    for kind, number in counts.items():
        expected = getattr(entry, kind)
        if expected is not None and number != expected and not dropped:
            yield f"{entry.full_name}: {number} {kind}, expected {expected}"
