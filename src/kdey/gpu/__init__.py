"""The same estimates on a GPU, or wherever torch runs (extra ``gpu``).

``device=`` of a quantifier says where (:mod:`kdey._support.device`). Rows are made there
(``rows``: class
log-sums by ``sums``, which takes the Triton kernel of ``fused`` or the plain torch of ``plain``;
``layout`` holds the references as they want them), and bags are solved there (``solve``: the
problems of ``losses``, all by the one interior-point method of ``interior``). ``tiles`` bounds the
memory.

This file and ``route`` import no torch; the others do, and are imported when there is work.
"""

from kdey.gpu.route import device_solver, match_rows, rows_of_family_on

__all__ = ["device_solver", "match_rows", "rows_of_family_on"]
