"""Keys, periods, score columns, batches and runs, each against the obvious way."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from kdey import Options
from kdey.groups import GroupKeys, truncate
from kdey.groups.answers import answer, thinning_ranks
from kdey.simplex import match_scores

from .cases import CLASSES, SCORES, fitted, posteriors


def test_keys_number_combinations_across_batches() -> None:
    keys = GroupKeys(("a", "b"))
    first = keys.encode([["x", "y", "x"], [1, 1, 1]], 3)
    again = keys.encode([["y", "x", None], [1, 2, float("nan")]], 3)
    assert first.tolist() == [0, 1, 0]
    assert again.tolist() == [1, 2, 3]
    assert keys.values == [("x", 1), ("y", 1), ("x", 2), (None, None)]
    assert keys.order().tolist() == [0, 2, 1, 3]


def test_keys_of_several_types_are_ordered_somehow_but_always_alike() -> None:
    keys = GroupKeys(("a",))
    keys.encode([["b", 2, "a", 1.5, None]], 5)
    assert [keys.values[g][0] for g in keys.order()] == [1.5, 2, "a", "b", None]


@pytest.mark.parametrize("every", ["1d", "1w", "2w", "1mo", "1q", "1y", "6h", "15m", "30s", "d"])
def test_truncate_as_polars_does(every: str) -> None:
    rng = np.random.default_rng(0)
    seconds = rng.integers(0, 2_000_000_000, 300)
    times = seconds.astype("datetime64[s]").astype("datetime64[us]")
    name = every if every[0].isdigit() else f"1{every}"
    expected = pl.Series(times).dt.truncate(name).to_numpy()
    if every == "2w":  # several weeks need an origin: ours is the first Monday of 1970
        days = (times.astype("datetime64[D]") - np.datetime64("1970-01-05")).astype(int)
        expected = np.datetime64("1970-01-05") + (days - days % 14).astype("timedelta64[D]")
    assert_array_equal(truncate(times, every), expected.astype("datetime64[us]"))


def test_truncate_before_1970_and_missing_times() -> None:
    times = np.array(["1969-12-31T23:59", "NaT"], dtype="datetime64[us]")
    made = truncate(times, "1w")
    assert made[0].item() == dt.datetime(1969, 12, 29)
    assert np.isnat(made[1])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["dog", "eel", "cat"], ["cat", "dog", "eel"]),
        (["p(dog)", "p(eel)", "p(cat)"], ["p(cat)", "p(dog)", "p(eel)"]),
        (["s1", "s2", "s3"], ["s1", "s2", "s3"]),
    ],
)
def test_scores_are_matched_by_name(given: list[str], expected: list[str]) -> None:
    assert match_scores(given, CLASSES) == expected


def test_scores_with_letters_in_common() -> None:
    assert match_scores(["p_car", "p_cat"], np.array(["cat", "car"])) == ["p_cat", "p_car"]
    assert match_scores(["q10", "q1"], np.array([1, 10])) == ["q1", "q10"]


def table(n: int = 500, n_groups: int = 40) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, n_groups, n)
    made = pl.DataFrame(posteriors(rng.integers(0, 3, n), rng), schema=SCORES)
    return made.with_columns(group=pl.Series(codes))


def same(made: Any, expected: Any) -> None:
    for name in ("estimate", "low", "high", "classify_and_count", "fit_p_value", "n_missing"):
        np.testing.assert_allclose(getattr(made, name), getattr(expected, name), atol=1e-12)
    assert made.status == expected.status


def test_runs_do_not_change_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    q, frame = fitted(), table()
    whole = q.predict_groups(frame, "group", scores=SCORES)
    monkeypatch.setattr("kdey.groups.answers.RUN", 60)
    same(q.predict_groups(frame, "group", scores=SCORES), whole)


@pytest.mark.parametrize("memory", [1 << 30, 1_000, 0])
@pytest.mark.parametrize("kind", [pl.Float64, pl.Float32])
def test_batches_are_the_whole(
    memory: int, kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, frame = fitted(), table(300, 9)
    frame = frame.with_columns(pl.col(SCORES).cast(kind))
    frame = frame.with_columns(p_cat=pl.when(pl.int_range(300) % 11 > 0).then(pl.col("p_cat")))
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=50)
    monkeypatch.setattr("kdey.tables.sources.BATCH", 45)
    monkeypatch.setattr("kdey.groups.scoring.MEMORY", memory)
    made = q.predict_groups(tmp_path / "t.parquet", "group", scores=SCORES)
    same(made, q.predict_groups(frame, "group", scores=SCORES))


def test_a_table_without_a_usable_row() -> None:
    frame = pl.DataFrame(
        {name: [None, None] for name in SCORES}, schema=dict.fromkeys(SCORES, pl.Float64)
    )
    made = fitted().predict_groups(frame, scores=SCORES)
    assert made.status == ["empty; missing values"]
    assert np.isnan(made.estimate).all()


def test_uncertainty_is_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    q, frame = fitted(), table(300, 5)
    made = q.predict_groups(frame, "group", scores=SCORES)
    assert np.isfinite(made[2].covariance).all()
    monkeypatch.setattr(
        "kdey.groups.answers.answer.__kwdefaults__", {**answer.__kwdefaults__, "kept": 0}
    )
    less = q.predict_groups(frame, "group", scores=SCORES)
    same(less, made)
    assert "not kept" in less[2].notes[-1]


@pytest.mark.parametrize("design", [{}, {"clusters": "house"}, {"labelled": "label"}])
def test_large_groups_are_thinned(design: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    q, frame = fitted(), table(4_000, 1)
    rng = np.random.default_rng(1)
    truth = CLASSES[frame.select(SCORES).to_numpy().argmax(axis=1)]
    label = np.where(rng.random(4_000) < 0.02, truth, "")
    frame = frame.with_columns(house=pl.Series(np.arange(4_000) // 4), label=pl.Series(label))
    whole = q.predict_groups(frame, "group", scores=SCORES, **design)
    monkeypatch.setattr("kdey.groups.answers.WHOLE", 1_500 * 12)
    made = q.predict_groups(frame, "group", scores=SCORES, **design)
    assert made.size.tolist() == [4_000]
    assert made.status[0].startswith("a sample of its rows")
    assert "sample" not in whole.status[0]
    np.testing.assert_allclose(made.estimate, whole.estimate, atol=0.05)
    assert ((made.high - made.low) > (whole.high - whole.low)).all()
    if made.labelled is not None:
        assert made.labelled["n_labels"][0] == whole.labelled["n_labels"][0]
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    np.testing.assert_allclose(
        q.predict_groups(shuffled, "group", scores=SCORES, **design).estimate, made.estimate
    )


@pytest.mark.parametrize("labels", [False, True])
def test_a_sample_of_a_bag_lies_between_population_and_bag(
    labels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, frame = fitted(), table(4_000, 1)
    known = np.where(np.arange(4_000) % 50 == 0, CLASSES[np.arange(4_000) % 3], "")
    asked = {"labelled": "label"} if labels else {}
    frame = frame.with_columns(label=pl.Series(known))

    def widths(target: str) -> np.ndarray:
        options = Options(target=target, check_fit=False)
        made = q.predict_groups(frame, "group", scores=SCORES, options=options, **asked)
        assert made.options.target == target
        return np.asarray(made.high - made.low)[0]

    monkeypatch.setattr("kdey.groups.answers.WHOLE", 3_999 * 12)
    nearly_all, population = widths("bag"), widths("population")
    monkeypatch.setattr("kdey.groups.answers.WHOLE", 4_000 * 12)
    np.testing.assert_allclose(nearly_all, widths("bag"), rtol=0.05)
    assert (nearly_all < population).all()
    monkeypatch.setattr("kdey.groups.answers.WHOLE", 1_000 * 12)
    assert (widths("bag") < widths("population")).all()
    assert (widths("bag") > nearly_all).all()


def test_equal_rows_are_thinned_one_by_one() -> None:
    hashes = np.repeat(np.array([5, 7], dtype=np.uint64), 5_000)
    kept = thinning_ranks(hashes) < 0.3
    np.testing.assert_allclose([kept[:5_000].mean(), kept[5_000:].mean()], 0.3, atol=0.03)
