"""Posterior draws for a fitted likelihood method, run until they are enough."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._support.threads import thread_count
from kdey._support.validation import check_count, check_positive, check_weights
from kdey.bags import Bags
from kdey.bayes.draws import PosteriorDraws, effective_size, split_r_hat
from kdey.bayes.gibbs import Array, Chains, gibbs_sweeps
from kdey.fitted import FittedQuantifier, bag_posteriors, fitted_stages
from kdey.problems import MixtureLikelihood

#: R-hat above this means that the chains have not found the same distribution.
LARGEST_R_HAT = 1.05
#: Largest total weight: each unit is drawn a class of its own in every sweep.
MOST_INSTANCES = 1e7
#: Sweeps of each chain before the effective size is looked at for the first time.
_FIRST = 500


class SamplingWarning(UserWarning):
    """The chains were stopped before they gave as many effective draws as asked for."""


def sample_posterior(
    quantifier: FittedQuantifier,
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

    For the methods with a mixture likelihood (EMQ, DIR, KDEyML), given their templates. Chains
    start far apart and run until the effective sample size of every class reaches ``min_ess``
    with an R-hat below 1.05, or stop at ``max_sweeps`` with a :class:`SamplingWarning`.

    Parameters
    ----------
    quantifier : fitted EMQ, DIR or KDEyML
        Of averaged geometries the heaviest one's likelihood is taken.
    X : instances of the bag, optional
    posteriors : array-like of shape (m, k), optional
        In the place of X.
    sample_weight : array-like of shape (m,), optional
        How many instances each one stands for; see :mod:`kdey.bayes.gibbs` on fractions.
    prior : float or array-like of shape (k,)
        Parameters of the Dirichlet prior, positive: one is uniform, larger ones pull towards
        ``prior / prior.sum()`` with the weight of ``prior.sum()`` labelled instances.
    min_ess : float
    n_chains : int
    max_sweeps : int
        Of each chain.
    random_state : int, SeedSequence or None
    n_jobs : int, optional
        Threads over chains; the draws do not depend on it.

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
    model = fitted_stages(quantifier)
    likelihood = model.likelihood
    if likelihood is None:
        raise TypeError(
            "quantifier must maximise a mixture likelihood (EMQ, DIR, KDEyML), got "
            f"{type(quantifier).__name__}"
        )
    n_threads = thread_count(n_jobs)
    row_map = model.row_map.members[0]  # one likelihood is needed: the heaviest member's
    problem = likelihood.problem(row_map, row_map(points, n_threads), Bags.whole(len(points)))
    return sample_rows(
        problem,
        classes=quantifier.classes_,
        sample_weight=sample_weight,
        prior=prior,
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
    """As :func:`sample_posterior`, from the rows of a mixture problem (its whole pool)."""
    k = problem.n_classes
    given = check_prior(prior, k)
    _check_effort(min_ess, n_chains, max_sweeps)
    # A row of zeros says nothing about the class; for the sampler that is a row of ones.
    told = np.asarray(problem.rows.any(axis=1))
    rows = np.where(told[:, None], problem.rows, 1.0)
    weights = None if sample_weight is None else _instance_counts(sample_weight, len(rows))
    seed = _seed(random_state)
    chains = Chains.dispersed(n_chains, given, seed)
    alpha, counts, n_sweeps = _run(rows, given, chains, weights, min_ess, max_sweeps, n_threads)
    r_hat, ess = _diagnose(alpha)
    converged = _enough(r_hat, ess, min_ess)
    if not converged:
        _warn(r_hat, ess, min_ess, n_sweeps)
    total = float(len(rows) if weights is None else weights.sum())
    return PosteriorDraws(
        classes=np.arange(k) if classes is None else np.asarray(classes),
        population=alpha.reshape(-1, k),
        bag=counts.reshape(-1, k) / total,
        r_hat=r_hat,
        ess=ess,
        n_chains=n_chains,
        n_sweeps=n_sweeps,
        prior=given,
        converged=converged,
    )


def check_prior(prior: ArrayLike, n_classes: int) -> Array:
    """Return the parameters of a Dirichlet prior, shape (k,), or raise."""
    try:
        given = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"prior must be a number or a vector of numbers: {error}") from error
    if given.ndim > 0 and given.shape != (n_classes,):
        raise ValueError(
            f"prior must be a number or have one entry per class ({n_classes}), got shape "
            f"{given.shape}"
        )
    if not (np.isfinite(given) & (given > 0)).all():
        raise ValueError(
            f"prior must be positive and finite, got {prior!r}; for a class that is all but "
            "excluded give a small number such as 0.01, for one that cannot occur fit without it"
        )
    return np.ascontiguousarray(np.broadcast_to(given, (n_classes,)), dtype=np.float64)


def _instance_counts(sample_weight: ArrayLike, size: int) -> Array:
    """Return the weights, which are numbers of instances here and not just ratios."""
    weights = check_weights(sample_weight, size)
    if weights.sum() > MOST_INSTANCES:
        raise ValueError(
            f"sample_weight sums to {weights.sum():.3g}, and counts as that many instances: divide "
            "it by its mean, which leaves the bag its own size"
        )
    return weights


def _check_effort(min_ess: float, n_chains: int, max_sweeps: int) -> None:
    check_positive(min_ess, "min_ess")
    check_count(n_chains, "n_chains", least=2)
    check_count(max_sweeps, "max_sweeps", least=20)


def _seed(random_state: Any) -> np.random.SeedSequence:
    if isinstance(random_state, np.random.SeedSequence):
        # Spawning changes a sequence; a copy keeps a second call the same as the first.
        return np.random.SeedSequence(random_state.entropy, spawn_key=random_state.spawn_key)
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        drawn = random_state.bytes(16)
        return np.random.SeedSequence(int.from_bytes(drawn, "little"))
    return np.random.SeedSequence(random_state)


def _run(
    rows: Array,
    prior: Array,
    chains: Chains,
    weights: Array | None,
    min_ess: float,
    max_sweeps: int,
    n_threads: int,
) -> tuple[Array, Array, int]:
    """Double the length of the chains until they are enough; return the kept draws."""
    parts: list[tuple[Array, Array]] = []
    done, wanted = 0, min(_FIRST, max_sweeps)
    while True:
        part = gibbs_sweeps(
            rows, prior, chains, wanted - done, weights=weights, n_threads=n_threads
        )
        parts.append(part)
        done = wanted
        alpha = np.concatenate([one[0] for one in parts], axis=1)[:, _warm_up(done) :]
        if done == max_sweeps or _enough(*_diagnose(alpha), min_ess):
            counts = np.concatenate([one[1] for one in parts], axis=1)[:, _warm_up(done) :]
            return alpha, counts, done
        wanted = min(2 * done, max_sweeps)


def _warm_up(n_sweeps: int) -> int:
    """Return how many first sweeps are dropped: a quarter."""
    return n_sweeps // 4


def _diagnose(alpha: Array) -> tuple[Array, Array]:
    columns = [alpha[:, :, i] for i in range(alpha.shape[2])]
    r_hat = np.array([split_r_hat(column) for column in columns])
    return r_hat, np.array([effective_size(column) for column in columns])


def _enough(r_hat: Array, ess: Array, min_ess: float) -> bool:
    return bool(ess.min() >= min_ess and r_hat.max() <= LARGEST_R_HAT)


def _warn(r_hat: NDArray[Any], ess: Array, min_ess: float, n_sweeps: int) -> None:
    warnings.warn(
        f"after {n_sweeps} sweeps the smallest effective size is {ess.min():.0f} (wanted "
        f"{min_ess:g}) and the largest R-hat {r_hat.max():.3f} (wanted {LARGEST_R_HAT}): classes "
        "overlap so much that the chains move slowly. Raise max_sweeps, or lower min_ess",
        SamplingWarning,
        stacklevel=4,
    )
