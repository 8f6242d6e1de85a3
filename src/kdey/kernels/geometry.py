r"""The geometry of the kernel: coordinates of posteriors, and bandwidths."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Array, Indices

Floats = NDArray[np.floating]

#: Share of the uniform distribution that is mixed into posteriors before taking logarithms.
DEFAULT_SHRINKAGE = 1e-3

#: Accepted kernel names. The isometric log-ratios are a rotation of the centred ones, so "ilr"
#: has the same distances and is an alias of "aitchison".
KERNELS = ("gaussian", "aitchison", "ilr")


def check_geometry(kernel: str, shrinkage: float) -> None:
    """Raise ValueError unless ``kernel`` is one of ``KERNELS`` and 0 <= ``shrinkage`` < 1."""
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {kernel!r}")
    check_shrinkage(shrinkage)


def check_shrinkage(shrinkage: float) -> None:
    """Raise unless ``shrinkage`` is a number with 0 <= ``shrinkage`` < 1."""
    is_number = isinstance(shrinkage, int | float | np.number) and not isinstance(shrinkage, bool)
    if not is_number or not 0 <= shrinkage < 1:
        raise ValueError(f"shrinkage must be a number in [0, 1), got {shrinkage!r}")


def transform(
    posteriors: ArrayLike, kernel: str = "gaussian", shrinkage: float = DEFAULT_SHRINKAGE
) -> Floats:
    r"""Return the coordinates of ``posteriors`` (m, k) in which ``kernel`` is Gaussian, (m, k).

    "gaussian" is the identity (no copy, ``shrinkage`` unused). "aitchison" (alias "ilr") gives
    the centred log-ratios of shrunk posteriors, float64,

    .. math:: z_i = \log q_i - \frac1k \sum_l \log q_l, \quad q = (1 - s)\, p + s / k,

    whose Euclidean distance is Aitchison's distance between the q (Aitchison, *The Statistical
    Analysis of Compositional Data*, 1986).

    Parameters
    ----------
    posteriors : array-like of shape (m, k)
    kernel : {"gaussian", "aitchison", "ilr"}
    shrinkage : float in [0, 1)
        The s above.

    Returns
    -------
    coordinates : float array of shape (m, k)

    Raises
    ------
    ValueError
        If a parameter is invalid, or a logarithm of zero would be needed.
    """
    check_geometry(kernel, shrinkage)
    p = np.asarray(posteriors)
    if p.ndim != 2:
        raise ValueError(f"posteriors must have shape (n_instances, n_classes), got {p.shape}")
    return p if kernel == "gaussian" else _centred_log_ratios(p, float(shrinkage))


def _centred_log_ratios(posteriors: Floats, shrinkage: float) -> Floats:
    n_classes = posteriors.shape[1]
    mixed: Floats = (1.0 - shrinkage) * posteriors.astype(np.float64) + shrinkage / max(
        n_classes, 1
    )
    lowest = float(mixed.min(initial=math.inf))
    if not lowest > 0:
        raise ValueError(
            "log-ratios need positive posteriors, but the smallest is "
            f"{lowest:.3g} after a shrinkage of {shrinkage}: set a shrinkage above 0"
        )
    np.log(mixed, out=mixed)
    mixed -= mixed.mean(axis=1, keepdims=True)
    return mixed


#: Names of the rules of thumb.
RULES = ("scott", "silverman")

#: Result of a rule of thumb if the references of every class coincide.
MINIMUM_BANDWIDTH = 1e-3


def check_bandwidth(bandwidth: float | str) -> None:
    """Raise ValueError unless ``bandwidth`` is a positive finite number or one of ``RULES``.

    "auto" is not accepted: :mod:`kdey.tuning` replaces it by a number before this is called.
    """
    if isinstance(bandwidth, str):
        if bandwidth not in RULES:
            raise ValueError(f"bandwidth must be a number or one of {RULES}, got {bandwidth!r}")
        return
    is_number = isinstance(bandwidth, int | float | np.number) and not isinstance(bandwidth, bool)
    if not is_number or not (math.isfinite(bandwidth) and bandwidth > 0):
        raise ValueError(f"bandwidth must be positive and finite, got {bandwidth!r}")


def resolve_bandwidth(
    bandwidth: float | str,
    references: Floats,
    offsets: Indices,
    weights: Array | None = None,
) -> float:
    r"""Return ``bandwidth`` as a number, computed from the references if it names a rule of thumb.

    With d = k - 1 degrees of freedom (k columns of a simplex or of log-ratios), n the mean
    effective class size, :math:`(\sum w)^2 / \sum w^2`, over the classes that have references,
    and :math:`\sigma^2` the weighted mean over all references of their squared distance
    from their class mean, divided by d,

    .. math:: h_{\text{scott}} = \sigma\, n^{-1/(d+4)}, \quad
              h_{\text{silverman}} = \left(\frac{4}{d+2}\right)^{1/(d+4)} h_{\text{scott}}

    (Scott, *Multivariate Density Estimation*, 1992; Silverman, *Density Estimation*, 1986).
    If this is below ``MINIMUM_BANDWIDTH`` (all references of a class coincide), the minimum is
    returned with a warning.

    Parameters
    ----------
    bandwidth : float or {"scott", "silverman"}
    references : array of shape (n, k)
        Coordinates in the kernel's geometry, sorted by class.
    offsets : int array of shape (n_classes + 1,)
        The references of class i are ``references[offsets[i]:offsets[i + 1]]``.
    weights : array of shape (n,), optional

    Returns
    -------
    bandwidth : float

    Raises
    ------
    ValueError
        If ``bandwidth`` is invalid, or a rule has no references to work on.
    """
    check_bandwidth(bandwidth)
    if not isinstance(bandwidth, str):
        return float(bandwidth)
    degrees = max(references.shape[1] - 1, 1)
    variance, size = _pooled_spread(references, offsets, weights)
    h = math.sqrt(variance / degrees) * math.pow(size, -1.0 / (degrees + 4))
    if bandwidth == "silverman":
        h *= math.pow(4.0 / (degrees + 2), 1.0 / (degrees + 4))
    if h >= MINIMUM_BANDWIDTH:
        return h
    warnings.warn(
        f"bandwidth={bandwidth!r} gives {h:.3g} on these references (their classes hardly vary); "
        f"using the minimum {MINIMUM_BANDWIDTH}",
        UserWarning,
        stacklevel=2,
    )
    return MINIMUM_BANDWIDTH


def _pooled_spread(
    references: Floats, offsets: Indices, weights: Array | None
) -> tuple[float, float]:
    """Return the pooled trace of the within-class covariance and the mean effective size."""
    scatter, mass, sizes = 0.0, 0.0, []
    for low, high in itertools.pairwise(offsets):
        y = np.asarray(references[low:high], dtype=np.float64)
        w = np.ones(len(y)) if weights is None else weights[low:high]
        total = float(w.sum())
        if total > 0:
            centred = y - (w @ y) / total
            scatter += float(w @ np.einsum("rd,rd->r", centred, centred))
            mass += total
            sizes.append(total**2 / float(w @ w))
    if not sizes:
        raise ValueError("references are empty: a bandwidth rule needs at least one")
    return scatter / mass, float(np.mean(sizes))
