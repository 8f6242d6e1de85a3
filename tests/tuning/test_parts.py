"""Parts and hold-outs: nothing on both sides, weights are repetitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kdey.posteriors import TrainingPosteriors
from kdey.rows import TuningEffort
from kdey.tuning.trials import N_PARTS, TuningPlan, make_hold_outs, make_parts

from .cases import posteriors, training


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def rows_of(points: Any) -> set[tuple[float, ...]]:
    return {tuple(row) for row in np.asarray(points).tolist()}


@pytest.mark.parametrize("folds", [None, 3, 5, 12])
def test_pool_and_training_share_no_row_and_bags_are_what_they_say(folds: int | None) -> None:
    given = training(4, 400, folds=folds)
    made = make_hold_outs(given, 4, TuningPlan(bag_size=60), 0, TuningEffort())
    assert len(made) == min(folds or N_PARTS, N_PARTS)
    assert sum(len(one.bags) for one in made) == 100
    label_of = {
        tuple(row): y for row, y in zip(given.posteriors.tolist(), given.labels, strict=True)
    }
    for one in made:
        assert not rows_of(one.points) & rows_of(one.training.posteriors)
        assert len(one.points) + len(one.training.labels) == 400
        labels = np.array([label_of[tuple(row)] for row in one.points.tolist()])
        for b, prevalence in enumerate(one.prevalences):
            weights = one.bags.bag_weights(b)
            own = one.bags.indices[one.bags.offsets[b] : one.bags.offsets[b + 1]]
            assert weights.sum() == 60
            counted = np.bincount(labels[own], weights, minlength=4) / 60
            np.testing.assert_allclose(counted, prevalence)


def test_folds_are_the_parts() -> None:
    given = training(3, 90, folds=5)
    parts = make_parts(given, rng())
    fold_of = {tuple(r): f for r, f in zip(given.posteriors.tolist(), given.folds, strict=True)}
    assert [fold_of[tuple(r)] for r in parts.posteriors.tolist()] == parts.folds.tolist()


def test_rows_of_an_instance_tested_twice_are_on_one_side() -> None:
    p, _ = posteriors(3, 60)
    instances = np.repeat(np.arange(30), 2)
    folds = np.arange(60) % 5  # the two rows of an instance come from different folds
    labels = np.repeat(np.arange(30) % 3, 2)
    given = TrainingPosteriors(p, labels, folds=folds, instances=instances)
    parts = make_parts(given, rng())
    part_of = {tuple(r): f for r, f in zip(parts.posteriors.tolist(), parts.folds, strict=True)}
    pairs = np.array([part_of[tuple(r)] for r in p.tolist()]).reshape(30, 2)
    assert (pairs[:, 0] == pairs[:, 1]).all()
    assert len(set(pairs[:, 0])) == 5


@pytest.mark.parametrize("folds", [None, 5])
def test_weights_equal_repetition_and_order_does_not_matter(folds: int | None) -> None:
    given = training(3, 120, folds=folds)
    counts = np.random.default_rng(3).integers(0, 9, size=120)
    order = np.random.default_rng(4).permutation(int(counts.sum()))
    every = np.repeat(np.arange(120), counts)[order]
    weighted = TrainingPosteriors(
        given.posteriors, given.labels, counts.astype(float), folds=given.folds
    )
    repeated = TrainingPosteriors(
        given.posteriors[every],
        given.labels[every],
        folds=None if folds is None else given.folds[every],
    )
    a = make_hold_outs(weighted, 3, TuningPlan(bag_size=50), 7, TuningEffort())
    b = make_hold_outs(repeated, 3, TuningPlan(bag_size=50), 7, TuningEffort())
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one.points, other.points)
        np.testing.assert_array_equal(one.training.weights, other.training.weights)
        np.testing.assert_array_equal(one.bags.indices, other.bags.indices)
        np.testing.assert_array_equal(one.bags.weights, other.bags.weights)


def test_dealing_gives_every_part_its_share_of_every_class() -> None:
    p, y = posteriors(3, 300)
    p[y == 1] = [0.0, 1.0, 0.0]  # a hundred equal rows: shared, not dealt whole
    parts = make_parts(TrainingPosteriors(p, y), rng())
    for label in range(3):
        own = parts.labels == label
        mass = np.bincount(parts.folds[own], parts.weights[own], minlength=N_PARTS)
        np.testing.assert_allclose(mass, 20.0)


def test_the_work_is_bounded_and_rare_classes_are_kept() -> None:
    p, y = posteriors(3, 60_000)
    y = np.where((y == 2) & (np.arange(60_000) > 60), 0, y)  # twenty of the last class
    given = TrainingPosteriors(p, y)
    made = make_hold_outs(given, 3, TuningPlan(bag_size=100), 0, TuningEffort(rows=2_000))
    assert len(made) == 2
    for one in made:
        assert len(one.points) <= 2_500
        counts = np.bincount(one.training.labels)
        assert counts.sum() <= 2_000
        assert counts[2] == 16
        assert counts[0] == counts[1]


@pytest.mark.parametrize(("k", "bags"), [(40, 100), (400, 10), (1_000, 5)])
def test_many_classes_take_few_bags(k: int, bags: int) -> None:
    made = make_hold_outs(training(k, 2_000), k, TuningPlan(bag_size=30), 0, TuningEffort())
    assert sum(len(one.bags) for one in made) == bags


def test_classes_on_one_side_only_are_left_out_of_the_bags() -> None:
    given = training(3, 90, folds=5)
    y = given.labels.copy()
    y[0] = 3  # a single instance
    made = make_hold_outs(
        TrainingPosteriors(given.posteriors, y, folds=given.folds),
        4,
        TuningPlan(bag_size=30),
        0,
        TuningEffort(),
    )
    assert [one.n_classes for one in made] == [3, 4, 4, 4, 4]
    for one in made[1:]:
        assert (one.prevalences[:, 3] == 0).all()
    np.testing.assert_allclose(made[0].prevalences.sum(axis=1), 1.0)


def test_no_hold_out_where_classes_cannot_be_parted() -> None:
    p, _ = posteriors(2, 2)
    assert (
        make_hold_outs(
            TrainingPosteriors(p, np.array([0, 1])), 2, TuningPlan(bag_size=30), 0, TuningEffort()
        )
        == []
    )


def test_seeds_draw_other_bags_and_the_same_seed_the_same() -> None:
    given = training(3, 90)
    drawn = [
        make_hold_outs(given, 3, TuningPlan(bag_size=30), seed, TuningEffort())[0].prevalences
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
