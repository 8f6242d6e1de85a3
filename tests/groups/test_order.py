"""The separate answer of a group depends on nothing but its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression

import kdey
from kdey import KDEyCS

from .cases import keywords

NUMBERS = ["n", "estimate", "low", "high", "classify_and_count", "fit_p_value", "status"]


def data(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 3)) + 1.2 * np.eye(3)[y]
    return pd.DataFrame(X, columns=["a", "b", "c"]), y


def table(seed: int = 1, n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = data(n, seed)[0]
    frame["site"] = rng.choice(["x", "y", "z"], n)
    frame["w"] = rng.uniform(0.5, 2.0, n)
    frame["house"] = rng.integers(0, 60, n).astype(str)
    return frame


def fitted(cls: Any = kdey.KDEyML, **options: Any) -> Any:
    X, y = data(300, 0)
    return cls(LogisticRegression(), **options).fit(X, y)


def same(made: Any, expected: Any) -> None:
    for name in NUMBERS:
        assert_array_equal(made[name].to_numpy(), expected[name].to_numpy(), err_msg=name)


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (kdey.KDEyML, {}),
        (kdey.KDEyML, {"method": "bootstrap", "n_replicates": 20}),
        (KDEyCS, {"n_replicates": 20}),
        (kdey.PACC, {"weights": "w", "clusters": "house"}),
        (kdey.PACC, {"clusters": "house", "method": "bootstrap", "n_replicates": 20}),
    ],
)
def test_neither_the_order_of_rows_nor_other_groups_matter(cls: Any, options: Any) -> None:
    q, frame = fitted(cls), table()
    expected = q.predict_groups(frame, "site", **keywords(**options)).to_frame()
    shuffled = frame.sample(frac=1.0, random_state=3)
    same(q.predict_groups(shuffled, "site", **keywords(**options)).to_frame(), expected)
    alone = q.predict_groups(frame[frame["site"] == "y"], "site", **keywords(**options)).to_frame()
    same(alone, expected[expected["site"] == "y"])


def test_many_groups_are_checked_as_few_are() -> None:
    q, frame = fitted(), table(n=400)
    few = q.predict_groups(frame, "site").to_frame()
    others = pd.concat([table(seed, 30).assign(site=f"s{seed}") for seed in range(5, 125)])
    many = q.predict_groups(pd.concat([others, frame]), "site").to_frame()
    same(many[many["site"].isin(["x", "y", "z"])], few)


def test_a_column_may_tell_rows_apart() -> None:
    q, frame = fitted(), table(n=200)
    frame["id"] = [f"row {i}" for i in range(len(frame))]
    plain, keyed = (
        q.predict_groups(frame, "site").to_frame(),
        q.predict_groups(frame, "site", options=kdey.Options(key="id")).to_frame(),
    )
    assert_array_equal(plain["estimate"].round(9), keyed["estimate"].round(9))
    assert (plain["fit_p_value"] != keyed["fit_p_value"]).any()
    shuffled = frame.sample(frac=1.0, random_state=3)
    same(q.predict_groups(shuffled, "site", options=kdey.Options(key="id")).to_frame(), keyed)
