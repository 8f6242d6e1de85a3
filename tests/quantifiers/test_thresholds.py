"""Threshold methods and SORD against slow loops over thresholds and pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import wasserstein_distance

import kdey


def draw(n: int, seed: int, share: float = 0.4, digits: int = 2) -> Any:
    """Return posteriors (n, 2), with ties, and labels of which both occur."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([[0, 1], rng.random(n - 2) < share]).astype(int)
    score = np.round(rng.beta(1.5 + 2.0 * y, 3.0 - 1.2 * y), digits)
    return np.stack([1 - score, score], axis=1), y


def candidates(p: Any, y: Any) -> list[tuple[float, float, float]]:
    """Return (threshold, fpr, tpr) of every distinct score at which the rates differ."""
    found = []
    for t in sorted(set(p[:, 1])):
        tpr = np.mean([s >= t for s in p[y == 1, 1]])
        fpr = np.mean([s >= t for s in p[y == 0, 1]])
        if tpr != fpr:
            found.append((t, fpr, tpr))
    return found


def adjusted(bag: Any, t: float, fpr: float, tpr: float) -> float:
    q = np.mean([s >= t for s in bag[:, 1]])
    return float(np.clip((q - fpr) / (tpr - fpr), 0, 1))


CONDITIONS = {
    "T50": lambda fpr, tpr: abs(tpr - 0.5),
    "MAX": lambda fpr, tpr: fpr - tpr,
    "ThresholdX": lambda fpr, tpr: abs(1 - tpr - fpr),
}


@pytest.mark.parametrize("name", list(CONDITIONS))
@pytest.mark.parametrize("seed", range(4))
def test_one_threshold(name: str, seed: int) -> None:
    (p, y), bag = draw(120, seed), draw(90, seed + 50, 0.8)[0]
    costs = [round(CONDITIONS[name](fpr, tpr), 10) for _, fpr, tpr in candidates(p, y)]
    best = candidates(p, y)[int(np.argmin(costs))]
    q = getattr(kdey, name)().fit_posteriors(p, y)
    np.testing.assert_allclose(q.row_map_.thresholds, [best[0]], rtol=1e-6)
    assert q.aggregate(bag)[1] == pytest.approx(adjusted(bag, *best), abs=1e-9)
    estimate = q.estimate_posteriors(bag)
    assert estimate.method == "analytic"
    assert estimate.low[1] <= estimate.estimate[1] <= estimate.high[1]
    assert estimate.low[1] < estimate.high[1]


@pytest.mark.parametrize(("name", "least"), [("MS", -1.0), ("MS2", 0.25)])
@pytest.mark.parametrize("seed", range(4))
def test_median_sweep(name: str, least: float, seed: int) -> None:
    (p, y), bag = draw(120, seed), draw(90, seed + 50, 0.7)[0]
    kept = [c for c in candidates(p, y) if c[2] - c[1] > least]
    expected = np.median([adjusted(bag, *c) for c in kept])
    q = getattr(kdey, name)().fit_posteriors(p, y)
    assert q.aggregate(bag)[1] == pytest.approx(expected, abs=1e-9)
    weighted = q.aggregate(bag, sample_weight=np.arange(90))
    assert weighted[1] == pytest.approx(
        q.aggregate(np.repeat(bag, np.arange(90), axis=0))[1], abs=1e-9
    )


@pytest.mark.parametrize("name", ["T50", "MAX", "ThresholdX", "MS", "MS2"])
def test_scores_without_information_do_not_fail(name: str) -> None:
    p, y = np.full((20, 2), 0.5), np.arange(20) % 2
    answer = getattr(kdey, name)().fit_posteriors(p, y).aggregate(p[:5])
    assert answer.sum() == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_sord_is_the_smallest_earth_movers_distance(seed: int, share: float) -> None:
    (p, y), bag = draw(60, seed, digits=3), draw(45, seed + 50, share, digits=3)[0]
    counts = np.bincount(y)

    def distance(a: float) -> float:
        weights = np.where(y == 1, a / counts[1], (1 - a) / counts[0])
        return float(wasserstein_distance(p[:, 1], bag[:, 1], weights, None))

    solution = kdey.SORD().fit_posteriors(p, y).solve_posteriors(bag)
    found = solution.prevalence[0, 1]
    grid = min(distance(a) for a in np.linspace(0, 1, 201))
    refined = minimize_scalar(distance, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
    assert distance(found) <= min(grid, refined.fun) + 1e-9
    assert solution.objective[0] == pytest.approx(distance(found), abs=1e-12)
    assert solution.gap[0] <= 1e-12
    assert solution.converged.all()


def test_sord_in_runs_of_bags_is_sord_of_each_bag(monkeypatch: pytest.MonkeyPatch) -> None:
    q = kdey.SORD().fit_posteriors(*draw(80, 0))
    p = draw(200, 1)[0]
    bags = [np.arange(start, start + 20) for start in range(0, 180, 9)]
    expected = np.array([q.aggregate(p[bag]) for bag in bags])
    np.testing.assert_allclose(q.aggregate_bags(p, bags), expected, atol=1e-12)
    monkeypatch.setattr("kdey.rows.histogram._CHUNK", 400)
    np.testing.assert_allclose(q.aggregate_bags(p, bags), expected, atol=1e-12)


def test_limits_of_medians_are_bootstrapped() -> None:
    (p, y), bag = draw(120, 0), draw(80, 1)[0]
    for make in (kdey.MS, kdey.SORD):
        estimate = (
            make()
            .fit_posteriors(p, y)
            .estimate_posteriors(bag, options=kdey.Options(random_state=0))
        )
        assert estimate.method == "bootstrap"
        assert estimate.low[1] < estimate.estimate[1] < estimate.high[1]
