"""Where data files lie, and how they are read.

Files lie in a directory of the user's, in ``$KDEY_DATA``, or in the download cache. :func:`locate`
finds one file, compressed or not. A :class:`Tree` reads files that lie in a directory, in zip
archives, or in some of each, as the LeQua tasks do. CSV tables, svmlight-like text and the files of
LeQua (numbers, documents, prevalences and names of classes) are read in one pass of NumPy; only
when that fails is the file read cell by cell, to name the line and column that is wrong.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile, ZipFile
from zlib import error as ZlibError

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from kdey.datasets.registry import DataFile, Entry
from kdey.simplex import SUM_TOLERANCE

PathLike = str | os.PathLike[str]
#: From the name of a file to its content.
Reader = Callable[[str], bytes]
#: Folder that the published archive of the tweets unpacks to.
_TWEETS_ARCHIVE = "tweet_sentiment_quantification_snam"


#: Directories to look in, first one first, by what to call them in messages and results.
Roots: TypeAlias = Mapping[str, Path]


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
    """Return where ``kdey data fetch`` puts files, or None where its extra is not installed."""
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
            f" Run `kdey data fetch {entry.full_name}`, or download {' and '.join(entry.urls)}"
        )
        message += f" by hand (described at {entry.page})"
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


Array = NDArray[np.float64]
#: Columns at the right end that are not features.
_SPECIAL = ("split", "label")
#: A colon at the edge of a cell, or two in one.
_ODD = re.compile(r"(?:^|\s):|:(?:\s|$)|:[^\s:]*:")


@dataclass(frozen=True, eq=False)
class Table:
    """The content of a CSV file.

    Attributes
    ----------
    columns : tuple of str, length d
    numbers : float64 array of shape (n, d - number of word columns)
        The numeric columns, in order.
    words : dict from column to array of str of shape (n,)
        The categorical columns.
    labels : array of shape (n,)
        Integers where every label is one, else text.
    split : array of str of shape (n,) or None
        The part, "train" or "test", that the source assigns each row to.
    """

    columns: tuple[str, ...]
    numbers: Array
    words: dict[str, NDArray[np.str_]]
    labels: NDArray[Any]
    split: NDArray[np.str_] | None


def read_table(path: Path, categorical: Sequence[str] = ()) -> Table:
    """Return a table; ``categorical`` names the columns that hold words.

    Raises
    ------
    ValueError
        Names the file and, where possible, the line and the column.
    """
    lines = read_lines(path)
    header = _header(path, lines)
    d = len(header) - (2 if "split" in header else 1)
    quoted = any('"' in line for line in lines)
    ragged = any(line.count(",") != len(header) - 1 for line in lines)
    rows: list[list[str]] | None = None
    if quoted or ragged or categorical:
        rows = _cells(path, lines, len(header))
        numbers = _careful_numbers(path, rows, header, d, categorical)
        tails = [row[d:] for row in rows]
    else:
        numbers = _fast_numbers(path, lines, header, d)
        tails = [line.rsplit(",", len(header) - d)[1:] for line in lines[1:]]
    words = {
        column: np.array([row[header.index(column)] for row in rows or []])
        for column in categorical
    }
    labels = _labels(path, [tail[-1].strip() for tail in tails])
    split = _split(path, [tail[0].strip() for tail in tails]) if "split" in header else None
    return Table(tuple(header[:d]), numbers, words, labels, split)


def _header(path: Path, lines: list[str]) -> list[str]:
    if not lines:
        raise ValueError(f"{path}: the file is empty")
    _, first = next(_parsed(path, lines[:1]))
    header = [name.strip() for name in first] or [""]
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


def _cells(path: Path, lines: Iterable[str], width: int) -> list[list[str]]:
    """Return the rows as text, each of the width of the header."""
    parsed = _parsed(path, lines)
    next(parsed)
    rows = []
    for number, row in parsed:
        if len(row) != width:
            raise ValueError(f"{path}, line {number}: {len(row)} cells, the header has {width}")
        rows.append(row)
    return rows


def _parsed(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Iterate over the line number and the cells of each row."""
    reader = csv.reader(lines)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: not CSV ({error})") from error


