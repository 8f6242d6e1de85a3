"""Estimates on a GPU, or on any other device of torch (extra ``gpu``).

The parameter ``device`` of a quantifier names the device (:mod:`kdey._support.device`). ``rows``
computes rows there: class log-sums by ``sums``, which uses the Triton kernel of ``fused`` or plain
torch, on references in the form of ``layout``. ``solve`` solves bags there: the problems of
``losses``, all by the interior-point method of ``interior``. ``moments`` computes what analytic
limits are made of. ``bags`` gathers the rows of bags and limits the memory.

This file and ``route`` do not import torch. The other files do, and are imported when needed.
"""

from kdey.gpu.route import (
    device_solver,
    match_family_on,
    match_rows,
    match_together,
    rows_of_family_on,
    rows_on,
)

__all__ = [
    "device_solver",
    "match_family_on",
    "match_rows",
    "match_together",
    "rows_of_family_on",
    "rows_on",
]
