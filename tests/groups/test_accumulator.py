"""Running totals: a stream in any pieces and order gives what its rows give."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import kdey
from kdey import EMQ, PACC, KDEyML, Options
from kdey.groups import Accumulator
from kdey.quantifiers.composed import ForeignQuantifier
from tests.groups.cases import SCORES, fitted, posteriors

QUANTIFIER = fitted(PACC)
START = np.datetime64("2024-05-06T00:00", "us")
UNCHECKED = Options(check_fit=False)


def stream(n: int, *, copies: bool = False, seed: int = 0) -> pd.DataFrame:
    """Return n scored items of four hours; of copies each row occurs about five times."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    scores = posteriors(labels, rng)
    if copies:
        scores = scores[rng.integers(0, max(n // 5, 1), n)]
    hours = np.sort(rng.integers(0, 240, n)).astype("timedelta64[m]")
    return pd.DataFrame(scores, columns=SCORES).assign(at=START + hours)


def accumulator(**changes: Any) -> Accumulator:
    asked = {"every": "1h", "time": "at", "scores": SCORES, "options": UNCHECKED}
    return QUANTIFIER.accumulator(**(asked | changes))


def whole(frame: pd.DataFrame, **changes: Any) -> kdey.Estimate:
    options = {"scores": SCORES, "options": UNCHECKED} | changes
    return QUANTIFIER.predict_groups(frame.drop(columns="at"), **options)[0]


def assert_same(found: kdey.Estimate, expected: kdey.Estimate) -> None:
    for name in ("estimate", "low", "high"):
        assert_array_equal(getattr(found, name), getattr(expected, name))
    assert (found.size, found.status) == (expected.size, expected.status)


def kept(accumulated: Accumulator) -> dict[int, tuple[Any, ...]]:
    return {
        number: (b.ranks.tolist(), b.copies.tolist(), b.size, b.rows.points.tolist())
        for number, b in accumulated._buckets.items()
    }


@pytest.mark.smoke
@pytest.mark.parametrize("copies", [False, True])
def test_what_fits_is_the_estimate_of_the_rows(copies: bool) -> None:
    frame = stream(300, copies=copies)
    made = accumulator()
    for part in np.array_split(np.random.default_rng(1).permutation(300), 7):
        made.add(frame.iloc[part])
    assert_same(made.estimate(), whole(frame))
    direct = QUANTIFIER.estimate_posteriors(frame[SCORES].to_numpy(), check_fit=False)
    assert_allclose(made.estimate().estimate, direct.estimate, atol=1e-6)
    assert_allclose(made.estimate().low, direct.low, atol=1e-5)
    first = frame[frame["at"] < START + np.timedelta64(2, "h")]
    assert_same(made.estimate(until="2024-05-06T02:00"), whole(first))


def test_the_checks_are_those_of_the_rows() -> None:
    frame, options = stream(200), Options(n_null=40)
    q = fitted(KDEyML, bandwidth=0.1)
    made = q.accumulator(scores=SCORES, options=options)
    made.add(frame[SCORES][100:])
    made.add(frame[SCORES][:100])
    expected = q.predict_groups(frame[SCORES], scores=SCORES, options=options)[0]
    assert_same(made.estimate(), expected)
    found = made.estimate().checks
    assert found is not None
    assert found.summary() == expected.checks.summary()


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 400),
    most=st.integers(1, 60),
    copies=st.booleans(),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_any_split_merged_in_any_order_is_the_same(
    n: int, most: int, copies: bool, seed: int, data: st.DataObject
) -> None:
    frame = stream(n, copies=copies, seed=seed)
    one = accumulator(most=most, seed=seed, window=3)
    one.add(frame)
    owners = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    parts = []
    for owner in range(4):
        part = accumulator(most=most, seed=seed, window=3)
        for rows in np.array_split(np.flatnonzero(owners == owner), 2):
            if len(rows):
                part.add(frame.iloc[rows])
        parts.append(pickle.loads(pickle.dumps(part)))
    merged = accumulator(most=most, seed=seed, window=3)
    for place in data.draw(st.permutations(range(4))):
        merged.merge(parts[place])
    assert kept(merged) == kept(one)
    assert_same(merged.estimate(), one.estimate())


def test_a_thinned_stream_stays_bounded_and_covers_the_truth() -> None:
    truth, inside = np.array([0.5, 0.3, 0.2]), 0
    for seed in range(40):
        made = accumulator(every=None, time=None, most=300, seed=seed)
        rows = stream(3_000, copies=seed % 2 == 0, seed=seed)[SCORES]
        for start in range(0, 3_000, 1_000):
            made.add(rows[start : start + 1_000])
        found = made.estimate()
        assert found.size == 3_000
        assert len(made._buckets[0].ranks) == 300
        assert "a sample of its rows" in found.status
        inside += int(((found.low <= truth) & (truth <= found.high)).sum())
    assert inside >= 0.88 * 120


def test_copies_count() -> None:
    """Of 2,000 copies of few rows all are known, whatever the bound on distinct rows."""
    frame = stream(10)
    many = frame.iloc[np.random.default_rng(0).choice(10, 2_000, p=np.arange(1, 11) / 55)]
    made = accumulator(most=10)
    made.add(many)
    assert_same(made.estimate(), whole(many))


def test_old_buckets_go() -> None:
    frame = stream(400)
    made = accumulator(window=2)
    made.add(frame)
    assert_same(made.estimate(), whole(frame[frame["at"] >= START + np.timedelta64(2, "h")]))
    made.drop(before="2024-05-06T03:30")
    assert_same(made.estimate(), whole(frame[frame["at"] >= START + np.timedelta64(3, "h")]))
    made.drop(before="2024-05-07")
    assert made.size == 0
    with pytest.raises(ValueError, match="no items of this time"):
        made.estimate()


def test_the_time_of_a_call() -> None:
    made, zone = accumulator(time=None), timezone(timedelta(hours=2))
    rows = stream(30)[SCORES]
    made.add(rows[:10], "2024-05-06 09:59")
    made.add(rows[10:20], datetime(2024, 5, 6, 12, 0, tzinfo=zone))
    made.add(rows[20:])
    assert made.estimate(until="2024-05-06 10:00").size == 10
    assert made.estimate("2024-05-06 10:00", "2024-05-06 11:00").size == 10
    assert made.estimate(since=datetime.now(UTC) - timedelta(hours=2)).size == 10


def test_threads_lose_nothing() -> None:
    frame, made = stream(400), accumulator(most=50)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: made.add(frame[i : i + 10]), range(0, 400, 10)))
        sizes = list(pool.map(lambda _: made.estimate().size, range(8)))
    assert sizes == [400] * 8
    once = accumulator(most=50)
    once.add(frame)
    assert kept(made) == kept(once)