def _fast_numbers(path: Path, lines: list[str], header: list[str], d: int) -> Array:
    try:
        numbers = np.loadtxt(lines[1:], delimiter=",", usecols=range(d), ndmin=2, comments=None)
    except ValueError:
        return _careful_numbers(path, _cells(path, lines, len(header)), header, d, ())
    # NumPy leaves out blank lines; here they would have too few cells.
    if np.isfinite(numbers).all() and len(numbers) == len(lines) - 1:
        return numbers
    return _careful_numbers(path, _cells(path, lines, len(header)), header, d, ())


def _careful_numbers(
    path: Path, rows: list[list[str]], header: list[str], d: int, categorical: Sequence[str]
) -> Array:
    """Return the numeric columns, one cell at a time."""
    unknown = set(categorical) - set(header[:d])
    if unknown:
        raise ValueError(f"{path}, line 1: there is no column {min(unknown)!r}")
    numeric = [j for j in range(d) if header[j] not in categorical]
    numbers = np.empty((len(rows), len(numeric)))
    for i, row in enumerate(rows):
        for at, j in enumerate(numeric):
            try:
                numbers[i, at] = float(row[j])
            except ValueError:
                numbers[i, at] = np.nan
            if not np.isfinite(numbers[i, at]):
                raise ValueError(
                    f"{path}, line {i + 2}, column {header[j]!r}: {row[j]!r} is not a finite number"
                )
    return numbers


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
    split_lines = [_split_line(line) for line in read_lines(path)]
    heads = tuple(head for head, _ in split_lines if head)
    tails = tuple(tail for head, tail in split_lines if head)
    if not heads:
        raise ValueError(f"{path}: the file is empty")
    joined = " ".join(tails)
    try:
        labels = np.array(heads, dtype=np.int64)
        flat = np.array(joined.replace(":", " ").split(), dtype=np.float64)
        sane = bool(np.isfinite(flat).all()) and len(flat) == 2 * joined.count(":")
    except (ValueError, OverflowError):
        sane = False
    # The total may be right and yet hide "1: 2:3" or "1:2:3 4".
    if not sane or _ODD.search(joined) or not _whole(flat[::2]):
        raise ValueError(_first_fault(path, split_lines))
    columns, values = flat[::2], flat[1::2]
    lengths = np.array([tail.count(":") for tail in tails])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    width = int(columns.max()) if len(columns) else 0
    features = sp.csr_array((values, columns.astype(np.int64) - 1, offsets), (len(heads), width))
    features.sort_indices()
    return features, labels


def _split_line(line: str) -> tuple[str, str]:
    """Return the label and the rest of a line; both are empty for a blank one."""
    label, _, rest = line.partition("#")[0].replace("\t", " ").strip().partition(" ")
    return label, rest


def _whole(columns: NDArray[np.float64]) -> bool:
    return bool((columns >= 1).all() and (columns == np.floor(columns)).all())


def _first_fault(path: Path, split_lines: list[tuple[str, str]]) -> str:
    """Return a message on the first cell that is wrong."""
    for number, (head, tail) in enumerate(split_lines, start=1):
        where = f"{path}, line {number}"
        if head and not _is_whole_number(head):
            return f"{where}: the label {head!r} is not an integer"
        for cell in tail.split():
            if not _is_pair(cell):
                return f"{where}: {cell!r} is not of the form column:value (columns from 1)"
    return f"{path}: not of the form `label column:value ...`"


def _is_whole_number(text: str) -> bool:
    try:
        return abs(int(text)) < 2**62
    except ValueError:
        return False


def _is_pair(cell: str) -> bool:
    column, colon, value = cell.partition(":")
    try:
        return bool(colon) and int(column) >= 1 and bool(np.isfinite(float(value)))
    except ValueError:
        return False


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


Indices = NDArray[np.int64]
#: Column of the documents, and that of the labels in front of documents and numbers.
TEXT, LABEL = "text", "label"


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
    return _numbers(lines[1:], where)


def _numbers(lines: list[str], where: str) -> Array:
    try:
        numbers = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None)
        if np.isfinite(numbers).all() and len(numbers) == len(lines):
            return numbers
    except ValueError:
        pass
    for number, line in enumerate(lines, start=2):
        for column, cell in enumerate(line.split(","), start=1):
            if not _is_finite(cell):
                raise ValueError(
                    f"{where}, line {number}, column {column}: {cell!r} is not a finite number"
                )
    raise ValueError(f"{where}: not a table of numbers")


def _is_finite(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


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
