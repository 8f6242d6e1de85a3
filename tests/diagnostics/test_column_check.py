"""The column check: against a slow version of its formulas, its level, its power, its words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import chi2, norm

import kdey
from kdey.bags import Bags
from kdey.diagnostics.column_check import (
    benjamini_hochberg,
    bin_counts,
    check_columns,
    column_p_values,
    holm,
)
from kdey.intervals.checks import ColumnVerdict, NotChecked
from kdey.tables.templates import MOST_COLUMNS, ClassCounts, ColumnTemplates, learn_columns

Array = np.ndarray


def sample(rng: np.random.Generator, counts: Any, d: int = 5) -> tuple[Array, Array]:
    """Return Gaussian instances of classes that differ in their first columns; one is discrete."""
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(y), d))
    X[:, : len(counts)] += 1.5 * np.eye(len(counts))[y]
    X[:, -1] = np.round(X[:, -1])
    return X, y


def slow_p_value(H: Array, c: Array, m: float, a: Array, covariance: Array, ordered: bool) -> float:
    """Return the p-value of one column by the formulas of the module, one number at a time."""
    k, n_bins = H.shape
    n = H.sum(axis=1)
    T = [[(H[i, b] + 0.5 / n_bins) / (n[i] + 0.5) for b in range(n_bins)] for i in range(k)]
    for _ in range(20):
        p = [sum(a[i] * T[i][b] for i in range(k)) for b in range(n_bins)]
        raw = [
            [H[i, b] + (c[b] * a[i] * T[i][b] / p[b] if p[b] > 0 else 0.0) for b in range(n_bins)]
            for i in range(k)
        ]
        T = [[value / sum(row) for value in row] for row in raw]
    p = [sum(a[i] * T[i][b] for i in range(k)) for b in range(n_bins)]
    worth = min(m, 1.0 / sum(a[i] ** 2 / n[i] for i in range(k)))
    groups: list[list[int]] = [[]]
    for b in range(n_bins):
        groups[-1].append(b)
        if sum(p[i] for i in groups[-1]) * worth >= 5:
            groups.append([])
    left = groups.pop()
    if not groups:
        return 1.0
    groups[-1] += left
    if len(groups) == 1:
        return 1.0

    def covariance_of(weights: Array) -> Array:
        """Return the covariance of sums of d with these weights, shape (q, B)."""
        S = np.zeros((n_bins, n_bins))
        P, Ts = np.array(p), np.array(T)
        S += (np.diag(P) - np.outer(P, P)) / m
        for i in range(k):
            S += a[i] ** 2 / n[i] * (np.diag(Ts[i]) - np.outer(Ts[i], Ts[i]))
        S += Ts.T @ covariance @ Ts
        return weights @ S @ weights.T

    d = c / m - sum(a[i] * H[i] / n[i] for i in range(k))
    G = np.array([[1.0 if b in group else 0.0 for b in range(n_bins)] for group in groups])
    statistic = (G @ d) @ np.linalg.pinv(covariance_of(G), rcond=1e-9) @ (G @ d)
    by_bins = chi2.sf(statistic, len(groups) - 1)
    if not ordered:
        return float(by_bins)
    ranks = np.cumsum(p) - np.array(p) / 2 - 0.5
    ranks[n_bins - 1] = 0.0
    z = abs(ranks @ d) / math.sqrt(covariance_of(ranks[None])[0, 0])
    return float(min(1.0, 2 * min(by_bins, 2 * norm.sf(z))))


def test_p_values_are_those_of_the_slow_formulas() -> None:
    rng = np.random.default_rng(0)
    X, y = sample(rng, [60, 40, 80], d=5)
    X[rng.random(X.shape) < 0.1] = np.nan
    templates = learn_columns(X, y, 3)
    assert templates is not None
    B, _ = sample(rng, [70, 20, 60], d=5)
    B[:30, 0] += 5.0
    bags = kdey.Bags(
        np.concatenate([np.arange(150), np.arange(20, 90)]), np.array([0, 150, 220]), 150
    )
    shares = bin_counts(templates, templates.codes(B), bags)
    sizes, a = np.array([150.0, 70.0]), rng.dirichlet(np.ones(3), 2)
    root = rng.normal(size=(2, 3, 3)) * 0.03
    root -= root.mean(axis=1, keepdims=True)
    covariances = np.einsum("gji,gjk->gik", root.transpose(0, 2, 1), root.transpose(0, 2, 1))
    found = column_p_values(templates, shares, sizes, a, covariances)
    for g in range(2):
        for i, column in enumerate(templates.columns):
            n_bins = column.n_bins
            assert shares[g, i, n_bins:].sum() == 0
            expected = slow_p_value(
                templates.counts[i][:, :n_bins],
                shares[g, i, :n_bins] * sizes[g],
                sizes[g],
                a[g],
                covariances[g],
                column.is_ordered,
            )
            # Start values differ where columns have fewer bins than the widest.
            assert found[g, i] == pytest.approx(expected, rel=1e-4, abs=1e-10)


def test_bins_hold_what_they_say() -> None:
    values = np.concatenate([np.zeros(50), np.arange(1.0, 51.0)])
    templates = learn_columns(values[:, None], np.zeros(100, dtype=np.int64), 1)
    assert templates is not None
    column = templates.columns[0]
    assert templates.counts[0, 0].sum() == 100
    codes = column.codes(np.array([0.0, -1.0, 51.0, np.nan, np.inf, 50.0, 1.0]))
    below, above, missing = 0, len(column.edges), len(column.edges) + 1
    assert codes[1:5].tolist() == [below, above, missing, above]
    assert codes[0] != codes[6], "a value of half the rows has a bin of its own"
    assert templates.counts[0, 0, codes[0]] == 50
    assert codes[5] == above - 1


def test_a_constant_column_notices_other_values() -> None:
    y = np.repeat([0, 1], 50)
    templates = learn_columns(np.full((100, 1), 3.0), y, 2)
    assert templates is not None
    codes = templates.columns[0].codes(np.array([3.0, 2.0, 4.0]))
    assert len(set(codes.tolist())) == 3


def test_categories_texts_and_dates_of_a_frame() -> None:
    rng = np.random.default_rng(1)
    n = 200
    frame = pd.DataFrame(
        {
            "amount": rng.normal(size=n),
            "colour": rng.choice(["red", "green", None], n),
            "day": pd.date_range("2024-01-01", periods=n),
            "text": rng.choice(["the refund came very late", "all was well with the parcel"], n),
        }
    )
    templates = learn_columns(frame, np.repeat([0, 1], n // 2), 2)
    assert templates is not None
    kinds = {(column.name, column.kind) for column in templates.columns}
    assert {("amount", "number"), ("colour", "category"), ("day", "number")} <= kinds
    assert {("text", "words"), ("text", "unknown words"), ("text", "word")} <= kinds
    codes = templates.codes(frame.assign(colour="blue"))
    colour = next(i for i, column in enumerate(templates.columns) if column.name == "colour")
    assert set(codes[:, colour].tolist()) == {2}  # red, green, others, missing
    assert templates.codes(frame).shape == (n, len(templates))


def test_sparse_columns_are_those_of_the_dense_matrix() -> None:
    rng = np.random.default_rng(2)
    dense = rng.poisson(0.3, size=(80, 20)).astype(float)
    y = np.arange(80) % 2
    plain, sparse = learn_columns(dense, y, 2), learn_columns(sp.csr_matrix(dense), y, 2)
    assert plain is not None
    assert sparse is not None
    np.testing.assert_array_equal(plain.counts, sparse.counts)
    np.testing.assert_array_equal(plain.codes(dense), sparse.codes(sp.csr_matrix(dense)))


def test_of_many_columns_some_are_kept() -> None:
    rng = np.random.default_rng(3)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3 * MOST_COLUMNS))
    X[:, 17] += 5 * y
    templates = learn_columns(X, y, 2)
    assert templates is not None
    assert len(templates) == MOST_COLUMNS
    assert "column 17" in {column.name for column in templates.columns}
    counts = sp.csr_matrix(rng.poisson(0.02 + 0.5 * (np.arange(300) == 8), size=(60, 300)))
    chosen = learn_columns(counts, y, 2)
    assert chosen is not None
    assert len(chosen) == MOST_COLUMNS
    assert "column 8" in {column.name for column in chosen.columns}


@pytest.mark.parametrize("X", [np.zeros((6, 2, 2)), [[1], [1, 2]] * 3, [{"a": 1}] * 6])
def test_what_has_no_columns_has_no_templates(X: Any) -> None:
    assert learn_columns(X, np.array([0, 1] * 3), 2) is None


def test_weights_count_as_effective_rows() -> None:
    X, y = np.arange(8.0)[:, None], np.array([0, 1] * 4)
    twice = learn_columns(X, y, 2, weights=np.full(8, 2.0))
    assert twice is not None
    np.testing.assert_allclose(twice.class_sizes, [[4.0, 4.0]])
    uneven = learn_columns(X, y, 2, weights=np.array([9.0, 1, 1, 1, 1, 1, 1, 1]))
    assert uneven is not None
    np.testing.assert_allclose(uneven.class_sizes, [[144 / 84, 4.0]])


def test_holm_and_benjamini_hochberg_by_hand() -> None:
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03])), [0.03, 0.06, 0.06])
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03]), 5), [0.05, 0.12, 0.12])
    p = [0.001, 0.2, np.nan, 0.012, 0.9]
    assert benjamini_hochberg(p, 0.05).tolist() == [True, False, False, True, False]
    assert not benjamini_hochberg([np.nan]).any()


def test_columns_that_labels_chose_are_corrected_for_all() -> None:
    X, y = np.random.default_rng(0).normal(size=(40, 300)), np.repeat([0, 1], 20)
    dense, sparse = learn_columns(X, y, 2), learn_columns(sp.csr_array(X), y, 2)
    few = learn_columns(X[:, :MOST_COLUMNS], y, 2)
    assert dense is not None
    assert sparse is not None
    assert few is not None
    assert [made.n_candidates for made in (dense, sparse, few)] == [300, 0, 0]


def bag_p_values(labels: int, m: int, shift: float, n_bags: int, seed: int) -> list[float]:
    """Return p-values of the column check of bags under label shift, plus a shift of a column."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n_bags // 5):
        X, y = sample(rng, [labels] * 3)
        quantifier = kdey.PACC(random_state=0).fit(X, y)
        templates = quantifier.model_.columns
        assert isinstance(templates, ColumnTemplates)
        for _ in range(5):
            B, _ = sample(rng, rng.multinomial(m, rng.dirichlet(np.ones(3))))
            B[:, -2] += shift
            estimates = quantifier.estimate_bags(B, [np.arange(m)], check_fit=False)
            (verdict,) = check_columns(
                templates, templates.codes(B), Bags.whole(m), estimates, 0.01
            )
            assert isinstance(verdict, ColumnVerdict)
            found.append(verdict.p_value)
    return found


