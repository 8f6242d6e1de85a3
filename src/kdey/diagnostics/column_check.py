r"""What histograms tell of a bag: columns that are no mixture of the classes, and an unknown share.

**The column check.** Under label shift every column is, by itself, a mixture of its
class-conditional distributions at the shares :math:`\alpha` of the bag. The check sees changes that
leave the scores alone, and it names the column. It does not see changes of the dependence between
columns.

For a bag with m rows, let c be its counts in the bins of a column (:mod:`kdey.tables.templates`),
b = c / m, :math:`H_l` the counts of training class l with :math:`n_l` rows, and
:math:`T_l = H_l / n_l`. Under the null the bag's rows are further rows of the classes: twenty steps
of expectation maximisation,

.. math:: T^*_l \propto H_l + c\, \alpha_l T^*_l / p^*, \qquad p^* = \sum_l \alpha_l T^*_l,

give the pooled templates. They make the variances below hold in bins that training hardly has.
Neighbouring bins are merged until :math:`m p^* \ge 5` and :math:`p^* / \sum_l \alpha_l^2 / n_l \ge
5`. Then :math:`d = b - \sum_l \alpha_l T_l` has mean zero and covariance

.. math:: S = \frac{\operatorname{diag}(p^*) - p^* p^{*\prime}}{m} + \sum_l \frac{\alpha_l^2}{n_l}
          (\operatorname{diag}(T^*_l) - T^*_l T_l^{*\prime}) + T^* \operatorname{Cov}(\alpha)
          T^{*\prime},

of the bag's rows, of the templates and of the shares. The p-value of a column is twice the smaller
of two: of :math:`d' S^+ d`, chi-square with one degree less than there are bins, and of the
mid-ranks of the bins, a normal test of a shift of the whole column, where bins have an order.
Holm's correction is made over the columns, those included that training's labels did not choose.

**The unknown share.** How much of a bag belongs to none of the training classes: a lower bound, and
nothing else. Let a share u of a bag be of an unknown class. In every bin of a histogram, of scores
or of a column, the bag has at least what its known classes bring:
:math:`g_b \ge \sum_l c_l T_{lb}`, with :math:`c_l` the share of class l, T the histograms of the
classes, and :math:`\sum_l c_l = 1 - u`. Hence

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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.special import chdtrc, ndtr, ndtri

from kdey.bags import Array, Bags, Indices
from kdey.intervals.checks import ColumnFinding, ColumnResult, ColumnVerdict, NotChecked
from kdey.intervals.estimate import Estimates
from kdey.tables.templates import BELOW, CheckedColumn, ClassCounts, Codes, ColumnTemplates
from kdey.validation import check_share

#: Steps of expectation maximisation towards the pooled templates.
STEPS = 20
#: Rows of the bag, and of training, that a bin should have under the null.
LEAST = 5.0
#: Numbers in the arrays of bags that are checked together.
_CHUNK = 1 << 20
#: Rows from which a bag's columns are checked: two bins need twice ``LEAST``.
LEAST_ROWS = 10


def bin_counts(templates: ColumnTemplates, codes: Codes, bags: Bags) -> Array:
    """Return the (weighted) share of every bin in every bag, shape (n_bags, d, B).

    Parameters
    ----------
    templates : ColumnTemplates
    codes : uint8 array of shape (pool_size, d)
        Of :meth:`~kdey.tables.templates.ColumnTemplates.codes`.
    bags : Bags
    """
    d, n_bins = len(templates), templates.counts.shape[2]
    shares = np.empty((len(bags), d, n_bins))
    offsets = np.arange(d) * n_bins
    for number, rows in enumerate(bags):
        cells = codes[rows] + offsets
        weights = None
        if bags.weights is not None:
            weights = np.repeat(bags.bag_weights(number), d)
        counts = np.bincount(cells.ravel(), weights, d * n_bins).reshape(d, n_bins)
        shares[number] = counts / counts.sum(axis=1, keepdims=True)
    return shares


def column_p_values(
    templates: ColumnTemplates,
    shares: Array,
    sizes: Array,
    prevalences: Array,
    covariances: Array,
) -> Array:
    """Return the p-value of every column of every bag, before any correction, (n_bags, d).

    Parameters
    ----------
    templates : ColumnTemplates
        Of d columns in at most B bins, and k classes.
    shares : array of shape (n_bags, d, B)
        The frequencies b.
    sizes : array of shape (n_bags,)
        The effective number of rows m of each bag.
    prevalences : array of shape (n_bags, k)
    covariances : array of shape (n_bags, k, k)
        Of the errors of the prevalences.

    Returns
    -------
    array of shape (n_bags, d)
        One where bins had to be merged into a single one.
    """
    p_values = np.empty(shares.shape[:2])
    per_bag = templates.counts.size + shares[0].size * shares.shape[2]
    step = max(1, _CHUNK // per_bag)
    for start in range(0, len(shares), step):
        part = slice(start, start + step)
        p_values[part] = _p_values(
            templates, shares[part], sizes[part], prevalences[part], covariances[part]
        )
    return p_values


def _p_values(
    templates: ColumnTemplates, b: Array, sizes: Array, a: Array, covariances: Array
) -> Array:
    """As :func:`column_p_values`, for bags whose arrays fit into memory together."""
    training, n = templates.counts[None], templates.class_sizes
    m = sizes[:, None, None]
    counts = b * m
    pooled = _pooled_templates(training, counts, a)
    expected = np.einsum("gl,gdlb->gdb", a, pooled)
    plain = training / np.maximum(n, 1e-300)[:, :, None]
    deviation = b - np.einsum("gl,gdlb->gdb", a, np.broadcast_to(plain, pooled.shape))
    spread = a[:, None] ** 2 / np.maximum(n, 1e-300)  # alpha_l^2 / n_l, shape (g, d, k)
    rank = _rank_test(templates, expected, deviation, pooled, m, spread, covariances)
    worth = np.minimum(sizes[:, None], 1.0 / np.maximum(spread.sum(axis=2), 1e-300))
    merged = _merged_bins(expected, worth)
    chi2 = _chi_square_test(merged, expected, deviation, pooled, m, spread, covariances)
    both = np.minimum(1.0, 2.0 * np.minimum(rank, chi2))
    ordered = np.array([column.is_ordered for column in templates.columns])
    p_values = np.where(ordered, both, chi2)
    # With all bins in one there is nothing to compare; ranks alone would hang on too few rows.
    return np.where(merged.max(axis=2) == 0, 1.0, p_values)


def _pooled_templates(training: Array, counts: Array, a: Array) -> Array:
    """Return the templates under the null, (g, d, k, B), by expectation maximisation."""
    n_bins = training.shape[3]
    start = training + 0.5 / n_bins
    pooled = np.repeat(start / start.sum(axis=3, keepdims=True), len(counts), axis=0)
    weights = a[:, None, :, None]
    for _ in range(STEPS):
        expected = np.einsum("gl,gdlb->gdb", a, pooled)
        ratio = counts / np.where(expected > 0, expected, 1.0)
        pooled = training + weights * pooled * ratio[:, :, None, :]
        pooled /= np.maximum(pooled.sum(axis=3, keepdims=True), 1e-300)
    return pooled


def _merged_bins(expected: Array, worth: Array) -> Array:
    """Return the number of the merged bin that each bin belongs to, shape (g, d, B)."""
    merged = np.zeros(expected.shape, dtype=np.int64)
    filled = np.zeros(expected.shape[:2])
    number = np.zeros(expected.shape[:2], dtype=np.int64)
    least = LEAST / worth
    for i in range(expected.shape[2]):
        merged[..., i] = number
        filled += expected[..., i]
        is_full = filled >= least
        number = number + is_full
        filled = np.where(is_full, 0.0, filled)
    # What is left at the end joins the last full bin.
    return np.minimum(merged, np.maximum(number - 1, 0)[..., None])


def _chi_square_test(
    merged: Array,
    expected: Array,
    deviation: Array,
    pooled: Array,
    m: Array,
    spread: Array,
    covariances: Array,
) -> Array:
    """Return the p-values of d' S^+ d over merged bins, shape (g, d)."""
    n_bins = expected.shape[2]
    joins = (merged[..., None] == np.arange(n_bins)).astype(np.float64)  # (g, d, B, B')
    p = np.einsum("gdb,gdbc->gdc", expected, joins)
    difference = np.einsum("gdb,gdbc->gdc", deviation, joins)
    templates = pooled @ joins  # (g, d, k, B')
    eye = np.eye(n_bins)
    s = (p[..., None] * eye - p[..., :, None] * p[..., None, :]) / m[..., None]
    s += np.einsum("gdl,gdlb->gdb", spread, templates)[..., None] * eye
    weighted = templates * spread[..., None]
    s -= np.swapaxes(weighted, 2, 3) @ templates
    s += np.swapaxes(templates, 2, 3) @ covariances[:, None] @ templates
    # Differences sum to zero: all bins but the last carry all of d.
    last = merged.max(axis=2)
    used = np.arange(n_bins) < last[..., None]
    s = np.where(used[..., :, None] & used[..., None, :], s, eye)
    difference = np.where(used, difference, 0.0)
    solved = np.linalg.solve(s, difference[..., None])[..., 0]
    statistic = np.maximum((difference * solved).sum(axis=2), 0.0)
    return np.where(last > 0, chdtrc(np.maximum(last, 1), statistic), 1.0)


