"""A table of scores with groups, dates, row keys and a few missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tests.groups.cases import make_case

K = 3
SCORES = [f"p_{c}" for c in range(K)]
NUMBERS = ["estimate", "low", "high", "classify_and_count"]


def make_frame(seed: int = 0) -> tuple[Any, pd.DataFrame]:
    case = make_case(K, 8, seed, largest=400)
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(case.points, columns=SCORES)
    frame["group"] = np.array(["a", "b", "c", "d", "e", "f", "g", "h"])[case.codes]
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(
        rng.integers(0, 15, len(frame)), unit="D"
    )
    frame["row"] = np.arange(len(frame)) * 7
    frame.loc[frame.index[[3, 40, 41]], "p_1"] = np.nan
    return case, frame


def assert_same(made: pd.DataFrame, expected: pd.DataFrame, limits: bool = True) -> None:
    """The same table; engines have their own types of text."""
    others = [name for name in expected.columns if name not in NUMBERS]
    pd.testing.assert_frame_equal(made[others], expected[others], check_dtype=False)
    columns = NUMBERS if limits else ["estimate", "classify_and_count"]
    numbers: Any = made[columns].to_numpy(dtype=float)
    np.testing.assert_allclose(numbers, expected[columns].to_numpy(dtype=float), atol=1e-6)
