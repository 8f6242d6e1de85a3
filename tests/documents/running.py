"""Runs the blocks of a page as a reader would: in order, in one session, in an empty folder."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import kdey
from tests.documents import commands
from tests.documents.pages import Block, Page

BASH = shutil.which("bash")
NUMBER = re.compile(r"(-?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?\b)")
P_VALUE = re.compile(r"\bp [=<] [\d.e-]*\d")


@dataclass
class Session:
    """What the blocks of a page have made so far, and what each of them printed."""

    folder: Path
    names: dict[str, Any] = field(default_factory=dict)
    printed: dict[int, str] = field(default_factory=dict)


def run_page(page: Page, folder: Path) -> Session:
    """Run the blocks of a page in a folder; a failing one raises with its page and line."""
    with chdir(folder), page_names() as names:
        session = Session(folder, names)
        for block in page.code:
            if block.needs is None:
                session.printed[block.line] = run_block(block, session)
            elif find_spec(block.needs) is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    session.printed[block.line] = run_block(block, session)
    return session


def run_block(block: Block, session: Session) -> str:
    """Run one block; return what it printed, which must be what the page shows."""
    run = run_python if block.language == "python" else run_commands
    try:
        printed = run(block, session)
        if block.shows is not None:
            assert_prints(printed, block.shows)
        return printed
    except Exception as error:
        error.add_note(f"in the block at {block.where}")
        raise


def run_python(block: Block, session: Session) -> str:
    """Run Python code among the names that earlier blocks made."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(block.text, block.where, "exec"), session.names)
    return printed.getvalue()


def run_commands(block: Block, session: Session) -> str:
    """Type commands into bash, with this Python as ``python`` and this kdey as ``kdey``."""
    done = subprocess.run(
        [str(BASH), "-e", "-c", block.text],
        cwd=session.folder,
        env={**os.environ, **_environment(session.folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}: {done.stderr}")
    return done.stdout


def assert_prints(printed: str, shown: str, tolerance: float = 0.02) -> None:
    """Compare what was printed with what a page shows: the same words, about the same numbers.

    Other builds of the numerical libraries end their fits a little elsewhere.
    """
    # A p-value moves a lot where a fit moves a little.
    ours, theirs = (NUMBER.split(P_VALUE.sub("p", text)) for text in (printed, shown))
    assert [part.split() for part in ours[::2]] == [part.split() for part in theirs[::2]]
    for own, wanted in zip(ours[1::2], theirs[1::2], strict=True):
        allowed = max(tolerance, 0.1 * abs(float(wanted)))
        assert abs(float(own) - float(wanted)) <= allowed, f"printed {own}, shown {wanted}"


def _environment(folder: Path) -> dict[str, str]:
    tools = folder.parent / f"{folder.name}-tools"
    tools.mkdir(exist_ok=True)
    python = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
    for name, text in (("python", python), ("kdey", commands.script())):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    return {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(kdey.__file__).parents[1]),
        **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
    }


@contextmanager
def page_names() -> Iterator[dict[str, Any]]:
    """Give the names of a module that can be imported: pickle looks classes up there."""
    module = types.ModuleType("a_page")
    sys.modules[module.__name__] = module
    try:
        yield module.__dict__
    finally:
        del sys.modules[module.__name__]
