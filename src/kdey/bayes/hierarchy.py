r"""Gibbs sweeps for many bags whose prevalences share a Dirichlet distribution.

The prevalences of G groups with rows :math:`D_{ji}` of class densities follow

.. math:: \alpha_g \sim \mathrm{Dir}(\kappa \mu), \quad \mu \sim \mathrm{Dir}(1), \quad
          \frac{n_0}{n_0 + \kappa} \sim \mathrm{Uniform}(0, 1)

where :math:`n_0` is the median size of a group: a priori, a group of this size leans on the others
by any share. Groups of groups add a level: :math:`\alpha_g \sim \mathrm{Dir}(\kappa \mu_p)` for the
groups of parent p, and :math:`\mu_p \sim \mathrm{Dir}(\tau \nu)`.

A sweep draws the class of each instance given the prevalence of its group, which gives counts
:math:`C_g`; then, with the prevalences integrated out, the concentration :math:`\kappa` from

.. math:: \prod_g \frac{\Gamma(\kappa)}{\Gamma(\kappa + n_g)}
          \prod_i \frac{\Gamma(C_{gi} + \kappa \mu_i)}{\Gamma(\kappa \mu_i)}

by slice sampling of :math:`n_0 / (n_0 + \kappa)`; then the means by auxiliary table counts, as in
"Hierarchical Dirichlet processes" (JASA 101, 2006), which make them conjugate; and
last the prevalences, :math:`\alpha_g \sim \mathrm{Dir}(\kappa \mu + C_g)`. The tables of a parent
are counts for the level above it, so that two levels are the same step twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from kdey import native
from kdey.bags import Array, Indices, offsets_of

#: Smallest share and smallest Dirichlet parameter, as in the native core.
_SMALLEST, _SMALLEST_PARAMETER = 1e-290, 1e-300
#: Bounds of scale / (scale + concentration), and of the number of tries of a slice.
_FIRST, _LAST, _MOST_TRIES = 1e-6, 1.0 - 1e-6, 200


@dataclass(frozen=True, eq=False)
class GroupTree:
    """Which rows belong to which group, and which groups to which parent.

    Attributes
    ----------
    offsets : int64 array of shape (G + 1,)
        Group g owns the rows from ``offsets[g]`` to ``offsets[g + 1]``.
    parents : int64 array of shape (G,)
        Parent of each group, from 0 to P - 1; all zero where there is one level only.
    """

    offsets: Indices
    parents: Indices

    @classmethod
    def of(cls, sizes: Indices, parents: Indices | None = None) -> GroupTree:
        """Return the tree of groups with these sizes; without parents it has one level."""
        numbers = np.zeros(len(sizes), dtype=np.int64) if parents is None else parents
        return cls(offsets_of(sizes), np.ascontiguousarray(numbers, dtype=np.int64))

    def __len__(self) -> int:
        """Return the number of groups G."""
        return len(self.parents)

    @property
    def n_parents(self) -> int:
        """Number of parents P."""
        return int(self.parents.max()) + 1

    @cached_property
    def sizes(self) -> Indices:
        """Number of rows of each group, shape (G,)."""
        return np.diff(self.offsets)

    @cached_property
    def owners(self) -> Indices:
        """Group of each row, shape (m,)."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def scales(self) -> Array:
        """Median sizes of groups and of parents, in instances: the scales of kappa and tau."""
        used = self.sizes > 0
        if not used.any():
            return np.ones(2)
        totals = np.bincount(self.parents, weights=self.sizes, minlength=self.n_parents)
        return np.array([np.median(self.sizes[used]), np.median(totals[totals > 0])], dtype=float)


@dataclass(eq=False)
class HierarchyChain:
    """Where a chain stands; :func:`hierarchy_sweeps` changes all arrays in place.

    Attributes
    ----------
    prevalences : array of shape (G, k)
    counts : int64 array of shape (G, k)
        Numbers of instances of each class in the last sweep.
    means : array of shape (P, k)
        Mean prevalences of the parents; of all groups where there is one level.
    top : array of shape (k,)
        Mean of the means; not used where there is one level.
    concentrations : array of shape (2,)
        Kappa and tau.
    state : uint64 array of shape (4,)
        The state of a random generator.
    """

    prevalences: Array
    counts: Indices
    means: Array
    top: Array
    concentrations: Array
    state: NDArray[np.uint64]

    @classmethod
    def start(cls, tree: GroupTree, mean: Array, seed: np.random.SeedSequence) -> HierarchyChain:
        """Return a chain that starts with all groups at one prevalence, given by ``mean`` (k,)."""
        shares = np.maximum(mean, 1e-3)
        shares = shares / shares.sum()
        return cls(
            np.tile(shares, (len(tree), 1)),
            np.zeros((len(tree), len(shares)), dtype=np.int64),
            np.tile(shares, (tree.n_parents, 1)),
            shares.copy(),
            tree.scales.copy(),
            np.asarray(seed.generate_state(4, np.uint64), dtype=np.uint64),
        )


def hierarchy_sweeps(rows: Array, tree: GroupTree, chain: HierarchyChain, n_sweeps: int) -> Array:
    """Move a chain on, and return the concentrations after each sweep.

    The native core and the NumPy path draw different numbers from the same distribution.

    Parameters
    ----------
    rows : array of shape (m, k)
        Class densities. Each row may have its own scale but needs a positive entry.
    tree : GroupTree
    chain : HierarchyChain
        Changed in place.
    n_sweeps : int

    Returns
    -------
    array of shape (n_sweeps, 2)
        Kappa and tau.
    """
    trace = np.empty((n_sweeps, 2))
    if native.available():
        native.call(
            "kdey_hierarchy",
            *(np.ascontiguousarray(rows, dtype=np.float64), *rows.shape),
            *(tree.offsets, len(tree), tree.parents, tree.n_parents, tree.scales, n_sweeps),
            *(chain.prevalences, chain.means, chain.top, chain.concentrations, chain.state),
            *(chain.counts, trace),
        )
        return trace
    rng = np.random.default_rng(np.random.SeedSequence([int(word) for word in chain.state]))
    for sweep in range(n_sweeps):
        _sweep_numpy(rows, tree, chain, rng)
        trace[sweep] = chain.concentrations
    chain.state[:] = rng.integers(2**63, size=4, dtype=np.uint64)
    return trace


