"""Keys, periods, score columns and the stream, each against the obvious way."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from kdey.groups import (
    GroupKeys,
    GroupSettings,
    GroupStream,
    Instances,
    estimate_groups,
    match_scores,
    truncate,
)
from kdey.groups import estimate as solving

from .cases import CLASSES, fitted, posteriors


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


def test_runs_do_not_change_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    q, rng = fitted(), np.random.default_rng(3)
    labels = rng.integers(0, 3, 500)
    p, codes = posteriors(labels, rng), rng.integers(0, 40, 500)
    codes[codes == 7] = 8  # an empty group
    whole = estimate_groups(q, p, codes, 41, GroupSettings())
    monkeypatch.setattr(solving, "RUN", 60)
    parts = estimate_groups(q, p, codes, 41, GroupSettings())
    for name in ("estimate", "low", "high", "classify_and_count"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-12)
    assert parts.status == whole.status
    assert (whole.status[7], whole.status[40]) == ("empty", "empty")


@pytest.mark.parametrize("memory", [1 << 30, 1_000, 0])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_stream_is_the_whole(memory: int, kind: type) -> None:
    q, rng = fitted(), np.random.default_rng(3)
    p, codes = posteriors(rng.integers(0, 3, 300), rng).astype(kind), rng.integers(0, 9, 300)
    usable = rng.random(300) < 0.9
    stream = GroupStream(memory)
    for cut in np.array_split(np.arange(300), 7):
        stream.add(p[cut][usable[cut]], codes[cut].astype(np.int32), usable[cut])
    made = stream.answers(q, 9, GroupSettings())
    left_out = np.bincount(codes[~usable], minlength=9)
    whole = estimate_groups(q, p[usable], codes[usable], 9, GroupSettings(), missing=left_out)
    for name in ("estimate", "low", "high", "missing", "sizes"):
        assert_array_equal(getattr(made, name), getattr(whole, name))


def test_stream_without_a_usable_row() -> None:
    stream = GroupStream()
    stream.add(np.empty((0, 3)), np.zeros(2, np.int32), np.zeros(2, np.bool_))
    made = stream.answers(fitted(), 1, GroupSettings())
    assert made.status == ["empty; missing values"]
    assert np.isnan(made.estimate).all()


def test_a_stream_takes_instances_as_its_only_batch() -> None:
    usable, codes = np.ones(4, np.bool_), np.zeros(4, np.int32)
    stream = GroupStream()
    stream.add(Instances(np.zeros((4, 2))), codes, usable)
    assert len(stream) == 4
    with pytest.raises(ValueError, match="cannot be collected from several batches"):
        stream.add(Instances(np.zeros((4, 2))), codes, usable)
    other = GroupStream()
    other.add(np.full((4, 3), 1 / 3), codes, usable)
    with pytest.raises(ValueError, match="cannot be collected from several batches"):
        other.add(Instances(np.zeros((4, 2))), codes, usable)
