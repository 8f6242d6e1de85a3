"""Data sets fetched from their official homes, found and checked.

A download resumes where it broke off, is tried again after a failure and checked by its sha256;
a file is either complete or absent.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

from kdey._io import locked, write_whole
from kdey.datasets.lequa import containers, load_lequa
from kdey.datasets.loading import load_dataset
from kdey.datasets.registry import (
    DataFile,
    Entry,
    PathLike,
    Roots,
    cache_dir,
    find,
    locate,
    missing,
    recipes,
    require,
    roots,
    sha256,
)

#: Below kdey's own logger, whose messages commands print.
logger = logging.getLogger("kdey.experiments.download")

#: URL and the file to write; raises OSError where the connection fails.
Downloader = Callable[[str, Path], None]
#: Names of columns of words, by their number.
_WORD_COLUMNS = {
    "abalone": {0: "sex"},
    "chess-krk": {0: "wk_file", 2: "wr_file", 4: "bk_file"},
}
#: A broken connection loses at most the last chunk.
_CHUNK = 1 << 16
_TIMEOUT = 60


@dataclass(frozen=True)
class Recipe:
    """How the downloads of one data set become a table; no number is changed.

    Attributes
    ----------
    urls : sequence of str
        Their rows are put one after the other.
    label : int
        Column of the label, negative from the end.
    delimiter : str or None
        None: any white space.
    header : bool
        Whether the first line names the columns.
    drop : sequence of int
        Columns left out, such as running numbers.
    features : int or None
        How many columns from the left are features (before any drop); None: all but the label.
    positive : sequence of str
        Labels that become 1, all others 0; empty: labels stay.
    missing : str or None
        Rows with such a cell are left out.
    codes : mapping from str to str
        Words of the feature columns and the numbers to put for them.
    member : str or None
        File inside a zip archive.
    """

    urls: Sequence[str]
    label: int = -1
    delimiter: str | None = ","
    header: bool = False
    drop: Sequence[int] = ()
    features: int | None = None
    positive: Sequence[str] = ()
    missing: str | None = None
    codes: Mapping[str, str] = field(default_factory=dict)
    member: str | None = None

    @classmethod
    def of(cls, entry: Entry) -> Recipe | None:
        """Return the recipe of a set; None where downloads are read as they are, or by hand."""
        steps = recipes().get(entry.full_name)
        return None if steps is None else cls(**steps)

    def words(self) -> str:
        """Return in a few words what is done."""
        steps = [f"label from column {self.label}"]
        if self.drop:
            steps.append(f"columns {self.drop} left out")
        if self.features is not None:
            steps.append(f"the first {self.features} columns kept")
        if self.missing is not None:
            steps.append(f"rows with {self.missing!r} left out")
        if self.codes:
            steps.append(
                "coded " + ", ".join(f"{word}={code}" for word, code in self.codes.items())
            )
        if self.positive:
            steps.append(f"label 1 for {', '.join(self.positive)}")
        return "; ".join(steps)


def fetch(
    name: str,
    *,
    cache: Path | None = None,
    downloader: Downloader | None = None,
    retries: int = 3,
) -> list[Path]:
    """Download a data set into the cache, unless it is there, and return its files.

    Checksums are compared with those of the first download. UCI text is turned into a table by a
    stated recipe. Each step is logged.

    Parameters
    ----------
    name : str
        As for :func:`~kdey.datasets.load_dataset`.
    cache : Path, optional
        By default the cache directory of the user.
    downloader, retries
        As for :func:`experiments.download.download`.

    Raises
    ------
    FileNotFoundError
        Where there is nothing to download; says what to do by hand.
    """
    entry = find(name)
    directory = cache or cache_dir()
    if directory is None:
        raise ModuleNotFoundError("fetching needs the extra data: pip install 'kdey[data]'")
    if not entry.files:
        logger.info("%s comes with scikit-learn: nothing to fetch", entry.full_name)
        return []
    locations = [locate(file, {"the cache": directory}) for file in entry.files]
    if all(locations):
        logger.info("%s is in the cache", entry.full_name)
        return [path for _, path in filter(None, locations)]
    if not entry.urls:
        raise FileNotFoundError(missing(entry, entry.files[0], {"the cache": directory}))
    get = partial(download, downloader=downloader, retries=retries)
    return _fetch(entry, directory, get)


def _fetch(entry: Entry, cache: Path, get: Callable[..., str]) -> list[Path]:
    record, checksums = Checksums(cache), {}
    folder = cache / (entry.files[0].path.partition("/")[0] if entry.is_lequa else "downloads")
    downloads = []
    for url in entry.urls:
        target = folder / _file_name(url, entry)
        key = target.relative_to(cache).as_posix()
        logger.info("downloading %s", url)
        checksums[key] = get(url, target, record.known.get(key))
        downloads.append(target)
    try:
        files = _unpack(entry, downloads, cache)
    except ValueError:
        # The download is not the data (but an error page, say): its checksum must not be recorded.
        for path in downloads:
            path.unlink()
        raise
    for path in files:
        checksums[path.relative_to(cache).as_posix()] = sha256(path)
    for key, checksum in checksums.items():
        if key not in record.known:
            logger.info("sha256 of %s recorded: %s", key, checksum)
        record.record(key, checksum)
    return files


def convert(entry: Entry, recipe: Recipe, downloads: list[Path], target: Path) -> None:
    """Write the table of a data set, or raise and write nothing.

    Parameters
    ----------
    entry : Entry
        Rows, features and classes must come out as it says.
    recipe : Recipe
    downloads : list of Path
        In the order of the recipe's URLs.
    target : Path
        The ``.csv.gz`` to write, completely or not at all.
    """
    rows = [row for path in downloads for row in _rows(path, recipe)]
    names = _names(entry, len(rows[0]) - 1)
    _compare(entry, rows, downloads)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[*names, "label"], *rows])
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, gzip.compress(text.getvalue().encode(), mtime=0))


def _names(entry: Entry, n_features: int) -> list[str]:
    """Return column names; columns of words keep those by which the registry knows them."""
    if len(entry.categorical) == n_features:
        return list(entry.categorical)
    names = [f"x{j}" for j in range(n_features)]
    for j, name in _WORD_COLUMNS.get(entry.name, {}).items():
        names[j] = name
    return names


def _rows(path: Path, recipe: Recipe) -> list[list[str]]:
    """Return the rows of one download, features first, label last."""
    lines = _text(path, recipe.member).splitlines()
    if (recipe.member or "").endswith(".arff"):
        marks = [n for n, line in enumerate(lines, start=1) if line.strip().lower() == "@data"]
        lines = lines[marks[0] :] if marks else []
    if recipe.header:
        lines = lines[1:]
    rows = []
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip().strip('"') for cell in line.split(recipe.delimiter)]
        if line.strip() and (recipe.missing is None or recipe.missing not in cells):
            rows.append(_row(path, number, cells, recipe))
    if not rows:
        raise ValueError(f"{path}: no rows of data")
    return rows


def _row(path: Path, number: int, cells: list[str], recipe: Recipe) -> list[str]:
    try:
        label = cells[recipe.label]
    except IndexError:
        raise ValueError(
            f"{path}, row {number}: {len(cells)} cells, the label is in column {recipe.label}; "
            "is this the data file?"
        ) from None
    kept = len(cells) if recipe.features is None else recipe.features
    skipped = {*recipe.drop, recipe.label % len(cells)}
    features = [recipe.codes.get(cells[j], cells[j]) for j in range(kept) if j not in skipped]
    if recipe.positive:
        # Some files write labels as numbers with decimals: 1.0000.
        label = (
            "1" if label.partition(".")[0] in recipe.positive or label in recipe.positive else "0"
        )
    return [*features, label]


def _text(path: Path, member: str | None) -> str:
    try:
        if member is None:
            return path.read_text(encoding="utf-8-sig")
        with ZipFile(path) as archive:
            return archive.read(member).decode("utf-8-sig")
    except (BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as the data file ({error})") from error


def _compare(entry: Entry, rows: list[list[str]], downloads: list[Path]) -> None:
    where = " + ".join(path.name for path in downloads)
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise ValueError(f"{where}: rows of {min(widths)} to {max(widths)} columns")
    counts = (len(rows), len(rows[0]) - 1, len({row[-1] for row in rows}))
    expected = (entry.rows, entry.features, entry.classes)
    if counts != expected:
        raise ValueError(
            f"{where}: rows, features and classes are {counts}, {entry.full_name} has {expected}"
        )


def _file_name(url: str, entry: Entry) -> str:
    """Return a name for a download; many UCI files are called data.csv or the like."""
    last = url.rpartition("/")[2]
    return last if entry.uci is None else f"uci-{entry.uci}-{last}"


def _unpack(entry: Entry, downloads: list[Path], cache: Path) -> list[Path]:
    """Turn the downloads into the files of the data set, and return these."""
    recipe = Recipe.of(entry)
    if recipe is not None:
        target = cache / entry.files[0].path
        convert(entry, recipe, downloads, target)
        logger.info("converted to %s: %s", entry.files[0].path, recipe.words())
        return [target]
    if entry.is_lequa:  # read from the archives as they are
        for path in downloads:
            _open(path).close()
        return downloads
    return _extract(entry, downloads[0], cache)


def _extract(entry: Entry, archive: Path, cache: Path) -> list[Path]:
    """Unpack the features of all tweet sets: they come in one archive."""
    with _open(archive) as zipped:
        for member in zipped.namelist():
            if member.endswith(".feature.txt") and ".." not in Path(member).parts:
                with zipped.open(member) as stream:
                    _copy(stream, cache / Path(member).relative_to(Path(member).anchor))
    logger.info("unpacked %s", archive.name)
    locations = [locate(file, {"the cache": cache}) for file in entry.files]
    if not all(locations):
        raise ValueError(f"{archive}: does not hold the files of {entry.full_name}")
    return [path for _, path in filter(None, locations)]


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


def download(
    url: str,
    target: Path,
    known: str | None = None,
    *,
    downloader: Downloader | None = None,
    retries: int = 3,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Download a file and return its sha256.

    Parameters
    ----------
    url : str
    target : Path
        Afterwards complete and checked, or as it was before.
    known : str, optional
        The sha256 that the file must have.
    downloader : callable, optional
        By default :func:`resume`.
    retries : int
        How often to try again after a failure.
    sleep : callable
        Waits 1, 2, 4, ... seconds between attempts.

    Raises
    ------
    OSError
        Names the URL, after the last attempt.
    ValueError
        If the downloaded file does not have the sha256.
    """
    part = target.with_name(f"{target.name}.part")
    for attempt in range(retries + 1):
        try:
            return _once(url, target, part, known, downloader or resume)
        except (OSError, ValueError) as error:
            if attempt == retries:
                if isinstance(error, ValueError):
                    raise
                raise OSError(f"{url} could not be downloaded: {error}") from error
            sleep(2.0**attempt)
    raise AssertionError  # retries is never negative: the loop has returned or raised


