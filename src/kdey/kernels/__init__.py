"""Class-wise Gaussian kernel log-sums: the one expensive operation of kernel quantification.

``geometry`` turns posteriors into coordinates and a rule of thumb into a bandwidth, and
``class_log_sums`` evaluates

    l[h, j, i] = log sum_{r in class i} w_r exp(-|x_j - y_r|^2 / (2 h^2))

for all queries x_j, classes i and bandwidths h at once. The normaliser of the Gaussian is left out:
it is the same for all classes, and (2 pi h^2)^(-D/2) can overflow or underflow where the log-sums
do not.

``sums`` checks the arguments and calls one of two implementations of the same sums: the native core
(C++, ``src/native/kernel*``), or NumPy, which the tests compare it with and which is used if no
compiler was available. It also prepares references for many calls, and averages kernels over bags.
"""

from kdey.kernels.geometry import (
    DEFAULT_SHRINKAGE,
    KERNELS,
    MINIMUM_BANDWIDTH,
    resolve_bandwidth,
    transform,
)
from kdey.kernels.sums import class_log_sums

__all__ = [
    "DEFAULT_SHRINKAGE",
    "KERNELS",
    "MINIMUM_BANDWIDTH",
    "class_log_sums",
    "resolve_bandwidth",
    "transform",
]
