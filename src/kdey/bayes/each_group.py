r"""Intervals that hold for each group, and groups that do not belong to the others.

What a group says by itself is known as ends of separate intervals at several levels. Read the other
way round they give a *normal score* :math:`S_g(t)` for every share t: the estimate of group g lies
this many standard deviations above what a group with the share t would show, so that the ends of a
separate interval are the shares with :math:`S = \pm z_{\alpha/2}`.

**What the others say.** The shares of groups are :math:`\mathrm{Beta}(\kappa\mu,
\kappa(1 - \mu))`, as in ``pooling.py``, and one group in a hundred has any share. On a grid of
:math:`(\mu, \kappa)` the likelihood of the other groups gives the predictive distribution
:math:`\pi_g` of the share of group g, which has not seen g.

**A group does not belong** to the others if its estimate is too far out under :math:`\pi_g`: the
smaller of the chances :math:`\int \pi_g(t) \Phi(\mp S_g(t)) \, dt` of an estimate as large or as
small, doubled, is below 0.07 over the number of shares that are tested. The normal probability is
at least that of such a count among error-free labels, whose tails are longer where it is small.

Separate intervals hold the errors of the templates, which all groups have in common: where classes
overlap, they alone make every share possible. The *rows* of groups can be compared without them.
The mean membership of a group in a class, on a scale where the class itself has 1 and the others,
mixed as in the whole table, have 0, goes with the share, and differs from it by the same errors in
all groups; its own error is that of a mean of rows. The same test of these means, at 0.03 because
their errors are taken to be normal, sees groups that differ in rows of which nobody can say what
shares they mean. They also say whether the larger half of the groups differs from the smaller one:
small groups by themselves seldom show it.

**Valid for each group.** Any function :math:`u_g(t) \in [0, 1]` that does not depend on the rows of
group g gives a valid interval of it (Yu and Hoff, Biometrika 105, 2018): all shares t with

.. math:: -z_{\alpha (1 - u_g(t))} \le S_g(t) \le z_{\alpha u_g(t)} .

It is narrowest, on average over :math:`\pi_g`, if u makes the chance least that a group like the
others has an estimate that is accepted at t. Where the share of the group is as the others lead us
to expect, the interval is narrower than the separate one; where it is not, it is wider; it covers
in either case. One group in ten may have any share, so that far from the others the interval
becomes the separate one again. The estimate of a group is pooled, as far as that stays inside
its interval.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtr, ndtri, softmax

from kdey.bags import Array, Indices, offsets_of
from kdey.bayes.pooling import GroupTree, shrink_groups
from kdey.bayes.sampling import TemplateDraw, TemplateDraws
from kdey.intervals.moments import adapted, smoothed
from kdey.options import EACH_GROUP

#: Groups that are needed to say something of another one.
FEWEST = 5
#: Tails of the separate intervals that scores are read from, relative to that asked for.
LEVELS = (0.04, 0.2, 1.0, 2.0)
#: Bound on the chance that some group of a table is said not to belong where all do. It is a rough
#: one; ``docs/lab/hard-cases.md`` has what was measured.
FALSE_ALARM = 0.1
#: Groups are not said to be all alike where the least of their p-values, adjusted, is below this,
#: or where halves of them differ at this level.
_HINT, _SIZE_LEVEL = 0.2, 0.05
#: Share of groups that may have any share: where the others are learnt from, and in intervals.
_STRANGE, _WIDE = 0.01, 0.1
_CELLS, _MEANS, _CONCENTRATIONS = 200, 21, 12
#: Median size of groups above which small concentrations do not rise with it.
_SMALL = 100.0
#: Part of the false alarms that the test of rows may make.
_BY_ROWS = 0.3
#: Instances by which the spread of rows is the common one; smallest distance of a class.
_SPREAD_ROWS, _SMALLEST = 10.0, 1e-6
#: Variance below which means of equal rows differ by rounding alone.
_ROUNDING = 1e-20
#: Shares of the error that may lie above an accepted estimate, and scores at which they are tried.
_SPLITS, _SCORES = np.linspace(0.02, 0.98, 49), np.linspace(3.2, -3.2, 81)
#: Numbers per array of a chunk of groups, which bounds the memory.
_CHUNK = 1 << 24


@dataclass(frozen=True, eq=False)
class SeparateEnds:
    """Ends of separate intervals of G groups at several levels.

    Attributes
    ----------
    shares : array of shape (L, G, k)
        Ascending: lower ends of the widest interval to the narrowest, estimates, upper ends.
    scores : array of shape (L,)
        Normal scores of the ends, descending.
    """

    shares: Array
    scores: Array

    @classmethod
    def of(cls, estimate: Array, ends: list[tuple[Array, Array]], tail: float) -> SeparateEnds:
        """Return them from intervals (low, high) at ``LEVELS`` times this tail."""
        lows, highs = [low for low, _ in ends], [high for _, high in reversed(ends)]
        shares = np.maximum.accumulate(np.array([*lows, estimate, *highs]), axis=0)
        scores = -ndtri(np.minimum(tail * np.array(LEVELS), 0.49))
        return cls(shares, np.concatenate([scores, [0.0], -scores[::-1]]))

    def __len__(self) -> int:
        """Return the number of groups."""
        return int(self.shares.shape[1])

    def estimate(self, label: int) -> Array:
        """Return the separate estimates of a class, shape (G,)."""
        return np.asarray(self.shares[len(self.scores) // 2, :, label])

    def take(self, groups: Indices) -> SeparateEnds:
        """Return those of some groups."""
        return SeparateEnds(self.shares[:, groups], self.scores)

    def scores_of(self, label: int, t: Array) -> Array:
        """Return the scores (G, n) of shares t (n,) of a class; outer pieces are continued."""
        nodes = self.shares[:, :, label]
        lengths = np.diff(nodes, axis=0)
        slopes = np.diff(self.scores)[:, None] / np.maximum(lengths, 1e-9)
        lengths[[0, -1]] = np.where(lengths[[0, -1]] > 0.0, np.inf, 0.0)
        # From the estimate outwards, so that a flat end adds nothing.
        middle = len(nodes) // 2
        total = np.zeros((nodes.shape[1], len(t)))
        for piece, slope in enumerate(slopes):
            inner = nodes[piece] if piece >= middle else nodes[piece + 1]
            far = t - inner[:, None]
            length = lengths[piece][:, None]
            moved = np.clip(far, 0.0, length) if piece >= middle else np.clip(far, -length, 0.0)
            total += slope[:, None] * moved
        return total

    def shares_at(self, scores: Array) -> Array:
        """Return the shares (G, k, n) that have these scores (n,)."""
        flat = self.shares.reshape(len(self.scores), -1)
        place = np.clip(np.searchsorted(-self.scores, -scores, side="right") - 1, 0, len(flat) - 2)
        part = (scores - self.scores[place]) / np.diff(self.scores)[place]
        out = flat[place] + part[:, None] * np.diff(flat, axis=0)[place]
        return np.clip(out, 0.0, 1.0).T.reshape(*self.shares.shape[1:], len(scores))


@dataclass(frozen=True, eq=False)
class OtherGroups:
    """What the other groups say of the shares of each group.

    Attributes
    ----------
    mean, spread : arrays of shape (G, k)
        Mean and standard deviation of the predictive distribution of a group like the others.
    p_value : array of shape (G,)
        Of the test that a group is like the others, not yet adjusted for the number of groups.
    go_with_size : bool
        Whether the rows of the larger half of the groups differ from those of the smaller one.
    """

    mean: Array
    spread: Array
    p_value: Array
    go_with_size: bool = False

    @classmethod
    def of(cls, ends: SeparateEnds, sizes: Indices, parents: Indices) -> OtherGroups:
        """Learn them; a group whose parent has too few groups is held against all of the table."""
        shape = ends.shares.shape[1:]
        made = cls(np.empty(shape), np.empty(shape), np.ones(shape[0]))
        everybody, few = np.arange(shape[0]), np.bincount(parents)[parents] < FEWEST
        for parent in np.unique(parents[~few]):
            members = np.flatnonzero(parents == parent)
            made._learn(ends.take(members), sizes[members], members, np.ones_like(members, bool))
        if few.any():
            made._learn(ends, sizes, everybody, few)
        return made

    def tested_by_rows(self, rows: SeparateEnds, sizes: Indices, parents: Indices) -> OtherGroups:
        """Return the same with p-values that hold for the tests of shares and of rows together."""
        by_rows = OtherGroups.of(rows, sizes, parents).p_value / _BY_ROWS
        p_value = np.minimum(self.p_value / (1.0 - _BY_ROWS), by_rows)
        return replace(self, p_value=np.minimum(p_value, 1.0))

    def _learn(
        self, ends: SeparateEnds, sizes: Indices, members: Indices, wanted: NDArray[np.bool_]
    ) -> None:
        k, scale, edges = self.mean.shape[1], float(np.median(sizes)), _edges()
        middles, into = (edges[1:] + edges[:-1]) / 2.0, members[wanted]
        smallest, own = np.ones(len(into)), sizes[wanted]
        for label in range(k):
            below = ndtr(ends.scores_of(label, edges))
            predicted = _predictive(below[:, :-1] - below[:, 1:], scale)[wanted]
            self.mean[into, label] = mean = predicted @ middles
            variance = predicted @ middles**2 - mean**2
            self.spread[into, label] = np.sqrt(np.maximum(variance, 0.0))
            above = ndtr(-ends.scores_of(label, middles))[wanted]
            larger = np.minimum((predicted * above).sum(axis=1), 1.0)
            chance = np.minimum(larger, 1.0 - larger)
            for g in np.flatnonzero(chance * len(self.p_value) < FALSE_ALARM).tolist():
                least, most = _chances_of_counts(ends.estimate(label)[wanted][g], own[g], middles)
                larger = predicted[g] @ np.maximum(above[g], least)
                smaller = predicted[g] @ np.maximum(1.0 - above[g], most)
                chance[g] = min(larger, smaller)
            smallest = np.minimum(smallest, chance)
        # Both shares of two classes are one test.
        self.p_value[into] = np.minimum(2.0 * smallest * max(k - 1, 1), 1.0)

    @property
    def strange(self) -> NDArray[np.bool_]:
        """Whether each group does not belong to the others, shape (G,)."""
        found = np.asarray(self.p_value * len(self.p_value) < FALSE_ALARM)
        return found & ~found.all()  # where all are, there is nothing that they could belong to

    @property
    def differ(self) -> bool:
        """Whether some group is near to not belonging, or groups go with their size."""
        return self.go_with_size or bool(self.p_value.min() * len(self.p_value) < _HINT)

    def intervals(self, ends: SeparateEnds, tail: float, common: Array) -> tuple[Array, Array]:
        """Return intervals that hold for each group, two arrays of shape (G, k).

        Parameters
        ----------
        ends : SeparateEnds
        tail : float
            Half the probability outside.
        common : array of shape (k,)
            Variance of the error that all groups share, which makes what the others say uncertain.
        """
        low, high = np.empty_like(self.mean), np.empty_like(self.mean)
        step = max(1, _CHUNK // (len(_SCORES) * len(_SPLITS) * self.mean.shape[1]))
        for start in range(0, len(low), step):
            run = np.arange(start, min(start + step, len(low)))
            low[run], high[run] = self._intervals(ends.take(run), run, 2.0 * tail, common)
        return low, high

    def _intervals(
        self, ends: SeparateEnds, run: Indices, miss: float, common: Array
    ) -> tuple[Array, Array]:
        t, mean = ends.shares_at(_SCORES), self.mean[run][:, :, None]
        q = -ndtri(miss / 2.0)
        error = np.diff(ends.shares_at(np.array([q, -q])), axis=2) / (2.0 * q)
        spread = np.sqrt(self.spread[run] ** 2 + common)[:, :, None]
        around = np.sqrt(spread**2 + error**2)
        upper, lower = -ndtri(miss * _SPLITS), -ndtri(miss * (1.0 - _SPLITS))
        least, most, fewest = np.full(t.shape, np.inf), np.empty(t.shape), np.empty(t.shape)
        for above, below in zip(upper, lower, strict=True):
            first, last = t - below * error, t + above * error
            mass = (1.0 - _WIDE) * (ndtr((last - mean) / around) - ndtr((first - mean) / around))
            mass += _WIDE * (np.minimum(last, 1.0) - np.maximum(first, 0.0))
            better = mass < least
            least[better] = mass[better]
            most[better], fewest[better] = above, -below
        return _crossing(t, _SCORES - most), _crossing(t[..., ::-1], (fewest - _SCORES)[..., ::-1])


def row_ends(
    values: Array, training: TemplateDraw, mix: Array, sizes: Indices, tail: float
) -> SeparateEnds:
    """Return ends around the mean memberships of groups, on the scale of shares.

    Parameters
    ----------
    values : array of shape (m, k)
        Memberships of the rows of all groups, one group after the other.
    training : TemplateDraw
        With the densities of training instances.
    mix : array of shape (k,)
        Shares that memberships are adapted to, all positive.
    sizes : int64 array of shape (G,)
    tail : float
    """
    assert training.training is not None
    assert training.weights is not None
    # Column l of the templates: mean memberships of training class l.
    templates = adapted(training.training, mix).T @ training.weights
    own = templates.diagonal()
    base = (templates @ mix - own * mix) / (1.0 - mix)
    slope = np.maximum(own - base, _SMALLEST)
    starts, n = offsets_of(sizes)[:-1], sizes[:, None]
    means = np.add.reduceat(values, starts) / n
    squares = np.add.reduceat((values - np.repeat(means, sizes, axis=0)) ** 2, starts)
    common = squares.sum(axis=0) / max(len(values) - len(sizes), 1)
    variance = (squares + _SPREAD_ROWS * common) / (n - 1.0 + _SPREAD_ROWS)
    error = np.sqrt(variance / n) / slope
    centre = (means - base) / slope
    # Where most groups lie beyond the classes, that is no sign of shares that others do not have.
    middle = np.median(centre, axis=0)
    centre += np.clip(middle, 0.0, 1.0) - middle
    quantiles = -ndtri(np.minimum(tail * np.array(LEVELS), 0.49))
    ends = [(centre - q * error, centre + q * error) for q in quantiles]
    return SeparateEnds.of(centre, ends, tail)


def go_with_size(values: Array, sizes: Indices) -> bool:
    """Return whether memberships (m, k) differ between the larger groups and the smaller ones."""
    middle = np.median(sizes)
    large = sizes > middle if (sizes > middle).any() else sizes >= middle
    is_large = np.repeat(large, sizes)
    halves = [values[is_large], values[~is_large]]
    if min(map(len, halves)) < 2:
        return False  # all groups have one size
    moved = halves[0].mean(axis=0) - halves[1].mean(axis=0)
    variance = sum(half.var(axis=0, ddof=1) / len(half) for half in halves)
    scores = np.abs(moved) / np.sqrt(np.maximum(variance, _ROUNDING))
    # Both shares of two classes are one test.
    return bool(2.0 * ndtr(-scores.max()) * max(len(moved) - 1, 1) < _SIZE_LEVEL)


@dataclass(frozen=True, eq=False)
class LeaningGroups:
    """Estimates of G groups that lean on one another, and how far they do.

    Attributes
    ----------
    estimate, low, high : arrays of shape (G, k)
    strange : bool array of shape (G,)
        Groups that do not belong to the others: their estimates and intervals are the separate
        ones, except that an interval that holds for each group may lean a little.
    shrinkage : array of shape (G,)
        From 0 to 1; zero for groups that do not belong.
    alike : bool
        Whether nothing shows that groups differ.
    converged : bool
    """

    estimate: Array
    low: Array
    high: Array
    strange: NDArray[np.bool_]
    shrinkage: Array
    alike: bool
    converged: bool


def learn_others(
    templates: TemplateDraws,
    posteriors: NDArray[np.floating],
    positions: Indices,
    sizes: Indices,
    ends: SeparateEnds,
    tail: float,
    parents: Indices,
) -> OtherGroups:
    """Return what the others say of each group, and whether it belongs; parameters as below."""
    others, centre = OtherGroups.of(ends, sizes, parents), templates.centre()
    mix = sizes @ ends.shares_at(np.zeros(1))[:, :, 0]
    mix = smoothed(mix / mix.sum(), float(sizes.sum()))
    values = adapted(centre(posteriors, positions), mix)
    others = replace(others, go_with_size=go_with_size(values, sizes))
    if centre.training is None:
        return others
    rows = row_ends(values, centre, mix, sizes, tail)
    return others.tested_by_rows(rows, sizes, parents)


def lean_on_others(
    templates: TemplateDraws,
    posteriors: NDArray[np.floating],
    sizes: Indices,
    ends: SeparateEnds,
    tail: float,
    *,
    parents: Indices | None = None,
    positions: Indices | None = None,
    covers: str = EACH_GROUP,
    target: str = "population",
    **effort: Any,
) -> LeaningGroups:
    """Return estimates that lean on the other groups, with intervals.

    Parameters
    ----------
    templates : TemplateDraws
    posteriors : array of shape (m, d)
    sizes : int64 array of shape (G,)
        All positive.
    ends : SeparateEnds
    tail : float
        Half the probability outside each interval.
    parents : int64 array of shape (G,), optional
    positions : int64 array, optional
        Rows of ``posteriors``, group after group.
    covers : {"each-group", "average-group"}
        Whether intervals hold for each group, or on average over those that belong together.
    target : {"population", "bag"}
    **effort
        Of :func:`~kdey.bayes.pooling.shrink_groups`.
    """
    parents = np.zeros(len(sizes), dtype=np.int64) if parents is None else parents
    offsets = offsets_of(sizes)
    at = np.arange(offsets[-1]) if positions is None else positions
    others = learn_others(templates, posteriors, at, sizes, ends, tail, parents)
    strange = others.strange
    own = np.flatnonzero(~strange)
    positions = np.concatenate([at[offsets[g] : offsets[g + 1]] for g in own])
    numbers = np.unique(parents[own], return_inverse=True)[1]
    tree = GroupTree.of(sizes[own], numbers)
    drawn = shrink_groups(templates, posteriors, tree, positions=positions, **effort)
    q = float(-ndtri(tail))
    separate = ends.shares_at(np.array([q, 0.0, -q])).transpose(2, 0, 1)
    low, estimate, high = separate.copy()
    shrinkage = np.zeros(len(sizes))
    estimate[own], shrinkage[own] = drawn.estimate(target), drawn.shrinkage
    low[own], high[own] = drawn.interval(tail, target)
    if covers == EACH_GROUP:
        low, high = others.intervals(ends, tail, drawn.common_variance())
        low, high = np.minimum(low, separate[1]), np.maximum(high, separate[1])
        estimate = _inside(separate[1], estimate, low, high)
    alike = not (drawn.told_apart or others.differ)
    return LeaningGroups(estimate, low, high, strange, shrinkage, alike, drawn.converged)


def _inside(start: Array, end: Array, low: Array, high: Array) -> Array:
    """Return the points (G, k) nearest to ``end`` on the way to it that lie in all intervals."""
    move = end - start
    room = np.where(move > 0.0, high - start, start - low)
    share = np.where(np.abs(move) > room, room / np.maximum(np.abs(move), 1e-300), 1.0)
    inside = start + share.min(axis=1, keepdims=True) * move
    return np.asarray(np.clip(inside, low, high))  # exactly, not up to rounding


def _edges() -> Array:
    return np.linspace(0.0, 1.0, _CELLS + 1)


def _predictive(masses: Array, scale: float) -> Array:
    """Return chances of the cells for each group by what the others show, shape (G, cells).

    Parameters
    ----------
    masses : array of shape (G, cells)
        Likelihood of each group in the cells.
    scale : float
        Median size of a group: the concentration is tried around it.
    """
    edges, u = _edges(), (np.arange(_CONCENTRATIONS) + 0.5) / _CONCENTRATIONS
    middles = (edges[1:] + edges[:-1]) / 2.0
    # Large groups show more of what they have in common, and may differ as much as small ones.
    kappa = scale ** (1.0 - u) * min(scale, _SMALL) ** u * (1.0 - u) / u
    first, last = 0.0, 1.0
    for _ in range(2):
        step = (last - first) / (_MEANS + 1)
        mu = np.clip(np.linspace(first + step, last - step, _MEANS), 1e-6, 1.0 - 1e-6)
        a, b = (np.outer(share, kappa).reshape(-1, 1) - 1.0 for share in (mu, 1.0 - mu))
        chances = softmax(a * np.log(middles) + b * np.log1p(-middles), axis=1)
        each = np.log((1.0 - _STRANGE) * (masses @ chances.T) + _STRANGE / _CELLS)
        weights = softmax(each.sum(axis=0))
        centre = weights @ np.repeat(mu, _CONCENTRATIONS)
        wide = np.sqrt(weights @ (np.repeat(mu, _CONCENTRATIONS) - centre) ** 2)
        wide = 5.0 * max(wide, step / 2.0)
        first, last = max(centre - wide, 0.0), min(centre + wide, 1.0)
    others = softmax(each.sum(axis=0) - each, axis=1)
    return np.asarray(others @ chances)


def _chances_of_counts(estimate: float, size: int, t: Array) -> tuple[Array, Array]:
    """Return chances of at least and of at most this share of error-free labels.

    An estimate by a classifier is less certain: that of a small group with a rare class is not as
    surprising as its score says.
    """
    count = size * float(np.clip(estimate, 0.0, 1.0))
    least = betainc(count, size - count + 1.0, t) if count > 0.0 else np.ones_like(t)
    most = betainc(size - count, count + 1.0, 1.0 - t) if count < size else np.ones_like(t)
    return least, most


def _crossing(t: Array, excess: Array) -> Array:
    """Return where each excess (..., n) first is not positive, between points t (..., n)."""
    at = (excess <= 0.0).argmax(axis=-1)[..., None]
    before = np.maximum(at - 1, 0)
    high, low = (np.take_along_axis(excess, index, -1) for index in (before, at))
    part = np.where(at > 0, high / np.where(at > 0, high - low, 1.0), 1.0)
    one, other = (np.take_along_axis(t, index, -1) for index in (before, at))
    return np.asarray((one + part * (other - one))[..., 0])
