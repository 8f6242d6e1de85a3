"""``kdey data fetch``: from the official homes into the cache."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile

from kdey.datasets.conversion import convert
from kdey.datasets.download import Checksums, Downloader, download
from kdey.datasets.homes import Home, home
from kdey.datasets.locate import Root, cache_dir, locate, missing, sha256
from kdey.datasets.registry import Entry, find

Say = Callable[[str], None]


def fetch(
    name: str,
    *,
    cache: Path | None = None,
    downloader: Downloader | None = None,
    retries: int = 3,
    say: Say = lambda line: None,
) -> list[Path]:
    """Download a data set into the cache, unless it is there, and return its files.

    Checksums are compared with those of the first download. UCI text is turned into a table by a
    stated recipe; what is done is said through ``say``.

    Parameters
    ----------
    name : str
        As for :func:`~kdey.datasets.load_dataset`.
    cache : Path, optional
        By default the cache directory of the user.
    downloader, retries
        As for :func:`kdey.datasets.download.download`.
    say : callable
        Takes one line on each thing done.

    Raises
    ------
    FileNotFoundError
        Where there is nothing to download; says what to do by hand.
    """
    entry = find(name)
    where = cache or cache_dir()
    if where is None:
        raise ModuleNotFoundError("fetching needs the extra data: pip install 'kdey[data]'")
    if not entry.files:
        say(f"{entry.full_name} comes with scikit-learn: nothing to fetch")
        return []
    there = [locate(file, [Root("the cache", where)]) for file in entry.files]
    if all(there):
        say(f"{entry.full_name} is in the cache")
        return [path for _, path in filter(None, there)]
    lives = home(entry)
    if not lives.urls:
        raise FileNotFoundError(missing(entry, entry.files[0], [Root("the cache", where)]))
    get = partial(download, downloader=downloader, retries=retries)
    return _fetch(entry, lives, where, get, say)


def _fetch(entry: Entry, lives: Home, cache: Path, get: Callable[..., str], say: Say) -> list[Path]:
    record, came = Checksums(cache), {}
    folder = cache / ("lequa2022" if entry.group == "lequa" else "downloads")
    downloads = []
    for url in lives.urls:
        target = folder / _file_name(url, entry)
        key = target.relative_to(cache).as_posix()
        say(f"downloading {url}")
        came[key] = get(url, target, record.known.get(key))
        downloads.append(target)
    try:
        made = _unpack(entry, lives, downloads, cache, say)
    except ValueError:
        # What came is not the data (an error page, say): it must not be taken for known.
        for path in downloads:
            path.unlink()
        raise
    for path in made:
        came[path.relative_to(cache).as_posix()] = sha256(path)
    for key, checksum in came.items():
        if key not in record.known:
            say(f"sha256 of {key} recorded: {checksum}")
        record.record(key, checksum)
    return made


def _file_name(url: str, entry: Entry) -> str:
    """Return a name for a download; many UCI files are called data.csv or the like."""
    last = url.rpartition("/")[2]
    return last if entry.uci is None else f"uci-{entry.uci}-{last}"


def _unpack(entry: Entry, lives: Home, downloads: list[Path], cache: Path, say: Say) -> list[Path]:
    """Turn the downloads into the files of the data set, and return these."""
    if lives.recipe is not None:
        target = cache / entry.files[0].path
        convert(entry, lives.recipe, downloads, target)
        say(f"converted to {entry.files[0].path}: {lives.recipe.words()}")
        return [target]
    if entry.group == "lequa":  # read from the archives as they are
        for path in downloads:
            _open(path).close()
        return downloads
    return _extract(entry, downloads[0], cache, say)


def _extract(entry: Entry, archive: Path, cache: Path, say: Say) -> list[Path]:
    """Unpack the features of all tweet sets: they come in one archive."""
    with _open(archive) as zipped:
        for member in zipped.namelist():
            if member.endswith(".feature.txt") and ".." not in Path(member).parts:
                with zipped.open(member) as stream:
                    _copy(stream, cache / Path(member).relative_to(Path(member).anchor))
    say(f"unpacked {archive.name}")
    found = [locate(file, [Root("the cache", cache)]) for file in entry.files]
    if not all(found):
        raise ValueError(f"{archive}: does not hold the files of {entry.full_name}")
    return [path for _, path in filter(None, found)]


def _copy(stream: IO[bytes], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.tmp")
    with part.open("wb") as out:
        shutil.copyfileobj(stream, out)
    part.replace(target)


def _open(path: Path) -> ZipFile:
    try:
        return ZipFile(path)
    except BadZipFile as error:
        raise ValueError(f"{path}: not a whole zip file ({error})") from error
