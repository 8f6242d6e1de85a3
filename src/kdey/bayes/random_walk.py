r"""Prevalences of neighbouring periods, which follow a random walk on the log-ratio scale.

A series has prevalences :math:`\alpha_t = \mathrm{softmax}(V \eta_t)` at times t. V is an
orthonormal basis of the vectors of sum zero (isometric log-ratios: no class is special), and

.. math:: \eta_t - \eta_s \sim N(0, \sigma^2 (t - s) I), \quad \eta_1 \sim N(0, 3^2 I)

for neighbouring periods s < t. A gap is a longer step, and a period without instances has no
likelihood: its band widens with the distance from its neighbours. All series of a table share
:math:`\sigma`, which has an exponential prior with a chance of 5 % to exceed one.

For each of several :math:`\sigma` we find the mode of all :math:`\eta` by Newton's method, and
approximate their posterior by the normal distribution with its curvature (Laplace). The value of
:math:`\sigma` is drawn by its approximate marginal likelihood. The matrices are banded, so that the
work is linear in the number of periods. As in ``pooling.py`` all of it is done for each draw of
the templates.

**Jumps.** A random walk smooths a jump over. Between two periods there may therefore be a step of
standard deviation 1.5 beside the usual one, once in a series a priori. Let the periods before a
boundary say :math:`N(l, L)` of :math:`\eta` and those behind it :math:`N(r, R)`; with
:math:`C = L + R + \sigma^2 (t - s) I` the Bayes factor of a jump is

.. math:: \frac{N(r - l;\, 0,\, C + 1.5^2 I)}{N(r - l;\, 0,\, C)} .

It is averaged with that of a jump of standard deviation 0.5, since of many classes a jump of a few
is small in most log-ratios, and over :math:`\sigma`, since a jump that is not reckoned with makes
the steps look large. Under a random walk its mean is one, so that one in twenty tables at most has
a factor above 20 times the number of boundaries: jumps beyond are *found*, one after the other.
Where a jump lies is uncertain by a period or two, and whether there is one at all where the factor
is smaller: the evidence of every place near by says how likely it is, and each draw of the
templates has its own draw of the places. The band opens by what they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded, helmert, solve_banded
from scipy.special import logsumexp, softmax

from kdey.bags import Array, Indices
from kdey.bayes.pooling import (
    Draws,
    GroupDraws,
    check_memory,
    common_shifts,
    for_each_template,
)
from kdey.bayes.sampling import TemplateDraws
from kdey.intervals.analytic import moment_densities

#: Standard deviation of the first log-ratios of a series.
_FIRST_SPREAD = 3.0
#: Standard deviations of a step that are tried; the last ones let every period stand alone.
SIGMAS = np.geomspace(0.01, 3.0, 15)
#: Rate of the exponential prior of sigma.
_RATE = 3.0
#: Newton's method stops when a step promises less than this.
_TOLERANCE, _MOST_STEPS, _MOST_HALVINGS = 1e-6, 60, 30
#: Standard deviation of a jump of log-ratios, and the number expected in a series.
_JUMP, _EXPECTED = 1.5, 1.0
#: Standard deviations of jumps that are looked for, as likely as each other. Of many classes a jump
#: of some is a small one of most log-ratios, which the wider alone takes for chance.
_LOOKED_FOR = np.array([0.5, 1.5])
#: Chance that a series without a jump is said to have one, and smallest chance of a jump that is
#: reckoned with.
_FALSE_ALARM, _RECKONED = 0.05, 0.1
#: Boundaries to both sides at which a jump may lie as well, and rounds of looking for jumps.
_NEAR, _MOST_ROUNDS = 3, 20


@dataclass(frozen=True, eq=False)
class PeriodTree:
    """Which rows belong to which period, and which periods follow each other.

    Attributes
    ----------
    offsets : int64 array of shape (G + 1,)
        Period g owns the rows from ``offsets[g]`` to ``offsets[g + 1]``.
    series : int64 array of shape (G,)
        Series of each period.
    times : array of shape (G,)
        Time of each period, in periods; different for all periods of a series.
    """

    offsets: Indices
    series: Indices
    times: Array

    def __post_init__(self) -> None:
        same = self.series[self.order][1:] == self.series[self.order][:-1]
        if (np.diff(self.times[self.order])[same] <= 0).any():
            raise ValueError("times must be different for all periods of a series")

    def __len__(self) -> int:
        """Return the number of periods G of all series."""
        return len(self.series)

    @cached_property
    def order(self) -> Indices:
        """The periods sorted by series and time, shape (G,)."""
        return np.lexsort((self.times, self.series)).astype(np.int64)

    @cached_property
    def steps(self) -> Array:
        """Time since the period before in the same series, in ``order``; NaN for the first."""
        series, times = self.series[self.order], self.times[self.order]
        steps = np.concatenate([[np.nan], np.diff(times)])
        steps[1:][series[1:] != series[:-1]] = np.nan
        return steps


@dataclass(frozen=True, eq=False)
class SmoothedPeriods(GroupDraws):
    """Posterior draws of the prevalences of periods, which follow random walks.

    Attributes
    ----------
    sigma : array of shape (n_draws,)
        Draws of the standard deviation of a step.
    jumped : bool array of shape (G,)
        Whether a jump was found between a period and the one with data before it.
    """

    sigma: Array
    jumped: NDArray[np.bool_]


def smooth_periods(
    templates: TemplateDraws,
    posteriors: NDArray[np.floating],
    tree: PeriodTree,
    *,
    positions: Indices | None = None,
    n_templates: int = 20,
    n_draws: int = 40,
    random_state: int = 0,
    n_threads: int = 1,
) -> SmoothedPeriods:
    """Return posterior draws of the prevalences of all periods.

    Parameters
    ----------
    templates : TemplateDraws
    posteriors : array of shape (m, d), in memory or on disk
    tree : PeriodTree
        Of the rows in the order of ``positions``.
    positions : int64 array, optional
        Rows of ``posteriors``, period after period; by default as they are.
    n_templates, n_draws : int
        Draws of the templates, and draws that are kept for each of them.
    random_state : int
    n_threads : int
        Draws of the templates that are worked on at once; the result does not depend on it.

    Returns
    -------
    SmoothedPeriods

    Raises
    ------
    ValueError
        If rows and draws would take more than 4 GiB.
    """
    k = templates.model.n_classes
    check_memory(int(tree.offsets[-1]), len(tree), k, n_templates * n_draws, n_threads)
    *seeds, last_seed = np.random.SeedSequence(random_state).spawn(2 * n_templates + 1)
    maps = [templates.draw(seed) for seed in seeds[:n_templates]]
    population: Draws = np.empty((n_templates * n_draws, len(tree), k), dtype=np.float32)
    sigma = np.empty(n_templates * n_draws)
    chosen = slice(None) if positions is None else positions
    jumps = _Walk(moment_densities(templates.model, posteriors[chosen], n_threads), tree).jumps()

    def work(number: int) -> bool:
        rows = maps[number](posteriors, positions)
        walk = _Walk(rows, tree)
        rng = np.random.default_rng(seeds[n_templates + number])
        part = slice(number * n_draws, (number + 1) * n_draws)
        places = _drawn_places(jumps, len(tree), rng)
        population[part], sigma[part], converged = walk.draw(n_draws, rng, places)
        return converged

    converged = for_each_template(work, n_templates, n_threads)
    shifts = common_shifts(maps, population, np.random.default_rng(last_seed))
    jumped = np.zeros(len(tree), dtype=np.bool_)
    jumped[[_with_data(tree, jump) for jump in jumps if jump.is_found]] = True
    return SmoothedPeriods(population, shifts, templates.varies, all(converged), sigma, jumped)


@dataclass(frozen=True, eq=False)
class _Jump:
    """A jump that there may be.

    Attributes
    ----------
    places : int64 array
        Numbers in the order of the tree: the jump is between such a period and the one before.
    chances : array of the same shape
        That it is there; together the chance that there is a jump.
    is_found : bool
    """

    places: Indices
    chances: Array
    is_found: bool


def _drawn_places(jumps: Sequence[_Jump], n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return where a draw has jumps, (n,)."""
    places = np.zeros(n, dtype=np.bool_)
    for jump in jumps:
        at = int(np.searchsorted(np.cumsum(jump.chances), rng.random()))
        if at < len(jump.places):
            places[jump.places[at]] = True
    return places


