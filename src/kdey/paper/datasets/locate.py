"""Where data files lie: a directory of the user's, ``$KDEY_DATA``, or the cache of downloads.

One tree of files that lies in a directory, in zip archives, or in some of each.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile, ZipFile
from zlib import error as ZlibError

from kdey.paper.datasets.registry import DataFile, Entry, home

PathLike = str | os.PathLike[str]
#: Folder that the published archive of the tweets unpacks to.
_TWEETS_ARCHIVE = "tweet_sentiment_quantification_snam"


@dataclass(frozen=True)
class Root:
    """A directory to look in, and what to call it in messages and results."""

    label: str
    path: Path


def roots(data_dir: PathLike | None = None) -> list[Root]:
    """Return the directories to look in, first one first.

    Parameters
    ----------
    data_dir : path, optional
        Looked in alone. By default ``$KDEY_DATA``, if set, then the cache.
    """
    if data_dir is not None:
        return [_directory("data_dir", data_dir)]
    found = [_directory("$KDEY_DATA", os.environ["KDEY_DATA"])] if _is_set("KDEY_DATA") else []
    cache = cache_dir()
    return found if cache is None else [*found, Root("the cache", cache)]


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable))


def _directory(label: str, path: PathLike) -> Root:
    if not Path(path).is_dir():
        raise NotADirectoryError(f"{label}: {os.fspath(path)!r} is not a directory")
    return Root(label, Path(path))


def cache_dir() -> Path | None:
    """Return where ``kdey data fetch`` puts files, or None where its extra is not installed."""
    if find_spec("pooch") is None:
        return None
    import pooch

    return Path(pooch.os_cache("kdey"))


def locate(file: DataFile, where: Sequence[Root]) -> tuple[Root, Path] | None:
    """Return the first place where a file lies, or None."""
    for root in where:
        for candidate in _candidates(file):
            if (root.path / candidate).is_file():
                return root, root.path / candidate
    return None


def require(entry: Entry, file: DataFile, where: Sequence[Root]) -> tuple[Root, Path]:
    """Return where a file lies, or say which file is missing and how to get it."""
    found = locate(file, where)
    if found is None:
        raise FileNotFoundError(missing(entry, file, where))
    return found


def missing(entry: Entry, file: DataFile, where: Sequence[Root]) -> str:
    """Return one sentence each on what is missing, where it was sought, and what to do."""
    sought = ", ".join(f"{root.label} ({root.path})" for root in where)
    told = f"{entry.full_name}: {file.path} was not found"
    told += f" in {sought}." if where else ": KDEY_DATA is not set."
    lives = home(entry)
    if lives.urls:
        told += f" Run `kdey data fetch {entry.full_name}`, or download {' and '.join(lives.urls)}"
        told += f" by hand (described at {lives.page})"
    else:
        told += f" It has no file to fetch; see {lives.page}. Make it by hand"
    return told + f" and put it into the directory KDEY_DATA names as {_wanted(entry, file)}."


def _wanted(entry: Entry, file: DataFile) -> str:
    if entry.group == "lequa":
        return f"{file.path}, or unpacked as lequa2022/{entry.name}/public/"
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


Reader = Callable[[str], bytes]


@dataclass(frozen=True)
class Tree:
    """Files by their names below some folder.

    Attributes
    ----------
    places : dict from name to (container, member)
        The container is a directory or a zip file.
    """

    places: dict[str, tuple[Path, str]]

    def where(self, name: str) -> str:
        """Return what to call a file in messages."""
        if name not in self.places:
            return name
        container, member = self.places[name]
        return f"{container}:{member}" if container.suffix == ".zip" else str(container / member)

    @contextmanager
    def open(self) -> Iterator[Reader]:
        """Give a function that reads a file whole; archives stay open in between."""
        with ExitStack() as stack:
            archives: dict[Path, ZipFile] = {}

            def read(name: str) -> bytes:
                if name not in self.places:
                    raise FileNotFoundError(f"{name} was not found")
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


def tree(containers: Sequence[Path], below: str) -> Tree:
    """Return the files that lie below a folder (``"T1B/public/"``) of any of the containers.

    Parameters
    ----------
    containers : directories and zip files; the first one that has a file counts
    below : str
        The path in front of the names, with a final slash.
    """
    places: dict[str, tuple[Path, str]] = {}
    for container in containers:
        for member in _members(container, below):
            places.setdefault(member.removeprefix(below), (container, member))
    return Tree(places)


def _members(container: Path, below: str) -> list[str]:
    if container.suffix == ".zip":
        try:
            with ZipFile(container) as archive:
                found = archive.namelist()
        except BadZipFile as error:
            raise ValueError(
                f"{container}: not a whole zip file ({error}); get it again"
            ) from error
        return [name for name in found if name.startswith(below) and not name.endswith("/")]
    paths = (path for path in (container / below).rglob("*") if path.is_file())
    return sorted(path.relative_to(container).as_posix() for path in paths)
