"""Labels, weights, clusters and strata from columns of a table, and merged classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kdey
from kdey import EMQ, predict_groups
from kdey._fingerprints import row_hashes

from .cases import CLASSES, SCORES, columns, fitted, keywords, posteriors

#: Columns of a table with labels, by class.
WAYS = ("label_shift", "labels", "prediction_powered")


@pytest.fixture(scope="module")
def q() -> Any:
    return fitted(EMQ)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Return a table in which a fifth of the rows have a label, but none in the north."""
    rng, data = np.random.default_rng(3), pd.DataFrame(columns())
    data["truth"] = CLASSES[data[SCORES].to_numpy().argmax(axis=1)]
    has_label = (rng.random(len(data)) < 0.2) & (data["region"] != "north")
    data["label"] = data["truth"].where(has_label, None)
    data["weight"] = rng.uniform(0.5, 2.0, len(data))
    data["house"] = rng.integers(0, 40, len(data))
    return data


def ask(q: Any, frame: pd.DataFrame, wide: bool = False, **options: Any) -> pd.DataFrame:
    asked = keywords(scores=SCORES, check_fit=False, **options)
    made = q.predict_groups(frame, "region", **asked)
    return made.to_frame(wide=wide)


def of(table: pd.DataFrame, region: str) -> pd.DataFrame:
    return table[table["region"] == region].reset_index(drop=True)


@pytest.mark.parametrize("believe", ["prediction-powered", "label-shift"])
def test_labels_are_matched_by_row(q: Any, frame: pd.DataFrame, believe: str) -> None:
    table = ask(q, frame, labelled="label", weights="weight", clusters="house", believe=believe)
    for region in ("east", "south"):
        part = frame[frame["region"] == region]
        # The test of label shift draws by position: in the order in which groups are answered.
        part = part.iloc[row_hashes(part[SCORES].to_numpy()).argsort()].reset_index(drop=True)
        rows = np.flatnonzero(part["label"].notna())
        alone = q.estimate_posteriors(
            part[SCORES].to_numpy(),
            labelled=(rows, part["label"][rows].to_numpy(dtype=str)),
            sample_weight=part["weight"],
            clusters=part["house"],
            check_fit=False,
            options=kdey.Options(believe=believe),
        )
        result = of(table, region)
        assert_allclose(result["estimate"], alone.estimate, atol=1e-6)
        assert_allclose(result["low"], alone.low, atol=1e-6)
        for way in WAYS:
            other = alone.alternatives[way.replace("_", "-")]
            assert_allclose(result[way], other.estimate, atol=1e-6)
            assert_allclose(result[f"{way}_high"], other.high, atol=1e-6)
        assert set(result["verdict"]) == {alone.verdict}
        assert set(result["n_labels"]) == {len(rows)}
        assert_allclose(result["label_shift_p_value"], alone.shift_test.p_value)


def test_a_group_without_labels_says_so(q: Any, frame: pd.DataFrame) -> None:
    north = of(ask(q, frame, labelled="label"), "north")
    plain = of(ask(q, frame), "north")
    assert_allclose(north["estimate"], plain["estimate"])
    assert_allclose(north["label_shift"], plain["estimate"])
    assert north[["labels", "prediction_powered"]].isna().all(axis=None)
    assert north["status"].str.startswith("no labels").all()
    assert north["verdict"].str.contains("no row of this group has a label").all()


def test_wide_tables_have_the_same_numbers(q: Any, frame: pd.DataFrame) -> None:
    long, wide = ask(q, frame, labelled="label"), ask(q, frame, labelled="label", wide=True)
    for i, name in enumerate(CLASSES):
        assert_array_equal(
            wide[f"prediction_powered_low[{name}]"],
            long["prediction_powered_low"].to_numpy().reshape(-1, 3)[:, i],
        )
    assert_array_equal(wide["verdict"], long["verdict"][::3])


def test_an_unknown_label_is_refused_with_its_row(q: Any, frame: pd.DataFrame) -> None:
    wrong = frame.copy()
    wrong.loc[[7, 9], "label"] = "fox"
    with pytest.raises(ValueError, match=r"'label' has the class 'fox' in row 8.*2 such rows"):
        ask(q, wrong, labelled="label")
    wrong.loc[9, "label"] = frame.loc[9, "label"]
    with pytest.raises(ValueError, match=r"'label' has the class 'fox' in row 8.*\(1 such row;"):
        ask(q, wrong, labelled="label")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("weight", -1.0, "'weight' must have a weight of at least zero.*row 6"),
        ("weight", np.nan, "'weight' must have a weight of at least zero.*row 6"),
        ("house", np.nan, "'house' must have a value.*row 6"),
    ],
)
def test_a_wrong_cell_is_refused_with_its_row(
    q: Any, frame: pd.DataFrame, column: str, value: float, message: str
) -> None:
    wrong = frame.astype({"house": float})
    wrong.loc[5, column] = value
    with pytest.raises(ValueError, match=message):
        ask(q, wrong, weights="weight", clusters="house")


