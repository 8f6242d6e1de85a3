r"""Monte Carlo rows: densities at t reference points drawn once, for KDEy-HD.

With x_1..x_t drawn from the uniform mixture r of the class densities (``point_draws.py``), an
f-divergence is

.. math:: D_f(p_\alpha \| q) \approx \frac1t \sum_i \varphi\left(
          \frac{p_\alpha(x_i)}{r(x_i)}, \frac{q(x_i)}{r(x_i)}\right),
          \qquad \varphi(p, q) = q f(p / q),

which is the importance sampling of the paper. Since phi is homogeneous, dividing both densities by
r(x_i) is exact, and it keeps every number near one. The row of an instance consists of t numbers,
its kernels at the t points divided by r. Rows are computed in blocks and never stored for a pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.utils import check_random_state

from kdey.bags import Bags
from kdey.kernels.means import kernel_means
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import Array, DrawnPoints, Rows, TuningEffort
from kdey.rows.point_draws import (
    check_n_points,
    check_sampling,
    draw_points,
    resolve_n_points,
    resolve_sampling,
)
from kdey.rows.references import ClassReferences, Floats, KernelMap, KernelRowSpec

#: Numbers in memory at a time (bags x reference points) when many bags are evaluated.
_CHUNK = 1 << 23


@dataclass(frozen=True)
class MonteCarloSpec(KernelRowSpec):
    """Spec of :class:`MonteCarloMap`: ``n_points`` points, divided evenly among the classes.

    Attributes
    ----------
    n_points : int or "auto"
    random_state : int, RandomState or None
    sampling : {"auto", "quasi-random", "plain"}
        See :mod:`kdey.rows.point_draws`.
    """

    n_points: int | str
    random_state: Any = None
    sampling: str = "auto"
    #: Number of points with which candidate bandwidths are compared.
    tuning_points: ClassVar[int] = 500

    def for_tuning(self, seed: int) -> MonteCarloSpec:
        """Return the spec with few points, drawn with the same seed for all candidates."""
        few = self.tuning_points
        n_points = few if isinstance(self.n_points, str) else min(self.n_points, few)
        sampling = resolve_sampling(self.sampling, self.n_points)
        return replace(self, n_points=n_points, sampling=sampling, random_state=seed % 2**32)

    @property
    def tuning_effort(self) -> TuningEffort:
        """Few bags and references, because each bag is evaluated at all points."""
        return TuningEffort(bags=100, rows=6_000)

    def __post_init__(self) -> None:
        check_n_points(self.n_points)
        check_sampling(self.sampling)

    def fit(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> MonteCarloMap:
        """Draw the reference points and evaluate the class densities at them."""
        refs = self.kernel.fit(training, n_classes)
        rng = check_random_state(self.random_state)
        n_points = resolve_n_points(self.n_points, n_classes)
        sampling = resolve_sampling(self.sampling, self.n_points)
        points = draw_points(refs, n_points, sampling, rng)
        return MonteCarloMap.at(refs, points, n_threads)


@dataclass(frozen=True, eq=False)
class MonteCarloMap(KernelMap):
    """Fitted Monte Carlo rows.

    Attributes
    ----------
    templates : array of shape (t, k)
        Class densities at the reference points, divided by their uniform mixture.
    points : array of shape (t, k)
        The reference points, in the kernel's geometry.
    log_reference : array of shape (t,)
        Log of the uniform mixture r there (without normaliser).
    """

    references: ClassReferences
    templates: Array
    points: Floats
    log_reference: Array

    @property
    def n_terms(self) -> int:
        """Number of reference points over which a divergence is averaged."""
        return len(self.points)

    def drawn_points(self) -> DrawnPoints:
        """Return the points, with the log of the mixture from which they were drawn."""
        return DrawnPoints(self.points, self.log_reference)

    def n_pairs(self, n_points: int) -> float:
        """Return the number of kernel values in the rows of ``n_points`` instances."""
        return float(n_points) * len(self.points)

    @classmethod
    def at(cls, references: ClassReferences, points: Floats, n_threads: int = 1) -> MonteCarloMap:
        """Return the map with these reference points."""
        logs = references.log_means(points, references.bandwidth, n_threads)
        log_reference = np.asarray(logsumexp(logs, axis=1)) - np.log(logs.shape[1])
        return cls(references, np.exp(logs - log_reference[:, None]), points, log_reference)

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> MonteCarloRows:
        """Return the rows of posteriors of shape (m, k)."""
        refs = self.references
        return MonteCarloRows(
            refs.coordinates(points), self.points, self.log_reference, refs.bandwidth, n_threads
        )

    def quick_rows(self, points: NDArray[Any], n_threads: int = 1) -> MonteCarloRows:
        """Return rows accurate to six digits, which is enough to compare candidates."""
        return replace(self(points, n_threads), quick=True)


@dataclass(frozen=True, eq=False)
class MonteCarloRows(Rows):
    """The instances of a pool, whose kernels at the reference points are computed on demand."""

    coordinates: Floats
    points: Floats
    log_reference: Array
    bandwidth: float
    n_threads: int
    quick: bool = False

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.coordinates)

    def mean(self, bags: Bags) -> Array:
        """Return q(x_i) / r(x_i) of each bag, shape (n_bags, t)."""
        return kernel_means(
            self.points,
            self.log_reference,
            self.coordinates,
            bags,
            self.bandwidth,
            self.n_threads,
            quick=self.quick,
        )

    def runs(self, bags: Bags) -> Iterator[Bags]:
        """Yield runs of bags whose means fit a bounded amount of memory."""
        step = max(1, _CHUNK // len(self.points))
        for start in range(0, len(bags), step):
            yield bags[start : start + step]
