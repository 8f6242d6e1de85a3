"""The container of a model file, what it may unpack to, and a quantifier as a tree of JSON values.

An archive is written completely or not at all. Its manifest lists the members with their lengths
and checksums, and reading checks both, so that damaged files are refused.

Compression is what makes a small file dangerous: a kilobyte can hold a megabyte of zeros, and a
compressed archive inside a compressed archive a gigabyte. Every size is therefore compared with
the bytes that are really there before anything is unpacked, and every array with its header before
memory is allocated for it. The functions that do so raise ValueError with the second half of a
sentence that begins with the name of the file.

In the tree, numbers, texts, lists and dicts are JSON values themselves; arrays and objects of other
libraries are stored separately and referred to by a number. Objects of this package are written as
the name of their class and their fields, and decoding creates only objects of data classes (frozen
dataclasses and quantifiers). Quantifiers, row maps and matchings that users wrote are created only
if their type is trusted.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from kdey._io import open_regular, write_whole
from kdey.matching import Matching
from kdey.matching.divergence import Generator
from kdey.quantifiers.base import BaseQuantifier
from kdey.rows import RowMap, RowSpec

#: All members together may have this many bytes, or this many times the size of the file if that
#: is more. Labels and weights of training instances are often constant and compress well.
_MOST_BYTES, _MOST_TIMES = 256 << 20, 100
#: The same for members that become Python objects, which take some 20 times the memory of their
#: text. The largest ratio that we saw was 27, for the vocabulary of a text classifier.
_MOST_TEXT, _MOST_TEXT_TIMES = 8 << 20, 50
#: A manifest lists members and classes.
MOST_MANIFEST = 4 << 20
#: Reading a model takes time and memory in proportion to its classes.
MOST_CLASSES = 100_000
#: Methods of compression that zipfile unpacks in bounded memory, and the only ones that we write.
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: Endings of members that become Python objects.
_TEXT = (".json", ".skops")


def check_members(members: Sequence[zipfile.ZipInfo], n_bytes: int) -> None:
    """Raise ValueError if members of an archive are suspiciously large.

    Parameters
    ----------
    members : sequence of ZipInfo
    n_bytes : int
        Size of the archive.
    """
    texts = [member for member in members if member.filename.endswith(_TEXT)]
    for chosen, most, times in (
        (members, _MOST_BYTES, _MOST_TIMES),
        (texts, _MOST_TEXT, _MOST_TEXT_TIMES),
    ):
        # Members may share their bytes: all together, they cannot have more than the archive.
        packed = min(n_bytes, sum(member.compress_size for member in chosen))
        total = sum(member.file_size for member in chosen)
        if total > max(most, times * packed):
            raise ValueError(
                f"would unpack to {total} bytes, many times its own size: kdey.save did not write "
                "it"
            )
    if any(member.compress_type not in _COMPRESSIONS for member in members):
        raise ValueError("uses a method of compression that kdey.save does not use")


def check_skops(data: bytes | bytearray) -> None:
    """Raise ValueError if an archive of skops would unpack to more than its own size.

    :func:`~kdey.persistence.save` writes it without compression, because the model file
    around it is compressed. Only sparse matrices are compressed again, by SciPy.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not stored or sum(member.file_size for member in members) > len(data):
            raise ValueError("it contains a compressed archive, which save does not write")
        for member in members:
            if member.filename.endswith(".npy"):
                with archive.open(member) as stream:
                    check_array_header(stream, member.file_size)
            elif member.filename.endswith(".npz"):
                _check_sparse(archive.read(member))


def _check_sparse(data: bytes) -> None:
    """Raise ValueError if the arrays of a sparse matrix are larger than they may be."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > max(_MOST_TEXT, _MOST_TIMES * len(data)):
            raise ValueError("it contains a sparse matrix many times the size of its bytes")
        for member in members:
            with archive.open(member) as stream:
                check_array_header(stream, member.file_size)


def check_array_header(
    stream: IO[bytes], n_bytes: int
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, Fortran order and dtype of an array whose header matches its bytes.

    NumPy allocates the memory that the header declares before it reads the data.

    Parameters
    ----------
    stream : binary stream at the beginning of the array
    n_bytes : int
        Length of header and data.

    Raises
    ------
    ValueError
        If the header does not match, or entries are not plain data.
    """
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ValueError(f"it contains an array of format {version}, which save does not write")
    size = math.prod(shape)
    # Entries without bytes would cost the file nothing, whatever their number.
    if dtype.hasobject or (dtype.itemsize == 0 and size > 0):
        raise ValueError("it contains an array of entries that are not plain data")
    if size * dtype.itemsize != n_bytes - stream.tell():
        raise ValueError("it contains an array whose header does not match its bytes")
    return shape, is_fortran, dtype


