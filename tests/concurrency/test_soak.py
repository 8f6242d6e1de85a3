"""The soak's own judgement: a leak is found, a flat run passes, noise does not matter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPTS = str(Path(__file__).parents[2] / "scripts")


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(SCRIPTS)
    yield
    for name in ("soak", "soak_memory"):
        sys.modules.pop(name, None)


class Process:
    """A pretended process: an operation takes half a second and may keep something."""

    def __init__(self, leak: float = 0.0, files: float = 0.0, threads: float = 0.0) -> None:
        self.now, self.done = 0.0, 0
        self.leak, self.files, self.threads = leak, files, threads
        self.noise = np.random.default_rng(0)

    def work(self, number: int) -> str:
        assert number == self.done
        self.now += 0.5
        self.done += 1
        if number == 5:
            raise ValueError("an operation that fails")
        return "odd" if number % 2 else "even"

    def look(self, seconds: float, operations: int) -> Any:
        from soak_memory import Reading

        caches = 60.0 * (1 - np.exp(-seconds / 120))  # fill in the first minutes
        bumps = 30.0 * (self.noise.random() < 0.1) + self.noise.normal(scale=0.5)
        memory = 200 + caches + bumps + operations * self.leak / 2**20
        files = 9 + int(self.files * seconds / 3600)
        return Reading(seconds, operations, memory, files, 4 + int(self.threads * seconds / 3600))


def verdict(process: Process) -> Any:
    from soak import Soak
    from soak_memory import judge

    told: list[Any] = []
    soak = Soak(process.work, process.look, lambda: process.now)
    soak.run(3600.0, 30.0, 0, told.append)
    assert told == soak.readings
    assert sum(soak.kinds.values()) == process.done - 1
    assert [one["number"] for one in soak.failures] == [5]
    return judge(soak.readings, 600.0)


def test_a_steady_process_is_flat() -> None:
    found = verdict(Process())
    assert found.flat
    assert abs(found.slope) < 0.5
    assert found.n_readings > 90


@pytest.mark.parametrize("grows", [{"leak": 2048.0}, {"files": 8.0}, {"threads": 5.0}])
def test_growth_is_found(grows: dict[str, float]) -> None:
    assert not verdict(Process(**grows)).flat


def test_the_slope_is_that_of_the_leak() -> None:
    found = verdict(Process(leak=8192.0))
    assert found.slope == pytest.approx(1200 * 8192 / 2**20, rel=0.1)
    assert found.share == pytest.approx(found.slope * 5 / 280, rel=0.1)


def test_too_short_a_run_is_no_verdict() -> None:
    from soak_memory import Reading, judge

    with pytest.raises(ValueError, match="needs six"):
        judge([Reading(700.0 + i, i, 1.0, 1, 1) for i in range(5)], 600.0)


def test_what_is_kept_is_kept() -> None:
    from soak import Soak

    process = Process()
    soak = Soak(process.work, process.look, lambda: process.now)
    soak.run(10.0, 5.0, 1024, lambda reading: None)
    assert sum(map(len, soak.kept)) == 1024 * process.done


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_readings_are_of_this_process() -> None:
    from soak_memory import measure

    before = measure(1.0, 2)
    held = np.ones(8 << 20)  # 64 MiB
    with Path(__file__).open():
        after = measure(3.0, 4)
    assert after.memory - before.memory > 50
    assert after.files == before.files + 1
    assert (after.seconds, after.operations) == (3.0, 4)
    assert held.sum() > 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_operations_can_be_repeated(tmp_path: Path) -> None:
    pytest.importorskip("click")
    pytest.importorskip("pandas")
    from soak_operations import OPERATIONS, draw, perform

    try:
        a, b, other = draw(0, 4, tmp_path), draw(0, 4, tmp_path), draw(0, 5, tmp_path)
        assert a.name == b.name
        np.testing.assert_array_equal(a.pool, b.pool)
        assert not np.array_equal(a.pool[:5], other.pool[:5])
        kinds = [perform(3, 1, tmp_path) for _ in range(2)]
        assert kinds[0] == kinds[1]
        assert kinds[0] in OPERATIONS
    finally:
        sys.modules.pop("soak_operations", None)
