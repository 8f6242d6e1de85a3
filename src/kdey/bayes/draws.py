"""Convergence of chains: whether they agree, and how many independent draws they are worth.

Split R-hat on rank-normalised draws and the bulk effective sample size, as Vehtari, Gelman,
Simpson, Carpenter and Bürkner define them ("Rank-normalization, folding, and localization", 2021).

Draws from the posterior distribution of a prevalence, and what is read off them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

from kdey._support.frames import make_frame

Array = NDArray[np.float64]


def split_r_hat(draws: Array) -> float:
    """Return the rank-normalised split R-hat of one quantity, draws of (n_chains, n_draws).

    The larger of the plain one (do the chains agree in place?) and the folded one (in spread?);
    one where all draws are equal.
    """
    halves = _halves(draws)
    folded = np.abs(halves - np.median(halves))
    return max(_r_hat(_rank_normal(halves)), _r_hat(_rank_normal(folded)))


def effective_size(draws: Array) -> float:
    """Return the bulk effective sample size of one quantity, draws of (n_chains, n_draws).

    Autocorrelations by FFT, cut off by Geyer's initial monotone sequence.
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
    n = draws.shape[1] // 2
    if n < 2:
        raise ValueError(f"draws must have at least 4 draws per chain, got {draws.shape[1]}")
    return np.concatenate([draws[:, :n], draws[:, -n:]])


def _rank_normal(z: Array) -> Array:
    ranks = rankdata(z, method="average").reshape(z.shape)
    return np.asarray(ndtri((ranks - 0.375) / (z.size + 0.25)))


def _r_hat(z: Array) -> float:
    n = z.shape[1]
    within = z.var(axis=1, ddof=1).mean()
    if within == 0:
        return 1.0 if np.ptp(z) == 0 else np.inf
    return float(np.sqrt((n - 1) / n + z.mean(axis=1).var(ddof=1) / within))


def _autocovariance(z: Array) -> Array:
    n = z.shape[1]
    centred = z - z.mean(axis=1, keepdims=True)
    size = next_fast_len(2 * n)
    power = np.abs(rfft(centred, n=size, axis=1)) ** 2
    return np.asarray(irfft(power, n=size, axis=1)[:, :n] / n)


def _geyer_time(correlation: Array) -> float:
    """Return 1 + 2 sum of correlations, over pairs whose sums stay positive and fall."""
    even = len(correlation) // 2 * 2
    pairs = correlation[:even].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    used = pairs[: negative[0]] if len(negative) else pairs
    return float(2.0 * np.minimum.accumulate(used).sum() - 1.0) if len(used) else 1.0


Target = Literal["population", "bag"]
Kind = Literal["equal-tailed", "hpd"]


@dataclass(frozen=True, eq=False)
class PosteriorDraws:
    """Draws of two things: the prevalence of the population, and of this bag.

    The *population* is what the bag's instances were drawn from; *this bag* is the bag itself,
    of which only the labels are unknown. The second is known better. Both are given the
    templates: that these were made from a limited training set is not in them.

    Attributes
    ----------
    classes : array of shape (k,)
    population : array of shape (n_draws, k)
    bag : array of shape (n_draws, k)
    r_hat : array of shape (k,)
        Split, rank-normalised; near one where the chains agree.
    ess : array of shape (k,)
        Bulk effective sample size of the population's prevalences.
    n_chains : int
        Draws are held chain after chain.
    n_sweeps : int
        Sweeps of each chain in all; the first ones are not kept.
    prior : array of shape (k,)
        Parameters of the Dirichlet prior.
    converged : bool
        Whether effective size and R-hat were reached.
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

    def __len__(self) -> int:
        """Return the number of draws."""
        return len(self.population)

    def draws(self, target: Target = "population") -> Array:
        """Return the draws of one target, shape (n_draws, k)."""
        if target not in ("population", "bag"):
            raise ValueError(f"target must be 'population' or 'bag', got {target!r}")
        return self.population if target == "population" else self.bag

    def mean(self, target: Target = "population") -> Array:
        """Return the posterior mean, shape (k,)."""
        return np.asarray(self.draws(target).mean(axis=0))

    def interval(
        self, confidence: float = 0.95, target: Target = "population", kind: Kind = "equal-tailed"
    ) -> tuple[Array, Array]:
        """Return credible intervals, low and high of shape (k,).

        Parameters
        ----------
        confidence : float in (0, 1)
        target : {"population", "bag"}
        kind : {"equal-tailed", "hpd"}
            "hpd" is the shortest interval: it starts at zero for a class that may be absent.
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
        """Return a frame with one row per class: mean, sd, low, high, r_hat, ess."""
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
        """Return a tidy frame: ``chain``, ``draw``, ``class``, ``population``, ``bag``."""
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
    """Return the shortest interval per column that holds the share of draws."""
    ordered = np.sort(draws, axis=0)
    n = len(ordered)
    span = min(max(int(np.ceil(confidence * n)), 1), n) - 1
    widths = ordered[span:] - ordered[: n - span]
    start = widths.argmin(axis=0)
    columns = np.arange(draws.shape[1])
    return ordered[start, columns], ordered[start + span, columns]
