"""Shares of sums of classes, with limits of their own."""

from __future__ import annotations

import numpy as np
import pytest

from kdey import EMQ, PACC, KDEyCS, KDEyML, Options, difference
from tests.intervals.cases import bag, dirichlet, training


def fitted(method=None):
    quantifier = PACC() if method is None else method
    return quantifier.fit_posteriors(*training(600, np.random.default_rng(0)))


@pytest.mark.parametrize("options", [{}, {"method": "bootstrap", "n_replicates": 60}])
@pytest.mark.parametrize("target", ["population", "bag"])
def test_sums_of_classes(options, target) -> None:
    p, _ = bag(300, (0.2, 0.5, 0.3), np.random.default_rng(1))
    plain = fitted().estimate_posteriors(p, target=target, options=Options(**options))
    merged = fitted().estimate_posteriors(
        p, target=target, merge={"ac": [0, 2]}, options=Options(**options)
    )
    assert merged.classes.tolist() == ["ac", 1]
    np.testing.assert_allclose(merged.estimate, [plain.estimate[[0, 2]].sum(), plain.estimate[1]])
    # The sum of two of three classes is one minus the third, and so are its limits (nearly: the
    # limits of a class by itself are those of the score interval).
    np.testing.assert_allclose(merged.low[1], plain.low[1])
    np.testing.assert_allclose(merged.low[0], 1 - plain.high[1], atol=0.02)
    np.testing.assert_allclose(merged.high[0], 1 - plain.low[1], atol=0.02)
    assert merged.method == plain.method
    np.testing.assert_allclose(merged.classify_and_count[1], plain.classify_and_count[1])
    np.testing.assert_allclose(merged.covariance[1, 1], plain.covariance[1, 1])
    assert merged.region.contains(merged.estimate)


def test_limits_of_a_sum_cover() -> None:
    rng, covered = np.random.default_rng(2), 0
    for _ in range(150):
        q = EMQ(calibration="bcts").fit_posteriors(*training(300, rng))
        p, _ = bag(200, (0.3, 0.4, 0.3), rng)
        merged = q.estimate_posteriors(p, merge={"bc": [1, 2]}, check_fit=False)
        covered += merged.low[0] <= 0.7 <= merged.high[0]
    assert covered >= 134  # of 150; 142.5 are nominal


def test_classes_that_cannot_be_told_apart_are_known_as_a_sum() -> None:
    rng = np.random.default_rng(3)

    def draw(labels):  # classes 1 and 2 look nearly the same
        p = dirichlet(np.where(labels == 2, 1, labels), rng)
        p[:, 2] = p[:, 1] = p[:, 1:].mean(axis=1)
        p[:, 1] += 0.02 * (labels == 1) + 0.3 * rng.random(len(p))
        return p / p.sum(axis=1, keepdims=True)

    labels = np.arange(600) % 3
    q = PACC().fit_posteriors(draw(labels), labels)
    p = draw(rng.choice(3, 400, p=[0.3, 0.4, 0.3]))
    plain, merged = q.estimate_posteriors(p), q.estimate_posteriors(p, merge={"bc": [1, 2]})
    widths = plain.high - plain.low
    assert merged.high[0] - merged.low[0] < 0.6 * max(widths[1], widths[2])
    np.testing.assert_allclose(merged.low[0], 1 - plain.high[0], atol=0.02)


def test_the_mapping_sets_the_order() -> None:
    p, _ = bag(100, (0.2, 0.5, 0.3), np.random.default_rng(4))
    plain = fitted().estimate_posteriors(p)
    ordered = plain.merge({2: 2, 0: [0]})
    assert ordered.classes.tolist() == [2, 0, 1]
    for name in ("estimate", "low", "high", "training_prevalence"):
        np.testing.assert_allclose(getattr(ordered, name), getattr(plain, name)[[2, 0, 1]])


def test_classes_get_other_names_in_their_places() -> None:
    p, _ = bag(100, (0.2, 0.5, 0.3), np.random.default_rng(1))
    names = {"low": 0, "middle": 1, "high": 2}
    plain, named = fitted().estimate_posteriors(p), fitted().estimate_posteriors(p, merge=names)
    assert named.classes.tolist() == ["low", "middle", "high"]
    np.testing.assert_array_equal(named.low, plain.low)
    many = fitted().estimate_posteriors(p, [range(50), range(50, 100)], merge=names)
    assert many.classes.tolist() == many[1].classes.tolist() == ["low", "middle", "high"]


