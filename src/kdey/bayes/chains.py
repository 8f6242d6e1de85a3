r"""Markov chains: Gibbs sweeps over the instances of a bag, and when they have converged.

Convergence is measured by split R-hat on rank-normalised draws (do the chains agree?) and by the
bulk effective sample size (how many independent draws are they worth?), as Vehtari, Gelman,
Simpson, Carpenter and Bürkner define them ("Rank-normalization, folding, and localization", 2021).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

from kdey import native
from kdey.bags import Array
from kdey.validation import check_count, check_positive, refuse_masked

#: Smallest prevalence, as in the native core: products with densities stay representable.
SMALLEST = 1e-290
#: A larger R-hat means that the chains have not reached the same distribution.
MAX_R_HAT = 1.05
#: Sweeps of each chain before the first look at the effective size.
_FIRST_SWEEPS = 500


class SamplingWarning(UserWarning):
    """The chains stopped before they reached the requested number of effective draws."""


def split_r_hat(draws: Array) -> float:
    """Return the rank-normalised split R-hat of one quantity.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws)

    Returns
    -------
    float
        The larger of the plain R-hat (do the chains agree in location?) and the folded one (do
        they agree in spread?); one if all draws are equal.

    Raises
    ------
    ValueError
        If a chain has fewer than 4 draws.
    """
    halves = _halves(draws)
    folded = np.abs(halves - np.median(halves))
    return max(_r_hat(_rank_normal(halves)), _r_hat(_rank_normal(folded)))


def effective_size(draws: Array) -> float:
    """Return the bulk effective sample size of one quantity.

    Autocorrelations are computed by FFT and truncated by Geyer's initial monotone sequence.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws)

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If a chain has fewer than 4 draws.
    """
    z = _rank_normal(_halves(draws))
    n_chains, n = z.shape
    total = float(n_chains * n)
    if np.ptp(z) == 0:
        return total
    covariance = _autocovariance(z)
    within = covariance[:, 0].mean() * n / (n - 1)
    pooled = within * (n - 1) / n + z.mean(axis=1).var(ddof=1)
    correlation = 1.0 - (within - covariance.mean(axis=0) * n / (n - 1)) / pooled
    correlation[0] = 1.0
    time = _geyer_time(correlation)
    return float(min(total / max(time, 1.0 / np.log10(total)), total * np.log10(total)))


def _halves(draws: Array) -> Array:
    """Return the halves of every chain as chains, shape (2 n_chains, n_draws // 2)."""
    n = draws.shape[1] // 2
    if n < 2:
        raise ValueError(f"draws must have at least 4 draws per chain, got {draws.shape[1]}")
    return np.concatenate([draws[:, :n], draws[:, -n:]])


def _rank_normal(z: Array) -> Array:
    """Return the normal scores of the ranks of all values, in the shape of ``z``."""
    ranks = rankdata(z, method="average").reshape(z.shape)
    return np.asarray(ndtri((ranks - 0.375) / (z.size + 0.25)))


def _r_hat(z: Array) -> float:
    n = z.shape[1]
    within = z.var(axis=1, ddof=1).mean()
    if within == 0:
        return 1.0 if np.ptp(z) == 0 else np.inf
    return float(np.sqrt((n - 1) / n + z.mean(axis=1).var(ddof=1) / within))


def _autocovariance(z: Array) -> Array:
    """Return the autocovariance of each chain at every lag, in the shape of ``z``."""
    n = z.shape[1]
    centred = z - z.mean(axis=1, keepdims=True)
    size = next_fast_len(2 * n)
    power = np.abs(rfft(centred, n=size, axis=1)) ** 2
    return np.asarray(irfft(power, n=size, axis=1)[:, :n] / n)


def _geyer_time(correlation: Array) -> float:
    """Return 1 + 2 sum of correlations, truncated where sums of pairs become negative."""
    even = len(correlation) // 2 * 2
    pairs = correlation[:even].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    used = pairs[: negative[0]] if len(negative) else pairs
    return float(2.0 * np.minimum.accumulate(used).sum() - 1.0) if len(used) else 1.0


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
        return cls(np.maximum(start, SMALLEST), np.array(states))


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
        x[:] = draw_dirichlet((prior + counts[sweep])[None], rng)[0]
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


def draw_dirichlet(parameters: Array, rng: np.random.Generator) -> Array:
    """Draw from Dirichlet distributions, one per row, by log-gammas: tiny parameters underflow."""
    logs = np.log(rng.standard_gamma(np.where(parameters < 1, parameters + 1, parameters)))
    small = parameters < 1
    with np.errstate(over="ignore"):
        logs[small] += np.log(1.0 - rng.random(int(small.sum()))) / parameters[small]
    largest = logs.max(axis=1)
    for row in np.flatnonzero(np.isneginf(largest)):  # all but one class vanish
        shares = parameters[row] / parameters[row].max()  # sums of denormals have no precision
        logs[row, rng.choice(len(shares), p=shares / shares.sum())] = 0.0
        largest[row] = 0.0
    drawn = np.exp(logs - largest[:, None])
    return np.asarray(np.maximum(drawn / drawn.sum(axis=1, keepdims=True), SMALLEST))


def check_prior(prior: ArrayLike, n_classes: int) -> Array:
    """Return the parameters of a Dirichlet prior, shape (k,), or raise ValueError."""
    try:
        parameters = np.asarray(refuse_masked(prior, "prior"), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"prior must be a number or a vector of numbers: {error}") from error
    if parameters.ndim > 0 and parameters.shape != (n_classes,):
        raise ValueError(
            f"prior must be a number or have one entry per class ({n_classes}), got shape "
            f"{parameters.shape}"
        )
    if not (np.isfinite(parameters) & (parameters > 0)).all():
        raise ValueError(
            f"prior must be positive and finite, got {prior!r}; for a class that is very unlikely "
            "use a small number such as 0.01, and if a class cannot occur fit without it"
        )
    return np.ascontiguousarray(np.broadcast_to(parameters, (n_classes,)), dtype=np.float64)


def check_effort(min_ess: float, n_chains: int, max_sweeps: int) -> None:
    """Raise ValueError unless the effort of sampling is allowed; see :func:`sample_posterior`."""
    check_positive(min_ess, "min_ess")
    check_count(n_chains, "n_chains", least=2)
    check_count(max_sweeps, "max_sweeps", least=20)


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Return a seed sequence from anything that NumPy accepts as a random state."""
    if isinstance(random_state, np.random.SeedSequence):
        # Spawning changes a sequence. With a copy, a second call gives the same draws.
        return np.random.SeedSequence(random_state.entropy, spawn_key=random_state.spawn_key)
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        drawn = random_state.bytes(16)
        return np.random.SeedSequence(int.from_bytes(drawn, "little"))
    return np.random.SeedSequence(random_state)


def run_chains(
    sweep: Callable[[int], tuple[Array, Array]], size: float, min_ess: float, max_sweeps: int
) -> dict[str, Any]:
    """Double the length of the chains until they converge.

    Parameters
    ----------
    sweep : callable
        Goes on by a number of sweeps and returns prevalences and counts after each of them, both
        of shape (n_chains, n_sweeps, k).
    size : float
        Number of instances of the bag, the sum of the counts.
    min_ess : float
    max_sweeps : int

    Returns
    -------
    dict
        The draws without the warm-up and what is known about them: fields of PosteriorDraws.

    Warns
    -----
    SamplingWarning
        If the chains stopped at ``max_sweeps`` without convergence.
    """
    prevalences: list[Array] = []
    counts: list[Array] = []
    done, goal, converged = 0, min(_FIRST_SWEEPS, max_sweeps), False
    while done < max_sweeps and not converged:
        alpha_part, counts_part = sweep(goal - done)
        prevalences.append(alpha_part)
        counts.append(counts_part)
        done, goal = goal, min(2 * goal, max_sweeps)
        alpha = np.concatenate(prevalences, axis=1)[:, warm_up(done) :]
        r_hat, ess = _diagnose(alpha)
        converged = bool(ess.min() >= min_ess and r_hat.max() <= MAX_R_HAT)
    if not converged:
        warnings.warn(
            f"after {done} sweeps the smallest effective size is {ess.min():.0f} (requested: "
            f"{min_ess:g}) and the largest R-hat is {r_hat.max():.3f} (allowed: {MAX_R_HAT}). "
            "The classes overlap so much that the chains move slowly: raise max_sweeps or lower "
            "min_ess",
            SamplingWarning,
            stacklevel=4,
        )
    kept, k = np.concatenate(counts, axis=1)[:, warm_up(done) :], alpha.shape[2]
    return {
        "population": alpha.reshape(-1, k),
        "bag": kept.reshape(-1, k) / size,
        "r_hat": r_hat,
        "ess": ess,
        "n_chains": len(alpha),
        "n_sweeps": done,
        "converged": converged,
    }


def warm_up(n_sweeps: int) -> int:
    """Return the number of sweeps at the start that are dropped, a quarter."""
    return n_sweeps // 4


def _diagnose(alpha: Array) -> tuple[Array, Array]:
    """Return R-hat and effective size of each class, both (k,)."""
    columns = [alpha[:, :, i] for i in range(alpha.shape[2])]
    r_hat = np.array([split_r_hat(column) for column in columns])
    return r_hat, np.array([effective_size(column) for column in columns])
