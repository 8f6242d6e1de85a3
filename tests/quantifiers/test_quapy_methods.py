"""Answers of QuaPy 0.2.3 on stored data (``tests/frozen/make_quapy_methods.py`` made them)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdey

STORED = np.load(Path(__file__).parents[1] / "frozen" / "quapy_methods.npz")


def stored(k: int, name: str) -> Any:
    return STORED[f"{k}_{name}"]


def estimates(method: Any, k: int) -> Any:
    q = method.fit_posteriors(stored(k, "train"), stored(k, "labels"))
    return np.array([q.aggregate(bag) for bag in stored(k, "bags")])


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("distance", ["manhattan", "euclidean"])
def test_energy_distances(k: int, distance: str) -> None:
    ours = estimates(kdey.EDy(distance=distance), k)
    np.testing.assert_allclose(ours, stored(k, f"EDy_{distance}"), atol=1e-8)
    q = kdey.EDx(distance=distance, standardise=False)
    q.fit(stored(k, "features"), stored(k, "labels"))
    ours = np.array([q.predict(bag) for bag in stored(k, "feature_bags")])
    np.testing.assert_allclose(ours, stored(k, f"EDx_{distance}"), atol=1e-8)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("T50", "T50"), ("MAX", "MAX"), ("ThresholdX", "X"), ("MS", "MS"), ("MS2", "MS2")],
)
def test_threshold_methods(name: str, theirs: str) -> None:
    ours = estimates(getattr(kdey, name)(), 2)
    np.testing.assert_allclose(ours, stored(2, theirs), atol=1e-9)


@pytest.mark.parametrize("k", [2, 3])
def test_rlls_is_close(k: int) -> None:
    """Theirs penalises norms that are not squared, and scales the ratios afterwards."""
    np.testing.assert_allclose(estimates(kdey.RLLS(), k), stored(k, "RLLS"), atol=5e-3)
