"""The number of kernels in a pool is bounded, and the heaviest are kept wherever they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kdey
from kdey.posteriors import TrainingPosteriors
from kdey.rows import CompositeMap, RowMap
from kdey.rows.kernel import KernelDensityMap, KernelSpec
from kdey.rows.posterior import RatioMap
from kdey.stacking.pooled_classifier import (
    MOST_KERNELS,
    FittedMember,
    HeldOut,
    MemberMethod,
    fit_member,
    held_out,
    limit_kernels,
)


def rows(h: float, kernel: str = "gaussian") -> KernelDensityMap:
    return KernelDensityMap(KernelSpec(h, kernel, 0.01))


COMMITTEE = CompositeMap((rows(0.1), rows(0.3), rows(0.5, "aitchison")), (0.5, 0.3, 0.2))
METHODS = (
    MemberMethod("kernels", COMMITTEE, True),
    MemberMethod("kernel", rows(0.2), True),
    MemberMethod("ratios", RatioMap(), False),
)


def scores(seed: int, n: int = 120, k: int = 3) -> TrainingPosteriors:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    p = rng.dirichlet(np.ones(k), n) + 1.5 * rng.random((n, 1)) * np.eye(k)[y]
    return TrainingPosteriors(p / p.sum(axis=1, keepdims=True), y)


@pytest.fixture(scope="module")
def trainings() -> dict[str, TrainingPosteriors]:
    return {"a": scores(0), "b": scores(1)}


@pytest.fixture(scope="module")
def pool(trainings: dict[str, TrainingPosteriors]) -> HeldOut:
    members = [fit_member(c, m, t, 3) for c, t in trainings.items() for m in METHODS]
    made = held_out(members, trainings)
    # The heaviest kernels weigh 0.2, 0.15 and 0.12: two of the committee of a, and its single one.
    return replace(made, weights=np.array([0.4, 0.15, 0.1, 0.2, 0.05, 0.1]))


def kernels_of(member: FittedMember) -> list[float]:
    maps = [member.row_map.members[i] for i in member.kernels]
    return [m.kernel_width() or 0.0 for m in maps]


def test_the_heaviest_kernels_are_kept(pool: HeldOut, trainings) -> None:
    limited = limit_kernels(pool, trainings, most=3)
    kept = {m.name: kernels_of(m) for m in limited.members if m.kernels}
    assert kept == {"kernels on a": [0.1, 0.3], "kernel on a": [0.2]}
    committee = next(m for m in limited.members if m.name == "kernels on a")
    assert committee.row_map.shares == pytest.approx([0.625, 0.375])
    assert {"ratios on a", "ratios on b"} <= {m.name for m in limited.members}


def test_weights_and_distributions_are_those_of_the_smaller_pool(pool: HeldOut, trainings) -> None:
    limited = limit_kernels(pool, trainings, most=2)
    again = held_out(limited.members, trainings)
    np.testing.assert_allclose(limited.distributions, again.distributions, atol=1e-12)
    np.testing.assert_allclose(limited.weights, again.weights, atol=1e-9)


def test_a_pool_with_few_kernels_is_left_as_it_is(pool: HeldOut, trainings) -> None:
    assert limit_kernels(pool, trainings, most=8) is pool
    plain = pool.keep([2, 5])
    assert limit_kernels(plain, trainings, most=1) is plain


def test_a_pool_of_kernels_alone_keeps_some(pool: HeldOut, trainings) -> None:
    limited = limit_kernels(pool.keep([0, 3]), trainings, most=1)
    assert [len(m.kernels) for m in limited.members] == [1]
    assert limited.weights == pytest.approx([1.0])


def test_parts_of_a_composite_can_be_kept(trainings) -> None:
    fitted: RowMap = COMMITTEE.fit(trainings["a"], 3)
    kept, spec = fitted.keep([0, 2]), COMMITTEE.keep([0, 2])
    assert isinstance(kept, CompositeMap)
    assert kept.shares == pytest.approx([5 / 7, 2 / 7])
    points = trainings["b"].required()
    others = spec.fit(trainings["a"], 3)(points).members
    for part, same in zip(kept(points).members, others, strict=True):
        np.testing.assert_array_equal(part.each(), same.each())


def test_members_without_weights_can_be_kept_too(trainings) -> None:
    stack = CompositeMap((rows(0.1), rows(0.2), rows(0.3)))
    kept = stack.fit(trainings["a"], 3).keep([0, 2])
    assert len(kept.members) == 2
    assert kept.shares == pytest.approx([0.5, 0.5])


def test_quantifier_has_few_kernels_by_fit_posteriors() -> None:
    a, b = scores(0, 240), scores(1, 240)
    q = kdey.Quantifier(random_state=0)
    q.fit_posteriors({"a": a.required(), "b": b.required()}, a.labels)
    members = q.row_map_.pool
    assert 1 <= sum(len(m.kernels) for m in members) <= MOST_KERNELS
    # A refit with the chosen members, as a bootstrap or a search makes it, has the same kernels.
    again = q.model_.row_spec.fit(q.training_, 3)
    assert [kernels_of(m) for m in again.pool] == [kernels_of(m) for m in members]
    np.testing.assert_allclose(again.weights, q.row_map_.weights, atol=1e-6)
