"""What is printed of an installation."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import kdey
from kdey import native

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
#: Extras of the user's; the others are for work on kdey.
EXTRAS = ("cli", "dask", "data", "excel", "gpu", "plot", "report", "save", "table")


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    kdey.show_versions()
    lines = capsys.readouterr().out.splitlines()
    return dict(re.split(r" {2,}", line, maxsplit=1) for line in lines)


def test_versions_and_core_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys)
    assert lines["kdey"] == kdey.__version__
    assert lines["scikit-learn"] == version("scikit-learn")
    used = native.instruction_set()
    assert lines["native core"].split(":")[0] == ("not in use" if used is None else used)


def test_what_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(native, "PACKAGES", ("numpy", "no-package-of-this-name"))
    monkeypatch.setattr(native, "library", lambda: None)
    lines = shown(capsys)
    assert lines["no-package-of-this-name"] == "not installed"
    assert lines["native core"] == "not in use: NumPy instead, many times slower"


def test_every_requirement_is_shown() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    names = {re.split(r"[\[>=~]", line)[0] for line in wanted}
    assert names <= set(native.PACKAGES)