def _rank_test(
    templates: ColumnTemplates,
    expected: Array,
    deviation: Array,
    pooled: Array,
    m: Array,
    spread: Array,
    covariances: Array,
) -> Array:
    """Return the p-values of the mean mid-rank, shape (g, d)."""
    ranks = np.cumsum(expected, axis=2) - expected / 2.0 - 0.5
    bins = np.arange(expected.shape[2])
    missing = np.array([column.n_bins - 1 for column in templates.columns])
    ranks = np.where(bins == missing[:, None], 0.0, ranks)  # missing values have no rank
    mean = (expected * ranks).sum(axis=2)
    variance = ((expected * ranks**2).sum(axis=2) - mean**2) / m[..., 0]
    class_means = np.einsum("gdlb,gdb->gdl", pooled, ranks)
    class_squares = np.einsum("gdlb,gdb->gdl", pooled, ranks**2)
    variance += np.einsum("gdl,gdl->gd", spread, class_squares - class_means**2)
    variance += np.einsum("gdk,gkl,gdl->gd", class_means, covariances, class_means)
    shift = np.abs((deviation * ranks).sum(axis=2))
    z = shift / np.sqrt(np.maximum(variance, 1e-300))
    return np.where(variance > 1e-15, 2.0 * ndtr(-z), 1.0)


