"""Opening and writing files: no half files, no half lines, no endless devices.

:func:`write_whole` is the one way in which the library writes a file at once, and it respects what
is at the destination. A regular file is replaced in one step by a complete one with the same
permissions, and temporary files of runs that were killed are removed; links are followed; a pipe or
a device is written to, and stays what it is.
:class:`AppendedFile` grows by whole lines, each of which is on disk before work continues.
:func:`open_regular` opens files that must have an end. :func:`locked` holds a lock between
processes, for files that are read, changed and written again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Self

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl
    import grp
    import pwd

AnyPath = str | os.PathLike[str]
#: How open files of a process are called on Linux and macOS.
_DESCRIPTOR = re.compile(r"(?:/dev/fd|/proc/(\d+)(?:/task/\d+)?/fd)/(\d+)")
#: Links that we follow before we leave the error to the operating system, as Linux does.
_MOST_LINKS = 40
#: Characters of the target's name in the name of a temporary file, which may have 255 bytes.
_MOST_NAME = 40
#: Windows has neither: its pipes do not block when they are opened, and its files are binary
#: only if one asks for it.
_NONBLOCK, _BINARY = getattr(os, "O_NONBLOCK", 0), getattr(os, "O_BINARY", 0)


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
        If the file cannot be opened or written, or is not a regular file: it could not be read
        again to continue.
    """

    def __init__(self, path: AnyPath, name: str, work: str) -> None:
        self.path, self._name, self._work = Path(path), name, work
        try:
            if self.path.exists():
                _check_regular(self.path.stat())
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY
            self._file = os.open(self.path, flags, 0o666)
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
            _write_all(self._file, line)
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

    def __exit__(self, *error: object) -> None:
        self.close()

    def _unwritable(self, error: OSError) -> OSError:
        message = (
            f"cannot write {self._name}: {error.strerror}. Results written so far are kept: "
            f"run the same {self._work} again once the file can be written"
        )
        return type(error)(error.errno, message, str(self.path))


def write_whole(path: AnyPath, data: bytes | str) -> None:
    """Write a file, as UTF-8 if ``data`` is text.

    Parameters
    ----------
    path : path-like
        A symbolic link is followed. A regular file is replaced in one step by a complete one that
        has its permissions; if this fails, it stays as it was. What is not a regular file (a
        pipe, a device, ``/dev/stdout``) is written to.
    data : bytes or str

    Raises
    ------
    OSError
        If the file cannot be written. The message names it.
    """
    # Invalid characters in file names and labels must not prevent a page from being written.
    content = data.encode("utf-8", "replace") if isinstance(data, str) else data
    try:
        descriptor = _open_stream(path)
        if descriptor is None:
            _replace(Path(os.path.realpath(path)), content)
            return
        try:
            _write_all(descriptor, content)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _cannot_write(path, error) from None


def check_writable(path: AnyPath) -> None:
    """Raise OSError if ``path`` cannot be written; called before the result is computed."""
    try:
        if _own_descriptor(path) is not None:
            return
        status, target = _status(path), Path(os.path.realpath(path))
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if status is not None and not _is_writable(path):
            raise PermissionError(errno.EACCES, "it is write-protected")
        if status is not None and not stat.S_ISREG(status.st_mode):
            return
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"there is no folder {target.parent}")
        if not _is_writable(target.parent):
            raise PermissionError(errno.EACCES, f"the folder {target.parent} is not writable")
    except OSError as error:
        raise _cannot_write(path, error) from None


def open_regular(path: AnyPath) -> BinaryIO:
    """Open a regular file to read its bytes.

    Parameters
    ----------
    path : path-like
        Links are followed.

    Returns
    -------
    binary stream

    Raises
    ------
    OSError
        If there is no such file, or if it is a folder, a pipe or a device: reading these may never
        end, and a pipe would even have to wait for its writer to be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | _NONBLOCK | _BINARY)
    try:
        _check_regular(os.fstat(descriptor))
        return open(descriptor, "rb")
    except OSError as error:
        os.close(descriptor)
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None


def _check_regular(status: os.stat_result) -> None:
    """Raise OSError unless this is the status of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file, but a pipe, a socket or a device")


def _cannot_write(path: AnyPath, error: OSError) -> OSError:
    return OSError(error.errno, f"cannot write {os.fspath(path)}: {error.strerror or error}")


