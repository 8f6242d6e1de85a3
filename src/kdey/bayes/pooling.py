r"""Partial pooling of many groups whose prevalences have something in common.

**The model.** The prevalences of G groups with rows :math:`D_{ji}` of class densities follow

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

**The templates** are learnt from a limited number of training instances. All groups of a table
share their error, so it does not average out over groups. A *template draw* is the Bayesian
bootstrap: training instances get weights from the exponential distribution, and the rows are fitted
again. The rows are calibrated posteriors divided by their mean (``kdey.intervals.analytic``),
whichever method estimates the groups one by one: the likelihoods of kernel densities count too much
for the intervals of many small groups (coverage 0.81 instead of 0.95 in a prototype). Calibrated
posteriors are not exact densities either, which matters where many groups together know their mean
well: :meth:`TemplateDraw.discrepancy` says by how much.

There is a chain for each draw of the templates. Draws of all chains together are the posterior
distribution of each group's prevalence, with three kinds of uncertainty in it: the labels of the
instances, what the groups have in common, and the templates. The intervals cover on average over
groups. A group that is unlike the others is pulled towards them, and its intervals cover less
often: ``each_group.py`` sets such groups apart, and has intervals that hold for each.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from kdey import native
from kdey.bags import Array, Indices, offsets_of
from kdey.bayes.chains import SamplingWarning, draw_dirichlet
from kdey.bayes.sampling import TemplateDraw, TemplateDraws
from kdey.native import one_blas_thread

#: Bytes of rows and draws that are held at once.
MOST_BYTES = 4 << 30
#: Groups whose intervals are computed at once.
_GROUPS_AT_ONCE = 500
Draws = NDArray[np.float32]
T = TypeVar("T")
#: Smallest Dirichlet parameter, as in the native core.
_SMALLEST_PARAMETER = 1e-300
#: Bounds of scale / (scale + concentration), and of the number of tries of a slice.
_FIRST, _LAST, _MOST_TRIES = 1e-6, 1.0 - 1e-6, 200
#: Groups cannot be told apart where kappa exceeds this many median group sizes ...
APART_FACTOR = 10.0
#: ... at this point of its posterior distribution.
APART_POINT = 0.95
#: The mean logarithms of concentrations in both halves of the chains must not differ by more than
#: this share of their standard deviation, or this number if it is larger.
_DRIFT_SHARE, _DRIFT = 0.25, 0.05


@dataclass(frozen=True, eq=False)
class GroupDraws:
    """Posterior draws of the prevalences of G groups.

    Attributes
    ----------
    population : float32 array of shape (n_draws, G, k)
        Prevalences of the populations that the groups were drawn from.
    shifts : array of shape (n_draws, k)
        Common errors of all groups that come from densities that are not exact; intervals include
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

    def interval(self, tail: float, target: str = "population") -> tuple[Array, Array]:
        """Return equal-tailed intervals with this probability outside each end, shape (G, k)."""
        estimate = self.estimate(target)
        low, high = np.empty_like(estimate), np.empty_like(estimate)
        for start in range(0, len(estimate), _GROUPS_AT_ONCE):
            part = slice(start, start + _GROUPS_AT_ONCE)
            shifted = np.clip(self.draws(target)[:, part] + self.shifts[:, None], 0.0, 1.0)
            low[part], high[part] = np.quantile(shifted, [tail, 1.0 - tail], axis=0)
        return np.minimum(low, estimate), np.maximum(high, estimate)

    def common_variance(self) -> Array:
        """Return the variance of the mean of all groups, templates and shifts included, (k,)."""
        means = self.population.mean(axis=1, dtype=np.float64) + self.shifts
        return np.asarray(means.var(axis=0))


