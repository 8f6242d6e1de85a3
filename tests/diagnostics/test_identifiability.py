"""Variances against simulation, classes that are alike, plans."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from kdey import ACC, EMQ, PACC, KDEyML, identifiability, plan_bag_size, plan_labels
from kdey.diagnostics.identify import tangent_basis

from .cases import draw, posteriors

PREVALENCE = np.array([0.5, 0.2, 0.3])


def report(method=PACC, counts=(600, 600, 600), seed=0, **options):
    p, y = draw(counts, np.random.default_rng(seed))
    return identifiability(method().fit_posteriors(p, y), prevalence=PREVALENCE, **options)


@pytest.mark.parametrize(
    "method", [PACC, ACC, partial(KDEyML, bandwidth=0.1)], ids=["PACC", "ACC", "KDEyML"]
)
@pytest.mark.parametrize("target", ["population", "bag"])
def test_widths_match_simulation(method, target: str) -> None:
    errors, counts, size = [], (150, 200, 100), 200
    for seed in range(150):
        rng = np.random.default_rng([seed, 5])
        made = method().fit_posteriors(*draw(counts, rng))
        labels = rng.choice(3, size=size, p=PREVALENCE)
        true = PREVALENCE if target == "population" else np.bincount(labels, minlength=3) / size
        errors.append(made.aggregate(posteriors(labels, rng)) - true)
    found = report(method)
    scaled = found.bag_variance(size, target) + found.template_variance(np.array(counts, float))
    np.testing.assert_allclose(np.sqrt(scaled), np.std(errors, axis=0), rtol=0.2)


def test_widths_fall_with_the_bag_to_a_floor() -> None:
    found = report()
    widths = [found.width(m) for m in (100, 400, 10**9)]
    assert (widths[0] > widths[1]).all()
    np.testing.assert_allclose(
        widths[2], 2 * 1.959964 * np.sqrt(found.template_variance()), rtol=1e-2
    )
    assert (found.width(target="bag") < found.width()).all()


def test_separated_classes_are_seen_perfectly() -> None:
    p = np.repeat(np.eye(3) * 0.97 + 0.01, 50, axis=0)
    found = identifiability(PACC().fit_posteriors(p, np.repeat(range(3), 50)), 100)
    np.testing.assert_allclose(found.affinity, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(found.template_variance(), 0.0, atol=1e-12)
    third = 1 / 3
    np.testing.assert_allclose(found.bag_variance(), third * (1 - third) / 100)
    assert found.condition == pytest.approx(1.0)
    assert found.inseparable == []


def test_classes_that_are_the_same_are_named() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(range(3), 200)
    p = posteriors(np.where(y == 2, 1, y), rng)
    made = identifiability(KDEyML(bandwidth=0.1).fit_posteriors(p, np.array(["a", "b", "c"])[y]))
    assert [pair[:2] for pair in made.inseparable] == [("b", "c")]
    assert "b and c can hardly be told apart" in made.verdict
    assert made.width()[1] > 3 * made.width()[0]
    assert made.condition > 5
    weakest = made.weakest
    assert abs(weakest @ np.array([0, 1, -1]) / np.sqrt(2)) > 0.95
    table = made.to_frame()
    assert table["closest"].tolist()[1:] == ["c", "b"]


def test_no_information_at_all_is_wide() -> None:
    p = np.full((60, 3), 1 / 3)
    found = identifiability(PACC().fit_posteriors(p, np.repeat(range(3), 20)))
    assert len(found.inseparable) == 3
    assert found.condition == np.inf or found.condition > 1e6
    # All that is left is that a prevalence lies on the simplex.
    anything = 2 * 1.959964 * np.sqrt(2 / 9 / 4)
    np.testing.assert_allclose(found.width(), anything, rtol=1e-3)
    assert not plan_bag_size(found, 0.1).reachable
    assert not plan_labels(found, 0.1).reachable


def test_tangent_basis() -> None:
    basis = tangent_basis(5)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(basis.sum(axis=0), 0.0, atol=1e-12)


def test_planned_bags_reach_the_width() -> None:
    found = report()
    plan = plan_bag_size(found, 0.15)
    assert plan.reachable
    assert (found.width(int(plan.bag_size)) <= 0.15).all()
    assert found.width(int(0.9 * plan.bag_size)).max() > 0.15
    assert str(int(plan.bag_size))[2:].strip("0") == ""
    assert list(plan.to_frame().columns) == ["class", "bag_size", "floor"]


def test_a_floor_that_no_bag_passes_is_told() -> None:
    plan = plan_bag_size(report(counts=(30, 30, 30)), 0.05)
    assert not plan.reachable
    assert plan.bag_size == np.inf
    assert plan.floors.max() > 0.05
    assert "No sample" in plan.verdict


def test_planned_labels_reach_the_width() -> None:
    found = report(counts=(30, 200, 200))
    wanted = float(found.width(2000).max() * 0.75)
    plan = plan_labels(found, wanted, bag_size=2000)
    assert plan.reachable
    assert plan.expected_width <= wanted
    assert plan.extra.argmax() == 0  # the class with few labels and half of the bag
    again = found.bag_variance(2000) + found.template_variance(found.training_counts + plan.extra)
    assert 2 * 1.96 * np.sqrt(again.max()) <= wanted * 1.001
    assert "more labels" in plan.verdict
    assert not plan_labels(found, 0.9, bag_size=2000).extra.any()


def test_labels_cannot_make_up_for_a_small_bag() -> None:
    plan = plan_labels(report(), 0.01, bag_size=50)
    assert not plan.reachable
    assert plan.floor > 0.01
    assert "larger sample" in plan.verdict


def test_plans_take_a_quantifier() -> None:
    made = PACC().fit_posteriors(*draw((60, 60, 60), np.random.default_rng(0)))
    assert plan_bag_size(made, 0.4).bag_size == plan_bag_size(identifiability(made), 0.4).bag_size
    with pytest.raises(TypeError, match="must be a fitted estimator"):
        plan_bag_size((), 0.4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bag_size": 0}, "bag_size"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_bad_options(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        report(**options)


def test_bad_requests() -> None:
    found = report()
    for width in (0.0, 1.0, -0.1):
        with pytest.raises(ValueError, match="width"):
            plan_bag_size(found, width)
    with pytest.raises(ValueError, match="target"):
        plan_bag_size(found, 0.1, target="world")
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match="keeps no training posteriors"):
        identifiability(EMQ().fit(X, X[:, 0] > 0))


def test_a_class_with_one_training_instance_is_wide_and_warns() -> None:
    p, y = draw((50, 50, 1), np.random.default_rng(0))
    with pytest.warns(UserWarning, match="class 2 has one training instance"):
        found = identifiability(PACC().fit_posteriors(p, y), prevalence=PREVALENCE)
    assert found.width()[2] > 0.35
    assert found.template_variance()[2] > 10 * found.bag_variance()[2]
