"""New labels for a fitted quantifier: as if templates had been made of all rows at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import kdey
from kdey.posteriors import TrainingPosteriors
from kdey.quantifiers.updating import change_of_classes


def rows(n: int, seed: int, shift: float = 0.0, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    X = rng.normal(size=(n, 4)) + 1.5 * np.eye(4)[y]
    X[y == 1] += shift
    return X, y


METHODS: dict[str, Any] = {
    "KDEyML": kdey.KDEyML(GaussianNB(), bandwidth=0.1, cv=3),
    "KDEyCS": kdey.KDEyCS(GaussianNB(), bandwidth=0.1, cv=3),
    "KDEyHD": kdey.KDEyHD(GaussianNB(), bandwidth=0.1, n_points=300, random_state=0, cv=3),
    "EMQ": kdey.EMQ(GaussianNB(), calibration="bcts", cv=3),
    "PACC": kdey.PACC(GaussianNB(), cv=3),
    "DM": kdey.DM(GaussianNB(), n_bins=6, cv=3),
    "EDy": kdey.EDy(GaussianNB(), cv=3),
    "held out": kdey.PACC(GaussianNB(), cv=0.4, random_state=0),
    "frozen": kdey.PACC(FrozenEstimator(GaussianNB().fit(*rows(60, 9)))),
    "ordered": kdey.Ordered(kdey.PACC(GaussianNB(), cv=3), strength=0.01),
    "features": kdey.DMx(n_bins=6),
    "pool": kdey.Quantifier([GaussianNB()], methods=[kdey.EMQ(calibration="bcts")], effort="low"),
}


@pytest.mark.parametrize("name", METHODS)
def test_an_update_equals_templates_of_all_rows(name: str) -> None:
    (X, y), (new, labels), (bag, _) = rows(150, 0), rows(60, 1), rows(90, 2)
    q = clone(METHODS[name]).fit(X, y)
    before, answer = q.model_, q.predict(bag)
    q.update(new, labels)
    training, points = before.training, before.points(new)
    union = TrainingPosteriors(
        np.concatenate([training.posteriors, points]), np.concatenate([training.labels, labels])
    )
    fitted = before.row_spec.fit(union, 3)
    slow = before.matching.match(fitted, fitted(before.points(bag)), kdey.Bags.whole(90))
    np.testing.assert_allclose(q.predict(bag), slow.prevalence[0], atol=1e-9)
    assert np.abs(q.predict(bag) - answer).max() > 1e-6
    if before.scorer.classifier is not None:
        assert q.classifier_ is before.scorer.classifier
    np.testing.assert_allclose(q.prevalence_, 1 / 3, atol=0.01)


def test_weights_equal_repetition() -> None:
    (X, y), (new, labels), (bag, _) = rows(90, 0), rows(30, 1), rows(60, 2)
    counts = np.random.default_rng(3).integers(0, 4, size=30)
    made = [kdey.EMQ(GaussianNB(), calibration="bcts").fit(X, y) for _ in range(2)]
    made[0].update(new, labels, counts.astype(float))
    made[1].update(np.repeat(new, counts, axis=0), np.repeat(labels, counts))
    first, second = (q.predict(bag) for q in made)
    np.testing.assert_allclose(first, second, atol=1e-9)
    np.testing.assert_allclose(made[0].prevalence_, made[1].prevalence_)


def test_the_order_of_updates_does_not_matter() -> None:
    weeks = [rows(30, seed) for seed in (1, 2, 3)]
    bag = rows(60, 4)[0]
    answers = []
    for order in ((0, 1, 2), (2, 0, 1)):
        q = kdey.KDEyML(GaussianNB(), bandwidth=0.1).fit(*rows(90, 0))
        for week in order:
            q.update(*weeks[week])
        answers.append(q.predict(bag))
        assert len(q.training_.labels) == 180
    np.testing.assert_allclose(*answers, atol=1e-9)


def test_an_account_of_what_changed() -> None:
    q = kdey.PACC(GaussianNB()).fit(*rows(150, 0))
    account = q.update(*rows(300, 1))
    assert account.n_before.tolist() == [50] * 3
    assert account.n_new.tolist() == [100] * 3
    assert account.changed == []
    assert (account.error_after < 0.8 * account.error_before).all()
    estimate = q.estimate(rows(300, 1)[0])
    covariance = estimate.uncertainty.template_covariance()
    np.testing.assert_allclose(account.error_after**2, np.diag(covariance))
    assert "300 new labelled rows have joined 150" in account.summary()
    assert "Nothing shows" in repr(account)
    assert list(account.to_frame("pandas")["class"]) == [0, 1, 2]


def test_a_class_that_changed_is_named() -> None:
    q = kdey.KDEyML(GaussianNB(), bandwidth=0.1).fit(*rows(300, 0))
    X, y = rows(300, 1, shift=-0.8)
    account = q.update(X, y)
    assert account.changed == [1]
    assert "New rows of 1 do not look like those before" in account.summary()


def test_the_shares_of_new_rows_do_not_matter() -> None:
    q = kdey.PACC(GaussianNB()).fit(*rows(300, 0))
    X, y = rows(600, 1)
    account = q.update(X[y == 0], y[y == 0])
    assert account.changed == []
    assert np.isnan(account.p_values[1:]).all()
    assert account.prevalence_after[0] == pytest.approx(300 / 500)


def test_p_values_are_those_of_a_level() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        points = rng.dirichlet([1.0, 2.0, 3.0], size=60)
        labels = np.arange(60) % 2
        parts = [TrainingPosteriors(points[i], labels[i]) for i in (slice(40), slice(40, 60))]
        found.append(change_of_classes(*parts, 2))
    assert 0.02 < (np.array(found) < 0.1).mean() < 0.13


def test_rows_of_a_cluster_count_as_one() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):  # ten clusters of ten equal rows, five of them new
        points = np.repeat(rng.dirichlet([1.0, 1.0], size=10), 10, axis=0)
        ids, labels = np.repeat(np.arange(10), 10), np.zeros(100, np.int64)
        parts = [
            TrainingPosteriors(points[i], labels[i], clusters=ids[i])
            for i in (slice(50), slice(50, 100))
        ]
        found.append(change_of_classes(*parts, 2)[0])
    assert (np.array(found) < 0.1).mean() < 0.16


def test_clusters_of_updates_are_new_ones() -> None:
    (X, y), (new, labels) = rows(90, 0), rows(30, 1)
    q = kdey.PACC(GaussianNB()).fit(X, y, clusters=np.arange(90) // 3)
    q.update(new, labels, clusters=np.arange(30) // 2)
    assert len(np.unique(q.training_.clusters)) == 30 + 15
    q.update(new + 1.0, labels)  # rows of their own
    assert len(np.unique(q.training_.clusters)) == 45 + 30
    late = kdey.PACC(GaussianNB()).fit(X, y)
    late.update(new, labels, clusters=np.arange(30) // 2)
    assert len(np.unique(late.training_.clusters)) == 90 + 15
    assert late.estimate(X).low.shape == (3,)


def test_strata_of_updates() -> None:
    (X, y), (new, labels) = rows(120, 0), rows(60, 1)
    shops = np.array(["north", "south"])
    q = kdey.PACC(GaussianNB()).fit(X, y, strata=shops[np.arange(120) // 3 % 2])
    with pytest.raises(ValueError, match="needs those of new rows"):
        q.update(new, labels)
    q.update(new, labels, strata=shops[np.arange(60) // 3 % 2])
    assert len(np.unique(q.training_.strata)) == 2
    with pytest.raises(ValueError, match="fitted without strata"):
        kdey.PACC(GaussianNB()).fit(X, y).update(new, labels, strata=shops[labels % 2])


def test_tables_and_their_columns() -> None:
    def table(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
        X, y = rows(n, seed)
        frame = pd.DataFrame(X, columns=list("abcd"))
        frame["colour"] = np.where(y + np.arange(n) % 2 > 1, "red", "blue")
        return frame, y

    q = kdey.Quantifier([LogisticRegression()], methods=[kdey.EMQ()], effort="low")
    q = q.fit(*table(240, 0))
    sizes = q.model_.columns.class_sizes
    new, labels = table(120, 1)
    q.update(new[new.columns[::-1]], labels)  # by name
    np.testing.assert_allclose(q.model_.columns.class_sizes, sizes + 40)
    assert "no problem" in q.estimate(table(120, 2)[0]).status
    with pytest.raises(ValueError, match="colour"):
        q.update(new.drop(columns="colour"), labels)


def test_scores_of_ones_own() -> None:
    (X, y), (new, labels), (bag, _) = rows(150, 0), rows(60, 1), rows(60, 2)
    scorer = GaussianNB().fit(*rows(90, 5))
    p, p_new, p_bag = (scorer.predict_proba(part) for part in (X, new, bag))
    q = kdey.KDEyML(bandwidth=0.1).fit_posteriors(p, y)
    q.update(p_new, labels)
    whole = kdey.KDEyML(bandwidth=0.1).fit_posteriors(
        np.concatenate([p, p_new]), np.concatenate([y, labels])
    )
    np.testing.assert_allclose(q.aggregate(p_bag), whole.aggregate(p_bag), atol=1e-12)
    judges = {"one": p, "other": p**2 / (p**2).sum(axis=1, keepdims=True)}
    pool = kdey.Quantifier(methods=[kdey.EMQ(calibration="bcts")]).fit_posteriors(judges, y)
    loss = pool.stack_.log_loss
    pool.update({name: each[:60] for name, each in judges.items()}, y[:60])
    assert len(pool.training_.labels) == 210
    assert pool.stack_.log_loss != loss


def test_model_files_keep_updates(tmp_path: Path) -> None:
    q = kdey.KDEyML(GaussianNB(), bandwidth=0.1).fit(*rows(90, 0))
    q.update(*rows(60, 1))
    loaded = kdey.load(kdey.save(q, tmp_path / "updated.kdey"))
    bag = rows(60, 2)[0]
    np.testing.assert_array_equal(loaded.predict(bag), q.predict(bag))
    loaded.update(*rows(60, 3))
    q.update(*rows(60, 3))
    np.testing.assert_array_equal(loaded.predict(bag), q.predict(bag))


def test_what_cannot_be_updated_is_refused_and_changes_nothing() -> None:
    (X, y), (new, labels) = rows(90, 0), rows(30, 1)
    q = kdey.PACC(GaussianNB()).fit(X, y)
    model = q.model_
    with pytest.raises(ValueError, match=r"\[7\].*never seen cannot be added"):
        q.update(new, np.where(labels == 2, 7, labels))
    with pytest.raises(ValueError, match="same number of rows, got 30 and 29"):
        q.update(new, labels[:-1])
    assert q.model_ is model
    for method in (kdey.EMQ(GaussianNB()), kdey.CC(GaussianNB())):
        with pytest.raises(ValueError, match="keeps no training posteriors"):
            method.fit(X, y).update(new, labels)


def test_rows_of_weight_zero_say_nothing() -> None:
    training = TrainingPosteriors(np.array([[0.1, 0.9]] * 6), np.zeros(6, np.int64))
    other = TrainingPosteriors(
        np.array([[0.9, 0.1]] * 6 + [[0.1, 0.9]] * 6),
        np.zeros(12, np.int64),
        np.repeat([0.0, 1.0], 6),
    )
    assert change_of_classes(training, other, 2)[0] == 1.0
    assert change_of_classes(training, replace(other, weights=None), 2)[0] < 1.0
