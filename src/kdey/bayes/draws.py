"""Posterior draws of a prevalence: means, credible intervals, and convergence of the chains.

Convergence is measured by split R-hat on rank-normalised draws (do the chains agree?) and by the
bulk effective sample size (how many independent draws are they worth?), as Vehtari, Gelman,
Simpson, Carpenter and Bürkner define them ("Rank-normalization, folding, and localization", 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

from kdey.arrays import make_frame

Array = NDArray[np.float64]


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


_TARGETS: tuple[Target, ...] = ("population", "bag")


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorDraws:
    """Draws of two prevalences: that of the population, and that of this bag.

    The instances of the bag were drawn from the *population*. In *this bag* itself only the labels
    are unknown, so its prevalence is known better. Both distributions are conditional on the
    templates: they do not include the uncertainty from a limited training set.

    Attributes
    ----------
    classes : array of shape (k,)
    population : array of shape (n_draws, k)
    bag : array of shape (n_draws, k)
    r_hat : array of shape (k,)
        Split, rank-normalised R-hat; near one if the chains agree.
    ess : array of shape (k,)
        Bulk effective sample size of the population's prevalences.
    n_chains : int
        Number of chains. Draws are stored chain after chain.
    n_sweeps : int
        Number of sweeps of each chain, including the dropped warm-up.
    prior : array of shape (k,)
        Parameters of the Dirichlet prior.
    converged : bool
        Whether effective size and R-hat reached their targets.
    template_noise : bool
        Whether the draws include the uncertainty of the templates; False for all samplers so far.

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


def _shortest(draws: Array, confidence: float) -> tuple[Array, Array]:
    """Return the shortest interval of each column that contains a share of the draws."""
    ordered = np.sort(draws, axis=0)
    n = len(ordered)
    span = min(max(int(np.ceil(confidence * n)), 1), n) - 1
    widths = ordered[span:] - ordered[: n - span]
    start = widths.argmin(axis=0)
    columns = np.arange(draws.shape[1])
    return ordered[start, columns], ordered[start + span, columns]