def holm(p_values: Array, n_candidates: int = 0) -> Array:
    """Return p-values adjusted for their number along the last axis, by Holm's steps.

    Parameters
    ----------
    p_values : array of shape (..., n)
    n_candidates : int
        Number of p-values that count, if these n were chosen among more: columns that were chosen
        for how much they differ between classes in training differ less in truth.
    """
    order = np.argsort(p_values, axis=-1)
    n = p_values.shape[-1]
    steps = max(n, n_candidates) - np.arange(n)
    ordered = np.take_along_axis(p_values, order, axis=-1) * steps
    stepped = np.minimum(np.maximum.accumulate(ordered, axis=-1), 1.0)
    adjusted = np.empty_like(stepped)
    np.put_along_axis(adjusted, order, stepped, axis=-1)
    return adjusted


def check_columns(
    templates: ColumnTemplates,
    codes: Codes,
    bags: Bags,
    estimates: Estimates,
    level: float,
    clusters: NDArray[Any] | None = None,
) -> list[ColumnResult]:
    """Return verdicts on the columns of bags.

    The verdict on a bag does not depend on the other bags.

    Parameters
    ----------
    templates : ColumnTemplates
    codes : uint8 array of shape (pool_size, d)
        The bins of all rows.
    bags : Bags
        Over these rows.
    estimates : Estimates
        Of these bags and the classes of the templates: shares and their covariances.
    level : float
        Up to which an adjusted p-value is a finding.
    clusters : array of shape (pool_size,), optional
        Ids of the clusters in which rows were drawn. A bag then counts as having no more rows than
        clusters, which is safe whatever rows of a cluster have in common.

    Returns
    -------
    list of n_bags verdicts
    """
    shares = bin_counts(templates, codes, bags)
    sizes = np.asarray(estimates.effective_size, dtype=np.float64)
    if clusters is not None:
        sizes = np.minimum(sizes, [len(np.unique(clusters[rows])) for rows in bags])
    prevalences = np.asarray(estimates.estimate, dtype=np.float64)
    covariances = np.array([share_covariance(estimates, b) for b in range(len(estimates))])
    known = np.isfinite(covariances).all(axis=(1, 2)) & np.isfinite(prevalences).all(axis=1)
    p_values = column_p_values(
        templates,
        shares,
        np.maximum(sizes, 1.0),
        np.where(known[:, None], prevalences, 1.0 / templates.n_classes),
        np.where(known[:, None, None], covariances, 0.0),
    )
    adjusted = holm(p_values, templates.n_candidates)
    found: list[ColumnResult] = []
    for b in range(len(bags)):
        if not known[b] or sizes[b] < LEAST_ROWS:
            reason = "too few rows" if known[b] else "the uncertainty of the shares is not known"
            found.append(NotChecked(reason))
            continue
        mixture = np.einsum("l,dlb->db", prevalences[b], templates.counts)
        flagged = np.flatnonzero(adjusted[b] <= level)
        flagged = flagged[np.argsort(adjusted[b][flagged], kind="stable")]
        sentences = [
            describe(templates.columns[i], shares[b, i], mixture[i], int(bags.sizes[b]))
            for i in flagged
        ]
        found.append(
            ColumnVerdict(
                p_value=float(adjusted[b].min()),
                level=level,
                n_columns=len(templates),
                findings=tuple(
                    ColumnFinding(templates.columns[i].name, float(adjusted[b, i]), sentence)
                    for i, sentence in zip(flagged, sentences, strict=True)
                ),
            )
        )
    return found


