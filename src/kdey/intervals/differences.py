r"""Differences between the prevalences of two bags that share their templates.

Estimates by the same templates have correlated errors, so that most of the template error cancels
if the two prevalences are similar. With :math:`\rho` the correlation due to the templates, the
limits are those of Zou and Donner (2008), which keep the asymmetry near the border:

.. math:: d - \sqrt{(a - a_{low})^2 + (b_{high} - b)^2 - 2 \rho (a - a_{low})(b_{high} - b)}

and its mirror image. Bootstrap estimates share the training replicates draw by draw, so their
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
from kdey.intervals.region import AnalyticUncertainty, BootstrapUncertainty


@dataclass(frozen=True, eq=False, repr=False)
class Difference:
    """The prevalences of one bag minus those of another, class by class.

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
    template_noise : bool
        Whether the limits of both estimates include the uncertainty of the templates.
    """

    classes: NDArray[Any]
    difference: Array
    low: Array
    high: Array
    confidence: float
    target: str
    shared: bool
    template_noise: bool = True

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
            lines.append("(the limits leave out the uncertainty of the templates)")
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
            },
            backend,
        )


def difference(first: Estimate, second: Estimate) -> Difference:
    """Return the prevalences of ``first`` minus those of ``second``, with limits.

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
    shared = a.shared_model is not None and a.shared_model is b.shared_model
    if isinstance(a, BootstrapUncertainty) and isinstance(b, BootstrapUncertainty):
        low, high = _limits_by_draws(a, b, shared and a.seed == b.seed, first)
    else:
        rho = np.zeros(len(first.classes))
        if shared and isinstance(a, AnalyticUncertainty) and isinstance(b, AnalyticUncertainty):
            rho = _correlation(a, b)
        low, high = _limits_by_zou_donner(first, second, rho)
    d = first.estimate - second.estimate
    low, high = np.clip(np.minimum(low, d), -1.0, 1.0), np.clip(np.maximum(high, d), -1.0, 1.0)
    noise = first.template_noise and second.template_noise
    return Difference(first.classes, d, low, high, first.confidence, first.target, shared, noise)


def _check_comparable(first: Estimate, second: Estimate) -> None:
    for name in ("confidence", "target", "method", "simultaneous"):
        a, b = getattr(first, name), getattr(second, name)
        if a != b:
            raise ValueError(f"both estimates must have the same {name}, got {a!r} and {b!r}")
    if not np.array_equal(first.classes, second.classes):
        raise ValueError("both estimates must have the same classes")


def _correlation(first: AnalyticUncertainty, second: AnalyticUncertainty) -> Array:
    """Return the correlation due to shared templates for each class, shape (k,)."""
    moments = first.limits.equations.at(first.number)
    if not np.isfinite(moments.sizes).all():
        return np.zeros(len(moments.sizes))
    mix, other_mix = first.limits.mix(first.number), second.limits.mix(second.number)
    others = second.limits.equations.at(second.number)
    cross = np.diag(moments.cross(others, mix * other_mix / moments.sizes))
    scale = np.sqrt(np.diag(first.covariance()) * np.diag(second.covariance()))
    return np.clip(cross / np.where(scale > 0, scale, 1.0), -1.0, 1.0)


def _limits_by_zou_donner(first: Estimate, second: Estimate, rho: Array) -> tuple[Array, Array]:
    """Return the limits of the formula at the top of this file, two arrays of shape (k,)."""
    d = first.estimate - second.estimate
    down = _combine(first.estimate - first.low, second.high - second.estimate, rho)
    up = _combine(first.high - first.estimate, second.estimate - second.low, rho)
    return d - down, d + up


def _combine(x: Array, y: Array, rho: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(x**2 + y**2 - 2.0 * rho * x * y, 0.0)))


def _limits_by_draws(
    first: BootstrapUncertainty, second: BootstrapUncertainty, paired: bool, options: Estimate
) -> tuple[Array, Array]:
    """Return quantiles of the differences of draws, which are shuffled first unless ``paired``."""
    n = min(len(first.draws), len(second.draws))
    others = second.draws
    if not paired:
        others = others[np.random.default_rng(0).permutation(len(others))]
    draws = first.draws[:n] - others[:n]
    tail = (1.0 - options.confidence) / 2.0 / (draws.shape[1] if options.simultaneous else 1)
    middle = first.estimate - second.estimate
    # Differences lie in [-1, 1], but bootstrap_limits expects [0, 1].
    halved = ((middle + 1.0) / 2.0, (draws + 1.0) / 2.0)
    low, high = bootstrap_limits(*halved, tail, "percentile")
    return 2.0 * low - 1.0, 2.0 * high - 1.0
