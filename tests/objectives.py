"""The full objective of a fitted method, with the terms that the prevalence does not enter."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from kdey.bags import Bags, as_bags
from kdey.matching.squares import MatchCauchySchwarz, MatchSquares
from kdey.rows.kernel import OverlapRows
from kdey.simplex import check_posteriors


def mean_kernels(rows: OverlapRows, bags: Bags) -> Any:
    """Return the mean kernel between the instances of each bag, by double sums."""
    means = []
    for b in range(len(bags)):
        x, w = rows.coordinates[bags[b : b + 1].indices], bags[b : b + 1].bag_weights(0)
        kernels = np.exp(-cdist(x, x, "sqeuclidean") / (2 * rows.width**2))
        means.append(w @ kernels @ w / w.sum() ** 2)
    return np.array(means)


def divergence_at(q: Any, posteriors: Any, prevalence: Any = None, bags: Any = None) -> Any:
    """Return the method's divergence at prevalences, by default its own, shape (n_bags,)."""
    model, p = q.model_, check_posteriors(posteriors, classes=q.classes_)
    over = Bags.whole(len(p)) if bags is None else as_bags(bags, len(p))
    if prevalence is None:
        prevalence = q.solve_posteriors(p, over).prevalence
    shares = np.broadcast_to(np.asarray(prevalence, dtype=np.float64), (len(over), model.n_classes))
    values = np.zeros(len(over))
    for weight, member in zip(model.row_map.shares, model.members, strict=True):
        rows, matching = member.row_map(p), member.matching
        value = matching.problem(member.row_map, rows, over).objective(shares)
        if isinstance(rows, OverlapRows) and isinstance(matching, MatchCauchySchwarz):
            value = value + np.log(mean_kernels(rows, over)) / 2
        elif isinstance(rows, OverlapRows) and isinstance(matching, MatchSquares):
            value = value + mean_kernels(rows, over) / 2
        values += weight * value
    return values
