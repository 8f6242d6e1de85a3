"""A fit that fails leaves nothing that looks fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import kdey


def _data(k: int = 2, n: int = 40) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    p = rng.dirichlet(np.ones(k), n) + np.eye(k)[y]
    return p / 2, y


@pytest.mark.parametrize(
    "quantifier",
    [kdey.PACC(), kdey.OneVsAll(kdey.MM()), kdey.Median(kdey.PACC(), {"cv": [2]})],
)
def test_a_failed_fit_leaves_no_fitted_quantifier(quantifier: Any) -> None:
    """It had classes, and the templates of an earlier fit or none: AttributeError at predict."""
    p, y = _data(3)
    quantifier.fit_posteriors(p, y)
    with pytest.raises(ValueError, match="posteriors"):
        quantifier.fit_posteriors(p * np.nan, y % 2)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        quantifier.aggregate(p)