def test_many_bags() -> None:
    p, _ = bag(100, (0.2, 0.5, 0.3), np.random.default_rng(5))
    q, bags = fitted(KDEyCS(bandwidth=0.2)), [np.arange(50), np.arange(50, 100), np.arange(100)]
    both = q.estimate_posteriors(p, bags, merge={"ab": [0, 1]}, options=Options(n_replicates=40))
    single = q.estimate_posteriors(p, bags, options=Options(n_replicates=40))[2].merge(
        {"ab": [0, 1]}
    )
    assert both.estimate.shape == (3, 2)
    np.testing.assert_allclose(both[2].low, single.low)
    np.testing.assert_allclose(both[1:][1].high, single.high)


@pytest.mark.parametrize(
    ("merge", "message"),
    [
        ({}, "must map"),
        ([0, 1], "must map"),
        ({"a": []}, "no class"),
        ({"a": [0, 7]}, "no classes"),
        ({"a": [0, 0]}, "twice"),
        ({"a": [0], "b": [0, 1]}, "twice"),
        ({"a": [0, 1, 2]}, "always one"),
        ({1: [0, 2]}, "another label"),
    ],
)
def test_bad_mappings_are_refused(merge, message) -> None:
    p, _ = bag(50, (0.2, 0.5, 0.3), np.random.default_rng(6))
    with pytest.raises(ValueError, match=message):
        fitted().estimate_posteriors(p, merge=merge)


@pytest.fixture(scope="module")
def twins() -> tuple[KDEyML, np.ndarray]:
    """Return a quantifier of four classes, the first two of which are the same, and a bag."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=300)
    X = rng.normal(size=(300, 2))
    X[:, 0] += 4.0 * (y >= 2)
    X[:, 1] += 4.0 * (y == 3)
    return KDEyML(bandwidth=0.2).fit(X, y), X[:150]


def test_all_classes_but_one_have_what_it_leaves(twins: tuple[KDEyML, np.ndarray]) -> None:
    """Sums with classes that cannot be told apart had an upper limit of one beside [0.2, 0.35]."""
    q, X = twins
    estimate = q.estimate(X, check_fit=False)
    merged = estimate.merge({"rest": [0, 1, 2]})
    assert merged.low[0] == pytest.approx(1.0 - estimate.high[3])
    assert merged.high[0] == pytest.approx(1.0 - estimate.low[3])
    assert not merged.notes


def test_limits_that_exclude_nothing_have_a_note(twins: tuple[KDEyML, np.ndarray]) -> None:
    q, X = twins
    merged = q.estimate(X, check_fit=False).merge({"split": [0, 2]})
    assert merged.high[0] - merged.low[0] > 0.95
    assert "the intervals of split exclude hardly any share" in merged.notes[-1]
    many = q.estimate_bags(X, [np.arange(150)], check_fit=False).merge({"split": [0, 2]})
    assert many[0].notes == merged.notes


@pytest.mark.parametrize("method", ["analytic", "bootstrap"])
def test_a_difference_of_merged_classes_knows_of_shared_templates(method: str) -> None:
    q, rng = fitted(), np.random.default_rng(7)
    p = rng.dirichlet([2.0, 1.0, 1.0], 120)
    options = Options(method=method, n_replicates=60, check_fit=False)
    both = [q.estimate_posteriors(part, options=options) for part in (p[:60], p[60:])]
    plain = difference(*both)
    merged = difference(*(estimate.merge({"ac": [0, 2]}) for estimate in both))
    assert merged.shared
    for name in ("difference", "low", "high", "p_value", "ratio_low", "ratio_high"):
        np.testing.assert_allclose(getattr(merged, name)[1], getattr(plain, name)[1], rtol=1e-9)
    # What the other two classes have is what this one leaves.
    np.testing.assert_allclose(merged.low[0], -merged.high[1], atol=1e-9)
