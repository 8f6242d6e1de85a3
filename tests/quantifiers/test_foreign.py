"""Quantifiers of other libraries, with ``fit`` and ``predict`` only, in searches and wrappers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.naive_bayes import GaussianNB

import kdey
from kdey.bags import Bags
from kdey.quantifiers.composed import ForeignQuantifier, as_quantifier

RNG = np.random.default_rng(2)
Y = np.repeat(["a", "b"], 60)
X = RNG.normal(size=(120, 2)) + 2.0 * (Y == "b")[:, None]
PROTOCOL = kdey.APP(n_bags=5, bag_size=20)


class Plain(BaseEstimator):
    """Counts decisions; it has fit and predict, sets no ``classes_``, and fit returns nothing."""

    def __init__(self, smoothing=0.0):
        self.smoothing = smoothing

    def fit(self, X, y):
        self.model = GaussianNB().fit(X, y)

    def predict(self, X):
        decided = self.model.predict(X)
        counts = np.array([np.sum(decided == label) for label in self.model.classes_])
        return (counts + self.smoothing) / (counts + self.smoothing).sum()


class Named(Plain):
    """The same, with answers that carry names, the most frequent class first."""

    def predict(self, X):
        answer = pd.Series(super().predict(X), index=self.model.classes_)
        return answer.sort_values(ascending=False)


class Bare:
    """The same without any class of scikit-learn: it has parameters, and no tags."""

    def __init__(self, smoothing=0.0):
        self.smoothing = smoothing

    def get_params(self, deep=True):
        return {"smoothing": self.smoothing}

    def set_params(self, **params):
        vars(self).update(params)
        return self

    fit, predict = Plain.fit, Plain.predict


@pytest.fixture(params=[Plain, Named, Bare])
def quantifier(request):
    return request.param()


def searches(quantifier):
    common = {"protocol": PROTOCOL, "verbose": False}
    return [
        kdey.GridSearchQ(quantifier, {"smoothing": [0.0, 5.0]}, **common),
        kdey.evaluation.RandomSearchQ(quantifier, {"smoothing": [0.0, 5.0]}, n_iter=2, **common),
    ]


def test_searches_predict(quantifier):
    for search in searches(quantifier):
        search.fit(X, Y)
        assert type(search.best_estimator_) is type(quantifier)
        alone = Plain(**search.best_params_)
        alone.fit(X, Y)
        np.testing.assert_allclose(search.predict(X[:70]), alone.predict(X[:70]))
        bags = [np.arange(10), np.arange(50, 90)]
        expected = [alone.predict(X[bag]) for bag in bags]
        np.testing.assert_allclose(search.predict_bags(X, bags), expected)
        assert search.solve(X).converged.all()


def test_searches_estimate(quantifier):
    (search, _) = searches(quantifier)
    estimate = search.fit(X, Y).estimate(X, options=kdey.Options(n_replicates=500))
    assert (estimate.low < estimate.estimate).all()
    assert (estimate.estimate < estimate.high).all()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda q: kdey.Median(q, {"smoothing": [0.0, 1.0, 2.0]}),
        kdey.OneVsAll,
        lambda q: kdey.Ensemble(q, n_members=3, random_state=0),
    ],
    ids=["Median", "OneVsAll", "Ensemble"],
)
def test_wrappers_predict(quantifier, wrap):
    wrapper = wrap(quantifier).fit(X, Y)
    prevalence = wrapper.predict(X[:80])  # 60 of a, 20 of b
    np.testing.assert_allclose(prevalence, [0.75, 0.25], atol=0.1)
    for use in (lambda: wrapper.aggregate([[0.5, 0.5]]), lambda: wrapper.fit_posteriors(X, Y)):
        with pytest.raises(TypeError, match="works on features, not on posteriors"):
            use()


def test_fit_many_keeps_objects_whose_fit_returns_nothing(quantifier):
    fitted = kdey.evaluation.fit_many({"plain": quantifier}, X, Y)
    assert type(fitted["plain"]) is type(quantifier)


def test_classes_must_be_known():
    with pytest.raises(AttributeError, match="Plain has no classes_: fit it first"):
        as_quantifier(Plain()).classes_  # noqa: B018
    assert ForeignQuantifier(Plain()).fit(X, Y).classes_.tolist() == ["a", "b"]


def test_whole_weights_are_repetitions():
    wrapped = ForeignQuantifier(Plain()).fit(X, Y)
    weighted = Bags([[0, 70]], pool_size=120, weights=[[3.0, 1.0]])
    repeated = Bags([[0, 0, 0, 70]], pool_size=120)
    np.testing.assert_array_equal(
        wrapped.predict_bags(X, weighted), wrapped.predict_bags(X, repeated)
    )
    with pytest.raises(ValueError, match="no whole numbers"):
        wrapped.predict_bags(X, Bags([[0, 70]], pool_size=120, weights=[[0.5, 0.2]]))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (kdey.KDEyML, r"quantifier must be an instance, got the class KDEyML: pass KDEyML\(...\)"),
        (Plain, "got the class Plain"),
        ("KDEyML", "quantifier must have fit, predict, .* but 'KDEyML' has no fit"),
        (None, "but None has no fit"),
    ],
)
def test_what_is_no_quantifier_is_refused(bad, message):
    users = (
        *searches(bad),
        kdey.Median(bad, {"smoothing": [0.0]}),
        kdey.OneVsAll(bad),
        kdey.Ensemble(bad),
    )
    for user in users:
        with pytest.raises(TypeError, match=message):
            user.fit(X, Y)
