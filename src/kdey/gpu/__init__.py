"""The same estimates on a GPU, or wherever torch runs (extra ``gpu``).

``device=`` of a quantifier says where (:mod:`kdey._support.device`). Rows are made there
(``rows``: class
log-sums by ``sums``, which takes the Triton kernel of ``fused`` or the plain torch of ``plain``;
``layout`` holds the references as they want them), and bags are solved there (``solve``: the
problems of ``losses``, all by the one interior-point method of ``interior``). ``tiles`` bounds the
memory.

This file and ``route`` import no torch; the others do, and are imported when there is work.
"""

import warnings

from kdey.gpu.route import device_solver, match_rows, rows_of_family_on
from kdey.matching import AnyMatching
from kdey.rows.interface import RowMap


def has_route(row_map: RowMap, matching: AnyMatching) -> bool:
    """Return whether a problem is solved on a device; ask ``matching.device_problem`` instead.

    .. deprecated:: 0.2
    """
    _warn("has_route(row_map, matching)", "matching.device_problem(row_map) is not None")
    return matching.device_problem(row_map) is not None


def n_pairs(row_map: RowMap, n_points: int) -> float:
    """Return about how many kernel values rows cost; ask ``row_map.n_pairs`` instead.

    .. deprecated:: 0.2
    """
    _warn("n_pairs(row_map, n)", "row_map.n_pairs(n)")
    return row_map.n_pairs(n_points)


def _warn(old: str, new: str) -> None:
    warnings.warn(f"kdey.gpu.{old} goes with kdey 0.4: use {new}", DeprecationWarning, stacklevel=3)


__all__ = ["device_solver", "has_route", "match_rows", "n_pairs", "rows_of_family_on"]
