r"""Differences between the prevalences of two bags that share their templates.

Estimates by the same templates have correlated errors, so that most of the template error cancels
if the two prevalences are similar. With :math:`\rho` the correlation due to the templates, the
intervals are those of Zou and Donner (2008), which keep the asymmetry near the border:

.. math:: d - \sqrt{(a - a_{low})^2 + (b_{high} - b)^2 - 2 \rho (a - a_{low})(b_{high} - b)}

and its mirror image. Bootstrap estimates share the training replicates draw by draw, so their
intervals are quantiles of the differences of draws.

**Ratios.** A ratio r is inside its interval if zero is inside that of :math:`a - r b`. With the
formula above this is a quadratic inequality in r (Donner and Zou, 2012), so that a denominator that
may be zero gives a ratio whose interval has no upper end.

**P-values.** The p-value of equal shares is the level at which the interval of the difference would
just reach zero, where the distance from the difference to an end grows with the level as the
quantile of Student's distribution does. It is at most one minus the confidence if, and only if,
the interval excludes zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from kdey.bags import Array
from kdey.intervals.bootstrap import BootstrapUncertainty, bootstrap_interval
from kdey.intervals.estimate import Estimate
from kdey.intervals.merging import MergedUncertainty, NoisyUncertainty
from kdey.intervals.profile import student_tail
from kdey.intervals.region import Uncertainty
from kdey.model import Model
from kdey.options import interval_tail
from kdey.validation import as_numbers, make_frame

#: Degrees of freedom from which Student's distribution counts as the normal one.
_MOST_FREEDOM = 1e9
#: Shares below this count as zero in ratios.
_LEAST_SHARE = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Difference:
    """The prevalences of one bag minus those of another, class by class.

    Attributes
    ----------
    classes : array of shape (k,)
    difference : array of shape (k,)
    low, high : arrays of shape (k,)
    p_value : array of shape (k,)
        Of equal shares, not adjusted for there being several classes.
    ratio, ratio_low, ratio_high : arrays of shape (k,)
        The first prevalence divided by the second, with its interval. The ratio is inf where only
        the second prevalence is zero and NaN where both are; ``ratio_high`` is inf where the second
        prevalence may be zero.
    confidence : float
    target : {"population", "bag"}
    shared : bool
        Whether both estimates come from the same fitted quantifier, so that template
        uncertainty is shared.
    template_noise : bool
        Whether the intervals of both estimates include the uncertainty of the templates.
    sides : two Estimate, or None
        What was compared.

    See Also
    --------
    kdey.difference : Compare two bags.
    kdey.compare_groups : Compare the groups of a table.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::3], y[::3])
    >>> change = kdey.difference(q.estimate(X[1::3][:40]), q.estimate(X[2::3][10:]))
    >>> change.difference.shape
    (3,)
    >>> bool((change.low <= change.high).all())
    True
    """

    classes: NDArray[Any]
    difference: Array
    low: Array
    high: Array
    p_value: Array
    ratio: Array
    ratio_low: Array
    ratio_high: Array
    confidence: float
    target: str
    shared: bool
    template_noise: bool = True
    sides: tuple[Estimate, Estimate] | None = None

    def tipping_point(self, label: Any) -> float:
        """Return the smallest change of the classes that would explain a difference away.

        The classes may have changed since training in both bags, and in different ways, by a factor
        of up to G (see :meth:`kdey.Estimate.sensitivity`).

        Parameters
        ----------
        label : a class

        Returns
        -------
        float
            The smallest G at which the share need not have risen, or fallen. One if zero is within
            the intervals; infinite if no factor up to 32 is enough.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> import kdey
        >>> X, y = load_iris(return_X_y=True)
        >>> q = kdey.PACC().fit(X[::2], y[::2])
        >>> before, after = X[1::2][y[1::2] < 2], X[1::2][y[1::2] > 0]
        >>> change = kdey.difference(q.estimate(after), q.estimate(before))
        >>> change.tipping_point(1), change.tipping_point(2) > 1.5
        (1.0, True)
        """
        from kdey.intervals.drift import difference_tipping_point  # which builds on this file

        return difference_tipping_point(self, label)

    def __repr__(self) -> str:
        """Return a text table with one line per class."""
        names = [str(label) for label in self.classes]
        width = max(5, *(len(name) for name in names))
        columns = (self.difference, self.low, self.high)
        head = f"Difference of two {self.target}s, {100 * self.confidence:g} % intervals"
        lines = [head, "class".ljust(width) + f"{'difference':>12}{'low':>10}{'high':>10}"]
        for name, d, low, high in zip(names, *columns, strict=True):
            lines.append(f"{name.ljust(width)}{d:>+12.4f}{low:>+10.4f}{high:>+10.4f}")
        if not self.template_noise:
            lines.append("(the intervals leave out the uncertainty of the templates)")
        return "\n".join(lines)

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per class.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
        """
        return make_frame(
            {
                "class": list(self.classes),
                "difference": self.difference,
                "low": self.low,
                "high": self.high,
                "p_value": self.p_value,
                "ratio": self.ratio,
                "ratio_low": self.ratio_low,
                "ratio_high": self.ratio_high,
            },
            backend,
        )


