r"""Class references as the device kernels take them.

References are centred by class: the rounding of an expanded distance
:math:`|x|^2 - 2 x \cdot y + |y|^2` grows with the norms, and what lies near a class then has small
ones. For the fused kernel they are also padded to whole tiles per class and split into two
halves of 11 bits each, y = hi + lo, so that three half-precision products give one of float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

#: Half squared norm of padding: so far away that its kernel is zero at every bandwidth.
FAR = 1e30
#: Largest coordinate after scaling, a power of two: far from float16's end (65504), and far
#: enough up that the low halves of all that matters are not denormal.
_TOP = 1024.0


@dataclass(frozen=True, eq=False)
class DeviceReferences:
    """References of positive weight, sorted by class and centred by class, on one device.

    Attributes
    ----------
    points : tensor of shape (n, D)
        y_r - c of its class, float64.
    offsets : tuple of k + 1 ints
        Class i owns ``points[offsets[i]:offsets[i + 1]]``.
    centres : tensor of shape (k, D)
        Class means c, rounded to float32 but held in float64; zero for an empty class.
    weights : tensor of shape (n,) or None
        float64.
    position : int64 tensor of shape (n_given + 1,)
        Place of each reference as given, -1 where its weight is zero; the last entry is -1, so
        that an ``exclude`` of -1 (none) stays -1.
    """

    points: torch.Tensor
    offsets: tuple[int, ...]
    centres: torch.Tensor
    weights: torch.Tensor | None
    position: torch.Tensor

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return len(self.offsets) - 1

    @property
    def squared_radius(self) -> float:
        """Largest squared distance of a reference from the centre of its class."""
        squares = (self.points**2).sum(dim=1)
        return float(squares.max()) if len(squares) else 0.0

    @classmethod
    def of(
        cls,
        references: NDArray[np.floating],
        offsets: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        device: torch.device,
    ) -> DeviceReferences:
        """Return the references, given as for :func:`kdey.kernels.class_log_sums`."""
        n, k = len(references), len(offsets) - 1
        keep = np.flatnonzero(np.ones(n) if weights is None else weights)
        labels = np.repeat(np.arange(k), np.diff(offsets))[keep]
        position = np.full(n + 1, -1, dtype=np.int64)
        position[keep] = np.arange(len(keep))
        points = np.asarray(references, dtype=np.float64)[keep]
        counts = np.bincount(labels, minlength=k)
        starts = np.concatenate([[0], np.cumsum(counts)])
        centres = np.zeros((k, points.shape[1]))
        held = np.flatnonzero(counts)
        if len(held):
            centres[held] = np.add.reduceat(points, starts[held]) / counts[held, None]
        centres = centres.astype(np.float32).astype(np.float64)
        return cls(
            torch.from_numpy(points - centres[labels]).to(device),
            tuple(starts.tolist()),
            torch.from_numpy(centres).to(device),
            None if weights is None else torch.from_numpy(weights[keep].copy()).to(device),
            torch.from_numpy(position).to(device),
        )


@dataclass(frozen=True, eq=False)
class PaddedReferences:
    """What the fused kernel reads: see the module.

    Attributes
    ----------
    high, low : float16 tensors of shape (n_padded, columns)
        The two halves of ``scale`` times the centred references; zero columns to a power of two.
    half_norms : float32 tensor of shape (n_padded,)
        Half the squared norms of the scaled references; ``FAR`` for padding.
    weights : float32 tensor of shape (n_padded,) or None
        Relative to the largest of the class, whose log is in ``log_weight``.
    starts : int32 tensor of shape (k + 1,)
        Multiples of the tile.
    centres : float32 tensor of shape (k, columns)
    log_weight : float32 tensor of shape (k,)
    scale : float
        A power of two.
    position : int64 tensor
        As in :class:`DeviceReferences`, for the padded places.
    """

    high: torch.Tensor
    low: torch.Tensor
    half_norms: torch.Tensor
    weights: torch.Tensor | None
    starts: torch.Tensor
    centres: torch.Tensor
    log_weight: torch.Tensor
    scale: float
    position: torch.Tensor

    @classmethod
    def of(cls, refs: DeviceReferences, largest_query: float, tile: int) -> PaddedReferences:
        """Return ``refs`` for queries whose coordinates are at most ``largest_query`` in size."""
        device = refs.points.device
        places, starts = _padded_places(refs.offsets, tile)
        n, columns = int(starts[-1]), _columns(refs.points.shape[1])
        place = torch.from_numpy(places).to(device)
        scale = _scale(refs, largest_query)
        points = torch.zeros((n, columns), dtype=torch.float32, device=device)
        points[place, : refs.points.shape[1]] = (refs.points * scale).float()
        half_norms = torch.full((n,), FAR, dtype=torch.float32, device=device)
        half_norms[place] = (points[place].double() ** 2).sum(dim=1).float() / 2
        centres = torch.zeros((refs.n_classes, columns), dtype=torch.float32, device=device)
        centres[:, : refs.points.shape[1]] = refs.centres.float()
        high = points.half()
        weights, log_weight = _relative_weights(refs, place, n)
        ends = torch.cat([place, torch.full((1,), -1, dtype=torch.int64, device=device)])
        return cls(
            high,
            (points - high.float()).half(),
            half_norms,
            weights,
            torch.from_numpy(starts.astype(np.int32)).to(device),
            centres,
            log_weight,
            scale,
            ends[refs.position],  # -1 picks the last entry, which is -1
        )


def _padded_places(
    offsets: tuple[int, ...], tile: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the padded place of each reference, and where each class begins."""
    counts = np.diff(offsets)
    starts = np.concatenate([[0], np.cumsum(-(-counts // tile) * tile)])
    shift = np.repeat(starts[:-1] - np.asarray(offsets[:-1]), counts)
    return np.arange(offsets[-1], dtype=np.int64) + shift, starts


def _columns(n: int) -> int:
    """Return the columns of a padded matrix: a power of two that tensor cores take."""
    return max(16, 1 << (n - 1).bit_length())


def _scale(refs: DeviceReferences, largest_query: float) -> float:
    centre = float(refs.centres.abs().max()) if refs.n_classes else 0.0
    own = float(refs.points.abs().max()) if len(refs.points) else 0.0
    top = max(own, largest_query + centre, 1e-30)
    return float(2.0 ** np.floor(np.log2(_TOP / top)))


def _relative_weights(
    refs: DeviceReferences, place: torch.Tensor, n: int
) -> tuple[torch.Tensor | None, torch.Tensor]:
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
