"""Draws from the posterior distribution of a prevalence, and what is read off them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kdey.frames import make_frame

Array = NDArray[np.float64]
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
