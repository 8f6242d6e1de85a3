"""Posterior draws of fitted quantifiers: contract, intervals, hostile input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from kdey import DIR, EMQ, PACC, KDEyML, sample_posterior
from kdey.bags import Bags
from kdey.bayes import PosteriorDraws
from kdey.bayes.sampling import TemplateDraws, _independent_draws, sample_rows
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = make_classification(
        900, 6, n_informative=4, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    return X[:500], y[:500], X[500:], y[500:]


@pytest.fixture(scope="module")
def fitted(data) -> KDEyML:
    return KDEyML(random_state=0).fit(data[0], data[1])


@pytest.fixture(scope="module")
def draws(data, fitted) -> PosteriorDraws:
    return sample_posterior(fitted, data[2], random_state=0)


@pytest.mark.parametrize("method", [KDEyML, EMQ, DIR, lambda **k: EMQ(solver="em", **k)])
def test_draws_lie_around_the_estimate(data, method) -> None:
    made = method(random_state=0).fit(data[0], data[1])
    found = sample_posterior(made, data[2], random_state=0)
    sd = found.population.std(axis=0)
    assert (np.abs(found.mean() - made.predict(data[2])) < 3 * sd + 0.01).all()
    assert found.converged
    assert (found.ess >= 400).all()
    assert (found.r_hat <= 1.05).all()


def test_posteriors_and_instances_give_the_same(data, fitted) -> None:
    given = fitted.classifier_.predict_proba(data[2])
    a = sample_posterior(fitted, data[2], random_state=3)
    b = sample_posterior(fitted, posteriors=given, random_state=3, n_jobs=2)
    np.testing.assert_array_equal(a.population, b.population)


def test_the_bag_is_known_better_than_its_population(draws: PosteriorDraws) -> None:
    assert (draws.bag.std(axis=0) < draws.population.std(axis=0)).all()
    np.testing.assert_allclose(draws.bag.sum(axis=1), 1.0)


def test_drawn_templates_widen_the_draws_and_agree_with_the_bootstrap(data) -> None:
    few = KDEyML(bandwidth=0.1, random_state=0).fit(data[0][:80], data[1][:80])
    fixed = sample_posterior(few, data[2], templates="fixed", random_state=0)
    drawn = sample_posterior(few, data[2], random_state=0)
    assert drawn.template_noise
    assert not fixed.template_noise
    assert (drawn.population.std(axis=0) > fixed.population.std(axis=0)).all()
    assert (drawn.ess >= 400).all()
    np.testing.assert_allclose(drawn.mean(), few.estimate(data[2]).estimate, atol=0.08)


def test_both_uncertainties_add_up(data) -> None:
    few = KDEyML(bandwidth=0.1, random_state=0).fit(data[0][:80], data[1][:80])
    drawn = sample_posterior(few, data[2], random_state=0)
    model, points = few.model_, few.classifier_.predict_proba(data[2])
    templates = TemplateDraws(model)
    problems = [
        MixtureLikelihood(templates.draw(seed)(points), Bags.whole(len(points)))
        for seed in np.random.SeedSequence(0).spawn(200)
    ]
    found = np.array([solve_mixture(problem).prevalence[0] for problem in problems])
    given = sample_rows(problems[0], random_state=0).population
    expected = np.sqrt(given.var(axis=0) + found.var(axis=0))
    np.testing.assert_allclose(drawn.population.std(axis=0), expected, rtol=0.2)


def test_the_worth_of_draws_of_few_templates() -> None:
    rng = np.random.default_rng(0)
    alike = rng.standard_normal((400, 10, 1))
    apart = rng.standard_normal((400, 1, 1)) + 1e-3 * alike
    assert _independent_draws(alike)[0] == pytest.approx(4000, rel=0.2)
    assert _independent_draws(apart)[0] == pytest.approx(400, rel=0.05)


def test_last_months_draws_are_a_prior(data, fitted, draws) -> None:
    again = sample_posterior(fitted, data[2], prior=draws, random_state=0)
    np.testing.assert_allclose(again.mean(), draws.mean(), atol=0.01)
    assert (again.population.std(axis=0) < 0.9 * draws.population.std(axis=0)).all()
    mean = again.prior / again.prior.sum()
    np.testing.assert_allclose(mean, draws.mean(), atol=1e-9)


def test_draws_by_chain(draws) -> None:
    by_chain = draws.to_dict()
    assert by_chain["population"].shape == (draws.n_chains, len(draws) // draws.n_chains, 3)
    np.testing.assert_array_equal(by_chain["bag"].reshape(-1, 3), draws.bag)


def test_an_informative_prior_pulls(data, fitted) -> None:
    found = sample_posterior(fitted, data[2][:20], prior=[1000.0, 1.0, 1.0], random_state=0)
    assert found.mean()[0] > 0.9


def test_intervals(draws: PosteriorDraws) -> None:
    low, high = draws.interval(0.9)
    inside = (draws.population >= low) & (draws.population <= high)
    np.testing.assert_allclose(inside.mean(axis=0), 0.9, atol=0.01)
    short_low, short_high = draws.interval(0.9, kind="hpd")
    inside = (draws.population >= short_low) & (draws.population <= short_high)
    assert (inside.mean(axis=0) >= 0.9).all()
    assert (short_high - short_low <= high - low + 1e-12).all()


def test_shortest_interval_starts_at_zero_for_an_absent_class() -> None:
    x = np.random.default_rng(0).exponential(size=(5000, 1))
    one = PosteriorDraws(np.array([0]), x, x, np.ones(1), np.ones(1), 1, 5000, np.ones(1), True)
    low, high = one.interval(0.95, kind="hpd")
    assert low[0] < 0.01
    assert high[0] == pytest.approx(3.0, rel=0.1)


def test_frames(draws: PosteriorDraws) -> None:
    table = draws.summary(target="bag", kind="hpd")
    assert list(table.columns) == ["class", "mean", "sd", "low", "high", "r_hat", "ess"]
    assert len(table) == 3
    tidy = draws.to_frame("polars")
    assert tidy.shape == (3 * len(draws), 5)
    assert tidy["chain"].n_unique() == draws.n_chains


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([1.0, 1.0], r"one entry per class \(3\), got shape \(2,\)"),
        ([1.0, 0.0, 1.0], "prior must be positive"),
        (-1.0, "prior must be positive"),
        (np.nan, "prior must be positive"),
        ("flat", "prior must be a number"),
        (np.ones((3, 1)), "one entry per class"),
    ],
)
def test_bad_priors(data, fitted, prior, message) -> None:
    with pytest.raises(ValueError, match=message):
        sample_posterior(fitted, data[2], prior=prior)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_chains": 1}, "n_chains"),
        ({"templates": "none"}, "templates"),
        ({"max_sweeps": 3}, "max_sweeps"),
        ({"min_ess": 0}, "min_ess"),
        ({"sample_weight": [1.0]}, "sample_weight"),
        ({"sample_weight": np.full(400, 1e6)}, "divide it by its mean"),
    ],
)
def test_bad_options(data, fitted, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        sample_posterior(fitted, data[2], **options)


def test_other_methods_and_missing_input(data, fitted, draws) -> None:
    with pytest.raises(TypeError, match="must maximise a mixture likelihood"):
        sample_posterior(PACC().fit(data[0], data[1]), data[2])
    with pytest.raises(ValueError, match="exactly one of X and posteriors"):
        sample_posterior(fitted)
    with pytest.raises(ValueError, match="confidence"):
        draws.interval(1.0)
    with pytest.raises(ValueError, match="target"):
        draws.mean("world")
    bare = KDEyML().fit_posteriors(fitted.training_.posteriors, fitted.training_.labels)
    with pytest.raises(ValueError, match="give posteriors instead of X"):
        sample_posterior(bare, data[2])


def test_a_bag_of_one_is_wide(data, fitted) -> None:
    found = sample_posterior(fitted, data[2][:1], random_state=0)
    low, high = found.interval(0.95)
    assert (high - low > 0.5).all()
