"""Weights of a linear pool, and the pool as a classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from kdey.calibration import BCTS
from kdey.posteriors import TrainingPosteriors, predict_posteriors
from kdey.rows.posterior import RatioMap
from kdey.stacking import PooledClassifier
from kdey.stacking.pooled_classifier import (
    FLOOR,
    LEAST_WEIGHT,
    PSEUDO_COUNT,
    MemberMethod,
    fit_member,
    geometric_mean,
    held_out,
    pool_weights,
    predictive,
    select_members,
)
from kdey.stacking.pooled_rows import SmoothedRatioRows
from kdey.tuning.trials import TuningPlan

PLAIN = MemberMethod("plain", RatioMap(), False)


def likelihoods(n: int, *sharpness: float, seed: int = 0) -> np.ndarray:
    """Return the probability of the true class under members of given sharpness, (n, members)."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, len(sharpness))) + np.array(sharpness)
    return 1 / (1 + np.exp(-logits))


def test_weights_maximise_the_penalised_likelihood() -> None:
    rows = likelihoods(300, 1.0, 0.5, 0.0)

    def loss(free: np.ndarray) -> float:
        w = np.exp(np.append(free, 0.0))
        w /= w.sum()
        return -float(np.log(rows @ w).sum() + PSEUDO_COUNT * np.log(w).sum())

    best = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9})
    expected = np.exp(np.append(best.x, 0.0))
    assert pool_weights(rows) == pytest.approx(expected / expected.sum(), abs=1e-5)


def test_weights_equal_repetitions() -> None:
    rows = likelihoods(50, 1.0, 0.2)
    counts = np.random.default_rng(1).integers(1, 4, size=50)
    repeated = pool_weights(np.repeat(rows, counts, axis=0))
    assert pool_weights(rows, counts) == pytest.approx(repeated, abs=1e-6)


def test_equal_members_share_equally() -> None:
    rows = np.tile(likelihoods(200, 0.5), (1, 3))
    assert pool_weights(rows) == pytest.approx(np.full(3, 1 / 3), abs=1e-6)


def test_a_perfect_member_gets_nearly_everything() -> None:
    rows = np.stack([np.full(500, 1.0 - 1e-6), likelihoods(500, 0.0)[:, 0]], axis=1)
    weights = pool_weights(rows)
    assert weights[0] > 0.98
    assert weights[1] > 0  # by the pseudo-counts


def test_a_useless_member_gets_nearly_nothing() -> None:
    rows = np.stack([likelihoods(500, 2.0)[:, 0], np.full(500, FLOOR)], axis=1)
    assert pool_weights(rows)[1] < 0.01


def test_with_few_labels_nobody_is_excluded() -> None:
    rows = likelihoods(6, 3.0, 0.0)
    assert pool_weights(rows).min() > 0.1


@pytest.mark.parametrize("k", [2, 3, 30])
def test_predictive_distributions_are_densities_times_prevalence(k: int) -> None:
    rng = np.random.default_rng(k)
    rows, prevalence = rng.random((20, k)) + 0.1, rng.dirichlet(np.ones(k))
    expected = rows * prevalence
    expected /= expected.sum(axis=1, keepdims=True)
    assert predictive(rows, prevalence, False) == pytest.approx(expected, abs=1e-6)
    logs = np.log(rows) - 2000.0  # far below what exp can represent
    assert predictive(logs, prevalence, True) == pytest.approx(expected, abs=1e-6)


def test_rows_that_say_nothing_give_the_prevalence() -> None:
    prevalence = np.array([0.3, 0.7])
    silent = np.array([[0.0, 0.0]])
    assert predictive(silent, prevalence, False)[0] == pytest.approx(prevalence, abs=1e-6)
    with np.errstate(divide="ignore"):
        assert predictive(np.log(silent), prevalence, True)[0] == pytest.approx(
            prevalence, abs=1e-6
        )


def test_certain_and_wrong_costs_a_bounded_amount() -> None:
    rows = predictive(np.array([[1.0, 0.0]]), np.array([0.5, 0.5]), False)
    assert rows.min() >= 0.5 * FLOOR