def _with_data(tree: PeriodTree, jump: _Jump) -> int:
    """Return the first period with data after the likeliest place of a jump."""
    sizes, place = np.diff(tree.offsets)[tree.order], int(jump.places[jump.chances.argmax()])
    later = np.flatnonzero(sizes[place:] > 0)
    return int(tree.order[place + (int(later[0]) if len(later) else 0)])


class _Walk:
    """The posterior of all log-ratios given rows of densities.

    Periods are taken in the order of the tree: series after series, by time.

    Parameters
    ----------
    rows : array of shape (m, k)
    tree : PeriodTree
    """

    def __init__(self, rows: Array, tree: PeriodTree) -> None:
        self.tree, self.rows = tree, rows
        self.basis = np.asarray(helmert(rows.shape[1])).T  # (k, k - 1)
        rank = np.empty(len(tree), dtype=np.int64)
        rank[tree.order] = np.arange(len(tree))
        sizes = np.diff(tree.offsets)
        self.owners = np.repeat(rank, sizes)
        self.sizes = sizes[tree.order].astype(np.float64)

    def draw(
        self, n_draws: int, rng: np.random.Generator, jumps: NDArray[np.bool_]
    ) -> tuple[Draws, Array, bool]:
        """Return prevalences (n_draws, G, k), sigmas (n_draws,) and whether Newton converged."""
        modes, factors, evidence, converged = self._modes(jumps)
        shape = modes[0].shape
        weights = softmax(evidence)
        chosen = rng.choice(len(weights), size=n_draws, p=weights)
        out = np.empty((n_draws, len(self.tree), shape[1] + 1), dtype=np.float32)
        for number, grid_point in enumerate(chosen):
            noise = rng.standard_normal(modes[0].size)
            # H = U'U and the draw has covariance H^-1 = U^-1 U^-T.
            moved = solve_banded((0, len(factors[grid_point]) - 1), factors[grid_point], noise)
            drawn = softmax((modes[grid_point] + moved.reshape(shape)) @ self.basis.T, axis=1)
            out[number, self.tree.order] = drawn
        return out, SIGMAS[::-1][chosen], converged

    def _modes(self, jumps: NDArray[np.bool_]) -> tuple[list[Array], list[Array], Array, bool]:
        """Return modes, factors and evidence for each of ``SIGMAS``, from the largest on."""
        eta = np.zeros((len(self.tree), self.basis.shape[1]))
        modes, factors, evidence, converged = [], [], [], True
        for sigma in SIGMAS[::-1]:  # from separate periods to a constant: each starts the next
            eta, factor, log_evidence, found = self._mode(
                eta, _precision(self.tree.steps, sigma, jumps)
            )
            converged &= found
            modes.append(eta)
            factors.append(factor)
            # The grid is geometric, so that the prior of log sigma counts.
            evidence.append(log_evidence + np.log(sigma) - _RATE * sigma)
        return modes, factors, np.array(evidence), converged

    def jumps(self) -> list[_Jump]:
        """Return the jumps that are found, and those that there may be."""
        inside = ~np.isnan(self.tree.steps)
        series = np.cumsum(~inside) - 1
        n_boundaries = np.bincount(series)[series] - 1.0
        places = np.zeros(len(inside), dtype=np.bool_)
        # One in twenty tables without jumps has a factor as large.
        enough = np.log(max(inside.sum(), 1.0) / _FALSE_ALARM)
        for _ in range(_MOST_ROUNDS):
            modes, _, evidence, _ = self._modes(places)
            each = [
                self._bayes_factors(eta, float(sigma), places)
                for eta, sigma in zip(modes, SIGMAS[::-1], strict=True)
            ]
            # A jump that is not reckoned with makes sigma large: both are judged together.
            joint = evidence[:, None] + np.array(each)
            factors = logsumexp(joint, axis=0) - logsumexp(evidence)
            factors[~inside | _beside(places, series)] = -np.inf
            new = _peaks(factors, series, enough)
            if not new.any():
                break
            places |= new
        odds = factors + np.log(_EXPECTED / np.maximum(n_boundaries, 1.0))
        maybe = _peaks(odds, series, np.log(_RECKONED))
        found = np.flatnonzero(places)
        chances = 1.0 / (1.0 + np.exp(-odds))
        chances[found] = 1.0
        return [
            self._placed(modes, joint[:, place].argmax(), places, place, float(chances[place]))
            for place in np.flatnonzero(places | maybe).tolist()
        ]

    def _placed(
        self,
        modes: list[Array],
        best: np.intp,
        places: NDArray[np.bool_],
        place: int,
        chance: float,
    ) -> _Jump:
        """Return a jump with the chances of the places near by, by their evidence."""
        eta, sigma = modes[best], float(SIGMAS[::-1][best])
        steps, others = self.tree.steps, places.copy()
        others[place] = False
        series = np.cumsum(np.isnan(steps))
        near = np.arange(max(place - _NEAR, 0), min(place + _NEAR + 1, len(steps)))
        near = near[(series[near] == series[place]) & ~np.isnan(steps[near]) & ~others[near]]
        evidence = []
        for other in near.tolist():
            moved = others.copy()
            moved[other] = True
            evidence.append(self._mode(eta, _precision(steps, sigma, moved))[2])
        return _Jump(near, chance * softmax(np.array(evidence)), bool(places[place]))

    def _bayes_factors(self, eta: Array, sigma: float, places: NDArray[np.bool_]) -> Array:
        """Return logarithms of the Bayes factors of jumps before each period, shape (G,)."""
        n, steps = len(eta), self.tree.steps
        _, gradient, information = self._likelihood(eta)
        pull = gradient + (information @ eta[:, :, None])[:, :, 0]
        variances = np.where(np.isnan(steps), np.inf, sigma**2 * steps + _JUMP**2 * places)
        behind = _messages(information[::-1], pull[::-1], np.append(np.inf, variances[:0:-1]))
        before = _messages(information, pull, variances)
        out = np.zeros(n)
        for t in np.flatnonzero(np.isfinite(variances)).tolist():
            (left, one), (right, other) = before[t - 1], behind[n - 1 - t]
            values, vectors = np.linalg.eigh(left + right)
            square = (vectors.T @ (one - other)) ** 2
            usual = values + variances[t]
            wide = usual + _LOOKED_FOR[:, None] ** 2
            each = 0.5 * (np.log(usual / wide) + square / usual - square / wide).sum(axis=1)
            out[t] = logsumexp(each) - np.log(len(each))
        return out

    def _mode(self, start: Array, precision: _Precision) -> tuple[Array, Array, float, bool]:
        """Find the mode of all log-ratios for one sigma, by Newton's method with halved steps.

        Returns it with the factor of the curvature there, the logarithm of the evidence for this
        sigma, and whether the method converged.
        """
        eta, d = start, start.shape[1]
        value, gradient, information = self._likelihood(eta)
        value -= 0.5 * precision.quadratic(eta)
        for _ in range(_MOST_STEPS):
            factor = cholesky_banded(precision.banded(information))
            slope = gradient - precision.times(eta)
            step = cho_solve_banded((factor, False), slope.ravel()).reshape(eta.shape)
            promised = float((slope * step).sum())
            if promised < _TOLERANCE * (1.0 + len(eta)):
                break
            for halving in range(_MOST_HALVINGS):
                trial = eta + 0.5**halving * step
                new, new_gradient, new_information = self._likelihood(trial)
                new -= 0.5 * precision.quadratic(trial)
                if new >= value:
                    break
            else:
                break  # no step goes up any more: rounding
            eta, value, gradient, information = trial, new, new_gradient, new_information
        else:
            factor = cholesky_banded(precision.banded(information))
            promised = np.inf
        log_det = 2.0 * float(np.log(factor[-1]).sum())
        evidence = value + 0.5 * d * precision.log_det - 0.5 * log_det
        return eta, factor, evidence, promised < np.inf

    def _likelihood(self, eta: Array) -> tuple[float, Array, Array]:
        """Return log-likelihood, gradient (G, d) and non-negative information (G, d, d)."""
        n, k = len(eta), self.rows.shape[1]
        logs = eta @ self.basis.T
        logs = logs - logsumexp(logs, axis=1, keepdims=True)
        alpha = np.exp(logs)
        joint = self.rows * alpha[self.owners]
        totals = np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        members = joint / totals
        sums = np.zeros((n, k))
        squares = np.zeros((n, k, k))
        for i in range(k):
            sums[:, i] = np.bincount(self.owners, weights=members[:, i], minlength=n)
            for j in range(i + 1):
                product = np.bincount(self.owners, members[:, i] * members[:, j], minlength=n)
                squares[:, i, j] = squares[:, j, i] = product
        gradient = (sums - self.sizes[:, None] * alpha) @ self.basis
        full = self.sizes[:, None, None] * (_diagonals(alpha) - alpha[:, :, None] * alpha[:, None])
        missing = _diagonals(sums) - squares
        information = self.basis.T @ (full - missing) @ self.basis
        values, vectors = np.linalg.eigh(information)
        positive = (vectors * np.maximum(values, 0.0)[:, None]) @ vectors.transpose(0, 2, 1)
        return float(np.log(totals).sum()), gradient, positive