def share_covariance(estimates: Estimates, number: int) -> Array:
    """Return the covariance of the error of a bag's shares, (k, k).

    Where it was not kept, the widths of the intervals stand for it, as if errors were independent.
    """
    covariance = np.asarray(estimates.uncertainty_of(int(estimates.positions[number])).covariance())
    if np.isfinite(covariance).all():
        return covariance
    width = np.asarray(estimates.high[number] - estimates.low[number], dtype=np.float64)
    return np.diag((width / 3.92) ** 2)


def describe(column: CheckedColumn, observed: Array, counts: Array, size: int) -> str:
    """Return a sentence on how a column differs from the mixture of the classes.

    Parameters
    ----------
    column : CheckedColumn
    observed : array of shape (B,)
        Shares of the bins in the bag.
    counts : array of shape (B,)
        Those of the mixture, up to a factor.
    size : int
        Number of rows of the bag.
    """
    expected = counts / max(float(counts.sum()), 1e-300)
    name = f"`{column.name}`"
    if column.kind == "category":
        return f"{name}: {_level_sentence(column, observed, expected)}"
    if column.kind == "word":
        present = float(observed[2 : column.n_bins - 1].sum())
        usual = float(expected[2 : column.n_bins - 1].sum())
        return (
            f"{name}: the word {column.levels[0]!r} is in {present:.0%} of the rows; a mix of the "
            f"classes would have {usual:.0%}"
        )
    return f"{name} {'; '.join(_number_phrases(column, observed, expected, size))}"


def _level_sentence(column: CheckedColumn, observed: Array, expected: Array) -> str:
    # A table that was read by a schema has the numbers of its levels; unseen ones are missing.
    is_read = bool(column.levels) and isinstance(column.levels[0], float)
    missing = "missing or unseen values" if is_read else "missing values"
    names = [*(repr(label) for label in column.labels), "other values", missing]
    gap = observed[: len(names)] - expected[: len(names)]
    worst = int(np.argmax(np.abs(gap)))
    return (
        f"{names[worst]} in {observed[worst]:.0%} of the rows; a mix of the classes would have "
        f"{expected[worst]:.0%}"
    )


def _number_phrases(
    column: CheckedColumn, observed: Array, expected: Array, size: int
) -> list[str]:
    what = {"words": "has {} words", "unknown words": "has {} unknown words"}.get(column.kind)
    above, missing = len(column.edges), len(column.edges) + 1
    middles = np.array(column.middles)
    seen, usual = (_mean(part[: above + 1], middles) for part in (observed, expected))
    phrases = []
    if np.isfinite(seen) and seen != usual:
        change = "more" if seen > usual else "fewer"
        phrase = what.format(change) if what else f"is {'higher' if seen > usual else 'lower'}"
        amount = ""
        if min(middles) >= 0 and usual > 0 and abs(seen / usual - 1.0) >= 0.005:
            amount = f", by about {abs(seen / usual - 1.0):.0%},"
        phrases.append(f"{phrase}{amount} than a mix of the classes would be")
    if what is not None:
        phrases = [phrase.replace("would be", "would have") for phrase in phrases]
    for code, words in ((BELOW, "below the training range"), (above, "above the training range")):
        rows = round(float(observed[code]) * size)
        if rows:
            phrases.append(f"{rows:,} {'row is' if rows == 1 else 'rows are'} {words}")
    if abs(observed[missing] - expected[missing]) > 0.01:
        phrases.append(
            f"{observed[missing]:.0%} of its values are missing, where a mix of the classes would "
            f"lack {expected[missing]:.0%}"
        )
    return phrases or ["is spread otherwise than in any mix of the classes"]


def _mean(shares: Array, middles: Array) -> float:
    total = float(shares.sum())
    return float(shares @ middles) / total if total > 0 else float("nan")


def benjamini_hochberg(p_values: Sequence[float] | Array, share: float = 0.05) -> NDArray[np.bool_]:
    """Return which of many checks are alarms if at most this share of alarms may be false.

    Parameters
    ----------
    p_values : sequence of float
        NaN where nothing was checked.
    share : float
        The expected share of false alarms among all alarms.

    Returns
    -------
    bool array of the same length
    """
    from scipy.stats import false_discovery_control  # slow to import

    p = np.asarray(p_values, dtype=np.float64)
    made, alarms = np.isfinite(p), np.zeros(len(p), dtype=np.bool_)
    if made.any():
        alarms[made] = false_discovery_control(p[made]) <= share
    return alarms


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
