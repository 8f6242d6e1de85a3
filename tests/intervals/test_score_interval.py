"""Wilson's interval and the quantiles of the t distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kdey.intervals.profile import t_quantile, wilson


def test_wilson() -> None:
    low, high = wilson(np.array([[0.1]]), np.array([[40.0]]), 0.025)
    expected = stats.binomtest(4, 40).proportion_ci(0.95, method="wilson")
    assert (low[0, 0], high[0, 0]) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("tail", [0.05, 0.025, 0.001])
def test_t_quantiles(tail: float) -> None:
    degrees = np.array([1.0, 2.5, 10.0, 29.9, 30.1, 100.0, 1e5, np.inf])
    np.testing.assert_allclose(t_quantile(tail, degrees), stats.t.isf(tail, degrees), rtol=2e-4)
