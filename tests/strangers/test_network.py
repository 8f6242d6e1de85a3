"""HistNetQ as a quantifier: contract, bags of both kinds, limits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import kdey
from benchmarks.histogram_network import HistNetQ
from kdey.evaluation.contract import quantifier_checks
from kdey.evaluation.protocols import APP, DirichletProtocol
from tests.gpu.cases import posteriors

SMALL = {"protocol": APP(60, 30), "n_hidden": 8, "n_epochs": 2, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y, pool_y = rng.integers(0, 3, 300), rng.integers(0, 3, 300)
    return posteriors(rng, y, 3), y, posteriors(rng, pool_y, 3), pool_y


@pytest.fixture(scope="module")
def usual(data):
    """Bags of usual prevalences, and a network trained on such bags."""
    P, y, _, pool_y = data
    options = {"bag_size": 30, "concentration": (60.0, 30.0, 10.0)}
    protocol = DirichletProtocol(n_bags=400, **options)
    network = HistNetQ(protocol=protocol, n_hidden=32, random_state=0).fit_posteriors(P, y)
    return network, DirichletProtocol(n_bags=100, random_state=1, **options).bags(pool_y)


@pytest.mark.parametrize("check", quantifier_checks(HistNetQ(**SMALL)), ids=lambda c: c.__name__)
def test_contract(check):
    check(HistNetQ(LogisticRegression(), cv=3, **SMALL))


def test_it_learns_which_prevalences_are_usual(data, usual):
    P, y, Q, _ = data
    network, drawn = usual
    plain = kdey.PACC().fit_posteriors(P, y)
    errors = [
        np.abs(q.aggregate_bags(Q, drawn.bags) - drawn.prevalences).mean() for q in (network, plain)
    ]
    assert errors[0] < errors[1]


def test_bags_without_labels_show_a_drift(data):
    P, y, Q, pool_y = data
    drifted = [P ** np.array([1.0, 0.4, 1.0]), Q ** np.array([1.0, 0.4, 1.0])]
    P2, Q2 = (rows / rows.sum(axis=1, keepdims=True) for rows in drifted)
    training, test = APP(300, 60, 0).bags(y), APP(100, 60, 1).bags(pool_y)
    from_bags = HistNetQ(n_hidden=32, random_state=0)
    from_bags.fit_posterior_bags(P2, training.bags, training.prevalences)
    plain = kdey.PACC().fit_posteriors(P, y)
    errors = [
        np.abs(q.aggregate_bags(Q2, test.bags) - test.prevalences).mean()
        for q in (from_bags, plain)
    ]
    assert errors[0] < 0.7 * errors[1]


def test_bags_of_instances():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.array(["no", "yes"])[(X[:, 0] + 0.5 * rng.normal(size=200) > 0).astype(int)]
    drawn = APP(40, 20).bags(y)
    classifier = LogisticRegression().fit(X, y)
    options = {"n_hidden": 8, "n_epochs": 2, "random_state": 0}
    wanted = HistNetQ(**options).fit_posterior_bags(
        classifier.predict_proba(X), drawn.bags, drawn.prevalences, classes=["no", "yes"]
    )
    prevalence = wanted.aggregate(classifier.predict_proba(X))
    for given in (classifier, FrozenEstimator(classifier)):
        fitted = HistNetQ(given, **options).fit_bags(X, drawn.bags, drawn.prevalences)
        assert fitted.classes_.tolist() == ["no", "yes"]
        np.testing.assert_allclose(fitted.predict(X), prevalence)
    after = HistNetQ(protocol=APP(20, 10), cv=2, **options).fit(X, y)
    after.fit_bags(X, drawn.bags, drawn.prevalences)
    assert after.predict(X).shape == (2,)


def test_what_fit_bags_refuses(data):
    P, y, _, _ = data
    drawn = APP(5, 20).bags(y)
    with pytest.raises(ValueError, match="needs a classifier that is already fitted"):
        HistNetQ(LogisticRegression()).fit_bags(P, drawn.bags, drawn.prevalences)
    with pytest.raises(ValueError, match="prevalences has 4 rows, but there are 5 bags"):
        HistNetQ().fit_posterior_bags(P, drawn.bags, drawn.prevalences[:4])
    with pytest.raises(ValueError, match="at least 2 bags"):
        HistNetQ().fit_posterior_bags(P, drawn.bags[:1], drawn.prevalences[:1])
    with pytest.raises(ValueError, match="loss must be"):
        HistNetQ(loss="mse").fit_posteriors(P, y)


def test_limits_say_that_the_bag_alone_was_resampled(data, usual):
    _, _, Q, _ = data
    network, _ = usual
    estimate = network.estimate_posteriors(
        Q[:80], check_fit=False, options=kdey.Options(n_replicates=50)
    )
    assert (estimate.low <= estimate.estimate).all()
    assert (estimate.estimate <= estimate.high).all()
    assert "resampled the sample only" in str(estimate)


def test_evaluate():
    X = np.random.default_rng(0).normal(size=(120, 2))
    y = (X[:, 0] > 0).astype(int)
    fitted = HistNetQ(LogisticRegression(), cv=2, **SMALL).fit(X, y)
    results = kdey.evaluate({"network": fitted}, X, y, APP(5, 20), verbose=False)
    assert np.isfinite(results.methods["network"].solution.prevalence).all()
