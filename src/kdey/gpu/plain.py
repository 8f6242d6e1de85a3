"""The kernel log-sums in plain torch: any device, float32 or float64, one tile at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch

from kdey.gpu.layout import DeviceReferences
from kdey.gpu.tiles import in_tiles

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
