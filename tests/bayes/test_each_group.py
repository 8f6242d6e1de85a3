"""Intervals that hold for each group, and groups that do not belong, without any quantifier."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from kdey.bayes.each_group import (
    LEVELS,
    OtherGroups,
    SeparateEnds,
    _chances_of_counts,
    _inside,
    go_with_size,
    row_ends,
)
from kdey.bayes.sampling import TemplateDraw
from kdey.intervals.moments import adapted
from kdey.rows.posterior import RatioMap

TAIL, ERROR = 0.025, 0.06
NONE = np.zeros(2)


def normal_ends(estimates: np.ndarray, error: float = ERROR) -> SeparateEnds:
    """Return ends around estimates (G,) of the first class with a known standard error."""
    both = np.stack([estimates, 1.0 - estimates], axis=1)
    ends = [
        (both + ndtri(TAIL * level) * error, both - ndtri(TAIL * level) * error) for level in LEVELS
    ]
    return SeparateEnds.of(both, ends, TAIL)


def others_of(estimates: np.ndarray, size: int = 60) -> tuple[OtherGroups, SeparateEnds]:
    ends, n = normal_ends(estimates), len(estimates)
    return OtherGroups.of(ends, np.full(n, size), np.zeros(n, dtype=np.int64)), ends


def test_scores_are_those_of_the_normal_distribution() -> None:
    ends, t = normal_ends(np.array([0.4, 0.5])), np.linspace(0.25, 0.65, 9)
    expected = (np.array([[0.4], [0.5]]) - t) / ERROR
    np.testing.assert_allclose(ends.scores_of(0, t), expected, atol=0.05)
    np.testing.assert_allclose(
        ends.shares_at(np.array([1.96, 0.0]))[0, 0], [0.2824, 0.4], atol=2e-3
    )


def test_intervals_without_others_are_the_separate_ones() -> None:
    """The other groups show that shares lie anywhere: nothing can be gained."""
    others, ends = others_of(np.linspace(0.1, 0.9, 30))
    low, high = others.intervals(ends, TAIL, NONE)
    inner = slice(8, 22)  # the ends of the range are as far from the others as any group is
    np.testing.assert_allclose((high - low)[inner], 2 * 1.96 * ERROR, rtol=0.06)
    assert not others.strange.any()


@pytest.mark.parametrize("truth", [0.3, 0.42, 0.55, 0.85], ids=["as-others", "two", "four", "far"])
def test_each_group_is_covered(truth: float) -> None:
    """The oracle: coverage of one share among thirty equal ones, over the normal distribution."""
    rng, tries = np.random.default_rng(0), 400
    estimates = truth + ERROR * ndtri((np.arange(tries) + 0.5) / tries)
    covered, width = [], []
    for _ in range(3):  # what others say of the last group does not depend on its own estimate
        others = others_of(np.append(0.3 + ERROR * rng.normal(size=30), truth))[0]
        same = [np.tile(values[30], (tries, 1)) for values in (others.mean, others.spread)]
        made = OtherGroups(*same, np.ones(tries))
        low, high = made.intervals(normal_ends(estimates), TAIL, NONE)
        covered.append(((low <= truth) & (truth <= high))[:, 0].mean())
        width.append((high - low)[:, 0].mean())
    assert 0.94 <= np.mean(covered) <= 0.96
    assert np.mean(width) <= (0.9 if truth == 0.3 else 1.5) * 2 * 1.96 * ERROR


def test_what_a_group_shows_does_not_enter_what_others_say_of_it() -> None:
    rng = np.random.default_rng(1)
    estimates = 0.3 + ERROR * rng.normal(size=20)
    made = [others_of(np.append(estimates, own))[0] for own in (0.3, 0.8)]
    np.testing.assert_allclose(made[0].mean[20], made[1].mean[20], atol=0.005)
    np.testing.assert_allclose(made[0].spread[20], made[1].spread[20], atol=0.005)
    assert made[0].p_value[20] > 0.3
    assert made[1].strange[20]
    assert made[1].strange.sum() == 1


def test_two_groups_that_do_not_belong_do_not_hide_each_other() -> None:
    estimates = np.append(0.3 + ERROR * np.random.default_rng(2).normal(size=20), [0.85, 0.9])
    assert np.flatnonzero(others_of(estimates)[0].strange).tolist() == [20, 21]


def test_groups_are_held_against_those_of_their_parent() -> None:
    rng = np.random.default_rng(3)
    estimates = np.concatenate([centre + 0.03 * rng.normal(size=10) for centre in (0.2, 0.8)])
    parents, ends = np.repeat([0, 1], 10), normal_ends(np.append(estimates, 0.5), 0.03)
    sizes = np.full(21, 200)
    made = OtherGroups.of(ends, sizes, np.append(parents, 2))  # the last has no sibling
    assert not made.strange[:20].any()
    np.testing.assert_allclose(made.mean[:20, 0], np.repeat([0.2, 0.8], 10), atol=0.05)
    assert made.spread[20, 0] > 0.15
    np.testing.assert_allclose(made.mean[20, 0], 0.5, atol=0.1)


def test_a_small_count_is_not_as_surprising_as_its_score() -> None:
    t = np.array([0.05, 0.5])
    least = _chances_of_counts(4 / 15, 15, t)[0]
    expected = 1 - sum(
        np.array([1, 15, 105, 455])[j] * t**j * (1 - t) ** (15 - j) for j in range(4)
    )
    np.testing.assert_allclose(least, expected)
    assert least[0] > 20 * ndtr(-(4 / 15 - 0.05) / np.sqrt(0.05 * 0.95 / 15))
    assert _chances_of_counts(0.0, 15, t)[0].tolist() == [1.0, 1.0]
    assert _chances_of_counts(1.0, 15, t)[1].tolist() == [1.0, 1.0]


def test_estimates_move_as_far_as_they_stay_inside() -> None:
    start, end = np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([[0.7, 0.3], [0.25, 0.75]])
    low, high = start - 0.1, start + 0.1
    np.testing.assert_allclose(_inside(start, end, low, high), [[0.6, 0.4], [0.25, 0.75]])
    np.testing.assert_allclose(_inside(start, start, start, start), start)


def overlapping(shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return densities (m, 2) of rows of two classes that overlap, by the share of the first."""
    x = np.where(rng.random(len(shares)) < shares, 0.5, -0.5) + rng.normal(size=len(shares))
    ratio = np.exp(np.clip(x, -20.0, 20.0))
    return np.stack([ratio, np.ones_like(ratio)], axis=1) / np.maximum(ratio, 1.0)[:, None]


