"""Groups checked by the fold models that a quantifier holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from kdey import PACC
from kdey.diagnostics import FitChecker, hold_fold_models
from kdey.groups import Grouping, GroupSettings, Scorer, estimate_file
from kdey.tables.files import TableFile


def data(n: int, seed: int) -> tuple[pl.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[y]
    return pl.DataFrame({f"x{i}": X[:, i] for i in range(3)}), y


def test_p_values_come_from_the_fold_models_and_estimates_from_the_classifier() -> None:
    X, y = data(300, 0)
    fitted = PACC(random_state=0).fit(X, y)
    table = data(200, 1)[0].with_columns(site=pl.Series(["a", "b"] * 100))
    plain = fitted.predict_groups(table, "site", check_fit=True)
    hold_fold_models(fitted, X, y)
    sharp = fitted.predict_groups(table, "site", check_fit=True)
    same = ["class", "n", "estimate", "low", "high", "classify_and_count"]
    assert sharp.select(same).equals(plain.select(same))
    checker = FitChecker.fit(fitted)
    assert checker.models is not None
    seen = checker.models.posteriors(table.drop("site"), 1)
    for number, site in enumerate(("a", "b")):
        wanted = checker.check_points(seen[number::2], None, np.random.default_rng(0), 300, 0.01)
        found = sharp.filter(pl.col("site") == site)["fit_p_value"]
        assert set(found) == {wanted.p_value}
    assert set(sharp["fit_p_value"]) != set(plain["fit_p_value"])


def test_a_file_gives_what_the_frame_gives(tmp_path: Path) -> None:
    X, y = data(300, 2)
    fitted = hold_fold_models(PACC(random_state=0).fit(X, y), X, y)
    table = data(90, 3)[0].with_columns(site=pl.Series(["a", "b", "c"] * 30))
    table.write_parquet(tmp_path / "t.parquet")
    file = TableFile.open(str(tmp_path / "t.parquet"))
    settings = GroupSettings(check_fit=True)
    made = estimate_file(fitted, file, Grouping(("site",)), settings).table()
    wanted = fitted.predict_groups(table, "site", check_fit=True)
    np.testing.assert_array_equal(made["fit_p_value"].to_numpy(), wanted["fit_p_value"])
    np.testing.assert_allclose(made["estimate"].to_numpy(), wanted["estimate"], atol=1e-12)


def test_scores_are_never_scored_twice() -> None:
    X, y = data(120, 4)
    fitted = hold_fold_models(PACC(random_state=0).fit(X, y), X, y)
    assert Scorer.of(fitted, None, "drop", check_fit=True).folds
    assert not Scorer.of(fitted, None, "drop").folds
    assert not Scorer.of(fitted, ["p0", "p1", "p2"], "drop", check_fit=True).folds