def _once(url: str, target: Path, part: Path, known: str | None, downloader: Downloader) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    if not (target.exists() and known in (None, sha256(target))):
        downloader(url, part)
        if known not in (None, sha256(part)):
            part.unlink()
            raise ValueError(
                f"{url}: the download does not have the sha256 {known}: it is corrupted, "
                "or the file has changed at its home"
            )
        part.replace(target)
    return sha256(target)


class _PartMismatch(OSError):
    """The part on disk cannot be continued by what the server sends."""


def resume(url: str, part: Path) -> None:
    """Download into ``part``, resuming if the server still has the same file.

    The server's tag of the file (ETag or date) is kept beside the part; without one, or where it
    has changed, the download starts again. An answer that cannot be known to be whole, or that is
    not the part that was asked for, is an OSError: the sha256 of a first download is recorded, so
    that a wrong one would stay for good.
    """
    import requests

    tag = part.with_name(f"{part.name}.tag")
    n_present = part.stat().st_size if part.exists() and tag.exists() else 0
    headers = {"Accept-Encoding": "identity"}
    if n_present:
        headers |= {"Range": f"bytes={n_present}-", "If-Range": tag.read_text()}
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        try:
            size = _answered_size(response, n_present, tag)
        except _PartMismatch:
            tag.unlink(missing_ok=True)
            part.unlink(missing_ok=True)
            raise
        if response.status_code != 206:
            n_present = 0
            _remember(tag, _tag_of(response.headers))
        with part.open("ab" if n_present else "wb") as stream:
            for chunk in response.iter_content(_CHUNK):
                stream.write(chunk)
    _check_size(part, size)
    tag.unlink(missing_ok=True)