def test_level_and_power() -> None:
    """Benchmarks have more bags; here a level of 0.05 that held 0.2 would be noticed."""
    null = np.array(bag_p_values(60, 200, 0.0, 60, seed=0))
    assert (null <= 0.05).sum() <= 9  # 3 expected at most; 9 has a chance below 0.005
    moved = np.array(bag_p_values(200, 400, 0.6, 15, seed=1))
    assert (moved <= 0.01).mean() > 0.7


def test_estimates_name_the_column() -> None:
    rng = np.random.default_rng(4)
    X, y = sample(rng, [150, 150])
    frame = pd.DataFrame(X, columns=["a", "b", "amount", "d", "e"])
    frame["amount"] = np.exp(0.1 * frame["amount"]) + 5.0
    quantifier = kdey.PACC(random_state=0).fit(frame, y)
    B, _ = sample(rng, [60, 140])
    bag = pd.DataFrame(B, columns=frame.columns)
    bag["amount"] = np.exp(0.1 * bag["amount"]) + 5.0
    fine = quantifier.estimate(bag)
    assert fine.status == "no problem found"
    assert fine.checks is not None
    assert fine.checks.summary().items() <= fine.diagnostics.items()
    bad = quantifier.estimate(bag.assign(amount=bag["amount"] * 1.1))
    assert bad.status == "poor fit"
    assert bad.checks is not None
    assert bad.checks.rejected
    assert isinstance(bad.checks.columns, ColumnVerdict)
    first = bad.checks.columns.findings[0]
    assert first.name == "amount"
    assert "`amount` is higher, by about" in first.sentence
    assert "rows are above the training range" in first.sentence
    assert "amount" in str(bad)
    assert bad.checks.p_value <= 2 * bad.checks.columns.p_value


