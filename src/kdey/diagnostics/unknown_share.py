r"""How much of a bag belongs to none of the training classes: a lower bound, and nothing else.

Let a share u of a bag be of an unknown class. In every bin of a histogram, of scores or of a
column, the bag has at least what its known classes bring: :math:`g_b \ge \sum_l c_l T_{lb}`, with
:math:`c_l` the share of class l, T the histograms of the classes, and :math:`\sum_l c_l = 1 - u`.
Hence

.. math:: u \ge 1 - \max \Bigl\{ \sum_l c_l : c \ge 0, \;
          \sum_l c_l T_{lb} \le g_b + \varepsilon_b \text{ for all } b \Bigr\}

a linear programme. The errors :math:`\varepsilon_b` of bag and templates are bounded in all bins at
once (Bonferroni), so that the bound holds in at least the nominal share of samples whatever the
unknown class looks like.

**Nothing else can be had.** An unknown class that looks like a mixture of known ones changes no
histogram of the bag beyond what other shares would, so that any u up to one is possible: there is
no upper bound. And as all shares from the bound up to one explain the bag equally well, a point
estimate would be a guess that nothing in the data supports.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.special import ndtri

from kdey.bags import Array, Indices
from kdey.tables.templates import ClassCounts
from kdey.validation import check_share

#: The errors of templates depend on the shares, so that the programme is solved again with them.
_ROUNDS = 3
#: Bounds below this are rounding errors.
_NONE = 1e-9


def unknown_share_bound(
    histograms: Sequence[tuple[ArrayLike, ArrayLike]], *, confidence: float = 0.98
) -> float:
    """Return a lower bound on the share of a bag that belongs to no training class.

    Parameters
    ----------
    histograms : sequence of pairs (training, bag)
        Of one thing each, such as scores or a column: counts of training instances by class and
        bin, of shape (k, n_bins), and counts of the instances of the bag, of shape (n_bins,). Bins
        must not have been chosen by looking at the bag. Weighted counts are scaled so that they sum
        to effective sizes.
    confidence : float in (0, 1)
        The share of samples in which the bound holds, at least.

    Returns
    -------
    float
        In [0, 1]; zero if the training classes may explain all of the bag.

    Raises
    ------
    ValueError
        If counts are negative or do not fit each other, or a class or the bag has none.

    See Also
    --------
    kdey.check_fit : Check whether a bag is a mixture of the training classes.

    Examples
    --------
    >>> from kdey.diagnostics import unknown_share_bound
    >>> training = [[180, 20, 0], [30, 170, 0]]
    >>> unknown_share_bound([(training, [100, 100, 0])])
    0.0
    >>> round(unknown_share_bound([(training, [70, 70, 60])]), 2)
    0.23
    """
    check_share(confidence, "confidence")
    parts = [_regions(*pair) for pair in _checked(histograms)]
    z = float(-ndtri((1.0 - confidence) / sum(len(shown) for _, _, shown, _ in parts)))
    templates = np.vstack([made for made, _, _, _ in parts])
    shown = np.concatenate([made for _, _, made, _ in parts])
    # Errors by Wilson's intervals: a region in which a class was never seen may have some of it.
    errors = np.vstack([made - 1.0 + _upper(1.0 - made, n, z) for made, n, _, _ in parts])
    margin = np.concatenate([_upper(made, m, z) - made for _, _, made, m in parts])
    known, least = _largest(templates, shown + margin), 1.0
    for _ in range(_ROUNDS):
        known = _largest(templates, shown + np.sqrt(margin**2 + errors**2 @ known**2))
        least = min(least, 1.0 - float(known.sum()))
    return least if least > _NONE else 0.0


def _regions(training: Array, bag: Array) -> tuple[Array, Array, Array, float]:
    """Return what classes and bag have in unions of bins.

    An unknown class may lie anywhere, and the union shows it best that all of it is outside of:
    every bin, all bins but one, and the first and the last bins in their order.

    Returns
    -------
    templates : array of shape (n_regions, k)
        The share of each class.
    sizes : array of shape (k,)
    shown : array of shape (n_regions,)
        The share of the bag.
    size : float
    """
    single, first = np.eye(len(bag)), np.tri(len(bag), dtype=np.float64)
    unions = np.unique(np.vstack([single, 1.0 - single, first, 1.0 - first]), axis=0)
    unions = unions[(unions > 0).any(axis=1) & (unions < 1).any(axis=1)]
    n, m = training.sum(axis=1), float(bag.sum())
    return unions @ training.T / n, n, unions @ bag / m, m


def _checked(histograms: Sequence[tuple[ArrayLike, ArrayLike]]) -> list[tuple[Array, Array]]:
    pairs = []
    for number, pair in enumerate(histograms):
        training, bag = (np.asarray(part, dtype=np.float64) for part in pair)
        if training.ndim != 2 or bag.shape != training.shape[1:]:
            raise ValueError(
                f"histogram {number} must have training counts of shape (k, n_bins) and counts of "
                f"the bag of shape (n_bins,), got {training.shape} and {bag.shape}"
            )
        if not (np.isfinite(training).all() and np.isfinite(bag).all()):
            raise ValueError(f"histogram {number} has counts that are not finite")
        if (training < 0).any() or (bag < 0).any():
            raise ValueError(f"histogram {number} has negative counts")
        if bag.sum() <= 0 or (training.sum(axis=1) <= 0).any():
            raise ValueError(f"histogram {number} has no instance of a class, or of the bag")
        pairs.append((training, bag))
    if not pairs or len({len(training) for training, _ in pairs}) > 1:
        raise ValueError("histograms must be at least one, all of the same classes")
    return pairs


def _upper(shares: Array, sizes: Array | float, z: float) -> Array:
    """Return the upper ends of Wilson's intervals of shares, of the same shape."""
    q2 = z**2 / np.asarray(sizes)
    root = np.sqrt(q2 * shares * (1.0 - shares) + q2**2 / 4.0)
    return np.asarray((shares + q2 / 2.0 + root) / (1.0 + q2))