#: Version of the format that is written, and the only one that is read until the first release
#: freezes it. It increases with every change of what files contain.
FORMAT = 7
_MANIFEST = "manifest.json"
#: Bytes of a member that are unpacked at a time.
_PART = 1 << 18
#: The same time stamp for all members, so that equal models give equal files.
TIME_STAMP = (1980, 1, 1, 0, 0, 0)
#: The exceptions of zipfile for bytes that are not an archive, or a damaged one. Besides its own
#: errors there are those of seeking outside the file (OSError, ValueError), of other compression
#: methods (NotImplementedError, those of lzma) and of members with a password (RuntimeError).
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(ValueError, KeyError, IndexError, TypeError, OverflowError, RuntimeError),
)


class ModelFileError(ValueError):
    """The file is not a model file, or it is damaged or of another format."""


def write_archive(
    path: Path, members: Mapping[str, bytes | bytearray], about: Mapping[str, Any]
) -> None:
    """Write members and a manifest to a file, which is replaced only once all is on disk.

    Parameters
    ----------
    path : Path
    members : mapping from names to bytes
    about : mapping
        Further entries of the manifest, as JSON values.
    """
    manifest = {
        "format": FORMAT,
        **about,
        "members": {
            name: {"bytes": len(data), "sha256": _digest(data)} for name, data in members.items()
        },
    }
    text = json.dumps(manifest | {"digest": _manifest_digest(manifest)}, indent=1).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in {_MANIFEST: text, **members}.items():
            archive.writestr(_entry(name), data)
    write_whole(path, buffer.getvalue())


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, TIME_STAMP)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, bytes | bytearray]]:
    """Return manifest and members of an archive.

    Parameters
    ----------
    path : Path

    Returns
    -------
    manifest : dict
    members : dict from names to bytes
        Each is memory of its own that may be written to.

    Raises
    ------
    ModelFileError
        If the file is not a model file, damaged, or of another format.
    OSError
        If the file cannot be opened.
    """
    with _opened(path) as archive:
        manifest = _read_manifest(path, archive)
        _check_sizes(path, archive, manifest["members"])
        return manifest, {
            name: _read_member(path, archive, name, **expected)
            for name, expected in manifest["members"].items()
        }


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of an archive; errors as for :func:`read_archive`."""
    with _opened(path) as archive:
        return _read_manifest(path, archive)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive, and turn errors while it is open into :class:`ModelFileError`."""
    with open_regular(path) as stream:  # The errors of missing or unreadable files pass unchanged.
        try:
            with zipfile.ZipFile(stream) as archive:
                yield archive
        except ModelFileError:
            raise
        except _UNREADABLE as error:
            raise ModelFileError(
                f"{path} is not a kdey model file, or was cut short ({error}); create one with "
                "kdey.save, or on the command line with kdey fit"
            ) from None


