r"""Sampling from the posterior distribution of a fitted likelihood method, until convergence.

Given rows :math:`D_{ji}` of class densities and a Dirichlet prior, the posterior

.. math:: p(\alpha \mid D) \propto \prod_i \alpha_i^{a_i - 1}
          \prod_j \Big(\sum_i \alpha_i D_{ji}\Big)^{w_j}

is sampled by two exact draws in turn (Diebolt and Robert, 1994), Gibbs sweeps: the class of each
instance, :math:`z_j \sim \mathrm{Cat}(\alpha_i D_{ji})`, and
:math:`\alpha \sim \mathrm{Dir}(a + n)` with n the counts of the classes. An integer weight stands
for that many instances. The remainder of a fractional weight is one more instance with a partial
count, for which the formula above holds approximately.

The densities D are learnt from a limited number of training instances. Their uncertainty is drawn
first, by the Bayesian bootstrap: training instances get weights from the exponential distribution,
whose sums by class stay what they are, calibrated posteriors are fitted again, and a short chain
draws the prevalence given these rows. Draws of all chains together have both uncertainties in them.

Convergence is measured by split R-hat on rank-normalised draws (do the chains agree?) and by the
bulk effective sample size (how many independent draws are they worth?), as Vehtari, Gelman,
Simpson, Carpenter and Bürkner define them ("Rank-normalization, folding, and localization", 2021).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

from kdey import native
from kdey._display import muted
from kdey.bags import Array, Bags
from kdey.intervals.analytic import calibrated_map, densities
from kdey.matching.likelihood import MixtureLikelihood
from kdey.model import Fitted, Model, bag_posteriors, posterior_model
from kdey.native import thread_count
from kdey.posteriors import TrainingPosteriors
from kdey.simplex import in_class_order
from kdey.validation import (
    check_choice,
    check_count,
    check_positive,
    check_weights,
    make_frame,
    refuse_masked,
)


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


Target = Literal["population", "bag"]
Kind = Literal["equal-tailed", "hpd"]
Templates = Literal["drawn", "fixed"]


_TARGETS: tuple[Target, ...] = ("population", "bag")


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorDraws:
    """Draws of two prevalences: that of the population, and that of this bag.

    The instances of the bag were drawn from the *population*. In *this bag* itself only the labels
    are unknown, so its prevalence is known better. With ``template_noise`` both include the
    uncertainty of templates that were learnt from a limited training set.

    Attributes
    ----------
    classes : array of shape (k,)
    population : array of shape (n_draws, k)
    bag : array of shape (n_draws, k)
    r_hat : array of shape (k,)
        Split, rank-normalised R-hat of chains with the same templates; near one if they agree.
    ess : array of shape (k,)
        Effective sample size of the population's prevalences: how many independent draws they are
        worth.
    n_chains : int
        Number of chains. Draws are stored chain after chain.
    n_sweeps : int
        Number of sweeps of each chain, including those that were dropped.
    prior : array of shape (k,)
        Parameters of the Dirichlet prior.
    converged : bool
        Whether effective size and R-hat reached their targets.
    template_noise : bool
        Whether the draws include the uncertainty of the templates.

    See Also
    --------
    kdey.sample_posterior : Draw from the Bayesian posterior.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> draws = kdey.sample_posterior(q, X[1::2], random_state=0)
    >>> draws.mean().round(1)
    array([0.3, 0.3, 0.3])
    """

    classes: NDArray[Any]
    population: Array
    bag: Array
    r_hat: Array
    ess: Array
    n_chains: int
    n_sweeps: int
    prior: Array
    converged: bool
    template_noise: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the draws must know, in sentences."""
        notes = []
        if not self.template_noise:
            notes.append(
                "the draws are conditional on the templates: they leave out the uncertainty of a "
                "limited training set, and intervals are too narrow where training instances are "
                "few"
            )
        if not self.converged:
            notes.append(
                f"the chains did not converge: the largest R-hat is {self.r_hat.max():.3f}, the "
                f"smallest effective size {self.ess.min():.0f}"
            )
        return tuple(notes)

    def __repr__(self) -> str:
        """Return a table of means and 95 % intervals of both targets, and the notes."""
        names = [str(label) for label in self.classes]
        width = max(5, *(len(name) for name in names))
        head = f"{len(self):,} draws of {self.n_chains} chains, 95 % intervals"
        lines = [head, f"{'class':<{width}}{'population':>26}{'this bag':>26}"]
        parts = [(self.mean(target), *self.interval(0.95, target)) for target in _TARGETS]
        for number, name in enumerate(names):
            cells = [
                f"{mean[number]:.4f} [{low[number]:.4f}, {high[number]:.4f}]"
                for mean, low, high in parts
            ]
            lines.append(f"{name:<{width}}" + "".join(f"{cell:>26}" for cell in cells))
        return "\n".join([*lines, *(f"({note})" for note in self.notes)])

    def __len__(self) -> int:
        """Return the number of draws."""
        return len(self.population)

    def draws(self, target: Target = "population") -> Array:
        """Return the draws of one target, shape (n_draws, k).

        Parameters
        ----------
        target : {"population", "bag"}

        Returns
        -------
        array of shape (n_draws, k)

        Raises
        ------
        ValueError
            If ``target`` is none of the two.
        """
        if target not in ("population", "bag"):
            raise ValueError(f"target must be 'population' or 'bag', got {target!r}")
        return self.population if target == "population" else self.bag

    def mean(self, target: Target = "population") -> Array:
        """Return the posterior mean, shape (k,)."""
        return np.asarray(self.draws(target).mean(axis=0))

    def interval(
        self, confidence: float = 0.95, target: Target = "population", kind: Kind = "equal-tailed"
    ) -> tuple[Array, Array]:
        """Return credible intervals.

        Parameters
        ----------
        confidence : float in (0, 1)
        target : {"population", "bag"}
        kind : {"equal-tailed", "hpd"}
            "hpd" is the shortest interval, which starts at zero for a class that may be absent.

        Returns
        -------
        low, high : arrays of shape (k,)

        Raises
        ------
        ValueError
            If a parameter is not allowed.
        """
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence must be in (0, 1), got {confidence!r}")
        if kind not in ("equal-tailed", "hpd"):
            raise ValueError(f"kind must be 'equal-tailed' or 'hpd', got {kind!r}")
        draws = self.draws(target)
        if kind == "hpd":
            return _shortest(draws, confidence)
        tail = 0.5 * (1.0 - confidence)
        low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
        return low, high

    def summary(
        self,
        confidence: float = 0.95,
        target: Target = "population",
        kind: Kind = "equal-tailed",
        backend: str | None = None,
    ) -> Any:
        """Return a data frame with one row per class.

        Parameters
        ----------
        confidence, target, kind
            As for :meth:`interval`.
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
            With columns ``class``, ``mean``, ``sd``, ``low``, ``high``, ``r_hat`` and ``ess``.
        """
        low, high = self.interval(confidence, target, kind)
        table = {
            "class": self.classes,
            "mean": self.mean(target),
            "sd": self.draws(target).std(axis=0, ddof=1),
            "low": low,
            "high": high,
            "r_hat": self.r_hat,
            "ess": self.ess,
        }
        return make_frame(table, backend)

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per draw and class.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
            With columns ``chain``, ``draw``, ``class``, ``population`` and ``bag``.
        """
        n, k = self.population.shape
        per_chain = n // self.n_chains
        table = {
            "chain": np.repeat(np.arange(n) // per_chain, k),
            "draw": np.repeat(np.arange(n) % per_chain, k),
            "class": np.tile(self.classes, n),
            "population": self.population.ravel(),
            "bag": self.bag.ravel(),
        }
        return make_frame(table, backend)

    def to_dict(self) -> dict[str, Array]:
        """Return the draws by chain, as ArviZ and others read them.

        Returns
        -------
        dict
            ``population`` and ``bag``, arrays of shape (n_chains, draws of a chain, k), for
            ``arviz.from_dict(posterior=draws.to_dict())``.
        """
        shape = (self.n_chains, -1, len(self.classes))
        return {"population": self.population.reshape(shape), "bag": self.bag.reshape(shape)}


def _shortest(draws: Array, confidence: float) -> tuple[Array, Array]:
    """Return the shortest interval of each column that contains a share of the draws."""
    ordered = np.sort(draws, axis=0)
    n = len(ordered)
    span = min(max(int(np.ceil(confidence * n)), 1), n) - 1
    widths = ordered[span:] - ordered[: n - span]
    start = widths.argmin(axis=0)
    columns = np.arange(draws.shape[1])
    return ordered[start, columns], ordered[start + span, columns]


#: Smallest prevalence, as in the native core: products with densities stay representable.
_SMALLEST = 1e-290
#: A larger R-hat means that the chains have not reached the same distribution.
MAX_R_HAT = 1.05
#: Largest total weight, because every unit of weight draws a class in every sweep.
MAX_INSTANCES = 1e7
#: Sweeps of each chain before the first look at the effective size.
_FIRST_SWEEPS = 500
#: Draws of the templates by each chain between two looks at the effective size, draws of the
#: prevalence that are kept for each of them, and how many draws are dropped before these.
_TEMPLATES_AT_ONCE, _KEPT, _DROPPED = 25, 10, 5
#: Largest number of draws of the templates, each worth an independent draw or more.
_MOST_TEMPLATES = 500


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
    prior: ArrayLike | PosteriorDraws = 1.0,
    templates: Templates = "drawn",
    min_ess: float = 400.0,
    n_chains: int = 4,
    max_sweeps: int = 20_000,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> PosteriorDraws:
    """Draw from the posterior distribution of a bag's prevalence.

    This works for methods with a mixture likelihood (EMQ, DIR, KDEyML). Chains start far apart.
    They run until the effective sample size of every class reaches ``min_ess`` with an R-hat of at
    most 1.05, or stop after ``max_sweeps`` with a :class:`SamplingWarning`. Then the templates are
    drawn, too, until the draws reach ``min_ess`` again.

    Parameters
    ----------
    quantifier : fitted EMQ, DIR or KDEyML
        For averaged geometries we use the likelihood of the one with the largest weight.
    X : instances of the bag, optional
    posteriors : array-like of shape (m, k), optional
        Posteriors of the bag, instead of X.
    sample_weight : array-like of shape (m,), optional
        How many instances each one stands for; see :mod:`kdey.bayes.sampling` about fractions.
    prior : float, array-like of shape (k,) or PosteriorDraws
        Positive parameters of the Dirichlet prior. One is uniform; larger values pull towards
        ``prior / prior.sum()`` with the weight of ``prior.sum()`` labelled instances. The draws of
        an earlier bag, last month's say, stand for the Dirichlet distribution with their means and
        their total variance: the population is then assumed to be the same.
    templates : {"drawn", "fixed"}
        Whether the uncertainty of templates that were learnt from few labels is part of the draws.
        With "fixed", or where the model keeps no training posteriors, it is not, and
        ``template_noise`` and ``notes`` say so.
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
    kdey.Estimate : Prevalences of one bag with intervals.

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
    check_choice(templates, "templates", ("drawn", "fixed"))
    points = bag_posteriors(quantifier, X, posteriors)
    model = posterior_model(quantifier)
    if model.likelihood is None:
        raise TypeError(
            "quantifier must maximise a mixture likelihood (EMQ, DIR, KDEyML), got "
            f"{type(quantifier).__name__}"
        )
    n_threads = thread_count(n_jobs)
    member = model.members[0]  # of several members, the one with the largest weight
    seeds = seed_sequence(random_state).spawn(2)
    draws = sample_rows(
        _mixture(member, points, n_threads),
        classes=model.classes,
        sample_weight=sample_weight,
        prior=_dirichlet_of(prior)
        if isinstance(prior, PosteriorDraws)
        else in_class_order(prior, model.classes, "prior"),
        min_ess=min_ess,
        n_chains=n_chains,
        max_sweeps=max_sweeps,
        random_state=seeds[0],
        n_threads=n_threads,
    )
    if templates == "fixed" or not model.is_learnt:
        return draws
    weights = None if sample_weight is None else _instance_counts(sample_weight, len(points))
    return _with_drawn_templates(draws, member, points, weights, min_ess, seeds[1], n_threads)


