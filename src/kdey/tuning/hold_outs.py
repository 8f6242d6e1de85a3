"""Training posteriors cut into parts: distinct rows with weights, each in one part.

Rows that are equal in every way are merged and their weights added, so that a weight and as many
repetitions lead to the same parts, the same bags and the same choice.

Tuning bags: each part of the training posteriors as a pool, the other parts as its training.

A bag and its templates share no instance. Leaving out each point's own kernel alone
(leave-one-out) does not do that: the other points of the bag stay among the references, the
templates fit the very bags they are judged on, and small training sets look better than they are.
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
from kdey.simplex import sample_uniform

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Indices = NDArray[np.intp]
#: Parts that the training posteriors are cut into.
N_PARTS = 5


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

    Folds of a cross-validation are the parts (in groups, where there are more of them): a held-out
    part then comes from another model than the templates, as every later bag does. Without folds
    each class is dealt into parts by chance.
    """
    points = training.required()
    n = len(points)
    weights = np.ones(n) if training.weights is None else training.weights
    folds = _folds(training)
    part = np.zeros(n, np.int64) if folds is None else folds
    keep = np.flatnonzero(weights > 0)
    merged = _merge(Parts(points, training.labels, weights, part).take(keep))
    return merged if folds is not None else _deal(merged, rng)


def _folds(training: TrainingPosteriors) -> Codes | None:
    """Return the part of each row by its fold; None where there is but one fold."""
    if training.folds is None:
        return None
    names, folds = np.unique(training.folds, return_inverse=True)
    if len(names) < 2:
        return None
    if training.instances is not None:
        # Rows of an instance that was tested several times must not be on both sides.
        _, first, back = np.unique(training.instances, return_index=True, return_inverse=True)
        folds = folds[first][back]
    return np.asarray(folds % N_PARTS, dtype=np.int64)


def _merge(rows: Parts) -> Parts:
    """Return the distinct rows in sorted order, weights added up."""
    order = np.lexsort((*rows.points.T[::-1], rows.labels, rows.part))
    rows = rows.take(order)
    same = (rows.points[1:] == rows.points[:-1]).all(axis=1)
    same &= (rows.labels[1:] == rows.labels[:-1]) & (rows.part[1:] == rows.part[:-1])
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    first = rows.take(starts)
    return Parts(first.points, first.labels, np.add.reduceat(rows.weights, starts), first.part)


def _deal(rows: Parts, rng: np.random.Generator) -> Parts:
    """Deal the rows of every class to the parts, each part getting the same weight.

    A row that stands for at least as many instances as there are parts (trees give many equal
    posteriors) is shared among all of them; dealt whole, it would leave its part's templates
    without the very place where the class is.
    """
    shared = np.flatnonzero(rows.weights >= N_PARTS)
    whole = np.flatnonzero(rows.weights < N_PARTS)
    part = np.empty(len(whole), dtype=np.int64)
    for label in np.unique(rows.labels[whole]):
        own = rng.permutation(np.flatnonzero(rows.labels[whole] == label))
        w = rows.weights[whole[own]]
        middle = (np.cumsum(w) - w / 2) / w.sum()
        part[own] = np.minimum((middle * N_PARTS).astype(np.int64), N_PARTS - 1)
    picked = np.concatenate([whole, np.repeat(shared, N_PARTS)])
    made = rows.take(picked)
    shares = np.where(made.weights >= N_PARTS, made.weights / N_PARTS, made.weights)
    every = np.tile(np.arange(N_PARTS), len(shared))
    return Parts(made.points, made.labels, shares, np.concatenate([part, every]))


#: Fewer bags will do where rows are few, which then are the limit, and where classes are many:
#: each bag tells of many prevalences, and costs more.
_ROWS_PER_BAG, _BAGS_OF_FEW_ROWS = 4, 50
_BAGS_TIMES_CLASSES, _LEAST_BAGS = 4000, 20
#: Distinct rows of all pools together.
_POOL_ROWS = 5_000


@dataclass(frozen=True, eq=False)
class HoldOut:
    """A pool of held-out rows with bags, and what the templates are made from.

    Attributes
    ----------
    training : TrainingPosteriors
        The other parts; the classes they hold are numbered 0..n_classes-1.
    n_classes : int
    points : array of shape (m, d)
        The pool's distinct rows.
    bags : Bags
        Over the pool; weights count how often a row was drawn.
    prevalences : array of shape (n_bags, n_classes)
    """

    training: TrainingPosteriors
    n_classes: int
    points: Floats
    bags: Bags
    prevalences: Array


