"""A zip archive of named bytes with a checksum for each, written whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kdey.writing import write_whole

#: Raised when a file of an earlier version can no longer be read by the code as it is.
FORMAT = 1
_MANIFEST = "manifest.json"
#: One moment for all members, so that equal models are equal files.
_MOMENT = (1980, 1, 1, 0, 0, 0)
#: What zipfile raises for bytes that are no archive, or a damaged one.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError)


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
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _read_manifest(path, archive)
            return manifest, {
                name: _read_member(path, archive, name, **expected)
                for name, expected in manifest["members"].items()
            }
    except _UNREADABLE as error:
        raise ModelFileError(
            f"{path} is not a kdey model file, or was cut short ({error}); make one with save, or "
            "on the command line with kdey fit"
        ) from None


def read_manifest(path: Path) -> dict[str, Any]:
    """Return what a model file says of itself."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_manifest(path, archive)
    except _UNREADABLE as error:
        raise ModelFileError(f"{path} is not a kdey model file ({error})") from None


def _read_manifest(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    try:
        manifest = json.loads(archive.read(_MANIFEST))
        version, digest = int(manifest["format"]), manifest.pop("digest")
        members = manifest["members"]
    except (KeyError, ValueError, TypeError, AttributeError):
        raise ModelFileError(f"{path} is not a kdey model file: it has no manifest") from None
    if version > FORMAT:
        raise ModelFileError(
            f"{path} has format {version}, and this kdey reads up to {FORMAT}: it was written by "
            f"kdey {manifest.get('kdey', 'of a later version')}; update kdey to read it"
        )
    if digest != _manifest_digest(manifest) or not _is_table(members):
        raise ModelFileError(
            f"{path} was changed since it was written: its manifest does not match"
        )
    return dict(manifest)


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
    except (KeyError, OSError, *_UNREADABLE):
        raise damaged from None
    if len(data) != bytes or _digest(data) != sha256:
        raise damaged
    return data


def _is_table(members: Any) -> bool:
    """Whether this tells a length and a checksum of each member, and nothing else."""
    return isinstance(members, dict) and all(
        isinstance(told, dict)
        and told.keys() == {"bytes", "sha256"}
        and type(told["bytes"]) is int
        and told["bytes"] >= 0  # a negative length would unpack all there is
        for told in members.values()
    )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    return _digest(json.dumps(manifest, sort_keys=True).encode())