def test_probabilities_of_selection_come_from_a_column(q: Any, frame: pd.DataFrame) -> None:
    known = frame.assign(chance=np.where(frame["label"].isna(), np.nan, 0.2))
    table = of(ask(q, known, labelled="label", selection="chance"), "east")
    part = frame[frame["region"] == "east"].reset_index(drop=True)
    rows = np.flatnonzero(part["label"].notna())
    labels = part["label"][rows].to_numpy(dtype=str)
    alone = q.estimate_posteriors(
        part[SCORES].to_numpy(),
        labelled=(rows, labels),
        check_fit=False,
        options=kdey.Options(selection=np.full(len(rows), 0.2)),
    )
    assert_allclose(table["estimate"], alone.estimate, atol=1e-6)
    with pytest.raises(ValueError, match=r"'chance' must have a probability above 0.*row 1"):
        ask(q, known.assign(chance=2.0, label="cat"), labelled="label", selection="chance")
    with pytest.raises(ValueError, match="name the column of labels"):
        ask(q, known, selection="chance")


def test_rows_of_weight_zero_do_not_count(q: Any, frame: pd.DataFrame) -> None:
    drop = frame["region"].isin(["north"]) | (frame.index % 3 == 0)
    table = ask(q, frame.assign(weight=np.where(drop, 0.0, 1.0)), weights="weight")
    expected = ask(q, frame[~drop])
    rest = table[table["region"] != "north"].reset_index(drop=True)
    assert_allclose(rest["estimate"], expected["estimate"], atol=1e-8)
    assert_array_equal(rest["n"], expected["n"])
    assert (of(table, "north")["status"] == "empty").all()


def test_merged_classes_have_the_limits_of_their_sum(q: Any, frame: pd.DataFrame) -> None:
    merge = {"eel": "eel", "mammal": ["cat", "dog"]}
    table, plain = ask(q, frame, merge=merge), ask(q, frame)
    assert table["class"].tolist() == ["eel", "mammal"] * 3
    for region in ("east", "north", "south"):
        part, single = of(table, region), of(plain, region)
        assert_allclose(part["estimate"][1], single["estimate"][:2].sum())
        assert_allclose(part["low"][0], single["low"][2])
        assert_allclose(
            [part["low"][1], part["high"][1]], [1 - part["high"][0], 1 - part["low"][0]]
        )
        assert_allclose(part["classify_and_count"][1], single["classify_and_count"][:2].sum())
        assert_allclose(part["training_prevalence"][1], single["training_prevalence"][:2].sum())


def test_labels_and_merged_classes_together(q: Any, frame: pd.DataFrame) -> None:
    table = ask(q, frame, labelled="label", merge={"mammal": ["cat", "dog"]})
    assert table["class"].tolist() == ["mammal", "eel"] * 3
    part = of(table, "east")
    for way in WAYS:
        assert part[way].sum() == pytest.approx(1)


def test_strata_with_known_shares_are_summed(q: Any, frame: pd.DataFrame) -> None:
    table = of(ask(q, frame, strata="shop", stratum_shares={0: 3, 1: 1}), "east")
    part = frame[frame["region"] == "east"]
    parts = [
        q.estimate_posteriors(part[part["shop"] == s][SCORES].to_numpy(), check_fit=False)
        for s in (0, 1)
    ]
    expected = 0.75 * parts[0].estimate + 0.25 * parts[1].estimate
    assert_allclose(table["estimate"], expected, atol=1e-6)
    counted = 0.75 * parts[0].classify_and_count + 0.25 * parts[1].classify_and_count
    assert_allclose(table["classify_and_count"], counted)
    assert ((table["low"] <= table["estimate"]) & (table["estimate"] <= table["high"])).all()