def three_classes(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    return rng.normal(size=(n, 2)) + 1.5 * np.eye(3)[y][:, :2], y


def pool_of(X: np.ndarray, y: np.ndarray) -> tuple[PooledClassifier, dict[str, Any]]:
    classifiers = {"linear": LogisticRegression(), "bayes": GaussianNB()}
    members = []
    for name, classifier in classifiers.items():
        p = clone(classifier).fit(X, y).predict_proba(X)
        members.append(fit_member(name, PLAIN, TrainingPosteriors(p, y), 3))
    return PooledClassifier(classifiers, members, np.array([0.7, 0.3])), classifiers


def test_the_pool_is_the_weighted_mean_of_its_members() -> None:
    X, y = three_classes()
    pool, classifiers = pool_of(X, y)
    linear, bayes = (clone(c).fit(X, y).predict_proba(X) for c in classifiers.values())
    expected = 0.7 * linear + 0.3 * bayes
    assert pool.fit(X, y).predict_proba(X) == pytest.approx(expected, abs=1e-6)
    assert (pool.predict(X) == expected.argmax(axis=1)).all()


def test_a_clone_is_fitted_on_its_data_only() -> None:
    """Fold models for the fit check are clones of the pool, fitted without a fold."""
    X, y = three_classes()
    pool = pool_of(X, y)[0].fit(X, y)
    part = clone(pool).fit(X[:100], y[:100])
    assert part.models_["linear"][0].coef_ != pytest.approx(pool.models_["linear"][0].coef_)
    assert np.asarray(part.weights) == pytest.approx(np.asarray(pool.weights))


def test_the_mean_of_models_commutes_with_bcts() -> None:
    X, y = three_classes(600)
    models = [LogisticRegression(C=c).fit(X[i::3], y[i::3]) for i, c in enumerate((0.01, 1, 100))]
    classes = np.arange(3)
    calibrator = BCTS().fit(models[0].predict_proba(X), y)
    calibrated = [calibrator.transform(model.predict_proba(X)) for model in models]
    mean = np.exp(np.mean(np.log(calibrated), axis=0))
    expected = mean / mean.sum(axis=1, keepdims=True)
    scored = [predict_posteriors(model, X, classes) for model in models]
    found = calibrator.transform(geometric_mean(models, scored, classes))
    assert found == pytest.approx(expected, abs=1e-9)


def test_a_model_has_no_say_about_classes_that_it_has_not_seen() -> None:
    X, y = three_classes()
    both = [LogisticRegression().fit(X, y), LogisticRegression().fit(X[y < 2], y[y < 2])]
    scored = [predict_posteriors(model, X, np.arange(3)) for model in both]
    mean = geometric_mean(both, scored, np.arange(3))
    assert (mean[:, 2] > 0.1 * both[0].predict_proba(X)[:, 2]).all()
    assert mean.sum(axis=1) == pytest.approx(np.ones(len(X)))


def test_members_without_weight_are_dropped() -> None:
    X, y = three_classes(4000)
    good = LogisticRegression().fit(X, y).predict_proba(X)
    useless = np.random.default_rng(0).dirichlet(0.02 * np.ones(3), size=len(y))
    trainings = {
        "good": TrainingPosteriors(good, y),
        "useless": TrainingPosteriors(useless, y),
    }
    members = [fit_member(name, PLAIN, training, 3) for name, training in trainings.items()]
    pool = held_out(members, trainings)
    assert pool.weights[1] < LEAST_WEIGHT
    kept = select_members(pool)
    assert [member.classifier for member in kept.members] == ["good"]
    assert kept.weights == pytest.approx([1.0])
    assert kept.posteriors == pytest.approx(pool.distributions[0])


def test_the_recorded_seed_is_the_one_that_drew_the_bags() -> None:
    X, y = three_classes()
    training = TrainingPosteriors(GaussianNB().fit(X, y).predict_proba(X), y)
    plan = TuningPlan(random_state=np.random.RandomState(4))  # every call advances it
    first, _ = SmoothedRatioRows(plan).choose(training, 3)
    again, _ = SmoothedRatioRows(TuningPlan(random_state=first.seed)).choose(training, 3)
    assert [trial.score for trial in first.trials] == [trial.score for trial in again.trials]
