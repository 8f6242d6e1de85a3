"""The kernel log-sums on a device: which route serves which bandwidth."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from kdey.device import as_tensor
from kdey.gpu.layout import DeviceReferences
from kdey.gpu.plain import plain_log_sums

#: Rounding of float32 exponents, as a multiple of (class radius / bandwidth)^2: 2^-22.
_ROUNDING = 2.0**-22
#: Largest such rounding before float64 takes over; the errors measured are ten times smaller.
_ACCEPTED = 1e-3
#: Columns the fused kernel takes: more would not leave room for its tiles.
_MAX_COLUMNS = 128
#: References it takes: their coordinates are counted in 32 bits.
_MAX_REFERENCES = 1 << 23


def class_log_sums(
    queries: Any,
    references: Any,
    offsets: Any,
    bandwidths: Sequence[float],
    *,
    weights: Any = None,
    exclude: Any = None,
    precision: str = "mixed",
    device: Any = None,
) -> torch.Tensor:
    r"""Return :func:`kdey.kernels.class_log_sums` as a tensor (n_bandwidths, m, k) on the device.

    .. math:: l_{hji} = \log \sum_{r \in \text{class } i} w_r
              \exp\left(-\frac{\|x_j - y_r\|^2}{2 h^2}\right)

    Parameters
    ----------
    queries : array or tensor of shape (m, D)
        A tensor is read where it lies.
    references, offsets, bandwidths, weights, exclude
        As for the host's function (arrays).
    precision : {"mixed", "double"}
        "mixed": float32 (fused where Triton and CUDA are there) for bandwidths at which its
        rounding does not matter, float64 for smaller ones. "double": float64. The result is
        float64 if any bandwidth needed it.
    device : torch.device, optional
        By default where ``queries`` lie, or the host.
    """
    where = device or (queries.device if torch.is_tensor(queries) else torch.device("cpu"))
    x = as_tensor(queries, where)
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    refs = DeviceReferences.of(np.asarray(references), np.asarray(offsets), w, where)
    gone = None if exclude is None else as_tensor(exclude, where).long()
    limit = _smallest_bandwidth(refs) if precision == "mixed" else float("inf")
    wide = [b for b, h in enumerate(bandwidths) if h >= limit]
    if len(wide) == len(bandwidths):
        return single_log_sums(x, refs, bandwidths, gone)
    narrow = [b for b in range(len(bandwidths)) if b not in wide]
    made = plain_log_sums(x, refs, [bandwidths[b] for b in narrow], gone, torch.float64)
    if not wide:
        return made
    out = made.new_empty((len(bandwidths), *made.shape[1:]))
    out[narrow] = made
    out[wide] = single_log_sums(x, refs, [bandwidths[b] for b in wide], gone).double()
    return out


def single_log_sums(
    queries: torch.Tensor,
    refs: DeviceReferences,
    bandwidths: Sequence[float],
    exclude: torch.Tensor | None,
) -> torch.Tensor:
    """Return the log-sums in float32, by the fused kernel where it can run."""
    x = queries.to(torch.float32)
    if not fused_available(x, len(refs.points)):
        return plain_log_sums(x, refs, bandwidths, exclude, torch.float32)
    from kdey.gpu.fused import fused_log_sums

    return fused_log_sums(x.contiguous(), refs, bandwidths, exclude)


def fused_available(queries: torch.Tensor, n_references: int) -> bool:
    """Whether the fused kernel can run: CUDA, Triton, not too many columns and references."""
    return (
        queries.device.type == "cuda"
        and queries.shape[1] <= _MAX_COLUMNS
        and n_references < _MAX_REFERENCES
        and importlib.util.find_spec("triton") is not None
    )


def _smallest_bandwidth(refs: DeviceReferences) -> float:
    return float(np.sqrt(_ROUNDING * refs.squared_radius / _ACCEPTED))
