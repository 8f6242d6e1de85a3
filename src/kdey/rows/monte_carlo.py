r"""Monte Carlo rows: densities at t reference points drawn once, for KDEy-HD.

With x_1..x_t drawn from the uniform mixture r of the class densities, an f-divergence is

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
from kdey.rows.references import ClassReferences, Floats, KernelMap, KernelRowSpec

#: Numbers in memory at a time (bags x reference points) when many bags are evaluated.
_CHUNK = 1 << 23


@dataclass(frozen=True)
class MonteCarloSpec(KernelRowSpec):
    """Spec of :class:`MonteCarloMap`: ``n_points`` points, divided evenly among the classes."""

    n_points: int
    random_state: Any = None
    #: Number of points with which candidate bandwidths are compared.
    tuning_points: ClassVar[int] = 500

    def for_tuning(self, seed: int) -> MonteCarloSpec:
        """Return the spec with few points, drawn with the same seed for all candidates."""
        return replace(
            self, n_points=min(self.n_points, self.tuning_points), random_state=seed % 2**32
        )

    @property
    def tuning_effort(self) -> TuningEffort:
        """Few bags and references, because each bag is evaluated at all points."""
        return TuningEffort(bags=100, rows=6_000)

    def __post_init__(self) -> None:
        if not isinstance(self.n_points, int | np.integer) or self.n_points < 1:
            raise ValueError(f"n_points must be a positive integer, got {self.n_points!r}")

    def fit(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> MonteCarloMap:
        """Draw the reference points and evaluate the class densities at them."""
        refs = self.kernel.fit(training, n_classes)
        rng = check_random_state(self.random_state)
        per_class = np.full(n_classes, self.n_points // n_classes)
        per_class[: self.n_points % n_classes] += 1
        points = np.concatenate([_draw(refs, i, int(n), rng) for i, n in enumerate(per_class)])
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


def _draw(refs: ClassReferences, label: int, size: int, rng: np.random.RandomState) -> Array:
    """Draw ``size`` points from the kernel density of one class, shape (size, k).

    The references are sorted first and selected by their cumulative weight, so that the draw does
    not depend on their order, and a weight gives the same draw as repetitions.
    """
    low, high = int(refs.offsets[label]), int(refs.offsets[label + 1])
    points = refs.points[low:high]
    order = np.lexsort(points.T)
    weights = np.ones(high - low) if refs.weights is None else refs.weights[low:high][order]
    shares = np.cumsum(weights) / weights.sum()
    picks = np.searchsorted(shares, rng.random_sample(size), side="right")
    centres = points[order][np.minimum(picks, high - low - 1)]
    noise = rng.standard_normal(centres.shape)
    return np.asarray(centres + refs.bandwidth * noise, dtype=np.float64)
