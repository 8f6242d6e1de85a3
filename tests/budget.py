"""Where the time of a test run goes, printed at its end beside what the tests may take.

Nothing fails for being slow: times depend on the machine and on what else it does. The budgets keep
``make test`` within six minutes on two idle cores. A folder or a test above its budget is marked,
and whoever made it slower should have a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

#: Seconds that all tests together, one folder and one test may take, set-up included. Summed over
#: workers: on two of them a run takes about half of it.
ALL, FOLDER, TEST = 560.0, 90.0, 10.0
SLOWEST = 10


@dataclass
class Times:
    """Seconds by test, as reports come in: each phase of a test has one."""

    by_test: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of_reports(cls, reports: Iterable[Any]) -> Times:
        """Add up the phases of every test; other reports (collection, warnings) are left out."""
        times = cls()
        for report in reports:
            if isinstance(report, pytest.TestReport):
                before = times.by_test.get(report.nodeid, 0.0)
                times.by_test[report.nodeid] = before + report.duration
        return times

    @property
    def total(self) -> float:
        """Seconds of all tests together."""
        return sum(self.by_test.values())

    def by_folder(self) -> dict[str, float]:
        """Return seconds by folder below ``tests``, the slowest first."""
        folders: dict[str, float] = {}
        for name, seconds in self.by_test.items():
            folder = folder_of(name)
            folders[folder] = folders.get(folder, 0.0) + seconds
        return slowest_first(folders)


def folder_of(test: str) -> str:
    """Return ``tests/rows`` for ``tests/rows/sub/test_a.py::test_b``."""
    *folders, _ = test.split("::")[0].split("/")
    return "/".join(folders[:2]) or "."


def slowest_first(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the same entries, those that took longest first."""
    return dict(sorted(seconds.items(), key=lambda pair: -pair[1]))


def lines(seconds: Mapping[str, float], budget: float) -> list[str]:
    """Return one line per entry; those above the budget say so."""
    return [
        f"{spent:8.1f} s  {name}" + (f"  (budget {budget:.0f} s)" if spent > budget else "")
        for name, spent in seconds.items()
    ]


def summary(times: Times) -> list[str]:
    """Return what is printed: all tests, folder by folder, and the slowest tests."""
    slowest = dict(list(slowest_first(times.by_test).items())[:SLOWEST])
    return [
        f"{times.total:8.1f} s  all tests, of {ALL:.0f} s",
        f"Folders, of {FOLDER:.0f} s each:",
        *lines(times.by_folder(), FOLDER),
        f"Slowest tests, of {TEST:.0f} s each:",
        *lines(slowest, TEST),
    ]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the summary. With xdist the reports of all workers arrive here."""
    stats: Mapping[str, Sequence[Any]] = terminalreporter.stats
    times = Times.of_reports(report for reports in stats.values() for report in reports)
    if times.by_test:
        terminalreporter.section("time of the tests, summed over workers")
        for line in summary(times):
            terminalreporter.write_line(line)
