"""Locks between processes."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

import kdey
from kdey._io import locked, repeat_while_held

#: Takes the lock, says so, and writes a line before it lets go.
HOLD = """
import sys, time
from pathlib import Path
from kdey._io import locked
path = Path(sys.argv[1])
with locked(path):
    print("held", flush=True)
    time.sleep(0.3)
    path.write_text("first")
"""


def test_another_process_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "file"
    source = str(Path(kdey.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {source!r})\n{HOLD}"
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with locked(path):
            assert path.read_text() == "first"


def test_a_wait_that_windows_ends_begins_again() -> None:
    """Windows reports a deadlock after ten seconds, and the work went on without the lock."""
    results = iter([OSError(errno.EDEADLK, "deadlock"), OSError(errno.EDEADLK, "deadlock"), None])
    n_attempts = 0

    def attempt() -> None:
        nonlocal n_attempts
        n_attempts += 1
        error = next(results)
        if error is not None:
            raise error

    repeat_while_held(attempt)
    assert n_attempts == 3


def test_a_system_without_locks_is_not_waited_for() -> None:
    def attempt() -> None:
        raise OSError(errno.ENOLCK, "no locks")

    with pytest.raises(OSError, match="no locks"):
        repeat_while_held(attempt)
