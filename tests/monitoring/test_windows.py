"""The sequential statistics against brute force, and their limits against the simulated ones."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kdey.monitoring.alarms import Series, beyond_signal, limit_of, moved_signal, rings
from kdey.monitoring.history import HORIZON

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "monitoring-limits.csv"


def series(shares: np.ndarray, n: float = 1e6, noise: float = 0.0, template: float = 0.0) -> Series:
    t = len(shares)
    return Series(shares, np.full(t, n), np.full(t, noise), np.full(t, template))


def test_limits_are_those_that_were_simulated() -> None:
    if not RESULTS.exists():
        pytest.skip("the results of the benchmark are not in this copy")
    with RESULTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 11
    for row in rows:
        for name, moved in (("moved", True), ("beyond", False)):
            assert_allclose(limit_of(float(row["chance"]), moved), float(row[name]), atol=0.02)


def test_limits_grow_as_the_chance_falls_beyond_the_table_too() -> None:
    chances = np.geomspace(0.5, 1e-7, 60)
    for moved in (True, False):
        limits = [limit_of(chance, moved) for chance in chances]
        assert (np.diff(limits) >= 0).all()
        assert limits[-1] < 7.5  # the limit of 5,000 independent tests is 6.7


def test_moved_is_the_largest_two_sample_statistic() -> None:
    """With many instances both statistics are that of the normal distribution."""
    rng = np.random.default_rng(0)
    n, p = 1e6, 0.3
    x = p + rng.normal(size=12) * np.sqrt(p * (1 - p) / n)
    expected = max(
        abs(x[c:].mean() - x[:c].mean()) / np.sqrt(p * (1 - p) / n * (1 / c + 1 / (12 - c)))
        for c in range(1, 12)
    )
    signal = moved_signal(series(x, n))
    assert signal is not None
    assert_allclose(abs(signal[0]), expected, rtol=1e-2)
    assert_allclose(signal[3], x[signal[1] :].mean(), rtol=1e-12)


def test_beyond_is_the_largest_statistic_of_a_last_window() -> None:
    rng = np.random.default_rng(1)
    n, b, template, noise = 1e6, 0.3, 2e-8, 0.05
    unit = b * (1 - b) + noise
    x = b + rng.normal(size=9) * np.sqrt(unit / n) + 1e-4
    expected = max((x[-j:].mean() - b) / np.sqrt(unit / (n * j) + template) for j in range(1, 10))
    signal = beyond_signal(series(x, n, noise, template), b)
    assert signal is not None
    assert_allclose(signal[0], expected, rtol=1e-2)


def test_a_jump_is_dated() -> None:
    signal = moved_signal(series(np.array([0.2] * 7 + [0.3] * 3), 500))
    assert signal is not None
    assert signal[1] == 7
    assert signal[0] > 4
    assert_allclose(signal[2:], [0.2, 0.3])
    fallen = moved_signal(series(np.array([0.3] * 7 + [0.2] * 3), 500))
    assert fallen is not None
    assert fallen[0] < -4


def test_nothing_is_said_of_one_period_or_of_equal_ones() -> None:
    assert moved_signal(series(np.array([0.2]))) is None
    for share in (0.0, 0.2, 1.0):
        signal = moved_signal(series(np.full(5, share)))
        assert signal is not None
        assert abs(signal[0]) < 1e-6


def test_rare_classes_need_more_than_a_few_instances() -> None:
    """Four times the standard error is nothing rare where two instances are expected."""
    x = np.array([0.01] * 30 + [0.05])  # 2 of 200, then 10
    signal = moved_signal(series(x, 200))
    assert signal is not None
    normal = 0.04 / np.sqrt(0.0113 * (1 / 6000 + 1 / 200))
    assert 3.0 < signal[0] < 0.8 * normal


def test_fluctuation_is_no_change() -> None:
    x = np.array([0.2] * 7 + [0.3] * 3)
    calm = Series(x, np.full(10, 500.0), np.zeros(10), np.zeros(10), fluctuation=0.05)
    signal = moved_signal(calm)
    assert signal is not None
    assert abs(signal[0]) < 3


def test_only_the_last_hundred_periods_are_looked_at() -> None:
    x = series(np.concatenate([np.full(50, 0.1), np.full(HORIZON + 1, 0.4)]))
    seen: list[Series] = []

    def signal_of(part: Series) -> tuple[float, int, float, float]:
        seen.append(part)
        return (9.0 if len(seen) == len(x) else 0.0), 3, 0.1, 0.4

    assert [(last, first) for last, first, _ in rings(x, signal_of, 4.0, True)] == [(150, 54)]
    assert len(seen[-1]) == HORIZON
    assert (seen[-1].shares == 0.4).all()
