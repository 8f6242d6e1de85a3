r"""Kernel log-sums on a device, and the layout of class references there.

:func:`log_sums_to` chooses the precision for each bandwidth, and the implementation: the fused
Triton kernel of ``fused.py`` on CUDA, or :func:`plain_log_sums`, which runs on any device of torch,
one tile at a time; :func:`in_tiles` halves a tile if the memory does not suffice.

References are centred by class, because the rounding error of an expanded distance :math:`|x|^2 - 2
x \cdot y + |y|^2` grows with the norms, and points near a class have small norms after centring.
For the fused kernel the references of each class are also padded to whole small tiles, and each
number is split into two halves of 11 bits, y = hi + lo, so that three half-precision products give
one product of float32 precision. If padding to a power of two leaves two columns free, these hold
the half squared norms, and the queries have a constant there: the product is then
:math:`x \cdot y - |y|^2 / 2`.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kdey.validation import as_tensor

#: References of a class are padded to a multiple of this.
PADDING = 32

#: Half squared norm of padding, so far away that its kernel is zero at every bandwidth.
FAR = 1e30

#: Padding has the lowest float16 in the columns of norms, three times.
_FAR_HALF, _FAR_HALVES = -65504.0, 3

#: The kernel of padding is at most two to the minus this, relative to any reference.
_NEGLIGIBLE_BITS = 150.0

#: Largest bandwidth after scaling; with it, the factor of norms is still a float16.
_LARGEST_BANDWIDTH = 4096.0

#: Largest coordinate after scaling, a power of two. It is well below the largest float16 (65504),
#: and large enough that the low halves of relevant numbers are not denormal.
_LARGEST_COORDINATE = 1024.0


@dataclass(frozen=True, eq=False)
class DeviceReferences:
    """References of positive weight, sorted by class and centred by class, on one device.

    Attributes
    ----------
    points : tensor of shape (n, D)
        Each reference minus the centre of its class, float64.
    offsets : tuple of k + 1 ints
        Class i owns ``points[offsets[i]:offsets[i + 1]]``.
    centres : tensor of shape (k, D)
        Class means, rounded to float32 but stored as float64; zero for an empty class.
    weights : tensor of shape (n,) or None
        float64.
    position : int64 tensor of shape (n_original + 1,)
        Position in ``points`` of each original reference, -1 if its weight is zero. The last entry
        is -1, so that an ``exclude`` of -1 (none) stays -1.
    """

    points: torch.Tensor
    offsets: tuple[int, ...]
    centres: torch.Tensor
    weights: torch.Tensor | None
    position: torch.Tensor
    _last_packed: dict[tuple[float, ...], PaddedReferences] = field(default_factory=dict)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return len(self.offsets) - 1

    @cached_property
    def squared_radius(self) -> float:
        """Largest squared distance of a reference from the centre of its class."""
        squares = (self.points**2).sum(dim=1)
        return float(squares.max()) if len(squares) else 0.0

    @cached_property
    def largest_centre(self) -> float:
        """Largest absolute coordinate of a centre."""
        return float(self.centres.abs().max()) if self.n_classes else 0.0

    @cached_property
    def largest_point(self) -> float:
        """Largest absolute coordinate of a centred reference."""
        return float(self.points.abs().max()) if len(self.points) else 0.0

    def packed(
        self, key: tuple[float, ...], pack: Callable[[], PaddedReferences]
    ) -> PaddedReferences:
        """Return ``pack()``, or its last result if that has the same key."""
        if key not in self._last_packed:
            padded = pack()
            self._last_packed.clear()
            self._last_packed[key] = padded
            return padded
        return self._last_packed[key]

    @classmethod
    def of(
        cls,
        references: NDArray[np.floating],
        offsets: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        device: torch.device,
    ) -> DeviceReferences:
        """Return the references on a device, from arrays as for the host's ``class_log_sums``."""
        n, k = len(references), len(offsets) - 1
        kept = np.flatnonzero(np.ones(n) if weights is None else weights)
        labels = np.repeat(np.arange(k), np.diff(offsets))[kept]
        position = np.full(n + 1, -1, dtype=np.int64)
        position[kept] = np.arange(len(kept))
        points = np.asarray(references, dtype=np.float64)[kept]
        counts = np.bincount(labels, minlength=k)
        starts = np.concatenate([[0], np.cumsum(counts)])
        centres = np.zeros((k, points.shape[1]))
        present = np.flatnonzero(counts)
        if len(present):
            centres[present] = np.add.reduceat(points, starts[present]) / counts[present, None]
        centres = centres.astype(np.float32).astype(np.float64)
        return cls(
            torch.from_numpy(points - centres[labels]).to(device),
            tuple(starts.tolist()),
            torch.from_numpy(centres).to(device),
            None if weights is None else torch.from_numpy(weights[kept].copy()).to(device),
            torch.from_numpy(position).to(device),
        )


