"""The reliability curve against a slow, obvious version of itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from kdey.report.technical import reliability


def drawn(n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(k), n), rng.integers(k, size=n)


@pytest.mark.parametrize(("n", "k", "bins"), [(100, 3, 10), (57, 5, 10), (7, 2, 10), (1, 2, 3)])
def test_bins_hold_what_a_loop_puts_there(n: int, k: int, bins: int) -> None:
    posteriors, labels = drawn(n, k, n)
    curve = reliability(posteriors, labels, bins)
    order = sorted(range(n), key=lambda i: posteriors[i].max())
    parts: dict[int, list[int]] = {}
    for place, i in enumerate(order):
        parts.setdefault(place * min(bins, n) // n, []).append(i)
    for number, part in enumerate(parts.values()):
        right = [posteriors[i].argmax() == labels[i] for i in part]
        assert curve.counts[number] == len(part)
        assert curve.claimed[number] == pytest.approx(np.mean([posteriors[i].max() for i in part]))
        assert curve.observed[number] == pytest.approx(np.mean(right))
        wilson = binomtest(sum(right), len(right)).proportion_ci(method="wilson")
        assert curve.low[number] == pytest.approx(wilson.low, abs=1e-4)
        assert curve.high[number] == pytest.approx(wilson.high, abs=1e-4)
    gaps = curve.counts * np.abs(curve.claimed - curve.observed)
    assert curve.error == pytest.approx(gaps.sum() / n)


def test_equal_posteriors_share_a_bin() -> None:
    posteriors = np.repeat([[0.9, 0.1], [0.6, 0.4]], [80, 20], axis=0)
    curve = reliability(posteriors, np.zeros(100, dtype=int))
    np.testing.assert_array_equal(curve.counts, [20, 80])
    np.testing.assert_allclose(curve.claimed, [0.6, 0.9])
    assert curve.error == pytest.approx(0.2 * 0.4 + 0.8 * 0.1)
    assert curve.accuracy == 1


def test_the_order_of_instances_does_not_matter() -> None:
    posteriors, labels = drawn(200, 4, 0)
    order = np.random.default_rng(1).permutation(200)
    a, b = reliability(posteriors, labels), reliability(posteriors[order], labels[order])
    np.testing.assert_allclose(a.observed, b.observed)
    assert a.error == pytest.approx(b.error)


def test_calibrated_posteriors_have_a_small_error() -> None:
    rng = np.random.default_rng(0)
    posteriors = rng.dirichlet([1.0, 1.0, 1.0], 20000)
    labels = (rng.random(20000)[:, None] > posteriors.cumsum(axis=1)).sum(axis=1)
    assert reliability(posteriors, labels).error < 0.015
    assert reliability(posteriors, (labels + 1) % 3).error > 0.2


def test_bad_input_is_named() -> None:
    posteriors, labels = drawn(10, 3, 0)
    with pytest.raises(ValueError, match="labels must have shape"):
        reliability(posteriors, labels[:5])
    with pytest.raises(ValueError, match="n_bins"):
        reliability(posteriors, labels, 0)
    with pytest.raises(ValueError, match="posteriors"):
        reliability(2 * posteriors, labels)
