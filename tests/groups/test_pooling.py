"""Groups that lean on others and periods that lean on their neighbours, through every door."""

from __future__ import annotations

from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdey import EMQ, HDx, KDEyML
from kdey.bayes import pooling
from kdey.bayes.pooling import shrink_groups
from kdey.bayes.random_walk import smooth_periods
from kdey.groups import GroupKeys, series_and_times, truncate
from kdey.groups.request import period_numbers, period_starts
from tests.groups.cases import SCORES, fitted, keywords, posteriors

QUANTIFIER = fitted(EMQ, calibration="bcts")
SIZE, SHOPS = 12, 20
MONDAY = np.datetime64("2024-01-01")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep chains short: what is tested here is not how well they mix."""
    short = partial(shrink_groups, n_templates=2, n_sweeps=60, n_draws=20, n_rounds=1)
    monkeypatch.setattr("kdey.bayes.each_group.shrink_groups", short)
    monkeypatch.setattr(pooling, "drifts", lambda traces: False)
    few = partial(smooth_periods, n_templates=2, n_draws=20)
    monkeypatch.setattr("kdey.groups.smooth_periods", few)


def make_frame(kappa: float = 10.0) -> pd.DataFrame:
    """Return 20 shops in two regions; shop s has the week s, without weeks 5 and 6."""
    rng = np.random.default_rng(4)
    truth = rng.dirichlet(kappa * np.array([0.5, 0.3, 0.2]), size=SHOPS)
    labels = np.concatenate([rng.choice(3, SIZE, p=p) for p in truth])
    shop = np.repeat(np.arange(SHOPS), SIZE)
    week = np.where(shop >= 5, shop + 2, shop)
    return pd.DataFrame(posteriors(labels, rng), columns=SCORES).assign(
        shop=shop,
        region=np.where(shop < 10, "north", "south"),
        day=MONDAY.astype("datetime64[us]") + (7 * week).astype("timedelta64[D]"),
    )


FRAME = make_frame()
KEYS = {"by": "shop", "scores": SCORES, "check_fit": False}
WEEKS = {"time": "day", "every": "1w", "scores": SCORES, "check_fit": False}


def answer(frame: Any = FRAME, wide: bool = False, **options: Any) -> Any:
    return QUANTIFIER.predict_groups(frame, **keywords(**options)).to_frame(wide=wide)


@pytest.mark.smoke
def test_separate_answers_stand_beside_pooled_ones() -> None:
    plain, pooled = answer(**KEYS), answer(**KEYS, shrink=True)
    for name in ("estimate", "low", "high"):
        np.testing.assert_allclose(pooled[f"separate_{name}"], plain[name])
    spread = [table.groupby("class")["estimate"].std().mean() for table in (plain, pooled)]
    assert spread[1] < spread[0]
    assert pooled["shrinkage"].between(0, 1).all()
    assert (pooled.groupby("shop")["shrinkage"].nunique() == 1).all()
    sums = pooled.groupby("shop")["estimate"].sum()
    np.testing.assert_allclose(sums, 1.0, atol=1e-5)
    assert ((pooled["low"] <= pooled["estimate"]) & (pooled["estimate"] <= pooled["high"])).all()
    assert list(plain.columns) == [c for c in pooled.columns if c in plain.columns]


def test_groups_of_groups() -> None:
    keys = {**KEYS, "by": ["region", "shop"]}
    flat, tree = answer(**keys, shrink=True), answer(**keys, shrink="region")
    assert len(flat) == len(tree) == 3 * SHOPS
    assert not np.allclose(flat["estimate"], tree["estimate"])


def test_groups_that_cannot_be_told_apart_say_so() -> None:
    mixed = np.random.default_rng(1).permutation(len(FRAME)) % SHOPS
    same = FRAME.assign(shop=mixed)
    table = answer(same, **KEYS, shrink=True)
    assert table["status"].str.contains("groups cannot be told apart").all()
    different = make_frame(kappa=0.5)
    table = answer(different, **KEYS, shrink=True)
    assert not table["status"].str.contains("told apart").any()


def test_groups_whose_share_goes_with_their_size_are_not_alike() -> None:
    rng, statuses = np.random.default_rng(6), []
    for share in (0.5, 0.3):  # that of the first class in the large groups; 0.5 in the small ones
        sizes = np.tile([6, 24], SHOPS)
        shop = np.repeat(np.arange(2 * SHOPS), sizes)
        first = np.where(sizes[shop] == 24, share, 0.5)
        labels = np.where(rng.random(len(shop)) < first, 0, rng.integers(1, 3, len(shop)))
        frame = pd.DataFrame(posteriors(labels, rng), columns=SCORES).assign(shop=shop)
        statuses.append(answer(frame, **KEYS, shrink=True)["status"])
    assert statuses[0].str.contains("told apart").all()
    assert not statuses[1].str.contains("told apart").any()


def with_outlier(n: int = 60) -> pd.DataFrame:
    """Return 20 equal shops, but for one more that has eels only."""
    rng = np.random.default_rng(7)
    labels = np.concatenate([rng.choice(3, SHOPS * SIZE, p=[0.5, 0.4, 0.1]), np.full(n, 2)])
    shop = np.concatenate([np.arange(SHOPS * SIZE) % SHOPS, np.full(n, SHOPS)])
    return pd.DataFrame(posteriors(labels, rng), columns=SCORES).assign(shop=shop)


@pytest.mark.parametrize("covers", ["each-group", "average-group"])
def test_a_group_that_does_not_belong_keeps_its_own_estimate(covers: str) -> None:
    table = answer(with_outlier(), **KEYS, shrink=True, shrink_covers=covers)
    strange = table["status"].str.contains("does not belong")
    assert set(table["shop"][strange]) == {SHOPS}
    assert not table["status"].str.contains("told apart").any()
    own, others = table[strange], table[~strange]
    np.testing.assert_allclose(own["estimate"], own["separate_estimate"])
    assert (own["shrinkage"] == 0).all()
    assert (others["shrinkage"] > 0.3).all()
    assert own["high"].iloc[2] > 0.9
    assert (table["low"] <= table["estimate"]).all()
    assert (table["estimate"] <= table["high"]).all()


def test_intervals_for_each_group_are_a_little_narrower() -> None:
    table = with_outlier()
    each = answer(table, **KEYS, shrink=True)
    average = answer(table, **KEYS, shrink=True, shrink_covers="average-group")
    separate = (each["separate_high"] - each["separate_low"]).mean()
    ratio = (each["high"] - each["low"]).mean() / separate
    assert 0.75 < ratio < 0.95
    assert (average["high"] - average["low"]).mean() < 0.7 * separate


def test_a_few_groups_keep_their_own_estimates() -> None:
    few = FRAME[FRAME["shop"] < 4]
    plain, pooled = answer(few, **KEYS), answer(few, **KEYS, shrink=True)
    for name in ("estimate", "low", "high"):
        np.testing.assert_array_equal(pooled[name], plain[name])
        np.testing.assert_array_equal(pooled[f"separate_{name}"], plain[name])
    assert pooled["status"].str.contains("too few groups to pool").all()
    assert (pooled["shrinkage"] == 0).all()


def test_a_jump_is_named_where_it_is() -> None:
    rng = np.random.default_rng(3)
    labels = np.concatenate(
        [rng.choice(3, 12 * 30, p=p) for p in ([0.7, 0.2, 0.1], [0.1, 0.2, 0.7])]
    )
    week = np.repeat(np.arange(24), 30)
    day = MONDAY.astype("datetime64[us]") + (7 * week).astype("timedelta64[D]")
    frame = pd.DataFrame(posteriors(labels, rng), columns=SCORES).assign(day=day)
    table = answer(frame, **WEEKS, smooth=True)
    named = table["status"].str.contains("jump since the period before").to_numpy()[::3]
    assert np.flatnonzero(named).tolist() == [12]
    eel = table["estimate"].to_numpy()[2::3]
    assert eel[11] < 0.25
    assert eel[12] > 0.55


def test_limits_of_the_group_itself_are_narrower() -> None:
    population, bag = (answer(**KEYS, shrink=True, target=t) for t in ("population", "bag"))
    assert (bag["high"] - bag["low"]).mean() < (population["high"] - population["low"]).mean()


def test_wide_tables() -> None:
    long, wide = answer(**KEYS, shrink=True), answer(**KEYS, shrink=True, wide=True)
    np.testing.assert_allclose(wide["estimate[dog]"], long["estimate"][1::3])
    np.testing.assert_allclose(wide["separate_low[eel]"], long["separate_low"][2::3])
    np.testing.assert_allclose(wide["shrinkage"], long["shrinkage"][::3])


def test_order_of_groups_does_not_matter() -> None:
    parts = [FRAME[FRAME["shop"] == shop] for shop in reversed(range(SHOPS))]
    turned = pd.concat(parts, ignore_index=True)
    np.testing.assert_array_equal(
        answer(**KEYS, shrink=True)["estimate"], answer(turned, **KEYS, shrink=True)["estimate"]
    )


def test_a_group_without_usable_rows_stays_empty() -> None:
    frame = FRAME.copy()
    frame.loc[frame["shop"] == 3, SCORES] = np.nan
    table = answer(frame, **KEYS, shrink=True)
    empty = table[table["shop"] == 3]
    assert empty["estimate"].isna().all()
    assert empty["status"].str.contains("empty").all()
    assert table[table["shop"] != 3]["estimate"].notna().all()


@pytest.mark.parametrize(
    "convert",
    [lambda f: f, pl.from_pandas, lambda f: pa.Table.from_pandas(f, preserve_index=False)],
    ids=["pandas", "polars", "pyarrow"],
)
def test_periods_without_data_get_rows(convert: Any) -> None:
    table = answer(convert(FRAME), **WEEKS, smooth=True)
    columns = (
        table.to_pydict()
        if isinstance(table, pa.Table)
        else table.to_dict(as_series=False)
        if isinstance(table, pl.DataFrame)
        else table.to_dict("list")
    )
    assert len(columns["day"]) == 3 * (SHOPS + 2)
    weeks = [np.datetime64(day, "D") for day in columns["day"][::3]]
    assert weeks == [MONDAY + 7 * week for week in range(SHOPS + 2)]
    absent = [n == 0 for n in columns["n"]]
    assert np.flatnonzero(absent).tolist() == list(range(15, 21))
    assert all(columns["status"][row] == "empty" for row in range(15, 21))
    assert np.isfinite(np.array(columns["estimate"], dtype=float)).all()
    separate = np.array(columns["separate_estimate"], dtype=float)
    assert np.isnan(separate[15:21]).all()
    assert "shrinkage" not in columns


def test_dates_stay_dates() -> None:
    days = [value.date() for value in FRAME["day"]]
    frame = pa.Table.from_pandas(FRAME.drop(columns="day"), preserve_index=False)
    frame = frame.append_column("day", pa.array(days))
    table = answer(frame, **WEEKS, smooth=True)
    assert table.schema.field("day").type == pa.date32()
    assert table["day"].to_pylist()[15] == date(2024, 2, 5)


def test_series_are_smoothed_by_themselves() -> None:
    table = answer(**WEEKS, by="region", smooth=True)
    assert (table.groupby("region")["day"].nunique() == [12, 10]).all()


def test_gaps_without_a_period_are_longer_steps() -> None:
    table = answer(time="day", scores=SCORES, smooth=True, check_fit=False)
    assert len(table) == 3 * SHOPS
    keys = GroupKeys(("day",))
    keys.encode([[datetime(2024, 1, 1), datetime(2024, 1, 3), datetime(2024, 1, 9), None]], 4)
    series, times = series_and_times(keys, None)
    np.testing.assert_array_equal(series, [0, 0, 0, 1])
    np.testing.assert_allclose(np.diff(times[:3]), [0.5, 1.5])


def test_numbers_are_times() -> None:
    table = answer(time="shop", scores=SCORES, smooth=True, check_fit=False)
    assert table["shop"].tolist()[::3] == list(range(SHOPS))


@pytest.mark.parametrize("every", ["1w", "2w", "1mo", "1q", "1y", "6h", "1d"])
def test_periods_are_numbered_without_holes(every: str) -> None:
    days = np.datetime64("1968-01-01") + np.arange(2000)
    times = days.astype("datetime64[us]")
    numbers = period_numbers(times, every)
    np.testing.assert_array_equal(period_starts(numbers, every), truncate(times, every))
    if every != "6h":
        assert set(np.diff(numbers)) <= {0, 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "shop", "shrink": True, "smooth": True}, "choose one of them"),
        ({"by": "shop", "smooth": True}, "smooth needs time"),
        ({"shrink": True}, "shrink needs groups"),
        ({"by": "shop", "shrink": "region"}, "'region', which is no key"),
        ({"by": "shop", "shrink": "shop"}, "needs another key"),
        ({"by": "shop", "shrink": 3}, "shrink must be True, False or the name"),
        ({"time": "day", "smooth": "yes"}, "smooth must be True or False"),
        ({"time": "day", "smooth": True, "target": "bag"}, "leave target='bag' out"),
        *(
            ({**pooled, **extra}, "take plain rows")
            for pooled in ({"by": "shop", "shrink": True}, {"time": "day", "smooth": True})
            for extra in (
                {"labelled": "truth"},
                {"weights": "size"},
                {"clusters": "house"},
                {"merge": {"all": [0, 1, 2]}},
            )
        ),
    ],
)
def test_what_cannot_be_pooled_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        answer(scores=SCORES, check_fit=False, **options)


def test_keys_must_not_have_the_names_of_new_columns() -> None:
    frame = FRAME.rename(columns={"shop": "shrinkage"})
    with pytest.raises(ValueError, match="'shrinkage' has the name of a column"):
        answer(frame, by="shrinkage", scores=SCORES, shrink=True)
    assert len(answer(frame, by="shrinkage", scores=SCORES, check_fit=False)) == 3 * SHOPS


def test_texts_without_a_period_are_no_times() -> None:
    frame = FRAME.assign(day=[f"week {shop}" for shop in FRAME["shop"]])
    with pytest.raises(ValueError, match="time column of dates, times or numbers"):
        answer(frame, time="day", date_format="auto", scores=SCORES, smooth=True, check_fit=False)


def test_dates_far_away_do_not_fill_the_table() -> None:
    frame = FRAME.copy()
    frame.loc[0, "day"] = pd.Timestamp("1700-01-01")
    with pytest.raises(ValueError, match=r"more than 10,000 periods of '1d' have no data"):
        answer(frame, **{**WEEKS, "every": "1d"}, smooth=True)


def test_methods_on_features_are_refused() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 2)), np.repeat([0, 1], 20)
    q = HDx().fit(X, y)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(shop=y)
    with pytest.raises(ValueError, match=r"groups cannot be pooled .*HDx"):
        q.predict_groups(frame, "shop", shrink=True).to_frame()


@pytest.mark.parametrize("memory", [1 << 30, 0], ids=["memory", "disk"])
def test_files_give_the_same_numbers(
    tmp_path: Path, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.Table.from_pandas(FRAME, preserve_index=False), tmp_path / "t.parquet")
    monkeypatch.setattr("kdey.groups.scoring.MEMORY", memory)
    path = tmp_path / "t.parquet"
    shrunk, smooth = answer(**KEYS, shrink=True), answer(**WEEKS, smooth=True)
    np.testing.assert_array_equal(answer(path, **KEYS, shrink=True)["estimate"], shrunk["estimate"])
    found = answer(path, **WEEKS, smooth=True)
    np.testing.assert_array_equal(found["low"], smooth["low"])
    assert found["day"].to_pylist() == smooth["day"].dt.to_pydatetime().tolist()


def test_partitions_of_dask_give_the_same_numbers() -> None:
    dask = pytest.importorskip("dask", reason="the extra 'dask' is not installed")
    dd = pytest.importorskip("dask.dataframe", reason="the extra 'dask' is not installed")
    with dask.config.set(scheduler="synchronous"):
        parts = dd.from_pandas(FRAME, npartitions=3)
        shrunk = answer(parts, **KEYS, shrink=True)
        smooth = answer(parts, **WEEKS, smooth=True)
    np.testing.assert_array_equal(shrunk["estimate"], answer(**KEYS, shrink=True)["estimate"])
    expected = answer(**WEEKS, smooth=True)
    np.testing.assert_array_equal(smooth["high"], expected["high"])
    assert smooth["day"].tolist() == expected["day"].tolist()


def test_rows_of_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    dd = pytest.importorskip("dask.dataframe", reason="the extra 'dask' is not installed")
    monkeypatch.setattr("kdey.groups.cluster.MOST_BYTES", 100)
    with pytest.raises(ValueError, match="posteriors of all rows in one process"):
        answer(dd.from_pandas(FRAME, npartitions=2), **KEYS, shrink=True)


def test_kernel_methods_are_pooled_too() -> None:
    table = fitted(KDEyML).predict_groups(FRAME, **keywords(**KEYS, shrink=True)).to_frame()
    assert np.isfinite(table["estimate"]).all()