def test_a_group_without_a_stratum_says_so(q: Any, frame: pd.DataFrame) -> None:
    only = frame[(frame["region"] != "east") | (frame["shop"] == 0)]
    table = ask(q, only, strata="shop", stratum_shares={"0": 0.5, "1": 0.5})
    assert of(table, "east")["status"].str.startswith("missing strata").all()
    assert not of(table, "south")["status"].str.contains("missing strata").any()
    with pytest.raises(ValueError, match=r"shares are known \(0\).* row 1 has '1'"):
        ask(q, frame, strata="shop", stratum_shares={0: 1.0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labelled": "a", "strata": "b"}, "cannot be used together"),
        ({"stratum_shares": {"a": 1}}, "need the column of the strata"),
        ({"strata": "a", "stratum_shares": {"b": 0.0}}, "must be positive"),
    ],
)
def test_designs_that_cannot_be(
    q: Any, frame: pd.DataFrame, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ask(q, frame, **options)


def test_strata_of_a_few_rows_are_pointed_out(q: Any, frame: pd.DataFrame) -> None:
    """Estimates of single rows lean to the inside of the simplex, and so does their sum."""
    tiny = frame.assign(tiny=np.arange(len(frame)) // 3)
    assert ask(q, tiny, strata="tiny")["status"].str.startswith("small strata").all()
    rest = frame.assign(rest=np.where(np.arange(len(frame)) < 3, "a", "b"))  # 3 of some 80 rows
    assert not ask(q, rest, strata="rest")["status"].str.contains("small strata").any()


def test_clusters_in_several_strata_are_drawn_once(q: Any) -> None:
    """Their strata were summed as if each had clusters of its own: coverage 0.85 of 0.95."""
    rng = np.random.default_rng(8)
    house, shop = np.repeat(np.arange(30), 12), np.tile(np.arange(4), 90)
    kind = rng.choice(3, 30)  # all rows of a house are of one class
    table = pd.DataFrame(posteriors(kind[house], rng), columns=SCORES)
    table = table.assign(region="east", house=house, shop=shop, nested=house * 4 + shop)

    def made(clusters: str, **asked: Any) -> tuple[float, str]:
        found = ask(q, table, strata="shop", clusters=clusters, **asked)
        return float((found["high"] - found["low"]).mean()), found["status"][0]

    for asked in ({}, {"stratum_shares": {0: 1, 1: 1, 2: 1, 3: 1}}):
        crossing, said = made("house", **asked)
        assert crossing > 1.3 * made("nested", **asked)[0]
        assert "few clusters" not in said
    few = table[table["house"] < 20].assign(nested=lambda rows: rows["house"] // 5)
    assert "few clusters" in ask(q, few, strata="shop", clusters="house")["status"][0]
    # Five houses in each of four strata: 16 degrees of freedom.
    assert "few clusters" in ask(q, few, strata="nested", clusters="house")["status"][0]
    label = np.where((few["house"] < 10) & (few["shop"] == 0), CLASSES[0], None)
    both = few.assign(label=label, region=np.where(few["house"] < 10, "east", "west"))
    assert ask(q, both, labelled="label", clusters="house")["status"].str.contains("few cl").all()


def test_a_column_is_a_key_or_part_of_the_design(q: Any, frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="'region' is a key of the groups"):
        ask(q, frame, clusters="region")
    with pytest.raises(ValueError, match="no column 'wt_column'"):
        ask(q, frame, weights="wt_column")
    renamed = frame.rename(columns={"region": "verdict"})
    with pytest.raises(ValueError, match="'verdict' has the name of a column of the result"):
        predict_groups(q, renamed, "verdict", scores=SCORES, labelled="label").to_frame()


def test_design_columns_are_no_features() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), np.repeat([0, 1, 2], 30)
    X[:, 0] += y
    q = kdey.PACC().fit(X, y)  # features without names
    new = pd.DataFrame(X, columns=["a", "b"]).assign(weight=1.0, label=np.where(y == 1, y, np.nan))
    table = predict_groups(
        q, new, weights="weight", labelled="label", options=kdey.Options(check_fit=False)
    ).to_frame()
    assert set(table["n_labels"]) == {30}


def test_methods_that_combine_quantifiers_refuse_labels(frame: pd.DataFrame) -> None:
    rng, y = np.random.default_rng(0), np.repeat(np.arange(3), 20)
    q = kdey.OneVsAll(kdey.PACC()).fit_posteriors(posteriors(y, rng), CLASSES[y])
    with pytest.raises(ValueError, match="need a method with rows and a matching"):
        ask(q, frame, labelled="label", n_replicates=20)


def test_a_column_says_how_many_rows_the_population_of_a_group_has(q: Any, frame: Any) -> None:
    sizes = frame.groupby("region")["region"].transform("size")
    known = frame.assign(size=2 * sizes, share=0.5)
    table = ask(q, known, fpc="size")
    assert_allclose(ask(q, known, fpc="share")["high"], table["high"])
    for region, part in known.groupby("region"):
        one = q.estimate_posteriors(
            part[SCORES].to_numpy(), options=kdey.Options(fpc=2 * len(part), check_fit=False)
        )
        rows = table[table["region"] == region]
        assert_allclose(rows["low"], one.low, atol=1e-6)
        assert_allclose(rows["high"], one.high, atol=1e-6)
    with pytest.raises(ValueError, match="a size or share above zero"):
        ask(q, known.assign(size=0), fpc="size")


def test_an_infinite_weight_is_refused_by_row(q: Any, frame: pd.DataFrame) -> None:
    weight = frame["weight"].where(frame.index != 3, np.inf)
    with pytest.raises(
        ValueError, match=r"'weight' must have a weight of at least zero.*row 4 has 'inf'"
    ):
        ask(q, frame.assign(weight=weight), weights="weight")


def test_population_sizes_that_differ_within_a_group_are_refused(
    q: Any, frame: pd.DataFrame
) -> None:
    """They were taken for no correction at all, without a word."""
    size = np.where(frame["shop"] == 0, 500.0, 900.0)
    with pytest.raises(ValueError, match="500 and 900 in the group region=north"):
        ask(q, frame.assign(size=size), fpc="size")
    by_shop = ask(q, frame.assign(size=size), fpc="size", strata="shop")
    assert (by_shop["low"] < by_shop["high"]).all()
    with pytest.raises(ValueError, match="one value for all rows of a group in one stratum"):
        ask(q, frame.assign(size=np.arange(500.0, 740.0)), fpc="size", strata="shop")
    with pytest.raises(ValueError, match="has 500 and 900: it is the population"):
        q.predict_groups(frame.assign(size=size), scores=SCORES, options=kdey.Options(fpc="size"))


def test_groups_of_different_populations_can_be_compared(q: Any, frame: pd.DataFrame) -> None:
    size = frame["region"].map({"east": 500, "north": 900, "south": 400})
    compared = kdey.compare_groups(
        q,
        frame.assign(size=size),
        "region",
        against="rest",
        scores=SCORES,
        options=kdey.Options(fpc="size", check_fit=False),
    )
    assert len(compared) == 3


def test_a_stratum_in_two_spellings_is_refused(q: Any, frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="names a stratum twice"):
        ask(q, frame, strata="shop", stratum_shares={0: 1, "0": 3, 1: 2})


@pytest.mark.parametrize("as_text", [False, True])
def test_minutes_of_days_are_months(q: Any, frame: pd.DataFrame, as_text: bool) -> None:
    days = frame["day"].dt.strftime("%Y-%m-%d") if as_text else frame["day"]
    with pytest.raises(ValueError, match=r"'2m' means minutes.*say '2mo' for months"):
        q.predict_groups(frame.assign(day=days), time="day", every="2m", scores=SCORES)
    clock = frame["day"] + pd.to_timedelta(np.arange(len(frame)) % 3, unit="min")
    made = q.predict_groups(frame.assign(day=clock), time="day", every="2m", scores=SCORES)
    assert len(made) > 40


def test_strata_of_the_variance_are_those_of_single_bags(q: Any, frame: pd.DataFrame) -> None:
    size = frame["shop"].map({shop: 300.0 + 100 * n for n, shop in enumerate(set(frame["shop"]))})
    known = frame.assign(size=size)
    for asked in ({}, {"fpc": "size"}):
        table = ask(q, known, variance_strata="shop", **asked)
        for region, part in known.groupby("region"):
            options = kdey.Options(
                variance_strata=part["shop"].to_numpy(),
                fpc=part["size"].to_numpy() if asked else None,
                check_fit=False,
            )
            one = q.estimate_posteriors(part[SCORES].to_numpy(), options=options)
            rows = table[table["region"] == region]
            assert_allclose(rows["low"], one.low, atol=1e-6)
            assert_allclose(rows["high"], one.high, atol=1e-6)
    with pytest.raises(ValueError, match="rows that are estimated together"):
        ask(q, known, variance_strata="shop", strata="shop")
    with pytest.raises(ValueError, match="must name the column"):
        ask(q, known, variance_strata=[1, 2])
