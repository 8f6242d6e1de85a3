"""Groups of a Dask data frame against the same table in memory, without a cluster."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from kdey import EMQ, PACC, PCC, DMx, KDEyCS, KDEyML, Options
from kdey.groups import cluster
from kdey.groups.request import Request
from kdey.options import IntervalWarning
from tests.groups.cluster.frames import SCORES, K, assert_same, make_frame

dask = pytest.importorskip("dask", reason="the extra 'dask' is not installed")
dd = pytest.importorskip("dask.dataframe", reason="the extra 'dask' is not installed")
CASE, FRAME = make_frame()


@pytest.fixture(autouse=True)
def synchronous() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield


def fitted(q):
    return q.fit_posteriors(CASE.training, CASE.labels)


@pytest.mark.parametrize("partitions", [1, 5, 23])
@pytest.mark.parametrize(
    "q", [KDEyML(bandwidth=0.1), PACC(), EMQ()], ids=lambda q: type(q).__name__
)
def test_the_table_of_memory(q, partitions: int) -> None:
    q = fitted(q)
    given = {"scores": SCORES, "time": "day", "every": "1w"}
    made = q.predict_groups(
        dd.from_pandas(FRAME, npartitions=partitions), "group", **given
    ).to_frame()
    assert_same(made, q.predict_groups(FRAME, "group", **given).to_frame())
    assert made["n_missing"].sum() == 3 * K
    assert made["status"].str.contains("missing values").any()


def test_wide_tables_and_no_keys() -> None:
    q, table = fitted(KDEyML(bandwidth=0.1)), dd.from_pandas(FRAME, npartitions=4)
    one = q.predict_groups(table, scores=SCORES).to_frame()
    assert_same(one, q.predict_groups(FRAME, scores=SCORES).to_frame())
    wide = q.predict_groups(table, "group", scores=SCORES).to_frame(wide=True)
    expected = q.predict_groups(FRAME, "group", scores=SCORES).to_frame(wide=True)
    assert list(wide.columns) == list(expected.columns)
    np.testing.assert_allclose(wide["low[1]"], expected["low[1]"], atol=1e-6)


def test_features_by_name_and_a_classifier() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 3)), columns=["u", "v", "w"])
    y = (X["u"] + rng.normal(size=600) > 0).to_numpy().astype(int)
    table = X.assign(site=np.where(rng.random(600) < 0.4, "x", "y"), note="text")
    table.loc[7, "v"] = np.nan
    for q in (KDEyML(LogisticRegression(), bandwidth=0.1), DMx()):
        q.fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IntervalWarning)
            made = q.predict_groups(dd.from_pandas(table, npartitions=3), "site").to_frame()
        assert_same(made, q.predict_groups(table, "site").to_frame())


def test_strata_of_training() -> None:
    strata = np.array(["x", "y"])[np.arange(len(CASE.labels)) % 2]
    p = np.where((strata == "x")[:, None], CASE.training**0.5, CASE.training)
    p /= p.sum(axis=1, keepdims=True)
    q = PACC().fit_posteriors(p, CASE.labels, strata=strata)
    frame = FRAME.assign(shop=np.array(["x", "y", "new"])[np.arange(len(FRAME)) % 3])
    options = Options(strata="shop")
    for by in ("group", "shop"):
        expected = q.predict_groups(frame, by, scores=SCORES, options=options).to_frame()
        table = dd.from_pandas(frame, npartitions=4)
        made = q.predict_groups(table, by, scores=SCORES, options=options).to_frame()
        assert_same(made, expected)
    common = PACC().fit_posteriors(p, CASE.labels)
    plain = common.predict_groups(frame, "shop", scores=SCORES, options=options).to_frame()
    moved = np.abs(plain["estimate"] - expected["estimate"]).to_numpy().reshape(3, K).max(axis=1)
    assert moved[0] < 1e-9  # a stratum that training lacks has the common templates
    assert (moved[1:] > 1e-3).all()


def test_bootstrap_limits_do_not_depend_on_the_partitions() -> None:
    q = fitted(KDEyCS(bandwidth=0.1))
    given = {"scores": SCORES, "options": Options(n_replicates=40)}
    expected = q.predict_groups(FRAME, "group", **given).to_frame()
    shuffled = FRAME.sample(frac=1.0, random_state=0).reset_index(drop=True)
    for frame, partitions in ((FRAME, 2), (FRAME, 11), (shuffled, 4)):
        table = dd.from_pandas(frame, npartitions=partitions)
        assert_same(q.predict_groups(table, "group", **given).to_frame(), expected)


def from_parts(*parts: pd.DataFrame):
    made = [dask.delayed(part) for part in parts]
    return dd.from_delayed(made, meta=parts[0].iloc[:0], verify_meta=False)


def test_counts_of_groups_are_added_up_on_the_workers(monkeypatch) -> None:
    """All groups may lie in all partitions, and this process would get each as often."""
    received = []
    collect = cluster.Dask.collect
    monkeypatch.setattr(
        cluster.Dask, "collect", lambda *asked: received.append(collect(*asked)) or received[-1]
    )
    frame = pd.concat([FRAME.sort_values("group", ascending=False), *[FRAME] * 10])
    table = dd.from_pandas(frame.reset_index(drop=True), npartitions=33)
    found = cluster.ClusterTable.of(
        table, fitted(PACC()).model_, Request.of("group", scores=SCORES)
    )
    assert [len(parts) for parts in received] == [3]
    assert all(len(part) <= 8 for part in received[0])
    expected = frame.groupby("group", sort=False).size()  # in the order in which groups come
    assert found.key_rows["group"].to_list() == expected.index.tolist()
    assert found.counts.tolist() == expected.tolist()


@pytest.mark.parametrize("together", [2, 16])
def test_long_integers_beside_missing_keys(monkeypatch, together: int) -> None:
    """Keys that are missing make floats of a partition, and these have 53 bits."""
    monkeypatch.setattr(cluster, "TOGETHER", together)
    long, half = 2**53, FRAME[SCORES].head(60)
    parts = [half.assign(group=np.arange(60) % 2 + long) for _ in range(2)]
    parts.append(half.assign(group=np.where(np.arange(60) < 20, np.nan, 7.0)))
    table = fitted(PACC()).predict_groups(from_parts(*parts), "group", scores=SCORES).to_frame()
    assert table["group"].dtype == np.float64
    sizes = (table["n"] + table["n_missing"])[::K]
    assert sorted(sizes) == [20, 40, 60, 60]


def test_empty_partitions() -> None:
    q = fitted(KDEyML(bandwidth=0.1))
    half = len(FRAME) // 2
    table = from_parts(FRAME.iloc[:0], FRAME[:half], FRAME.iloc[:0], FRAME[half:], FRAME.iloc[:0])
    made = q.predict_groups(table, "group", scores=SCORES).to_frame()
    assert_same(made, q.predict_groups(FRAME, "group", scores=SCORES).to_frame())
    with pytest.raises(ValueError, match="no row"):
        q.predict_groups(from_parts(FRAME.iloc[:0]), "group", scores=SCORES).to_frame()


def test_a_group_without_a_usable_row_is_empty() -> None:
    q = fitted(KDEyML(bandwidth=0.1))
    lost = FRAME.iloc[:4].assign(group="z", p_0=np.nan)
    table = pd.concat([FRAME, lost], ignore_index=True)
    made = q.predict_groups(from_parts(FRAME, lost), "group", scores=SCORES).to_frame()
    assert_same(made, q.predict_groups(table, "group", scores=SCORES).to_frame())
    last = made[made["group"] == "z"]
    assert set(last["status"]) == {"empty; missing values"}
    assert last["n_missing"].tolist() == [4] * K


def test_a_partition_with_other_columns() -> None:
    q = fitted(PACC())
    other = FRAME.drop(columns="p_2").rename(columns={"row": "p2"})
    with pytest.raises(ValueError, match=r"(?s)partition.*p_2"):
        q.predict_groups(from_parts(FRAME, other), "group", scores=SCORES).to_frame()
    whole = FRAME[[*SCORES, "group"]]  # as they are needed: nothing is picked before
    with pytest.raises(ValueError, match=r"partition 1: .*'p_2'"):
        q.predict_groups(
            from_parts(whole, whole.drop(columns="p_2")), "group", scores=SCORES
        ).to_frame()


def test_scores_that_are_none() -> None:
    q = fitted(PACC())
    bad = FRAME.copy()
    bad.loc[bad.index[60], "p_0"] = 2.0
    with pytest.raises(ValueError, match=r"partition 1: row \d+ has scores that sum to"):
        q.predict_groups(from_parts(FRAME, bad), "group", scores=SCORES).to_frame()
    with pytest.raises(ValueError, match=r"partition 0: .*p_1"):
        q.predict_groups(
            from_parts(FRAME), "group", scores=SCORES, options=Options(missing="error")
        ).to_frame()


def test_refusals_before_any_work() -> None:
    q, table = fitted(PCC()), dd.from_pandas(FRAME, npartitions=2)
    with pytest.raises(ValueError, match="no key column 'site'"):
        q.predict_groups(table, "site", scores=SCORES).to_frame()
    with pytest.raises(ValueError, match="no column 'id'"):
        q.predict_groups(table, "group", scores=SCORES, options=Options(key="id")).to_frame()


def test_the_fit_is_checked() -> None:
    q, odd = fitted(KDEyML(bandwidth=0.1)), FRAME.copy()
    far = odd["group"] == "g"
    odd.loc[far, SCORES] = np.random.default_rng(0).dirichlet([60, 60, 60], int(far.sum()))
    table = dd.from_pandas(odd, npartitions=5)
    made = q.predict_groups(table, "group", scores=SCORES).to_frame()
    assert_same(made, q.predict_groups(odd, "group", scores=SCORES).to_frame())
    assert (made["status"].str.contains("poor fit") == (made["group"] == "g")).all()
    off = q.predict_groups(
        table, "group", scores=SCORES, options=Options(check_fit=False)
    ).to_frame()
    assert off["status"].str.contains("turned off|too small").all()


def test_large_groups_are_thinned_where_they_are_scored(monkeypatch) -> None:
    q = fitted(PACC())
    for module in ("cluster", "answers"):
        monkeypatch.setattr(f"kdey.groups.{module}.WHOLE", 200 * 12)
    expected = q.predict_groups(FRAME, "group", scores=SCORES).to_frame()
    assert expected["status"].str.contains("a sample of its rows").any()
    made = q.predict_groups(dd.from_pandas(FRAME, npartitions=4), "group", scores=SCORES).to_frame()
    # The first pass counts rows before it is known which of them lack a score.
    np.testing.assert_allclose(made["estimate"], expected["estimate"], atol=0.05)
    assert (made["n"] == expected["n"]).all()
    assert (made["status"] == expected["status"]).all()
