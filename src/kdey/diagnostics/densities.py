"""Class densities of the posteriors, at new points and (leave-one-out) at the training points.

A density that includes a training point's own kernel is higher at this point than at any point of a
bag. With that kernel left out, densities of training points and of a bag's points are comparable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey._support.warnings import warn
from kdey.bags import Bags
from kdey.kernels import DEFAULT_SHRINKAGE
from kdey.posteriors import TrainingPosteriors
from kdey.problems import MixtureLikelihood
from kdey.rows.references import ClassReferences, KernelSpec
from kdey.solvers import solve_mixture

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
#: Bandwidth of the Gaussian kernel on posteriors.
DEFAULT_BANDWIDTH = 0.1
#: Densities are mean kernels in [0, 1]. We add this floor before taking logarithms, so that a
#: single point far from everything cannot dominate a mean of logarithms.
FLOOR = 1e-3
#: Numbers of a temporary array (16 MB).
_CHUNK = 2_000_000


@dataclass(frozen=True)
class Densities:
    """Class densities of m points, stored relative to the largest of each point.

    Attributes
    ----------
    rows : array of shape (m, k)
        Densities relative to the largest of each row, which is one.
    scales : array of shape (m,)
        Logarithms of the largest densities: the density is ``rows * exp(scales)``.
    """

    rows: Array
    scales: Array

    @cached_property
    def _unscaled(self) -> Array:
        """The densities themselves, shape (m, k)."""
        return self.rows * np.exp(self.scales)[:, None]

    @classmethod
    def from_logs(cls, logs: Array) -> Densities:
        """Return densities from their logarithms (m, k), in which -inf stands for zero."""
        largest = logs.max(axis=1)
        scales = np.where(np.isneginf(largest), 0.0, largest)
        return cls(np.exp(logs - scales[:, None]), scales)

    def floored_log(self, prevalences: Array) -> Array:
        r"""Return log(p_alpha + floor) at all points for several mixtures.

        Parameters
        ----------
        prevalences : array of shape (n_prevalences, k)

        Returns
        -------
        array of shape (m, n_prevalences)
        """
        mixed = self._unscaled @ prevalences.T
        return np.asarray(np.log(np.add(mixed, FLOOR, out=mixed), out=mixed))

    def mean_floored_log(self, prevalences: Array, bags: Bags) -> Array:
        """Return the mean of log(p_alpha + floor) over each bag under its own mixture.

        Parameters
        ----------
        prevalences : array of shape (n_bags, k)
        bags : Bags
            Over these m points.

        Returns
        -------
        array of shape (n_bags,)
        """
        out = np.empty(len(bags))
        for part in bags.runs(_CHUNK // self.rows.shape[1]):
            sub = bags[part]
            mixed = np.einsum(
                "sk,sk->s",
                self._unscaled[sub.indices],
                np.repeat(prevalences[part], sub.sizes, axis=0),
            )
            logs = np.log(mixed + FLOOR)
            weights = np.ones(len(logs)) if sub.weights is None else sub.weights
            sums = np.add.reduceat(weights * logs, sub.offsets[:-1])
            out[part] = sums / np.add.reduceat(weights, sub.offsets[:-1])
        return out


@dataclass(frozen=True, eq=False)
class TrainingDensities:
    """The class densities, with the leave-one-out densities of the training points.

    Attributes
    ----------
    references : ClassReferences
        Training points sorted by class.
    held_out : Densities
        Densities of every reference, without its own kernel.
    """

    references: ClassReferences
    held_out: Densities

    @classmethod
    def fit(
        cls, training: TrainingPosteriors, n_classes: int, kernel: KernelSpec, n_threads: int = 1
    ) -> TrainingDensities:
        """Return the densities of training posteriors under a kernel."""
        references = kernel.fit_quietly(training, n_classes)
        logs = _held_out_logs(references, n_threads)
        return cls(references, Densities.from_logs(logs))

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return len(self.references.offsets) - 1

    @cached_property
    def class_weights(self) -> Array:
        """Weight of each reference within its class, summing to one per class, shape (n,)."""
        weights = self.references.weights
        w = np.ones(len(self.references.points)) if weights is None else weights
        return np.asarray(w / np.repeat(np.exp(self.references.log_mass), self.counts))

    @cached_property
    def counts(self) -> Indices:
        """Number of references of each class, shape (k,)."""
        return np.diff(self.references.offsets)

    @cached_property
    def labels(self) -> Indices:
        """Class of each reference, shape (n,)."""
        return np.repeat(np.arange(self.n_classes), self.counts)

    def at(self, posteriors: NDArray[Any], n_threads: int = 1) -> Densities:
        """Return the densities of new points, posteriors of shape (m, k)."""
        refs = self.references
        logs = refs.log_means(refs.coordinates(posteriors), refs.bandwidth, n_threads)
        return Densities.from_logs(logs)

    def class_means(self, values: Array) -> Array:
        """Return the class means, shape (k, ...), of values of the references, (n, ...)."""
        ends = pairwise(self.references.offsets)
        return np.stack([self.class_weights[a:b] @ values[a:b] for a, b in ends])

    def expected_log(self, prevalences: Array) -> Array:
        """Return the mean of log(p_alpha + floor) over points drawn from p_alpha.

        Parameters
        ----------
        prevalences : array of shape (n, k)

        Returns
        -------
        array of shape (n,)
        """
        step = max(1, _CHUNK // len(self.references.points))
        out = np.empty(len(prevalences))
        for start in range(0, len(prevalences), step):
            part = prevalences[start : start + step]
            means = self.class_means(self.held_out.floored_log(part))
            out[start : start + step] = np.einsum("bk,kb->b", part, means)
        return out


def warn_single(training: TrainingDensities, classes: NDArray[Any]) -> None:
    """Warn if a class has one training instance, from which its spread cannot be estimated."""
    single = np.asarray(classes)[training.counts == 1].tolist()
    if single:
        warn(
            f"class {', '.join(map(repr, single[:5]))} has one training instance, which does not "
            "show how its instances vary: statements about this class are guesses. Add labelled "
            "instances of it",
            UserWarning,
            stacklevel=3,
        )


def default_kernel(bandwidth: float | str) -> KernelSpec:
    """Return the Gaussian kernel on the posteriors themselves (no transform)."""
    return KernelSpec(bandwidth, "gaussian", DEFAULT_SHRINKAGE)


def fit_prevalences(
    densities: Densities, bags: Bags, n_threads: int = 1, start: Array | None = None
) -> Array:
    """Return the maximum likelihood prevalences of bags, shape (n_bags, k).

    Parameters
    ----------
    densities : Densities
        Of m points.
    bags : Bags
        Over these points.
    n_threads : int
    start : array of shape (n_bags, k), optional
        Where the solver starts.

    Returns
    -------
    array of shape (n_bags, k)
    """
    problem = MixtureLikelihood(densities.rows, bags)
    return solve_mixture(problem, tol=1e-7, start=start, n_threads=n_threads).prevalence


def few_per_class(training: TrainingPosteriors, n_classes: int, most: int) -> TrainingPosteriors:
    """Return at most about ``most`` training posteriors, the same number of each large class.

    A class loses instances only if it has more than its even share of ``most``, in which case we
    draw from it at random, always with the same seed.

    Parameters
    ----------
    training : TrainingPosteriors
    n_classes : int
    most : int

    Returns
    -------
    TrainingPosteriors
    """
    labels = training.labels
    if len(labels) <= most:
        return training
    usable = labels >= 0 if training.weights is None else training.weights > 0
    counts = np.bincount(labels[usable], minlength=n_classes)
    limit = _even_share(counts, most)
    rng = np.random.default_rng(0)
    drawn = [
        rng.choice(np.flatnonzero((labels == i) & usable), min(n, limit), replace=False)
        for i, n in enumerate(counts)
    ]
    rows = np.sort(np.concatenate(drawn))
    return TrainingPosteriors(
        training.required()[rows],
        labels[rows],
        None if training.weights is None else training.weights[rows],
        None if training.folds is None else training.folds[rows],
        rows if training.instances is None else training.instances[rows],
    )


def _even_share(counts: Indices, most: int) -> int:
    """Return the largest n, at least two, for which sum(min(counts, n)) <= most."""
    ascending = np.sort(counts)
    below = np.concatenate([[0], np.cumsum(ascending)[:-1]])
    shares = (most - below) // np.arange(len(counts), 0, -1)
    # The classes that are smaller than an even share of the rest are kept whole.
    cut = np.flatnonzero(shares < ascending)
    return max(2, int(shares[cut[0]])) if len(cut) else int(ascending[-1])


def _held_out_logs(references: ClassReferences, n_threads: int) -> Array:
    """Return the leave-one-out log densities of the references, shape (n, k)."""
    refs = references
    n, counts = len(refs.points), np.diff(refs.offsets)
    labels = np.repeat(np.arange(len(counts)), counts)
    sums = refs.packed(n_threads).log_sums(
        refs.points, refs.bandwidth, exclude=np.arange(n), n_threads=n_threads
    )[0]
    mass = np.exp(refs.log_mass)
    weights = np.ones(n) if refs.weights is None else refs.weights
    remaining = np.tile(mass, (n, 1))
    remaining[np.arange(n), labels] = np.where(counts[labels] > 1, mass[labels] - weights, 1.0)
    return np.asarray(sums - np.log(remaining))
