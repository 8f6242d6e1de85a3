r"""Kernel log-sums in one Triton kernel, from which only the sums leave the chip.

A program processes a tile of queries and one class, and iterates over the references of the class
in tiles. Tensor cores compute the dot products of a tile, as three half-precision products of the
two halves of each number, x = hi + lo (the product lo times lo is below the rounding of float32).
With

.. math:: u_{jr} = x_j \cdot y_r - |y_r|^2 / 2 = (|x_j|^2 - |x_j - y_r|^2) / 2

the sum at bandwidth h is :math:`\exp(-|x|^2/2h^2) \sum_r w_r \exp(u_{jr} / h^2)`. The largest u so
far (the nearest reference) is the running maximum of all bandwidths, so that one pass over the
distances serves all of them and no sum overflows or underflows.

Five things keep the units busy, each of them measured (``docs/lab/decisions/0012-gpu.md``). The
norms :math:`|y|^2 / 2` are columns of the products where the padding has room for them, so that
they need neither loads nor additions. Queries are scaled and padded beforehand, so that a program
reads whole vectors. Programs of one tile of queries and successive classes run at the same time,
and their results, which are neighbours in memory, meet in the cache. For one bandwidth every lane
has its own maximum and sum (:data:`LANES`). The rest of a class is processed in small tiles, so
that few pairs are padding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kdey.gpu.sums import PADDING, DeviceReferences, PaddedReferences

#: Largest number of bandwidths in one pass, because their sums are in registers.
MAX_BANDWIDTHS = 32
#: Number of queries that are padded and launched at a time, which bounds the memory.
_QUERIES = 1 << 21


#: Four threads share the rows of a product: in the layout of the tensor cores the thread of lane l
#: has columns 8 j + 2 l and 8 j + 2 l + 1, so that maxima and sums per lane stay within a thread.
LANES = tl.constexpr(4)


@dataclass(frozen=True)
class Shape:
    """The shape of a launch.

    Attributes
    ----------
    queries, references : int
        Size of a tile; the references are a multiple of ``layout.PADDING``.
    warps : int
        Warps per program.
    stages : int
        Stages of the pipeline.
    """

    queries: int = 128
    references: int = 64
    warps: int = 4
    stages: int = 2


#: The fastest shapes on an H200 (benchmarks/gpu/kernel.py): for one bandwidth, for one bandwidth
#: and more than 64 columns, whose tiles would leave room for one program only, and for several
#: bandwidths.
DEFAULT = Shape()
WIDE = Shape(references=32)
MANY = Shape(queries=64, references=32)


def fastest_shape(n_bandwidths: int, columns: int) -> Shape:
    """Return the shape for a number of bandwidths and of columns after padding."""
    if n_bandwidths > 1:
        return MANY
    return DEFAULT if columns <= 64 else WIDE


# fmt: off
@triton.jit
def _products(
    x_high, x_low, high, low, half_norms, places,
    COLUMNS: tl.constexpr, TILE_M: tl.constexpr, TILE_N: tl.constexpr, FOLDED: tl.constexpr,
):
    # Returns u of one tile, (TILE_M, TILE_N). The small products are added first.
    cells = tl.arange(0, COLUMNS)[:, None] + places[None, :] * COLUMNS
    y_high = tl.load(high + cells)
    y_low = tl.load(low + cells)
    if FOLDED:
        u = tl.dot(x_high, y_low)
    else:
        norms = tl.load(half_norms + places)
        u = tl.dot(x_high, y_low, tl.broadcast_to(-norms[None, :], (TILE_M, TILE_N)))
    u = tl.dot(x_low, y_high, u)
    return tl.dot(x_high, y_high, u)


@triton.jit
def _add_one(
    top, sums, u, factor, weights, places,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, WEIGHTED: tl.constexpr,
):
    # Returns maxima and sums of one bandwidth, both (TILE_M, LANES), after adding a tile.
    u = tl.reshape(u, (TILE_M, TILE_N // (2 * LANES), LANES, 2))
    higher = tl.maximum(top, tl.max(tl.max(u, 3), 1))
    terms = tl.exp2(u * factor - (higher * factor)[:, None, :, None])
    if WEIGHTED:
        each = tl.reshape(tl.load(weights + places), (TILE_N // (2 * LANES), LANES, 2))
        terms *= each[None, :, :, :]
    return higher, sums * tl.exp2((top - higher) * factor) + tl.sum(tl.sum(terms, 3), 1)


@triton.jit
def _over_lanes(top, sums, factor):
    # Returns the maximum and the sum over all lanes, both (TILE_M,).
    higher = tl.max(top, 1)
    return higher, tl.sum(sums * tl.exp2((top - higher[:, None]) * factor), 1)


@triton.jit
def _add_many(
    sums, u, top, higher, factors, slots, weights, places,
    BANDWIDTHS: tl.constexpr, WEIGHTED: tl.constexpr,
):
    # The same for several bandwidths, with sums of shape (TILE_M, slots).
    factor = tl.load(factors + slots, mask=slots < BANDWIDTHS, other=1.0)
    sums *= tl.exp2((top - higher)[:, None] * factor[None, :])
    u -= higher[:, None]
    for b in tl.static_range(BANDWIDTHS):
        terms = tl.exp2(u * tl.load(factors + b))
        if WEIGHTED:
            terms *= tl.load(weights + places)[None, :]
        sums += tl.where(slots[None, :] == b, tl.sum(terms, 1)[:, None], 0.0)
    return sums


@triton.jit
def _logs(exponents, sums, shift):
    # Returns natural logarithms; an exponent of minus infinity overrides the sum.
    value = (exponents + tl.log2(sums)) * 0.6931471805599453 + shift
    return tl.where(exponents == float("-inf"), float("-inf"), value)


@triton.jit
def _add_tiles(
    top, sums, first, last, x_high, x_low, high, low, half_norms, weights, factors, left_out, slots,
    COLUMNS: tl.constexpr, BANDWIDTHS: tl.constexpr, TILE_M: tl.constexpr, TILE_N: tl.constexpr,
    ALIGNED: tl.constexpr, FOLDED: tl.constexpr, WEIGHTED: tl.constexpr, EXCLUDING: tl.constexpr,
):
    # Returns maxima and sums after adding the references from first to last, in tiles.
    one_factor = tl.load(factors)
    for start in range(first, last, TILE_N):
        places = tl.multiple_of(start, ALIGNED) + tl.arange(0, TILE_N)
        u = _products(
            x_high, x_low, high, low, half_norms, places, COLUMNS, TILE_M, TILE_N, FOLDED
        )
        if EXCLUDING:
            u = tl.where(places[None, :] == left_out[:, None], -1e30, u)
        if BANDWIDTHS == 1:
            top, sums = _add_one(
                top, sums, u, one_factor, weights, places, TILE_M, TILE_N, WEIGHTED
            )
        else:
            higher = tl.maximum(top, tl.max(u, 1))
            sums = _add_many(
                sums, u, top, higher, factors, slots, weights, places, BANDWIDTHS, WEIGHTED
            )
            top = higher
    return top, sums


@triton.jit
def _log_sums_kernel(
    queries, high, low, half_norms, weights, starts, centres, log_weight, factors, exclude, out,
    n_queries, n_classes, n_columns, bandwidth_stride, empty,
    COLUMNS: tl.constexpr, BANDWIDTHS: tl.constexpr, PADDED: tl.constexpr, TILE_M: tl.constexpr,
    TILE_N: tl.constexpr, REST: tl.constexpr, FOLDED: tl.constexpr, WEIGHTED: tl.constexpr,
    EXCLUDING: tl.constexpr,
):
    label = tl.program_id(0) % n_classes
    rows = (tl.program_id(0) // n_classes) * TILE_M + tl.arange(0, TILE_M)
    columns = tl.arange(0, COLUMNS)
    inside = rows < n_queries
    at = rows.to(tl.int64)
    x = tl.load(queries + at[:, None] * COLUMNS + columns[None, :], mask=inside[:, None], other=0.0)
    x -= tl.load(centres + label * COLUMNS + columns)[None, :]
    squares = tl.sum(tl.where((columns < n_columns)[None, :], x * x, 0.0), 1)
    x_high = x.to(tl.float16)
    x_low = (x - x_high.to(tl.float32)).to(tl.float16)
    left_out = rows
    if EXCLUDING:
        left_out = tl.load(exclude + at, mask=inside, other=-1)
    slots = tl.arange(0, PADDED)
    # Every reference is above `empty`, and padding so far below that it adds nothing.
    if BANDWIDTHS == 1:
        top = tl.zeros((TILE_M, LANES), tl.float32) + empty
        sums = tl.zeros((TILE_M, LANES), tl.float32)
    else:
        top = tl.zeros((TILE_M,), tl.float32) + empty
        sums = tl.zeros((TILE_M, PADDED), tl.float32)
    first = tl.load(starts + label)
    last = tl.load(starts + label + 1)
    whole = first + (last - first) // TILE_N * TILE_N
    top, sums = _add_tiles(
        top, sums, first, whole, x_high, x_low, high, low, half_norms, weights, factors, left_out,
        slots, COLUMNS, BANDWIDTHS, TILE_M, TILE_N, REST, FOLDED, WEIGHTED, EXCLUDING,
    )
    if REST < TILE_N:
        top, sums = _add_tiles(
            top, sums, whole, last, x_high, x_low, high, low, half_norms, weights, factors,
            left_out, slots, COLUMNS, BANDWIDTHS, TILE_M, REST, REST, FOLDED, WEIGHTED, EXCLUDING,
        )
    one_factor = tl.load(factors)
    if BANDWIDTHS == 1:
        top, sums = _over_lanes(top, sums, one_factor)
    # u - |x|^2 / 2 is minus half the squared distance, which only rounding makes positive.
    nearest = tl.minimum(top - squares * 0.5, 0.0)
    nearest = tl.where(top <= empty, float("-inf"), nearest)  # no reference, or all excluded
    base = out + at * n_classes + label
    shift = tl.load(log_weight + label)
    if BANDWIDTHS == 1:
        value = _logs(nearest * one_factor, sums, shift)
        tl.store(base, value, mask=inside)
    else:
        factor = tl.load(factors + slots, mask=slots < BANDWIDTHS, other=1.0)
        value = _logs(nearest[:, None] * factor[None, :], sums, shift)
        jump = slots.to(tl.int64) * bandwidth_stride
        keep = inside[:, None] & (slots < BANDWIDTHS)[None, :]
        tl.store(base[:, None] + jump[None, :], value, mask=keep)
# fmt: on


def fused_log_sums(
    queries: torch.Tensor,
    refs: DeviceReferences,
    bandwidths: Sequence[float],
    exclude: torch.Tensor | None = None,
    shape: Shape | None = None,
) -> torch.Tensor:
    """Return the log-sums of :func:`kdey.gpu.sums.class_log_sums` in float32.

    Parameters
    ----------
    queries : float32 tensor of shape (m, D)
    refs : DeviceReferences
    bandwidths : sequence of float
    exclude : int64 tensor of shape (m,), optional
        Position of the reference that each query leaves out, or -1.
    shape : Shape, optional
        Default: :func:`fastest_shape`.

    Returns
    -------
    float32 tensor of shape (n_bandwidths, m, k)
    """
    largest = float(torch.stack(queries.aminmax()).abs().max()) if len(queries) else 0.0
    padded = PaddedReferences.of(refs, largest, max(bandwidths))
    shape = shape or fastest_shape(len(bandwidths), padded.high.shape[1])
    excluded = None if exclude is None else padded.position[exclude].to(torch.int32)
    size = (len(bandwidths), len(queries), refs.n_classes)
    out = torch.empty(size, dtype=torch.float32, device=queries.device)
    for first in range(0, len(queries), _QUERIES):
        rows = slice(first, first + _QUERIES)
        x = padded.queries(queries[rows])
        skip = None if excluded is None else excluded[rows]
        for start in range(0, len(bandwidths), MAX_BANDWIDTHS):
            part = slice(start, start + MAX_BANDWIDTHS)
            launch(x, padded, bandwidths[part], skip, out[part, rows], shape)
    return out


def launch(
    queries: torch.Tensor,
    padded: PaddedReferences,
    bandwidths: Sequence[float],
    exclude: torch.Tensor | None,
    out: torch.Tensor,
    shape: Shape,
) -> None:
    """Write the log-sums of at most ``MAX_BANDWIDTHS`` bandwidths to ``out``.

    Parameters
    ----------
    queries : float32 tensor of shape (m, columns)
        As ``padded.queries`` returns them.
    padded : PaddedReferences
    bandwidths : sequence of float
    exclude : int32 tensor of shape (m,) or None
        Padded position of the reference that each query leaves out, or -1.
    out : float32 tensor of shape (n_bandwidths, m, k)
        Its rows must be contiguous.
    shape : Shape
    """
    m, columns = queries.shape
    k = len(padded.starts) - 1
    factors = [1.0 / (math.log(2.0) * (padded.scale * h) ** 2) for h in bandwidths]
    # Successive programs have the same queries and successive classes.
    _log_sums_kernel[(triton.cdiv(m, shape.queries) * k,)](
        queries,
        padded.high,
        padded.low,
        padded.half_norms,
        padded.weights,
        padded.starts,
        padded.centres,
        padded.log_weight,
        torch.tensor(factors, dtype=torch.float32, device=queries.device),
        exclude,
        out,
        m,
        k,
        padded.n_columns,
        out.stride(0),
        padded.empty,
        COLUMNS=columns,
        BANDWIDTHS=len(bandwidths),
        PADDED=triton.next_power_of_2(len(bandwidths)),
        TILE_M=shape.queries,
        TILE_N=shape.references,
        REST=PADDING,
        FOLDED=padded.half_norms is None,
        WEIGHTED=padded.weights is not None,
        EXCLUDING=exclude is not None,
        num_warps=shape.warps,
        num_stages=shape.stages,
    )