def _messages(information: Array, pull: Array, variances: Array) -> list[tuple[Array, Array]]:
    """Return what the periods up to each one say of it: covariances (d, d) and means (d,).

    The likelihood of a period is exp(pull' eta - eta' information eta / 2), and ``variances`` are
    those of the steps to it (infinite: a series starts).
    """
    wide = np.eye(pull.shape[1]) * _FIRST_SPREAD**2
    out: list[tuple[Array, Array]] = []
    for own, gradient, variance in zip(information, pull, variances, strict=True):
        covariance, mean = wide, np.zeros(len(gradient))
        if np.isfinite(variance):
            covariance, mean = out[-1][0] + variance * np.eye(len(mean)), out[-1][1]
        precision = np.linalg.inv(covariance)
        posterior = np.linalg.inv(precision + own)
        out.append((posterior, posterior @ (precision @ mean + gradient)))
    return out


def _beside(places: NDArray[np.bool_], series: Indices) -> NDArray[np.bool_]:
    """Return which places have a jump near by in the same series."""
    out = np.zeros_like(places)
    for place in np.flatnonzero(places).tolist():
        near = slice(max(place - _NEAR, 0), place + _NEAR + 1)
        out[near] |= series[near] == series[place]
    return out


def _peaks(values: Array, series: Indices, least: float) -> NDArray[np.bool_]:
    """Return the largest value of each series, if it is larger than a bound."""
    order = np.lexsort((values, series))
    last = order[np.append(series[order][1:] != series[order][:-1], True)]
    out = np.zeros(len(values), dtype=np.bool_)
    out[last[values[last] > least]] = True
    return out


