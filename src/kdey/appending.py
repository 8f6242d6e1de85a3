"""Files that grow by whole lines: each is on disk before work goes on, and none is left half."""

from __future__ import annotations

import os
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
