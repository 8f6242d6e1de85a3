"""Files that appear whole or not at all, whatever is at their destination."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdey._io import AppendedFile, check_writable, open_regular, write_whole

posix = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and modes of Unix")


def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.csv.gz"
    write_whole(target, b"old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_whole(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv.gz"]


def test_texts_are_utf8_and_files_are_ordinary(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    write_whole(target, "f\u00fcr \udcff")
    assert target.read_bytes() == b"f\xc3\xbcr ?"
    plain = tmp_path / "plain"
    plain.write_text("")
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    nowhere = tmp_path / "none" / "a.txt"
    with pytest.raises(OSError, match=r"cannot write .*a\.txt"):
        write_whole(nowhere, b"")
    with pytest.raises(OSError, match="there is no folder"):
        check_writable(nowhere)
    with pytest.raises(OSError, match="it is a folder"):
        check_writable(tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@posix
def test_links_are_followed(tmp_path: Path) -> None:
    """A link was replaced by a file, and what it led to kept its old content."""
    (tmp_path / "there").mkdir()
    real = tmp_path / "there" / "real.csv"
    real.write_bytes(b"old")
    (tmp_path / "first").symlink_to(real)
    (tmp_path / "second").symlink_to("first")
    (tmp_path / "dangling").symlink_to("there/new.csv")
    write_whole(tmp_path / "first", b"one")
    assert real.read_bytes() == b"one"
    write_whole(tmp_path / "second", b"two")
    assert real.read_bytes() == b"two"
    check_writable(tmp_path / "dangling")
    write_whole(tmp_path / "dangling", b"three")
    assert (tmp_path / "there" / "new.csv").read_bytes() == b"three"
    assert all((tmp_path / name).is_symlink() for name in ("first", "second", "dangling"))
    assert names(tmp_path / "there") == ["new.csv", "real.csv"]


@posix
def test_links_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "lost").symlink_to("none/x")
    for name in ("a", "lost"):
        for write in (check_writable, lambda path: write_whole(path, b"x")):
            with pytest.raises(OSError, match=f"cannot write .*{name}"):
                write(tmp_path / name)
    assert names(tmp_path) == ["a", "b", "lost"]


@posix
def test_a_pipe_stays_one_and_its_reader_gets_all(tmp_path: Path) -> None:
    pipe, data = tmp_path / "pipe", os.urandom(300_000)  # more than a pipe holds
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    check_writable(pipe)
    write_whole(pipe, data)
    reader.join(60)
    assert received == [data]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


@posix
def test_devices_stay_devices(tmp_path: Path) -> None:
    before = os.stat(os.devnull)
    (tmp_path / "nothing").symlink_to(os.devnull)
    for path in (os.devnull, tmp_path / "nothing"):
        check_writable(path)
        write_whole(path, b"x" * 1000)
    after = os.stat(os.devnull)
    assert stat.S_ISCHR(after.st_mode)
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    assert names(tmp_path) == ["nothing"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_device_is_an_error() -> None:
    with pytest.raises(OSError, match=r"cannot write /dev/full: No space") as caught:
        write_whole("/dev/full", b"x")
    assert caught.value.errno == errno.ENOSPC
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="no /dev/stdout")
def test_standard_output_by_its_name(tmp_path: Path) -> None:
    """A pipe, a file that the shell appends to, and a file that has lost its name."""
    code = "from kdey._io import write_whole; write_whole('/dev/stdout', b'new')"
    command = [sys.executable, "-c", code]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(command, stdout=subprocess.PIPE, env=env, check=True).stdout == b"new"
    log = tmp_path / "log"
    log.write_bytes(b"old ")
    with log.open("ab") as stream:
        subprocess.run(command, stdout=stream, env=env, check=True)
    assert log.read_bytes() == b"old new"
    with log.open("r+b") as stream:
        log.unlink()
        subprocess.run(command, stdout=stream, env=env, check=True)
        stream.seek(0)
        assert stream.read() == b"new new"
    assert names(tmp_path) == []


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666])
def test_a_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    """A private model file became readable for all when it was written again."""
    target = tmp_path / "model.kdey"
    target.write_bytes(b"old")
    target.chmod(mode)
    write_whole(target, b"new")
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == mode


@posix
def test_a_private_file_is_never_readable_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, modes, write = tmp_path / "m", list[int](), os.write
    target.touch(0o600)

    def spy(descriptor: int, data: bytes) -> int:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", spy)
    write_whole(target, b"secret")
    assert modes == [0o600]


def test_long_names(tmp_path: Path) -> None:
    """The temporary name was longer than the name of a file may be."""
    target = tmp_path / ("\u00e4" * 120)
    write_whole(target, b"x")
    assert target.read_bytes() == b"x"


@pytest.fixture
def shared() -> Iterator[Path]:
    """Return a folder that any user can reach, and be somebody else than root in it."""
    if sys.platform == "win32":
        pytest.skip("permissions of Unix")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "inside").mkdir()
        (folder / "inside" / "file").write_bytes(b"old")
        (folder / "inside").chmod(0o555)
        root = os.geteuid() == 0
        try:
            if root:
                os.seteuid(65534)
            yield folder / "inside"
        finally:
            if root:
                os.seteuid(0)
            (folder / "inside").chmod(0o755)


def test_a_folder_that_is_not_writable(shared: Path) -> None:
    for write in (check_writable, lambda path: write_whole(path, b"x")):
        with pytest.raises(PermissionError, match=r"cannot write .*new"):
            write(shared / "new")
    assert names(shared) == ["file"]


def test_a_write_protected_file_is_not_replaced(shared: Path) -> None:
    protected = shared / "file"
    if os.geteuid() != 65534:
        shared.chmod(0o755)
        protected.chmod(0o444)
    for write in (check_writable, lambda path: write_whole(path, b"x")):
        with pytest.raises(PermissionError, match="it is write-protected"):
            write(protected)
    assert protected.read_bytes() == b"old"


@posix
def test_only_regular_files_are_opened_to_read(tmp_path: Path) -> None:
    """A pipe without a writer blocked, and a device that never ends filled the memory."""
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link") as stream:
        assert stream.read() == b"x"
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match=r"regular|directory") as caught:
            open_regular(path)
        assert caught.value.filename == str(path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")


@posix
def test_only_regular_files_grow_by_lines(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path(os.devnull)):
        with pytest.raises(OSError, match="cannot write the log: not a regular file"):
            AppendedFile(path, "the log", "search")
    (tmp_path / "link").symlink_to("log")
    with AppendedFile(tmp_path / "link", "the log", "search") as log:
        log.write(b"a line\n")
    assert (tmp_path / "log").read_bytes() == b"a line\n"


#: Stops in the middle of writing, while its temporary file is there.
WRITING = """
import os, sys, time
from kdey import _io
def wait(descriptor):
    print("writing", flush=True)
    time.sleep(60)
os.fsync = wait
_io.write_whole(sys.argv[1], b"half")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files that are open cannot be removed")
def test_temporary_files_of_killed_runs_are_removed_and_those_of_live_ones_not(
    tmp_path: Path,
) -> None:
    target = tmp_path / "h.parquet"
    others = [tmp_path / ".other.0123abcd.part", tmp_path / ".h.parquet.part"]
    for other in others:
        other.write_bytes(b"")
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITING, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        (scratch,) = tmp_path.glob(".h.parquet.*.part")
        write_whole(target, b"first")
        assert scratch.exists(), "a live run lost its file"
        process.kill()
    write_whole(target, b"second")
    assert target.read_bytes() == b"second"
    assert sorted(tmp_path.iterdir()) == sorted([target, *others])
