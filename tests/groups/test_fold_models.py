"""Groups checked by the fold models that a quantifier holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from kdey import PACC, Bags, Options
from kdey._fingerprints import row_hashes
from kdey.diagnostics import FitChecker
from kdey.groups import Request, TableScorer


def data(n: int, seed: int) -> tuple[pl.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[y]
    return pl.DataFrame({f"x{i}": X[:, i] for i in range(3)}), y


def test_p_values_come_from_the_fold_models_and_estimates_from_the_classifier() -> None:
    X, y = data(300, 0)
    fitted = PACC(random_state=0).fit(X, y, keep_fold_models=False)
    table = data(200, 1)[0].with_columns(site=pl.Series(["a", "b"] * 100))
    plain = fitted.predict_groups(table, "site", options=Options(check_fit=True)).to_frame()
    fitted = PACC(random_state=0).fit(X, y)
    made = fitted.predict_groups(table, "site", options=Options(check_fit=True))
    sharp = made.to_frame()
    same = ["class", "n", "estimate", "low", "high", "classify_and_count"]
    assert sharp.select(same).equals(plain.select(same))
    checker = FitChecker.fit(fitted)
    assert checker.models is not None
    features = table.drop("site")
    hashes = row_hashes(features)
    seen = checker.models.posteriors_by(features, hashes)
    for number, site in enumerate(("a", "b")):
        (expected,) = checker.screen(seen[number::2][hashes[number::2].argsort()], Bags.whole(100))
        checks = made[number].checks
        assert checks.scores.p_value == expected.p_value
        p_values = sharp.filter(pl.col("site") == site)["fit_p_value"]
        assert set(p_values) == {checks.p_value}
    assert set(sharp["fit_p_value"]) != set(plain["fit_p_value"])
    assert set(sharp["status"]) == {"no problem found"}
    assert set(plain["status"]) == {"checked one-sided"}


def test_a_file_gives_what_the_frame_gives(tmp_path: Path) -> None:
    X, y = data(300, 2)
    fitted = PACC(random_state=0).fit(X, y)
    table = data(90, 3)[0].with_columns(site=pl.Series(["a", "b", "c"] * 30))
    table.write_parquet(tmp_path / "t.parquet")
    made = fitted.predict_groups(tmp_path / "t.parquet", "site").to_frame()
    expected = fitted.predict_groups(table, "site", options=Options(check_fit=True)).to_frame()
    np.testing.assert_array_equal(made["fit_p_value"].to_numpy(), expected["fit_p_value"])
    np.testing.assert_allclose(made["estimate"].to_numpy(), expected["estimate"], atol=1e-12)


def test_scores_are_never_scored_twice() -> None:
    X, y = data(120, 4)
    fitted = PACC(random_state=0).fit(X, y)
    assert TableScorer.of(fitted, Request()).folds
    assert not TableScorer.of(fitted, Request(options=Options(check_fit=False))).folds
    assert not TableScorer.of(fitted, Request(scores=["p0", "p1", "p2"])).folds


@pytest.mark.parametrize("memory", [1 << 30, 3_000, 0])
def test_batches_keep_both_posteriors(
    memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = data(300, 5)
    fitted = PACC(random_state=0).fit(X, y)
    table = data(160, 6)[0].with_columns(site=pl.Series(["a", "b", "c", "d"] * 40))
    table.write_parquet(tmp_path / "t.parquet", row_group_size=40)
    monkeypatch.setattr("kdey.groups.scoring.MEMORY", memory)
    monkeypatch.setattr("kdey.tables.sources.BATCH", 33)
    made = fitted.predict_groups(tmp_path / "t.parquet", "site")
    expected = fitted.predict_groups(table, "site")
    assert np.isfinite(expected.fit_p_value).all()
    for name in ("estimate", "low", "high", "classify_and_count", "fit_p_value"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
