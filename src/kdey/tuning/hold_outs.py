"""Hold-outs for tuning: bags from one part of the training posteriors, templates from the others.

The training posteriors are divided into parts. Each part serves as a pool of tuning bags, and the
other parts as the training data of their templates, so that a bag and its templates have no
instance in common. Leaving out only the kernel of each point (leave-one-out) would not achieve
that: the other points of the bag would remain among the references, the templates would fit the
bags on which they are evaluated, and small training sets would look better than they are.

Equal rows of a class are merged and their weights added, so that a weight and as many repetitions
lead to the same parts, the same bags and the same choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.posteriors import TrainingPosteriors
from kdey.protocols import round_counts
from kdey.rows.interface import TuningEffort
from kdey.simplex import sample_smooth

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Indices = NDArray[np.intp]
#: Number of parts into which the training posteriors are divided.
N_PARTS = 5
#: Fewer bags suffice if there are few rows, which then limit the accuracy, and if there are many
#: classes, because each bag has many prevalences and costs more.
_ROWS_PER_BAG, _BAGS_OF_FEW_ROWS = 4, 50
_BAGS_TIMES_CLASSES, _LEAST_BAGS = 4000, 20
#: Total number of distinct rows in all pools.
_POOL_ROWS = 5_000


@dataclass(frozen=True, eq=False)
class HoldOut:
    """A pool of held-out rows with bags, and the training rows of the templates.

    Attributes
    ----------
    training : TrainingPosteriors
        The other parts; the classes that they contain are numbered 0..n_classes-1.
    n_classes : int
    points : array of shape (m, d)
        The pool's distinct rows.
    bags : Bags
        Bags over the pool; weights count how often a row was drawn.
    prevalences : array of shape (n_bags, n_classes)
    """

    training: TrainingPosteriors
    n_classes: int
    points: Floats
    bags: Bags
    prevalences: Array


def make_hold_outs(
    training: TrainingPosteriors,
    n_classes: int,
    bag_size: int,
    seed: int,
    effort: TuningEffort,
    *,
    smoothest: float = 1.0,
) -> list[HoldOut]:
    """Return the hold-outs on which settings are evaluated; empty if no part can be held out.

    The prevalences of bags are uniform over the classes that are present both in the pool and in
    the training rows; instances are drawn with replacement, in proportion to their weights. Large
    training sets use fewer parts as pools (at least two), and classes with too many rows are
    subsampled.

    Parameters
    ----------
    training : TrainingPosteriors
    n_classes : int
    bag_size : int
    seed : int
    effort : TuningEffort
        Upper bounds on the number of bags and of training rows.
    smoothest : float
        Share of the simplex that prevalences are drawn from, the smoothest part of it.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(N_PARTS,)))
    rows = make_parts(training, rng)
    n_tested = int(np.clip(round(_POOL_ROWS * N_PARTS / len(rows.labels)), 2, N_PARTS))
    tested = np.unique(rows.part)[:n_tested]
    by_rows = max(_BAGS_OF_FEW_ROWS, len(rows.labels) // _ROWS_PER_BAG)
    by_classes = max(_LEAST_BAGS, _BAGS_TIMES_CLASSES // n_classes)
    n_bags_total = min(effort.bags, by_rows, by_classes)
    counts = [len(share) for share in np.array_split(np.arange(n_bags_total), len(tested))]
    hold_outs = []
    for part, n_bags in zip(tested, counts, strict=True):
        is_tested = rows.part == part
        pool = _subsample(rows, np.flatnonzero(is_tested), _POOL_ROWS // len(tested), rng)
        rest = _subsample(rows, np.flatnonzero(~is_tested), effort.rows, rng)
        hold_outs.append(_hold_out(pool, rest, bag_size, n_bags, rng, smoothest))
    return [hold_out for hold_out in hold_outs if hold_out is not None]


def _hold_out(
    pool: Parts,
    rest: Parts,
    bag_size: int,
    n_bags: int,
    rng: np.random.Generator,
    smoothest: float,
) -> HoldOut | None:
    """Draw the bags; None if fewer than two classes are in both the pool and the rest."""
    present = np.unique(rest.labels)
    pool = pool.take(np.flatnonzero(np.isin(pool.labels, present)))
    testable = np.unique(pool.labels)
    if len(testable) < 2:
        return None
    counts = np.zeros((n_bags, len(present)), dtype=np.int64)
    prevalences = sample_smooth(len(testable), n_bags, rng, smoothest)
    counts[:, np.searchsorted(present, testable)] = round_counts(prevalences, bag_size)
    bags = _draw(np.searchsorted(present, pool.labels), pool.weights, counts, rng)
    codes = np.searchsorted(present, rest.labels).astype(np.int64)
    training = TrainingPosteriors(rest.points, codes, rest.weights)
    return HoldOut(training, len(present), pool.points, bags, counts / bag_size)


def _subsample(rows: Parts, positions: Indices, limit: int, rng: np.random.Generator) -> Parts:
    """Return the rows at ``positions``, or about ``limit`` of them, evenly over the classes."""
    if len(positions) <= limit:
        return rows.take(positions)
    labels = rows.labels[positions]
    names, counts = np.unique(labels, return_counts=True)
    quota, left = 0, limit
    for size, n_open in zip(np.sort(counts), range(len(names), 0, -1), strict=True):
        quota = left // n_open  # what small classes do not need goes to the others
        left -= min(int(size), quota)
    selected = [rng.permutation(positions[labels == name])[:quota] for name in names]
    return rows.take(np.sort(np.concatenate(selected)))


def _draw(labels: Codes, weights: Array, counts: Codes, rng: np.random.Generator) -> Bags:
    """Draw ``counts[b, i]`` rows of class i for bag b, with replacement, by cumulative weight."""
    bags, rows = [], []
    for label in range(counts.shape[1]):
        total = int(counts[:, label].sum())
        if total == 0:
            continue
        members = np.flatnonzero(labels == label)
        shares = np.cumsum(weights[members]) / weights[members].sum()
        picks = np.searchsorted(shares, rng.random(total), side="right")
        rows.append(members[np.minimum(picks, len(members) - 1)])
        bags.append(np.repeat(np.arange(len(counts)), counts[:, label]))
    entries = (np.concatenate(bags), np.concatenate(rows))
    drawn = sp.coo_array((np.ones(len(entries[0])), entries), shape=(len(counts), len(labels)))
    return Bags.from_matrix(drawn.tocsr())


@dataclass(frozen=True, eq=False)
class Parts:
    """Distinct rows: ``points`` (m, d), and ``labels``, ``weights``, ``part`` of shape (m,)."""

    points: Floats
    labels: Codes
    weights: Array
    part: Codes

    def take(self, rows: Indices) -> Parts:
        """Return some of the rows."""
        return Parts(self.points[rows], self.labels[rows], self.weights[rows], self.part[rows])


def make_parts(training: TrainingPosteriors, rng: np.random.Generator) -> Parts:
    """Return the training rows in parts.

    The folds of a cross-validation are the parts (grouped, if there are more folds than parts): a
    held-out part then comes from another model than the templates, as every later bag does. Without
    folds, the rows of each class are distributed at random.
    """
    points = training.required()
    n = len(points)
    weights = np.ones(n) if training.weights is None else training.weights
    folds = _folds(training)
    part = np.zeros(n, np.int64) if folds is None else folds
    keep = np.flatnonzero(weights > 0)
    merged = _merge_equal(Parts(points, training.labels, weights, part).take(keep))
    return merged if folds is not None else _distribute(merged, rng)


def _folds(training: TrainingPosteriors) -> Codes | None:
    """Return the part of each row from its fold; None if there is only one fold."""
    if training.folds is None:
        return None
    names, folds = np.unique(training.folds, return_inverse=True)
    if len(names) < 2:
        return None
    if training.instances is not None:
        # All rows of an instance that was tested several times must be in the same part.
        _, first, back = np.unique(training.instances, return_index=True, return_inverse=True)
        folds = folds[first][back]
    return np.asarray(folds % N_PARTS, dtype=np.int64)


def _merge_equal(rows: Parts) -> Parts:
    """Return the distinct rows in sorted order, with their weights added."""
    order = np.lexsort((*rows.points.T[::-1], rows.labels, rows.part))
    rows = rows.take(order)
    is_repeated = (rows.points[1:] == rows.points[:-1]).all(axis=1)
    is_repeated &= (rows.labels[1:] == rows.labels[:-1]) & (rows.part[1:] == rows.part[:-1])
    starts = np.flatnonzero(np.concatenate([[True], ~is_repeated]))
    first = rows.take(starts)
    return Parts(first.points, first.labels, np.add.reduceat(rows.weights, starts), first.part)


def _distribute(rows: Parts, rng: np.random.Generator) -> Parts:
    """Distribute the rows of each class over the parts, with about equal weight in each.

    A row that stands for at least as many instances as there are parts (trees give many equal
    posteriors) is divided among all parts. In a single part, it would be missing from the
    templates of that part, although much of the class is there.
    """
    shared = np.flatnonzero(rows.weights >= N_PARTS)
    whole = np.flatnonzero(rows.weights < N_PARTS)
    part = np.empty(len(whole), dtype=np.int64)
    for label in np.unique(rows.labels[whole]):
        members = rng.permutation(np.flatnonzero(rows.labels[whole] == label))
        w = rows.weights[whole[members]]
        middle = (np.cumsum(w) - w / 2) / w.sum()
        part[members] = np.minimum((middle * N_PARTS).astype(np.int64), N_PARTS - 1)
    positions = np.concatenate([whole, np.repeat(shared, N_PARTS)])
    selected = rows.take(positions)
    shares = np.where(selected.weights >= N_PARTS, selected.weights / N_PARTS, selected.weights)
    all_parts = np.tile(np.arange(N_PARTS), len(shared))
    return Parts(selected.points, selected.labels, shares, np.concatenate([part, all_parts]))
