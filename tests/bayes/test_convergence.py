"""R-hat and effective size on chains whose properties are known."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.bayes.chains import effective_size, split_r_hat


def autoregressive(rho: float, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=shape)
    chain = np.empty(shape)
    chain[:, 0] = noise[:, 0]
    for t in range(1, shape[1]):
        chain[:, t] = rho * chain[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
    return chain


@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.5, 0.9])
def test_effective_size_of_autoregressive_chains(rho: float) -> None:
    chain = autoregressive(rho, (4, 20_000))
    expected = chain.size * (1 - rho) / (1 + rho)
    assert effective_size(chain) == pytest.approx(expected, rel=0.15)


def test_monotone_maps_change_nothing() -> None:
    chain = autoregressive(0.5, (4, 500))
    assert effective_size(chain) == pytest.approx(effective_size(np.exp(3 * chain)))


def test_r_hat_of_good_chains_is_one() -> None:
    assert split_r_hat(autoregressive(0.3, (4, 2000))) == pytest.approx(1.0, abs=0.01)


def test_r_hat_sees_place_spread_and_drift() -> None:
    chain = autoregressive(0.0, (4, 1000))
    moved, wide, drifting = chain.copy(), chain.copy(), chain + np.linspace(0, 3, 1000)
    moved[0] += 2
    wide[0] *= 4
    for bad in (moved, wide, drifting):
        assert split_r_hat(bad) > 1.05
    assert effective_size(moved) < 0.1 * effective_size(chain)


def test_constant_draws() -> None:
    assert split_r_hat(np.ones((2, 50))) == 1.0
    assert effective_size(np.ones((2, 50))) == 100.0


def test_too_few_draws() -> None:
    with pytest.raises(ValueError, match="at least 4 draws"):
        effective_size(np.ones((2, 3)))