@dataclass(frozen=True, eq=False)
class PaddedReferences:
    """References as the fused kernel reads them: scaled, padded and split in halves.

    Attributes
    ----------
    high, low : float16 tensors of shape (n_padded, columns)
        The two halves of ``scale`` times the centred references, with columns up to a power of two:
        first those of the norms, if there is room for them, then zeros.
    half_norms : float32 tensor of shape (n_padded,) or None
        Half the squared norms of the scaled references; ``FAR`` for padding. None if ``high`` and
        ``low`` have columns for them.
    weights : float32 tensor of shape (n_padded,) or None
        Weights relative to the largest of the class, whose logarithm is in ``log_weight``.
    starts : int32 tensor of shape (k + 1,)
        First row of each class, a multiple of :data:`PADDING`.
    centres : float32 tensor of shape (k, columns)
        ``scale`` times the centres of the classes.
    log_weight : float32 tensor of shape (k,)
    scale : float
        A power of two.
    position : int64 tensor
        As in :class:`DeviceReferences`, but of the padded rows.
    n_columns : int
        Number D of columns before padding.
    norm_factor : float
        What queries have in the columns of norms, a power of two.
    empty : float
        Products below this are those of padding or of an excluded reference.
    """

    high: torch.Tensor
    low: torch.Tensor
    half_norms: torch.Tensor | None
    weights: torch.Tensor | None
    starts: torch.Tensor
    centres: torch.Tensor
    log_weight: torch.Tensor
    scale: float
    position: torch.Tensor
    n_columns: int
    norm_factor: float
    empty: float

    @classmethod
    def of(
        cls, refs: DeviceReferences, largest_query: float, largest_bandwidth: float
    ) -> PaddedReferences:
        """Return padded references; those of the last call if they would be the same.

        Parameters
        ----------
        refs : DeviceReferences
        largest_query : float
            Largest absolute coordinate of the queries.
        largest_bandwidth : float

        Returns
        -------
        PaddedReferences
        """
        bound = 2.0 ** math.ceil(math.log2(max(largest_query, 2.0**-100)))
        scale = _scale(refs, bound, largest_bandwidth)
        half_norm, size = _largest_products(refs, bound, scale)
        factor = _norm_factor(half_norm, size, scale * largest_bandwidth)
        # A number between all products and those of padding.
        empty = (_FAR_HALF * _FAR_HALVES * factor - size) / 2.0
        return refs.packed((scale, factor, empty), lambda: cls._pack(refs, scale, factor, empty))

    @classmethod
    def _pack(
        cls, refs: DeviceReferences, scale: float, factor: float, empty: float
    ) -> PaddedReferences:
        device, d = refs.points.device, refs.points.shape[1]
        padded_rows, starts = _padded_rows(refs.offsets, PADDING)
        n, columns = int(starts[-1]), _columns(d)
        place = torch.from_numpy(padded_rows).to(device)
        points = torch.zeros((n, columns), dtype=torch.float32, device=device)
        points[place, :d] = (refs.points * scale).float()
        half_norms = torch.full((n,), FAR, dtype=torch.float64, device=device)
        half_norms[place] = (points[place].double() ** 2).sum(dim=1) / 2
        high = points.half()
        low = (points - high.float()).half()
        folded = columns >= d + 2
        if folded:
            _fold_norms(high, low, half_norms, d, factor)
        centres = torch.zeros((refs.n_classes, columns), dtype=torch.float32, device=device)
        centres[:, :d] = (refs.centres * scale).float()
        weights, log_weight = _relative_weights(refs, place, n)
        ends = torch.cat([place, torch.full((1,), -1, dtype=torch.int64, device=device)])
        return cls(
            high,
            low,
            None if folded else half_norms.float(),
            weights,
            torch.from_numpy(starts.astype(np.int32)).to(device),
            centres,
            log_weight,
            scale,
            ends[refs.position],  # an index of -1 selects the last entry, which is -1
            d,
            factor,
            empty,
        )

    def queries(self, points: torch.Tensor) -> torch.Tensor:
        """Return queries (m, D) as the kernel reads them: scaled and padded, (m, columns)."""
        d, columns = self.n_columns, self.high.shape[1]
        x = torch.zeros((len(points), columns), dtype=torch.float32, device=points.device)
        torch.mul(points, self.scale, out=x[:, :d])
        if self.half_norms is None:
            x[:, d : d + 2] = self.norm_factor
        return x


