"""Answers of qunfold on stored data (``tests/frozen/make_qunfold.py`` made them)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdey

STORED = np.load(Path(__file__).parents[1] / "frozen" / "qunfold.npz")
#: Factor of the strength: qunfold's least squares are not halved, its likelihood is a mean.
FACTORS = {"ACC": 0.5, "PACC": 0.5, "EMQ": 1.0}


def estimates(method: Any) -> Any:
    q = method.fit_posteriors(STORED["train"], STORED["labels"])
    return np.array([q.aggregate(bag) for bag in STORED["bags"]])


@pytest.mark.parametrize("name", FACTORS)
def test_penalised_methods_for_ordered_classes(name: str) -> None:
    plain = estimates(getattr(kdey, name)())
    for number, strength in enumerate(STORED["strengths"]):
        theirs = STORED[f"{name}_{number}"]
        penalised = kdey.Ordered(getattr(kdey, name)(), strength=FACTORS[name] * float(strength))
        # It minimises in single precision over the logarithms of shares, which may be zero here.
        np.testing.assert_allclose(estimates(penalised), theirs, atol=5e-4)
    assert np.abs(plain - theirs).max() > 0.05
