"""How commands end: exit codes, signals, closed outputs, and outputs that are not plain files."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kdey.cli.model_commands
from kdey.cli import terminal

from .cases import rows, run, without, write

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes of Unix")
PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
#: The command line in a process whose writing takes a minute, and says when it begins.
SLOW = """
import os, signal, sys, time

# Who runs the tests may ignore these, as nohup does.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)

def slow(descriptor):
    print("writing", flush=True)
    time.sleep(60)

if os.environ.pop("SLOW", None):
    os.fsync = slow
from kdey.cli import main
main()
"""


def process(*arguments: Any, slow: bool = False, **options: Any) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "SLOW": "1" if slow else ""}
    command = [sys.executable, "-c", SLOW, *map(str, arguments)]
    return subprocess.Popen(command, env=env, text=True, stderr=subprocess.PIPE, **options)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write(tmp_path / "t.csv", without(rows(), "kind"))


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_with_its_code_and_leaves_no_half_file(
    model: Path, table: Path, tmp_path: Path, name: str
) -> None:
    """Ctrl-C had the code of groups that do not fit; SIGTERM left a temporary file."""
    target = tmp_path / "o.csv"
    target.write_text("old")
    number = getattr(signal, name)
    arguments = ("estimate", model, table, "-o", target)
    with process(*arguments, slow=True, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "writing\n"
        running.send_signal(number)
        error = running.communicate(timeout=50)[1]
    assert running.returncode == 128 + number
    assert "Traceback" not in error
    assert target.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["o.csv", "t.csv"]


@posix
def test_a_signal_that_is_ignored_stays_so(model: Path) -> None:
    """``nohup kdey ...`` goes on when the terminal is closed."""
    code = """
import atexit, signal

signal.signal(signal.SIGHUP, signal.SIG_IGN)
atexit.register(lambda: print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN))
from kdey.cli import main
main()
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, "inspect", str(model)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.stdout.endswith("True\n"), done.stderr


@posix
@pytest.mark.parametrize(
    ("words", "how"),
    [
        (("inspect",), "no reader"),
        (("--help",), "no reader"),
        (("estimate", "--format", "parquet"), "closed"),
        (("--version",), "closed"),
        (("inspect",), "full"),
    ],
)
def test_output_that_cannot_be_written(
    model: Path, table: Path, words: tuple[str, ...], how: str
) -> None:
    """``| head -0`` ended with code 1 or a traceback, ``>&-`` with nothing written and code 0."""
    files = {"inspect": (model,), "estimate": (model, table)}.get(words[0], ())
    if how == "full" and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    reading, writing = os.pipe()
    os.close(reading)
    stdout = writing if how != "full" else os.open("/dev/full", os.O_WRONLY)
    command: list[Any] = [words[0], *files, *words[1:]]
    options: dict[str, Any] = {"stdout": stdout}
    if how == "closed":
        options = {"preexec_fn": lambda: os.close(1)}
    with process(*command, **options) as running:
        error = running.communicate(timeout=300)[1]
    os.close(writing)
    if stdout != writing:
        os.close(stdout)
    assert running.returncode == 2, error
    lines = [line for line in error.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, error
    assert lines[0].startswith("Error: cannot write to standard output: "), error
    assert "Traceback" not in error
    assert "Exception ignored" not in error


@posix
def test_nobody_reads_the_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "kdey.cli", "inspect", str(tmp_path / "none")]
    assert subprocess.run(command, stderr=writing, env=env).returncode == 2
    os.close(writing)


