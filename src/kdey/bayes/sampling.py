r"""Sampling from the posterior distribution of a fitted likelihood method, until convergence.

Given rows :math:`D_{ji}` of class densities and a Dirichlet prior, the posterior

.. math:: p(\alpha \mid D) \propto \prod_i \alpha_i^{a_i - 1}
          \prod_j \Big(\sum_i \alpha_i D_{ji}\Big)^{w_j}

is sampled by two exact draws in turn (Diebolt and Robert, 1994), Gibbs sweeps: the class of each
instance, :math:`z_j \sim \mathrm{Cat}(\alpha_i D_{ji})`, and
:math:`\alpha \sim \mathrm{Dir}(a + n)` with n the counts of the classes. An integer weight stands
for that many instances. The remainder of a fractional weight is one more instance with a partial
count, for which the formula above holds approximately.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey import native
from kdey._parallel import thread_count
from kdey.arrays import in_class_order, refuse_masked
from kdey.bags import Bags
from kdey.bayes.draws import PosteriorDraws, effective_size, split_r_hat
from kdey.matching.likelihood import MixtureLikelihood
from kdey.model import Fitted, bag_posteriors, posterior_model
from kdey.validation import check_count, check_positive, check_weights

Array = NDArray[np.float64]
#: Smallest prevalence, as in the native core: products with densities stay representable.
_SMALLEST = 1e-290
#: A larger R-hat means that the chains have not reached the same distribution.
MAX_R_HAT = 1.05
#: Largest total weight, because every unit of weight draws a class in every sweep.
MAX_INSTANCES = 1e7
#: Sweeps of each chain before the first look at the effective size.
_FIRST_SWEEPS = 500


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
    return np.asarray(np.maximum(drawn / drawn.sum(axis=1, keepdims=True), _SMALLEST))


class SamplingWarning(UserWarning):
    """The chains stopped before they reached the requested number of effective draws."""


def sample_posterior(
    quantifier: Fitted,
    X: Any = None,
    *,
    posteriors: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    prior: ArrayLike = 1.0,
    min_ess: float = 400.0,
    n_chains: int = 4,
    max_sweeps: int = 20_000,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> PosteriorDraws:
    """Draw from the posterior distribution of a bag's prevalence.

    This works for methods with a mixture likelihood (EMQ, DIR, KDEyML), conditionally on their
    templates. Chains start far apart. They run until the effective sample size of every class
    reaches ``min_ess`` with an R-hat of at most 1.05, or stop after ``max_sweeps`` with a
    :class:`SamplingWarning`.

    Parameters
    ----------
    quantifier : fitted EMQ, DIR or KDEyML
        For averaged geometries we use the likelihood of the one with the largest weight.
    X : instances of the bag, optional
    posteriors : array-like of shape (m, k), optional
        Posteriors of the bag, instead of X.
    sample_weight : array-like of shape (m,), optional
        How many instances each one stands for; see :mod:`kdey.bayes.sampling` about fractions.
    prior : float or array-like of shape (k,)
        Positive parameters of the Dirichlet prior. One is uniform; larger values pull towards
        ``prior / prior.sum()`` with the weight of ``prior.sum()`` labelled instances.
    min_ess : float
        Smallest effective sample size of every class.
    n_chains : int
        Number of chains, at least 2.
    max_sweeps : int
        Largest number of sweeps of each chain, at least 20.
    random_state : int, SeedSequence or None
    n_jobs : int, optional
        Threads over chains; the draws do not depend on it.

    Returns
    -------
    PosteriorDraws

    Raises
    ------
    TypeError
        If the quantifier does not maximise a mixture likelihood.
    ValueError
        If a parameter is not allowed.

    Warns
    -----
    SamplingWarning
        If the chains stopped at ``max_sweeps`` without convergence.

    See Also
    --------
    kdey.bayes.PosteriorDraws : Draws of the Bayesian posterior.
    kdey.Estimate : Prevalences of one bag with limits.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> draws = kdey.sample_posterior(q, X[1::2], random_state=0)
    >>> draws.mean().round(1)
    array([0.3, 0.3, 0.3])
    >>> low, high = draws.interval(0.95)
    >>> bool((low < 1 / 3).all() and (high > 1 / 3).all())
    True
    """
    points = bag_posteriors(quantifier, X, posteriors)
    model = posterior_model(quantifier)
    likelihood = model.likelihood
    if likelihood is None:
        raise TypeError(
            "quantifier must maximise a mixture likelihood (EMQ, DIR, KDEyML), got "
            f"{type(quantifier).__name__}"
        )
    n_threads = thread_count(n_jobs)
    row_map = model.row_map.members[0]  # of several members, the one with the largest weight
    problem = likelihood.problem(row_map, row_map(points, n_threads), Bags.whole(len(points)))
    return sample_rows(
        problem,
        classes=model.classes,
        sample_weight=sample_weight,
        prior=in_class_order(prior, model.classes, "prior"),
        min_ess=min_ess,
        n_chains=n_chains,
        max_sweeps=max_sweeps,
        random_state=random_state,
        n_threads=n_threads,
    )


def sample_rows(
    problem: MixtureLikelihood,
    *,
    classes: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    prior: ArrayLike = 1.0,
    min_ess: float = 400.0,
    n_chains: int = 4,
    max_sweeps: int = 20_000,
    random_state: Any = None,
    n_threads: int = 1,
) -> PosteriorDraws:
    """Draw from the posterior distribution of a mixture problem, over its whole pool.

    Parameters
    ----------
    problem : MixtureLikelihood
    classes : array-like of shape (k,), optional
        Default: 0, ..., k - 1.
    sample_weight, prior, min_ess, n_chains, max_sweeps, random_state
        As for :func:`sample_posterior`.
    n_threads : int
        Threads over chains; the draws do not depend on it.

    Returns
    -------
    PosteriorDraws
    """
    k = problem.n_classes
    parameters = check_prior(prior, k)
    check_effort(min_ess, n_chains, max_sweeps)
    # A row of zeros contains no information about the class, which the sampler sees as ones.
    informative = np.asarray(problem.rows.any(axis=1))
    rows = np.where(informative[:, None], problem.rows, 1.0)
    weights = None if sample_weight is None else _instance_counts(sample_weight, len(rows))
    chains = Chains.dispersed(n_chains, parameters, seed_sequence(random_state))

    def sweep(n_sweeps: int) -> tuple[Array, Array]:
        return gibbs_sweeps(
            rows, parameters, chains, n_sweeps, weights=weights, n_threads=n_threads
        )

    drawn = run_chains(
        sweep, float(len(rows) if weights is None else weights.sum()), min_ess, max_sweeps
    )
    names = np.arange(k) if classes is None else np.asarray(classes)
    return PosteriorDraws(classes=names, prior=parameters, **drawn)


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


def _instance_counts(sample_weight: ArrayLike, size: int) -> Array:
    """Return the weights, whose scale matters here because they are numbers of instances."""
    weights = check_weights(sample_weight, size)
    if weights.sum() > MAX_INSTANCES:
        raise ValueError(
            f"sample_weight sums to {weights.sum():.3g} and counts as that many instances, more "
            f"than {MAX_INSTANCES:.0e}: divide it by its mean, which keeps the size of the bag"
        )
    return weights


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
