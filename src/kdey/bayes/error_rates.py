r"""Prevalences from decisions whose error rates are uncertain: Bayesian adjusted counting.

A test, such as a classifier, a laboratory test or a person, gives every instance one of d
decisions. Its error rates are the probabilities of the decisions in each class, columns of a
d x k matrix with a Dirichlet distribution each, which comes from counts of a validation study or
from the intervals of experts. Several tests of the same instances are assumed to err independently
within a class. The posterior distribution is sampled by three exact draws in turn (Joseph, Gyorkos
and Coupal, 1995): how many instances of each pattern of decisions belong to which class, the
prevalence given these counts, and the error rates given these counts. So the draws include the
uncertainty of the error rates, and what the bag itself says about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv

from kdey.bags import Array
from kdey.bayes.chains import check_effort, check_prior, run_chains, seed_sequence, warm_up
from kdey.bayes.sampling import PosteriorDraws
from kdey.simplex import counts_from_interval, in_class_order
from kdey.validation import refuse_masked

#: Smallest draw of a gamma variable: products of rates stay representable.
_SMALLEST = 1e-280


@dataclass(frozen=True, eq=False)
class ErrorRates:
    """What is known about the error rates of a test before the bag is seen.

    Attributes
    ----------
    parameters : array of shape (d, k)
        Column i holds the Dirichlet parameters of the decisions in class i.
    low, high : arrays of shape (k,) or None
        Bounds of the probability of the last of two decisions in each class; None if there are
        none.
    """

    parameters: Array
    low: Array | None = None
    high: Array | None = None

    @classmethod
    def from_counts(cls, counts: ArrayLike, prior: float = 1.0) -> Self:
        """Return the error rates that a validation study gives.

        Parameters
        ----------
        counts : array-like of shape (d, k)
            ``counts[i, j]`` is the number of instances of class j with decision i.
        prior : float
            Added to every count; 1 is uniform.

        Raises
        ------
        ValueError
            If the counts are no such numbers.
        """
        return cls(check_counts(counts) + _positive(prior, "prior"))

    @classmethod
    def from_intervals(
        cls,
        sensitivity: tuple[float, float, float],
        specificity: tuple[float, float, float],
        confidence: float = 0.95,
    ) -> Self:
        """Return the error rates of a binary test from published rates with their intervals.

        Parameters
        ----------
        sensitivity, specificity : tuples (rate, low, high)
        confidence : float
            Confidence of the intervals.

        Raises
        ------
        ValueError
            If a rate is not within its interval.
        """
        positives = counts_from_interval(*sensitivity, confidence, "sensitivity")
        negatives = counts_from_interval(*specificity, confidence, "specificity")
        columns = [[negatives[0], positives[1]], [negatives[1], positives[0]]]
        return cls(np.array(columns) + 0.5)

    @classmethod
    def uniform(
        cls,
        sensitivity: tuple[float, float] = (0.0, 1.0),
        specificity: tuple[float, float] = (0.0, 1.0),
    ) -> Self:
        """Return the error rates of a binary test, uniform between bounds.

        Parameters
        ----------
        sensitivity, specificity : tuples (low, high)

        Raises
        ------
        ValueError
            If bounds are not ordered or leave [0, 1].
        """
        for name, (low, high) in (("sensitivity", sensitivity), ("specificity", specificity)):
            if not 0.0 <= low < high <= 1.0:
                raise ValueError(
                    f"{name} needs bounds 0 <= low < high <= 1, got {low!r} and {high!r}"
                )
        return cls(
            np.ones((2, 2)),
            np.array([1.0 - specificity[1], sensitivity[0]]),
            np.array([1.0 - specificity[0], sensitivity[1]]),
        )

    def draw(self, counts: Array, rng: np.random.Generator) -> Array:
        """Return a draw of the error rates given decisions.

        Parameters
        ----------
        counts : array of shape (n_chains, d, k)
            Numbers of instances by decision and class.
        rng : numpy.random.Generator

        Returns
        -------
        array of shape (n_chains, d, k)
            Columns sum to one.
        """
        parameters = self.parameters + counts
        if self.low is None or self.high is None:
            return _dirichlet(np.swapaxes(parameters, 1, 2), rng).swapaxes(1, 2)
        b, a = parameters[:, 0], parameters[:, 1]  # of the second decision
        first, last = betainc(a, b, self.low), betainc(a, b, self.high)
        u = first + rng.random(a.shape) * (last - first)
        second = np.clip(betaincinv(a, b, u), self.low, self.high)
        return np.stack([1.0 - second, second], axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class ErrorRateDraws(PosteriorDraws):
    """Draws of prevalences and of the error rates of tests.

    Attributes
    ----------
    rates : tuple of arrays of shape (n_draws, d, k)
        Error rates of each test: entry (n, i, j) is the probability of decision i in class j.
    """

    rates: tuple[Array, ...] = ()


def sample_error_rates(
    tests: ErrorRates | Sequence[ErrorRates],
    counts: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    prior: ArrayLike = 1.0,
    min_ess: float = 400.0,
    n_chains: int = 4,
    max_sweeps: int = 20_000,
    random_state: Any = None,
) -> ErrorRateDraws:
    """Draw prevalences of a bag from the decisions of one or more tests with uncertain rates.

    Parameters
    ----------
    tests : ErrorRates, or sequence of ErrorRates
        Several tests of the same instances are independent within a class.
    counts : array-like of shape (d_1, ..., d_T)
        How many instances of the bag have each combination of decisions of the T tests. For a
        single binary test it is (negative, positive).
    classes : array-like of shape (k,), optional
        Default: 0, ..., k - 1.
    prior : float or array-like of shape (k,)
        Parameters of the Dirichlet prior of the prevalences; 1 is uniform.
    min_ess, n_chains, max_sweeps, random_state
        As for :func:`kdey.sample_posterior`.

    Returns
    -------
    ErrorRateDraws

    Raises
    ------
    ValueError
        If the arguments do not fit.

    Warns
    -----
    SamplingWarning
        If the chains stopped at ``max_sweeps`` without convergence, for example because the rates
        are so vague that classes can be exchanged.

    Examples
    --------
    >>> from kdey.bayes import ErrorRates, sample_error_rates
    >>> test = ErrorRates.from_counts([[95, 10], [5, 90]])  # decisions by class
    >>> draws = sample_error_rates(test, [880, 120], random_state=0)
    >>> draws.mean().round(1)
    array([0.9, 0.1])
    """
    several = (tests,) if isinstance(tests, ErrorRates) else tuple(tests)
    table = _table(several, counts)
    k = several[0].parameters.shape[1]
    names = np.arange(k) if classes is None else np.asarray(classes)
    if names.shape != (k,):
        raise ValueError(f"classes must have shape ({k},), got {names.shape}")
    parameters = check_prior(in_class_order(prior, names, "prior"), k)
    check_effort(min_ess, n_chains, max_sweeps)
    seed = seed_sequence(random_state)
    chains = _Chains(several, table, parameters, n_chains, np.random.default_rng(seed))
    drawn = run_chains(chains.sweep, table.sum(), min_ess, max_sweeps)
    return ErrorRateDraws(
        classes=names,
        prior=parameters,
        template_noise=True,
        rates=chains.rates_after(warm_up(drawn["n_sweeps"])),
        **drawn,
    )


class _Chains:
    """Chains over the patterns of decisions that occur in the bag."""

    def __init__(
        self,
        tests: tuple[ErrorRates, ...],
        table: NDArray[np.int64],
        prior: Array,
        n_chains: int,
        rng: np.random.Generator,
    ) -> None:
        self.tests, self.prior, self.rng = tests, prior, rng
        self.patterns = np.argwhere(table > 0)  # (n_patterns, n_tests)
        self.counts = table[table > 0]
        k = len(prior)
        self.alpha = _dirichlet(np.ones((n_chains, k)), rng)
        nothing = [np.zeros((n_chains, *test.parameters.shape)) for test in tests]
        self.rates = [test.draw(zero, rng) for test, zero in zip(tests, nothing, strict=True)]
        self.history: list[list[Array]] = [[] for _ in tests]

    def sweep(self, n_sweeps: int) -> tuple[Array, Array]:
        """Go on by a number of sweeps; return prevalences and class counts after each."""
        shape = (len(self.alpha), n_sweeps, len(self.prior))
        alpha, classed = np.empty(shape), np.empty(shape)
        for number in range(n_sweeps):
            members = self._members()
            classed[:, number] = members.sum(axis=1)
            self.alpha = _dirichlet(self.prior + classed[:, number], self.rng)
            alpha[:, number] = self.alpha
            for t, test in enumerate(self.tests):
                self.rates[t] = test.draw(self._by_decision(t, members), self.rng)
                self.history[t].append(self.rates[t])
        return alpha, classed

    def rates_after(self, first: int) -> tuple[Array, ...]:
        """Return the error rates without the first sweeps, chain after chain."""
        return tuple(
            np.stack(part[first:], axis=1).reshape(-1, *part[0].shape[1:]) for part in self.history
        )

    def _members(self) -> Array:
        """Draw how many instances of each pattern belong to each class, (C, n_patterns, k)."""
        joint = np.repeat(self.alpha[:, None, :], len(self.patterns), axis=1)
        for t, rates in enumerate(self.rates):
            joint = joint * rates[:, self.patterns[:, t], :]
        joint = np.maximum(joint, _SMALLEST)
        shares = joint / joint.sum(axis=2, keepdims=True)
        return self.rng.multinomial(self.counts, shares).astype(np.float64)

    def _by_decision(self, t: int, members: Array) -> Array:
        """Return the class counts by the decision of one test, shape (C, d, k)."""
        counts = np.zeros((len(members), *self.tests[t].parameters.shape))
        for decision in range(counts.shape[1]):
            chosen = self.patterns[:, t] == decision
            counts[:, decision] = members[:, chosen].sum(axis=1)
        return counts


def check_counts(counts: ArrayLike) -> Array:
    """Return numbers of instances by decision and class, (d, k), or raise ValueError."""
    try:
        table = np.asarray(refuse_masked(counts, "counts"), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"counts must be a table of numbers: {error}") from error
    if table.ndim != 2 or min(table.shape) < 2:
        raise ValueError(
            "counts must have one row per decision and one column per class, at least two of "
            f"each, got shape {table.shape}"
        )
    if not np.isfinite(table).all() or (table < 0).any():
        raise ValueError("counts must be finite and not negative")
    return table


def _table(tests: tuple[ErrorRates, ...], counts: ArrayLike) -> NDArray[np.int64]:
    """Return the counts of combinations of decisions, or raise ValueError."""
    if not tests:
        raise ValueError("tests must name at least one test")
    if len({test.parameters.shape[1] for test in tests}) > 1:
        raise ValueError("all tests must have the same number of classes")
    table = np.asarray(refuse_masked(counts, "counts"))
    shape = tuple(len(test.parameters) for test in tests)
    if table.shape != shape:
        raise ValueError(
            f"counts must have one axis per test with one entry per decision, shape {shape}, got "
            f"{table.shape}"
        )
    whole = table.astype(np.float64)
    if not np.isfinite(whole).all() or (whole < 0).any() or (whole % 1 != 0).any():
        raise ValueError("counts must be whole numbers, not negative")
    if whole.sum() == 0:
        raise ValueError("counts has no instance")
    return whole.astype(np.int64)


def _positive(value: float, name: str) -> float:
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive and finite, got {value!r}")
    return float(value)


def _dirichlet(parameters: Array, rng: np.random.Generator) -> Array:
    """Return draws from Dirichlet distributions along the last axis, in the same shape."""
    drawn = np.maximum(rng.standard_gamma(parameters), _SMALLEST)
    return np.asarray(drawn / drawn.sum(axis=-1, keepdims=True))