def _mixture(model: Model, points: NDArray[np.floating], n_threads: int) -> MixtureLikelihood:
    """Return the likelihood of a bag under a model with one."""
    assert model.likelihood is not None, "sample_posterior has asked for one"
    rows = model.row_map(points, n_threads)
    return model.likelihood.problem(model.row_map, rows, Bags.whole(len(points)))


def _dirichlet_of(draws: PosteriorDraws) -> Array:
    """Return the Dirichlet parameters with the means and the total variance of draws."""
    mean, variance = draws.mean(), draws.population.var(axis=0, ddof=1).sum()
    concentration = float((mean * (1.0 - mean)).sum() / max(variance, 1e-12)) - 1.0
    return np.asarray(np.maximum(mean * max(concentration, 1e-3), _SMALLEST))


def _with_drawn_templates(
    draws: PosteriorDraws,
    model: Model,
    points: NDArray[np.floating],
    weights: Array | None,
    min_ess: float,
    seed: np.random.SeedSequence,
    n_threads: int,
) -> PosteriorDraws:
    """Return draws that include the uncertainty of the templates.

    For every draw of the templates a chain starts at a draw given the fitted ones. How many sweeps
    are worth an independent draw is known from those chains.
    """
    stride = int(np.ceil(len(draws) / max(float(draws.ess.min()), 1.0)))
    n_sweeps = (_DROPPED + _KEPT) * stride
    at_once = _TEMPLATES_AT_ONCE * draws.n_chains
    parts: list[tuple[Array, Array]] = []
    ess = np.zeros(len(draws.classes))
    with muted(UserWarning):  # the fit of the quantifier has said what there is to say
        while ess.min() < min_ess and len(parts) < _MOST_TEMPLATES:
            for child in seed.spawn(at_once):
                rng = np.random.default_rng(child)
                rows = _redrawn_rows(model, points, rng, n_threads)
                chain = Chains(
                    draws.population[rng.integers(len(draws))][None].copy(),
                    np.array([child.generate_state(4, np.uint64)], dtype=np.uint64),
                )
                swept = gibbs_sweeps(rows, draws.prior, chain, n_sweeps, weights=weights)
                kept = slice((_DROPPED + 1) * stride - 1, None, stride)
                parts.append((swept[0][0, kept], swept[1][0, kept]))
            ess = _independent_draws(np.array([part[0] for part in parts]))
    size = float(len(points) if weights is None else weights.sum())
    return replace(
        draws,
        population=np.concatenate([part[0] for part in parts]),
        bag=np.concatenate([part[1] for part in parts]) / size,
        ess=ess,
        n_sweeps=draws.n_sweeps + n_sweeps * len(parts) // draws.n_chains,
        template_noise=True,
    )