def difference(first: Estimate, second: Estimate) -> Difference:
    """Return the prevalences of ``first`` minus those of ``second``, with intervals.

    The bags must be disjoint draws.

    Parameters
    ----------
    first, second : Estimate
        Both must have the same classes, confidence, target and method.

    Returns
    -------
    Difference

    Raises
    ------
    TypeError
        If an argument is not an :class:`Estimate`.
    ValueError
        If the estimates differ in classes, confidence, target, method or simultaneous.

    See Also
    --------
    kdey.Difference : Difference of two bags, with intervals.
    kdey.compare_groups : Compare the groups of a table.

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
    for name, value in (("first", first), ("second", second)):
        if not isinstance(value, Estimate):
            raise TypeError(f"{name} must be an Estimate, got {value!r}")
    _check_comparable(first, second)
    a, b = first.uncertainty, second.uncertainty
    shared = _same_templates(a.shared_model, b.shared_model)
    rho = np.zeros(len(first.classes))
    draws, others = _resampled(a), _resampled(b)
    if draws is not None and others is not None:
        paired = shared and draws[1] == others[1]
        rho = _correlation_of_draws(draws[0], others[0]) if paired else rho
        freedom = min(a.freedom(), b.freedom())
        low, high = _interval_by_draws(first, draws[0], second, others[0], paired, freedom)
    else:
        cross = _shared_errors(a, b) if shared else None
        if cross is not None:
            scale = np.sqrt(np.diag(a.covariance()) * np.diag(b.covariance()))
            rho = np.clip(np.diag(cross) / np.where(scale > 0, scale, 1.0), -1.0, 1.0)
        low, high = _interval_by_zou_donner(first, second, rho)
        if _is_open(a) or _is_open(b):
            rho = np.full_like(rho, -1.0)  # in ratios all adds up
    d = first.estimate - second.estimate
    ratio, ratio_low, ratio_high = _ratio_interval(first, second, rho)
    return Difference(
        classes=first.classes,
        difference=d,
        low=np.clip(np.minimum(low, d), -1.0, 1.0),
        high=np.clip(np.maximum(high, d), -1.0, 1.0),
        p_value=_p_values(d, low, high, min(a.freedom(), b.freedom()), first),
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        confidence=first.confidence,
        target=first.target,
        shared=shared,
        template_noise=first.template_noise and second.template_noise,
        sides=(first, second),
    )


def _same_templates(first: Model | None, second: Model | None) -> bool:
    if first is None or second is None:
        return False
    return first is second or first.digest == second.digest


def _check_comparable(first: Estimate, second: Estimate) -> None:
    for name in ("confidence", "target", "method", "simultaneous"):
        a, b = getattr(first, name), getattr(second, name)
        # A bag of one instance has an interval that says nothing, whatever the method of the other.
        if a != b and not (name == "method" and "none" in (a, b)):
            raise ValueError(f"both estimates must have the same {name}, got {a!r} and {b!r}")
    if not np.array_equal(first.classes, second.classes):
        raise ValueError("both estimates must have the same classes")


def _resampled(uncertainty: Uncertainty) -> tuple[Array, int] | None:
    """Return bootstrap draws whose training replicates a seed decides, and the seed; or None."""
    if _is_open(uncertainty):
        return None
    inner = uncertainty.inner if isinstance(uncertainty, MergedUncertainty) else uncertainty
    if not isinstance(inner, BootstrapUncertainty):
        return None
    draws = uncertainty.bootstrap_draws()
    return None if draws is None else (draws, inner.seed)


def _is_open(uncertainty: Uncertainty) -> bool:
    """Return whether label noise leaves the shares open, so that draws do not tell of them."""
    return isinstance(uncertainty, NoisyUncertainty) and uncertainty.is_open


def _shared_errors(first: Uncertainty, second: Uncertainty) -> Array | None:
    """Return the covariance of errors due to shared templates, (k, k); None if it is not known."""
    if isinstance(first, MergedUncertainty) and isinstance(second, MergedUncertainty):
        inner = _shared_errors(first.inner, second.inner)
        return None if inner is None else np.asarray(first.matrix @ inner @ second.matrix.T)
    return first.template_covariance(second)


def _interval_by_zou_donner(first: Estimate, second: Estimate, rho: Array) -> tuple[Array, Array]:
    """Return the intervals of the formula at the top of this file, two arrays of shape (k,).

    What label noise leaves open adds up.
    """
    d = first.estimate - second.estimate
    (down, up), (other_down, other_up) = _open_parts(first), _open_parts(second)
    below, above = first.estimate - first.low - down, first.high - first.estimate - up
    other_below = second.estimate - second.low - other_down
    other_above = second.high - second.estimate - other_up
    low = d - _combine(below, other_above, rho) - down - other_up
    high = d + _combine(above, other_below, rho) + up + other_down
    return low, high


def _open_parts(estimate: Estimate) -> tuple[Array, Array]:
    """Return how far below and above each share may be without an error of sampling, (k,) each."""
    uncertainty = estimate.uncertainty
    if not isinstance(uncertainty, NoisyUncertainty):
        return np.zeros(len(estimate.low)), np.zeros(len(estimate.low))
    found = uncertainty.found
    moved = found.middle @ uncertainty.plain.estimate - estimate.estimate
    below, above = estimate.estimate - estimate.low, estimate.high - estimate.estimate
    down = np.clip(found.spread - moved, 0.0, below)
    up = np.clip(found.spread + moved, 0.0, above)
    return np.where(found.spread > 0, down, 0.0), np.where(found.spread > 0, up, 0.0)


def _combine(x: Array, y: Array, rho: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(x**2 + y**2 - 2.0 * rho * x * y, 0.0)))


def _p_values(d: Array, low: Array, high: Array, freedom: float, options: Estimate) -> Array:
    """Return the level at which the intervals of each difference reach zero, shape (k,)."""
    degrees = min(freedom, _MOST_FREEDOM)
    tail = interval_tail(options.confidence, options.simultaneous, len(d))
    reach = np.where(d > 0, d - low, high - d)
    steps = np.divide(np.abs(d), reach, out=np.full(len(d), np.inf), where=reach > 0)
    steps = np.where(d == 0, 0.0, steps)
    return np.asarray(2.0 * stdtr(degrees, -stdtrit(degrees, 1.0 - tail) * steps))


def _ratio_interval(first: Estimate, second: Estimate, rho: Array) -> tuple[Array, Array, Array]:
    r"""Return ratios and their intervals, three arrays of shape (k,).

    The lower end is the smaller root of :math:`(a - r b)^2 = x^2 + r^2 y^2 - 2 \rho r x y` with
    :math:`x = a - a_{low}` and :math:`y = b_{high} - b`, the upper end the larger root with
    :math:`x = a_{high} - a` and :math:`y = b - b_{low}`; infinite if :math:`b_{low} = 0`.
    """
    a, b = first.estimate, second.estimate
    x, y = a - first.low, second.high - b
    half, constant, root = _quadratic(a, b, x, y, rho)
    divisor = half + root
    low = np.divide(constant, divisor, out=np.zeros(len(a)), where=divisor > 0)
    x, y = first.high - a, b - second.low
    half, _, root = _quadratic(a, b, x, y, rho)
    square = (b - y) * (b + y)
    positive = square > 0  # squares of tiny ends vanish
    high = np.divide(half + root, square, out=np.full(len(a), np.inf), where=positive)
    with np.errstate(divide="ignore", invalid="ignore"):
        # inf or NaN where the second share is zero, which solvers reach up to rounding
        ratio = np.where(a > _LEAST_SHARE, a, 0.0) / np.where(b > _LEAST_SHARE, b, 0.0)
    return ratio, low, high


def _quadratic(a: Array, b: Array, x: Array, y: Array, rho: Array) -> tuple[Array, Array, Array]:
    """Return half the linear coefficient, the constant, and the root of the discriminant."""
    half, constant = a * b - rho * x * y, (a - x) * (a + x)
    discriminant = half**2 - (b - y) * (b + y) * constant
    return half, constant, np.sqrt(np.maximum(discriminant, 0.0))


def _correlation_of_draws(first: Array, second: Array) -> Array:
    """Return the correlation of paired draws for each class, shape (k,)."""
    n = min(len(first), len(second))
    x, y = (draws[:n] - draws[:n].mean(axis=0) for draws in (first, second))
    scale = np.sqrt((x**2).sum(axis=0) * (y**2).sum(axis=0))
    return np.asarray((x * y).sum(axis=0) / np.where(scale > 0, scale, 1.0))


def _interval_by_draws(
    first: Estimate,
    draws: Array,
    second: Estimate,
    others: Array,
    paired: bool,
    freedom: float,
) -> tuple[Array, Array]:
    """Return quantiles of the differences of draws, which are shuffled first unless ``paired``."""
    n = min(len(draws), len(others))
    if not paired:
        others = others[np.random.default_rng(0).permutation(len(others))]
    draws = draws[:n] - others[:n]
    tail = float(
        student_tail(
            interval_tail(first.confidence, first.simultaneous, draws.shape[1]), np.array([freedom])
        )[0]
    )
    middle = first.estimate - second.estimate
    # Differences lie in [-1, 1], but bootstrap_interval expects [0, 1].
    halved = ((middle + 1.0) / 2.0, (draws + 1.0) / 2.0)
    low, high = bootstrap_interval(*halved, tail, "percentile")
    return 2.0 * low - 1.0, 2.0 * high - 1.0


def holm(p_values: ArrayLike) -> Array:
    r"""Return p-values adjusted by Holm's step-down method, in the given order.

    With :math:`p_{(1)}\le\dots\le p_{(m)}` the adjusted values are
    :math:`\max_{j\le i}\min(1,(m-j+1)\,p_{(j)})`. Rejecting where they are at most a level keeps
    the chance of any false rejection among the m tests below it, whatever their dependence
    (Holm, "A simple sequentially rejective multiple test procedure", 1979).

    Parameters
    ----------
    p_values : array-like of shape (m,)
        An empty one gives an empty result.

    Examples
    --------
    >>> from kdey.intervals.differences import holm
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = as_numbers(p_values, "p_values")
    if p.ndim != 1:
        raise ValueError(f"p_values must be a vector, got shape {p.shape}")
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p_values must lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    steps = np.minimum(p[order] * np.arange(len(p), 0, -1), 1.0)
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted
