"""What columns are taken for, and how later tables are read by it."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from kdey.tables.schema import TableSchema
from kdey.tables.training import TableOptions, learn_schema, training_table

N = 60
LIBRARIES = {
    "polars": lambda frame: frame,
    "pandas": lambda frame: frame.to_pandas(),
    "pyarrow": lambda frame: frame.to_arrow(),
}


def table(**columns: Any) -> pl.DataFrame:
    """Return a table of N rows with a feature and a label, and the columns given."""
    rng = np.random.default_rng(0)
    base = {"x": rng.normal(size=N).round(3), "y": ["a", "b", "b"] * (N // 3)}
    return pl.DataFrame(base | columns)


def taken_for(column: Any, **options: Any) -> tuple[str, str]:
    found = learn_schema(table(c=column), "y", **options)["c"]
    return found.role, found.kind


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gives_the_same_schema(library: str) -> None:
    frame = table(
        code=[f"{i:05d}" for i in range(N)],
        number=[str(i % 7 / 2) for i in range(N)],
        colour=["red", "blue"] * (N // 2),
        good=[True, False, False] * (N // 3),
        day=[dt.date(2024, 1, 1 + i % 28) for i in range(N)],
        count=[None, *range(5), *[3] * (N - 6)],
        row=list(range(N)),
    )
    schema = learn_schema(LIBRARIES[library](frame), "y")
    assert schema == learn_schema(frame, "y") if library == "polars" else True
    assert {c.name: (c.role, c.kind) for c in schema.columns} == {
        "x": ("feature", "number"),
        "y": ("label", "category"),
        "code": ("id", "category"),
        "number": ("feature", "number"),
        "colour": ("feature", "category"),
        "good": ("feature", "category"),
        "day": ("ignored", "date"),
        "count": ("feature", "number"),
        "row": ("id", "number"),
    }
    assert schema["good"].categories == ("false", "true")
    assert schema["count"].n_missing == 1
    X = schema.encode(LIBRARIES[library](frame)).X
    assert X.shape == (N, 5)
    assert_array_equal(X, schema.encode(frame).X)
    assert X[:3, 2].tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([f"u{i}" for i in range(N)], ("id", "category")),
        ([str(10**19 + i) for i in range(N)], ("id", "number")),
        (list(range(N)), ("id", "number")),
        (np.arange(N) / 7.0, ("feature", "number")),  # floats are never ids
        (np.arange(N).astype(float), ("feature", "number")),
        ([f"{i / 8}" for i in range(N)], ("feature", "number")),
        ([i // 2 for i in range(N)], ("feature", "number")),
        ([f"{i % 9:03d}" for i in range(N)], ("feature", "category")),  # codes, not numbers
        ([f"2024-01-{1 + i % 28:02d}" for i in range(N)], ("ignored", "date")),
        ([f"{1 + i % 28}.{1 + i % 12}.2024" for i in range(N)], ("ignored", "date")),
        ([f"2024-01-{1 + i % 28:02d} 12:30" for i in range(N)], ("ignored", "date")),
        ([f"{1 + i % 28} March 2024" for i in range(N)], ("ignored", "date")),
        ([f"{1 + i % 28}. März 2024" for i in range(N)], ("ignored", "date")),
        ([f"Mar {1 + i % 28}, 2024" for i in range(N)], ("ignored", "date")),
        ([f"{1 + i % 28:02d}-Mar-24 12:30" for i in range(N)], ("ignored", "date")),
        ([f"2024-{1 + i % 12:02d}" for i in range(N)], ("ignored", "date")),
        ([f"2024-W{1 + i % 28:02d}" for i in range(N)], ("ignored", "date")),
        ([f"{1 + i % 9} pack 12" for i in range(N)], ("feature", "category")),
        ([20240101 + i % 28 for i in range(N)], ("ignored", "date")),
        ([dt.datetime(2024, 1, 1 + i % 28) for i in range(N)], ("ignored", "date")),
        (["same"] * N, ("ignored", "category")),
        ([5] * N, ("ignored", "number")),
        ([None] * N, ("ignored", "number")),
        ([5] * (N - 1) + [None], ("feature", "number")),  # that it is missing may tell
        ([f"part {i // 2} of" for i in range(N)], ("feature", "category")),
        ([f"k{i % 40}" for i in range(N)], ("ignored", "category")),
        ([f"the pump of unit {i} is loud" for i in range(N)], ("feature", "text")),
        ([[1, 2]] * N, ("ignored", "category")),
    ],
)
def test_what_a_column_is_taken_for(column: Any, expected: tuple[str, str]) -> None:
    assert taken_for(column) == expected


def test_few_rows_do_not_make_an_id_of_integers() -> None:
    frame = pl.DataFrame({"age": [31, 45, 28, 60], "y": ["a", "b", "a", "b"]})
    assert learn_schema(frame, "y")["age"].role == "feature"


def test_an_id_may_repeat_in_one_row_of_a_hundred() -> None:
    numbers = [*[i * 37 % 199 for i in range(1, 199)], 5, 6]
    frame = pl.DataFrame({"c": numbers, "x": np.sin(np.arange(200)), "y": ["a", "b"] * 100})
    assert learn_schema(frame, "y")["c"].role == "id"
    frame = frame.with_columns(c=(pl.Series([*numbers[:-1], 8]) ** 2 % 211).replace({7: 8}))
    assert learn_schema(frame, "y")["c"].role == "feature"


def test_what_the_user_says_wins() -> None:
    assert taken_for(list(range(N)), features=["x", "c"]) == ("feature", "number")
    assert taken_for([f"u{i}" for i in range(N)], features=["c"]) == ("feature", "category")
    assert taken_for(list(range(N)), roles={"c": "feature"}) == ("feature", "number")
    assert taken_for([1, 2, 3] * (N // 3), roles={"c": "weight"})[0] == "weight"
    assert taken_for([1, 2, 3] * (N // 3), types={"c": "category"}) == ("feature", "category")
    assert taken_for(["1", "2", "A"] * (N // 3), types={"c": "category"}) == ("feature", "category")
    dates = [dt.date(2024, 1, 1 + i % 28) for i in range(N)]
    schema = learn_schema(table(c=dates), "y", features=["c"])
    assert schema.encode(table(c=dates)).X[0, 0] == 19723.0
    assert learn_schema(table(c=dates), "y", features=["c", "x"]).feature_names == ("c", "x")


def test_copies_of_a_feature_are_named() -> None:
    frame = table(other=table()["x"], words=["u", "v"] * (N // 2), more=["p", "q"] * (N // 2))
    schema = learn_schema(frame, "y")
    assert schema["other"].role == schema["more"].role == "ignored"
    assert schema["other"].reason == "the same in every row as 'x'"
    assert learn_schema(frame, "y", features=["x", "other"]).feature_names == ("x", "other")


@pytest.mark.parametrize("values", [["1,5", "2,25", "3"], ["1.234,5", "2,5", "3,5"]])
def test_decimal_commas_are_refused_by_name(values: list[str]) -> None:
    column = [f"{i},{i % 9}" for i in range(N - 3)] + values
    if "." in values[0]:
        assert taken_for(column[:-3] + ["7,5"] * 3, decimal=",") == ("feature", "number")
        return
    with pytest.raises(ValueError, match=r"'c' holds numbers with decimal commas \(row \d+ has"):
        taken_for(column)
    assert taken_for(column, decimal=",") == ("feature", "number")


def test_a_text_among_numbers_is_refused_with_its_row() -> None:
    column = [str(i % 9) for i in range(N)]
    column[4] = "oops"
    with pytest.raises(ValueError, match=r"'c' holds numbers, but row 6 has 'oops'.*types=\{'c'"):
        learn_schema(table(c=column), "y", first=2)


def test_missing_spellings_are_missing_in_numbers_and_values_in_texts() -> None:
    numbers = ["NA", "n/a", "", *[str(i % 5) for i in range(N - 3)]]
    schema = learn_schema(table(c=numbers, country=["NA", "DE", "FR"] * (N // 3)), "y")
    assert schema["c"].n_missing == 3
    assert schema["country"].categories == ("DE", "FR", "NA")


def test_nothing_left_is_said_with_reasons() -> None:
    frame = pl.DataFrame({"id": range(N), "y": ["a", "b"] * (N // 2)})
    with pytest.raises(ValueError, match=r"'id' \(60 different whole numbers in 60 rows\)"):
        learn_schema(frame, "y")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["z"]}, "no column 'z'"),
        ({"features": ["y"]}, "must not be among the features"),
        ({"roles": {"x": "traeger"}}, "no role or kind is called 'traeger'"),
        ({"types": {"x": "int"}}, "no role or kind is called 'int'"),
    ],
)
def test_wrong_choices_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learn_schema(table(), "y", **options)


def test_columns_are_found_by_name_and_others_ignored() -> None:
    frame = table(colour=["red", "blue"] * (N // 2))
    schema = learn_schema(frame, "y")
    shuffled = frame.select("colour", pl.lit(7).alias("more"), "x")
    assert_array_equal(schema.encode(shuffled).X, schema.encode(frame).X)
    with pytest.raises(ValueError, match="no column 'colour'"):
        schema.encode(frame.drop("colour"))


def test_typed_and_text_sources_are_matched_by_canonical_text() -> None:
    frame = table(c=["1", "2", "10"] * (N // 3))
    schema = learn_schema(frame, "y", types={"c": "category"})
    for typed in (pl.Int64, pl.Float64):
        assert_array_equal(
            schema.encode(frame.with_columns(pl.col("c").cast(typed))).X, schema.encode(frame).X
        )
    good = learn_schema(table(c=[True, False] * (N // 2)), "y")
    texts = table(c=["true", "false"] * (N // 2))
    truths = table(c=[True, False] * (N // 2))
    assert_array_equal(good.encode(texts).X, good.encode(truths).X)
    numbers = learn_schema(table(c=np.arange(N) % 7 / 2), "y")
    assert_array_equal(
        numbers.encode(table(c=[str(i % 7 / 2) for i in range(N)])).X,
        numbers.encode(table(c=np.arange(N) % 7 / 2)).X,
    )


def test_unseen_values_are_missing_and_counted() -> None:
    schema = learn_schema(table(c=["red", "blue"] * (N // 2)), "y")
    new = table(c=["RED", "blue", None] * (N // 3))
    encoded = schema.encode(new)
    assert np.isnan(encoded.X[:3, 1]).tolist() == [True, False, True]
    assert encoded.unseen[:3].tolist() == [True, False, False]
    assert encoded.missing[:3].tolist() == [False, False, True]
    assert [(f.column, f.what, f.count) for f in encoded.findings] == [
        ("c", "unseen values", 20),
        ("c", "missing values", 20),
    ]
    assert str(encoded.findings[0]) == (
        "column 'c': unseen values in 20 of 60 rows (such as 'RED')"
    )


def test_missing_values_are_expected_where_training_has_some() -> None:
    gaps = [None, *[float(i % 5) for i in range(N - 1)]]
    whole = np.arange(N) % 7 / 2
    schema = learn_schema(table(gaps=gaps, whole=whole), "y")
    encoded = schema.encode(table(gaps=gaps, whole=[*whole[:-1], None]))
    assert np.flatnonzero(encoded.missing).tolist() == [0, N - 1]
    assert np.flatnonzero(encoded.unexpected).tolist() == [N - 1]
    assert encoded.findings[0].detail == f"row {N}; training lacks none"


def test_free_texts_give_an_object_matrix() -> None:
    words = [f"the pump of unit {i} is loud" for i in range(N)]
    schema = learn_schema(table(words=words), "y")
    X = schema.encode(table(words=[None, *words[1:]])).X
    assert X.dtype == object
    assert schema.kinds == ("number", "text")
    assert X[0, 1] == ""
    assert X[1, 1] == words[1]


def test_a_schema_survives_dicts_and_pickles() -> None:
    schema = learn_schema(table(c=["red", "blue"] * (N // 2)), "y", decimal=",")
    assert TableSchema.from_dict(schema.to_dict()) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"columns": 3},
        {"columns": [{"name": 3}]},
        {"columns": [{"name": "a", "role": "king"}]},
        {"columns": [{"name": "a", "categories": [1]}]},
        {"columns": [{"name": "a"}, {"name": "a"}]},
        {"columns": [], "decimal": "x"},
    ],
)
def test_damaged_schemas_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"schema|role"):
        TableSchema.from_dict(values)


def reviews(n: int = 3000, repeated: int = 40, seed: int = 0) -> dict[str, Any]:
    """Return columns of n rows in random order, some of which are there twice."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.concatenate([np.arange(n), rng.choice(n, repeated, replace=False)]))
    columns = {
        "x": rng.normal(size=n).round(3)[rows],
        "postcode": rng.integers(10_000, 15_000, n)[rows],
        "y": np.array(["a", "b"] * (n // 2))[rows],
    }
    return columns | {"number": 70_000 + rows}


def test_a_few_repeated_rows_do_not_hide_an_id() -> None:
    for library in LIBRARIES.values():
        schema = learn_schema(library(pl.DataFrame(reviews())), "y")
        assert schema["number"].reason == (
            "3,000 different whole numbers in 3,040 rows, of which 40 are repeated"
        )
        assert schema.feature_names == ("x", "postcode")
    texts = pl.DataFrame(reviews()).with_columns(pl.all().cast(pl.String))
    assert learn_schema(texts, "y").feature_names == ("x", "postcode")


@pytest.mark.parametrize("name", ["id", "review_id", "reviewId", "uuid", "Bestell-Nr.", "key"])
@pytest.mark.parametrize("kind", [int, float, str])
def test_half_distinct_numbers_of_an_id_by_name(name: str, kind: Any) -> None:
    column = [kind(7 * (i * i % 71)) for i in range(N)]
    schema = learn_schema(table(**{name: column}), "y")
    assert schema[name].reason.endswith("and the name of an id")
    assert schema.feature_names == ("x",)
    assert learn_schema(table(paid=column), "y")["paid"].role == "feature"


def test_whole_numbers_that_count_up_are_an_id() -> None:
    counted = [100 + i - i // 20 for i in range(N)]  # each twentieth is there twice
    assert learn_schema(table(c=counted), "y")["c"].reason.endswith("which count up")


def test_a_table_sorted_by_age_has_no_id() -> None:
    ages = np.sort(np.random.default_rng(1).integers(18, 90, N))
    assert len(set(ages.tolist())) > N / 2
    assert taken_for(ages) == ("feature", "number")


@pytest.mark.parametrize("asked", [{"types": {"number": "number"}}, {"features": ["number", "x"]}])
def test_an_id_is_used_if_asked_for(asked: Any) -> None:
    assert "number" in learn_schema(pl.DataFrame(reviews()), "y", **asked).feature_names


def test_errors_of_python_name_parameters_and_what_may_be_missing() -> None:
    ages = [str(20 + i % 40) for i in range(N)]
    ages[40], ages[50] = "unknown", "??"
    with pytest.raises(ValueError, match="'age' holds numbers, but row 41 has 'unknown'") as caught:
        learn_schema(table(age=ages), "y")
    assert "(missing_values=['??', 'unknown'])" in str(caught.value)
    assert "--" not in str(caught.value)
    with pytest.raises(ValueError, match=r"name columns to use \(features=\)$"):
        learn_schema(table().select("y"), "y")


def test_a_wide_schema_is_read_once_for_all_fold_models(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [pickle.dumps(learn_schema(table(other=[1, 2, 7] * 20), "y"))] * 3
    calls = []
    read = TableSchema.from_dict
    monkeypatch.setattr(TableSchema, "from_dict", lambda values: calls.append(1) or read(values))
    assert len({pickle.loads(state).feature_names for state in states}) == 1
    assert len(calls) == 1


def wide(n: int = 40, d: int = 30) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.normal(size=n).round(3).astype(str) for i in range(d)}
    columns["x7"][3] = ""
    columns["x7"][4] = columns["x20"][5] = "NA"
    columns["x21"] = [*map(float, columns["x21"])]
    columns["colour"] = ["red", "blue"] * (n // 2)
    return pl.DataFrame(columns).with_columns(y=pl.Series(["a", "b"] * (n // 2)))


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_of_numbers_are_read_at_once_as_they_are_one_by_one(
    monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setattr("kdey.tables.schema._BLOCK", 8)
    training = wide()
    schema = learn_schema(training, "y")
    new = training.with_columns(x0=pl.lit("99"), x9=pl.lit(None, pl.String))
    at_once = schema.encode(LIBRARIES[library](new), 2)
    monkeypatch.setattr("kdey.tables.schema.number_block", lambda *_: None)
    one_by_one = schema.encode(LIBRARIES[library](new), 2)
    assert at_once.findings == one_by_one.findings
    assert {finding.column for finding in at_once.findings} == {"x0", "x9"}
    for name in ("X", "missing", "unexpected", "unseen"):
        assert_array_equal(getattr(at_once, name), getattr(one_by_one, name))
    with pytest.raises(ValueError, match="column 'x25' has an infinite value in row 2"):
        schema.encode(LIBRARIES[library](new.with_columns(x25=pl.lit("inf"))), 2)


def test_a_wide_text_file_asks_no_column_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = wide().drop("x7", "x20", "x21", "colour")
    schema = learn_schema(plain, "y")
    monkeypatch.delattr("kdey.tables.schema.encode_column")
    X = schema.encode(plain.to_arrow()).X
    assert_array_equal(X, plain.drop("y").cast(pl.Float64).to_numpy())


def test_texts_of_digits_that_are_categories_are_not_read_as_numbers() -> None:
    codes = [f"{500 + i % 12:05d}" for i in range(60)]
    frame = pl.DataFrame({"zip": codes, "x": np.arange(60.0) % 7, "y": ["a", "b"] * 30})
    read = training_table(nw.from_native(frame.to_arrow(), eager_only=True), TableOptions("y"))
    assert [column.kind for column in read.schema.feature_columns] == ["category", "number"]
    assert_array_equal(read.X[:, 0], np.arange(60) % 12)
