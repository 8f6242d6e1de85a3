"""Weights tied to row keys, and limits from weighted sums against the bootstrap in memory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

from kdey.groups.sums import estimate_sums, key_hashes, poisson_weights
from kdey.groups.sums.bootstrap import Resampled
from kdey.groups.sums.group_sums import GroupedRows
from kdey.groups.sums.solve import Trial
from kdey.options import Options
from tests.groups.sums.cases import Case, make_case, methods


def test_weights_are_poisson_and_independent() -> None:
    weights = poisson_weights(key_hashes(np.arange(50_000)), 0, 0, 16).astype(float)
    shares = np.bincount(weights.astype(int).ravel(), minlength=8)[:6] / weights.size
    np.testing.assert_allclose(shares, poisson.pmf(np.arange(6), 1.0), atol=2e-3)
    between = np.corrcoef(weights) - np.eye(16)
    assert np.abs(between).max() < 0.02
    along = np.corrcoef(weights[:, :-1].ravel(), weights[:, 1:].ravel())[0, 1]
    assert abs(along) < 0.01


def test_weights_depend_on_key_seed_and_replicate_alone() -> None:
    keys = np.arange(1000)
    whole = poisson_weights(key_hashes(keys), 7, 0, 12)
    np.testing.assert_array_equal(whole[:, 300:], poisson_weights(key_hashes(keys[300:]), 7, 0, 12))
    np.testing.assert_array_equal(whole[8:], poisson_weights(key_hashes(keys), 7, 8, 4))
    assert (whole != poisson_weights(key_hashes(keys), 8, 0, 12)).any()


def test_keys_of_any_type() -> None:
    np.testing.assert_array_equal(
        key_hashes(np.arange(5, dtype=np.int32)), key_hashes(np.arange(5, dtype=np.uint64))
    )
    texts = ["a", "b", "a"]
    made = key_hashes(np.array(texts, dtype=object))
    np.testing.assert_array_equal(made, key_hashes(np.array(texts)))
    assert made[0] == made[2] != made[1]
    days = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")
    np.testing.assert_array_equal(key_hashes(days), key_hashes(days.astype("datetime64[us]")))
    with pytest.raises(ValueError, match="whole numbers, dates or texts"):
        key_hashes(np.array([0.5]))


@pytest.mark.parametrize("likelihood", [False, True])
def test_replicate_sums_are_weighted_sums(likelihood: bool) -> None:
    rng = np.random.default_rng(0)
    rows = rng.random((60, 3)).astype(np.float32)
    hashes = key_hashes(np.arange(60))
    part = GroupedRows(np.array([2, 5]), np.array([0, 25, 60]), (rows,), hashes)
    x = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    trial = Trial(np.array([2, 5]), x, 6) if likelihood else None
    made = Resampled(1, 4, 8, trial)(part)
    weights = poisson_weights(hashes, 1, 4, 8).astype(float)
    for g, where in enumerate((slice(0, 25), slice(25, 60))):
        values = rows[where] / (rows[where] @ x[g])[:, None] if likelihood else rows[where]
        np.testing.assert_allclose(made.sums["mass"][g], weights[:, where].sum(axis=1))
        np.testing.assert_allclose(made.sums["rows0"][g], weights[:, where] @ values, rtol=1e-5)


NAMES = ("PCC", "PACC", "DM-HD", "KDEy-CS", "EMQ", "KDEy-ML", "KDEy-ML-committee")


@pytest.mark.parametrize(
    ("name", "templates"), [*((name, False) for name in NAMES), ("PACC", True), ("KDEy-ML", True)]
)
def test_limits_are_those_of_the_bootstrap_in_memory(name: str, templates: bool) -> None:
    whole = make_case(3, 6, seed=2)
    keep = whole.codes == 5
    case = Case(whole.training, whole.labels, whole.points[keep], whole.codes[keep])
    q = methods(3)[name].fit_posteriors(case.training, case.labels)
    options = {"method": "bootstrap", "n_replicates": 300, "resample_templates": templates}
    expected = q.estimate_posteriors(case.points, **options)
    made = estimate_sums(q, case.source(), Options(**options), keyed=True)
    width = expected.high - expected.low
    np.testing.assert_allclose(made.low[0], expected.low, atol=0.25 * width.max())
    np.testing.assert_allclose(made.high[0], expected.high, atol=0.25 * width.max())
    assert np.median((made.high[0] - made.low[0]) / width) == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("name", ["PACC", "KDEy-ML", "EMQ", "DM-HD"])
def test_limits_do_not_depend_on_the_cut(name: str) -> None:
    case = make_case(3, 6, seed=2, largest=300)
    q = methods(3)[name].fit_posteriors(case.training, case.labels)
    options = Options(method="bootstrap", n_replicates=50)
    one, other = (estimate_sums(q, case.source(cuts), options, keyed=True) for cuts in (1, 9))
    np.testing.assert_allclose(one.low, other.low, atol=1e-6)
    np.testing.assert_allclose(one.high, other.high, atol=1e-6)


def test_passes_are_cut_where_replicates_need_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(3, 6, seed=2, largest=300)
    q = methods(3)["KDEy-ML"].fit_posteriors(case.training, case.labels)
    options = Options(method="bootstrap", n_replicates=50)
    one = estimate_sums(q, case.source(), options, keyed=True)
    monkeypatch.setattr("kdey.groups.sums.bootstrap._BYTES_HELD", 8 * 6 * 4 * 8)
    other = estimate_sums(q, case.source(), options, keyed=True)
    np.testing.assert_allclose(one.low, other.low, atol=1e-12)
