"""Where data files lie: in a directory of the user's, in ``$KDEY_DATA``, or in the download cache.

:func:`locate` finds one file, compressed or not. A :class:`Tree` reads files that lie in a
directory, in zip archives, or in some of each, as the LeQua tasks do.
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
#: From the name of a file to its content.
Reader = Callable[[str], bytes]
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
    directories = (
        [_directory("$KDEY_DATA", os.environ["KDEY_DATA"])] if _is_set("KDEY_DATA") else []
    )
    cache = cache_dir()
    return directories if cache is None else [*directories, Root("the cache", cache)]


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


def locate(file: DataFile, directories: Sequence[Root]) -> tuple[Root, Path] | None:
    """Return the first place where a file lies, or None."""
    for root in directories:
        for candidate in _candidates(file):
            if (root.path / candidate).is_file():
                return root, root.path / candidate
    return None


def require(entry: Entry, file: DataFile, directories: Sequence[Root]) -> tuple[Root, Path]:
    """Return where a file lies, or say which file is missing and how to get it."""
    location = locate(file, directories)
    if location is None:
        raise FileNotFoundError(missing(entry, file, directories))
    return location


def missing(entry: Entry, file: DataFile, directories: Sequence[Root]) -> str:
    """Return a message on what is missing, where it was searched, and what to do."""
    searched = ", ".join(f"{root.label} ({root.path})" for root in directories)
    message = f"{entry.full_name}: {file.path} was not found"
    message += f" in {searched}." if directories else ": KDEY_DATA is not set."
    origin = home(entry)
    if origin.urls:
        message += (
            f" Run `kdey data fetch {entry.full_name}`, or download {' and '.join(origin.urls)}"
        )
        message += f" by hand (described at {origin.page})"
    else:
        message += f" It has no file to fetch; see {origin.page}. Make it by hand"
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
                members = archive.namelist()
        except BadZipFile as error:
            raise ValueError(
                f"{container}: not a whole zip file ({error}); get it again"
            ) from error
        return [name for name in members if name.startswith(below) and not name.endswith("/")]
    paths = (path for path in (container / below).rglob("*") if path.is_file())
    return sorted(path.relative_to(container).as_posix() for path in paths)