def _answered_size(response: Any, n_present: int, tag: Path) -> int | None:
    """Return how long the whole file is by the headers of an answer.

    None if the answer comes in chunks, the last of which says that it is the last. Raises OSError
    for an answer that is no file, or not the part that was asked for.
    """
    headers = response.headers
    if response.status_code == 416:  # the part is as long as the file, or longer: start again
        raise _PartMismatch("the part on disk does not fit the file: start again")
    response.raise_for_status()
    if response.status_code == 206:
        if not n_present:
            raise OSError("the server sent a part of the file, but was asked for all of it")
        return _size_by_range(headers, n_present, tag.read_text())
    if response.status_code != 200:
        raise OSError(f"the server answered {response.status_code} in the place of the file")
    size = _number(headers.get("Content-Length"))
    if size is None and "chunked" not in headers.get("Transfer-Encoding", "").lower():
        raise OSError("the server does not say how long the file is: it may have broken off")
    return size


def _size_by_range(headers: Mapping[str, str], n_present: int, tag: str) -> int:
    """Return the length of the whole file from the headers of a part that was asked for."""
    content = headers.get("Content-Range", "")
    match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", content.strip())
    if match is None or int(match[1]) != n_present:
        raise _PartMismatch(
            f"the server was asked for the bytes from {n_present} and sent {content!r}: start again"
        )
    if _tag_of(headers) not in (None, tag):
        raise _PartMismatch(
            "the file has changed at its home since the download began: start again"
        )
    size = int(match[2]) + 1
    if match[3] not in ("*", str(size)):
        raise _PartMismatch(f"the server sent {content!r}, which is not the rest of the file")
    return size


