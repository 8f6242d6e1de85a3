"""Files that grow by whole lines: each is on disk before work goes on, and none is left half.

Files that appear whole or not at all: written by another name, then moved into place.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Self


class AppendedFile:
    """A file open for appending.

    Parameters
    ----------
    path : path of the file; made where it does not exist
    name, work : str
        What messages call the file, and what to run again once it can be written.
    """

    def __init__(self, path: str | os.PathLike[str], name: str, work: str) -> None:
        self.path, self._name, self._work = Path(path), name, work
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise self._unwritable(error) from error

    def cut(self, size: int) -> None:
        """Cut off what stands after ``size`` bytes: a last write that was cut short."""
        if size < os.fstat(self._file).st_size:
            os.ftruncate(self._file, size)

    def write(self, line: bytes) -> None:
        """Append a line; it is on disk when this returns, and not at all where it cannot be."""
        before = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            if written < len(line):  # raises where there is no space for the rest
                os.write(self._file, line[written:])
            os.fsync(self._file)
        except OSError as error:
            # Without the broken end the file is valid, and holds all that was finished.
            os.ftruncate(self._file, before)
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _unwritable(self, error: OSError) -> OSError:
        message = (
            f"cannot write {self._name}: {error.strerror}. What was finished before stays in it: "
            f"run the same {self._work} again once it can be written"
        )
        return type(error)(error.errno, message, str(self.path))


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
