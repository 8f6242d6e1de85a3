"""docs/lab/benchmarks.md is what the benchmarks printed, and nothing typed by hand."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("benchmark_run", ROOT / "benchmarks" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["benchmark_run"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["benchmark_run"]


def test_page_is_made_of_the_kept_sections(run: ModuleType) -> None:
    assert run.PAGE.read_text(encoding="utf-8") == run.page()


def test_every_section_has_been_measured_by_a_script_that_exists(run: ModuleType) -> None:
    for section in run.sections():
        assert (ROOT / "benchmarks" / section.script).exists(), section.name
        assert (run.SECTIONS / f"{section.name}.json").exists(), section.name


def test_page_names_no_folder_of_a_machine(run: ModuleType) -> None:
    named = [folder for folder in ("/home/", "/root/", "/tmp/", "/work/") if folder in run.page()]
    assert named == []
