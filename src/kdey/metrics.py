r"""Errors between true and estimated prevalences, as functions and by name.

Every function takes ``true`` and ``estimated`` of shape (..., k), checks that their last axis
lies on the simplex, broadcasts the leading axes (the bags) and returns one error per bag, shape
(...). Write :math:`\alpha` for the true and :math:`\hat\alpha` for the estimated prevalence of
one bag. Unless stated otherwise, definitions follow Sebastiani, "Evaluation measures for
quantification: an axiomatic approach" (Information Retrieval Journal, 2020).

**Absent classes.** Metrics that would divide by zero or take the logarithm of zero smooth the
prevalences with :math:`\epsilon = 1/(2z)`, where z is the bag size (Forman, 2008). A class that is
absent from the bag, from the estimate or from both therefore never gives NaN or infinity.

**One class.** With k = 1 both prevalences are (1,) and every error is zero.

**No bags.** Inputs of shape (0, k) give an empty result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from kdey.simplex import Array, check_posteriors, in_order_of
from kdey.validation import for_numpy

#: Mean ratings are sums of k products: this keeps a whole number from being rounded below itself.
_ROUNDING = 1e-9


def absolute_error(true: ArrayLike, estimated: ArrayLike) -> Array:
    r"""AE: :math:`\frac1k\sum_i|\alpha_i-\hat\alpha_i|`, from 0 to 2/k.

    Examples
    --------
    >>> from kdey.metrics import absolute_error
    >>> float(absolute_error([0.2, 0.8], [0.3, 0.7]).round(3))
    0.1
    """
    a, b = _checked(true, estimated)
    return _array(np.abs(a - b).mean(axis=-1))


def normalised_absolute_error(true: ArrayLike, estimated: ArrayLike) -> Array:
    r"""NAE: AE divided by its largest value at this true prevalence, from 0 to 1.

    .. math:: \frac{\sum_i|\alpha_i-\hat\alpha_i|}{2(1-\min_i\alpha_i)}

    The largest value belongs to an estimate that puts all mass on the rarest class. The error is
    zero for k = 1.
    """
    a, b = _checked(true, estimated)
    return _ratio(np.abs(a - b).sum(axis=-1), 2 * (1 - a.min(axis=-1)))


def relative_absolute_error(true: ArrayLike, estimated: ArrayLike, *, bag_size: ArrayLike) -> Array:
    r"""RAE: :math:`\frac1k\sum_i\frac{|\alpha_i-\hat\alpha_i|}{\alpha_i+\epsilon}`.

    Smoothing both prevalences first, as most of the literature writes it, gives the same number:
    with :math:`\nu(x)=(x+\epsilon)/(1+k\epsilon)` the factor :math:`1+k\epsilon` cancels in
    :math:`|\nu(\alpha_i)-\nu(\hat\alpha_i)|/\nu(\alpha_i)`.

    Parameters
    ----------
    true, estimated : array-like of shape (..., k)
    bag_size : array-like of shape () or (...)
        Size z of each bag; :math:`\epsilon = 1/(2z)`.

    Examples
    --------
    >>> from kdey.metrics import relative_absolute_error
    >>> float(relative_absolute_error([0.2, 0.8], [0.3, 0.7], bag_size=100).round(3))
    0.306
    """
    a, b = _checked(true, estimated)
    epsilon = _epsilon(bag_size, a)
    return _array((np.abs(a - b) / (a + epsilon)).mean(axis=-1))


def normalised_relative_absolute_error(
    true: ArrayLike, estimated: ArrayLike, *, bag_size: ArrayLike
) -> Array:
    r"""NRAE: RAE divided by :math:`\frac1k(k-1+(1-\nu_{\min})/\nu_{\min})`, within [0, 1).

    :math:`\nu_{\min}` is the smallest smoothed true prevalence. We keep the normaliser of the
    literature so that numbers are comparable; because of the smoothing it lies slightly above the
    largest possible RAE, and NRAE stays just below 1. The error is zero for k = 1.
    """
    a, b = _checked(true, estimated)
    rarest = smooth(a, bag_size).min(axis=-1)
    n_classes = a.shape[-1]
    total = n_classes * relative_absolute_error(a, b, bag_size=bag_size)
    return _ratio(total, n_classes - 1 + (1 - rarest) / rarest)


def squared_error(true: ArrayLike, estimated: ArrayLike) -> Array:
    r"""SE: :math:`\frac1k\sum_i(\alpha_i-\hat\alpha_i)^2`."""
    a, b = _checked(true, estimated)
    return _array(np.square(a - b).mean(axis=-1))


def kullback_leibler(true: ArrayLike, estimated: ArrayLike, *, bag_size: ArrayLike) -> Array:
    r"""KLD: :math:`\sum_i\nu(\alpha_i)\log(\nu(\alpha_i)/\nu(\hat\alpha_i))`, both smoothed."""
    a, b = _smoothed(true, estimated, bag_size)
    # Rounding can give -1e-17 if both agree, but the divergence is never negative.
    return _array(np.maximum((a * np.log(a / b)).sum(axis=-1), 0.0))


def normalised_kullback_leibler(
    true: ArrayLike, estimated: ArrayLike, *, bag_size: ArrayLike
) -> Array:
    r"""NKLD: :math:`2e^{\mathrm{KLD}}/(1+e^{\mathrm{KLD}})-1=\tanh(\mathrm{KLD}/2)`, in [0, 1)."""
    return _array(np.tanh(kullback_leibler(true, estimated, bag_size=bag_size) / 2))


def match_distance(true: ArrayLike, estimated: ArrayLike) -> Array:
    r"""MD, for ordered classes: :math:`\sum_{i<k}|\sum_{j\le i}(\alpha_j-\hat\alpha_j)|`.

    The earth mover's distance: mass times the number of classes by which it must move, from 0 to
    k - 1. The order of the classes is that of the columns.
    """
    a, b = _checked(true, estimated)
    return _array(np.abs(np.cumsum(a - b, axis=-1)[..., :-1]).sum(axis=-1))


def normalised_match_distance(true: ArrayLike, estimated: ArrayLike) -> Array:
    """NMD: match distance divided by k - 1, from 0 to 1; zero for k = 1."""
    distance = match_distance(true, estimated)
    return _array(distance / max(np.shape(true)[-1] - 1, 1))


def bray_curtis(true: ArrayLike, estimated: ArrayLike) -> Array:
    r"""Bray-Curtis dissimilarity, from 0 to 1.

    .. math:: \frac{\sum_i|\alpha_i-\hat\alpha_i|}{\sum_i(\alpha_i+\hat\alpha_i)}

    On the simplex it is the total variation distance.
    """
    a, b = _checked(true, estimated)
    return _array(np.abs(a - b).sum(axis=-1) / (a + b).sum(axis=-1))


def aitchison(true: ArrayLike, estimated: ArrayLike, *, bag_size: ArrayLike) -> Array:
    r"""Aitchison distance :math:`\|\mathrm{clr}(\nu(\alpha))-\mathrm{clr}(\nu(\hat\alpha))\|_2`.

    Both prevalences are smoothed; clr is the centred log-ratio, :math:`\log x` minus its mean.
    """
    a, b = _smoothed(true, estimated, bag_size)
    ratio = np.log(a / b)
    return _array(np.linalg.norm(ratio - ratio.mean(axis=-1, keepdims=True), axis=-1))


def root_normalised_order_aware_divergence(true: ArrayLike, estimated: ArrayLike) -> Array:
    r"""RNOD, for ordered classes, from 0 to 1 (Sakai, 2018).

    .. math:: \sqrt{\frac{1}{(k-1)\,|C|}
              \sum_{i \in C} \sum_j |i - j| (\alpha_j - \hat\alpha_j)^2}, \qquad
              C = \{i : \alpha_i > 0\}

    Errors far from the classes that occur cost more. The error is zero for k = 1.
    """
    a, b = _checked(true, estimated)
    k = a.shape[-1]
    distance = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    weighted = np.square(a - b) @ distance
    present = a > 0
    mean = (weighted * present).sum(axis=-1) / present.sum(axis=-1)
    return _array(np.sqrt(mean / max(k - 1, 1)))


def macro_normalised_match_distance(true: ArrayLike, estimated: ArrayLike) -> float:
    """Macro-NMD: the mean over ratings of the mean NMD of their bags (LeQua 2024).

    Bags are sorted by the mean of the true rating, with classes rated 1 to k, into the bins [1, 2),
    ..., [k - 1, k]; bins without a bag are left out. Bags with rare ratings therefore count as
    much as the others. It is one number for all bags, and so no metric of
    :data:`~kdey.metrics.METRICS`.

    Parameters
    ----------
    true, estimated : array-like of shape (n_bags, k)

    Returns
    -------
    float
    """
    a, b = _checked(true, estimated)
    if a.ndim != 2 or len(a) == 0:
        raise ValueError(f"macro-NMD needs prevalences of shape (n_bags, k), got {a.shape}")
    k = a.shape[1]
    errors = normalised_match_distance(a, b)
    bins = np.minimum(np.floor(a @ np.arange(1, k + 1) + _ROUNDING), max(k - 1, 1))
    return float(np.mean([errors[bins == rating].mean() for rating in np.unique(bins)]))


def bias(true: ArrayLike, estimated: ArrayLike) -> Array:
    """Signed error of each class, estimated minus true, shape (..., k).

    For two classes the last column is the bias of the positive class. It has a sign, so that it is
    nothing to minimise, and no metric of :data:`~kdey.metrics.METRICS`.
    """
    a, b = _checked(true, estimated)
    return _array(b - a)


def squared_ratio_error(true: ArrayLike, estimated: ArrayLike, training: ArrayLike) -> Array:
    r"""SRE: squared error of the ratios to the training prevalence :math:`\pi`.

    .. math:: \frac1k\sum_i\left(\frac{\alpha_i-\hat\alpha_i}{\pi_i}\right)^2

    The ratios are the weights by which a classifier is adapted to the bag.
    :func:`~kdey.metrics.ratio_metric` makes it a metric for ``evaluate`` and searches.

    Parameters
    ----------
    true, estimated : array-like of shape (..., k)
    training : array-like of shape (k,)
        Positive.
    """
    a, b = _checked(true, estimated)
    prior = _check(training, "training")
    if prior.shape != a.shape[-1:] or not (prior > 0).all():
        raise ValueError(
            f"training must hold {a.shape[-1]} positive prevalences, got shape {prior.shape}"
        )
    return _array(np.square((a - b) / prior).mean(axis=-1))


def smooth(prevalence: ArrayLike, bag_size: ArrayLike) -> Array:
    r"""Return :math:`\nu(x)=(x+\epsilon)/(1+k\epsilon)` with :math:`\epsilon=1/(2z)`.

    Parameters
    ----------
    prevalence : array-like of shape (..., k)
    bag_size : array-like of shape () or (...)
        Size z of each bag.

    Returns
    -------
    array of shape (..., k)

    Raises
    ------
    ValueError
        If a prevalence is not on the simplex, or a bag size is not positive.
    """
    p = _check(prevalence, "prevalence")
    epsilon = _epsilon(bag_size, p)
    return _array((p + epsilon) / (1 + p.shape[-1] * epsilon))


def _smoothed(true: ArrayLike, estimated: ArrayLike, bag_size: ArrayLike) -> tuple[Array, Array]:
    a, b = _checked(true, estimated)
    return smooth(a, bag_size), smooth(b, bag_size)


def _checked(true: ArrayLike, estimated: ArrayLike) -> tuple[Array, Array]:
    """Return both prevalences as arrays of the same shape (..., k), or raise ValueError."""
    estimated = in_order_of(true, estimated, "estimated")
    a, b = _check(true, "true"), _check(estimated, "estimated")
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"true has {a.shape[-1]} classes (last axis), but estimated has {b.shape[-1]}"
        )
    try:
        a, b = np.broadcast_arrays(a, b)
    except ValueError as error:
        raise ValueError(
            f"true and estimated must hold the same bags, got shapes {a.shape} and {b.shape}"
        ) from error
    return a, b


def _check(prevalence: ArrayLike, name: str) -> Array:
    """Return prevalences of shape (..., k) as an array, or raise ValueError."""
    p = np.asarray(for_numpy(prevalence, name))
    if p.ndim == 0 or p.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., n_classes), got shape {p.shape}")
    if p.size == 0:
        return np.zeros(p.shape)
    return _array(check_posteriors(p.reshape(-1, p.shape[-1]), name=name).reshape(p.shape))


def _epsilon(bag_size: ArrayLike, prevalences: Array) -> Array:
    """Return 1 / (2 z) with a trailing axis for the classes."""
    z = np.asarray(for_numpy(bag_size, "bag_size"), dtype=np.float64)
    if not (np.isfinite(z) & (z > 0)).all():
        raise ValueError(f"bag_size must be positive and finite, got {bag_size!r:.60}")
    bags = prevalences.shape[:-1]
    if z.ndim and z.shape != bags:
        raise ValueError(f"bag_size must be a number or have shape {bags}, got {z.shape}")
    return _array(0.5 / z[..., None])


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Divide, with 0 / 0 = 0: the denominator is zero only for k = 1, where errors are zero."""
    safe = np.where(denominator > 0, denominator, 1.0)
    return _array(np.where(denominator > 0, numerator / safe, 0.0))


