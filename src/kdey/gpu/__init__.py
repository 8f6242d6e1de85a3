"""Estimates on a GPU, or on any other device of torch (extra ``gpu``).

The parameter ``device`` of a quantifier names the device (:mod:`kdey._support.device`). ``rows``
computes rows there: class log-sums by ``sums``, which uses the Triton kernel of ``fused`` or plain
torch, on references in the form of ``layout``. ``solve`` solves bags there: the problems of
``losses``, all by the interior-point method of ``interior``. ``moments`` computes what analytic
limits are made of. ``bags`` gathers the rows of bags and limits the memory.

This file and ``route`` do not import torch. The other files do, and are imported when needed.
"""

import warnings

from kdey.gpu.route import (
    device_solver,
    match_family_on,
    match_rows,
    match_together,
    rows_of_family_on,
    rows_on,
)
from kdey.matching import AnyMatching
from kdey.rows.interface import RowMap


def has_route(row_map: RowMap, matching: AnyMatching) -> bool:
    """Return whether a device can solve a problem.

    .. deprecated:: 0.2
        Use ``matching.device_problem(row_map) is not None``.
    """
    _warn("has_route(row_map, matching)", "matching.device_problem(row_map) is not None")
    return matching.device_problem(row_map) is not None


def n_pairs(row_map: RowMap, n_points: int) -> float:
    """Return about how many kernel values the rows of some points need.

    .. deprecated:: 0.2
        Use ``row_map.n_pairs(n_points)``.
    """
    _warn("n_pairs(row_map, n)", "row_map.n_pairs(n)")
    return row_map.n_pairs(n_points)


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"kdey.gpu.{old} will be removed in kdey 0.4: use {new}", DeprecationWarning, stacklevel=3
    )


__all__ = [
    "device_solver",
    "has_route",
    "match_family_on",
    "match_rows",
    "match_together",
    "n_pairs",
    "rows_of_family_on",
    "rows_on",
]
