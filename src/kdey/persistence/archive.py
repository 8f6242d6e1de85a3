"""The container of a model file: a zip archive of named bytes, with a checksum for each member.

An archive is written completely or not at all. Its manifest lists the members with their lengths
and checksums, and reading checks both, so that damaged files are refused.
"""

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

from kdey._io import open_regular, write_whole
from kdey.persistence.bounds import MOST_MANIFEST, check_members

#: Version of the format that is written, and the only one that is read until the first release
#: freezes it. It increases with every change of what files contain.
FORMAT = 4
_MANIFEST = "manifest.json"
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


def write_archive(path: Path, members: Mapping[str, bytes], about: Mapping[str, Any]) -> None:
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


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return manifest and members of an archive.

    Parameters
    ----------
    path : Path

    Returns
    -------
    manifest : dict
    members : dict from names to bytes

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
) -> bytes:
    """Return the bytes of a member, or raise if they do not match length and checksum."""
    try:
        # We unpack at most one byte more than the manifest declares, whatever the archive contains.
        with archive.open(name) as stream:
            data = stream.read(bytes + 1)
    except _UNREADABLE:
        raise _damaged(path, name) from None
    if len(data) != bytes or _digest(data) != sha256:
        raise _damaged(path, name)
    return data


def _damaged(path: Path, name: str) -> ModelFileError:
    return ModelFileError(f"{path} is damaged or was changed: {name} does not match its checksum")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    return _digest(json.dumps(manifest, sort_keys=True).encode())
