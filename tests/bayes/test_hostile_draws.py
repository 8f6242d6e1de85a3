"""The sampler at the edges of what numbers hold: found by fuzz/native/fuzz_gibbs.cpp."""

from __future__ import annotations

import numpy as np
import pytest

from kdey import native
from kdey.bayes.chains import Chains, gibbs_sweeps
from tests.bayes.test_gibbs import route

__all__ = ["route"]


def sweeps(prior: list[float], weights: list[float], **options: object) -> np.ndarray:
    chains = Chains.dispersed(2, np.ones(len(prior)), np.random.SeedSequence(0))
    for name, value in options.items():
        setattr(chains, name, value)
    rows = np.ones((len(weights), len(prior)))
    return gibbs_sweeps(rows, np.array(prior), chains, 200, weights=np.array(weights))[0]


def test_parameters_too_small_for_a_gamma_number(route: str) -> None:
    """Every logarithm was -inf, and their difference NaN: the limit is a vertex."""
    drawn = sweeps([5e-324, 5e-324, 1.5e-323], [1e-320])
    np.testing.assert_allclose(drawn.sum(axis=2), 1.0)
    assert (drawn.max(axis=2) > 1 - 1e-12).all()


def test_the_vertex_is_drawn_in_proportion(route: str) -> None:
    drawn = sweeps([1e-310, 3e-310], [1e-320])
    assert drawn[..., 1].mean() == pytest.approx(0.75, abs=0.1)


@pytest.mark.parametrize(
    ("prior", "weights"),
    [
        ([np.nan, 1.0], [1.0]),
        ([np.inf, 1.0], [1.0]),
        ([0.0, 1.0], [1.0]),
        ([1.0, 1.0], [np.inf]),
        ([1.0, 1.0], [np.nan]),
        ([1.0, 1.0], [1e300]),
        ([1.0, 1.0], [-1.0]),
    ],
)
def test_the_core_refuses_what_would_never_end(prior: list[float], weights: list[float]) -> None:
    if not native.available():
        pytest.skip("the native core is not built")
    with pytest.raises(ValueError, match="kdey_gibbs"):
        sweeps(prior, weights)


def test_the_core_refuses_a_generator_that_stands_still() -> None:
    if not native.available():
        pytest.skip("the native core is not built")
    with pytest.raises(ValueError, match="kdey_gibbs"):
        sweeps([1.0, 1.0], [1.0], states=np.zeros((2, 4), dtype=np.uint64))
