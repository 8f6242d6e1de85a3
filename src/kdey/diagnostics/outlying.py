r"""Instances far from every class, and how many more of them there are than there should be.

The local p-value of a point is the share of the fitted mixture whose density is no higher,

.. math:: u(x) = \sum_i \alpha_i P_i\{p_\alpha(X) \le p_\alpha(x)\},

uniform for points of the mixture. If a share s of the bag comes from elsewhere, where densities are
low, then F(t) = (1 - s) t + s G(t) for the distribution F of the bag's local p-values, so that
(F(t) - t) / (1 - t) <= s for every t: the largest excess is a lower bound on s.
"""

from __future__ import annotations

import numpy as np

from kdey.diagnostics.densities import Array, Densities, TrainingDensities

#: Local p-values at which an excess is looked for.
THRESHOLDS = np.array([0.01, 0.02, 0.05, 0.1, 0.2])


def local_p_values(
    training: TrainingDensities, bag: Densities, prevalence: Array
) -> tuple[Array, Array]:
    """Return the local p-values of the bag's points and of the training points."""
    alpha = prevalence[None]
    reference = training.held_out.floored_log(alpha)[:, 0]
    mass = training.class_weights * prevalence[training.labels]
    order = np.argsort(reference, kind="stable")
    below = np.concatenate([[0.0], np.cumsum(mass[order])])
    ordered = reference[order]

    def share(values: Array) -> Array:
        at = np.searchsorted(ordered, values, side="right")
        return np.asarray(np.minimum(below[at] / below[-1], 1.0))

    return share(bag.floored_log(alpha)[:, 0]), share(reference)


def unknown_share(
    local: Array, weights: Array | None, null: Array, null_weights: Array | None, level: float
) -> tuple[float, bool]:
    """Return the excess share of outlying points, and whether it is more than chance.

    Parameters
    ----------
    local : array of shape (m,)
        Local p-values of the bag.
    null : array of shape (n_null, m)
        Those of null bags, whose median excess is taken off at each threshold.
    weights, null_weights : arrays of the shapes of ``local`` and ``null``, optional
    level : float
    """
    seen, by_chance = _excess(local[None], weights), _excess(null, null_weights)
    middle = np.median(by_chance, axis=0)
    found = float((seen - middle).max())
    largest = (by_chance - middle).max(axis=1)
    return max(found, 0.0), bool(found > np.quantile(largest, 1.0 - level))


def _excess(local: Array, weights: Array | None) -> Array:
    """Return (F(t) - t) / (1 - t) of each bag at each threshold, (n_bags, n_thresholds)."""
    given = None if weights is None else np.broadcast_to(weights, local.shape)
    below = [np.average(local <= t, axis=1, weights=given) for t in THRESHOLDS]
    return np.asarray((np.stack(below, axis=1) - THRESHOLDS) / (1.0 - THRESHOLDS))
