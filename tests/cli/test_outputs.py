"""Outputs: they never overwrite what a command reads, and their endings say what they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .cases import FAST, rows, run, without, write

links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")


@pytest.fixture
def files(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: a labelled table, a new one, a model, a history and a link."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "tr.csv", without(rows(), "shop", "day"))
    write(tmp_path / "new.csv", without(rows(seed=1), "kind"))
    shutil.copy(model, "m.kdey")
    (tmp_path / "options.toml").write_text('method = "cc"\n')
    if sys.platform != "win32":
        os.symlink("new.csv", "link")
        os.link("new.csv", "twin")
    return tmp_path


def refused(*arguments: Any, says: str) -> None:
    """Check that a command names the reason in one line and leaves all files as they were."""
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


LABEL = ("--label", "kind", *FAST)
ESTIMATE = ("estimate", "m.kdey", "new.csv", "--no-check-fit")
MONITOR = ("monitor", "m.kdey", "new.csv", "--period", "2024-01-01", "--no-check-fit")


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "tr.csv", *LABEL, "-o", "tr.csv"),
        ("fit", "tr.csv", *LABEL, "-o", "../{folder}/tr.csv"),
        (*ESTIMATE, "-o", "new.csv"),
        (*ESTIMATE, "--format", "csv", "-o", "m.kdey"),
        pytest.param((*ESTIMATE, "-o", "link"), marks=links),
        pytest.param((*ESTIMATE, "-o", "twin"), marks=links),
        ("compare", "m.kdey", "new.csv", "--by", "shop", "--against", "rest", "-o", "new.csv"),
        ("report", "m.kdey", "new.csv", "-o", "new.csv"),
        ("evaluate", "tr.csv", "--label", "kind", "--model", "m.kdey", "-o", "tr.csv"),
        (*MONITOR, "--history", "h.parquet", "-o", "new.csv"),
        (*MONITOR, "--history", "h.parquet", "--page", "h.parquet"),
        (*MONITOR, "--history", "h.parquet", "--format", "parquet", "-o", "./h.parquet"),
    ],
)
def test_an_output_that_is_an_input_is_refused(files: Path, arguments: tuple[str, ...]) -> None:
    """Tables, models and a history were overwritten without a word."""
    refused(*(text.format(folder=files.name) for text in arguments), says="this file is read")


def test_a_history_is_no_page_and_no_table_of_alarms(files: Path) -> None:
    """A history of months was replaced by its page."""
    assert run(*MONITOR, "--history", "h.parquet").exit_code == 0
    for target in (("--page", "h.parquet"), ("-o", "h.parquet")):
        refused("monitor", "--history", "h.parquet", *target, says="this file is read")
    refused(*MONITOR, "--history", "m.kdey", says="m.kdey")


def test_a_table_on_standard_input_is_not_overwritten(files: Path) -> None:
    command = [sys.executable, "-m", "kdey.cli", "estimate", "m.kdey", "-", "-o", "new.csv"]
    before = (files / "new.csv").read_bytes()
    with (files / "new.csv").open("rb") as stream:
        done = subprocess.run(command, stdin=stream, capture_output=True, text=True, check=False)
    assert (done.returncode, "this file is read" in done.stderr) == (2, True), done.stderr
    assert (files / "new.csv").read_bytes() == before


def test_two_outputs_are_two_files(files: Path) -> None:
    history = (*MONITOR, "--history", "h.parquet")
    refused(*history, "--page", "x", "-o", "x", says="two outputs cannot be one file")


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "tr.csv", *LABEL, "-o", "x.csv"),
        ("fit", "tr.csv", *LABEL, "-o", "x.XLSX"),
        ("fit", "tr.csv", *LABEL, "-o", "x.html"),
        (*ESTIMATE, "--format", "csv", "-o", "x.parquet"),
        (*ESTIMATE, "--format", "csv", "-o", "x.csv.gz"),
        (*ESTIMATE, "--format", "json", "-o", "x.kdey"),
        ("report", "m.kdey", "new.csv", "-o", "x.csv"),
        (*MONITOR, "--history", "h.parquet", "--page", "x.json"),
        (*MONITOR, "--history", "h.html"),
    ],
)
def test_an_ending_of_another_format_is_refused(files: Path, arguments: tuple[str, ...]) -> None:
    refused(*arguments, says="cannot end in")


def test_free_names_devices_and_other_endings_are_written(files: Path) -> None:
    assert run(*ESTIMATE, "--format", "csv", "-o", "answers.txt").exit_code == 0
    assert run(*ESTIMATE, "--format", "csv", "-o", "answers.2024").exit_code == 0
    assert run("fit", "tr.csv", *LABEL, "-o", "model").exit_code == 0
    assert run("fit", "tr.csv", *LABEL, "-o", "model.v2").exit_code == 0
    if sys.platform != "win32":
        assert run(*ESTIMATE, "--format", "csv", "-o", os.devnull).exit_code == 0
