"""Files that appear whole or not at all: written by another name, then moved into place."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write a file; a failure leaves what was there before. Texts are UTF-8."""
    target = Path(path)
    # Broken characters of file names and labels must not keep a page from being written.
    content = data.encode("utf-8", "replace") if isinstance(data, str) else data
    scratch = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
    try:
        try:
            with open(scratch, "xb") as stream:  # never through a link, with the user's own mask
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(scratch, target)
        except BaseException:  # a KeyboardInterrupt too must not leave the scratch behind
            scratch.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror or error}") from None


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise where ``path`` cannot be written, before the work whose result goes there."""
    target = Path(path)
    if target.is_dir():
        raise OSError(f"cannot write {path}: it is a folder")
    if not target.parent.is_dir():
        raise OSError(f"cannot write {path}: there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise OSError(f"cannot write {path}: the folder {target.parent} is not writable")
