"""The same keys give the same groups, whichever source they come from."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kdey
from kdey import predict_groups
from kdey.groups import GroupKeys, Request, estimate_table
from kdey.tables.dialect import asked_format
from kdey.tables.sources import TableError, open_source

from .cases import SCORES, columns, fitted, keywords

Q = fitted()


def table_of(keys: list[Any], name: str = "k") -> dict[str, Any]:
    """Return score columns beside a key column, as many rows as ``keys`` has."""
    scores = {n: values for n, values in columns(len(keys)).items() if n in SCORES}
    return {name: keys, **scores}


def groups(frame: Any, by: Any = "k", **options: Any) -> list[tuple[str, int, float]]:
    """Return the key as text, size and first estimate of each group, in the order of the table."""
    table = nw.from_native(
        Q.predict_groups(frame, by, **keywords(scores=SCORES, **options)).to_frame(),
        eager_only=True,
    )
    first = table.filter(nw.col("class") == "cat")
    key = by if isinstance(by, str) else by[0]
    rows = zip(first[key].to_list(), first["n"].to_list(), first["estimate"].to_list(), strict=True)
    return [("" if k is None or k != k else str(k), n, round(e, 9)) for k, n, e in rows]


def of_file(
    path: Path, time: str | None = None, every: str | None = None, **options: Any
) -> pa.Table:
    request = Request.of(
        "k" if time is None else (),
        time=time,
        every=every,
        scores=SCORES,
        options=kdey.Options(missing="drop", **options),
    )
    return estimate_table(Q, open_source(str(path)), request).to_frame()


def csv_groups(tmp_path: Path, table: dict[str, Any], **types: str) -> list[tuple[str, int, float]]:
    path = tmp_path / "t.csv"
    pd.DataFrame(table).to_csv(path, index=False)
    answers = of_file(path, key_types=types).filter(pa.compute.field("class") == "cat")
    rows = zip(*(answers[name].to_pylist() for name in ("k", "n", "estimate")), strict=True)
    return [("" if k is None else str(k), n, round(e, 9)) for k, n, e in rows]


CODES = ["007", "7", "true", "True", "TRUE", "12345678901234567890", "12345678901234567891", "NA"]


def test_text_files_merge_no_keys(tmp_path: Path) -> None:
    keys = [code for code in CODES for _ in range(12)]
    found = csv_groups(tmp_path, table_of(keys))
    assert sorted(k for k, *_ in found) == sorted(CODES)
    assert {n for _, n, _ in found} == {12}
    assert found == groups(pd.DataFrame(table_of(keys)))
    pq.write_table(pa.table(table_of(keys)), tmp_path / "t.parquet")
    parquet = of_file(tmp_path / "t.parquet")
    assert parquet["k"].unique().to_pylist() == [k for k, *_ in found]


@pytest.mark.parametrize(
    "keys", [[10, 2, 7], [0.5, 10.0, -2.0], [False, True, False], ["b", "a", "c"], [None, 10, 2]]
)
def test_every_door_gives_the_same_groups_in_the_same_order(
    tmp_path: Path, keys: list[Any]
) -> None:
    import dask.dataframe as dd

    table = table_of(keys * 20)
    pandas = pd.DataFrame(table)
    expected = csv_groups(tmp_path, table)
    spelt = {"True": "true", "False": "false"}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    doors = [pandas, pl.DataFrame(table), pa.table(table), dd.from_pandas(pandas, npartitions=3)]
    frames = [groups(frame) for frame in doors]
    typed = [(k.removesuffix(".0"), n, e) for k, n, e in frames[0]]
    assert [(spelt.get(k, k), n) for k, n, _ in typed] == [
        (k.removesuffix(".0").lower(), n) for k, n, _ in expected
    ]
    for other in frames:
        assert [n for _, n, _ in other] == [n for _, n, _ in expected]
        np.testing.assert_allclose([e for *_, e in other], [e for *_, e in expected], atol=1e-6)


def test_types_that_are_asked_for(tmp_path: Path) -> None:
    table = table_of(["007", "7", "12"] * 20)
    assert [(k, n) for k, n, _ in csv_groups(tmp_path, table, k="integer")] == [
        ("7", 40),
        ("12", 20),
    ]
    asked = groups(pl.DataFrame(table), key_types={"k": "integer"})
    assert [(k, n) for k, n, _ in asked] == [("7", 40), ("12", 20)]
    numbers = groups(pd.DataFrame(table_of([7.0, None, 12.0] * 20)), key_types={"k": "text"})
    assert [(k, n) for k, n, _ in numbers] == [("7", 20), ("12", 20), ("", 20)]
    with pytest.raises(ValueError, match=r"'k' must hold whole numbers .* row 2 has 'x'"):
        groups(pd.DataFrame(table_of(["1", "x"] * 20)), key_types={"k": "integer"})
    with pytest.raises(ValueError, match="'x', which is no key"):
        Request.of("k", options=kdey.Options(key_types={"x": "text"}))
    with pytest.raises(ValueError, match="must be 'integer' or 'text'"):
        Request.of("k", options=kdey.Options(key_types={"k": "float"}))


@pytest.mark.parametrize("partitions", [1, 3])
def test_objects_group_alike_in_memory_and_on_dask(partitions: int) -> None:
    import dask
    import dask.dataframe as dd

    keys = [True] * 20 + [1] * 20 + [1.0] * 20
    frame = pd.DataFrame(table_of(pd.Series(keys, dtype=object)))
    in_memory = groups(frame)
    assert sorted((k, n) for k, n, _ in in_memory) == [("1", 40), ("True", 20)]
    with dask.config.set({"dataframe.convert-string": False}):
        on_dask = groups(dd.from_pandas(frame, npartitions=partitions))
    assert [(k, n) for k, n, _ in on_dask] == [(k, n) for k, n, _ in in_memory]


@pytest.mark.parametrize("partitions", [0, 1, 2])
def test_values_that_share_a_text_are_refused(partitions: int) -> None:
    import dask
    import dask.dataframe as dd

    frame: Any = pd.DataFrame(table_of(pd.Series([1] * 20 + ["1"] * 20, dtype=object)))
    with (
        dask.config.set({"dataframe.convert-string": False}),
        pytest.raises(ValueError, match=r"'k' holds both 1 \(int\) and '1' \(str\)"),
    ):
        groups(dd.from_pandas(frame, npartitions=partitions) if partitions else frame)


ORDER = ["small", "medium", "large"]


def test_ordered_categories_keep_their_order(tmp_path: Path) -> None:
    import dask.dataframe as dd

    keys = ["large", "small", "medium", None] * 15
    pandas = pd.DataFrame(table_of(pd.Categorical(keys, ORDER, ordered=True)))
    enum = pl.DataFrame(table_of(keys)).with_columns(pl.col("k").cast(pl.Enum(ORDER)))
    arrow = pa.Table.from_pandas(pandas)
    for frame in (pandas, enum, arrow, dd.from_pandas(pandas, npartitions=2)):
        assert [k for k, *_ in groups(frame)] == [*ORDER, ""]
    pq.write_table(arrow, tmp_path / "t.parquet")
    found = of_file(tmp_path / "t.parquet")
    assert found["k"].unique().to_pylist() == [*ORDER, None]
    unordered = pd.DataFrame(table_of(pd.Categorical(keys, ORDER)))
    assert [k for k, *_ in groups(unordered)] == ["large", "medium", "small", ""]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_lists_are_no_keys(make: Any) -> None:
    with pytest.raises(ValueError, match=r"column 'k' .*not one value"):
        groups(make(table_of([[1, 2]] * 20)))


def test_names_of_several_levels_are_refused() -> None:
    import dask.dataframe as dd

    frame = pd.DataFrame(table_of(["a"] * 20))
    frame.columns = pd.MultiIndex.from_tuples([(name, "x") for name in frame.columns])
    for data in (frame, dd.from_pandas(frame, npartitions=1)):
        with pytest.raises(ValueError, match=r"names of several levels, such as \('k', 'x'\)"):
            groups(data)


@pytest.mark.parametrize("name", ["estimate[cat]", "training_prevalence[eel]", "low[dog]"])
def test_a_wide_table_overwrites_no_key(name: str, tmp_path: Path) -> None:
    import dask.dataframe as dd

    frame = pd.DataFrame(table_of(["a"] * 20, name))
    for data in (frame, pl.from_pandas(frame), dd.from_pandas(frame, npartitions=1)):
        with pytest.raises(ValueError, match="has the name of a column of the result"):
            predict_groups(Q, data, name, scores=SCORES).to_frame(wide=True)
    assert groups(frame, name)[0][0] == "a"
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = predict_groups(Q, tmp_path / "t.csv", name, scores=SCORES)
    with pytest.raises(ValueError, match="has the name of a column of the result"):
        done.to_frame(wide=True)


@pytest.mark.parametrize("days", [[None, "2024-01-31"], ["2024-01-31", None]])
def test_missing_times_of_pandas(days: list[Any]) -> None:
    frame = pd.DataFrame(table_of(pd.to_datetime(pd.Series(days * 15)), "day"))
    done = predict_groups(Q, frame, scores=SCORES, time="day", every="1mo").to_frame()
    assert [str(day) for day in done["day"].unique()] == ["2024-01-01 00:00:00", "NaT"]


def test_missing_keys_are_one_group() -> None:
    keys = GroupKeys(("k",))
    values = [None, float("nan"), "", pd.NaT, pd.NA, np.float64("nan")]
    assert keys.encode([values], len(values)).tolist() == [0] * len(values)
    assert keys.values == [(None,)]


# Times


def times(tmp_path: Path, texts: list[str], every: str | None = "1mo", **options: Any) -> list[Any]:
    path = tmp_path / "t.csv"
    pd.DataFrame(table_of(texts, "day")).to_csv(path, index=False)
    return of_file(path, time="day", every=every, **options)["day"].unique().to_pylist()


JANUARY, MARCH = dt.date(2024, 1, 1), dt.date(2024, 3, 1)


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-01-31", "2024-03-02"],
        ["31.01.2024", "02.03.2024"],
        ["31/1/2024", "2/3/2024"],
        ["1/31/2024", "3/2/2024"],
        ["01-31-2024", "03-02-2024"],
        ["2024/01/31", "2024/03/02"],
    ],
)
def test_dates_are_read_as_the_column_shows(tmp_path: Path, texts: list[str]) -> None:
    assert times(tmp_path, texts * 15) == [JANUARY, MARCH]
    assert times(tmp_path, [*texts * 15, "NA", ""]) == [JANUARY, MARCH, None]


@pytest.mark.parametrize(
    "texts",
    [["2024-01-31 23:59", "2024-03-02T00:00:01.5"], ["2024-01-31T23:00:00+05:00", "2024-03-02"]],
)
def test_instants_are_read_by_the_clock_as_written(tmp_path: Path, texts: list[str]) -> None:
    assert times(tmp_path, texts * 15) == [dt.datetime(2024, 1, 1), dt.datetime(2024, 3, 1)]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["01/02/2024", "03/04/2024"], r"whether '01/02/2024' \(row 2\) begins with the day"),
        (["31/12/2024", "12/31/2024"], r"'31/12/2024' in row 2 and '12/31/2024' in row 3"),
        (
            ["2024-01-31", "yesterday"],
            r"dates such as 2024-01-31 .* row 3 has 'yesterday'.*date_format=",
        ),
        (["2024-01-31", "31.01.2024"], r"dates in several ways .* row 3 has '31.01.2024'"),
        (["31.01.24", "01.02.24"], r"row 2 has '31.01.24'"),
        (["2024-02-30", "2024-01-01"], r"row 2 has '2024-02-30'"),
        (["20240131", "20240201"], r"row 2 has '20240131'"),
    ],
)
def test_other_dates_are_refused_with_their_row(
    tmp_path: Path, texts: list[str], message: str
) -> None:
    with pytest.raises(TableError, match=message):
        times(tmp_path, texts * 15)


def test_a_format_that_is_said(tmp_path: Path) -> None:
    texts = ["03/01/2024", "01/03/2024"] * 15
    assert times(tmp_path, texts, date_format="%d/%m/%Y") == [JANUARY, MARCH]
    assert times(tmp_path, texts, date_format="%m/%d/%Y") == [JANUARY, MARCH][::1]
    assert times(tmp_path, ["20240131", "20240302"] * 15, date_format="%Y%m%d") == [JANUARY, MARCH]
    with pytest.raises(TableError, match=r"written as '%d/%m/%Y', but row 3 has '13/13/2024'"):
        times(tmp_path, ["03/01/2024", "13/13/2024"], date_format="%d/%m/%Y")


def test_the_whole_file_decides_on_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdey.tables.sources.BLOCK", 2000)
    assert times(tmp_path, ["02.03.2024"] * 300 + ["31.01.2024"]) == [JANUARY, MARCH]
    with pytest.raises(TableError, match="day comes first in one and the month in the other"):
        times(tmp_path, ["13/02/2024"] + ["02/03/2024"] * 300 + ["01/31/2024"])


def test_without_periods_times_may_be_anything(tmp_path: Path) -> None:
    assert times(tmp_path, ["10", "9"] * 15, None) == [9, 10]
    assert times(tmp_path, ["week 2", "week 1"] * 15, None) == ["week 1", "week 2"]
    assert times(tmp_path, ["2024-03-01", "2024-01-01"] * 15, None) == [JANUARY, MARCH]
    zoned = ["2024-01-01T00:00+01:00", "2024-01-01T00:00+02:00"]
    assert times(tmp_path, zoned * 15, None) == zoned
    with pytest.raises(TableError, match=r"'day' writes dates in several ways \(row 2"):
        times(tmp_path, ["2024-01-31", "31.01.2024"] * 15, None)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_with_dates_as_text(make: Any) -> None:
    frame = make(table_of(["31.01.2024", "02.03.2024"] * 15, "day"))
    done = nw.from_native(
        predict_groups(Q, frame, scores=SCORES, time="day", every="1mo").to_frame(), eager_only=True
    )
    assert [str(day)[:10] for day in done["day"].unique().sort().to_list()] == [
        "2024-01-01",
        "2024-03-01",
    ]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("serials", [[45322.0, 45353.75], ["45322", "45353.75"], [45322, None]])
def test_serial_numbers_of_a_spreadsheet_are_dates_where_the_user_says_so(
    make: Any, serials: list[Any]
) -> None:
    frame = make(table_of(serials * 15, "day"))
    done = nw.from_native(
        predict_groups(
            Q, frame, time="day", every="1mo", **keywords(scores=SCORES, date_format="excel")
        ).to_frame(),
        eager_only=True,
    )
    found = [str(day)[:10] for day in done["day"].drop_nulls().unique().sort().to_list()]
    assert found == ["2024-01-01", "2024-03-01"][: 2 - (None in serials)]


@pytest.mark.parametrize(
    ("serial", "day"),
    [
        ("1", dt.datetime(1900, 1, 1)),
        ("59", dt.datetime(1900, 2, 28)),
        ("61", dt.datetime(1900, 3, 1)),
        ("45353.75", dt.datetime(2024, 3, 2, 18)),
        ("45353.5084606481", dt.datetime(2024, 3, 2, 12, 12, 11)),
        ("2958465", dt.datetime(9999, 12, 31)),
    ],
)
def test_days_of_serial_numbers(serial: str, day: dt.datetime) -> None:
    read = asked_format("excel", has_clock=True).read(nw.new_series("t", [serial], backend=pl))
    assert read.to_list() == [day]


@pytest.mark.parametrize("serial", ["0", "60", "-3", "2958466", "inf", "2024-01-31"])
def test_what_is_no_serial_number_is_refused(serial: str) -> None:
    with pytest.raises(ValueError, match=r"serial numbers of dates, such as 45292, but row 7 has"):
        asked_format("excel").read(nw.new_series("t", [serial], backend=pl), first=7)


@pytest.mark.parametrize("serial", [45322, "45322"])
def test_the_message_offers_serial_numbers(serial: Any) -> None:
    frame = pl.DataFrame(table_of([serial] * 30, "day"))
    with pytest.raises(ValueError, match=r"date_format='excel'"):
        predict_groups(Q, frame, scores=SCORES, time="day", every="1mo")


def test_partitions_show_together_how_dates_are_written() -> None:
    import dask.dataframe as dd

    frame = pd.DataFrame(table_of(["31.01.2024", "02.03.2024"] * 15, "day"))
    rest: dict[str, Any] = {"scores": SCORES, "time": "day", "every": "1mo"}
    done = predict_groups(Q, dd.from_pandas(frame, npartitions=2), **rest).to_frame()
    assert done["day"].nunique() == 2
    expected = predict_groups(Q, frame, **rest).to_frame()
    np.testing.assert_allclose(done["estimate"], expected["estimate"])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_two_instants_of_one_reading_of_the_clock_are_two_groups(make: Any) -> None:
    """When clocks are put back, 02:30 comes twice; in Python the two instants are equal."""
    instants = pd.to_datetime(["2026-10-25 00:30", "2026-10-25 01:30"] * 15, utc=True)
    local = instants.tz_convert("Europe/Berlin")
    frame = make(pd.DataFrame(table_of(list(range(30)), "row")).assign(k=local))
    found = groups(frame)
    assert [n for _, n, _ in found] == [15, 15]
    assert [key[-6:] for key, _, _ in found] == ["+02:00", "+01:00"]


def test_a_format_without_a_year_is_refused() -> None:
    with pytest.raises(ValueError, match=r"date_format must say where the year is.*'%d\.%m'"):
        asked_format("%d.%m")


@pytest.mark.parametrize(
    ("text", "hint"), [("2025", "'%Y'"), ("20250131", "'%Y%m%d'"), ("45292", "'excel'")]
)
def test_the_format_that_a_message_names_fits_the_number(text: str, hint: str) -> None:
    frame = pd.DataFrame(table_of([text] * 30, "t"))
    with pytest.raises(ValueError, match=f"date_format={hint}"):
        predict_groups(Q, frame, **keywords(scores=SCORES, time="t", every="1y"))
