r"""Monte Carlo rows: densities at t reference points drawn once, for KDEy-HD.

With x_1..x_t drawn from the uniform mixture r of the class densities, an f-divergence is

.. math:: D_f(p_\alpha \| q) \approx \frac1t \sum_i \varphi\left(
          \frac{p_\alpha(x_i)}{r(x_i)}, \frac{q(x_i)}{r(x_i)}\right),
          \qquad \varphi(p, q) = q f(p / q),

which is the importance sampling of the paper. Since phi is homogeneous, dividing both densities by
r(x_i) is exact, and it keeps every number near one. The row of an instance consists of t numbers,
its kernels at the t points divided by r. Rows are computed in blocks and never stored for a pool.

A point of class i is :math:`x = u + h z`, with u a training posterior of the class and z standard
normal. "plain" draws both independently, as the paper does. "quasi-random" spreads them:
references are ordered in space, so that equal steps through the order visit every region in
proportion to its weight, and z comes from a Sobol sequence. The average over the points is the same
integral with less noise: with few classes a quarter of the points, or fewer, have the error of
plain ones (``benchmarks/points.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtri
from scipy.stats.qmc import Sobol
from sklearn.utils import check_random_state

from kdey.bags import Array, Bags, offsets_of
from kdey.kernels import kernel_means
from kdey.posteriors import TrainingPosteriors
from kdey.rows import Rows, TuningEffort, fitted
from kdey.rows.kernel import ClassReferences, Floats, KernelMap

#: Numbers in memory at a time (bags x reference points) when many bags are evaluated.
_CHUNK = 1 << 23


@dataclass(frozen=True)
class MonteCarloMap(KernelMap):
    """Monte Carlo rows: ``n_points`` points, divided evenly among the classes.

    Attributes
    ----------
    n_points : int or "auto"
    random_state : int, RandomState or None
    sampling : {"auto", "quasi-random", "plain"}
        See the top of the module.
    templates : array of shape (t, k)
        Class densities at the reference points, divided by their uniform mixture.
    points : array of shape (t, k)
        The reference points, in the kernel's geometry.
    log_reference : array of shape (t,)
        Log of the uniform mixture r there (without normaliser).
    """

    n_points: int | str
    random_state: Any = None
    sampling: str = "auto"
    references: ClassReferences = fitted()
    templates: Array = fitted()
    points: Floats = fitted()
    log_reference: Array = fitted()
    # Few bags and references, because each bag is evaluated at all points.
    tuning_effort: ClassVar[TuningEffort] = TuningEffort(bags=100, rows=6_000)

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
        return self.at(refs, points, n_threads)

    @property
    def n_terms(self) -> int:
        """Number of reference points over which a divergence is averaged."""
        return len(self.points)

    def at(self, references: ClassReferences, points: Floats, n_threads: int = 1) -> MonteCarloMap:
        """Return the map with these reference points."""
        logs = references.log_means(points, references.bandwidth, n_threads)
        log_reference = np.asarray(logsumexp(logs, axis=1)) - np.log(logs.shape[1])
        return replace(
            self,
            references=references,
            templates=np.exp(logs - log_reference[:, None]),
            points=points,
            log_reference=log_reference,
        )

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> MonteCarloRows:
        """Return the rows of posteriors of shape (m, k)."""
        refs = self.references
        return MonteCarloRows(
            refs.coordinates(points), self.points, self.log_reference, refs.bandwidth, n_threads
        )


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


#: How points can be drawn.
SAMPLINGS = ("quasi-random", "plain")

_CHOICES = ("auto", *SAMPLINGS)

#: The automatic number of points: this many per class, within these bounds.
_PER_CLASS, _FEWEST, _MOST = 500, 2_000, 10_000

#: Relative differences below this are rounding, and must not decide how references are ordered.
_ROUNDING = 1e-9

#: Smallest distance of a quasi-random number from 0 and 1, where normal quantiles are infinite.
_MARGIN = 1e-10


def check_n_points(n_points: Any) -> None:
    """Raise ValueError unless ``n_points`` is "auto" or a positive integer."""
    if isinstance(n_points, str) and n_points == "auto":
        return
    is_count = isinstance(n_points, int | np.integer) and not isinstance(n_points, bool)
    if not is_count or n_points < 1:
        raise ValueError(f'n_points must be a positive integer or "auto", got {n_points!r}')


def check_sampling(sampling: Any) -> None:
    """Raise ValueError unless ``sampling`` is "auto" or one of ``SAMPLINGS``."""
    if not isinstance(sampling, str) or sampling not in _CHOICES:
        raise ValueError(f"sampling must be one of {', '.join(_CHOICES)}, got {sampling!r}")


def resolve_sampling(sampling: str, n_points: int | str) -> str:
    """Return how points are drawn; "auto" spreads an automatic number of them.

    A number of points that is given has been chosen with plain ones in mind.
    """
    if sampling != "auto":
        return sampling
    return "quasi-random" if isinstance(n_points, str) else "plain"


def resolve_n_points(n_points: int | str, n_classes: int) -> int:
    """Return the number of points; "auto" depends on the number of classes."""
    if isinstance(n_points, str):
        return min(max(_PER_CLASS * n_classes, _FEWEST), _MOST)
    return int(n_points)


def draw_points(
    references: ClassReferences, n_points: int, sampling: str, rng: np.random.RandomState
) -> Array:
    """Return points from the uniform mixture of the class densities, shape (n_points, k).

    They are divided evenly among the classes, and those of a class stand together. A draw does not
    depend on the order of the references, and a weight gives the same draw as repetitions.

    Parameters
    ----------
    references : ClassReferences
    n_points : int
    sampling : {"quasi-random", "plain"}
    rng : RandomState
    """
    counts = np.full(references.n_classes, n_points // references.n_classes)
    counts[: n_points % references.n_classes] += 1
    if sampling == "plain":
        parts = [_draw_plain(references, i, int(n), rng) for i, n in enumerate(counts)]
        return np.concatenate(parts)
    return _draw_quasi_random(references, counts, rng)


def _draw_plain(
    references: ClassReferences, label: int, size: int, rng: np.random.RandomState
) -> Array:
    """Draw ``size`` independent points from the density of one class, shape (size, k)."""
    low, high = int(references.offsets[label]), int(references.offsets[label + 1])
    points = references.points[low:high]
    order = np.lexsort(points.T)
    weights = references.weights
    ordered = np.ones(high - low) if weights is None else weights[low:high][order]
    picks = _picks(ordered, rng.random_sample(size))
    centres = points[order][picks]
    noise = rng.standard_normal(centres.shape)
    return np.asarray(centres + references.bandwidth * noise, dtype=np.float64)


def _draw_quasi_random(
    references: ClassReferences, counts: NDArray[np.int64], rng: np.random.RandomState
) -> Array:
    """Draw ``counts`` evenly spread points from the densities of the classes, shape (n, k)."""
    points, weights, offsets = _distinct(references)
    order = spatial_order(points, weights, offsets, int(counts.max()))
    points, weights = points[order], weights[order]
    largest = int(counts.max())
    sequence = Sobol(points.shape[1], scramble=False)
    sobol = sequence.random_base2(max(largest - 1, 0).bit_length())
    parts = []
    for i, n in enumerate(counts):
        own = slice(int(offsets[i]), int(offsets[i + 1]))
        steps = (np.arange(n) + rng.random_sample()) / max(n, 1)
        centres = points[own][_picks(weights[own], steps)]
        # A random shift makes every point one of the density, and the classes independent.
        uniform = (sobol[:n] + rng.random_sample(points.shape[1])) % 1.0
        noise = ndtri(np.clip(uniform, _MARGIN, 1.0 - _MARGIN))
        parts.append(centres + references.bandwidth * noise)
    return np.asarray(np.concatenate(parts), dtype=np.float64)


def _picks(weights: Array, steps: Array) -> NDArray[np.int64]:
    """Return the positions at which the cumulative share of the weights passes each step."""
    shares = np.cumsum(weights) / weights.sum()
    picks = np.searchsorted(shares, steps, side="right")
    return np.asarray(np.minimum(picks, len(weights) - 1), dtype=np.int64)


def _distinct(references: ClassReferences) -> tuple[Array, Array, NDArray[np.int64]]:
    """Return the distinct references of each class, their weights, and the classes' offsets."""
    n = len(references.points)
    given = np.ones(n) if references.weights is None else references.weights
    points, weights = [], []
    for low, high in zip(references.offsets[:-1], references.offsets[1:], strict=True):
        own, place = np.unique(references.points[low:high], axis=0, return_inverse=True)
        points.append(own)
        weights.append(np.bincount(place.ravel(), weights=given[low:high]))
    return np.concatenate(points), np.concatenate(weights), offsets_of([len(w) for w in weights])


