"""One group table from every source: frame, CSV, Parquet, Dask and Spark."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import kdey

FEATURES = ["u", "v", "w"]
DESIGN: dict[str, Any] = {
    "weights": "weight",
    "clusters": "house",
    "labelled": "sorted",
    "merge": {"both": ["a", "b"]},
}


def make(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    frame = pd.DataFrame(rng.normal(size=(n, 3)) + 1.3 * np.eye(3)[y], columns=FEATURES).round(6)
    frame["kind"] = np.array(["a", "b", "c"])[y]
    return frame


@pytest.fixture(scope="module")
def quantifier() -> Any:
    frame = make(400, 0)
    X, y = frame[FEATURES], frame["kind"]
    return kdey.KDEyML(LogisticRegression(), bandwidth=0.1).fit(X, y)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng, n = np.random.default_rng(5), 900
    table = make(n, 1)
    table["sorted"] = table.pop("kind").where(rng.random(n) < 0.1, None)
    # Half of the rows are one group, and some lack a key.
    table["shop"] = rng.choice(["A", "A", "A", "B", "C", None], n)
    table["day"] = [f"2024-0{m}-{d:02d}" for m, d in rng.integers([1, 1], [3, 28], (n, 2))]
    table["weight"] = rng.uniform(0.5, 2.0, n).round(3)
    table["house"] = [f"h{i}" for i in rng.integers(0, 90, n)]
    table.loc[rng.choice(n, 5, replace=False), "v"] = np.nan
    return table


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "3")
            .getOrCreate()
        )
        yield session
        session.stop()


def source(kind: str, frame: pd.DataFrame, folder: Path, request: Any) -> Any:
    if kind == "csv":
        frame.to_csv(folder / "t.csv", index=False)
        return folder / "t.csv"
    if kind == "parquet":
        frame.to_parquet(folder / "t.parquet")
        return str(folder / "t.parquet")
    if kind == "dask":
        dd = pytest.importorskip("dask.dataframe", reason="the extra 'dask' is not installed")
        return dd.from_pandas(frame.sample(frac=1.0, random_state=2), npartitions=4)
    return request.getfixturevalue("spark").createDataFrame(frame).repartition(3)


@pytest.mark.parametrize(
    "options",
    [{}, DESIGN, {"weights": "weight", "options": kdey.Options(strata="house2")}],
    ids=["plain", "design", "strata"],
)
@pytest.mark.parametrize(
    "kind", ["csv", "parquet", "dask", pytest.param("spark", marks=pytest.mark.slow)]
)
@pytest.mark.filterwarnings("ignore")
def test_the_same_table(
    kind: str, options: Any, quantifier: Any, frame: pd.DataFrame, tmp_path: Path, request: Any
) -> None:
    frame = frame.assign(house2=frame["house"].str[:2])
    given = {"time": "day", "every": "1mo", **options}
    expected = kdey.predict_groups(quantifier, frame, "shop", **given).to_frame()
    made = kdey.predict_groups(quantifier, source(kind, frame, tmp_path, request), "shop", **given)
    check_same(made.to_frame("pandas"), expected)


@pytest.mark.parametrize(
    ("against", "options"),
    [
        ("previous", {"time": "day", "every": "1mo", "merge": {"both": ["a", "b"]}}),
        ("rest", {"weights": "weight", "clusters": "house"}),
        ({"shop": "A"}, {"options": kdey.Options(method="bootstrap", n_replicates=40)}),
    ],
    ids=["previous", "rest", "reference"],
)
@pytest.mark.parametrize("kind", ["dask", pytest.param("spark", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore")
def test_the_same_comparisons(
    kind: str,
    against: Any,
    options: Any,
    quantifier: Any,
    frame: pd.DataFrame,
    tmp_path: Path,
    request: Any,
) -> None:
    table = source(kind, frame, tmp_path, request)
    expected = kdey.compare_groups(quantifier, frame, "shop", against=against, **options)
    made = kdey.compare_groups(quantifier, table, "shop", against=against, **options)
    check_same(made.to_frame("pandas"), expected.to_frame())


@pytest.mark.parametrize("options", [{}, DESIGN], ids=["plain", "design"])
@pytest.mark.filterwarnings("ignore")
def test_the_same_sample_of_a_large_group(
    options: Any,
    quantifier: Any,
    frame: pd.DataFrame,
    tmp_path: Path,
    request: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for room in ("answers", "cluster"):
        monkeypatch.setattr(f"kdey.groups.{room}.WHOLE", 300 * 12)
    expected = kdey.predict_groups(quantifier, frame, "shop", **options)
    assert sum("sample" in status for status in expected.status) == 1
    table = source("dask", frame, tmp_path, request)
    made = kdey.predict_groups(quantifier, table, "shop", **options)
    check_same(made.to_frame("pandas"), expected.to_frame())


def check_same(table: pd.DataFrame, expected: pd.DataFrame) -> None:
    assert list(table.columns) == list(expected.columns)
    for name in expected.columns:
        if expected[name].dtype.kind == "f":
            atol = 0.0 if name == "fit_p_value" else 1e-6
            np.testing.assert_allclose(table[name], expected[name], rtol=0, atol=atol, err_msg=name)
        else:
            texts = [
                ["" if pd.isna(v) else str(v)[: 10 if name == "day" else None] for v in c]
                for c in (table[name], expected[name])
            ]
            assert texts[0] == texts[1], name
