"""Results as frames of every library."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pytest

import kdey
from kdey.validation import as_column, make_frame
from tests.evaluation.cases import blobs


@pytest.fixture(scope="module")
def results() -> kdey.evaluation.Results:
    X, y = blobs(300)
    methods = kdey.evaluation.fit_many({"cc": kdey.CC(), "pacc": kdey.PACC(cv=3)}, X, y)
    return kdey.evaluate(methods, X, y, kdey.APP(6, 50), metrics=("ae", "rae", "se"))


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow", None])
def test_one_row_per_method_and_bag(results: kdey.evaluation.Results, backend: str | None) -> None:
    frame = nw.from_native(results.to_frame(backend), eager_only=True)
    assert frame.shape == (12, 3 + 6 + 3 + 4)
    assert frame["method"].to_list() == ["cc"] * 6 + ["pacc"] * 6
    assert frame["bag"].to_list() == [*range(6), *range(6)]
    np.testing.assert_array_equal(frame["true[b]"].to_numpy()[:6], results.true[:, 1])
    np.testing.assert_array_equal(
        frame["estimated[c]"].to_numpy()[6:], results.estimated("pacc")[:, 2]
    )
    np.testing.assert_array_equal(frame["se"].to_numpy()[6:], results.errors("se", "pacc"))
    assert frame["converged"].to_list() == [True] * 12
    assert (frame["seconds"].to_numpy() > 0).all()


def test_by_class(results: kdey.evaluation.Results) -> None:
    frame = results.to_frame("pandas", by_class=True)
    assert len(frame) == 2 * 6 * 3
    one = frame[(frame["method"] == "pacc") & (frame["bag"] == 4)]
    assert one["class"].tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(one["estimated"], results.estimated("pacc")[4])


def test_summary_orders_by_the_first_metric(results: kdey.evaluation.Results) -> None:
    frame = results.summary("pandas")
    assert sorted(frame["method"]) == ["cc", "pacc"]
    assert frame["ae"].is_monotonic_increasing
    best = frame["method"][0]
    assert frame["rae"][0] == pytest.approx(results.errors("rae", best).mean())
    assert (frame["not_converged"] == 0).all()
    assert (frame["seconds"] > 0).all()


def test_refuses_unknown_names(results: kdey.evaluation.Results) -> None:
    with pytest.raises(ValueError, match="method must be one of"):
        results.estimated()
    with pytest.raises(ValueError, match="metric must be one of"):
        results.errors("kld", "cc")
    with pytest.raises(ValueError, match="backend must be one of"):
        results.to_frame("excel")


def test_without_any_frame_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdey.validation.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pandas, polars, pyarrow"):
        make_frame({"a": [1]})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], [1, 2]),
        ([1, None], [1.0, np.nan]),
        (["a", None], ["a", None]),
        ([{"a": 1}, 2], ["{'a': 1}", "2"]),
        ([True, False], [True, False]),
        ([(1, 2), (3, 4)], ["(1, 2)", "(3, 4)"]),
        (np.array(["x", "y"]), ["x", "y"]),
    ],
)
def test_columns_have_one_type(values: Any, expected: list[Any]) -> None:
    made = list(as_column(values))
    assert [repr(float(v)) if isinstance(v, float) else v for v in made] == [
        repr(float(v)) if isinstance(v, float) else v for v in expected
    ]