def common_shifts(
    maps: Sequence[TemplateDraw], population: Draws, rng: np.random.Generator
) -> Array:
    """Return common errors of all groups, one for each draw, shape (n_draws, k).

    The discrepancy of the densities says how large the error of the mean of all groups may be.
    Correcting by it would add its own noise to the estimates; it widens the intervals instead, to
    both sides.

    Parameters
    ----------
    maps : sequence of TemplateDraw
    population : array of shape (n_draws, G, k)
        As many draws for each map, one map after the other.
    rng : Generator
    """
    n_draws, _, k = population.shape
    means = population.mean(axis=1, dtype=np.float64).reshape(len(maps), -1, k).mean(axis=1)
    scales = np.array([m.discrepancy(mean) for m, mean in zip(maps, means, strict=True)])
    sizes = rng.standard_normal((n_draws, 1))
    return np.asarray(sizes * np.repeat(scales, n_draws // len(maps), axis=0))


def for_each_template(work: Callable[[int], T], n: int, n_threads: int) -> list[T]:
    """Return what ``work`` gives for the numbers of n draws of the templates."""
    if n_threads == 1:
        return [work(number) for number in range(n)]
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, range(n)))


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
        _sweep_hierarchy(rows, tree, chain, rng)
        trace[sweep] = chain.concentrations
    chain.state[:] = rng.integers(2**63, size=4, dtype=np.uint64)
    return trace


def _sweep_hierarchy(
    rows: Array, tree: GroupTree, chain: HierarchyChain, rng: np.random.Generator
) -> None:
    counts = chain.counts[:] = _class_counts(rows, tree, chain.prevalences, rng)
    level = _Level(counts, tree.parents)
    kappa = level.draw_concentration(chain.concentrations[0], chain.means, tree.scales[0], rng)
    tables = level.draw_tables(kappa, chain.means, rng)
    chain.concentrations[0] = kappa
    if tree.n_parents == 1:
        chain.means[:] = draw_dirichlet(tables + np.ones(1), rng)
    else:
        upper = _Level(tables, np.zeros(tree.n_parents, dtype=np.int64))
        top = chain.top[None]
        tau = upper.draw_concentration(chain.concentrations[1], top, tree.scales[1], rng)
        chain.concentrations[1] = tau
        chain.top[:] = draw_dirichlet(upper.draw_tables(tau, top, rng) + np.ones(1), rng)[0]
        chain.means[:] = draw_dirichlet(_parameters(tau, chain.top) + tables, rng)
    around = _parameters(kappa, chain.means)[tree.parents]
    chain.prevalences[:] = draw_dirichlet(around + counts, rng)


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


@dataclass(frozen=True, eq=False)
class ShrunkGroups(GroupDraws):
    """Posterior draws of the prevalences of G groups, which share a Dirichlet distribution.

    Attributes
    ----------
    tree : GroupTree
    group : float32 array of shape (n_draws, G, k)
        Class shares among the instances of each group; NaN for a group without any.
    means : array of shape (n_draws, P, k)
        Mean prevalences of the parents, or of all groups.
    concentrations : array of shape (n_draws, 2)
        Kappa, and tau where there are two levels.
    """

    tree: GroupTree
    group: Draws
    means: Array
    concentrations: Array

    def draws(self, target: str = "population") -> Draws:
        """Return the draws of a target, "population" or "bag", shape (n_draws, G, k)."""
        return self.group if target == "bag" else super().draws(target)

    @property
    def kappa(self) -> Array:
        """Draws of the concentration of the groups, shape (n_draws,)."""
        return self.concentrations[:, 0]

    @property
    def told_apart(self) -> bool:
        """Whether the data show that the prevalences of groups differ.

        They do not where the 95 % point of kappa exceeds ten times the median size of a group.
        """
        bound = APART_FACTOR * float(self.tree.scales[0])
        return bool(np.quantile(self.kappa, APART_POINT) <= bound)

    @property
    def shrinkage(self) -> Array:
        """How far each group leans on the others, from 0 (not at all) to 1, shape (G,).

        It is the variance of the group's prevalence given the data, relative to the variance before
        its own instances were seen; for normal distributions this is the weight of the mean of all
        groups in the estimate.
        """
        means = self.means[:, self.tree.parents]
        before = (means * (1.0 - means)).sum(axis=2) / (1.0 + self.kappa[:, None])
        prior = before.mean(axis=0) + means.var(axis=0).sum(axis=1)
        after = self.population.var(axis=0, dtype=np.float64).sum(axis=1)
        return np.asarray(np.clip(after / prior, 0.0, 1.0))


