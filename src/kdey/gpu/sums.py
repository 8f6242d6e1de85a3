"""The kernel log-sums in plain torch: any device, float32 or float64, one tile at a time.

The kernel log-sums on a device: which route serves which bandwidth.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from kdey._support.device import as_tensor
from kdey.gpu.bags import in_tiles
from kdey.gpu.layout import DeviceReferences

#: Kernel exponents held at a time: few calls on a GPU, and what fits a processor's cache.
_TILE = {"cuda": 1 << 25, "cpu": 1 << 18}
#: References of a class taken at a time; longer classes are merged by their log-sums.
_REFERENCES = 4096


def plain_log_sums(
    queries: torch.Tensor,
    refs: DeviceReferences,
    bandwidths: Sequence[float],
    exclude: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return the log-sums of :func:`kdey.gpu.sums.class_log_sums`, (n_bandwidths, m, k)."""
    shape = (len(bandwidths), len(queries), refs.n_classes)
    out = torch.full(shape, -math.inf, dtype=dtype, device=queries.device)
    left_out = None if exclude is None else refs.position[exclude]
    longest = max(b - a for a, b in itertools.pairwise((0, *refs.offsets)))
    tile = _TILE.get(queries.device.type, 1 << 22) // max(1, min(longest, _REFERENCES))

    def work(start: int, stop: int) -> None:
        part = queries[start:stop].to(torch.float64 if dtype == torch.float64 else torch.float32)
        gone = None if left_out is None else left_out[start:stop]
        made = [_class_sums(part, refs, i, bandwidths, gone, dtype) for i in range(refs.n_classes)]
        out[:, start:stop] = torch.stack(made, dim=2)

    in_tiles(work, len(queries), tile)
    return out


def _class_sums(
    x: torch.Tensor,
    refs: DeviceReferences,
    label: int,
    bandwidths: Sequence[float],
    left_out: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return the log-sums to one class, shape (n_bandwidths, m)."""
    out = x.new_full((len(bandwidths), len(x)), -math.inf)
    centred = x - refs.centres[label].to(dtype)
    low, high = refs.offsets[label], refs.offsets[label + 1]
    for start in range(low, high, _REFERENCES):
        part = slice(start, min(start + _REFERENCES, high))
        squares = _squared_distances(centred, refs.points[part].to(dtype))
        if left_out is not None:
            hit = torch.nonzero((left_out >= part.start) & (left_out < part.stop))[:, 0]
            squares[hit, left_out[hit] - part.start] = math.inf
        logs = None if refs.weights is None else refs.weights[part].log().to(dtype)
        for b, h in enumerate(bandwidths):
            exponents = squares * (-0.5 / h**2)
            if logs is not None:
                exponents += logs
            out[b] = torch.logaddexp(out[b], torch.logsumexp(exponents, dim=1))
    return out


def _squared_distances(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    norms = (x**2).sum(dim=1, keepdim=True)
    squares = torch.addmm((y**2).sum(dim=1), x, y.T, alpha=-2.0)
    return squares.add_(norms).clamp_(min=0.0)


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
