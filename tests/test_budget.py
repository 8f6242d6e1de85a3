"""The summary of test times adds up what pytest reports, also from workers of xdist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import budget
from tests.budget import Times, folder_of, lines, summary

ROOT = Path(__file__).parents[1]


def report(test: str, when: str, seconds: float) -> pytest.TestReport:
    location = (test.split("::")[0], 0, "")
    return pytest.TestReport(test, location, {}, "passed", None, when, duration=seconds)  # type: ignore[arg-type]


def test_phases_of_a_test_and_tests_of_a_folder_are_added() -> None:
    times = Times.of_reports(
        [
            report("tests/rows/test_a.py::test_b", "setup", 1.0),
            report("tests/rows/test_a.py::test_b", "call", 2.0),
            report("tests/rows/deeper/test_a.py::test_c", "call", 0.5),
            report("tests/test_d.py::test_e[tests/x::y]", "call", 9.0),
            "no report",
        ]
    )
    assert times.total == 12.5
    assert times.by_folder() == {"tests": 9.0, "tests/rows": 3.5}


@pytest.mark.parametrize(
    ("test", "folder"),
    [
        ("tests/rows/test_a.py::test_b", "tests/rows"),
        ("tests/report/figures/test_a.py::test_b[a/b]", "tests/report"),
        ("tests/test_a.py::test_b", "tests"),
        ("test_a.py::test_b", "."),
    ],
)
def test_folder_of_a_test(test: str, folder: str) -> None:
    assert folder_of(test) == folder


def test_what_is_above_its_budget_is_marked() -> None:
    within, above = lines({"quick": 1.0, "slow": 2.5}, 2.0)
    assert "budget" not in within
    assert above.endswith("slow  (budget 2 s)")


def test_only_the_slowest_tests_are_listed() -> None:
    times = Times({f"tests/a/test_a.py::test_{i}": float(i) for i in range(100)})
    text = "\n".join(summary(times))
    assert "test_99" in text
    assert "test_90" in text
    assert "test_89" not in text


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_ends_with_the_summary(tmp_path: Path, workers: int) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_b():\n    pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.budget", f"--numprocesses={workers}"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"all tests, of {budget.ALL:.0f} s" in done.stdout
    assert "s  tests/test_a.py::test_b" in done.stdout


def test_no_example_of_hypothesis_fails_for_being_slow() -> None:
    """A deadline of 200 ms, and a check of how long inputs take, failed on a busy machine."""
    profile = settings.default
    assert profile is not None
    assert profile.deadline is None
    assert HealthCheck.too_slow in profile.suppress_health_check
