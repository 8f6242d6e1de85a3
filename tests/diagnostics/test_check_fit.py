"""The fit check: against a slow version of itself, calibration, power, hostile input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdey import EMQ, PACC, HDx, KDEyML, check_fit
from kdey.bags import Bags
from kdey.diagnostics import FitChecker
from kdey.diagnostics.score_check import p_values
from kdey.diagnostics.score_statistics import (
    DEFAULT_KERNEL,
    FLOOR,
    NullBags,
    TrainingDensities,
)
from kdey.posteriors import TrainingPosteriors, predict_posteriors

from .cases import draw, outsiders

COUNTS = (60, 50, 70)


def fitted(seed: int = 0, counts=COUNTS, weights=None) -> PACC:
    p, y = draw(counts, np.random.default_rng(seed))
    return PACC().fit_posteriors(p, y, weights)


def bag(seed: int, counts=(40, 30, 50)) -> np.ndarray:
    return draw(counts, np.random.default_rng([seed, 99]))[0]


def slow_density(x, points, weights, h, leave=None) -> float:
    kernels = np.exp(-((points - x) ** 2).sum(axis=1) / (2 * h * h)) * weights
    if leave is not None:
        kernels[leave], weights = 0.0, np.delete(weights, leave)
    return kernels.sum() / weights.sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_statistic_is_what_it_says(weighted: bool) -> None:
    rng = np.random.default_rng(1)
    w = rng.uniform(0.5, 2.0, sum(COUNTS)) if weighted else None
    v = rng.uniform(0.5, 2.0, 120) if weighted else None
    made = fitted(0, weights=w)
    p, y, q = made.training_.posteriors, made.training_.labels, bag(0)
    found = check_fit(made, posteriors=q, sample_weight=v, n_null=19, random_state=0)
    w, v = (np.ones(len(a)) if b is None else b for a, b in ((p, w), (q, v)))
    alpha, own = found.prevalence, [np.flatnonzero(y == i) for i in range(3)]
    at_bag = [
        sum(alpha[i] * slow_density(x, p[own[i]], w[own[i]], 0.1) for i in range(3)) for x in q
    ]
    expected = 0.0
    for i in range(3):
        logs = []
        for j in own[i]:
            left = [np.flatnonzero(own[c] == j)[0] if c == i else None for c in range(3)]
            logs.append(
                sum(
                    alpha[c] * slow_density(p[j], p[own[c]], w[own[c]], 0.1, left[c])
                    for c in range(3)
                )
            )
        expected += alpha[i] * np.average(np.log(np.array(logs) + FLOOR), weights=w[own[i]])
    statistic = np.average(np.log(np.array(at_bag) + FLOOR), weights=v) - expected
    assert found.statistic == pytest.approx(statistic, abs=1e-4)
    np.testing.assert_allclose(found.log_densities, np.log(np.array(at_bag) + FLOOR), atol=1e-3)
    assert found.p_density == (1 + (found.null <= found.statistic).sum()) / 20


def test_p_values_are_uniform_under_label_shift() -> None:
    values = []
    for seed in range(120):
        rng = np.random.default_rng([seed, 7])
        counts = rng.multinomial(120, rng.dirichlet(np.ones(3)))
        found = check_fit(
            fitted(seed, (300, 250, 350)),
            posteriors=bag(seed, counts),
            n_null=99,
            random_state=seed,
        )
        values.append(found.p_value)
    assert kstest(values, "uniform").pvalue > 0.01
    assert 0.42 < np.mean(values) < 0.58


def test_smallest_p_value_is_calibrated() -> None:
    rng = np.random.default_rng(0)
    levels, distances = rng.normal(size=(2, 400, 100))
    for n in (100, 10):  # few null bags, too: ties must not make p-values large
        found = np.stack(p_values(levels[:, :n], distances[:, :n]), axis=1)
        steps = found[:, 0] - np.random.default_rng(1).random(400) / n
        assert kstest(steps, "uniform").pvalue > 0.01
        least = found[:, 1:].min(axis=1)
        assert (least <= found[:, 0]).all()
        assert (found[:, 0] <= 2.5 * least).all()
    assert p_values(levels, None)[0][0] == (levels[0] <= levels[0, 0]).mean()


def test_distance_is_what_it_says() -> None:
    p, y = draw((30, 30, 30), np.random.default_rng(0))
    q, alpha = bag(0)[:40], np.array([[0.2, 0.3, 0.5]])
    made = TrainingDensities.fit(TrainingPosteriors(p, y), 3, DEFAULT_KERNEL)
    assert len(made.landmarks) == 90

    def mean_kernels(points):
        gaps = ((points[:, None] - made.landmarks[None]) ** 2).sum(axis=2)
        return np.exp(-gaps / (2 * 0.2**2)).mean(axis=0)

    expected = mean_kernels(q) - sum(alpha[0, i] * mean_kernels(p[y == i]) for i in range(3))
    found = made.distance(made.embed(q), Bags.whole(40), alpha)
    assert found[0] == pytest.approx((expected**2).sum(), rel=1e-4)


@pytest.mark.smoke
def test_unknown_class_is_found() -> None:
    rng = np.random.default_rng(0)
    q = np.concatenate([bag(1, (40, 30, 50)), outsiders(30, rng)])
    found = check_fit(fitted(), posteriors=q, random_state=0)
    assert found.p_value < 0.01
    assert found.unknown_share <= 0.2
    assert (found.worst(15) >= 120).mean() > 0.9
    assert (np.diff(found.log_densities[found.worst(150)]) >= 0).all()
    assert found.to_frame(5)["instance"].tolist() == found.worst(5).tolist()


def test_classes_that_look_different_are_found() -> None:
    q = bag(1, (60, 60, 60))
    blurred = 0.75 * q + 0.25 / 3
    found = check_fit(fitted(), posteriors=blurred, random_state=0)
    assert found.rejected
    assert found.p_distance < 0.05 < found.p_density  # it moved to where others are
    assert "does not fit" in str(found)


def test_local_p_values_are_uniform_for_the_mixture() -> None:
    found = check_fit(fitted(0, (300, 300, 300)), posteriors=bag(3, (200, 100, 200)), n_null=50)
    assert kstest(found.local_p_values, "uniform").pvalue > 0.01


def test_weights_are_repetitions_in_the_statistic() -> None:
    q, made = bag(2), fitted()
    repeats = np.random.default_rng(0).integers(1, 4, size=len(q))
    a = check_fit(made, posteriors=q, sample_weight=repeats, n_null=19, random_state=0)
    b = check_fit(made, posteriors=np.repeat(q, repeats, axis=0), n_null=19, random_state=0)
    assert a.statistic == pytest.approx(b.statistic, abs=1e-6)
    np.testing.assert_allclose(a.prevalence, b.prevalence, atol=1e-4)


def test_order_and_threads_do_not_matter() -> None:
    q, made = bag(2), fitted()
    order = np.random.default_rng(0).permutation(len(q))
    a = check_fit(made, posteriors=q, random_state=0)
    b = check_fit(made, posteriors=q[order], random_state=0, n_jobs=2)
    assert (a.p_value, a.unknown_share) == (b.p_value, b.unknown_share)
    np.testing.assert_allclose(a.local_p_values[order], b.local_p_values)


def test_null_bags_have_the_prevalence_and_the_weights() -> None:
    p, y = draw((50, 60, 70), np.random.default_rng(0))
    w = np.where(np.arange(len(y)) % 2, 0.0, 1.0)
    made = TrainingDensities.fit(TrainingPosteriors(p, y, w), 3, DEFAULT_KERNEL)
    prevalence, sizes = np.array([[0.5, 0.0, 0.5]]), np.array([80])
    positions = NullBags(made, 0, 80).draw(prevalence, sizes, range(200)).indices
    shares = np.bincount(made.labels[positions], minlength=3) / positions.size
    np.testing.assert_allclose(shares, [0.5, 0.0, 0.5], atol=0.02)
    assert len(made.labels) == np.count_nonzero(w)  # the absent ones are nowhere to be drawn


def test_heavy_references_are_drawn_more_often() -> None:
    p, y = draw((50, 50), np.random.default_rng(0))
    w = np.where(np.arange(100) % 50 == 0, 49.0, 1.0)
    made = TrainingDensities.fit(TrainingPosteriors(p, y, w), 2, DEFAULT_KERNEL)
    prevalence, sizes = np.array([[0.5, 0.5]]), np.array([100])
    bags = NullBags(made, 0, 100).draw(prevalence, sizes, range(300))
    drawn = np.repeat(bags.indices, 1 if bags.weights is None else bags.weights.astype(int))
    assert np.isin(drawn, [0, 50]).mean() == pytest.approx(0.5, abs=0.05)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = make_classification(
        500, 6, n_informative=4, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    return X[:300], y[:300], X[300:]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "classifier",
    [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())],
    ids=["plain", "pipeline"],
)
def test_fold_models_are_those_of_training(data, classifier, weighted) -> None:
    X, y, _ = data
    weights = np.random.default_rng(0).gamma(0.5, size=len(y)) if weighted else None
    made = PACC(classifier, cv=4, random_state=3).fit(X, y, weights)
    training = made.training_
    for fold, model in enumerate(made.fold_models_):
        own = training.folds == fold
        again = model.predict_proba(X[training.instances[own]])
        np.testing.assert_allclose(again, training.posteriors[own], atol=1e-8)


def test_a_fold_that_leaves_one_class_has_a_model_too() -> None:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(41) == 0, "rare", "often")
    X = rng.normal(size=(41, 2)) + 3.0 * (y == "rare")[:, None]
    with pytest.warns(UserWarning, match="posterior zero"):
        made = PACC(LogisticRegression(), cv=4).fit(X, y)
    training = made.training_
    for fold, model in enumerate(made.fold_models_):
        own = training.folds == fold
        again = predict_posteriors(model, X[training.instances[own]], made.classes_)
        np.testing.assert_allclose(again, training.posteriors[own], atol=1e-8)


def test_cross_fitting_scores_each_instance_once(data) -> None:
    X, y, X_bag = data
    made = KDEyML(LogisticRegression(), cv=4, random_state=3).fit(X, y)
    models = FitChecker.fit(made).models
    p = models.posteriors(X_bag, 0)
    every = np.array([m.predict_proba(X_bag) for m in models.models])
    matches = np.isclose(every, p).all(axis=2)
    assert matches.any(axis=0).all()
    assert (matches.sum(axis=1) >= len(X_bag) // 4).all()
    found = check_fit(made, X_bag, random_state=0)
    assert found.cross_fitted
    assert found.p_value == check_fit(made, X_bag, random_state=0).p_value
    plain = check_fit(made.fit(X, y, keep_fold_models=False), X_bag, random_state=0)
    assert not plain.cross_fitted
    assert plain.status == "checked one-sided"
    assert "one-sided" in plain.verdict
    assert np.isnan(plain.p_distance)
    assert plain.p_value == plain.p_density


def test_one_model_for_both_needs_no_fold_models(data) -> None:
    X, y, X_bag = data
    made = PACC(LogisticRegression(), cv=0.4, random_state=0).fit(X, y)
    assert check_fit(made, X_bag, random_state=0).cross_fitted
    made.fit(X, y, keep_fold_models=False)
    assert check_fit(made, X_bag, random_state=0).cross_fitted


def test_fold_models_need_the_instances(data) -> None:
    X, y, _ = data
    with pytest.raises(ValueError, match="pass X"):
        FitChecker.fit(PACC(cv=3).fit(X, y)).check(posteriors=np.full((4, 3), 1 / 3))


def test_methods_without_training_posteriors_say_so(data) -> None:
    X, y, X_bag = data
    with pytest.raises(ValueError, match="keeps no training posteriors"):
        check_fit(EMQ().fit(X, y), X_bag)
    with pytest.raises(TypeError, match="must work on posteriors"):
        check_fit(HDx().fit(X[y < 2], y[y < 2]), X_bag)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_null": 3}, "n_null"),
        ({"level": 0.0}, "level"),
        ({"sample_weight": [1.0]}, "sample_weight"),
        ({"posteriors": None}, "exactly one"),
        ({"posteriors": np.full((4, 2), 0.5)}, "columns"),
    ],
)
def test_bad_options(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        check_fit(fitted(), **{"posteriors": bag(0), **options})


def test_a_bag_of_one_and_of_copies() -> None:
    one = check_fit(fitted(), posteriors=bag(0)[:1], random_state=0)
    assert 0 < one.p_value <= 1
    same = check_fit(fitted(), posteriors=np.tile(bag(0)[:1], (50, 1)), random_state=0)
    assert 0 < same.p_value <= 1


def test_a_class_with_one_training_instance_warns() -> None:
    made = fitted(0, (50, 50, 1))
    with pytest.warns(UserWarning, match="class 2 has one training instance"):
        found = check_fit(made, posteriors=bag(0), random_state=0)
    assert np.isfinite(found.statistic)