def _array(values: object) -> Array:
    return np.asarray(values, dtype=np.float64)


@dataclass(frozen=True)
class Metric:
    """A named error between true and estimated prevalences.

    Attributes
    ----------
    name : str
        The short name, as in tables of the literature.
    function : callable
        ``function(true, estimated)``, or ``function(true, estimated, bag_size=...)`` if
        ``needs_bag_size``. It takes prevalences of shape (n_bags, k) and returns one value per
        bag, shape (n_bags,).
    title : str
        The full name.
    needs_bag_size : bool
        Whether the metric smooths and must therefore know the size of the bags.
    ordered : bool
        Whether the order of the classes matters.
    lower_is_better : bool
    version : str or None
        Of a metric of your own: say another one whenever ``function`` computes something else. The
        log of a search is resumed only where it is given.
    """

    name: str
    function: Callable[..., ArrayLike]
    title: str
    needs_bag_size: bool = False
    ordered: bool = False
    lower_is_better: bool = True
    version: str | None = None

    @property
    def sign(self) -> int:
        """Factor that makes larger values better: -1 for errors."""
        return -1 if self.lower_is_better else 1

    def __call__(
        self, true: ArrayLike, estimated: ArrayLike, *, bag_size: ArrayLike | None = None
    ) -> Array:
        """Return one value per bag.

        Parameters
        ----------
        true, estimated : array-like of shape (..., k)
        bag_size : array-like of shape () or (...), optional
            Ignored by metrics that do not need it.

        Returns
        -------
        array of shape (...)

        Raises
        ------
        ValueError
            If the bag size is missing, or the function returns another shape.
        """
        if self.needs_bag_size and bag_size is None:
            raise ValueError(f"metric {self.name!r} smooths by the bag size: pass bag_size")
        extra = {"bag_size": bag_size} if self.needs_bag_size else {}
        values = np.asarray(self.function(true, estimated, **extra), dtype=np.float64)
        bags = np.broadcast_shapes(np.shape(true), np.shape(estimated))[:-1]
        if values.shape != bags:
            raise ValueError(
                f"metric {self.name!r} must return one value per bag, shape {bags}, "
                f"but returned shape {values.shape}"
            )
        return values


