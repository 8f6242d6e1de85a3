"""Tuning bags: each part of the training posteriors as a pool, the other parts as its training.

A bag and its templates share no instance. Leaving out each point's own kernel alone
(leave-one-out) does not do that: the other points of the bag stay among the references, the
templates fit the very bags they are judged on, and small training sets look better than they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from kdey.automatic.parts import N_PARTS, Array, Codes, Floats, Indices, Parts, make_parts
from kdey.bags import Bags
from kdey.posteriors import TrainingPosteriors
from kdey.protocols import round_counts
from kdey.simplex import sample_uniform

#: Fewer bags will do where rows are few, which then are the limit, and where classes are many:
#: each bag tells of many prevalences, and costs more.
_ROWS_PER_BAG, _BAGS_OF_FEW_ROWS = 4, 50
_BAGS_TIMES_CLASSES, _LEAST_BAGS = 4000, 20
#: Distinct rows of all pools together.
_POOL_ROWS = 5_000


@dataclass(frozen=True)
class Effort:
    """Bounds on the work of judging one setting, which bound time and memory.

    Attributes
    ----------
    bags : int
        Tuning bags in all, at most.
    rows : int
        Distinct rows that the templates of a hold-out are made from, at most.
    """

    bags: int = 200
    rows: int = 30_000

    @classmethod
    def of(cls, spec: Any) -> Effort:
        """Return the bounds that a row spec asks for, or the usual ones."""
        usual = cls()
        return cls(
            getattr(spec, "tuning_bags", usual.bags), getattr(spec, "tuning_rows", usual.rows)
        )


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
    training: TrainingPosteriors, n_classes: int, bag_size: int, seed: int, effort: Effort
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
