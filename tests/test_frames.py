"""Rows of whatever instances come in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from kdey.validation import take_rows

POSITIONS = np.array([3, 0, 3])
VALUES = np.arange(8.0).reshape(4, 2)


def kinds() -> dict[str, Any]:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    columns = {"a": VALUES[:, 0], "b": VALUES[:, 1]}
    return {
        "array": VALUES,
        "sparse": sp.csr_array(VALUES),
        "list": VALUES.tolist(),
        "pandas": pandas.DataFrame(columns),
        "polars": polars.DataFrame(columns),
        "pyarrow": pyarrow.table(columns),
    }


def values(rows: Any) -> Any:
    if sp.issparse(rows):
        return rows.toarray()
    return rows.to_pandas().to_numpy() if hasattr(rows, "to_pandas") else np.asarray(rows)


@pytest.mark.parametrize("kind", ["array", "sparse", "list", "pandas", "polars", "pyarrow"])
def test_rows_are_taken_in_order_and_repeatedly(kind: str) -> None:
    X = kinds()[kind]
    taken = take_rows(X, POSITIONS)
    assert type(taken) is type(X)
    np.testing.assert_array_equal(values(taken), VALUES[POSITIONS])


@pytest.mark.parametrize("kind", ["array", "sparse", "list", "pandas", "polars", "pyarrow"])
def test_rows_are_taken_by_a_mask(kind: str) -> None:
    mask = np.array([True, False, False, True])
    np.testing.assert_array_equal(values(take_rows(kinds()[kind], mask)), VALUES[mask])
