"""The commands of the README work as typed, in an empty folder."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import kdey

for needed in ("click", "rich", "pyarrow", "skops", "jinja2"):
    pytest.importorskip(needed, reason=f"the commands need {needed}")
BASH = shutil.which("bash")
if BASH is None:
    pytest.skip("the commands are typed into bash", allow_module_level=True)

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("KDEY_DATA") or ROOT.parent / "shared" / "data")
BEANS = DATA / "uci-multi" / "dry-bean.csv.gz"


def commands(mark: str) -> str:
    """Return the README's block of commands that holds a text."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (found,) = [block for block in re.findall(r"```sh\n(.*?)```", text, re.S) if mark in block]
    return str(found)


def type_in(block: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run commands in a folder, with this Python as ``python`` and this kdey as ``kdey``."""
    tools = folder / "tools"
    tools.mkdir()
    for name, module in (("python", ""), ("kdey", " -m kdey.cli")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n')
        (tools / name).chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "PYTHONPATH": str(Path(kdey.__file__).parents[1])}
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [str(BASH), "-e", "-c", block],
        cwd=folder,
        env={**os.environ, **own, **threads},
        capture_output=True,
        text=True,
        check=False,
    )


def test_digits(tmp_path: Path) -> None:
    done = type_in(commands("load_digits"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["office"] for row in rows] == ["north"] * 10 + ["south"] * 10
    assert {row["status"] for row in rows} == {"ok"}
    y = load_digits().target
    i = np.arange(len(y))
    kept = (i % 2 == 1) & ((y < 4) | (i % 3 == 0))
    north = (y < 4) ^ (i % 5 == 0)
    for office, here in (("north", north), ("south", ~north)):
        truth = np.bincount(y[kept & here], minlength=10) / (kept & here).sum()
        own = [row for row in rows if row["office"] == office]
        estimate = np.array([float(row["estimate"]) for row in own])
        assert int(own[0]["n"]) == (kept & here).sum()
        np.testing.assert_allclose(estimate, truth, atol=0.04)
    page = (tmp_path / "digits.html").read_text(encoding="utf-8")
    assert "north" in page
    assert "2026-01-12" in page


@pytest.mark.slow
@pytest.mark.skipif(not BEANS.exists(), reason=f"no {BEANS.name} in the folder of data")
def test_dry_bean(tmp_path: Path) -> None:
    shutil.copy(BEANS, tmp_path)
    done = type_in(commands("dry-bean"), tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "beans-by-field.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    share = {row["field"]: float(row["estimate"]) for row in rows if row["class"] == "SIRA"}
    assert share["west"] > share["east"] + 0.2  # as the fields were made
    assert (tmp_path / "beans.html").exists()
    assert "method: KDEyML" in done.stdout