def _largest_products(
    refs: DeviceReferences, largest_query: float, scale: float
) -> tuple[float, float]:
    """Return the largest |y|^2 / 2 and x . y - |y|^2 / 2 of scaled references and queries."""
    half_norm = scale**2 * refs.squared_radius / 2
    query = scale * (largest_query + refs.largest_centre) * math.sqrt(refs.points.shape[1])
    return half_norm, query * math.sqrt(2.0 * half_norm) + half_norm


def _norm_factor(half_norm: float, size: float, bandwidth: float) -> float:
    """Return the smallest power of two by which norms and padding can be folded.

    Half norms divided by it are float16, and padding is far below all products, of at most this
    size, at this scaled bandwidth. A larger factor would leave fewer bits of small norms.
    """
    far = 2.0 * size + _NEGLIGIBLE_BITS * math.log(2.0) * bandwidth**2
    least = max(far / (-_FAR_HALF * _FAR_HALVES), half_norm / -_FAR_HALF, 2.0**-14)
    return float(2.0 ** math.ceil(math.log2(least)))


def _fold_norms(
    high: torch.Tensor, low: torch.Tensor, half_norms: torch.Tensor, column: int, factor: float
) -> None:
    """Write minus the half norms, over the factor, to two columns, in three pieces of 11 bits."""
    rest = -half_norms / factor
    high[:, column] = rest.clamp(min=_FAR_HALF).half()
    rest = rest - high[:, column].double()
    low[:, column] = rest.clamp(min=_FAR_HALF).half()
    rest = rest - low[:, column].double()
    high[:, column + 1] = rest.clamp(min=_FAR_HALF).half()


def _padded_rows(
    offsets: tuple[int, ...], tile: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the padded row of each reference, and the first row of each class."""
    counts = np.diff(offsets)
    starts = np.concatenate([[0], np.cumsum(-(-counts // tile) * tile)])
    shift = np.repeat(starts[:-1] - np.asarray(offsets[:-1]), counts)
    return np.arange(offsets[-1], dtype=np.int64) + shift, starts


def _columns(n: int) -> int:
    """Return the number of columns of a padded matrix, a power of two that tensor cores accept."""
    return max(16, 1 << (n - 1).bit_length())


def _scale(refs: DeviceReferences, largest_query: float, largest_bandwidth: float) -> float:
    """Return the largest power of two by which coordinates and bandwidths stay in their bounds."""
    largest = max(refs.largest_point, largest_query + refs.largest_centre, 1e-30)
    bound = min(_LARGEST_COORDINATE / largest, _LARGEST_BANDWIDTH / largest_bandwidth)
    return float(2.0 ** np.floor(np.log2(bound)))


def _relative_weights(
    refs: DeviceReferences, place: torch.Tensor, n: int
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Return padded weights relative to the largest of each class, and its logarithm (k,)."""
    k, device = refs.n_classes, refs.points.device
    if refs.weights is None:
        return None, torch.zeros(k, dtype=torch.float32, device=device)
    counts = torch.tensor(np.diff(refs.offsets), device=device)
    labels = torch.repeat_interleave(torch.arange(k, device=device), counts)
    top = torch.zeros(k, dtype=torch.float64, device=device)
    top.scatter_reduce_(0, labels, refs.weights, "amax")
    weights = torch.zeros(n, dtype=torch.float32, device=device)
    weights[place] = (refs.weights / top[labels]).float()
    return weights, torch.where(top > 0, top, 1.0).log().float()


def in_tiles(work: Callable[[int, int], None], total: int, tile: int) -> int:
    """Call ``work(start, stop)`` over ``range(total)`` in tiles, as large as the memory allows.

    A tile that runs out of device memory is repeated in halves, and later tiles have that size. The
    error is raised only if a tile of one item does not fit.

    Parameters
    ----------
    work : callable
        It must not have partial effects if it fails.
    total : int
    tile : int
        Size of the first tile.

    Returns
    -------
    int
        The tile size at the end.
    """
    start, tile = 0, max(1, tile)
    while start < total:
        stop = min(start + tile, total)
        try:
            work(start, stop)
        except torch.OutOfMemoryError:
            if stop - start == 1:
                raise
            tile = (stop - start) // 2
        else:
            start = stop
            continue
        # This is outside the handler, where nothing refers to the tensors of the failed call.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return tile


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
