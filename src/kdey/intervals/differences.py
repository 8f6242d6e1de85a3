r"""Differences between two bags, with the uncertainty of the templates shared.

Two bags judged by the same templates err together, so that most of the template error cancels where
their prevalences are alike. With :math:`\rho` the correlation that the templates bring, the limits
are those of Zou and Donner (2008), which keep the asymmetry near the border:

.. math:: d - \sqrt{(a - a_{low})^2 + (b_{high} - b)^2 - 2 \rho (a - a_{low})(b_{high} - b)}

and its mirror image. Bootstrap estimates have the same training replicates draw by draw, and the
limits are quantiles of the differences of draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey._support.frames import make_frame
from kdey.bags import Array
from kdey.intervals.bootstrap import bootstrap_limits
from kdey.intervals.estimate import Estimate
from kdey.intervals.region import Analytic, Draws


@dataclass(frozen=True, eq=False, repr=False)
class Difference:
    """The prevalences of one bag less those of another, class by class.

    Attributes
    ----------
    classes : array of shape (k,)
    difference : array of shape (k,)
    low, high : arrays of shape (k,)
    confidence : float
    target : {"population", "bag"}
    shared : bool
        Whether both estimates come from the same fitted quantifier, so that template
        uncertainty is shared.
    """

    classes: NDArray[Any]
    difference: Array
    low: Array
    high: Array
    confidence: float
    target: str
    shared: bool

    def __repr__(self) -> str:
        """Return a table of one line per class."""
        names = [str(label) for label in self.classes]
        width = max(5, *(len(name) for name in names))
        columns = (self.difference, self.low, self.high)
        head = f"Difference of two {self.target}s, {100 * self.confidence:g} % intervals"
        lines = [head, "class".ljust(width) + f"{'difference':>12}{'low':>10}{'high':>10}"]
        for name, d, low, high in zip(names, *columns, strict=True):
            lines.append(f"{name.ljust(width)}{d:>+12.4f}{low:>+10.4f}{high:>+10.4f}")
        return "\n".join(lines)

    def to_frame(self, backend: str | None = None) -> Any:
        """Return one row per class as a data frame."""
        return make_frame(
            {
                "class": list(self.classes),
                "difference": self.difference,
                "low": self.low,
                "high": self.high,
            },
            backend,
        )


def difference(first: Estimate, second: Estimate) -> Difference:
    """Return the prevalences of ``first`` less those of ``second``, with limits.

    The bags must be disjoint draws; both estimates must have the same classes, confidence,
    target and method.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> before, after = X[1::2][y[1::2] < 2], X[1::2][y[1::2] > 0]
    >>> change = kdey.difference(q.estimate(after), q.estimate(before))
    >>> change.low > 0  # which classes have grown for sure
    array([False, False,  True])
    """
    for name, given in (("first", first), ("second", second)):
        if not isinstance(given, Estimate):
            raise TypeError(f"{name} must be an Estimate, got {given!r}")
    _check_alike(first, second)
    one, two = first.uncertainty, second.uncertainty
    shared = one.shared_model is not None and one.shared_model is two.shared_model
    if isinstance(one, Draws) and isinstance(two, Draws):
        low, high = _paired(one, two, shared and one.seed == two.seed, first)
    else:
        rho = np.zeros(len(first.classes))
        if shared and isinstance(one, Analytic) and isinstance(two, Analytic):
            rho = _correlation(one, two)
        low, high = _mover(first, second, rho)
    d = first.estimate - second.estimate
    low, high = np.clip(np.minimum(low, d), -1.0, 1.0), np.clip(np.maximum(high, d), -1.0, 1.0)
    return Difference(first.classes, d, low, high, first.confidence, first.target, shared)


def _check_alike(first: Estimate, second: Estimate) -> None:
    for name in ("confidence", "target", "method", "simultaneous"):
        own, other = getattr(first, name), getattr(second, name)
        if own != other:
            raise ValueError(f"both estimates must have the same {name}, got {own!r} and {other!r}")
    if not np.array_equal(first.classes, second.classes):
        raise ValueError("both estimates must have the same classes")


def _correlation(one: Analytic, two: Analytic) -> Array:
    """Return the correlation that shared templates bring to each class, shape (k,)."""
    mine, theirs = one.line.at(one.number), two.line.at(two.number)
    if not np.isfinite(mine.sizes).all():
        return np.zeros(len(mine.sizes))
    shares = one.line.mix[one.number] * two.line.mix[two.number] / mine.sizes
    cross = np.diag(mine.cross(theirs, shares))
    scale = np.sqrt(np.diag(one.covariance()) * np.diag(two.covariance()))
    return np.clip(cross / np.where(scale > 0, scale, 1.0), -1.0, 1.0)


def _mover(first: Estimate, second: Estimate, rho: Array) -> tuple[Array, Array]:
    d = first.estimate - second.estimate
    down = _combine(first.estimate - first.low, second.high - second.estimate, rho)
    up = _combine(first.high - first.estimate, second.estimate - second.low, rho)
    return d - down, d + up


def _combine(x: Array, y: Array, rho: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(x**2 + y**2 - 2.0 * rho * x * y, 0.0)))


def _paired(one: Draws, two: Draws, paired: bool, like: Estimate) -> tuple[Array, Array]:
    """Return quantiles of the differences of draws; not paired ones are shuffled first."""
    n = min(len(one.draws), len(two.draws))
    others = two.draws
    if not paired:
        others = others[np.random.default_rng(0).permutation(len(others))]
    draws = one.draws[:n] - others[:n]
    tail = (1.0 - like.confidence) / 2.0 / (draws.shape[1] if like.simultaneous else 1)
    middle = one.estimate - two.estimate
    # Differences live in [-1, 1]; the limits are made in [0, 1].
    halved = ((middle + 1.0) / 2.0, (draws + 1.0) / 2.0)
    low, high = bootstrap_limits(*halved, tail, "percentile")
    return 2.0 * low - 1.0, 2.0 * high - 1.0