def test_rows_without_scores_are_counted() -> None:
    frame = stream(50)
    frame.loc[3:7, SCORES[0]] = np.nan
    made = accumulator()
    made.add(frame)
    assert made.size == 45
    assert "missing values" in made.estimate().status


def test_features_of_tables_and_methods_without_posteriors() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        rng.normal(size=(300, 2)) + np.repeat([[0], [3]], 150, axis=0), columns=["a", "b"]
    )
    for q in (kdey.HDx(), EMQ(calibration="bcts")):
        q.fit(X, np.repeat(["no", "yes"], 150))
        made = q.accumulator(options=UNCHECKED)
        made.add(X[:100])
        made.add(X[100:260])
        assert_same(made.estimate(), q.predict_groups(X[:260], options=UNCHECKED)[0])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"by": "p_cat"}, "count alike"),
        ({"weights": "w"}, "count alike"),
        ({"options": Options(key="id")}, "count alike"),
        ({"every": None}, "need every"),
        ({"every": "fortnight"}, "every must be a number"),
        ({"most": 0}, "most must be"),
        ({"window": 0}, "window must be"),
    ],
)
def test_what_cannot_be_accumulated(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        accumulator(**asked)


def test_what_cannot_be_added_or_merged() -> None:
    frame, made = stream(20), accumulator()
    with pytest.raises(ValueError, match="leave at out"):
        made.add(frame, "2024-05-06")
    with pytest.raises(ValueError, match="lacks the time"):
        made.add(frame.assign(at=frame["at"].where(frame.index != 3)))
    with pytest.raises(ValueError, match="the same model, every, most and seed"):
        made.merge(accumulator(seed=1))
    with pytest.raises(ValueError, match="the same model, every, most and seed"):
        made.merge(fitted(EMQ).accumulator(every="1h", time="at", scores=SCORES, options=UNCHECKED))
    alone = pickle.loads(pickle.dumps(made))
    with pytest.raises(ValueError, match="without its quantifier"):
        alone.add(frame)
    assert "0 items in 0 buckets" in repr(alone)


class Constant:
    """A quantifier of another library."""

    def __init__(self, answer: list[float]) -> None:
        self.answer, self.classes_ = np.array(answer), np.array(["a", "b"])

    def fit(self, X: Any, y: Any) -> Constant:
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def predict(self, X: Any) -> Any:
        return self.answer


def test_quantifiers_of_other_libraries_are_told_apart() -> None:
    def of(quantifier: Constant) -> Accumulator:
        return Accumulator(ForeignQuantifier(quantifier).fit([[0.0], [1.0]], ["a", "b"]))

    made = of(Constant([0.3, 0.7]))
    made.merge(
        of(pickle.loads(pickle.dumps(Constant([0.3, 0.7])))), pickle.loads(pickle.dumps(made))
    )
    with pytest.raises(ValueError, match="the same model, every, most and seed"):
        made.merge(of(Constant([0.4, 0.6])))


def test_a_quantifier_that_cannot_be_pickled() -> None:
    """It goes with itself alone."""
    made = []
    for _ in range(2):
        own = Constant([0.3, 0.7])
        own.predict = lambda X: np.array([0.3, 0.7])  # type: ignore[method-assign]
        q = ForeignQuantifier(own).fit([[0.0], [1.0]], ["a", "b"])
        made.append((Accumulator(q), Accumulator(q)))
    made[0][0].merge(made[0][1])
    with pytest.raises(ValueError, match="the same model"):
        made[0][0].merge(made[1][0])