def make_hold_outs(
    training: TrainingPosteriors, n_classes: int, bag_size: int, seed: int, effort: TuningEffort
) -> list[HoldOut]:
    """Return the hold-outs that settings are judged on; empty where no part can be one.

    Bags have prevalences uniform over the classes that both sides hold; instances are drawn with
    replacement, by weight. Large training sets are tested on fewer parts (at least two), and a
    class with too many rows is represented by some of them, on either side.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(N_PARTS,)))
    rows = make_parts(training, rng)
    n_tested = int(np.clip(round(_POOL_ROWS * N_PARTS / len(rows.labels)), 2, N_PARTS))
    tested = np.unique(rows.part)[:n_tested]
    by_rows = max(_BAGS_OF_FEW_ROWS, len(rows.labels) // _ROWS_PER_BAG)
    by_classes = max(_LEAST_BAGS, _BAGS_TIMES_CLASSES // n_classes)
    wanted = min(effort.bags, by_rows, by_classes)
    counts = [len(share) for share in np.array_split(np.arange(wanted), len(tested))]
    made = []
    for part, n_bags in zip(tested, counts, strict=True):
        inside = rows.part == part
        pool = _thinned(rows, np.flatnonzero(inside), _POOL_ROWS // len(tested), rng)
        rest = _thinned(rows, np.flatnonzero(~inside), effort.rows, rng)
        made.append(_hold_out(pool, rest, bag_size, n_bags, rng))
    return [one for one in made if one is not None]


def _hold_out(
    pool: Parts, rest: Parts, bag_size: int, n_bags: int, rng: np.random.Generator
) -> HoldOut | None:
    """Draw the bags; None where fewer than two classes are on both sides."""
    present = np.unique(rest.labels)
    pool = pool.take(np.flatnonzero(np.isin(pool.labels, present)))
    testable = np.unique(pool.labels)
    if len(testable) < 2:
        return None
    counts = np.zeros((n_bags, len(present)), dtype=np.int64)
    chosen = sample_uniform(len(testable), n_bags, rng)
    counts[:, np.searchsorted(present, testable)] = round_counts(chosen, bag_size)
    bags = _draw(np.searchsorted(present, pool.labels), pool.weights, counts, rng)
    codes = np.searchsorted(present, rest.labels).astype(np.int64)
    kept = TrainingPosteriors(rest.points, codes, rest.weights)
    return HoldOut(kept, len(present), pool.points, bags, counts / bag_size)


def _thinned(rows: Parts, which: Indices, limit: int, rng: np.random.Generator) -> Parts:
    """Return the rows at ``which``, or about ``limit`` of them, as even over classes as can be."""
    if len(which) <= limit:
        return rows.take(which)
    labels = rows.labels[which]
    names, counts = np.unique(labels, return_counts=True)
    quota, left = 0, limit
    for size, n_open in zip(np.sort(counts), range(len(names), 0, -1), strict=True):
        quota = left // n_open  # classes below the quota leave their share to the others
        left -= min(int(size), quota)
    own = [rng.permutation(which[labels == name])[:quota] for name in names]
    return rows.take(np.sort(np.concatenate(own)))


def _draw(labels: Codes, weights: Array, counts: Codes, rng: np.random.Generator) -> Bags:
    """Draw ``counts[b, i]`` rows of class i for bag b, with replacement, by cumulative weight."""
    bags, rows = [], []
    for label in range(counts.shape[1]):
        total = int(counts[:, label].sum())
        if total == 0:
            continue
        own = np.flatnonzero(labels == label)
        shares = np.cumsum(weights[own]) / weights[own].sum()
        picks = np.searchsorted(shares, rng.random(total), side="right")
        rows.append(own[np.minimum(picks, len(own) - 1)])
        bags.append(np.repeat(np.arange(len(counts)), counts[:, label]))
    where = (np.concatenate(bags), np.concatenate(rows))
    drawn = sp.coo_array((np.ones(len(where[0])), where), shape=(len(counts), len(labels)))
    return Bags.from_matrix(drawn.tocsr())
