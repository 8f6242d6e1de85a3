"""Partial pooling of many groups: a chain of the hierarchy for each draw of the templates.

Each chain has class densities of its own (``template_draws.py``) and moves through the hierarchy of
``hierarchy.py``. Draws of all chains together are the posterior distribution of each group's
prevalence, with three kinds of uncertainty in it: the labels of the instances, what the groups have
in common, and the templates. The limits cover on average over groups. A group that is unlike the
others is pulled towards them, and its limits cover less often (``docs/small-groups.md``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kdey._support.threads import one_blas_thread
from kdey._support.validation import check_count
from kdey.bags import Array, Indices
from kdey.bayes.group_draws import Draws, GroupDraws, check_memory, common_shifts
from kdey.bayes.hierarchy import GroupTree, HierarchyChain, hierarchy_sweeps
from kdey.bayes.sample import SamplingWarning
from kdey.bayes.template_draws import DensityMap, TemplateDraws

#: Groups cannot be told apart where kappa exceeds this many median group sizes ...
APART_FACTOR = 10.0
#: ... at this point of its posterior distribution.
APART_POINT = 0.95
#: The mean logarithms of concentrations in both halves of the chains must not differ by more than
#: this share of their standard deviation, or this number if it is larger.
_DRIFT_SHARE, _DRIFT = 0.25, 0.05


@dataclass(frozen=True)
class ChainEffort:
    """How long chains run.

    Parameters
    ----------
    n_templates : int
        Draws of the templates, with a chain each.
    n_sweeps : int
        Sweeps of each chain in the first round, a third of which is dropped. If the concentrations
        still drift, all draws are dropped and another round has twice as many.
    n_draws : int
        Draws of each chain that are kept.
    n_rounds : int
        Largest number of rounds.
    """

    n_templates: int = 20
    n_sweeps: int = 300
    n_draws: int = 40
    n_rounds: int = 4

    def __post_init__(self) -> None:
        check_count(self.n_templates, "n_templates", 2)
        check_count(self.n_draws, "n_draws", 4)
        check_count(self.n_sweeps, "n_sweeps", 2 * self.n_draws)
        check_count(self.n_rounds, "n_rounds", 1)


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
    effort: ChainEffort | None = None,
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
    effort : ChainEffort, optional
    random_state : int
    n_threads : int
        Chains that run at once; the draws do not depend on it.

    Returns
    -------
    ShrunkGroups

    Raises
    ------
    ValueError
        If rows and draws would take more than 4 GiB (``kdey.bayes.group_draws.check_memory``).

    Warns
    -----
    SamplingWarning
        If the concentrations still drift after the last round.
    """
    effort = ChainEffort() if effort is None else effort
    k = templates.model.n_classes
    n = effort.n_templates
    check_memory(int(tree.offsets[-1]), len(tree), k, n * effort.n_draws, min(n_threads, n))
    *seeds, last_seed = np.random.SeedSequence(random_state).spawn(2 * n + 1)
    maps = [templates.draw(seed) for seed in seeds[:n]]
    start = templates.model.prevalence
    run = _Run(
        posteriors,
        positions,
        tree,
        maps,
        [HierarchyChain.start(tree, start, seed) for seed in seeds[n:]],
        effort,
        n_threads,
    )
    for number in range(effort.n_rounds):
        traces = run.round(effort.n_sweeps << number)
        converged = not drifts(traces[:, :, : 1 if tree.n_parents == 1 else 2])
        if converged:
            break
    else:
        warnings.warn(
            f"after {effort.n_sweeps << number} sweeps of {effort.n_templates} chains it is still "
            "uncertain how much the groups have in common (the concentrations drift): the classes "
            "overlap too much, or there are too few groups to shrink",
            SamplingWarning,
            stacklevel=2,
        )
    return run.result(np.random.default_rng(last_seed), templates.varies, converged)


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


@dataclass(eq=False)
class _Run:
    """The chains of a table, and what is kept of their last round."""

    posteriors: NDArray[np.floating]
    positions: Indices | None
    tree: GroupTree
    maps: Sequence[DensityMap]
    chains: Sequence[HierarchyChain]
    effort: ChainEffort
    n_threads: int
    population: Draws = field(init=False)
    group: Draws = field(init=False)
    means: Array = field(init=False)
    concentrations: Array = field(init=False)

    def __post_init__(self) -> None:
        n_draws = len(self.chains) * self.effort.n_draws
        k = self.chains[0].prevalences.shape[1]
        self.population = np.empty((n_draws, len(self.tree), k), dtype=np.float32)
        self.group = np.empty_like(self.population)
        self.means = np.empty((n_draws, self.tree.n_parents, k))
        self.concentrations = np.empty((n_draws, 2))

    def round(self, n_sweeps: int) -> Array:
        """Move all chains on; return the concentrations without the warm-up."""
        numbers = range(len(self.chains))
        work: Callable[[int], Array] = lambda number: self._move(number, n_sweeps)  # noqa: E731
        if self.n_threads == 1:
            return np.stack([work(number) for number in numbers])
        with one_blas_thread(), ThreadPoolExecutor(self.n_threads) as pool:
            return np.stack(list(pool.map(work, numbers)))

    def _move(self, number: int, n_sweeps: int) -> Array:
        chain, effort = self.chains[number], self.effort
        rows = self.maps[number](self.posteriors, self.positions)
        thin = (n_sweeps - n_sweeps // 3) // effort.n_draws
        hierarchy_sweeps(rows, self.tree, chain, n_sweeps - thin * effort.n_draws)
        sizes = self.tree.sizes[:, None]
        parts = []
        for draw in range(effort.n_draws):
            parts.append(hierarchy_sweeps(rows, self.tree, chain, thin))
            at = number * effort.n_draws + draw
            self.population[at] = chain.prevalences
            with np.errstate(invalid="ignore"):
                self.group[at] = chain.counts / sizes
            self.means[at], self.concentrations[at] = chain.means, chain.concentrations
        return np.concatenate(parts)

    def result(
        self, rng: np.random.Generator, template_noise: bool, converged: bool
    ) -> ShrunkGroups:
        """Return the draws of the last round."""
        return ShrunkGroups(
            population=self.population,
            shifts=common_shifts(self.maps, self.population, rng),
            template_noise=template_noise,
            converged=converged,
            tree=self.tree,
            group=self.group,
            means=self.means,
            concentrations=self.concentrations,
        )
