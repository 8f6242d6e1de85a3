"""Expected accuracy and other measures: values, variances and intervals against plain versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    precision_score,
    recall_score,
)

import kdey
from kdey.diagnostics.performance import measure_slopes, measures

from .cases import draw


def fitted(seed: int = 0, n: int = 200) -> tuple[Any, np.ndarray, np.ndarray]:
    P, y = draw([n, n, n], np.random.default_rng(seed))
    return kdey.EMQ(calibration="bcts").fit_posteriors(P, y), P, y


def measured(labels: np.ndarray, decided: np.ndarray) -> np.ndarray:
    per_class = {"average": None, "zero_division": np.nan}
    return np.concatenate(
        [
            [accuracy_score(labels, decided), f1_score(labels, decided, average="macro")],
            recall_score(labels, decided, **per_class),
            precision_score(labels, decided, **per_class),
            f1_score(labels, decided, **per_class),
        ]
    )


def test_measures_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    labels, decided = rng.integers(3, size=200), rng.integers(3, size=200)
    confusion = confusion_matrix(labels, decided) / 200
    shares = confusion.sum(axis=1)
    made = measures(shares, confusion / shares[:, None])
    np.testing.assert_allclose(made, measured(labels, decided))


def test_slopes_are_derivatives() -> None:
    rng = np.random.default_rng(1)
    confusion, cost = rng.dirichlet(np.ones(9)).reshape(3, 3), rng.normal(size=(3, 3))

    def values(c: np.ndarray) -> np.ndarray:
        return measures(c.sum(axis=1), c / c.sum(axis=1, keepdims=True), cost)

    shares = confusion.sum(axis=1)
    slopes = measure_slopes(shares, confusion / shares[:, None], cost)
    for row, column in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[row, column] = 1e-6
        by_difference = (values(confusion + step) - values(confusion - step)) / 2e-6
        np.testing.assert_allclose(slopes[:, row, column], by_difference, atol=1e-6)


def test_confusion_is_shares_times_recall() -> None:
    q, P, y = fitted()
    bag, _ = draw([20, 100, 60], np.random.default_rng(5))
    estimate = q.estimate_posteriors(bag)
    found = kdey.estimate_performance(q, estimate)
    recall = confusion_matrix(y, P.argmax(axis=1), normalize="true")
    np.testing.assert_allclose(found.confusion[0], estimate.estimate[:, None] * recall)
    np.testing.assert_allclose(found.training, measured(y, P.argmax(axis=1)))
    assert (found.confusion_low <= found.confusion).all()
    assert (found.confusion <= found.confusion_high).all()
    assert "Expected accuracy on 180 instances" in repr(found)


def test_recall_has_the_interval_of_training() -> None:
    """Under label shift its variance is that of a share among the labels of the class."""
    q, P, y = fitted(n=2000)
    bag, _ = draw([50, 50, 50], np.random.default_rng(2))
    value, low, high = (
        part[0] for part in kdey.estimate_performance(q, q.estimate_posteriors(bag)).of("recall", 1)
    )
    own = (P[y == 1].argmax(axis=1) == 1).mean()
    assert value == pytest.approx(own)
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(own * (1 - own) / 2000), rel=0.05)


def test_repeated_rows_of_a_cluster_know_no_more() -> None:
    _, P, y = fitted(n=60)
    times = np.repeat(np.arange(len(P)), 9)
    bag, _ = draw([500, 500, 500], np.random.default_rng(2))

    def widths(**given: Any) -> np.ndarray:
        q = kdey.PACC().fit_posteriors(P[times], y[times], **given)
        made = kdey.estimate_performance(q, q.estimate_posteriors(bag, check_fit=False))
        return np.array([np.ptp(made.of("recall", label)[1:]) for label in range(3)])

    q = kdey.PACC().fit_posteriors(P, y)
    made = kdey.estimate_performance(q, q.estimate_posteriors(bag, check_fit=False))
    once = np.array([np.ptp(made.of("recall", label)[1:]) for label in range(3)])
    np.testing.assert_allclose(widths(clusters=times), once, rtol=0.15)
    assert (widths() < 0.5 * once).all()


def test_variance_is_that_of_a_simulation() -> None:
    """The spread of expected accuracy over redraws of training and bag is what intervals say."""
    values, widths = [], []
    for seed in range(60):
        rng = np.random.default_rng([7, seed])
        q, _, _ = fitted(seed + 1000, n=80)
        bag, _ = draw(rng.multinomial(200, [0.6, 0.3, 0.1]), rng)
        value, low, high = kdey.estimate_performance(
            q, q.estimate_posteriors(bag, check_fit=False)
        ).of("accuracy")
        values.append(value[0])
        widths.append(high[0] - low[0])
    assert 0.7 < np.mean(widths) / (2 * 1.96 * np.std(values)) < 1.6


@pytest.mark.parametrize("target", ["population", "bag"])
def test_intervals_cover(target: str) -> None:
    covered, recall = [], recalls()
    for seed in range(60):
        rng = np.random.default_rng([3, seed])
        q, _, _ = fitted(seed, n=100)
        truth = rng.dirichlet(np.ones(3))
        bag, labels = draw(rng.multinomial(250, truth), rng)
        found = kdey.estimate_performance(
            q, q.estimate_posteriors(bag, target=target, check_fit=False)
        )
        true = (bag.argmax(axis=1) == labels).mean()
        if target == "population":
            true = float(truth @ recall)
        _, low, high = found.of("accuracy")
        covered.append(low[0] <= true <= high[0])
    assert np.mean(covered) >= 0.85  # 0.95 less three standard errors and more


def recalls() -> np.ndarray:
    P, y = draw([40_000] * 3, np.random.default_rng(99))
    return np.array([(P[y == label].argmax(axis=1) == label).mean() for label in range(3)])


def test_another_classifier() -> None:
    """Its decisions, or its scores, on the training rows or on others."""
    q, _, y = fitted()
    rng = np.random.default_rng(4)
    decided = np.where(rng.random(len(y)) < 0.7, y, rng.integers(3, size=len(y)))
    bag, _ = draw([100, 50, 50], rng)
    estimate = q.estimate_posteriors(bag)
    found = kdey.estimate_performance(q, estimate, training_decisions=decided)
    scored = kdey.estimate_performance(q, estimate, training_decisions=np.eye(3)[decided])
    other = kdey.estimate_performance(q, estimate, held_out=(y, decided))
    right = [(decided[y == label] == label).mean() for label in range(3)]
    assert found.of("accuracy")[0][0] == pytest.approx(estimate.estimate @ right)
    np.testing.assert_array_equal(found.low, scored.low)
    np.testing.assert_allclose(found.estimate, other.estimate)


def test_costs() -> None:
    """One for every error: one minus accuracy, with the mirrored interval."""
    q, _, _ = fitted()
    bag, _ = draw([100, 50, 50], np.random.default_rng(4))
    found = kdey.estimate_performance(q, q.estimate_posteriors(bag), cost=1 - np.eye(3))
    accuracy, cost = np.ravel(found.of("accuracy")), np.ravel(found.of("cost"))
    np.testing.assert_allclose(cost, (1 - accuracy)[[0, 2, 1]], atol=1e-9)


def test_groups_of_a_table() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(8)
    y = rng.integers(2, size=400)
    frame = pd.DataFrame(rng.normal(size=(400, 2)) + 2 * y[:, None], columns=["a", "b"])
    q = kdey.EMQ(calibration="bcts").fit(frame[:200], y[:200])
    table = frame[200:].assign(shop=["x", "y"] * 100)
    found = kdey.estimate_performance(q, q.predict_groups(table, "shop"))
    rows = found.to_frame()
    assert list(rows.columns[:4]) == ["shop", "n", "measure", "class"]
    assert set(rows["shop"]) == {"x", "y"}
    assert len(rows) == 2 * (2 + 3 * 2)
    alone = kdey.estimate_performance(q, frame[200::2])
    np.testing.assert_allclose(found.estimate[0], alone.estimate[0], rtol=1e-4)
    np.testing.assert_allclose(found.low[0], alone.low[0], rtol=1e-3)
    bags = kdey.estimate_performance(q, frame[200:], bags=[range(0, 200, 2), range(1, 200, 2)])
    np.testing.assert_allclose(bags.estimate, found.estimate, rtol=1e-4)
    assert "Expected accuracy on 2 bags" in repr(found)


def test_what_does_not_fit_is_refused() -> None:
    q, _, y = fitted(n=20)
    bag, _ = draw([20, 10, 10], np.random.default_rng(4))
    estimate = q.estimate_posteriors(bag)
    bad = {
        "training_decisions must have 60": {"training_decisions": y[:-1]},
        "not in classes": {"training_decisions": np.full(60, 7)},
        "not both": {"training_decisions": y, "held_out": (y, y)},
        "has no labelled instance": {"held_out": (y[:30], y[:30])},
        "a pair": {"held_out": y},
        "cost must be": {"cost": np.eye(2)},
        "leave them out": {"confidence": 0.9},
    }
    for message, keywords in bad.items():
        with pytest.raises(ValueError, match=message):
            kdey.estimate_performance(q, estimate, **keywords)
    with pytest.raises(ValueError, match="merged"):
        kdey.estimate_performance(q, estimate.merge({"b": 2, "a": [0, 1]}))
    with pytest.raises(ValueError, match="no measure"):
        kdey.estimate_performance(q, estimate).of("recall")


def test_decisions_of_folds_count_as_fewer_instances() -> None:
    """The intervals of recalls are those of four fifths of the labels with five folds."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=2000)
    X = rng.normal(size=(2000, 2)) + y[:, None]
    q = kdey.EMQ(calibration="bcts", cv=5, random_state=0).fit(X, y)
    estimate = q.estimate(X[:500], check_fit=False)
    own = kdey.estimate_performance(q, estimate).of("recall", 1)
    labels = q.model_.training.labels
    decided = q.model_.training.posteriors.argmax(axis=1)
    plain = kdey.estimate_performance(q, estimate, held_out=(labels, decided)).of("recall", 1)
    assert own[0] == pytest.approx(plain[0])
    assert (own[2] - own[1]) / (plain[2] - plain[1]) == pytest.approx(np.sqrt(1.25), rel=0.01)


def test_reports_say_how_well_the_classifier_does() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    frame = pd.DataFrame(rng.normal(size=(400, 2)) + 2 * y[:, None], columns=["a", "b"])
    q = kdey.EMQ(calibration="bcts", random_state=0).fit(frame[:200], y[:200])
    table = frame[200:].assign(shop=["x", "y"] * 100)
    sections = kdey.make_report(q, table, by="shop").page().technical
    (section,) = [part for part in sections if part.name == "performance"]
    assert [len(part.rows) for part in section.tables] == [2, 2]
    assert list(section.files) == ["performance.csv", "performance-groups.csv"]
    accuracy = kdey.estimate_performance(q, frame[200:]).of("accuracy")[0][0]
    assert f"decides rightly for {100 * accuracy:.1f}" in section.words[0]
