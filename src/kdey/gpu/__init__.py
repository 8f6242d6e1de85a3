"""Estimates on a GPU, or on any other device of torch (extra ``gpu``).

The parameter ``device`` of a quantifier names the device (:mod:`kdey._parallel`). ``bags``
computes rows there, gathers those of bags, and has the moments that analytic intervals are made of.
``sums`` has the class log-sums, by the Triton kernel of ``fused`` or plain torch. ``solve`` solves
bags there, all by the interior-point method of ``interior``.

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