def _largest(templates: Array, most: Array) -> Array:
    """Return the shares (k,) of the largest sum, at most one, that stay below in all bins."""
    k = templates.shape[1]
    found = linprog(
        -np.ones(k),
        A_ub=np.vstack([templates, np.ones(k)]),
        b_ub=np.append(most, 1.0),
        bounds=(0.0, None),
    )
    return np.asarray(found.x, dtype=np.float64)


#: Quantiles of the certainty of training instances between which bins lie. Instances of an unknown
#: class are often less certain than nearly all of the known ones.
_QUANTILES = (0.02, 0.1, 0.3)


def score_histogram(
    training: NDArray[np.floating],
    labels: Indices,
    posteriors: NDArray[np.floating],
    weights: Array | None = None,
    training_weights: Array | None = None,
    training_clusters: Indices | None = None,
) -> tuple[Array, Array]:
    """Return the histogram of scores of training and of a bag, for :func:`unknown_share_bound`.

    Parameters
    ----------
    training : array of shape (n, k)
        Posteriors of training instances by models that had not seen them.
    labels : int array of shape (n,)
    posteriors : array of shape (m, k)
        Those of the bag, by the same models.
    weights : array of shape (m,), optional
    training_weights : array of shape (n,), optional
    training_clusters : int array of shape (n,), optional
        Numbers of the clusters in which training instances were drawn.

    Returns
    -------
    training_counts : array of shape (k, n_bins)
        Bins are the class decided for and how certain it is, the least certain first.
    counts : array of shape (n_bins,)

    Examples
    --------
    >>> import numpy as np
    >>> from kdey.diagnostics import score_histogram, unknown_share_bound
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 300)
    >>> sure = rng.beta(20, 1, 600)
    >>> known = np.where(y[:, None] == [0, 1], sure[:, None], 1 - sure[:, None])
    >>> bag = np.vstack([known[::2], np.full((100, 2), 0.5)])  # a quarter is like neither
    >>> bool(0.1 < unknown_share_bound([score_histogram(known, y, bag)]) < 0.25)
    True
    """
    k, n_places = training.shape[1], len(_QUANTILES) + 1
    decided, certain = training.argmax(axis=1), training.max(axis=1)
    cuts = np.zeros((k, len(_QUANTILES)))
    for label in range(k):
        own = certain[decided == label]
        if len(own):
            cuts[label] = np.quantile(own, _QUANTILES)

    def bins(rows: NDArray[np.floating]) -> Indices:
        best = rows.argmax(axis=1)
        places = (rows.max(axis=1)[:, None] > cuts[best]).sum(axis=1)
        return np.asarray(places * k + best, dtype=np.int64)

    # A class counts as many instances as its weights and clusters are worth.
    known = ClassCounts(labels, k, training_weights, training_clusters)
    counts = known.of(bins(training), n_places * k, ordered=False)
    w = np.ones(len(posteriors)) if weights is None else np.asarray(weights, dtype=np.float64)
    w = w * (w.sum() / (w**2).sum())  # sums to the effective size
    own = np.bincount(bins(posteriors), weights=w, minlength=n_places * k)
    return counts, np.asarray(own, dtype=np.float64)