MetricLike: TypeAlias = "str | Metric | Callable[..., ArrayLike]"

_ALL = (
    Metric("ae", absolute_error, "absolute error"),
    Metric("nae", normalised_absolute_error, "normalised absolute error"),
    Metric("rae", relative_absolute_error, "relative absolute error", True),
    Metric(
        "nrae",
        normalised_relative_absolute_error,
        "normalised relative absolute error",
        True,
    ),
    Metric("se", squared_error, "squared error"),
    Metric("kld", kullback_leibler, "Kullback-Leibler divergence", True),
    Metric(
        "nkld",
        normalised_kullback_leibler,
        "normalised Kullback-Leibler divergence",
        True,
    ),
    Metric("md", match_distance, "match distance", ordered=True),
    Metric("nmd", normalised_match_distance, "normalised match distance", ordered=True),
    Metric(
        "rnod",
        root_normalised_order_aware_divergence,
        "root normalised order-aware divergence",
        ordered=True,
    ),
    Metric("bray_curtis", bray_curtis, "Bray-Curtis dissimilarity"),
    Metric("aitchison", aitchison, "Aitchison distance", True),
)

#: Other names of metrics, in other libraries.
_ALIASES = {"aqe": "aitchison", "maqe": "aitchison"}

#: Every metric by its short name.
METRICS: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _ALL})