def spatial_order(
    points: Array, weights: Array, offsets: NDArray[np.int64], n_cells: int
) -> NDArray[np.int64]:
    """Return an order of the points within each class in which neighbours are near each other.

    Each class is halved by weight along its widest coordinate, the halves likewise, and so on,
    until there are ``n_cells`` cells in a class or single points.

    Parameters
    ----------
    points : array of shape (n, D)
        Sorted by class.
    weights : array of shape (n,)
    offsets : int64 array of shape (n_classes + 1,)
    n_cells : int
    """
    n = len(points)
    order, starts = np.arange(n), np.asarray(offsets[:-1], dtype=np.int64)
    for _ in range(max(n_cells - 1, 0).bit_length()):
        ends = np.append(starts[1:], n)
        if (ends - starts).max() < 2:
            break
        cell = np.repeat(np.arange(len(starts)), ends - starts)
        x, w = points[order], weights[order]
        key = x[np.arange(n), _widest(x, w, starts, cell)[cell]]
        order = order[np.lexsort((key, cell))]
        starts = np.union1d(starts, _middles(weights[order], starts, ends))
    return order


def _widest(
    x: Array, w: Array, starts: NDArray[np.int64], cell: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the coordinate of largest variance in each cell; the first of equal ones."""
    total = np.add.reduceat(w, starts)[:, None]
    mean = np.add.reduceat(w[:, None] * x, starts) / total
    variance = np.add.reduceat(w[:, None] * np.square(x - mean[cell]), starts) / total
    limit = variance.max(axis=1, keepdims=True) * (1.0 - _ROUNDING)
    return np.asarray(np.argmax(variance >= limit, axis=1), dtype=np.int64)


def _middles(w: Array, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the second half of each cell begins; cells of one point have none."""
    sums = np.concatenate([[0.0], np.cumsum(w)])
    low, high = sums[starts], sums[ends]
    half = low + (0.5 - _ROUNDING) * (high - low)
    middles = np.clip(np.searchsorted(sums, half), starts + 1, np.maximum(ends - 1, starts + 1))
    return np.asarray(middles[ends - starts > 1], dtype=np.int64)
