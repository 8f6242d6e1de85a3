"""The commands of the README, as typed."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kdey

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_readme_from_a_table(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text[text.index("## From a table") :]
    commands = re.findall(r"```sh\n(.*?)```", section, re.S)[0]
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, module in (("kdey", "-m kdey.cli "), ("python", "")):
        shim = folder / name
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} {module}"$@"\n')
        shim.chmod(0o755)
    source = str(Path(kdey.__file__).parents[1])
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": source}
    done = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = list(csv.DictReader(done.stdout.splitlines()))
    assert {row["day"] for row in found} == {"2024-01-01", "2024-01-08"}
    large = [float(row["estimate"]) for row in found if int(row["class"]) > 3]
    assert sum(large[:6]) > 0.5 > 0.1 > sum(large[6:])