def exact_templates(rng: np.random.Generator, n: int = 4000) -> TemplateDraw:
    labels = np.arange(n) % 2
    rows = overlapping(1.0 - labels, rng)
    weights = np.stack([labels == 0, labels == 1], axis=1) / (n / 2)
    return TemplateDraw(RatioMap(), False, rows, weights)


def test_row_ends_are_means_on_the_scale_of_shares() -> None:
    """The oracle: a loop over groups and classes; in expectation the centre is the share."""
    rng = np.random.default_rng(3)
    templates, mix, sizes = (
        exact_templates(rng),
        np.array([0.3, 0.7]),
        np.array([400, 3, 1, 600, 500]),
    )
    shares = np.repeat([0.1, 0.5, 0.5, 0.9, 0.4], sizes)
    rows = overlapping(shares, rng)
    membership = rows * mix / (rows @ mix)[:, None]
    ends = row_ends(membership, templates, mix, sizes, TAIL)
    known = templates.training * mix / (templates.training @ mix)[:, None]
    groups = np.split(membership, np.cumsum(sizes)[:-1])
    common = sum(((g - g.mean(axis=0)) ** 2).sum(axis=0) for g in groups) / (1504 - 5)
    for number, own in enumerate(groups):
        for label in range(2):
            first, second = (known[templates.weights[:, c] > 0, label].mean() for c in range(2))
            inside, outside = (first, second) if label == 0 else (second, first)
            centre = (own[:, label].mean() - outside) / (inside - outside)
            squares = ((own[:, label] - own[:, label].mean()) ** 2).sum() + 10 * common[label]
            error = np.sqrt(squares / (len(own) + 9) / len(own)) / (inside - outside)
            assert ends.estimate(label)[number] == pytest.approx(centre)
            at = np.flatnonzero(np.isclose(ends.scores, -ndtri(TAIL)))[0]
            assert ends.shares[at, number, label] == pytest.approx(centre + ndtri(TAIL) * error)
    np.testing.assert_allclose(ends.estimate(0)[[0, 3, 4]], [0.1, 0.9, 0.4], atol=0.12)


def test_rows_show_a_group_that_shares_cannot() -> None:
    """Separate intervals rule nothing out; the rows of the group are not those of the others."""
    rng, sizes, parents = np.random.default_rng(4), np.full(20, 60), np.zeros(20, dtype=np.int64)
    templates, mix = exact_templates(rng), np.array([0.3, 0.7])
    nothing = np.tile([0.3, 0.7], (20, 1))
    ends = [(np.zeros((20, 2)), np.ones((20, 2)))] * len(LEVELS)
    by_shares = OtherGroups.of(SeparateEnds.of(nothing, ends, TAIL), sizes, parents)
    assert not by_shares.strange.any()
    shares = np.repeat(np.where(np.arange(20) == 7, 0.95, 0.3), sizes)
    rows = row_ends(adapted(overlapping(shares, rng), mix), templates, mix, sizes, TAIL)
    both = by_shares.tested_by_rows(rows, sizes, parents)
    assert np.flatnonzero(both.strange).tolist() == [7]


