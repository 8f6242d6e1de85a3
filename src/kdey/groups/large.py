"""Groups too large to be held at once: by sums over pieces, as a cluster does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Indices
from kdey.groups.settings import GroupSettings
from kdey.sums import LocalSource, SummedEstimates, estimate_sums

#: Instances beyond which a group is not held at once.
LARGE = 1 << 21
#: Instances of a piece.
PIECE = 1 << 18
#: Bytes of rows that are kept between passes; beyond it every pass makes them again.
KEPT = 1 << 29


def goes_by_sums(quantifier: Any, size: int, settings: GroupSettings) -> bool:
    """Whether a group of ``size`` instances is estimated piece by piece.

    The numbers are the same. Limits that only a bootstrap gives, and the fit check, need the whole
    group.
    """
    if size <= LARGE or settings.check_fit or settings.options.method == "bootstrap":
        return False
    return hasattr(quantifier, "interval_model") and quantifier.interval_model().is_analytic


def estimate_large(
    quantifier: Any, points: NDArray[np.floating], own: Indices, settings: GroupSettings
) -> SummedEstimates:
    """Return the estimate of the one group of the points at positions ``own``.

    Parameters
    ----------
    quantifier : fitted quantifier
    points : array of shape (m, k), in memory or on disk
        Posteriors.
    own : int64 array
    settings : GroupSettings
    """

    def pieces() -> Iterator[tuple[NDArray[np.floating], Indices, None]]:
        for start in range(0, len(own), PIECE):
            part = own[start : start + PIECE]
            yield points[part], np.zeros(len(part), dtype=np.int64), None

    keep = 4 * len(own) * points.shape[1] <= KEPT
    return estimate_sums(quantifier, LocalSource(pieces, keep), settings.options)
