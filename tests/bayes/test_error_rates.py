"""Error rates with uncertainty: counts, limits, several tests; published and exact figures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom

from kdey import ACC
from kdey.bayes import ErrorRates, SamplingWarning, sample_error_rates
from kdey.simplex import counts_from_interval


def exact_posterior(positive, n, sensitivity, specificity):
    """Return mean and quantiles of a prevalence by quadrature; rates are points with weights."""
    grid = (np.arange(800) + 0.5) / 800
    se, se_weight = (np.array(part)[None, :, None] for part in sensitivity)
    sp, sp_weight = (np.array(part)[None, None, :] for part in specificity)
    q = grid[:, None, None] * se + (1 - grid[:, None, None]) * (1 - sp)
    mass = (binom.pmf(positive, n, q) * se_weight * sp_weight).sum(axis=(1, 2))
    mass /= mass.sum()
    return mass @ grid, np.interp([0.025, 0.975], np.cumsum(mass), grid)


def uniform_points(low, high, n=60):
    return low + (high - low) * (np.arange(n) + 0.5) / n, np.full(n, 1 / n)


def test_rogan_gladen_with_wilsons_limits_as_published() -> None:
    # RSurveillance, tp(20, 120, 0.9, 0.99): 0.17603, Wilson's limits 0.1129887 and 0.2623065.
    # Rates from 100,000 instances each are known as well as exactly.
    test = ACC.from_counts([[99_000, 10_000], [1_000, 90_000]])
    estimate = test.estimate_counts([100, 20])
    assert estimate.estimate[1] == pytest.approx(0.17603, abs=1e-5)
    assert estimate.low[1] == pytest.approx(0.1129887, abs=5e-4)
    assert estimate.high[1] == pytest.approx(0.2623065, abs=5e-4)


def test_brucellosis_example_of_epir() -> None:
    # epiR, epi.prev(23, 150, se = 0.96, sp = 0.89): 5.1 cases per 100 (0 to 13).
    test = ACC.from_counts([[89_000, 4_000], [11_000, 96_000]])
    estimate = test.estimate_counts([127, 23])
    assert round(100 * estimate.estimate[1], 1) == 5.1
    assert estimate.low[1] == 0
    assert round(100 * estimate.high[1]) == 13
    # epiR, epi.prev(6, 151, se = 0.964, sp = 0.927): 0 cases.
    none = ACC.from_rates(0.964, 0.927).adjust([145 / 151, 6 / 151])
    np.testing.assert_allclose(none, [1, 0])


def test_uniform_rates_of_the_prevalence_package_by_quadrature() -> None:
    # Its example truePrev(x = 142, n = 742, SE = ~dunif(0.6, 1), SP = ~dunif(0.75, 1)).
    mean, limits = exact_posterior(142, 742, uniform_points(0.6, 1), uniform_points(0.75, 1))
    rates = ErrorRates.uniform((0.6, 1.0), (0.75, 1.0))
    draws = sample_error_rates(rates, [600, 142], random_state=0, min_ess=200)
    assert draws.mean()[1] == pytest.approx(mean, abs=0.015)
    low, high = draws.interval()
    np.testing.assert_allclose([low[1], high[1]], limits, atol=0.025)
    sensitivity, specificity = draws.rates[0][:, 1, 1], draws.rates[0][:, 0, 0]
    assert 0.6 <= sensitivity.min() <= sensitivity.max() <= 1
    assert 0.75 <= specificity.min() <= specificity.max() <= 1
    assert draws.template_noise


def test_beta_rates_by_quadrature() -> None:
    points = (np.arange(80) + 0.5) / 80
    se, sp = beta.pdf(points, 45, 5), beta.pdf(points, 95, 5)
    mean, limits = exact_posterior(60, 300, (points, se), (points, sp))
    rates = ErrorRates(np.array([[95.0, 5.0], [5.0, 45.0]]))
    draws = sample_error_rates(rates, [240, 60], random_state=1)
    assert draws.converged
    assert draws.mean()[1] == pytest.approx(mean, abs=0.01)
    np.testing.assert_allclose([draws.interval()[i][1] for i in (0, 1)], limits, atol=0.015)


def test_uncertain_rates_widen_limits_and_draws() -> None:
    shares = np.array([[0.9, 0.2], [0.1, 0.8]])
    widths = []
    for size in (30, 3_000):
        estimate = ACC.from_counts(size * shares).estimate_counts([700, 300])
        np.testing.assert_allclose(estimate.estimate[1], 0.2 / 0.7, atol=1e-6)
        draws = sample_error_rates(
            ErrorRates.from_counts(size * shares), [700, 300], random_state=0, min_ess=100
        )
        low, high = draws.interval()
        widths.append([estimate.high[1] - estimate.low[1], high[1] - low[1]])
    assert (np.diff(widths, axis=0) < 0).all()
    np.testing.assert_allclose(widths[1][0], widths[1][1], rtol=0.15)


def test_limits_of_rates_become_counts() -> None:
    successes, failures = counts_from_interval(0.9, 0.83, 0.95)
    n = successes + failures
    assert successes / n == pytest.approx(0.9)
    z = 1.959964
    half = z * np.sqrt(0.09 / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    assert 2 * half == pytest.approx(0.12)
    exact = ACC.from_rates(0.9, 0.95)
    rough = ACC.from_rates(
        0.9, 0.95, sensitivity_interval=(0.83, 0.95), specificity_interval=(0.9, 0.98)
    )
    np.testing.assert_allclose(rough.adjust([0.8, 0.2]), exact.adjust([0.8, 0.2]), atol=1e-12)
    tight = ACC.from_rates(
        0.9, 0.95, sensitivity_interval=(0.89, 0.91), specificity_interval=(0.94, 0.96)
    )
    a, b = rough.estimate_counts([800, 200]), tight.estimate_counts([800, 200])
    assert (a.high - a.low)[1] > 1.2 * (b.high - b.low)[1]
    assert a.template_noise
    rates = ErrorRates.from_intervals((0.9, 0.83, 0.95), (0.95, 0.9, 0.98))
    np.testing.assert_allclose(rates.parameters[:, 1].sum(), n + 1, rtol=1e-9)


def test_several_tests_of_the_same_bag() -> None:
    rng = np.random.default_rng(3)
    truth = rng.random(1_000) < 0.3
    first = np.where(truth, rng.random(1_000) < 0.85, rng.random(1_000) < 0.15).astype(int)
    second = np.where(truth, rng.random(1_000) < 0.8, rng.random(1_000) < 0.1).astype(int)
    table = np.histogram2d(first, second, bins=2)[0]
    rates = [
        ErrorRates.from_counts([[85, 15], [15, 85]]),
        ErrorRates.from_counts([[90, 20], [10, 80]]),
    ]
    both = sample_error_rates(rates, table, random_state=0)
    alone = sample_error_rates(rates[0], table.sum(axis=1), random_state=0)
    width = [np.subtract(*part.interval()[::-1])[1] for part in (both, alone)]
    assert width[0] < 0.8 * width[1]
    assert both.interval()[0][1] <= 0.3 <= both.interval()[1][1]
    assert [part.shape[1:] for part in both.rates] == [(2, 2), (2, 2)]
    assert len(both.rates[0]) == len(both)
    np.testing.assert_allclose(both.rates[1].sum(axis=1), 1)


def test_more_decisions_than_classes_and_three_classes() -> None:
    counts = [[80, 5, 5], [5, 70, 10], [5, 10, 75], [10, 15, 10]]  # the last is "unclear"
    draws = sample_error_rates(
        ErrorRates.from_counts(counts), [300, 200, 100, 50], classes=["a", "b", "c"], random_state=0
    )
    assert draws.mean().argmax() == 0
    np.testing.assert_allclose(draws.bag.sum(axis=1), 1)
    again = sample_error_rates(
        ErrorRates.from_counts(counts), [300, 200, 100, 50], classes=["a", "b", "c"], random_state=0
    )
    np.testing.assert_array_equal(again.population, draws.population)


def test_vague_rates_are_reported() -> None:
    with pytest.warns(SamplingWarning):
        sample_error_rates(ErrorRates.uniform(), [50, 50], random_state=0, max_sweeps=40)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ACC.from_counts([[1, 2, 3], [1, 2, 3]]), "square"),
        (lambda: ACC.from_counts([[1, -2], [1, 2]]), "not negative"),
        (lambda: ACC.from_counts([[1, 0], [1, 0]]), "no instance of class number 1"),
        (lambda: ACC.from_counts([[1, 0], [1, 3]], classes=["a"]), "shape"),
        (lambda: ACC.from_rates(0.9, 0.9, sensitivity_interval=(0.8, 0.95)), "both"),
        (
            lambda: ACC.from_rates(
                0.9, 0.9, sensitivity_interval=(0.95, 0.99), specificity_interval=(0.8, 0.95)
            ),
            "sensitivity needs",
        ),
        (lambda: ACC.from_rates(0.9, 0.9).estimate_counts([0.5, 0.5]), "adjust"),
        (lambda: ACC.from_rates(0.9, 0.9).estimate_counts([1, 2, 3]), "each of 2 classes"),
        (lambda: sample_error_rates([], [1, 2]), "at least one test"),
        (lambda: sample_error_rates(ErrorRates.uniform(), [1, 2, 3]), "one axis per test"),
        (lambda: sample_error_rates(ErrorRates.uniform(), [1.5, 2]), "whole numbers"),
        (lambda: sample_error_rates(ErrorRates.uniform(), [0, 0]), "no instance"),
        (lambda: ErrorRates.uniform((0.9, 0.5)), "low < high"),
    ],
)
def test_bad_rates_are_refused(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()