def test_rows_of_equal_groups_are_seldom_strange() -> None:
    rng, sizes, parents = np.random.default_rng(5), np.full(20, 40), np.zeros(20, dtype=np.int64)
    templates, mix, tables = exact_templates(rng), np.array([0.3, 0.7]), 60
    alarms = 0
    for _ in range(tables):
        rows = adapted(overlapping(np.full(800, 0.3), rng), mix)
        others = OtherGroups.of(row_ends(rows, templates, mix, sizes, TAIL), sizes, parents)
        alarms += int(others.strange.any())
    assert alarms <= 9  # 0.1 of them at most; nine or fewer with a chance of 0.9 then


def test_rows_beyond_those_of_all_classes_make_no_group_strange() -> None:
    """All groups are alike, and all of them are further out than a group of one class."""
    rng, sizes, parents = np.random.default_rng(8), np.full(10, 1000), np.zeros(10, dtype=np.int64)
    templates, mix = exact_templates(rng), np.array([1e-4, 1.0 - 1e-4])
    ratio = np.exp(rng.normal(-1.5, 1.0, 10_000))
    rows = adapted(np.stack([ratio, np.ones_like(ratio)], axis=1), mix)
    ends = row_ends(rows, templates, mix, sizes, TAIL)
    assert not OtherGroups.of(ends, sizes, parents).strange.any()
    rows[:1000] = adapted(overlapping(np.full(1000, 0.5), rng), mix)
    ends = row_ends(rows, templates, mix, sizes, TAIL)
    assert np.flatnonzero(OtherGroups.of(ends, sizes, parents).strange).tolist() == [0]


@pytest.mark.parametrize(("n", "spread"), [(100, 0.05), (30_000, 0.05), (10**8, 0.0)])
def test_large_groups_belong_together(n: int, spread: float) -> None:
    """Their shares are spread as those of small groups may be, and are known exactly."""
    sizes, parents = np.full(12, n), np.zeros(12, dtype=np.int64)
    first = np.random.default_rng(9).normal(0.3, np.hypot(spread, 0.4 / np.sqrt(n)), 12)
    centre = np.stack([first, 1.0 - first], axis=1)
    error = 0.4 / np.sqrt(n)
    scores = -ndtri(TAIL * np.array(LEVELS))
    ends = [(centre - q * error, centre + q * error) for q in scores]
    others = OtherGroups.of(SeparateEnds.of(centre, ends, TAIL), sizes, parents)
    assert (others.p_value * 12 > 0.1).all()


def test_groups_each_of_one_class_are_not_all_strange() -> None:
    sizes, parents = np.full(8, 200), np.zeros(8, dtype=np.int64)
    first = np.arange(8) % 2 * 1.0
    centre = np.stack([first, 1.0 - first], axis=1)
    ends = [
        (np.maximum(centre - q, 0.0), np.minimum(centre + q, 1.0))
        for q in (0.03, 0.025, 0.02, 0.015)
    ]
    others = OtherGroups.of(SeparateEnds.of(centre, ends, TAIL), sizes, parents)
    assert (others.p_value * 8 < 0.1).all()
    assert not others.strange.any()
    assert others.differ


def test_large_groups_that_differ_from_small_ones_are_seen() -> None:
    rng, mix = np.random.default_rng(6), np.array([0.3, 0.7])
    sizes = np.where(np.arange(30) % 2 == 0, 15, 60)
    found = {}
    for share in (0.3, 0.6):  # of the large groups; the small ones have 0.3
        shares = np.repeat(np.where(sizes == 60, share, 0.3), sizes)
        found[share] = [
            go_with_size(adapted(overlapping(shares, rng), mix), sizes) for _ in range(60)
        ]
    assert np.mean(found[0.3]) < 0.15  # 0.05 at the level of the test
    assert np.mean(found[0.6]) > 0.8


def test_groups_of_one_size_cannot_go_with_it() -> None:
    rng, sizes = np.random.default_rng(7), np.full(10, 20)
    assert not go_with_size(rng.random((200, 2)), sizes)
    assert not go_with_size(rng.random((3, 2)), np.array([1, 2]))


def test_equal_rows_do_not_go_with_size() -> None:
    """Their means differ by rounding."""
    sizes = np.array([5, 5, 5, 8, 10, 10, 20, 30])
    rows = np.tile([0.3, 0.7], (93, 1))
    assert np.ptp(np.add.reduceat(rows[:, 0], [0, 33]) / [33, 60]) > 0.0
    assert not go_with_size(rows, sizes)
