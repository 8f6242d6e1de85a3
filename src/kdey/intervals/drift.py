r"""How wrong could it be? Intervals if the classes themselves have changed since training.

Label shift says that a class looks in the bag as it did in training. Where it does not, no check
can see a change along the direction that separates the classes: it looks like a change of shares.
We therefore say how large a change would overturn the answer. Let the density of every class have
changed by a factor between 1 / G and G. With features :math:`\phi` whose means in training class l
are known (the moment equation of ``moments.py``), the mean in the changed class is any

.. math:: \sum_j w_{lj} \phi_{lj}, \qquad \frac{1}{G n_l} \le w_{lj} \le \frac{G}{n_l}, \quad
          \sum_j w_{lj} = 1,

and a prevalence :math:`\alpha` remains possible if :math:`\sum_l \alpha_l` times such means lies
within sampling error of the bag's mean q. The largest and smallest share of a class, or of a sum of
classes, are linear programmes in :math:`v_{lj} = \alpha_l w_{lj}`.

**Column generation.** The programme has one variable for every label, but few constraints. We keep
a small programme over some extreme means and let its prices ask for more: the extreme mean of class
l in direction u gives weight G to the top 1 / (G + 1) of the class by :math:`u'\phi` (one row has a
weight in between) and 1 / G to the rest, which sorting finds; the ellipsoid of sampling error is
one more source of columns. Prices bound what is left to gain, and we stop at ``TOLERANCE``. Two
classes have one feature and need no programme: a mean lies between two extremes.

**Sampling error.** A density ratio of at most G multiplies variances by at most G, so that the
error of q and of the templates has a covariance of at most G V, with V that of the intervals
without drift at the prevalence in question, few-label protection included. As in ``profile.py``, a
share is possible if its squared distance from the bag exceeds that of the nearest mixture by no
more than the square of Student's quantile, which is that of one share by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from kdey.bags import Array, Indices
from kdey.intervals.analytic import AnalyticUncertainty
from kdey.intervals.merging import MergedUncertainty, NoisyUncertainty, StratifiedUncertainty
from kdey.intervals.moments import features, smoothed
from kdey.intervals.region import Uncertainty
from kdey.simplex import check_prevalence, in_class_order
from kdey.validation import as_numbers, is_number, make_frame

if TYPE_CHECKING:
    from kdey.intervals.differences import Difference
    from kdey.intervals.estimate import Estimate, Estimates

#: Factors of change for which intervals are shown.
FACTORS = (1.1, 1.25, 1.5, 2.0)
#: A share is known to be within this of the solution of its programme.
TOLERANCE = 1e-4
#: An end of an interval that moves by less is not computed again.
SETTLED = 5e-4
#: Variances below this share of the largest count as no smaller, and the slack of a ball's radius.
SMALLEST_RATIO, SLACK = 1e-8, 1e-6
#: Shares that differ by less are the same.
ROUNDING = 1e-9
#: Degrees of freedom from which Student's distribution counts as the normal one.
MOST_FREEDOM = 1e9
#: Largest number of rounds of column generation; about ten are typical.
MAX_ROUNDS = 200
#: How often an end of an interval is computed again, with the sampling error at the end itself.
REFINEMENTS = 2
#: Largest factor of change that a tipping point is looked for at, and its relative accuracy.
LARGEST_FACTOR, FACTOR_ACCURACY = 32.0, 0.002


def extreme_means(
    points: Array, weights: Array, offsets: Indices, u: Array, factor: float
) -> Array:
    """Return the mean of each class that reaches farthest in a direction.

    Parameters
    ----------
    points : array of shape (n, d)
        Features of the training instances, sorted by class.
    weights : array of shape (n,)
        They sum to one within each class.
    offsets : int array of shape (k + 1,)
    u : array of shape (d,)
    factor : float
        Each weight may change by a factor between its inverse and itself.

    Returns
    -------
    array of shape (k, d)
    """
    values, least = points @ u, 1.0 / factor
    means = np.empty((len(offsets) - 1, points.shape[1]))
    for number, (start, stop) in enumerate(pairwise(offsets.tolist())):
        order = start + np.argsort(-values[start:stop], kind="stable")
        w = weights[order]
        before = np.concatenate([[0.0], np.cumsum(w)[:-1]])
        # What is left of the mass 1 / (factor + 1) that gets the largest weight.
        raised = np.clip(1.0 / (factor + 1.0) - before, 0.0, w)
        means[number] = (least * w + (factor - least) * raised) @ points[order]
    return means


@dataclass(eq=False)
class _Programme:
    """The programmes of one bag at one factor, which share their columns.

    Attributes
    ----------
    centre : array of shape (d,)
        What the bag shows.
    extremes : callable
        From a direction (d,) to the farthest mean of each class (k, d).
    n_classes : int
    means, owners : extreme means that were asked for, and the class of each
    directions : points of the unit ball that were asked for
    """

    centre: Array
    extremes: Callable[[Array], Array]
    n_classes: int
    means: list[Array] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    directions: list[Array] = field(default_factory=list)

    def ask(self, u: Array) -> Array:
        """Add the farthest mean of each class in a direction; return them, (k, d)."""
        means = self.extremes(u)
        self.means.extend(means)
        self.owners.extend(range(self.n_classes))
        return means

    def nearest(self, whiten: Array) -> tuple[Array, float]:
        """Return the point nearest to the centre that a mixture can have, and its squared distance.

        Distances are those after multiplying by ``whiten`` (d, d).
        """
        from scipy.optimize import nnls  # slow to import

        if not self.means:
            self.ask(np.zeros(len(self.centre)))
        heavy = 1e3 * (1.0 + float(np.abs(whiten).max()))
        for _ in range(MAX_ROUNDS):
            columns = whiten @ np.array(self.means).T
            system = np.vstack([columns, np.full(columns.shape[1], heavy)])
            shares = nnls(system, np.append(whiten @ self.centre, heavy))[0]
            point = shares / shares.sum() @ np.array(self.means)
            rest = whiten @ (self.centre - point)
            gradient = whiten.T @ rest
            gain = float((self.ask(gradient) @ gradient).max() - gradient @ point)
            if gain <= 1e-6 * (1.0 + float(rest @ rest)):
                break
        return point, float(rest @ rest)

    def largest(self, gains: Array, whiten: Array, radius: float) -> tuple[float, Array]:
        """Return the largest gains' alpha that is possible, and the alpha (k,).

        Parameters
        ----------
        gains : array of shape (k,)
        whiten : array of shape (d, d)
            After multiplying by it, the ellipsoid of sampling error is a ball.
        radius : float
            Of the ball. The columns that are there must make a mixture within it.

        Raises
        ------
        ValueError
            If no mixture is within sampling error of the centre.
        """
        from scipy.optimize import linprog  # slow to import

        centre = np.append(whiten @ self.centre, [1.0, 1.0])
        d = len(self.centre)
        for _ in range(MAX_ROUNDS):
            owners, means = np.array(self.owners), np.array(self.means) @ whiten.T
            errors = radius * np.array(self.directions)
            n, e = len(means), len(errors)
            columns = np.vstack(
                [
                    np.concatenate([means, errors]).T,
                    np.repeat([1.0, 0.0], [n, e]),
                    np.repeat([0.0, 1.0], [n, e]),
                ]
            )
            costs = np.concatenate([-gains[owners], np.zeros(e)])
            solved = linprog(costs, A_eq=columns, b_eq=centre, method="highs")
            if solved.x is None:
                raise ValueError("no mixture of the changed classes has the mean of this bag")
            prices = solved.eqlin.marginals
            found, u = np.asarray(solved.x[:n]), np.asarray(prices[:d])
            direction, farthest = whiten.T @ u, _unit(u)
            left = max(float((self.ask(direction) @ direction + gains).max() + prices[d]), 0.0)
            left += max(float(radius * (farthest @ u) + prices[d + 1]), 0.0)
            self.directions.append(farthest)
            if left <= TOLERANCE:
                break
        alpha = np.bincount(owners, weights=found, minlength=self.n_classes)
        return left + float(gains[owners] @ found), alpha / alpha.sum()


def _unit(u: Array) -> Array:
    """Return a vector in the direction of u whose length is one."""
    length = float(np.linalg.norm(u))
    return np.asarray(u / length if length > 0 else np.eye(len(u))[0])


@dataclass(frozen=True, eq=False)
class Drift:
    """What remains possible of one bag if the classes have changed.

    Attributes
    ----------
    uncertainty : AnalyticUncertainty
    confidence : float
    n_intervals : int
        Number of intervals that should cover together; one for each by itself.
    """

    uncertainty: AnalyticUncertainty
    confidence: float
    n_intervals: int = 1

    @cached_property
    def rows(self) -> tuple[Array, Array, Indices]:
        """Features of the training rows in coordinates of shares, weights, and class offsets."""
        moments = self.uncertainty.moments
        training = moments.training
        assert training is not None
        phi = features(training.rows, moments.prevalence, moments.projection)
        # Shares sum to one: the last coordinate says nothing of its own.
        points = (phi @ moments.inverse.T)[:, :-1]
        w = training.weights.astype(np.float64)
        w /= np.add.reduceat(w, training.offsets[:-1])[training.owners]
        return points, w, training.offsets

    @cached_property
    def _programmes(self) -> dict[float, _Programme]:
        return {}

    def possible(self, gains: Array, factor: float, sampling: bool = True) -> tuple[float, float]:
        """Return the smallest and largest gains' alpha that is possible.

        Parameters
        ----------
        gains : array of shape (k,)
            One for the classes of a sum, zero for the others.
        factor : float
        sampling : bool
            Whether sampling error is added; without it, only what the drift leaves open.

        Returns
        -------
        low, high : float
        """
        low = -self._largest(-gains, factor, sampling)
        return max(low, 0.0), min(self._largest(gains, factor, sampling), 1.0)

    def _largest(self, gains: Array, factor: float, sampling: bool) -> float:
        alpha = self.uncertainty.mix
        value = -np.inf
        for _ in range(1 + REFINEMENTS * sampling):
            covariance = factor * self.uncertainty.covariance_at(alpha)[:-1, :-1]
            found, at = self._solve(gains, factor, covariance, sampling)
            if abs(found - value) <= SETTLED:
                break
            value = found
            size = self.uncertainty.equations.sizes[self.uncertainty.number]
            alpha = smoothed(at, size)
        return found

    def _solve(
        self, gains: Array, factor: float, covariance: Array, sampling: bool
    ) -> tuple[float, Array]:
        centre = self.uncertainty.centre()[:-1]
        points, weights, offsets = self.rows
        if len(centre) == 1:
            radius = self._radius(0.0) * float(np.sqrt(covariance[0, 0])) * sampling
            means = [
                extreme_means(points, weights, offsets, np.array([sign]), factor)[:, 0]
                for sign in (-1.0, 1.0)
            ]
            return _two_classes(gains, centre[0] - radius, centre[0] + radius, *means)
        if factor not in self._programmes:
            self._programmes[factor] = _Programme(
                centre,
                lambda u: extreme_means(points, weights, offsets, u, factor),
                len(offsets) - 1,
            )
        programme = self._programmes[factor]
        values, vectors = np.linalg.eigh(covariance)
        least = SMALLEST_RATIO * max(float(values[-1]), SMALLEST_RATIO)
        whiten = (vectors / np.sqrt(np.maximum(values, least))).T
        point, distance = programme.nearest(whiten)
        radius = self._radius(distance) if sampling else np.sqrt(distance)
        # The nearest mixture and the two ends of the line through the centre are a solution.
        towards = _unit(whiten @ (centre - point))
        programme.directions += [towards, -towards]
        return programme.largest(gains, whiten, radius * (1.0 + SLACK) + SLACK)

    def _radius(self, distance: float) -> float:
        """Return the radius of the ellipsoid of sampling error, in standard deviations.

        Parameters
        ----------
        distance : float
            Squared distance of the bag from the nearest mixture.
        """
        tail = (1.0 - self.confidence) / 2.0 / self.n_intervals
        freedom = min(self.uncertainty.freedom(), MOST_FREEDOM)
        return float(np.sqrt(stdtrit(freedom, tail) ** 2 + distance))


def _two_classes(
    gains: Array, first: float, last: float, low: Array, high: Array
) -> tuple[float, Array]:
    """Return the largest gains' alpha of two classes, and the alpha.

    A share a of the first class is possible if the lowest mean of the mixture is at most ``last``
    and its highest at least ``first``, both linear in a.
    """
    shares = [0.0, 1.0]
    for mean, bound in ((low, last), (high, first)):
        slope = mean[0] - mean[1]
        if slope != 0:
            shares.append(float((bound - mean[1]) / slope))

    def misses(a: float) -> float:
        lowest, highest = (a * mean[0] + (1.0 - a) * mean[1] for mean in (low, high))
        return float(max(lowest - last, first - highest))

    inside = [a for a in shares if 0.0 <= a <= 1.0]
    nearest = min(misses(a) for a in inside)
    possible = [a for a in inside if misses(a) <= max(nearest, 0.0) + 1e-12]
    best = max(possible, key=lambda a: gains[0] * a + gains[1] * (1.0 - a))
    return float(gains[0] * best + gains[1] * (1.0 - best)), np.array([best, 1.0 - best])


#: From gains (k,), a factor, and whether sampling error counts, to the smallest and largest share.
Possible: TypeAlias = Callable[[Array, float, bool], tuple[float, float]]


def unavailable(uncertainty: Uncertainty) -> str | None:
    """Return why sensitivity to drift cannot be computed, in a sentence; None if it can."""
    found = _possible(uncertainty, 0.95, 1)
    return found if isinstance(found, str) else None


def _possible(uncertainty: Uncertainty, confidence: float, n_intervals: int) -> Possible | str:
    """Return the function that knows which shares of a bag are possible; or why there is none."""
    if isinstance(uncertainty, NoisyUncertainty) and uncertainty.is_open:
        return (
            "sensitivity to drift needs known label noise: leave label_noise_bound out, or say by "
            "a matrix where the wrong labels belong"
        )
    if isinstance(uncertainty, MergedUncertainty):
        inner, matrix = _possible(uncertainty.inner, confidence, n_intervals), uncertainty.matrix
        if isinstance(inner, str):
            return inner
        return lambda gains, factor, sampling: inner(gains @ matrix, factor, sampling)
    if isinstance(uncertainty, StratifiedUncertainty):
        parts: list[Possible] = []
        for stratum in uncertainty.parts:
            part = _possible(stratum, confidence, n_intervals)
            if isinstance(part, str):
                return part
            parts.append(part)
        margin = -float(ndtri((1.0 - confidence) / 2.0 / n_intervals))
        return partial(_of_strata, uncertainty, parts, margin)
    if not isinstance(uncertainty, AnalyticUncertainty):
        return (
            "sensitivity to drift follows from analytic intervals, and this estimate has none: "
            "ACC, PACC, EMQ, DIR, KDEy-ML and Quantifier have them, where a bag has at least two "
            "instances and the table is not too large to keep what they are made of"
        )
    if uncertainty.moments.training is None:
        return (
            "sensitivity to drift needs the training posteriors, and this model keeps none: fit it "
            "with a cv that is not None"
        )
    return Drift(uncertainty, confidence, n_intervals).possible


def _of_strata(
    whole: StratifiedUncertainty,
    parts: Sequence[Possible],
    quantile: float,
    gains: Array,
    factor: float,
    sampling: bool,
) -> tuple[float, float]:
    """Return the smallest and largest share in a sum of strata."""
    low, high = whole.shares @ np.array([part(gains, factor, sampling) for part in parts])
    # The part of estimated shares of the strata; added, because it is small.
    error = np.sqrt(max(float(gains @ whole.between @ gains), 0.0)) * sampling
    return max(float(low) - quantile * error, 0.0), min(float(high) + quantile * error, 1.0)


def _possible_shares(estimate: Estimate) -> Possible:
    together = len(estimate.classes) if estimate.simultaneous else 1
    found = _possible(estimate.uncertainty, estimate.confidence, together)
    if isinstance(found, str):
        raise ValueError(found)
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """Intervals of the classes of one bag if the classes themselves have changed.

    Attributes
    ----------
    classes : array of shape (k,)
    estimate : array of shape (k,)
    factors : array of shape (F,)
        Rising; the first is one: nothing but the prevalences has changed.
    low, high : arrays of shape (F, k)
        Ends of the intervals if the density of every class may have changed by a factor of up to
        each of ``factors``.
    confidence : float
    explained_from : float or None
        No smaller factor than this explains the scores of the bag: a lower bound of the change
        there was. One where none is needed; None if the scores of the bag are not kept.

    See Also
    --------
    kdey.Estimate.sensitivity : Compute it.
    kdey.calibrate_drift : Which factor past samples have needed.
    """

    classes: NDArray[Any]
    estimate: Array
    factors: Array
    low: Array
    high: Array
    confidence: float
    explained_from: float | None = None

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per factor and class.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
        """
        n, k = self.low.shape
        columns = {
            "factor": np.repeat(self.factors, k),
            "class": list(self.classes) * n,
            "estimate": np.tile(self.estimate, n),
            "low": self.low.ravel(),
            "high": self.high.ravel(),
        }
        return make_frame(columns, backend)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the interval of each class against the factor; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default a new figure.

        Returns
        -------
        kdey.plots.DriftDisplay
            With ``ax_`` and ``figure_``.
        """
        import kdey  # Displays are a layer above estimates, so we reach them by the public name.

        return kdey.plots.DriftDisplay.from_sensitivity(self, ax=ax)

    def __repr__(self) -> str:
        """Return a text table with one line per class and a column per factor."""
        names = [str(label) for label in self.classes]
        width = max(5, *(len(name) for name in names))
        head = "".join(f"{f'x {factor:.4g}':>15}" for factor in self.factors)
        lines = [
            "Shares in percent if the density of every class may have changed by a factor of up to",
            f"{'class'.ljust(width)}{'estimate':>10}{head}",
        ]
        for i, name in enumerate(names):
            ends = zip(self.low[:, i], self.high[:, i], strict=True)
            cells = "".join(f"{f'{100 * a:.1f} to {100 * b:.1f}':>15}" for a, b in ends)
            lines.append(f"{name.ljust(width)}{100 * self.estimate[i]:>10.1f}{cells}")
        if self.explained_from is not None and self.explained_from > 1.0:
            lines.append(
                f"(the scores of this sample need a change by a factor of "
                f"{self.explained_from:.2f} at least)"
            )
        return "\n".join(lines)


def drift_intervals(estimate: Estimate, factors: Sequence[float]) -> tuple[Array, Array]:
    """Return the intervals of each class at rising factors of change, two arrays (F, k).

    Intervals never shrink as the factor grows, and contain those of the estimate.
    """
    possible, k = _possible_shares(estimate), len(estimate.classes)
    found = [[possible(unit, factor, True) for unit in np.eye(k)] for factor in factors]
    ends = np.reshape(found, (len(factors), k, 2)) + 0.0  # no negative zeros
    low = np.minimum.accumulate(np.vstack([estimate.low, ends[:, :, 0]]))[1:]
    high = np.maximum.accumulate(np.vstack([estimate.high, ends[:, :, 1]]))[1:]
    return low, high


def drift_intervals_of_bags(estimates: Estimates, factor: float) -> tuple[Array, Array, str | None]:
    """Return the intervals of many bags at one factor, and why some have none.

    Returns
    -------
    low, high : arrays of shape (n_bags, k)
        NaN where there are none.
    reason : str or None
    """
    ends = np.full((2, len(estimates), len(estimates.classes)), np.nan)
    reason = None
    for number, estimate in enumerate(estimates):
        lacking = unavailable(estimate.uncertainty)
        if lacking is None:
            ends[:, number] = [side[0] for side in drift_intervals(estimate, [factor])]
        reason = reason or lacking
    return ends[0], ends[1], reason


def sensitivity(estimate: Estimate, factors: ArrayLike = FACTORS) -> Sensitivity:
    """Return the intervals at several factors; see :meth:`kdey.Estimate.sensitivity`."""
    values = np.unique(np.atleast_1d(np.asarray(factors, dtype=np.float64)))
    if values.size == 0 or not (np.isfinite(values) & (values >= 1.0)).all():
        raise ValueError(f"factors must be finite numbers of at least 1, got {factors!r}")
    values = values[values > 1.0]
    low, high = drift_intervals(estimate, values.tolist())
    return Sensitivity(
        estimate.classes,
        estimate.estimate,
        np.concatenate([[1.0], values]),
        np.vstack([estimate.low, low]),
        np.vstack([estimate.high, high]),
        estimate.confidence,
        explained_from(estimate),
    )


def smallest_factor(holds: Callable[[float], bool]) -> float:
    """Return the smallest factor at which a statement that drift overturns no longer holds.

    Parameters
    ----------
    holds : callable
        Whether it holds at a factor above one. Once it fails it fails at all larger ones.

    Returns
    -------
    float
        Infinite if it holds at :data:`LARGEST_FACTOR`.
    """
    if holds(LARGEST_FACTOR):
        return float("inf")
    low, high = 1.0, LARGEST_FACTOR
    while high / low > 1.0 + FACTOR_ACCURACY:
        # Most tipping points are near one: halve the logarithm's root, not the interval.
        middle = float(np.exp(((np.sqrt(np.log(low)) + np.sqrt(np.log(high))) / 2.0) ** 2))
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def class_number(classes: NDArray[Any], label: Any) -> int:
    """Return the position of a class, or raise ValueError."""
    known = list(classes)
    if label not in known:
        names = ", ".join(map(str, known[:10]))
        raise ValueError(f"label must be one of {names}, got {label!r}")
    return known.index(label)


def tipping_point(
    estimate: Estimate, label: Any, above: float | None = None, below: float | None = None
) -> float:
    """Return the factor that overturns a statement; see :meth:`kdey.Estimate.tipping_point`."""
    if (above is None) == (below is None):
        raise ValueError("say which statement is meant: above=0.3, or below=0.3")
    bound = above if above is not None else below
    if not is_number(bound) or not -ROUNDING <= bound <= 1.0 + ROUNDING:
        raise ValueError(f"above and below must be shares between 0 and 1, got {bound!r}")
    bound = min(max(float(bound), 0.0), 1.0)
    i = class_number(estimate.classes, label)
    gains, possible = np.eye(len(estimate.classes))[i], _possible_shares(estimate)
    if above is not None:
        if estimate.low[i] <= bound:
            return 1.0
        return smallest_factor(lambda factor: possible(gains, factor, True)[0] > bound)
    if estimate.high[i] >= bound:
        return 1.0
    return smallest_factor(lambda factor: possible(gains, factor, True)[1] < bound)


def difference_tipping_point(difference: Difference, label: Any) -> float:
    """Return the factor that overturns a difference; see :meth:`kdey.Difference.tipping_point`.

    The drift of the two bags may differ, so that what it leaves open adds up; their sampling errors
    are independent, and the squares of these parts add up.
    """
    if difference.sides is None:
        raise ValueError("this difference does not know the estimates that it was made from")
    i = class_number(difference.classes, label)
    if difference.low[i] <= 0.0 <= difference.high[i]:
        return 1.0
    first, second = difference.sides
    if difference.high[i] < 0.0:
        first, second = second, first
    gains = np.eye(len(difference.classes))[i]
    more, less = _possible_shares(first), _possible_shares(second)

    def holds(factor: float) -> bool:
        low, high = more(gains, factor, False)[0], less(gains, factor, False)[1]
        down, up = low - more(gains, factor, True)[0], less(gains, factor, True)[1] - high
        return low - high > float(np.hypot(max(down, 0.0), max(up, 0.0)))

    return smallest_factor(holds)


def calibrate_drift(
    estimates: Estimates, prevalences: ArrayLike, *, coverage: float = 1.0
) -> float:
    """Return the smallest factor of change whose intervals would have covered past samples.

    Parameters
    ----------
    estimates : Estimates
        Of past samples, made without their labels.
    prevalences : array-like of shape (n_bags, k)
        What the labels of these samples said, in the order of ``estimates.classes``; the columns
        of a data frame are matched with them by name. Where all instances were labelled, estimate
        with ``target="bag"``: the intervals are then about these instances and no others.
    coverage : float in (0, 1]
        Share of the intervals, of all samples and classes, that must cover. One asks for all of
        them; those of label shift miss one in twenty even where nothing drifts.

    Returns
    -------
    float
        One if the intervals without drift do; infinite if no factor does.

    Raises
    ------
    ValueError
        If the shares do not fit the estimates, or these have no analytic intervals.

    See Also
    --------
    kdey.Estimate.sensitivity : Intervals at several factors.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.PACC().fit(X[::2], y[::2])
    >>> past = q.estimate_bags(X[1::2], [range(30), range(40, 75)], check_fit=False)
    >>> kdey.calibrate_drift(past, [[25 / 30, 5 / 30, 0], [0, 10 / 35, 25 / 35]])
    1.0
    """
    if not is_number(coverage) or not 0.0 < coverage <= 1.0:
        raise ValueError(f"coverage must be above 0 and at most 1, got {coverage!r}")
    k = len(estimates.classes)
    by_class = in_class_order(prevalences, estimates.classes, "prevalences")
    truth = as_numbers(by_class, "prevalences")
    if truth.shape != (len(estimates), k) or not len(truth):
        raise ValueError(f"prevalences must have shape {(len(estimates), k)}, got {truth.shape}")
    needed = []
    for estimate, shares in zip(estimates, truth, strict=True):
        for label, share in zip(
            estimates.classes, check_prevalence(shares, k, classes=None), strict=True
        ):
            # An interval covers a share if it does not say that the share is larger, or smaller.
            sides = ({"above": share - ROUNDING}, {"below": share + ROUNDING})
            needed.append(max(tipping_point(estimate, label, **side) for side in sides))
    return float(np.quantile(needed, coverage, method="inverted_cdf"))


#: Bins of the scores in all, about; at least two per class.
N_BINS = 12
#: Smallest expected number of instances of a bin.
SMALLEST_BIN = 5.0


def score_bins(training: Array, posteriors: Array) -> tuple[Indices, Indices]:
    """Return the bins of training and other posteriors: the class decided for, and how clearly.

    Parameters
    ----------
    training : array of shape (n, k)
    posteriors : array of shape (m, k)

    Returns
    -------
    training_bins, bins : int arrays of shape (n,) and (m,)
        Within each class, bins have about the same number of training instances.
    """
    k = training.shape[1]
    per_class = max(2, N_BINS // k)
    decided, other = training.argmax(axis=1), posteriors.argmax(axis=1)
    sure, other_sure = training.max(axis=1), posteriors.max(axis=1)
    places = [np.zeros(len(rows), dtype=np.int64) for rows in (training, posteriors)]
    for label in range(k):
        own = sure[decided == label]
        if len(own):
            cuts = np.quantile(own, np.arange(1, per_class) / per_class)
            for place, codes, values in zip(
                places, (decided, other), (sure, other_sure), strict=True
            ):
                is_own = codes == label
                place[is_own] = np.searchsorted(cuts, values[is_own], side="right")
    return decided * per_class + places[0], other * per_class + places[1]


def explained_from(estimate: Estimate) -> float | None:
    """Return the smallest factor of change that explains the scores of a bag.

    The scores are put into bins, over which a mixture of classes that changed by a factor of up to
    G must come within sampling error of the bag (chi-square at the confidence of the estimate). The
    changes that bins do not show need a larger factor: it is a lower bound.

    Returns
    -------
    float or None
        None if the scores of the bag are not kept, or not comparable with those of training.
    """
    uncertainty, decisions = estimate.uncertainty, estimate.decisions
    if not isinstance(uncertainty, AnalyticUncertainty) or decisions is None:
        return None
    model = uncertainty.model
    known = model.training
    if known is None or known.posteriors is None or not model.takes_posteriors:
        return None
    if known.posteriors.shape[1] != decisions.posteriors.shape[1]:
        return None
    bag = decisions.bags[estimate.number : estimate.number + 1]
    scores = np.asarray(decisions.posteriors)[bag.indices]
    weights = np.ones(len(scores)) if bag.weights is None else bag.weights
    training_weights = np.ones(len(known.labels)) if known.weights is None else known.weights
    first, other = score_bins(np.asarray(known.posteriors), scores)
    n_bins = int(max(first.max(), other.max())) + 1
    k = len(estimate.classes)
    templates = np.zeros((k, n_bins))
    np.add.at(templates, (known.labels, first), training_weights)
    sizes = np.bincount(known.labels, weights=training_weights, minlength=k) ** 2 / np.bincount(
        known.labels, weights=training_weights**2, minlength=k
    )
    templates /= templates.sum(axis=1, keepdims=True)
    shown = np.bincount(other, weights=weights, minlength=n_bins) / weights.sum()
    m = weights.sum() ** 2 / (weights**2).sum()
    return _smallest_explaining(templates, sizes, shown, float(m), estimate)


def _smallest_explaining(
    templates: Array, sizes: Array, shown: Array, m: float, estimate: Estimate
) -> float | None:
    from scipy.special import chdtri

    templates, shown = _merged_bins(templates, shown, m, estimate.estimate)
    k, n_bins = templates.shape
    if n_bins <= k:
        return None
    alpha = smoothed(estimate.estimate, m)
    covariance = _multinomial((alpha @ templates + shown) / 2.0, m)
    for share, template, size in zip(alpha, templates, sizes, strict=True):
        # A bin without a training instance of the class may still have a share of order 1 / n.
        raised = (size * template + 1.0 / n_bins) / (size + 1.0)
        covariance = covariance + share**2 * _multinomial(raised, float(size))
    points, weights = np.tile(np.eye(n_bins)[:, :-1], (k, 1)), templates.ravel()
    offsets = np.arange(k + 1) * n_bins
    values, vectors = np.linalg.eigh(covariance[:-1, :-1])
    threshold = float(chdtri(n_bins - k, 1.0 - estimate.confidence))

    def is_unexplained(factor: float) -> bool:
        least = SMALLEST_RATIO * float(values[-1])
        whiten = (vectors / np.sqrt(factor * np.maximum(values, least))).T
        programme = _Programme(
            shown[:-1], lambda u: extreme_means(points, weights, offsets, u, factor), k
        )
        return programme.nearest(whiten)[1] > threshold

    return smallest_factor(is_unexplained) if is_unexplained(1.0) else 1.0


def _multinomial(shares: Array, size: float) -> Array:
    return np.asarray((np.diag(shares) - np.outer(shares, shares)) / size)


def _merged_bins(templates: Array, shown: Array, m: float, alpha: Array) -> tuple[Array, Array]:
    """Return templates (k, bins) and shares of a bag (bins,) with small bins put together."""
    expected = m * (alpha @ templates)
    group = np.minimum(np.floor(np.cumsum(expected) / SMALLEST_BIN), np.floor(m / SMALLEST_BIN))
    codes = np.unique(group, return_inverse=True)[1]
    merging = np.eye(int(codes.max()) + 1)[codes]
    return templates @ merging, shown @ merging