def test_without_columns_only_scores_are_checked() -> None:
    rng = np.random.default_rng(5)
    X, y = sample(rng, [100, 100])
    quantifier = kdey.PACC(random_state=0).fit(X, y)
    estimate = quantifier.estimate_posteriors(quantifier.classifier_.predict_proba(X[::2]))
    assert estimate.status in ("checked one-sided", "only scores were checked")
    assert estimate.checks is not None
    assert isinstance(estimate.checks.columns, NotChecked)
    by_features = kdey.DMx().fit(X, y).estimate(X[::2])
    assert by_features.status == "only columns were checked"
    decided = kdey.ACC().fit_posteriors(np.eye(2)[y], y)
    status = decided.estimate_posteriors(np.eye(2)[y[::2]]).status
    assert status.startswith("cannot be checked (only decisions are known")


def test_models_keep_columns_in_their_files(tmp_path: Any) -> None:
    rng = np.random.default_rng(6)
    X, y = sample(rng, [40, 40])
    quantifier = kdey.PACC(random_state=0).fit(X, y)
    kdey.save(quantifier, tmp_path / "model.kdey")
    loaded = kdey.load(tmp_path / "model.kdey")
    assert loaded.estimate(X[::2]).to_json() == quantifier.estimate(X[::2]).to_json()
    assert loaded.model_.columns.columns == quantifier.model_.columns.columns


