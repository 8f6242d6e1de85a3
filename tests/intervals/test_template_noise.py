"""Intervals and draws say whether they include the uncertainty of the templates."""

import numpy as np
import pytest

import kdey
from kdey.intervals.compute import BAG_ONLY

RNG = np.random.default_rng(4)
Y = np.repeat([0, 1], 60)
P = RNG.dirichlet([1.0, 1.0], 120) * 0.5 + 0.5 * np.eye(2)[Y]
BAG = P[::3]
FITTED = kdey.KDEyML(bandwidth=0.1).fit_posteriors(P, Y)
BOOTSTRAP = {"method": "bootstrap", "n_replicates": 20}


def notes(estimate):
    return estimate.diagnostics["notes"]


@pytest.mark.parametrize("options", [{}, BOOTSTRAP])
def test_limits_that_include_it(options):
    estimate = FITTED.estimate_posteriors(BAG, options=kdey.Options(**options))
    assert estimate.template_noise
    assert BAG_ONLY not in notes(estimate)
    assert "templates" not in repr(estimate)


@pytest.mark.parametrize(
    ("quantifier", "options"),
    [
        (FITTED, {**BOOTSTRAP, "resample_templates": False}),
        (kdey.Median(kdey.PACC(), {"cv": [2, 3]}).fit_posteriors(P, Y), {"n_replicates": 20}),
        (kdey.OneVsAll(kdey.PACC()).fit_posteriors(P, Y), {"n_replicates": 20}),
        (kdey.PACC.from_misclassification([[0.9, 0.2], [0.1, 0.8]]), {"n_replicates": 20}),
    ],
    ids=["not asked for", "Median", "OneVsAll", "templates given"],
)
def test_a_bootstrap_of_the_bag_alone_says_so(quantifier, options):
    estimate = quantifier.estimate_posteriors(BAG, options=kdey.Options(**options))
    assert not estimate.template_noise
    assert BAG_ONLY in notes(estimate)
    assert BAG_ONLY in repr(estimate)
    assert BAG_ONLY in estimate.to_dict()["diagnostics"]["notes"]
    many = quantifier.estimate_posteriors(
        BAG, [[0, 1, 2], [3, 4, 5]], options=kdey.Options(**options)
    )
    assert all(BAG_ONLY in notes(one) for one in many)
    assert all(BAG_ONLY in notes(one) for one in many[1:])


def test_searches_say_so():
    X = RNG.normal(size=(120, 2)) + Y[:, None]
    search = kdey.GridSearchQ(
        kdey.PACC(), {"cv": [2]}, protocol=kdey.APP(3, 10), verbose=False
    ).fit(X, Y)
    estimate = search.estimate(X, options=kdey.Options(n_replicates=20))
    assert estimate.template_noise == (BAG_ONLY not in notes(estimate))


def test_differences_say_so():
    both = FITTED.estimate_posteriors(BAG, [np.arange(15), np.arange(15, 40)])
    assert kdey.difference(*both).template_noise
    options = {**BOOTSTRAP, "resample_templates": False}
    both = FITTED.estimate_posteriors(
        BAG, [np.arange(15), np.arange(15, 40)], options=kdey.Options(**options)
    )
    difference = kdey.difference(*both)
    assert not difference.template_noise
    assert "leave out the uncertainty of the templates" in repr(difference)


def test_posterior_draws_say_so():
    draws = kdey.sample_posterior(
        FITTED, posteriors=BAG, templates="fixed", min_ess=50, random_state=0
    )
    assert not draws.template_noise
    (note,) = draws.notes
    assert "conditional on the templates" in note
    assert note in repr(draws)
    low, high = draws.interval()
    assert f"{draws.mean()[0]:.4f} [{low[0]:.4f}, {high[0]:.4f}]" in repr(draws)


def test_draws_that_did_not_converge_say_so():
    with pytest.warns(kdey.bayes.SamplingWarning):
        draws = kdey.sample_posterior(
            FITTED, posteriors=BAG, min_ess=1e6, max_sweeps=600, random_state=0
        )
    assert any("did not converge" in note for note in draws.notes)
