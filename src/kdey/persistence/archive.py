"""A zip archive of named bytes with a checksum for each, written whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kdey._support.files import write_whole

#: Raised when a file of an earlier version can no longer be read by the code as it is.
FORMAT = 1
_MANIFEST = "manifest.json"
#: One moment for all members, so that equal models are equal files.
_MOMENT = (1980, 1, 1, 0, 0, 0)
#: What zipfile raises for bytes that are no archive, or a damaged one: besides its own errors those
#: of seeking to a place that is none (OSError, ValueError), of another compression
#: (NotImplementedError, lzma's) and of a member that wants a password (RuntimeError).
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(ValueError, KeyError, IndexError, TypeError, OverflowError, RuntimeError),
)
#: Members may promise this many bytes, or this many times those of the file where that is more: a
#: file of zeros alone could fill the memory otherwise.
_SMALL, _LARGEST_RATIO = 256 << 20, 100
_LARGEST_MANIFEST = 16 << 20


class ModelFileError(ValueError):
    """The file is not a model file, or a damaged or newer one."""


def write_archive(path: Path, members: Mapping[str, bytes], about: Mapping[str, Any]) -> None:
    """Write the members and a manifest to ``path``, replacing it only once all is on disk."""
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
    entry = zipfile.ZipInfo(name, _MOMENT)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return manifest and members; anything amiss raises :class:`ModelFileError`."""
    with _opened(path) as archive:
        manifest = _read_manifest(path, archive)
        _check_size(path, manifest["members"])
        return manifest, {
            name: _read_member(path, archive, name, **expected)
            for name, expected in manifest["members"].items()
        }


def read_manifest(path: Path) -> dict[str, Any]:
    """Return what a model file says of itself."""
    with _opened(path) as archive:
        return _read_manifest(path, archive)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    with path.open("rb") as stream:  # a file that is not there, or not ours to read, says so itself
        try:
            with zipfile.ZipFile(stream) as archive:
                yield archive
        except ModelFileError:
            raise
        except _UNREADABLE as error:
            raise ModelFileError(
                f"{path} is not a kdey model file, or was cut short ({error}); make one with save, "
                "or on the command line with kdey fit"
            ) from None


def _read_manifest(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    try:
        with archive.open(_MANIFEST) as stream:
            manifest = json.loads(stream.read(_LARGEST_MANIFEST))
        version, digest = int(manifest["format"]), manifest.pop("digest")
        members = manifest["members"]
    except (*_UNREADABLE, AttributeError):
        raise ModelFileError(f"{path} is not a kdey model file: it has no manifest") from None
    if version > FORMAT:
        raise ModelFileError(
            f"{path} has format {version}, and this kdey reads up to {FORMAT}: it was written by "
            f"kdey {manifest.get('kdey', 'of a later version')}; update kdey to read it"
        )
    if digest != _manifest_digest(manifest):
        raise ModelFileError(
            f"{path} was changed since it was written: its manifest does not match"
        )
    if not _is_table(members):
        raise ModelFileError(f"{path} is not a kdey model file: it gives sizes that are none")
    return dict(manifest)


def _is_table(members: Any) -> bool:
    """Whether this tells a length and a checksum of each member, and nothing else."""
    return isinstance(members, dict) and all(
        isinstance(told, dict)
        and told.keys() == {"bytes", "sha256"}
        and type(told["bytes"]) is int
        and told["bytes"] >= 0  # a negative length would unpack all there is
        for told in members.values()
    )


def _check_size(path: Path, members: dict[str, Any]) -> None:
    promised = sum(expected["bytes"] for expected in members.values())
    if promised > max(_SMALL, _LARGEST_RATIO * path.stat().st_size):
        raise ModelFileError(
            f"{path} would unpack to {promised} bytes, many times its own size: it is not a model "
            "that save wrote"
        )


def _read_member(
    path: Path, archive: zipfile.ZipFile, name: str, *, bytes: int, sha256: str
) -> bytes:
    damaged = ModelFileError(
        f"{path} is damaged or was changed: {name} does not match its checksum"
    )
    try:
        # No more than was promised is unpacked, whatever the archive holds.
        with archive.open(name) as stream:
            data = stream.read(bytes + 1)
    except _UNREADABLE:
        raise damaged from None
    if len(data) != bytes or _digest(data) != sha256:
        raise damaged
    return data


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    return _digest(json.dumps(manifest, sort_keys=True).encode())