def _sweep_numpy(
    rows: Array, tree: GroupTree, chain: HierarchyChain, rng: np.random.Generator
) -> None:
    counts = chain.counts[:] = _class_counts(rows, tree, chain.prevalences, rng)
    level = _Level(counts, tree.parents)
    kappa = level.draw_concentration(chain.concentrations[0], chain.means, tree.scales[0], rng)
    tables = level.draw_tables(kappa, chain.means, rng)
    chain.concentrations[0] = kappa
    if tree.n_parents == 1:
        chain.means[:] = _dirichlet(tables + np.ones(1), rng)
    else:
        upper = _Level(tables, np.zeros(tree.n_parents, dtype=np.int64))
        top = chain.top[None]
        tau = upper.draw_concentration(chain.concentrations[1], top, tree.scales[1], rng)
        chain.concentrations[1] = tau
        chain.top[:] = _dirichlet(upper.draw_tables(tau, top, rng) + np.ones(1), rng)[0]
        chain.means[:] = _dirichlet(_parameters(tau, chain.top) + tables, rng)
    around = _parameters(kappa, chain.means)[tree.parents]
    chain.prevalences[:] = _dirichlet(around + counts, rng)


def _class_counts(
    rows: Array, tree: GroupTree, prevalences: Array, rng: np.random.Generator
) -> Indices:
    """Draw the class of each instance and return the counts of each group, shape (G, k)."""
    k = rows.shape[1]
    sums = np.cumsum(rows * prevalences[tree.owners], axis=1)
    targets = (1.0 - rng.random(len(rows))) * sums[:, -1]
    classes = np.minimum((sums < targets[:, None]).sum(axis=1), k - 1)
    underflow = sums[:, -1] <= 0
    classes[underflow] = rows[underflow].argmax(axis=1)
    cells = np.bincount(tree.owners * k + classes, minlength=len(tree) * k)
    return cells.reshape(-1, k).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Level:
    """Counts of children, whose shares are Dirichlet around the mean of their parent.

    Attributes
    ----------
    counts : int64 array of shape (n, k)
    parents : int64 array of shape (n,)
    """

    counts: Indices
    parents: Indices

    def log_likelihood(self, concentration: float, means: Array) -> float:
        """Return the logarithm of the formula at the top of this file."""
        a = _parameters(concentration, means)[self.parents]
        sizes = self.counts.sum(axis=1)
        total = len(sizes) * gammaln(concentration) - gammaln(concentration + sizes).sum()
        present = self.counts > 0  # for absent classes the terms cancel
        a, counts = a[present], self.counts[present]
        return float(total + (gammaln(counts + a) - gammaln(a)).sum())

    def draw_concentration(
        self, current: float, means: Array, scale: float, rng: np.random.Generator
    ) -> float:
        """Return a concentration by slice sampling of u = scale / (scale + concentration)."""
        first, last = _FIRST, _LAST
        now = min(max(scale / (scale + current), first), last)
        least = self.log_likelihood(scale * (1 - now) / now, means) + np.log(1.0 - rng.random())
        for _ in range(_MOST_TRIES):
            u = first + (last - first) * rng.random()
            concentration = scale * (1 - u) / u
            if self.log_likelihood(concentration, means) >= least:
                return float(concentration)
            if u < now:
                first = u
            else:
                last = u
        return float(scale * (1 - now) / now)

    def draw_tables(self, concentration: float, means: Array, rng: np.random.Generator) -> Indices:
        """Return the numbers of tables of each parent and class, in the shape of ``means``."""
        a = _parameters(concentration, means)
        children, classes = np.nonzero(self.counts)
        counts = self.counts[children, classes]
        # Each customer finds a number of others of the same child and class, from 0 on.
        others = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        cells = np.repeat(self.parents[children] * a.shape[1] + classes, counts)
        chances = a.ravel()[cells]
        opens = rng.random(len(cells)) * (chances + others) < chances
        return np.bincount(cells[opens], minlength=a.size).reshape(a.shape).astype(np.int64)


def _parameters(concentration: float, means: Array) -> Array:
    return np.maximum(concentration * means, _SMALLEST_PARAMETER)


def _dirichlet(parameters: Array, rng: np.random.Generator) -> Array:
    """Draw from Dirichlet distributions, one per row, by log-gammas: tiny parameters underflow."""
    logs = np.log(rng.standard_gamma(np.where(parameters < 1, parameters + 1, parameters)))
    small = parameters < 1
    with np.errstate(over="ignore"):
        logs[small] += np.log(1.0 - rng.random(int(small.sum()))) / parameters[small]
    largest = logs.max(axis=1)
    for row in np.flatnonzero(np.isneginf(largest)):  # all but one class vanish
        shares = parameters[row] / parameters[row].max()
        logs[row, rng.choice(len(shares), p=shares / shares.sum())] = 0.0
        largest[row] = 0.0
    drawn = np.exp(logs - largest[:, None])
    return np.asarray(np.maximum(drawn / drawn.sum(axis=1, keepdims=True), _SMALLEST))