def get_metric(metric: MetricLike) -> Metric:
    """Return the metric for a name, a function or a :class:`Metric`.

    Parameters
    ----------
    metric : str, callable or Metric
        A short name ("rae"), the name of its mean over bags ("mrae") or the name of its function
        ("relative_absolute_error"); "aqe" is another name of "aitchison". Case does not matter, and
        "-" and blanks are read as "_". A
        callable ``f(true, estimated)`` takes all bags at once and is an error (lower is better);
        it is called with ``bag_size`` if it has a parameter of that name.

    Returns
    -------
    Metric

    Raises
    ------
    ValueError
        If the name is unknown, or the argument is of another type.
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return _by_name(metric)
    if callable(metric):
        return _from_callable(metric)
    raise ValueError(f"metric must be a name, a callable or a Metric, got {metric!r}")


def ratio_metric(training: ArrayLike) -> Metric:
    """Return the squared ratio error (SRE) to a training prevalence as a metric.

    Parameters
    ----------
    training : array-like of shape (k,)
        Such as ``quantifier.prevalence_``.

    Returns
    -------
    Metric
        Named "sre".
    """

    def ratio_error(true: ArrayLike, estimated: ArrayLike) -> Array:
        return squared_ratio_error(true, estimated, training)

    version = str(np.asarray(training, dtype=np.float64).tolist())
    return Metric("sre", ratio_error, "squared ratio error", version=version)


#: Measures that are no metric of one bag by itself, and how to compute them.
_ELSEWHERE = {
    "sre": "needs the training prevalence: kdey.metrics.ratio_metric(q.prevalence_) is the metric",
    "bias": "is signed, one number per class: kdey.metrics.bias(results.true, results.estimated())",
    "macro_nmd": "is one number for all bags: kdey.metrics.macro_normalised_match_distance("
    "results.true, results.estimated())",
}


def _by_name(name: str) -> Metric:
    normalised = name.strip().lower().replace("-", "_").replace(" ", "_")
    normalised = _ALIASES.get(normalised, normalised)
    for metric in _ALL:
        if normalised in (metric.name, "m" + metric.name, metric.function.__name__):
            return metric
    for known, remedy in _ELSEWHERE.items():
        if normalised in (known, "m" + known, known + "_binary"):
            raise ValueError(f"{name!r} {remedy}")
    raise ValueError(f"metric {name!r} is unknown; the names are {', '.join(METRICS)}")


def _from_callable(function: Callable[..., ArrayLike]) -> Metric:
    for metric in _ALL:
        if metric.function is function:
            return metric
    name = getattr(function, "__name__", type(function).__name__)
    parameters = inspect.signature(function).parameters
    return Metric(name, function, name.replace("_", " "), "bag_size" in parameters)