def shrink_groups(
    templates: TemplateDraws,
    posteriors: NDArray[np.floating],
    tree: GroupTree,
    *,
    positions: Indices | None = None,
    n_templates: int = 20,
    n_sweeps: int = 300,
    n_draws: int = 40,
    n_rounds: int = 4,
    random_state: int = 0,
    n_threads: int = 1,
) -> ShrunkGroups:
    """Return posterior draws of the prevalences of all groups.

    Parameters
    ----------
    templates : TemplateDraws
    posteriors : array of shape (m, d), in memory or on disk
    tree : GroupTree
        Of the rows in the order of ``positions``.
    positions : int64 array, optional
        Rows of ``posteriors``, group after group; by default as they are.
    n_templates : int
        Draws of the templates, with a chain each.
    n_sweeps : int
        Sweeps of each chain in the first round, a third of which is dropped. If the concentrations
        still drift, all draws are dropped and another round has twice as many.
    n_draws : int
        Draws of each chain that are kept, at most half the sweeps.
    n_rounds : int
        Largest number of rounds.
    random_state : int
    n_threads : int
        Chains that run at once; the draws do not depend on it.

    Returns
    -------
    ShrunkGroups

    Raises
    ------
    ValueError
        If rows and draws would take more than 4 GiB (:func:`check_memory`).

    Warns
    -----
    SamplingWarning
        If the concentrations still drift after the last round.
    """
    k, total = templates.model.n_classes, n_templates * n_draws
    check_memory(int(tree.offsets[-1]), len(tree), k, total, min(n_threads, n_templates))
    *seeds, last_seed = np.random.SeedSequence(random_state).spawn(2 * n_templates + 1)
    maps = [templates.draw(seed) for seed in seeds[:n_templates]]
    start = templates.model.prevalence
    chains = [HierarchyChain.start(tree, start, seed) for seed in seeds[n_templates:]]
    population: Draws = np.empty((total, len(tree), k), dtype=np.float32)
    group: Draws = np.empty_like(population)
    means, concentrations = np.empty((total, tree.n_parents, k)), np.empty((total, 2))

    def move(n_sweeps: int, number: int) -> Array:
        part = slice(number * n_draws, (number + 1) * n_draws)
        kept = [values[part] for values in (population, group, means, concentrations)]
        rows = maps[number](posteriors, positions)
        return _move_chain(rows, tree, chains[number], n_sweeps, kept)

    for finished in range(n_rounds):
        work = partial(move, n_sweeps << finished)
        traces = np.stack(for_each_template(work, n_templates, n_threads))
        converged = not drifts(traces[:, :, : 1 if tree.n_parents == 1 else 2])
        if converged:
            break
    else:
        warnings.warn(
            f"after {n_sweeps << finished} sweeps of {n_templates} chains it is still uncertain "
            "how much the groups have in common (the concentrations drift): the classes overlap "
            "too much, or there are too few groups to shrink",
            SamplingWarning,
            stacklevel=2,
        )
    shifts = common_shifts(maps, population, np.random.default_rng(last_seed))
    return ShrunkGroups(
        *(population, shifts, templates.varies, converged, tree, group, means, concentrations)
    )


def _move_chain(
    rows: Array,
    tree: GroupTree,
    chain: HierarchyChain,
    n_sweeps: int,
    kept: Sequence[NDArray[np.floating]],
) -> Array:
    """Move a chain on; return its concentrations without the warm-up.

    ``kept`` gets draws of prevalences, of shares in the groups, of means and of concentrations.
    """
    n_draws, sizes = len(kept[0]), tree.sizes[:, None]
    thin = (n_sweeps - n_sweeps // 3) // n_draws
    hierarchy_sweeps(rows, tree, chain, n_sweeps - thin * n_draws)
    traces = []
    for draw in range(n_draws):
        traces.append(hierarchy_sweeps(rows, tree, chain, thin))
        with np.errstate(invalid="ignore"):  # groups without instances
            shares = chain.counts / sizes
        now = (chain.prevalences, shares, chain.means, chain.concentrations)
        for values, value in zip(kept, now, strict=True):
            values[draw] = value
    return np.concatenate(traces)


def drifts(traces: Array) -> bool:
    """Return whether concentrations differ between the halves of chains.

    Parameters
    ----------
    traces : array of shape (n_chains, n_sweeps, n_levels)
        Without the warm-up.
    """
    logs = np.log(traces)
    half = logs.shape[1] // 2
    step = logs[:, half:].mean(axis=(0, 1)) - logs[:, :half].mean(axis=(0, 1))
    allowed = np.maximum(_DRIFT_SHARE * logs.std(axis=(0, 1)), _DRIFT)
    return bool((np.abs(step) > allowed).any())
