"""Posterior draws of many groups at once: means, limits, and the memory that they take.

Partial pooling (``shrinkage.py``) and random walks (``random_walk.py``) both run once for each draw
of the templates and keep draws of every group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array
from kdey.bayes.template_draws import DensityMap

#: Bytes of rows and draws that are held at once.
MOST_BYTES = 4 << 30
#: Groups whose limits are computed at once.
_GROUPS_AT_ONCE = 500

Draws = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PooledDraws:
    """Posterior draws of the prevalences of G groups.

    Attributes
    ----------
    population : float32 array of shape (n_draws, G, k)
        Prevalences of the populations that the groups were drawn from.
    shifts : array of shape (n_draws, k)
        Common errors of all groups that come from densities that are not exact; limits include
        them, estimates do not.
    template_noise : bool
        Whether the draws include the uncertainty of the templates.
    converged : bool
    """

    population: Draws
    shifts: Array
    template_noise: bool
    converged: bool

    def draws(self, target: str = "population") -> Draws:
        """Return the draws of a target, shape (n_draws, G, k)."""
        if target != "population":
            raise ValueError(f"target must be 'population', got {target!r}")
        return self.population

    def estimate(self, target: str = "population") -> Array:
        """Return the posterior means, shape (G, k)."""
        return np.asarray(self.draws(target).mean(axis=0, dtype=np.float64))

    def limits(self, tail: float, target: str = "population") -> tuple[Array, Array]:
        """Return equal-tailed limits with this probability outside each end, shape (G, k)."""
        estimate = self.estimate(target)
        low, high = np.empty_like(estimate), np.empty_like(estimate)
        for start in range(0, len(estimate), _GROUPS_AT_ONCE):
            part = slice(start, start + _GROUPS_AT_ONCE)
            shifted = np.clip(self.draws(target)[:, part] + self.shifts[:, None], 0.0, 1.0)
            low[part], high[part] = np.quantile(shifted, [tail, 1.0 - tail], axis=0)
        return np.minimum(low, estimate), np.maximum(high, estimate)


def common_shifts(maps: Sequence[DensityMap], population: Draws, rng: np.random.Generator) -> Array:
    """Return common errors of all groups, one for each draw, shape (n_draws, k).

    The discrepancy of the densities says how large the error of the mean of all groups may be.
    Correcting by it would add its own noise to the estimates; it widens the limits instead, to
    both sides.

    Parameters
    ----------
    maps : sequence of DensityMap
    population : array of shape (n_draws, G, k)
        As many draws for each map, one map after the other.
    rng : Generator
    """
    n_draws, _, k = population.shape
    means = population.mean(axis=1, dtype=np.float64).reshape(len(maps), -1, k).mean(axis=1)
    scales = np.array([m.discrepancy(mean) for m, mean in zip(maps, means, strict=True)])
    sizes = rng.standard_normal((n_draws, 1))
    return np.asarray(sizes * np.repeat(scales, n_draws // len(maps), axis=0))


def check_memory(m: int, n_groups: int, k: int, n_draws: int, n_threads: int = 1) -> None:
    """Raise ValueError if groups are too many or too large to be pooled at once.

    Rows take 8 bytes per instance and class, for each thread; draws 8 bytes per group and class.
    """
    needed = 8 * k * (m * n_threads + n_groups * n_draws)
    if needed > MOST_BYTES:
        raise ValueError(
            f"pooling {n_groups:,} groups of {m:,} instances in all and {k} classes needs "
            f"{needed / 2**30:.1f} GiB, more than the {MOST_BYTES / 2**30:.0f} GiB that are "
            "allowed: pool fewer groups at a time, or use one thread; large groups can do without "
            "pooling"
        )
