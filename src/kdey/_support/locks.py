"""Locks between processes, for files that are read, changed and written again."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, named ``path`` with ``.lock`` behind it; wait for other processes.

    The system releases the lock of a process that ends, for whatever reason. The lock file stays,
    because a process that removed it could remove the lock of another one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        # Some network file systems have no locks: nothing is lost there unless two processes
        # write at the same moment.
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                repeat_while_held(lambda: msvcrt.locking(file, msvcrt.LK_LOCK, 1))
            else:
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def repeat_while_held(attempt: Callable[[], None]) -> None:
    """Repeat an attempt to get a lock as long as it fails because another process has the lock.

    Windows waits ten seconds for a lock, and then reports a deadlock.
    """
    while True:
        try:
            return attempt()
        except OSError as error:
            if error.errno != errno.EDEADLK:
                raise