def test_clusters_are_worth_no_more_than_their_number() -> None:
    rng = np.random.default_rng(7)
    X, y = sample(rng, [150, 150])
    quantifier = kdey.PACC(random_state=0).fit(X, y)
    rows = np.repeat(np.arange(0, 300, 20), 20)  # 15 rows, each twenty times
    with_clusters = quantifier.estimate(X[rows], clusters=rows)
    without = quantifier.estimate(X[rows])
    assert without.checks is not None
    assert with_clusters.checks is not None
    assert without.checks.columns.p_value < 1e-3  # type: ignore[union-attr]
    assert not getattr(with_clusters.checks.columns, "rejected", False)


def test_rare_levels_are_chosen_by_rows_that_are_not_counted() -> None:
    """With the same rows for both, new rows have levels that a mix of the classes would not."""
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1], 40)
    column = np.array([f"level {i}" for i in rng.integers(60, size=80)], dtype=object)
    few = learn_columns(pd.DataFrame({"many": column}), y, 2)
    assert few is not None
    assert few.counts.sum() == 40  # half of the rows
    chosen = np.ones(80, dtype=bool)
    chosen[ClassCounts(y, 2, None).counted_rows] = False
    levels, counts = np.unique(column[chosen].astype(str), return_counts=True)
    frequent = levels[np.lexsort((levels, -counts))][:20]
    assert [str(level) for level in few.columns[0].levels] == frequent.tolist()
    others = few.columns[0].codes(np.array(["never seen"], dtype=object))[0]
    assert few.counts[0, :, others].sum() > 0
    plain = learn_columns(pd.DataFrame({"few": np.tile(["a", "b"], 40)}), y, 2)
    assert plain is not None
    assert plain.counts.sum() == 80