def _status(path: AnyPath) -> os.stat_result | None:
    """Return the status of what a path leads to, or None if there is nothing yet."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_writable(path: AnyPath) -> bool:
    effective = os.access in os.supports_effective_ids
    return os.access(path, os.W_OK, effective_ids=effective)


def _open_stream(path: AnyPath) -> int | None:
    """Return a descriptor to write to what is not a regular file; None for files and nothing."""
    number = _own_descriptor(path)
    if number is not None:
        # Opening the path again would start at the beginning of a file that the caller appends to.
        return os.dup(number)
    status = _status(path)
    if status is None or stat.S_ISREG(status.st_mode):
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    return os.open(path, os.O_WRONLY | _BINARY)


def _own_descriptor(path: AnyPath) -> int | None:
    """Return the number of the open file of this process that a path such as /dev/stdout names."""
    place = os.path.join(os.getcwd(), os.fspath(path))
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(place)
        place = os.path.join(os.path.realpath(folder), name)
        match = _DESCRIPTOR.fullmatch(place)
        if match and match[1] in (None, str(os.getpid())):
            return int(match[2])
        if not os.path.islink(place):
            return None
        place = os.path.join(os.path.dirname(place), os.readlink(place))
    return None


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes; a single write may take only some of them."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _replace(target: Path, content: bytes) -> None:
    """Write a regular file under a temporary name beside its target, and move it there."""
    previous = _status(target)
    if previous is not None and not _is_writable(target):
        raise PermissionError(errno.EACCES, "it is write-protected")
    _remove_abandoned(target)
    # Nobody may read the content of a private file, not even before it has its permissions.
    scratch, descriptor = _open_scratch(target, 0o666 if previous is None else 0o600)
    try:
        _write_all(descriptor, content)
        if previous is not None:
            _copy_permissions(previous, descriptor)
        os.fsync(descriptor)
        if sys.platform == "win32":  # where no open file can be moved
            os.close(descriptor)
            descriptor = -1
        os.replace(scratch, target)
    except BaseException:  # KeyboardInterrupt must not leave the scratch file either
        scratch.unlink(missing_ok=True)
        raise
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _open_scratch(target: Path, mode: int) -> tuple[Path, int]:
    """Create the temporary file of a target; it is locked as long as this process has it open."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY  # O_EXCL follows no link
    while True:
        scratch = target.parent / f".{target.name[:_MOST_NAME]}.{secrets.token_hex(4)}.part"
        descriptor = os.open(scratch, flags, mode)
        if sys.platform == "win32":
            return scratch, descriptor
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return scratch, descriptor
        os.close(descriptor)  # another process has removed it before it was locked


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of a target whose processes were killed: those that nobody locks."""
    if sys.platform == "win32":
        return
    name = re.compile(rf"\.{re.escape(target.name[:_MOST_NAME])}\.[0-9a-f]{{8}}\.part")
    for found in os.listdir(target.parent):
        if name.fullmatch(found):
            with contextlib.suppress(OSError):  # locked by a process that is alive, or not ours
                path = target.parent / found
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | _NONBLOCK)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                finally:
                    os.close(descriptor)


def _copy_permissions(status: os.stat_result, descriptor: int) -> None:
    """Give an open file the owner, the group and the permissions of another one."""
    if sys.platform == "win32":
        return
    mode = stat.S_IMODE(status.st_mode) & 0o777
    created = os.fstat(descriptor)
    if (created.st_uid, created.st_gid) != (status.st_uid, status.st_gid):
        try:
            os.fchown(descriptor, status.st_uid, status.st_gid)
        except PermissionError:
            mode &= ~0o070  # These were for another group.
    os.fchmod(descriptor, mode)


def check_private(folder: AnyPath) -> None:
    """Make a folder if there is none, and raise PermissionError if others can change what is in it.

    Permissions of the folder, of those around it and of the files in it are looked at; access
    control lists are not, and on Windows nothing is.
    """
    place = Path(os.path.realpath(folder))
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if sys.platform == "win32":
        return
    for path in (place, *place.iterdir(), *place.parents):
        status = path.lstat()
        mode = status.st_mode
        is_shared = bool(mode & stat.S_IWOTH) or (
            bool(mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)
        )
        # In a sticky folder, such as /tmp, nobody can move what belongs to somebody else.
        is_safe = path in place.parents and bool(mode & stat.S_ISVTX)
        if status.st_uid not in (0, os.geteuid()) or (is_shared and not is_safe):
            raise PermissionError(
                errno.EACCES,
                f"{path} can be changed by others, and what is read from {folder} can run code: "
                "use a folder that only you can write to (chmod go-w)",
            )


def _is_own_group(number: int) -> bool:
    """Return whether a group is that of this user alone: many systems give it the user's name."""
    if sys.platform == "win32":
        return False
    try:
        return grp.getgrgid(number).gr_name == pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False


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
