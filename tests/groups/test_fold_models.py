"""Groups checked by the fold models that a quantifier holds."""

from __future__ import annotations

from pathlib import Path

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from kdey import PACC, Bags
from kdey._support.row_hashes import row_hashes
from kdey.diagnostics import FitChecker, hold_fold_models
from kdey.groups import (
    Grouping,
    GroupSettings,
    GroupStream,
    ScoredRows,
    Scorer,
    estimate_file,
    estimate_groups,
)
from kdey.tables.files import TableFile


def data(n: int, seed: int) -> tuple[pl.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[y]
    return pl.DataFrame({f"x{i}": X[:, i] for i in range(3)}), y


def test_p_values_come_from_the_fold_models_and_estimates_from_the_classifier() -> None:
    X, y = data(300, 0)
    fitted = PACC(random_state=0).fit(X, y, keep_fold_models=False)
    table = data(200, 1)[0].with_columns(site=pl.Series(["a", "b"] * 100))
    plain = fitted.predict_groups(table, "site", check_fit=True).to_frame()
    hold_fold_models(fitted, X, y)
    sharp = fitted.predict_groups(table, "site", check_fit=True).to_frame()
    same = ["class", "n", "estimate", "low", "high", "classify_and_count"]
    assert sharp.select(same).equals(plain.select(same))
    checker = FitChecker.fit(fitted)
    assert checker.models is not None
    features = table.drop("site")
    hashes = row_hashes(features)
    seen = checker.models.posteriors_by(features, hashes)
    for number, site in enumerate(("a", "b")):
        (expected,) = checker.screen(seen[number::2][hashes[number::2].argsort()], Bags.whole(100))
        p_values = sharp.filter(pl.col("site") == site)["fit_p_value"]
        assert set(p_values) == {expected.p_value}
    assert set(sharp["fit_p_value"]) != set(plain["fit_p_value"])
    assert set(sharp["status"]) == {"ok"}
    assert set(plain["status"]) == {"checked one-sided"}


def test_a_file_gives_what_the_frame_gives(tmp_path: Path) -> None:
    X, y = data(300, 2)
    fitted = hold_fold_models(PACC(random_state=0).fit(X, y), X, y)
    table = data(90, 3)[0].with_columns(site=pl.Series(["a", "b", "c"] * 30))
    table.write_parquet(tmp_path / "t.parquet")
    file = TableFile.open(str(tmp_path / "t.parquet"))
    settings = GroupSettings(check_fit=True)
    made = estimate_file(fitted, file, Grouping(("site",)), settings).table()
    expected = fitted.predict_groups(table, "site", check_fit=True).to_frame()
    np.testing.assert_array_equal(made["fit_p_value"].to_numpy(), expected["fit_p_value"])
    np.testing.assert_allclose(made["estimate"].to_numpy(), expected["estimate"], atol=1e-12)


def test_scores_are_never_scored_twice() -> None:
    X, y = data(120, 4)
    fitted = hold_fold_models(PACC(random_state=0).fit(X, y), X, y)
    assert Scorer.of(fitted, None, "drop", check_fit=True).folds
    assert not Scorer.of(fitted, None, "drop").folds
    assert not Scorer.of(fitted, ["p0", "p1", "p2"], "drop", check_fit=True).folds


def scored(n: int, seed: int) -> tuple[PACC, ScoredRows, np.ndarray]:
    """Return a quantifier with fold models, rows that both have scored, and group numbers."""
    X, y = data(300, seed)
    fitted = hold_fold_models(PACC(random_state=0).fit(X, y), X, y)
    frame = nw.from_native(data(n, seed + 1)[0], eager_only=True)
    rows, usable = Scorer.of(fitted, check_fit=True).score(frame)
    assert isinstance(rows, ScoredRows)
    assert rows.fold_posteriors is not None
    assert usable.all()
    return fitted, rows, (np.arange(n) % 4).astype(np.int32)


def same_answers(made, expected) -> None:
    for name in ("estimate", "low", "high", "classify_and_count", "fit_p_value"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))


@pytest.mark.parametrize("memory", [None, 1 << 30, 3_000, 0])
def test_a_stream_keeps_both_posteriors(memory: int | None) -> None:
    fitted, rows, codes = scored(160, 5)
    settings = GroupSettings(check_fit=True, n_null=30)
    expected = estimate_groups(fitted, rows, codes, 4, settings)
    assert np.isfinite(expected.fit_p_value).all()
    stream = GroupStream(memory)
    for part in np.array_split(np.arange(160), 5):
        stream.add(rows.take(part), codes[part], np.ones(len(part), dtype=np.bool_))
    assert len(stream) == 160
    same_answers(stream.answers(fitted, 4, settings), expected)


def test_a_stream_takes_batches_of_one_kind() -> None:
    _, rows, codes = scored(20, 6)
    usable = np.ones(20, dtype=np.bool_)
    stream = GroupStream()
    stream.add(rows, codes, usable)
    with pytest.raises(ValueError, match="all batches must have fold posteriors, or none"):
        stream.add(ScoredRows(rows.posteriors), codes, usable)
    stream = GroupStream()
    stream.add(rows.posteriors, codes, usable)
    with pytest.raises(ValueError, match="all batches must have fold posteriors, or none"):
        stream.add(rows, codes, usable)
