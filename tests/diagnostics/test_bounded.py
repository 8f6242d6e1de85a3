"""The fit check at bounded cost: samples, early stops, and what they do not change."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from kdey import PACC, Bags, Ensemble, GridSearchQ, KDEyML, check_fit, quantifiers
from kdey.diagnostics import FitChecker
from kdey.diagnostics.score_check import ENOUGH, LOOKS, N_NULL, _looks, sample_bags
from kdey.diagnostics.score_statistics import NullBags, few_per_class
from kdey.posteriors import TrainingPosteriors, fits_into

from .cases import draw, outsiders


@pytest.fixture(scope="module")
def checker() -> FitChecker:
    p, y = draw((200, 150, 250), np.random.default_rng(0))
    return FitChecker.fit(PACC().fit_posteriors(p, y))


def test_a_large_bag_takes_little_memory(checker) -> None:
    points = draw((100_000, 50_000, 50_000), np.random.default_rng(1))[0]
    tracemalloc.start()
    found = checker.check(posteriors=points, random_state=0)
    (screened,) = checker.screen(points, Bags.whole(len(points)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6
    assert (found.size, found.n_checked, screened.n_checked) == (200_000, 10_000, 10_000)
    assert "10,000 of 200,000 instances" in found.verdict
    assert len(found.local_p_values) == len(found.instances) == 10_000


def test_the_sample_of_a_large_bag_is_random_and_fits(checker, monkeypatch) -> None:
    values = []
    for seed in range(100):
        rng = np.random.default_rng([seed, 3])
        p, y = draw((300, 250, 350), rng)
        fitted = FitChecker.fit(PACC().fit_posteriors(p, y))
        bag = draw(rng.multinomial(600, rng.dirichlet(np.ones(3))), rng)[0]  # sorted by class
        with monkeypatch.context() as patch:  # references stay as many as they are
            patch.setattr("kdey.diagnostics.score_check.MOST_INSTANCES", 150)
            found = fitted.check(posteriors=bag, n_null=99, random_state=seed)
        assert found.n_checked == 150
        values.append(found.p_value)
    assert kstest(values, "uniform").pvalue > 0.01


def test_worst_instances_of_a_sample_are_positions_in_the_bag(checker, monkeypatch) -> None:
    monkeypatch.setattr("kdey.diagnostics.score_check.MOST_INSTANCES", 200)
    rng = np.random.default_rng(2)
    bag = np.concatenate([draw((200, 200, 200), rng)[0], outsiders(200, rng)])
    found = checker.check(posteriors=bag, random_state=0)
    assert found.rejected
    assert (found.worst(20) >= 600).all()
    assert found.to_frame(3)["instance"].tolist() == found.worst(3).tolist()


def test_a_stop_is_early_only_where_the_bag_fits(checker) -> None:
    rng = np.random.default_rng(5)
    parts = [draw((30, 20, 30), rng)[0] for _ in range(60)]
    parts += [np.concatenate([draw((20, 20, 20), rng)[0], outsiders(20, rng)]) for _ in range(10)]
    bags = Bags.from_indices(np.arange(70 * 80).reshape(70, 80), 70 * 80)
    points = np.concatenate(parts)
    stopped = checker.screen(points, bags, n_null=99)
    full = checker.screen(points, bags, n_null=99, level=0.5)
    assert {verdict.n_null for verdict in full} == {99}
    for early, late in zip(stopped, full, strict=True):
        if early.n_null < 99:
            assert early.p_value * (early.n_null + 1) >= ENOUGH - 1e-9
            assert late.p_value > 0.02
        else:
            assert early.p_value == late.p_value
    assert np.mean([verdict.n_null for verdict in stopped[:60]]) < 60
    assert all(verdict.rejected for verdict in stopped[60:])
    # The verdict on a bag does not depend on the others, nor on their sizes.
    (alone,) = checker.screen(parts[3], Bags.whole(80), n_null=99)
    assert alone.summary() == stopped[3].summary()
    larger = Bags.from_indices([np.arange(240, 320), np.arange(400)], len(points))
    assert checker.screen(points, larger, n_null=99)[0].summary() == stopped[3].summary()


def test_null_bags_larger_than_training_are_counted(checker) -> None:
    source = NullBags(checker.densities, 0, 2_000)
    prevalence = np.array([[0.2, 0.3, 0.5]])
    large = source.draw(prevalence, np.array([2_000]), range(5))
    assert large.weights is not None
    np.testing.assert_array_equal(np.add.reduceat(large.weights, large.offsets[:-1]), 2_000)
    small = source.draw(prevalence, np.array([500]), range(5))
    assert small.weights is None
    assert set(small.indices[:500]) <= set(large.indices[: large.offsets[1]])


def test_few_per_class_keeps_small_classes_whole() -> None:
    y = np.repeat([0, 1, 2], [1_000, 30, 500])
    weights = np.where(np.arange(len(y)) % 2, 1.0, 0.0)
    p = np.random.default_rng(0).dirichlet(np.ones(3), len(y))
    few = few_per_class(TrainingPosteriors(p, y), 3, 230)
    np.testing.assert_array_equal(np.bincount(few.labels), [100, 30, 100])
    np.testing.assert_array_equal(p[few.instances], few.posteriors)
    assert few_per_class(TrainingPosteriors(p, y), 3, len(y)).posteriors is p
    weighted = few_per_class(TrainingPosteriors(p, y, weights), 3, 115)
    np.testing.assert_array_equal(np.bincount(weighted.labels), [50, 15, 50])
    assert (weighted.weights > 0).all()


def test_samples_of_bags_keep_their_weights() -> None:
    bags = Bags.from_indices([[0, 1], [2, 3, 4, 5, 6]], 7, [[1, 2], [2, 3, 4, 5, 6]])
    few = sample_bags(bags, 3, seed=0)
    assert few.sizes.tolist() == [2, 3]
    np.testing.assert_array_equal(few.weights[2:], few.indices[2:])


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    return rng.normal(size=(240, 3)) + 1.5 * np.eye(3)[y], y


def test_fold_models_are_kept_up_to_a_size(data, monkeypatch) -> None:
    X, y = data
    fitted = PACC(random_state=0).fit(X, y)
    assert len(fitted.fold_models_) == 5
    assert fitted.estimate(X[:60]).status in ("no problem found", "poor fit")
    assert not hasattr(PACC().fit(X, y, keep_fold_models=False), "fold_models_")
    monkeypatch.setattr(quantifiers, "FOLD_MODELS_BYTES", 500)
    assert not hasattr(PACC().fit(X, y), "fold_models_")
    assert len(PACC().fit(X, y, keep_fold_models=True).fold_models_) == 5
    with pytest.raises(ValueError, match="keep_fold_models must be True, False or 'auto'"):
        PACC().fit(X, y, keep_fold_models="all")


def test_fold_models_are_fitted_once(data) -> None:
    X, y = data
    counted = Counting()
    Counting.fits = 0
    PACC(counted, cv=4).fit(X, y)
    assert Counting.fits == 5


class Counting(ClassifierMixin, BaseEstimator):
    """A classifier that counts its fits."""

    fits = 0

    def fit(self, X, y):
        Counting.fits += 1
        self._inner = LogisticRegression().fit(X, y)
        self.classes_ = self._inner.classes_
        return self

    def predict_proba(self, X):
        return self._inner.predict_proba(X)


def test_members_and_searches_keep_few_models(data) -> None:
    X, y = data
    ensemble = Ensemble(PACC(), n_members=2, random_state=0).fit(X, y)
    assert not any(member.scorer.fold_models for member in ensemble.model_.members)
    search = GridSearchQ(KDEyML(), {"bandwidth": [0.1, 0.2]}, random_state=0).fit(X, y)
    assert len(search.best_estimator_.fold_models_) == 5


def test_what_is_computed_once_per_fit_is_not_pickled(data) -> None:
    X, y = data
    fitted = PACC(random_state=0).fit(X, y)
    before = len(pickle.dumps(fitted))
    first = fitted.estimate(X[:60], check_fit=True).diagnostics["fit"]
    assert "_derived" in vars(fitted.model_)
    restored = pickle.loads(pickle.dumps(fitted))
    assert "_derived" not in vars(restored.model_)
    assert restored.estimate(X[:60]).diagnostics["fit"] == first
    assert len(pickle.dumps(fitted)) < before + 1_000
    fitted.fit(X[::2], y[::2])
    assert "_derived" not in vars(fitted.model_)


def test_size_of_a_model_is_that_of_its_pickle() -> None:
    model = np.zeros(10_000)
    size = len(pickle.dumps(model, protocol=5))
    assert fits_into(model, size)
    assert not fits_into(model, size - 1)
    assert not fits_into(lambda: None, 1e9)  # cannot be pickled
    assert fits_into(lambda: None, np.inf)


def test_check_fit_of_many_training_instances_uses_some(monkeypatch) -> None:
    monkeypatch.setattr("kdey.diagnostics.score_check.MOST_INSTANCES", 300)
    rng = np.random.default_rng(0)
    p, y = draw((2_000, 100, 900), rng)
    fitted = PACC().fit_posteriors(p, y)
    counts = FitChecker.fit(fitted).densities.counts
    np.testing.assert_array_equal(counts, [100, 100, 100])
    assert not check_fit(fitted, posteriors=draw((80, 60, 60), rng)[0], random_state=0).rejected


def test_the_default_number_is_looked_at_as_before() -> None:
    ends = [part.stop for part in _looks(N_NULL)]
    assert ends == [*LOOKS, N_NULL]
    assert [part.stop for part in _looks(20)] == [9, 14, 20]


def test_many_null_bags_are_drawn_in_bounded_parts() -> None:
    """A p-value of one in thousands must not hold thousands of null bags in memory at once."""
    parts = _looks(12_000)
    assert max(len(part) for part in parts) <= N_NULL
    assert [number for part in parts for number in part] == list(range(12_000))
