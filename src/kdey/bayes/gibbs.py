r"""Gibbs sweeps for a mixture with known components.

Given rows :math:`D_{ji}` of class densities and a Dirichlet prior, the posterior

.. math:: p(\alpha \mid D) \propto \prod_i \alpha_i^{a_i - 1}
          \prod_j \Big(\sum_i \alpha_i D_{ji}\Big)^{w_j}

is sampled by two exact draws in turn (Diebolt and Robert, 1994): the class of each instance,
:math:`z_j \sim \mathrm{Cat}(\alpha_i D_{ji})`, and :math:`\alpha \sim \mathrm{Dir}(a + n)` with
n the counts of the classes. An integer weight stands for that many instances. The remainder of a
fractional weight is one more instance with a partial count, for which the formula above holds
approximately.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdey import native

Array = NDArray[np.float64]
#: Smallest prevalence, as in the native core: products with densities stay representable.
_SMALLEST = 1e-290


@dataclass(eq=False)
class Chains:
    """The state of several chains; :func:`gibbs_sweeps` changes both arrays in place.

    Attributes
    ----------
    current : array of shape (n_chains, k)
        The current prevalences.
    states : uint64 array of shape (n_chains, 4)
        The state of one random generator per chain, so that draws do not depend on threads.
    """

    current: Array
    states: NDArray[np.uint64]

    @classmethod
    def dispersed(cls, n_chains: int, prior: Array, seed: np.random.SeedSequence) -> Chains:
        """Return chains that start at uniform prevalences, which vary more than any posterior."""
        children = seed.spawn(n_chains + 1)
        rng = np.random.default_rng(children[0])
        start = rng.dirichlet(np.ones(len(prior)), size=n_chains)
        states = [child.generate_state(4, np.uint64) for child in children[1:]]
        return cls(np.maximum(start, _SMALLEST), np.array(states))


def gibbs_sweeps(
    rows: Array,
    prior: Array,
    chains: Chains,
    n_sweeps: int,
    *,
    weights: Array | None = None,
    n_threads: int = 1,
) -> tuple[Array, Array]:
    """Return prevalences and class counts after each sweep.

    The native core and the NumPy path draw different numbers from the same distribution.

    Parameters
    ----------
    rows : array of shape (m, k)
        Class densities. Each row may have its own scale but needs a positive entry.
    prior : array of shape (k,)
        Parameters of the Dirichlet prior.
    chains : Chains
        Changed in place.
    n_sweeps : int
    weights : array of shape (m,), optional
    n_threads : int
        Native threads over chains.

    Returns
    -------
    prevalences, counts : arrays of shape (n_chains, n_sweeps, k)
    """
    shape = (len(chains.current), n_sweeps, rows.shape[1])
    prevalence, counts = np.empty(shape), np.empty(shape)
    if native.available():
        native.call(
            "kdey_gibbs",
            *(np.ascontiguousarray(rows, dtype=np.float64), weights, *rows.shape, prior),
            *(shape[0], n_sweeps, chains.current, chains.states, n_threads, prevalence, counts),
        )
        return prevalence, counts
    for chain in range(shape[0]):
        _sweep_numpy(rows, weights, prior, chains, chain, prevalence[chain], counts[chain])
    return prevalence, counts


def _sweep_numpy(
    rows: Array,
    weights: Array | None,
    prior: Array,
    chains: Chains,
    chain: int,
    prevalence: Array,
    counts: Array,
) -> None:
    """Sweep one chain, writing to ``prevalence`` and ``counts`` of shape (n_sweeps, k)."""
    rng = np.random.default_rng(np.random.SeedSequence([int(s) for s in chains.states[chain]]))
    x, k = chains.current[chain], rows.shape[1]
    owners, shares = _unit_instances(np.ones(len(rows)) if weights is None else weights)
    for sweep in range(len(prevalence)):
        sums = np.cumsum(rows * x, axis=1)[owners]
        targets = (1.0 - rng.random(len(owners))) * sums[:, -1]
        classes = np.minimum((sums < targets[:, None]).sum(axis=1), k - 1)
        underflow = sums[:, -1] <= 0
        classes[underflow] = rows[owners[underflow]].argmax(axis=1)
        counts[sweep] = np.bincount(classes, weights=shares, minlength=k)
        x[:] = np.maximum(_dirichlet(prior + counts[sweep], rng), _SMALLEST)
        prevalence[sweep] = x
    chains.states[chain] = rng.integers(2**63, size=4, dtype=np.uint64)


def _unit_instances(weights: Array) -> tuple[NDArray[np.int64], Array]:
    """Return the row of each instance of weight at most one, and its weight."""
    copies = np.ceil(weights).astype(np.int64)
    owners = np.repeat(np.arange(len(weights)), copies)
    shares = np.ones(len(owners))
    last = np.cumsum(copies)[copies > 0] - 1
    shares[last] = (weights - copies + 1.0)[copies > 0]
    return owners, shares


def _dirichlet(parameters: Array, rng: np.random.Generator) -> Array:
    """Draw from a Dirichlet distribution by log-gammas, because tiny parameters underflow."""
    logs = np.log(rng.standard_gamma(np.where(parameters < 1, parameters + 1, parameters)))
    small = parameters < 1
    with np.errstate(over="ignore"):
        logs[small] += np.log(1.0 - rng.random(int(small.sum()))) / parameters[small]
    if np.isneginf(logs.max()):  # parameters so small that all but one class vanish
        shares = parameters / parameters.max()  # sums of denormal numbers have no precision
        survivor = rng.choice(len(shares), p=shares / shares.sum())
        logs[survivor] = 0.0
    drawn = np.exp(logs - logs.max())
    return np.asarray(drawn / drawn.sum())
