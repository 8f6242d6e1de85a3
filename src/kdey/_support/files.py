"""Writing files so that an interruption never leaves half a file or half a line.

:class:`AppendedFile` grows by whole lines, each of which is on disk before work continues.
:func:`write_whole` writes a file under a temporary name and then moves it into place.
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
    path : str or path
        Created if it does not exist.
    name : str
        What messages call the file.
    work : str
        What the user should run again if writing fails.

    Raises
    ------
    OSError
        If the file cannot be opened or written.
    """

    def __init__(self, path: str | os.PathLike[str], name: str, work: str) -> None:
        self.path, self._name, self._work = Path(path), name, work
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise self._unwritable(error) from error

    def cut(self, size: int) -> None:
        """Remove everything after ``size`` bytes: an incomplete last line."""
        if size < os.fstat(self._file).st_size:
            os.ftruncate(self._file, size)

    def write(self, line: bytes) -> None:
        """Append a line, which is on disk when this returns; on failure nothing is appended."""
        before = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            if written < len(line):  # raises if there is no space for the rest
                os.write(self._file, line[written:])
            os.fsync(self._file)
        except OSError as error:
            # Without the incomplete line the file is valid and has all results so far.
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
            f"cannot write {self._name}: {error.strerror}. Results written so far are kept: "
            f"run the same {self._work} again once the file can be written"
        )
        return type(error)(error.errno, message, str(self.path))


def write_whole(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write a file, as UTF-8 if ``data`` is text; a failure leaves the previous file unchanged.

    Raises OSError if the file cannot be written.
    """
    target = Path(path)
    # Invalid characters in file names and labels must not prevent a page from being written.
    content = data.encode("utf-8", "replace") if isinstance(data, str) else data
    scratch = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
    try:
        try:
            with open(scratch, "xb") as stream:  # "x" follows no link and respects the umask
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(scratch, target)
        except BaseException:  # KeyboardInterrupt must not leave the scratch file either
            scratch.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror or error}") from None


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError if ``path`` cannot be written; called before the result is computed."""
    target = Path(path)
    if target.is_dir():
        raise OSError(f"cannot write {path}: it is a folder")
    if not target.parent.is_dir():
        raise OSError(f"cannot write {path}: there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise OSError(f"cannot write {path}: the folder {target.parent} is not writable")
