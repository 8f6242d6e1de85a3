"""The same rows give the same answer through every door, also of pools, wrappers and searches."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

import kdey
from kdey.tables.features import prepare, reading_tables
from kdey.tables.training import learn_schema

from ..runner import invoke


def table(n: int, seed: int) -> pl.DataFrame:
    """Return numbers with gaps, categories, a constant, an id and the label."""
    rng = np.random.default_rng(seed)
    y = rng.choice(["bad", "good"], n, p=[0.4, 0.6])
    x = rng.normal(size=(n, 2)) + 1.5 * (y == "bad")[:, None]
    return pl.DataFrame(
        {
            "id": [f"case {seed}-{i}" for i in range(n)],
            "x": x[:, 0],
            "z": [None if rng.random() < 0.1 else float(value) for value in x[:, 1]],
            "colour": np.where(rng.random(n) < np.where(y == "bad", 0.8, 0.2), "red", "blue"),
            "unit": ["m"] * n,
            "kind": y,
        }
    )


@pytest.fixture(scope="module")
def pool() -> Any:
    frame = table(120, 0).to_pandas()
    with pytest.warns(UserWarning, match="'id'"):
        return kdey.Quantifier(effort="low", random_state=0).fit(
            frame.drop(columns="kind"), frame["kind"]
        )


def test_a_pool_answers_alike_at_every_door(pool: Any, tmp_path: Path) -> None:
    new = table(50, 1).drop("kind").select("colour", "unit", "z", "x", "id")
    expected = pool.predict(new.to_pandas())
    path = kdey.save(pool, tmp_path / "m.kdey")
    new.write_csv(tmp_path / "new.csv")
    first = pool.estimate(new)
    for model in (pool, kdey.load(path)):
        for frame in (new.to_pandas(), new.to_arrow().append_column("more", new["x"].to_arrow())):
            assert_array_equal(model.predict(frame), expected)
            estimate = model.estimate(frame)
            assert_array_equal(estimate.estimate, expected)
            assert_array_equal(estimate.low, first.low)
            assert estimate.diagnostics["fit"] == first.diagnostics["fit"]
        check = kdey.check_fit(model, new, random_state=0)
        assert check.p_value == kdey.check_fit(pool, new.to_pandas(), random_state=0).p_value
        groups = pl.DataFrame(model.predict_groups(new).to_frame())
        assert_allclose(groups["estimate"], expected, atol=1e-12)
    result = invoke("estimate", path, tmp_path / "new.csv", "--format", "csv")
    assert result.exit_code == 0, result.output
    answers = [float(row["estimate"]) for row in csv.DictReader(io.StringIO(result.stdout))]
    assert_allclose(answers, expected, rtol=1e-5)


def readers() -> dict[str, Any]:
    """Return wrappers and searches around quantifiers that read tables."""
    schema = learn_schema(table(120, 0), "kind")
    inner = kdey.PACC(
        reading_tables(prepare(LogisticRegression(), schema.kinds), schema), random_state=0
    )
    bags = kdey.APP(n_bags=5, bag_size=20, random_state=0)
    pool = kdey.Quantifier("logistic regression", effort="low", random_state=0)
    return {
        "OneVsAll": kdey.OneVsAll(inner),
        "Median": kdey.Median(inner, {"cv": [3, 4]}),
        "Ensemble": kdey.Ensemble(
            inner, n_members=2, selection="prevalence", n_selected=1, random_state=0
        ),
        "GridSearchQ": kdey.GridSearchQ(inner, {"cv": [3, 4]}, protocol=bags),
        "classifiers of a search": kdey.GridSearchQ(
            inner, {"classifier": [inner.classifier]}, protocol=bags
        ),
        "a search of a wrapper": kdey.GridSearchQ(
            kdey.OneVsAll(inner), {"quantifier__cv": [3]}, protocol=bags
        ),
        "a search of pools": kdey.GridSearchQ(pool, {"tune_for": ["ae"]}, protocol=bags),
        "OneVsAll of pools": kdey.OneVsAll(pool),
    }


@pytest.mark.filterwarnings("ignore:columns that are not used:UserWarning")
@pytest.mark.filterwarnings("ignore:the best candidate:UserWarning")
@pytest.mark.parametrize("name", readers())
def test_wrappers_and_searches_read_by_name(name: str) -> None:
    training, new = table(120, 0), table(50, 1).drop("kind")
    fitted = readers()[name].fit(training.drop("kind"), training["kind"].to_numpy())
    expected = fitted.predict(new)
    other = new.select("colour", pl.lit(3).alias("more"), "z", "x")
    assert_array_equal(fitted.predict(other), expected)
    assert_array_equal(fitted.predict(other.to_pandas()), expected)
    assert_allclose(
        fitted.predict_groups(other).to_frame()["estimate"].to_numpy(), expected, atol=1e-12
    )
    estimate = fitted.estimate(other, options=kdey.Options(n_replicates=20))
    assert_allclose(estimate.estimate, expected, atol=1e-12)
    with pytest.raises(ValueError, match="no column 'x'"):
        fitted.predict(new.drop("x"))


def test_searches_have_the_limits_of_their_best() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 2)) + y[:, None]
    bags = kdey.APP(n_bags=5, bag_size=20, random_state=0)
    search = kdey.GridSearchQ(kdey.PACC(random_state=0), {"cv": [3, 4]}, protocol=bags).fit(X, y)
    estimate, best = search.estimate(X), search.best_estimator_.estimate(X)
    assert estimate.method == best.method == "analytic"
    assert_array_equal(estimate.low, best.low)
    assert estimate.diagnostics["fit"] == best.diagnostics["fit"]


def test_fit_many_reads_tables_of_pools() -> None:
    training, new = table(120, 0), table(50, 1)
    pool = kdey.Quantifier("logistic regression", effort="low", random_state=0)
    with pytest.warns(UserWarning, match="'id'"):
        fitted = kdey.evaluation.fit_many(
            {"pool": pool}, training.drop("kind"), training["kind"].to_numpy()
        )
    with pytest.warns(UserWarning, match="'id'"):
        alone = pool.fit(training.drop("kind"), training["kind"].to_numpy())
    assert_array_equal(fitted["pool"].predict(new), alone.predict(new))


def test_p_values_of_a_pool_are_sane_and_find_a_changed_unit() -> None:
    rng = np.random.default_rng(0)

    def draw(n: int, share: float) -> tuple[np.ndarray, np.ndarray]:
        y = (rng.random(n) < share).astype(int)
        return rng.normal(size=(n, 3)) + 1.2 * y[:, None], y

    pool = kdey.Quantifier(effort="low", random_state=0).fit(*draw(200, 0.5))
    assert len(pool.model_.fold_models or ()) > 1
    p_values, changed = [], []
    for share in np.linspace(0.05, 0.95, 12):  # shares shift, classes do not
        bag, _ = draw(100, share)
        p_values.append(pool.estimate(bag).diagnostics["fit"]["p_value"])
        changed.append(pool.estimate(bag * [10.0, 1.0, 1.0]).diagnostics["fit"]["p_value"])
    assert np.mean(np.array(p_values) <= 0.01) <= 0.15
    assert np.median(p_values) > 0.15
    assert np.median(changed) < np.median(p_values)
    assert np.min(changed) <= 0.02
