"""Geometry of the kernel: coordinates of posteriors in which its distances are Euclidean."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
