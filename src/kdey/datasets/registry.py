"""The data sets that exist, their official homes, and where their files lie.

``catalogue.csv`` has the sets, ``recipes.json`` where files of the UCI archive are, and how the
repository's command ``python -m experiments data fetch`` makes tables of them. Files lie in a
directory of the user's, in ``$KDEY_DATA``, or in the download cache; :func:`locate` finds one,
compressed or not.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

PathLike = str | os.PathLike[str]
#: Directories to look in, first one first, by what to call them in messages and results.
Roots: TypeAlias = Mapping[str, Path]
#: Folder that the published archive of the tweets unpacks to.
_TWEETS_ARCHIVE = "tweet_sentiment_quantification_snam"


#: Groups of LeQua tasks.
_LEQUA = ("lequa", "lequa2024")
#: Page to read on a group, but for sets of the UCI repository, each of which has one.
_PAGES = {
    "lequa": "https://zenodo.org/records/6546188",
    "lequa2024": "https://zenodo.org/records/11661820",
    "tweets": "https://zenodo.org/records/4255764",
    "tweets-approx": "no official home: word counts made from the public tweets",
    "text": "http://qwone.com/~jason/20Newsgroups/ (documents; the vectors are derived)",
    "uci-extra": "http://yann.lecun.com/exdb/mnist/",  # the one extra set that is not in UCI
    "bundled": "scikit-learn",
}
#: Group -> what it holds. Names of the first four groups are those of the paper's tables.
GROUPS = {
    "uci-multi": "the five UCI multiclass sets of the paper",
    "uci-binary": "the 29 UCI binary sets of the paper",
    "tweets": "the 11 tweet sentiment sets of the paper",
    "lequa": "LeQua 2022, tasks T1A, T1B, T2A and T2B (see load_lequa)",
    "lequa2024": "LeQua 2024, tasks T1 to T4 (see load_lequa)",
    "uci-extra": "twelve more multiclass sets",
    "tweets-approx": "word counts of the same tweets; not the published features",
    "text": "20 newsgroups, 300 latent dimensions",
    "bundled": "multiclass sets that come with scikit-learn",
}
#: Binary sets of the paper that scikit-learn brings along.
BUNDLED_BINARY = ("iris.2", "iris.3", "wdbc", "wine.1", "wine.2", "wine.3")
#: Rows and classes of the sets that scikit-learn brings along.
_BUNDLED = {"digits-subset": (1797, 64, 10), "wine": (178, 13, 3), "iris": (150, 4, 3)}
#: Groups of stand-ins, whose sets are only known by their name with the group in front.
_STAND_INS = ("tweets-approx",)


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Attributes
    ----------
    role : str
        "all", or the part that the file holds: "train", "validation", "test", "prevalences".
    path : str
        Place below the data directory.
    sha256 : str or None
        Of the known copy; None where no copy is known.
    rows : int or None
    """

    role: str
    path: str
    sha256: str | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Entry:
    """One data set.

    Attributes
    ----------
    group, name : str
    files : tuple of DataFile
        Empty for what comes with scikit-learn alone.
    features, classes : int or None
        What the files are known to hold.
    uci : int or None
        Number of the set in the UCI Machine Learning Repository.
    categorical : tuple of str
        Columns that hold words.
    """

    group: str
    name: str
    files: tuple[DataFile, ...] = field(default=())
    features: int | None = None
    classes: int | None = None
    uci: int | None = None
    categorical: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name with its group in front, which is never ambiguous."""
        return f"{self.group}/{self.name}"

    @property
    def short_name(self) -> str:
        """The name as ``find`` takes it: without its group where that is unambiguous."""
        bare = self.group not in _STAND_INS and len(_same(self.name)) == 1
        return self.name if bare else self.full_name

    @property
    def rows(self) -> int | None:
        """Number of instances, where known."""
        if not self.files:
            return _BUNDLED[self.name][0]
        known = [file.rows for file in self.files if file.rows is not None]
        return sum(known) if known else None

    @property
    def is_lequa(self) -> bool:
        """Whether the set is a task of LeQua, with given bags in archives."""
        return self.group in _LEQUA

    @property
    def bundled(self) -> bool:
        """Whether scikit-learn brings the set along."""
        return self.group == "bundled" or (
            self.group == "uci-binary" and self.name in BUNDLED_BINARY
        )

    @property
    def title(self) -> str:
        """What to call the set in a table: the paper's name, or one that no paper's set has."""
        return self.short_name if self.group in ("uci-extra", *_STAND_INS) else self.name

    @property
    def page(self) -> str:
        """The official home of the set, for people: description, licence, citation."""
        if self.uci is not None:
            return f"https://archive.ics.uci.edu/dataset/{self.uci}"
        return _PAGES.get(self.group, "")

    @property
    def urls(self) -> tuple[str, ...]:
        """What to download; empty where it has to be done by hand."""
        if self.is_lequa:
            return tuple(f"{self.page}/files/{f.path.rpartition('/')[2]}" for f in self.files)
        if self.group == "tweets":
            return (f"{self.page}/files/{_TWEETS_ARCHIVE}.zip",)
        return tuple(recipes().get(self.full_name, {"urls": ()})["urls"])


@cache
def entries() -> tuple[Entry, ...]:
    """Return all data sets, in the order of the groups."""
    text = (files("kdey.datasets") / "catalogue.csv").read_text(encoding="utf-8")
    lines: dict[tuple[str, str], list[dict[str, str]]] = {}
    for line in csv.DictReader(text.splitlines()):
        lines.setdefault((line["group"], line["name"]), []).append(line)
    listed = [_entry(group, name, group_lines) for (group, name), group_lines in lines.items()]
    for name, (_, features, classes) in _BUNDLED.items():
        listed.append(Entry("bundled", name, features=features, classes=classes))
    order = list(GROUPS)
    return tuple(sorted(listed, key=lambda entry: order.index(entry.group)))


@cache
def recipes() -> dict[str, dict[str, Any]]:
    """Return by full names how the downloads of data sets become tables."""
    text = (files("kdey.datasets") / "recipes.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found


def _entry(group: str, name: str, lines: list[dict[str, str]]) -> Entry:
    data_files = tuple(
        DataFile(line["role"], line["file"], line["sha256"] or None, _number(line["rows"]))
        for line in lines
    )
    first = lines[0]
    features, classes, uci = (_number(first[key]) for key in ("features", "classes", "uci"))
    return Entry(
        group, name, data_files, features, classes, uci, tuple(first["categorical"].split())
    )


def _number(text: str) -> int | None:
    return int(text) if text else None


def names(group: str) -> list[str]:
    """Return the names of a group, as :func:`~kdey.datasets.load_dataset` takes them.

    Parameters
    ----------
    group : str
        One of ``GROUPS``, or "bundled-binary": the binary sets that need no data directory.

    Returns
    -------
    list of str
        Bare names where they are unambiguous, else with the group in front ("uci-binary/yeast":
        there is a multiclass yeast too). ``Dataset.name`` is the name for tables.
    """
    if group == "bundled-binary":
        return list(BUNDLED_BINARY)
    if group not in GROUPS:
        known = ", ".join([*GROUPS, "bundled-binary"])
        raise ValueError(f"group must be one of {known}; got {group!r}")
    return [entry.short_name for entry in entries() if entry.group == group]


def find(name: str, group: str | None = None) -> Entry:
    """Return the data set of a name, "letter" or "uci-multi/letter", upper or lower case.

    Parameters
    ----------
    name : str
    group : str, optional
        The group, where the name does not carry it.
    """
    head, _, tail = name.rpartition("/")
    group_name = head or group
    if group_name == "bundled-binary" and tail in BUNDLED_BINARY:
        group_name = "uci-binary"  # the same sets under another name
    matches = [entry for entry in _same(tail) if group_name in (None, entry.group)]
    if group_name in _STAND_INS:
        matches = [e for e in entries() if e.group == group_name and e.name.lower() == tail.lower()]
    if not matches:
        raise ValueError(f"name: no data set is called {name!r}{_suggestion(name)}")
    if len(matches) > 1:
        both = " and ".join(entry.full_name for entry in matches)
        raise ValueError(f"name: {name!r} is ambiguous, it may mean {both}; give the full name")
    return matches[0]


def _same(name: str) -> list[Entry]:
    """Return the sets that a bare name may mean; stand-ins need their group."""
    return [e for e in entries() if e.name.lower() == name.lower() and e.group not in _STAND_INS]


def _suggestion(name: str) -> str:
    known = {entry.short_name.lower(): entry.short_name for entry in entries()}
    close = get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    if not close:
        return f"; the groups are {', '.join(GROUPS)}: kdey.datasets.names(group) lists one"
    return f"; did you mean {', '.join(known[match] for match in close)}?"


def roots(data_dir: PathLike | None = None) -> Roots:
    """Return the directories to look in, first one first, by what to call them.

    Parameters
    ----------
    data_dir : path, optional
        Looked in alone. By default ``$KDEY_DATA``, if set, then the cache.
    """
    if data_dir is not None:
        return {"data_dir": _directory("data_dir", data_dir)}
    directories = {}
    if os.environ.get("KDEY_DATA"):
        directories["$KDEY_DATA"] = _directory("$KDEY_DATA", os.environ["KDEY_DATA"])
    cache = cache_dir()
    return directories if cache is None else directories | {"the cache": cache}


def _directory(label: str, path: PathLike) -> Path:
    if not Path(path).is_dir():
        raise NotADirectoryError(f"{label}: {os.fspath(path)!r} is not a directory")
    return Path(path)


def cache_dir() -> Path | None:
    """Return where downloads are kept, or None where the extra ``data`` is not installed."""
    if find_spec("pooch") is None:
        return None
    import pooch

    return Path(pooch.os_cache("kdey"))


def locate(file: DataFile, directories: Roots) -> tuple[str, Path] | None:
    """Return the first directory that has a file, by its label, and the file; None if none has."""
    for label, directory in directories.items():
        for candidate in _candidates(file):
            if (directory / candidate).is_file():
                return label, directory / candidate
    return None


def require(entry: Entry, file: DataFile, directories: Roots) -> tuple[str, Path]:
    """Return what :func:`locate` does, or say which file is missing and how to get it."""
    location = locate(file, directories)
    if location is None:
        raise FileNotFoundError(missing(entry, file, directories))
    return location


def missing(entry: Entry, file: DataFile, directories: Roots) -> str:
    """Return a message on what is missing, where it was searched, and what to do."""
    searched = ", ".join(f"{label} ({path})" for label, path in directories.items())
    message = f"{entry.full_name}: {file.path} was not found"
    message += f" in {searched}." if directories else ": KDEY_DATA is not set."
    if entry.urls:
        message += (
            f" Run `python -m experiments data fetch {entry.full_name}` in a clone of kdey's "
            f"repository, or download {' and '.join(entry.urls)} by hand (described at "
            f"{entry.page})"
        )
    else:
        message += f" It has no file to fetch; see {entry.page}. Make it by hand"
    return (
        message
        + f" and put it into the directory KDEY_DATA names as {_expected_form(entry, file)}."
    )


def _expected_form(entry: Entry, file: DataFile) -> str:
    if entry.is_lequa:
        return f"{file.path}, or unpacked as {file.path.partition('/')[0]}/{entry.name}/public/"
    if entry.group == "tweets":
        return f"{file.path}, or the whole archive unpacked as {_TWEETS_ARCHIVE}/"
    if entry.group == "tweets-approx":
        return f"{file.path} (svmlight text)"
    return f"{file.path} (csv with a header, features first, last column label)"


def _candidates(file: DataFile) -> Iterator[str]:
    """Yield the places below a root where a file may lie, compressed or not."""
    for path in (file.path, *_published(file)):
        plain = path.removesuffix(".gz")
        yield from (path, plain) if path != plain else (plain, f"{plain}.gz")


def _published(file: DataFile) -> Iterator[str]:
    """Yield the names that the published archive of the tweets uses."""
    if not file.path.startswith("tweets/"):
        return
    name = file.path.removeprefix("tweets/")
    folder = "train" if file.role == "train" else "test"
    others = [name]
    if name.startswith("semeval.test"):  # semeval.test13 is called semeval13.test there
        others.append(f"semeval{name.removeprefix('semeval.test')[:2]}.test.feature.txt")
    if name == "semeval16.test.feature.txt":
        others.append("semeval16.dev-test.feature.txt")
    for other in others:
        yield f"tweets/{other}"
        yield f"tweets/{folder}/{other}"
        yield f"{_TWEETS_ARCHIVE}/{folder}/{other}"


def sha256(path: Path) -> str:
    """Return the sha256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
