"""Merged classes with labels, and plans of which instances to label."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtrit

import kdey
from kdey import EMQ, PACC, HDx
from tests.intervals.cases import dirichlet, training


def fitted():
    return EMQ(calibration="bcts").fit_posteriors(*training(600, np.random.default_rng(0)))


def bag(size, rng):
    labels = rng.choice(3, size, p=[0.2, 0.5, 0.3])
    return dirichlet(labels, rng), labels


def test_two_of_three_classes_mirror_the_third() -> None:
    p, y = bag(300, np.random.default_rng(1))
    pair = (np.arange(40), y[:40])
    plain = fitted().estimate_posteriors(p, labelled=pair)
    merged = fitted().estimate_posteriors(p, labelled=pair, merge={"ac": [0, 2], "b": 1})
    assert merged.classes.tolist() == ["ac", "b"]
    for way, part in merged.alternatives.items():
        np.testing.assert_allclose(part.estimate.sum(), 1)
        np.testing.assert_allclose(part.low[0], 1 - part.high[1], atol=1e-9)
        np.testing.assert_allclose(part.high[0], 1 - part.low[1], atol=1e-9)
        np.testing.assert_allclose(part.estimate[1], plain.alternatives[way].estimate[1], atol=0.05)
    labels = merged.alternatives["labels"]
    np.testing.assert_allclose(labels.low[1], plain.alternatives["labels"].low[1])
    with pytest.raises(ValueError, match="merge="):
        plain.merge({"ac": [0, 2]})


@pytest.mark.parametrize("target", ["population", "bag"])
def test_a_plan_gives_the_width_that_it_promises(target) -> None:
    rng, q = np.random.default_rng(2), fitted()
    widths, covered = [], 0
    for seed in range(30):
        p, y = bag(1_000, rng)
        plan = kdey.plan_labels(q, 0.12, posteriors=p, target=target, random_state=seed)
        chosen = plan.positions
        result = q.estimate_posteriors(
            p,
            labelled=(chosen, y[chosen]),
            target=target,
            check_fit=False,
            options=kdey.Options(selection=plan.selection),
        )
        truth = np.array([0.2, 0.5, 0.3])
        truth = np.bincount(y) / 1_000 if target == "bag" else truth
        covered += ((result.low <= truth) & (truth <= result.high)).sum()
        widths.append((result.high - result.low).max())
        assert plan.n_labels < plan.n_without_model
    assert np.mean(widths) == pytest.approx(0.12, rel=0.1)
    assert covered >= 80  # of 90


def test_narrower_limits_need_more_labels() -> None:
    p, _ = bag(800, np.random.default_rng(3))
    plans = [kdey.plan_labels(fitted(), w, posteriors=p) for w in (0.4, 0.2, 0.1)]
    counts = [plan.n_labels for plan in plans]
    assert counts == sorted(counts)
    assert len(set(counts)) == 3
    for plan in plans:
        assert plan.reachable
        assert len(np.unique(plan.positions)) == plan.n_labels
        assert ((plan.selection > 0) & (plan.selection <= 1)).all()
        assert (plan.expected_widths <= plan.width).all()
        assert f"{plan.n_labels:,} labels" in plan.verdict
    assert list(plans[0].to_frame("pandas").columns) == ["position", "selection"]


def test_probabilities_are_those_of_the_draw() -> None:
    from kdey.diagnostics.planning import draw_systematically, selection_probabilities

    f = np.random.default_rng(4).dirichlet([0.3, 0.3, 0.3], 50)
    p = selection_probabilities(f, 12)
    assert p.sum() == pytest.approx(12)
    drawn = np.zeros(50)
    for seed in range(4_000):
        positions = draw_systematically(p, f, seed)
        assert len(positions) == 12
        drawn[positions] += 1
    np.testing.assert_allclose(drawn / 4_000, p, atol=0.04)
    certain = selection_probabilities(f, 49)
    assert certain.max() <= 1
    assert certain.sum() == pytest.approx(49)


def test_a_width_that_the_bag_cannot_reach() -> None:
    p, _ = bag(60, np.random.default_rng(5))
    plan = kdey.plan_labels(fitted(), 0.05, posteriors=p)
    assert not plan.reachable
    assert plan.n_labels == 60
    assert "larger sample" in plan.verdict


def test_bad_plans_are_refused() -> None:
    q = fitted()
    p, _ = bag(60, np.random.default_rng(6))
    with pytest.raises(ValueError, match="width"):
        kdey.plan_labels(q, 2.0, posteriors=p)
    with pytest.raises(ValueError, match="bag_size"):
        kdey.plan_labels(q, 0.2, posteriors=p, bag_size=10)
    with pytest.raises(TypeError, match="quantifier itself"):
        kdey.plan_labels(kdey.identifiability(q), 0.2, posteriors=p)
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(TypeError, match="posteriors"):
        kdey.plan_labels(HDx().fit(X, np.arange(60) % 2), 0.2, X=X)


def test_limits_of_an_absent_sum_are_those_of_the_variance_at_the_limit() -> None:
    # By the variance at the estimate, zero, they were as narrow as if nothing could be missed.
    rng = np.random.default_rng(8)
    labels = np.repeat(np.arange(4), 50)

    def posteriors(codes):
        p = rng.gamma(np.eye(4)[codes] * 8 + 0.3)
        return p / p.sum(axis=1, keepdims=True)

    q = PACC().fit_posteriors(posteriors(labels), labels)
    estimate = q.estimate_posteriors(posteriors(np.arange(200) % 2), check_fit=False)
    merged = estimate.merge({"absent": [2, 3], "present": [0, 1]})
    uncertainty, members = estimate.uncertainty, np.array([0.0, 0.0, 1.0, 1.0])
    t = merged.high[0]
    mix = (200 * estimate.estimate + 0.5) / 202
    there = np.where(members > 0, mix * t / (members @ mix), mix * (1 - t) / (1 - members @ mix))
    error = np.sqrt(members @ uncertainty.covariance_at(there) @ members)
    quantile = stdtrit(uncertainty.freedom(), 0.975)
    assert t == pytest.approx(members @ uncertainty.centre() + quantile * error, rel=0.02)
    assert error > 1.05 * np.sqrt(members @ estimate.covariance @ members)