def _read_manifest(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    if _MANIFEST in archive.NameToInfo and archive.getinfo(_MANIFEST).file_size > MOST_MANIFEST:
        raise ModelFileError(
            f"{path} is not a kdey model file: its manifest has more than {MOST_MANIFEST} bytes"
        )
    try:
        with archive.open(_MANIFEST) as stream:
            manifest = json.loads(stream.read(MOST_MANIFEST))
        found, digest = int(manifest["format"]), manifest.pop("digest")
        members = manifest["members"]
    except (*_UNREADABLE, AttributeError):
        raise ModelFileError(f"{path} is not a kdey model file: it has no manifest") from None
    if found != FORMAT:
        remedy = "update kdey to read it" if found > FORMAT else "fit the model again and save it"
        raise ModelFileError(
            f"{path} has format {found}, but this kdey reads format {FORMAT}: it was written by "
            f"kdey {manifest.get('kdey', 'of another version')}; {remedy}"
        )
    if digest != _manifest_digest(manifest):
        raise ModelFileError(
            f"{path} was changed since it was written: its manifest does not match its checksum"
        )
    if not _is_member_table(members):
        raise ModelFileError(f"{path} is not a kdey model file: its manifest lists invalid sizes")
    return dict(manifest)


def _is_member_table(members: Any) -> bool:
    """Return whether this maps each member to a length and a checksum, and nothing else."""
    return isinstance(members, dict) and all(
        isinstance(entry, dict)
        and entry.keys() == {"bytes", "sha256"}
        and type(entry["bytes"]) is int
        and entry["bytes"] >= 0  # read(-1) would unpack the whole member
        for entry in members.values()
    )


def _check_sizes(path: Path, archive: zipfile.ZipFile, members: dict[str, Any]) -> None:
    """Raise if members are missing, are not as long as promised, or are suspiciously large."""
    for name, expected in members.items():
        if name not in archive.NameToInfo or archive.getinfo(name).file_size != expected["bytes"]:
            raise _damaged(path, name)
    try:
        check_members([archive.getinfo(name) for name in members], path.stat().st_size)
    except ValueError as error:
        raise ModelFileError(f"{path} {error}") from None


def _read_member(
    path: Path, archive: zipfile.ZipFile, name: str, *, bytes: int, sha256: str
) -> bytearray:
    """Return the bytes of a member, or raise if they do not match length and checksum."""
    data, digest, filled = bytearray(bytes), hashlib.sha256(), 0
    try:
        with archive.open(name) as stream:
            # A part at a time, which is never in memory twice; of a member that is longer than the
            # manifest declares, no more than one part.
            while filled <= bytes and (part := stream.read(_PART)):
                data[filled : filled + len(part)] = part
                digest.update(part)
                filled += len(part)
    except _UNREADABLE:
        raise _damaged(path, name) from None
    if filled != bytes or digest.hexdigest() != sha256:
        raise _damaged(path, name)
    return data


def _damaged(path: Path, name: str) -> ModelFileError:
    return ModelFileError(f"{path} is damaged or was changed: {name} does not match its checksum")


def _digest(data: bytes | bytearray) -> str:
    return hashlib.sha256(data).hexdigest()


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    return _digest(json.dumps(manifest, sort_keys=True).encode())


Node = Any
#: Types that are encoded as parts of a quantifier, whoever wrote them. Everything else (the
#: classifier) is foreign and written by skops.
PART_TYPES = (BaseQuantifier, RowSpec, RowMap, Matching)
#: Rooms of the package whose classes a model file may name.
_ROOMS = (
    *("bags", "calibration", "classifiers", "kernels", "matching", "model", "posteriors"),
    *("quantifiers", "rows", "stacking", "tables", "tuning"),
)
#: What a model file may name of a room that has more than parts of models: other classes of it
#: hold the data of bags, and a few zeros can make one fill the memory.
_ONLY: dict[str, tuple[type, ...]] = {"kdey.matching.": (Matching, Generator)}


class Parts:
    """The objects that a tree refers to by number, and the types that may be created.

    Attributes
    ----------
    arrays : list of arrays
        Arrays whose dtype contains no Python objects.
    foreign : list
        Objects of other libraries (classifiers).
    trusted : set of str
        Names of types outside kdey that may be created, as "module:Class".
    """

    def __init__(
        self,
        arrays: Iterable[NDArray[Any]] = (),
        foreign: Iterable[Any] = (),
        trusted: Iterable[str] = (),
    ) -> None:
        self.arrays, self.foreign, self.trusted = list(arrays), list(foreign), set(trusted)


def encode(value: Any, parts: Parts, where: str = "quantifier") -> Node:
    """Return the node of a value.

    Parameters
    ----------
    value : object
    parts : Parts
        Arrays and foreign objects are appended to it.
    where : str
        Path to the value, for messages.

    Returns
    -------
    JSON value

    Raises
    ------
    TypeError
        If the value is an object of this package that contains more than data.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return value if isinstance(value, int) or math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray | np.generic):
        return _encode_array(np.asarray(value), isinstance(value, np.generic), parts, where)
    if isinstance(value, list | tuple):
        items = [encode(item, parts, f"{where}[{i}]") for i, item in enumerate(value)]
        return {type(value).__name__ if type(value) in (list, tuple) else "list": items}
    if isinstance(value, dict):
        return {
            "dict": [[encode(k, parts, where), encode(v, parts, where)] for k, v in value.items()]
        }
    return _encode_object(value, parts, where)


def _encode_array(array: NDArray[Any], scalar: bool, parts: Parts, where: str) -> Node:
    if array.dtype.hasobject:
        items = [encode(item, parts, where) for item in array.ravel().tolist()]
        return {"objects": items, "shape": list(array.shape)}
    for number, known in enumerate(parts.arrays):
        if known is array:
            return {"array": number}
    parts.arrays.append(array)
    return {"scalar" if scalar else "array": len(parts.arrays) - 1}


def _encode_object(value: Any, parts: Parts, where: str) -> Node:
    kind = type(value)
    if isinstance(value, Pipeline) and _is_inside(type(value.steps[-1][1])):
        # A pool behind the schema of a table: its own parts are encoded one by one.
        steps = [[name, encode(step, parts, f"{where}.{name}")] for name, step in value.steps]
        return {"pipeline": steps}
    if not (_is_inside(kind) or isinstance(value, PART_TYPES)):
        parts.foreign.append(value)
        return {"foreign": len(parts.foreign) - 1}
    name = f"{kind.__module__}:{kind.__qualname__}"
    if isinstance(value, BaseEstimator):
        params = value.get_params(deep=False)
        # Private attributes are recomputed when they are needed.
        state = {
            key: item
            for key, item in vars(value).items()
            if key not in params and not key.startswith("_")
        }
        return {
            "estimator": name,
            "params": {key: encode(item, parts, f"{where}.{key}") for key, item in params.items()},
            "state": {key: encode(item, parts, f"{where}.{key}") for key, item in state.items()},
        }
    if dataclasses.is_dataclass(value):
        fields = {
            f.name: encode(getattr(value, f.name), parts, f"{where}.{f.name}")
            for f in dataclasses.fields(value)
            if f.init
        }
        return {"dataclass": name, "fields": fields}
    raise TypeError(f"{where} is a {kind.__qualname__}, which a model file cannot contain")


def _is_inside(kind: type) -> bool:
    """Return whether a class is one of this package."""
    return kind.__module__.startswith("kdey.")


def decode(node: Node, parts: Parts) -> Any:
    """Return the value of a node.

    Parameters
    ----------
    node : JSON value
    parts : Parts
        The arrays and foreign objects that nodes refer to.

    Returns
    -------
    object

    Raises
    ------
    ValueError
        If the node is not one that :func:`encode` returns, or names a type that is not allowed.
    """
    if node is None or isinstance(node, bool | int | float | str):
        return node
    if not isinstance(node, dict) or not node:
        raise ValueError(f"unknown entry {node!r:.60}")
    kind = next(iter(node))
    if kind not in _DECODERS:
        raise ValueError(f"unknown kind of entry {kind!r:.60}")
    return _DECODERS[kind](node, parts)


def _decode_objects(node: Node, parts: Parts) -> NDArray[Any]:
    array = np.empty(len(node["objects"]), dtype=object)
    array[:] = [decode(item, parts) for item in node["objects"]]
    return array.reshape(node["shape"])


def _decode_estimator(node: Node, parts: Parts) -> Any:
    estimator = _class_of(node["estimator"], parts)(
        **{key: decode(item, parts) for key, item in node["params"].items()}
    )
    for key, item in node["state"].items():
        setattr(estimator, key, decode(item, parts))
    return estimator


def _decode_dataclass(node: Node, parts: Parts) -> Any:
    fields = {key: decode(item, parts) for key, item in node["fields"].items()}
    kind = _class_of(node["dataclass"], parts)
    try:
        return kind(**fields)
    except TypeError as error:  # a field is missing, or unknown
        raise ValueError(f"its parts do not fit together ({error!r:.200})") from error


def types_outside(node: Node) -> set[str]:
    """Return the names of the types outside kdey that a tree contains."""
    names, waiting = set[str](), [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, dict):
            names |= {str(part[key]) for key in ("estimator", "dataclass") if key in part}
            waiting.extend(part.values())
    return {name for name in names if not name.startswith("kdey.")}


def _class_of(name: str, parts: Parts) -> Any:
    """Return a data class by its name; no other attribute of a module can be reached."""
    module, _, qualified = str(name).partition(":")
    inside = f"{module}.".startswith(tuple(f"kdey.{room}." for room in _ROOMS))
    if not (inside or name in parts.trusted) or not qualified.isidentifier():
        raise ValueError(f"a model file must not name {name!r:.80}")
    try:
        kind = getattr(import_module(module), qualified)
    except (ImportError, AttributeError):
        raise ValueError(f"there is no {name!r:.80} in this environment") from None
    is_class = isinstance(kind, type)
    has_data = dataclasses.is_dataclass(kind) or (is_class and issubclass(kind, BaseEstimator))
    is_part = inside or (is_class and issubclass(kind, PART_TYPES))
    allowed = is_class and has_data and is_part and _is_part_of_a_model(kind)
    if not (allowed and kind.__module__ == module):
        raise ValueError(f"a model file must not name {name!r:.80}")
    return kind


def _is_part_of_a_model(kind: type) -> bool:
    """Return whether a class is none of those that hold the data of bags (``_ONLY``)."""
    return all(
        issubclass(kind, parts) for room, parts in _ONLY.items() if kind.__module__.startswith(room)
    )


_DECODERS = {
    "float": lambda node, parts: float(node["float"]),
    "list": lambda node, parts: [decode(item, parts) for item in node["list"]],
    "tuple": lambda node, parts: tuple(decode(item, parts) for item in node["tuple"]),
    "dict": lambda node, parts: {
        decode(key, parts): decode(item, parts) for key, item in node["dict"]
    },
    "array": lambda node, parts: parts.arrays[node["array"]],
    "scalar": lambda node, parts: parts.arrays[node["scalar"]][()],
    "objects": _decode_objects,
    "foreign": lambda node, parts: parts.foreign[node["foreign"]],
    "pipeline": lambda node, parts: Pipeline(
        [(str(name), decode(step, parts)) for name, step in node["pipeline"]]
    ),
    "estimator": _decode_estimator,
    "dataclass": _decode_dataclass,
}
