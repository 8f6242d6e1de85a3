"""Kernel log-sums on a device.

:func:`log_sums_to` chooses the precision for each bandwidth, and the implementation: the fused
Triton kernel of ``fused.py`` on CUDA, or :func:`plain_log_sums`, which runs on any device of torch,
one tile at a time.
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

#: Kernel exponents in memory at a time: few calls on a GPU, and what fits the cache of a processor.
_TILE = {"cuda": 1 << 25, "cpu": 1 << 18}
#: References of a class per tile; log-sums of several tiles are merged.
_REFERENCES = 4096
#: Rounding error of float32 exponents, as a multiple of (class radius / bandwidth)^2: 2^-22.
_ROUNDING = 2.0**-22
#: With a larger rounding error we use float64; measured errors are ten times smaller.
_ACCEPTED = 1e-3
#: Largest number of columns for the fused kernel; more would leave no room for its tiles.
_MAX_COLUMNS = 128
#: Largest number of references for the fused kernel, which indexes their coordinates by 32 bits.
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
        A tensor is used on the device where it is.
    references, offsets, bandwidths, weights, exclude
        As for the host's function (arrays).
    precision : {"mixed", "double"}
        "mixed" uses float32 for bandwidths at which its rounding error does not matter (by the
        fused kernel if there are Triton and CUDA), and float64 for smaller ones. "double" uses
        float64. The result is float64 if any bandwidth needs it.
    device : torch.device, optional
        Default: the device of ``queries``, or the host.

    Returns
    -------
    tensor of shape (n_bandwidths, m, k)
    """
    place = device or (queries.device if torch.is_tensor(queries) else torch.device("cpu"))
    x = as_tensor(queries, place)
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    refs = DeviceReferences.of(np.asarray(references), np.asarray(offsets), w, place)
    excluded = None if exclude is None else as_tensor(exclude, place).long()
    return log_sums_to(refs, x, bandwidths, excluded, precision)


def log_sums_to(
    refs: DeviceReferences,
    x: torch.Tensor,
    bandwidths: Sequence[float],
    excluded: torch.Tensor | None = None,
    precision: str = "mixed",
) -> torch.Tensor:
    """Return :func:`class_log_sums` to references that are on the device already.

    Parameters
    ----------
    refs : DeviceReferences
    x : tensor of shape (m, D)
        Queries on the same device.
    bandwidths : sequence of float
    excluded : int64 tensor of shape (m,), optional
        Position of the reference that each query leaves out, or -1.
    precision : {"mixed", "double"}

    Returns
    -------
    tensor of shape (n_bandwidths, m, k)
    """
    limit = _smallest_bandwidth(refs) if precision == "mixed" else float("inf")
    wide = [b for b, h in enumerate(bandwidths) if h >= limit]
    if len(wide) == len(bandwidths):
        return single_log_sums(x, refs, bandwidths, excluded)
    narrow = [b for b in range(len(bandwidths)) if b not in wide]
    double = plain_log_sums(x, refs, [bandwidths[b] for b in narrow], excluded, torch.float64)
    if not wide:
        return double
    out = double.new_empty((len(bandwidths), *double.shape[1:]))
    out[narrow] = double
    out[wide] = single_log_sums(x, refs, [bandwidths[b] for b in wide], excluded).double()
    return out


def single_log_sums(
    queries: torch.Tensor,
    refs: DeviceReferences,
    bandwidths: Sequence[float],
    exclude: torch.Tensor | None,
) -> torch.Tensor:
    """Return the log-sums in float32, by the fused kernel if it can run."""
    x = queries.to(torch.float32)
    if not fused_available(x, len(refs.points)):
        return plain_log_sums(x, refs, bandwidths, exclude, torch.float32)
    from kdey.gpu.fused import fused_log_sums

    return fused_log_sums(x.contiguous(), refs, bandwidths, exclude)


def fused_available(queries: torch.Tensor, n_references: int) -> bool:
    """Return whether the fused kernel can run: CUDA, Triton, few enough columns and references."""
    return (
        queries.device.type == "cuda"
        and queries.shape[1] <= _MAX_COLUMNS
        and n_references < _MAX_REFERENCES
        and importlib.util.find_spec("triton") is not None
    )


def _smallest_bandwidth(refs: DeviceReferences) -> float:
    """Return the smallest bandwidth at which the rounding error of float32 is accepted."""
    return float(np.sqrt(_ROUNDING * refs.squared_radius / _ACCEPTED))


def plain_log_sums(
    queries: torch.Tensor,
    refs: DeviceReferences,
    bandwidths: Sequence[float],
    exclude: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return the log-sums of :func:`class_log_sums` in plain torch.

    Parameters
    ----------
    queries : tensor of shape (m, D)
    refs : DeviceReferences
    bandwidths : sequence of float
    exclude : int64 tensor of shape (m,) or None
        Position of the reference that each query leaves out, or -1.
    dtype : torch.dtype
        float32 or float64.

    Returns
    -------
    tensor of shape (n_bandwidths, m, k)
    """
    shape = (len(bandwidths), len(queries), refs.n_classes)
    out = torch.full(shape, -math.inf, dtype=dtype, device=queries.device)
    excluded = None if exclude is None else refs.position[exclude]
    longest = max(b - a for a, b in itertools.pairwise((0, *refs.offsets)))
    tile = _TILE.get(queries.device.type, 1 << 22) // max(1, min(longest, _REFERENCES))

    def work(start: int, stop: int) -> None:
        part = queries[start:stop].to(torch.float64 if dtype == torch.float64 else torch.float32)
        skip = None if excluded is None else excluded[start:stop]
        sums = [_class_sums(part, refs, i, bandwidths, skip, dtype) for i in range(refs.n_classes)]
        out[:, start:stop] = torch.stack(sums, dim=2)

    in_tiles(work, len(queries), tile)
    return out


def _class_sums(
    x: torch.Tensor,
    refs: DeviceReferences,
    label: int,
    bandwidths: Sequence[float],
    excluded: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return the log-sums to one class, shape (n_bandwidths, m)."""
    out = x.new_full((len(bandwidths), len(x)), -math.inf)
    centred = x - refs.centres[label].to(dtype)
    low, high = refs.offsets[label], refs.offsets[label + 1]
    for start in range(low, high, _REFERENCES):
        part = slice(start, min(start + _REFERENCES, high))
        squares = _squared_distances(centred, refs.points[part].to(dtype))
        if excluded is not None:
            rows = torch.nonzero((excluded >= part.start) & (excluded < part.stop))[:, 0]
            squares[rows, excluded[rows] - part.start] = math.inf
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