@dataclass(frozen=True, eq=False)
class _Precision:
    """The tridiagonal precision matrix of one log-ratio at all periods.

    Attributes
    ----------
    diagonal : array of shape (G,)
    beside : array of shape (G,)
        Entries between each period and the one before; zero for the first of a series.
    log_det : float
    """

    diagonal: Array
    beside: Array
    log_det: float

    def times(self, eta: Array) -> Array:
        """Return the product with log-ratios (G, d)."""
        out = self.diagonal[:, None] * eta
        out[1:] += self.beside[1:, None] * eta[:-1]
        out[:-1] += self.beside[1:, None] * eta[1:]
        return np.asarray(out)

    def quadratic(self, eta: Array) -> float:
        """Return eta' Q eta, summed over log-ratios."""
        return float((eta * self.times(eta)).sum())

    def banded(self, information: Array) -> Array:
        """Return the sum with blocks (G, d, d) on the diagonal, as an upper banded matrix."""
        n, d = information.shape[:2]
        out = np.zeros((d + 1, n * d))
        for i in range(d):
            for j in range(i, d):
                out[d - (j - i), np.arange(n) * d + j] = information[:, i, j]
        out[d] += np.repeat(self.diagonal, d)
        out[0] += np.repeat(self.beside, d)
        return out


def _precision(steps: Array, sigma: float, jumps: NDArray[np.bool_] | bool = False) -> _Precision:
    """Return the precision of a random walk whose steps take so long (NaN: a series starts)."""
    starts = np.isnan(steps)
    variances = sigma**2 * steps + _JUMP**2 * np.asarray(jumps)
    own = 1.0 / np.where(starts, _FIRST_SPREAD**2, variances)
    beside = np.where(starts, 0.0, -own)
    diagonal = own.copy()
    diagonal[:-1] -= beside[1:]
    return _Precision(diagonal, beside, float(np.log(own).sum()))


def _diagonals(vectors: Array) -> Array:
    """Return diagonal matrices (n, k, k) of vectors (n, k)."""
    return np.asarray(vectors[:, :, None] * np.eye(vectors.shape[1]))