def _tag_of(headers: Mapping[str, str]) -> str | None:
    return headers.get("ETag") or headers.get("Last-Modified")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None


def _remember(tag: Path, value: str | None) -> None:
    if value is None or value.startswith("W/"):  # a weak tag does not promise the same bytes
        tag.unlink(missing_ok=True)
    else:
        tag.write_text(value)


def _check_size(part: Path, announced: int | None) -> None:
    received = part.stat().st_size
    if received == 0:
        part.unlink()
        raise OSError("the server sent an empty file")
    if announced is not None and received > announced:
        part.unlink()
        raise OSError(f"the server sent {received} bytes of a file of {announced}: start again")
    if announced is not None and received < announced:
        raise OSError(f"broke off after {received} of {announced} bytes")


class Checksums:
    """The sha256 of every file of the cache, recorded at its first download.

    Parameters
    ----------
    cache : Path
        The record is ``checksums.json`` in it.

    Raises
    ------
    ValueError
        If the record is damaged.
    """

    def __init__(self, cache: Path) -> None:
        self.path = cache / "checksums.json"
        self.known = self._read()

    def record(self, name: str, checksum: str) -> None:
        """Keep the checksum of a file, named by its place in the cache.

        What other processes have recorded meanwhile is kept too.
        """
        with locked(self.path):
            self.known = {**self._read(), name: checksum}
            write_whole(self.path, json.dumps(self.known, indent=1, sort_keys=True).encode())

    def _read(self) -> dict[str, str]:
        if not self.path.exists():
            return {}
        try:
            known = json.loads(self.path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{self.path}: damaged ({error}); remove it") from error
        if not isinstance(known, dict) or not all(isinstance(v, str) for v in known.values()):
            raise ValueError(
                f"{self.path}: damaged (it must map names of files to checksums); remove it"
            )
        return known


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


def check(entry: Entry, data_dir: PathLike | None = None) -> list[str]:
    """Return what is wrong with the files of a data set, in sentences; an empty list if nothing is.

    Checked are the sha256, where one is known or was recorded by :func:`fetch`, that the files can
    be read (columns, numbers, labels), and the numbers of rows, features and classes. For LeQua:
    training data, prevalences, the list of bags, and the first and last bag.
    """
    return [*_checksums(entry, roots(data_dir)), *_contents(entry, data_dir)]


def _checksums(entry: Entry, directories: Roots) -> Iterator[str]:
    cache = cache_dir()
    record = {} if cache is None else Checksums(cache).known
    for file in entry.files:
        location = locate(file, directories)
        if location is None:
            unpacked = entry.is_lequa and containers(entry, directories)
            if file.role != "validation" and not unpacked and not entry.bundled:
                yield missing(entry, file, directories)
            continue
        label, path = location
        root = directories[label]
        recorded = record.get(path.relative_to(root).as_posix()) if root == cache else None
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
