"""The sampler against posteriors known exactly, on both routes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, kstest

from kdey import native
from kdey.bags import Bags
from kdey.bayes import SamplingWarning
from kdey.bayes.chains import Chains, gibbs_sweeps
from kdey.bayes.sampling import sample_rows
from kdey.matching.likelihood import MixtureLikelihood

ROUTES = ("native", "numpy")


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "native" and not native.available():
        pytest.skip("the native core is not built")
    if request.param == "numpy":
        monkeypatch.setattr(native, "available", lambda: False)
    return str(request.param)


def problem(rows: np.ndarray) -> MixtureLikelihood:
    return MixtureLikelihood(np.asarray(rows, dtype=float), Bags.whole(len(rows)))


def separated(counts: list[int]) -> np.ndarray:
    return np.repeat(np.eye(len(counts)), counts, axis=0)


def overlapping(size: int = 60, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).beta(3, 2, size)
    return np.stack([beta.pdf(x, 2, 4), beta.pdf(x, 4, 2)], axis=1)


def exact_binary(rows: np.ndarray, prior: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return mean and sd of the second class's prevalence by quadrature."""
    grid = (np.arange(20_000) + 0.5) / 20_000
    logs = weights @ np.log(np.outer(rows[:, 0], 1 - grid) + np.outer(rows[:, 1], grid))
    logs += (prior[0] - 1) * np.log(1 - grid) + (prior[1] - 1) * np.log(grid)
    density = np.exp(logs - logs.max())
    density /= density.sum()
    mean = float(density @ grid)
    return mean, float(np.sqrt(density @ (grid - mean) ** 2))


@pytest.mark.smoke
@pytest.mark.parametrize("prior", [[1.0, 1.0], [0.3, 5.0]])
def test_two_classes_match_quadrature(route: str, prior: list[float]) -> None:
    rows = overlapping()
    found = sample_rows(problem(rows), prior=prior, min_ess=3000, random_state=1)
    mean, sd = exact_binary(rows, np.array(prior), np.ones(len(rows)))
    error = sd / np.sqrt(found.ess[1])
    assert found.converged
    assert abs(found.mean()[1] - mean) < 4 * error
    assert found.population[:, 1].std() == pytest.approx(sd, rel=0.1)


def test_whole_weights_are_repetitions(route: str) -> None:
    rows = overlapping(25)
    weights = np.random.default_rng(3).integers(0, 5, size=25).astype(float)
    found = sample_rows(problem(rows), sample_weight=weights, min_ess=3000, random_state=1)
    mean, sd = exact_binary(rows, np.ones(2), weights)
    assert abs(found.mean()[1] - mean) < 4 * sd / np.sqrt(found.ess[1])
    assert found.population[:, 1].std() == pytest.approx(sd, rel=0.1)


def test_separated_classes_are_conjugate(route: str) -> None:
    counts, prior = [3, 0, 7], np.array([0.5, 0.2, 2.0])
    found = sample_rows(problem(separated(counts)), prior=prior, min_ess=2000, random_state=0)
    np.testing.assert_array_equal(found.bag, np.tile(np.array(counts) / 10, (len(found), 1)))
    for i, (a, total) in enumerate(zip(prior + counts, [12.7] * 3, strict=True)):
        # Rows fix the classes, so draws are independent and a plain test applies.
        assert kstest(found.population[:, i], beta(a, total - a).cdf).pvalue > 1e-3


def test_fractional_weights_count_in_part(route: str) -> None:
    found = sample_rows(problem(np.eye(2)), sample_weight=[2.5, 0.25], min_ess=1000, random_state=0)
    np.testing.assert_allclose(found.bag, np.tile([2.5 / 2.75, 0.25 / 2.75], (len(found), 1)))
    assert found.mean()[0] == pytest.approx(3.5 / 4.75, abs=0.02)


def test_rows_of_zeros_say_nothing(route: str) -> None:
    rows = np.concatenate([separated([6, 2]), np.zeros((2, 2))])
    found = sample_rows(problem(rows), min_ess=2000, random_state=0)
    assert found.mean()[0] == pytest.approx(0.7, abs=0.02)
    assert set(np.round(found.bag[:, 0], 6)) == {0.6, 0.7, 0.8}


def test_scale_of_a_row_does_not_matter() -> None:
    rows = overlapping()
    scales = np.exp(np.random.default_rng(0).normal(scale=20, size=(len(rows), 1)))
    a, b = (sample_rows(problem(r), random_state=5) for r in (rows, rows * scales))
    np.testing.assert_allclose(a.population, b.population, atol=1e-9)


def test_same_seed_same_draws_for_any_threads(route: str) -> None:
    rows = overlapping()
    many = [sample_rows(problem(rows), random_state=4, n_threads=n).population for n in (1, 1, 3)]
    np.testing.assert_array_equal(many[0], many[1])
    np.testing.assert_array_equal(many[0], many[2])
    other = sample_rows(problem(rows), random_state=5).population
    assert not np.array_equal(many[0], other)


def test_chains_differ_and_continue(route: str) -> None:
    rows, prior = overlapping(), np.ones(2)
    whole = Chains.dispersed(3, prior, np.random.SeedSequence(0))
    parts = Chains.dispersed(3, prior, np.random.SeedSequence(0))
    alpha, counts = gibbs_sweeps(rows, prior, whole, 40)
    np.testing.assert_array_equal(counts.sum(axis=2), len(rows))
    np.testing.assert_allclose(alpha.sum(axis=2), 1.0)
    assert len({tuple(a) for a in alpha[:, 0]}) == 3
    if route == "native":
        split = np.concatenate([gibbs_sweeps(rows, prior, parts, 20)[0] for _ in range(2)], axis=1)
        np.testing.assert_array_equal(split, alpha)


def test_tiny_priors_and_extreme_rows_stay_finite(route: str) -> None:
    rows = np.array([[1.0, 1e-300], [1e-300, 1.0], [1.0, 1.0]])
    with np.errstate(under="ignore"):
        found = sample_rows(problem(rows), prior=1e-3, min_ess=1e-3, max_sweeps=400, random_state=0)
    assert np.isfinite(found.population).all()
    np.testing.assert_allclose(found.population.sum(axis=1), 1.0)


def test_classes_that_cannot_be_told_apart_give_the_prior(route: str) -> None:
    with pytest.warns(SamplingWarning, match=r"smallest effective size is \d+"):
        found = sample_rows(problem(np.ones((300, 2))), max_sweeps=300, random_state=0)
    assert not found.converged
    assert found.ess.min() < 400
    assert found.population.std() > 0.1
