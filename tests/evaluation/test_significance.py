"""Tests of significance against enumeration, published tables and degenerate input."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from kdey.evaluation.significance import (
    average_ranks,
    compare_to_best,
    friedman,
    nemenyi,
    pooled_wilcoxon,
    wilcoxon,
)
from kdey.intervals.differences import holm

METHODS = [
    "ACC",
    "PACC",
    "HDy-OvA",
    "DM-T",
    "DM-HD",
    "KDEy-HD",
    "DM-CS",
    "KDEy-CS",
    "DIR",
    "EMQ",
    "EMQ-BCTS",
    "KDEy-ML",
]
#: MAE of the paper on its five UCI multiclass data sets, and the ranks it prints below them.
PUBLISHED = [
    [547, 496, 3405, 483, 494, 437, 500, 493, 3838, 556, 686, 427],
    [17611, 16971, 13497, 14494, 10197, 11481, 8939, 15445, 20935, 10982, 14947, 9836],
    [3584, 2864, 5448, 2295, 2177, 2513, 2822, 3545, 5892, 4225, 8876, 2402],
    [423, 372, 572, 296, 351, 264, 315, 297, 392, 249, 265, 241],
    [618, 520, 1810, 508, 543, 447, 714, 481, 934, 521, 562, 243],
]
PUBLISHED_RANKS = [9.4, 7.2, 10.2, 4.2, 4.8, 3.2, 6.0, 5.8, 11.2, 6.0, 8.4, 1.6]


def _errors(seed, shift=0.0, n=200):
    return np.random.default_rng(seed).gamma(2.0, 0.01, n) + shift


def _exact_p(difference):
    """Enumerate all signs of the ranks: the definition of the exact two-sided p-value."""
    ranks = stats.rankdata(np.abs(difference))
    observed = abs(ranks[difference > 0].sum() - ranks.sum() / 2)
    sums = [np.dot(ranks, signs) for signs in product((0, 1), repeat=len(ranks))]
    return np.mean(np.abs(np.array(sums) - ranks.sum() / 2) >= observed - 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_wilcoxon_is_exact_for_few_bags(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.random(9), rng.random(9)
    assert wilcoxon(a, b).p_value == pytest.approx(_exact_p(a - b))


def test_wilcoxon_reports_both_ways():
    a, b = _errors(0), _errors(1, shift=0.01)
    b[:7] = a[:7]
    forward, other = wilcoxon(a, b), wilcoxon(b, a)
    assert forward.p_value == other.p_value < 0.005
    assert forward.difference == pytest.approx(-other.difference)
    assert (forward.wins, forward.losses, forward.ties) == (other.losses, other.wins, 7)
    assert forward.wins + forward.losses + forward.ties == 200


def test_wilcoxon_leaves_out_equal_bags():
    a, b = _errors(0), _errors(1)
    padded = wilcoxon(np.concatenate([a, np.ones(50)]), np.concatenate([b, np.ones(50)]))
    assert padded.p_value == wilcoxon(a, b).p_value
    assert padded.ties == 50


def test_wilcoxon_holds_its_level():
    p = [wilcoxon(_errors(2 * i), _errors(2 * i + 1)).p_value for i in range(400)]
    assert stats.kstest(p, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("n", [1, 5, 100])
def test_equal_methods_give_one(n):
    a = _errors(0, n=n)
    assert wilcoxon(a, a).p_value == 1.0
    assert pooled_wilcoxon({"x": a}, {"x": a}).p_value == 1.0
    same = compare_to_best({"first": a, "second": a})
    assert same.best == 0
    assert same.marks == ["", "‡"]


def test_pooled_equals_all_bags_together():
    first = {"x": _errors(0), "y": _errors(1, n=50)}
    second = {"y": _errors(2, n=50), "x": _errors(3, 0.001)}
    expected = wilcoxon(
        np.concatenate([first["x"], first["y"]]), np.concatenate([second["x"], second["y"]])
    )
    assert pooled_wilcoxon(first, second) == expected


def test_best_gets_no_mark_and_the_others_by_level():
    base = _errors(0)
    noise = np.random.default_rng(1).normal(0, 0.01, 200)
    table = {
        "worst": base + 0.05,
        "best": base,
        "equal": base + noise - noise.mean() + 1e-6,
        "worse": base + noise - noise.mean() + 1.7e-3,
    }
    result = compare_to_best(table)
    assert result.names == list(table)
    assert result.best == 1
    np.testing.assert_allclose(result.means, [np.mean(v) for v in table.values()])
    assert 0.005 < result.p_values[3] < 0.05
    assert result.marks == ["", "", "‡", "†"]
    assert result.p_values[1] == 1.0
    assert result.p_values[0] == wilcoxon(table["worst"], base).p_value
    as_array = compare_to_best(np.stack(list(table.values())), names=list(table))
    np.testing.assert_array_equal(as_array.p_values, result.p_values)


def test_marks_are_those_of_the_paper_at_the_levels():
    from kdey.evaluation.significance import _mark

    marks = [_mark(p) for p in (1.0, 0.05, 0.0499, 0.00501, 0.005, 1e-9)]
    assert marks == ["‡", "‡", "†", "†", "", ""]


def test_best_with_holm():
    table = np.stack([_errors(0), *(_errors(i, 0.001) for i in range(1, 6))])
    raw, corrected = compare_to_best(table), compare_to_best(table, correction="holm")
    others = np.arange(6) != raw.best
    np.testing.assert_array_equal(corrected.p_values[others], holm(raw.p_values[others]))
    assert (corrected.p_values >= raw.p_values).all()
    assert compare_to_best(table[:1]).marks == [""]


def test_holm_by_hand():
    np.testing.assert_allclose(
        holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02], rtol=1e-12
    )
    np.testing.assert_array_equal(holm([0.5, 0.9]), [1.0, 1.0])
    assert holm([]).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.001, 0.2))
def test_holm_rejects_as_the_step_down_procedure_does(p, level):
    rejected = set()
    for step, i in enumerate(np.argsort(p, kind="stable")):
        # In this form, so that both sides round alike.
        if p[i] * (len(p) - step) > level:
            break
        rejected.add(int(i))
    assert set(np.flatnonzero(holm(p) <= level).tolist()) == rejected


def test_ranks_are_those_the_paper_prints():
    ranks = average_ranks(PUBLISHED, METHODS)
    assert list(ranks) == METHODS
    assert list(ranks.values()) == pytest.approx(PUBLISHED_RANKS)
    by_method = dict(zip(METHODS, np.transpose(PUBLISHED), strict=True))
    assert average_ranks(by_method) == ranks


def test_equal_errors_share_ranks():
    assert average_ranks([[1, 1, 2], [3, 3, 3]]) == {"0": 1.75, "1": 1.75, "2": 2.5}


@pytest.mark.parametrize("digits", [1, 6])
def test_friedman_matches_scipy_with_and_without_ties(digits):
    table = np.round(np.random.default_rng(0).random((9, 5)) + np.arange(5) / 10, digits)
    result = friedman(table)
    expected = stats.friedmanchisquare(*table.T)
    assert result.statistic == pytest.approx(expected.statistic)
    assert result.p_value == pytest.approx(expected.pvalue)
    n, k = table.shape
    f = (n - 1) * result.statistic / (n * (k - 1) - result.statistic)
    assert result.f_statistic == pytest.approx(f)
    assert result.f_p_value == pytest.approx(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))


def test_friedman_in_degenerate_cases():
    tied = friedman(np.ones((4, 3)))
    assert (tied.statistic, tied.p_value, tied.f_p_value) == (0.0, 1.0, 1.0)
    unanimous = friedman(np.tile([1.0, 2.0, 3.0], (6, 1)))
    assert unanimous.statistic == pytest.approx(12.0)
    assert unanimous.f_p_value == 0.0
    two = friedman(np.random.default_rng(0).random((10, 2)))
    assert 0 < two.p_value <= 1
    assert friedman([[1.0, 2.0, 3.0]]).f_p_value == 1.0


@pytest.mark.parametrize(
    ("k", "level", "q"),
    [
        (2, 0.05, 1.960),
        (5, 0.05, 2.728),
        (10, 0.05, 3.164),
        (2, 0.10, 1.645),
        (5, 0.10, 2.459),
        (10, 0.10, 2.920),
    ],
)
def test_critical_difference_uses_the_published_constants(k, level, q):
    table = np.random.default_rng(0).random((14, k))
    result = nemenyi(table, level=level)
    expected = q * np.sqrt(k * (k + 1) / (6 * 14))
    assert result.critical_difference == pytest.approx(expected, rel=5e-4)


def test_nemenyi_p_values_agree_with_the_critical_difference():
    table = np.random.default_rng(1).random((12, 5)) + np.arange(5) * 0.3
    result = nemenyi(table, list("abcde"))
    apart = np.abs(result.ranks[:, None] - result.ranks)
    np.testing.assert_array_equal(result.p_values <= 0.05, apart >= result.critical_difference)
    np.testing.assert_array_equal(result.p_values, result.p_values.T)
    np.testing.assert_array_equal(np.diag(result.p_values), 1.0)
    assert 0 < np.count_nonzero(result.p_values <= 0.05) < 20


def test_groups_are_the_largest_sets_that_cannot_be_told_apart():
    table = np.random.default_rng(1).random((12, 6)) + np.arange(6) * 0.3
    result = nemenyi(table[:, ::-1], list("fedcba"))
    same = {frozenset(group) for group in _all_subsets(result) if len(group) > 1}
    largest = {g for g in same if not any(g < other for other in same)}
    assert {frozenset(group) for group in result.groups} == largest
    assert len(largest) > 1
    means = dict(zip(result.names, result.ranks, strict=True))
    starts = [means[group[0]] for group in result.groups]
    assert starts == sorted(starts)


def _all_subsets(result):
    names = np.array(result.names)
    for chosen in product((False, True), repeat=len(names)):
        ranks = result.ranks[list(chosen)]
        if len(ranks) and np.ptp(ranks) < result.critical_difference:
            yield names[list(chosen)].tolist()


def test_clear_winners_stand_alone():
    result = nemenyi(np.tile([1.0, 2.0, 3.0], (60, 1)))
    assert result.groups == []
    assert nemenyi(np.ones((5, 3))).groups == [["0", "1", "2"]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wilcoxon([1.0], [1.0, 2.0]), "must be paired, got 1 and 2"),
        (lambda: wilcoxon([], []), "first must be a non-empty"),
        (lambda: wilcoxon([1.0], [np.nan]), "second contains NaN"),
        (lambda: pooled_wilcoxon({"x": [1.0]}, {"y": [1.0]}), r"not in both: \['x', 'y'\]"),
        (lambda: pooled_wilcoxon({"x": [1.0]}, {"x": [1.0, 2]}), "errors on 'x'"),
        (lambda: pooled_wilcoxon({}, {}), "at least one data set"),
        (lambda: compare_to_best({}), "at least one method"),
        (lambda: compare_to_best({"a": [1.0], "b": [1.0, 2.0]}), "{'a': 1, 'b': 2}"),
        (lambda: compare_to_best({"a": [np.inf]}), r"errors\['a'\] contains NaN or inf"),
        (lambda: compare_to_best([[1.0], [2.0]], ["a", "a"]), "2 distinct names"),
        (lambda: compare_to_best({"a": [1.0]}, ["a"]), "names must not be given"),
        (lambda: compare_to_best([1.0, 2.0]), "errors must be a non-empty array of 2 axes"),
        (lambda: compare_to_best([[1.0]], correction="bonferroni"), "correction must be"),
        (lambda: holm([0.5, 1.5]), "p_values must lie"),
        (lambda: holm([np.nan]), "p_values must lie"),
        (lambda: holm([[0.5]]), "p_values must be a vector"),
        (lambda: holm(["x"]), "p_values must be numbers"),
        (lambda: holm([1j]), "p_values must be real numbers"),
        (lambda: friedman(""), "errors must be numbers"),
        (lambda: wilcoxon([object()], [1.0]), "must be numbers"),
        (lambda: average_ranks([[1.0, np.nan]]), "errors contains NaN"),
        (lambda: friedman([[1.0], [2.0]]), "at least two methods"),
        (lambda: nemenyi([[1.0, 2.0]], level=1.0), "level must lie"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