@posix
def test_standard_error_may_be_closed(model: Path, table: Path) -> None:
    """The first file that was opened became standard error, and messages were written into it."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "kdey.cli", "estimate", str(model), str(table)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, env=env, text=True, preexec_fn=lambda: os.close(2)
    )
    assert done.returncode == 0
    assert done.stdout.startswith("class,n,")


@posix
def test_outputs_of_every_command_respect_their_destination(
    model: Path, table: Path, tmp_path: Path
) -> None:
    """Links are followed and private files stay private: models, tables and reports."""
    labelled = write(tmp_path / "l.csv", without(rows(), "shop", "day"))
    small = ("--bags", 2, "--bag-size", 5)
    commands: dict[str, tuple[Any, ...]] = {
        "m.kdey": ("fit", labelled, "--label", "kind", "--method", "pcc", "-o"),
        "o.csv": ("estimate", model, table, "-o"),
        "r.html": ("report", model, table, "-o"),
        "e.parquet": ("evaluate", labelled, "--label", "kind", "--methods", "cc", *small, "-o"),
    }
    for name, command in commands.items():
        link, target = tmp_path / f"link-{name}", tmp_path / f"real-{name}"
        link.symlink_to(target.name)
        target.touch(0o600)
        done = run(*command, link)
        assert done.exit_code == 0, done.output
        assert link.is_symlink(), name
        assert target.stat().st_size > 0, name
        assert stat.S_IMODE(target.stat().st_mode) == 0o600, name
        done = run(*command, os.devnull, *(("--format", "csv") if "." not in os.devnull else ()))
        assert stat.S_ISCHR(os.stat(os.devnull).st_mode), name


def test_ctrl_c_in_this_process(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(kdey.cli.model_commands, "_facts", interrupted)
    done = run("inspect", model)
    assert done.exit_code == 130
    assert done.stderr == "\nstopped\n"
    assert done.stdout == ""


def test_characters_that_the_output_lacks_are_spelled_out() -> None:
    code = (
        "import click\n"
        "from kdey.cli.terminal import run_process\n"
        "run_process(click.Command('say', callback=lambda: click.echo('caf\\xe9 \\u65e5')))"
    )
    # What Python writes to a pipe on Windows in the west of Europe.
    env = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True)
    assert done.stdout.split() == [b"caf\xe9", b"\\u65e5"], done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    "every", ["99999999999999999999y", "1001y", "9" * 5000 + "s", "999999999999999999mo"]
)
def test_periods_longer_than_there_are_dates(model: Path, table: Path, every: str) -> None:
    done = run("estimate", model, table, "--time", "day", "--every", every)
    assert done.exit_code == 2
    assert "at most 1000 years" in done.stderr
    assert run("estimate", model, table, "--time", "day", "--every", "1000y").exit_code == 0


@pytest.mark.parametrize("option", ["--option", "--classifier-option"])
@pytest.mark.parametrize(
    "value",
    ["-" * 100_000 + "1", "[" * 5_000 + "]" * 5_000, "[" * 150 + "]" * 150, "{[]: 1}", "1" * 9_999],
    ids=["signs", "lists", "few lists", "a list as a key", "digits"],
)
def test_deep_and_long_values(tmp_path: Path, option: str, value: str) -> None:
    labelled = write(tmp_path / "l.csv", without(rows(), "shop", "day"))
    name = "bandwidth" if option == "--option" else "C"
    rest = ("--method", "kdey-ml", option, f"{name}={value}", "-o", tmp_path / "m.kdey")
    done = run("fit", labelled, "--label", "kind", *rest)
    assert done.exit_code == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(line) < 1_200
    assert isinstance(done.exception, SystemExit)


@posix
def test_inspect_refuses_what_never_ends(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path / "pipe"):
        done = run("inspect", path)
        assert done.exit_code == 2
        assert "not a regular file" in done.stderr


def test_the_page_lists_the_codes() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Exit codes")[2].partition("\n## ")[0]
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    stated = {int(code) for code in re.findall(r"^(\d+) ", terminal.__doc__ or "", re.MULTILINE)}
    assert listed == stated == {0, 1, 2, 129, 130, 143}


def test_main_in_a_program_of_your_own(model: Path) -> None:
    """Output that the caller has redirected stays so, also in a thread."""
    code = """
import contextlib, io, sys, threading
from kdey.cli import main

def run():
    with contextlib.suppress(SystemExit):
        main()

for start in (run, lambda: (t := threading.Thread(target=run), t.start(), t.join())):
    text = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(text):
        start()
    text.seek(0)
    print("method: KDEyML" in text.read())
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, "inspect", str(model)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.stdout == "True\nTrue\n", done.stderr


@pytest.mark.parametrize(("typed", "meant"), [("estimat", "estimate"), ("Fit", "fit")])
def test_a_mistyped_command_suggests_the_right_one(typed: str, meant: str) -> None:
    result = run(typed)
    assert result.exit_code == 2
    assert f"Did you mean {meant!r}?" in result.stderr
    assert "Did you mean" not in run("xyzzy").stderr


def test_ctrl_c_during_imports_ends_with_its_code_and_without_a_traceback() -> None:
    """Python printed a traceback through the importer, and ended with 1."""
    code = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from kdey.cli import main
main()
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")