def _redrawn_rows(
    model: Model, points: NDArray[np.floating], rng: np.random.Generator, n_threads: int
) -> Array:
    """Return the densities (m, k) of points by templates that are learnt from drawn weights.

    They are calibrated posteriors divided by their means, whichever densities the method has:
    those of kernels are smooth, which drawn weights do not show (90 % intervals of 200 labels cover
    0.82 with them and 0.86 with calibrated posteriors, ``benchmarks/gibbs.py``).
    """
    training = _redrawn(model, rng)
    if training.required().shape[1] == model.n_classes:
        return densities(calibrated_map(training, model.n_classes)(points).each(), logs=False)
    # Scores of several models, which the rows pool and calibrate.
    return _informative(_mixture(model.with_training(training, n_threads), points, n_threads))


def _redrawn(model: Model, rng: np.random.Generator) -> TrainingPosteriors:
    """Return training posteriors with drawn weights, whose sums by class are what they were."""
    training = model.training
    assert training is not None, "templates were learnt from it"
    given = np.ones(len(training.labels)) if training.weights is None else training.weights
    if training.clusters is None:
        drawn = given * rng.standard_exponential(len(given))
    else:  # the instances of a cluster have the same weight
        n_clusters = int(training.clusters.max()) + 1
        drawn = given * rng.standard_exponential(n_clusters)[training.clusters]
    totals, sums = (np.bincount(training.labels, weights=w) for w in (given, drawn))
    scale = np.divide(totals, sums, out=np.zeros_like(sums), where=sums > 0)
    return replace(training, weights=drawn * scale[training.labels])


def _independent_draws(population: Array) -> Array:
    """Return what draws (templates, draws of each, k) are worth, shape (k,).

    The chains of different templates are independent, so that the variance of their means is that
    of the mean of all draws, which would be the variance of a draw divided by the number of
    independent draws.
    """
    n_templates, n_kept, k = population.shape
    error = population.mean(axis=1).var(axis=0, ddof=1) / n_templates
    variance = population.reshape(-1, k).var(axis=0, ddof=1)
    most = float(n_templates * n_kept)
    worth = np.divide(variance, error, out=np.full(k, most), where=error > 0)
    return np.asarray(np.minimum(worth, most))


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
    rows = _informative(problem)
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


def _informative(problem: MixtureLikelihood) -> Array:
    """Return the rows of a problem; those of zeros, which say nothing about the class, as ones."""
    return np.where(np.asarray(problem.rows.any(axis=1))[:, None], problem.rows, 1.0)


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
