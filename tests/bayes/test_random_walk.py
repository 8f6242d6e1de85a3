"""Random walks over periods against quadrature, and what gaps do to bands."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from kdey import PACC
from kdey.bayes.random_walk import (
    SIGMAS,
    PeriodTree,
    SmoothedPeriods,
    _precision,
    _Walk,
    smooth_periods,
)
from kdey.bayes.sampling import TemplateDraws
from tests.groups.cases import fitted, posteriors


def tree_of(sizes: list[int], times: list[float], series: list[int] | None = None) -> PeriodTree:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    numbers = np.zeros(len(sizes)) if series is None else np.array(series)
    return PeriodTree(offsets, numbers.astype(np.int64), np.array(times, dtype=float))


def rows_of(n: int, share: float, rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=n) + 2.0 * (rng.random(n) < share)
    return np.stack([norm.pdf(x), norm.pdf(x - 2.0)], axis=1)


GRID = np.linspace(-9, 9, 401)


def log_likelihood(rows: np.ndarray) -> np.ndarray:
    """Return the log-likelihood of two classes on the grid of log-ratios."""
    share = expit(-np.sqrt(2.0) * GRID)  # of the second class, in the basis of Helmert
    return np.log(np.outer(rows[:, 0], 1 - share) + np.outer(rows[:, 1], share)).sum(axis=0)


def test_evidence_matches_quadrature() -> None:
    rng = np.random.default_rng(0)
    parts = [rows_of(40, share, rng) for share in (0.3, 0.5)]
    tree = tree_of([40, 40], [0.0, 2.0])
    walk = _Walk(np.concatenate(parts), tree)
    for sigma in (0.1, 0.5, 1.5):
        found = walk._mode(np.zeros((2, 1)), _precision(tree.steps, sigma))
        _, _, log_evidence, converged = found
        first = log_likelihood(parts[0]) + norm.logpdf(GRID, scale=3.0)
        step = norm.logpdf(GRID[:, None] - GRID, scale=sigma * np.sqrt(2.0))
        joint = first[:, None] + log_likelihood(parts[1]) + step
        exact = np.log(np.exp(joint - joint.max()).sum()) + joint.max()
        exact += 2 * np.log(GRID[1] - GRID[0])
        # The constants of the normal distributions cancel.
        assert log_evidence == pytest.approx(exact, abs=0.05)
        assert converged


def test_mode_is_stationary() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 90)
    rows = posteriors(labels, rng)
    tree = tree_of([30, 20, 40], [0.0, 1.0, 4.0])
    walk, precision = _Walk(rows, tree), _precision(tree.steps, 0.3)
    mode = walk._mode(np.zeros((3, 2)), precision)[0]
    _, gradient, _ = walk._likelihood(mode)
    np.testing.assert_allclose(gradient, precision.times(mode), atol=1e-2)


def test_precision_is_that_of_a_random_walk() -> None:
    tree = tree_of([1] * 5, [0.0, 1.0, 3.0, 5.0, 6.0], [0, 0, 0, 1, 1])
    precision = _precision(tree.steps, 0.5)
    times, series = tree.times, tree.series
    starts = np.array([0.0, 0.0, 0.0, 5.0, 5.0])
    elapsed = np.minimum(times[:, None], times) - starts[:, None]
    covariance = (series[:, None] == series) * (9.0 + 0.25 * elapsed)
    np.testing.assert_allclose(precision.times(covariance), np.eye(5), atol=1e-9)
    assert precision.log_det == pytest.approx(-np.linalg.slogdet(covariance)[1])
    np.testing.assert_allclose(precision.banded(np.zeros((5, 1, 1)))[1], precision.diagonal)


@pytest.fixture(scope="module")
def templates() -> TemplateDraws:
    return TemplateDraws.of(fitted(PACC))


def drifting(seed: int = 0) -> tuple[np.ndarray, np.ndarray, PeriodTree]:
    """Return prevalences, posteriors and 20 periods, of which 8 to 12 have no instance."""
    rng = np.random.default_rng(seed)
    path = np.linspace(0.1, 0.7, 20)
    truth = np.stack([path, 0.9 - path, np.full(20, 0.1)], axis=1)
    sizes = [0 if 8 <= t <= 12 else 25 for t in range(20)]
    labels = np.concatenate([rng.choice(3, n, p=p) for n, p in zip(sizes, truth, strict=True)])
    return truth, posteriors(labels.astype(int), rng), tree_of(sizes, list(range(20)))


@pytest.fixture(scope="module")
def smoothed(templates: TemplateDraws) -> tuple[np.ndarray, np.ndarray, SmoothedPeriods]:
    truth, scores, tree = drifting()
    return truth, scores, smooth_periods(templates, scores, tree, n_templates=4, n_draws=50)


@pytest.mark.smoke
def test_smoothing_helps(smoothed: tuple[np.ndarray, np.ndarray, SmoothedPeriods]) -> None:
    truth, scores, drawn = smoothed
    full = np.r_[0:8, 13:20]
    separate = fitted(PACC).aggregate_bags(scores, np.arange(len(scores)).reshape(15, 25))
    error, before = (
        np.abs(drawn.estimate()[full] - truth[full]).mean(),
        np.abs(separate - truth[full]).mean(),
    )
    assert error < 0.75 * before
    low, high = drawn.interval(0.025)
    assert ((low <= truth) & (truth <= high)).mean() > 0.85
    assert drawn.converged


def test_bands_widen_in_gaps(smoothed: tuple[np.ndarray, np.ndarray, SmoothedPeriods]) -> None:
    low, high = smoothed[2].interval(0.025)
    width = (high - low)[:, :2].mean(axis=1)
    assert width[10] > 1.15 * width[[6, 14]].mean()


def test_the_order_of_periods_does_not_matter(templates: TemplateDraws) -> None:
    _, scores, tree = drifting()
    turned = PeriodTree(tree.offsets[-1] - tree.offsets[::-1], tree.series, tree.times[::-1].copy())
    one = smooth_periods(templates, scores, tree, n_templates=2, n_draws=20)
    positions = np.concatenate(
        [np.arange(a, b) for a, b in zip(tree.offsets[-2::-1], tree.offsets[:0:-1], strict=True)]
    )
    two = smooth_periods(
        templates, scores, turned, positions=positions, n_templates=2, n_draws=20, n_threads=2
    )
    np.testing.assert_allclose(one.population, two.population[:, ::-1], atol=1e-5)


def test_steady_and_jumping_series_have_their_own_sigma(templates: TemplateDraws) -> None:
    rng = np.random.default_rng(2)
    shares = {"steady": np.full(12, 0.5), "jumping": np.tile([0.1, 0.8], 6)}
    found = {}
    for name, path in shares.items():
        labels = np.concatenate([rng.choice(3, 40, p=[p, 0.9 - p, 0.1]) for p in path])
        drawn = smooth_periods(
            templates, posteriors(labels, rng), tree_of([40] * 12, list(range(12))), n_templates=2
        )
        found[name] = np.median(drawn.sigma)
    assert found["steady"] < 0.2
    assert found["jumping"] > 0.6
    assert SIGMAS[0] <= found["steady"]


def test_times_must_differ() -> None:
    with pytest.raises(ValueError, match="different for all periods"):
        tree_of([1, 1], [2.0, 2.0])
    tree_of([1, 1], [2.0, 2.0], [0, 1])


def series_with_jump(shares: list[float], size: int = 40) -> tuple[_Walk, PeriodTree]:
    rng = np.random.default_rng(11)
    tree = tree_of([size] * len(shares), list(map(float, range(len(shares)))))
    return _Walk(np.concatenate([rows_of(size, share, rng) for share in shares]), tree), tree


def test_a_jump_is_found_where_it_is() -> None:
    jumps = series_with_jump([0.2] * 9 + [0.7] * 9)[0].jumps()
    assert len(jumps) == 1
    assert jumps[0].is_found
    assert jumps[0].places[jumps[0].chances.argmax()] == 9
    assert jumps[0].chances.sum() == pytest.approx(1.0)


def test_a_slow_rise_is_no_jump() -> None:
    assert not any(
        jump.is_found for jump in series_with_jump(list(np.linspace(0.2, 0.7, 18)))[0].jumps()
    )


def test_bayes_factor_of_a_jump_matches_quadrature() -> None:
    """Two periods: the oracle integrates over both log-ratios, with and without the jump."""
    rng = np.random.default_rng(5)
    parts = [rows_of(60, share, rng) for share in (0.35, 0.6)]
    walk, sigma = _Walk(np.concatenate(parts), tree_of([60, 60], [0.0, 1.0])), 0.3
    nowhere = np.zeros(2, dtype=np.bool_)
    eta = walk._mode(np.zeros((2, 1)), _precision(walk.tree.steps, sigma))[0]
    found = walk._bayes_factors(eta, sigma, nowhere)[1]
    first = log_likelihood(parts[0]) + norm.logpdf(GRID, scale=3.0)

    def exact(scale: float) -> float:
        step = norm.logpdf(GRID[:, None] - GRID, scale=scale)
        joint = first[:, None] + log_likelihood(parts[1]) + step
        return float(np.log(np.exp(joint - joint.max()).sum()) + joint.max())

    jumps = np.mean([np.exp(exact(np.hypot(sigma, scale)) - exact(sigma)) for scale in (0.5, 1.5)])
    assert found == pytest.approx(np.log(jumps), abs=1.0)  # linearised


def test_a_jump_of_a_few_of_many_classes_is_found() -> None:
    """One of eight classes grows and another shrinks: most log-ratios move by little."""
    rng, k = np.random.default_rng(0), 8
    shares = np.full((24, k), 1.0 / k)
    shares[12:, :2] = 0.21, 0.04
    labels = np.concatenate([rng.choice(k, 60, p=row) for row in shares])
    rows = np.full((len(labels), k), 0.02)
    rows[np.arange(len(labels)), labels] = 1.0
    jumps = _Walk(rows, tree_of([60] * 24, list(np.arange(24.0)))).jumps()
    assert [int(j.places[j.chances.argmax()]) for j in jumps if j.is_found] == [12]
