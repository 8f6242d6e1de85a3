"""Rows on a device: the rows of the maps of :mod:`kdey.rows`, as tensors.

Kernel rows are computed on the device, and so are those that are hardly more than the posteriors
(``RowMap.tensor_rows``: CC, PCC, ACC, PACC, EMQ). Rows of other likelihoods (DIR, EMQ with a
calibrator of your own) are cheap, so they are computed on the host and copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from kdey._support.device import as_tensor
from kdey.bags import Array, Bags
from kdey.gpu.bags import bag_means
from kdey.gpu.layout import DeviceReferences
from kdey.gpu.sums import log_sums_to
from kdey.rows.interface import RowMap, Rows
from kdey.rows.references import ClassReferences
from kdey.tensors import on_host


@dataclass(frozen=True, eq=False)
class LogRows(Rows):
    """Rows as logarithms.

    Attributes
    ----------
    logs : tensor of shape (m, k)
        Logarithms of non-negative numbers, -inf for zero.
    """

    logs: torch.Tensor
    on_device: ClassVar[bool] = True

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.logs)


@dataclass(frozen=True, eq=False)
class TensorRows(Rows):
    """Rows that are averaged on the device; what is made of the means is small, for the host.

    Attributes
    ----------
    rows : tensor of shape (m, r)
    """

    rows: torch.Tensor
    on_device: ClassVar[bool] = True

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.rows)

    def mean(self, bags: Bags) -> Array:
        """Return the mean row of each bag, shape (n_bags, r), in float64 on the host."""
        return bag_means(self.rows, bags)

    def each(self) -> Array:
        """Return the row of every instance on the host, shape (m, r)."""
        return np.asarray(on_host(self.rows.double()))


@dataclass(frozen=True, eq=False)
class PointRows(Rows):
    """Instances in the geometry of the kernel, from which Monte Carlo rows are computed per bag.

    Attributes
    ----------
    coordinates : float64 tensor of shape (m, k)
    """

    coordinates: torch.Tensor
    on_device: ClassVar[bool] = True

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.coordinates)


@dataclass(frozen=True, eq=False)
class MemberRows(Rows):
    """The rows of each member of a composite.

    Attributes
    ----------
    parts : tuple of Rows
    """

    parts: tuple[Rows, ...]
    on_device: ClassVar[bool] = True

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.parts[0])

    @property
    def members(self) -> tuple[Rows, ...]:
        """The rows of each member."""
        return self.parts


def device_rows(
    maps: Sequence[RowMap],
    points: Any,
    device: torch.device,
    *,
    log_rows: bool = True,
    averaged: bool = False,
) -> list[Rows]:
    """Return the rows of points under maps of one family, in one pass over the distances.

    Parameters
    ----------
    maps : sequence of RowMap
        Kernel maps that differ only in bandwidth, or a single map of any kind.
    points : array or tensor of shape (m, k)
    device : torch.device
    log_rows : bool
        Whether rows without a kernel are logarithms.
    averaged : bool
        Whether nothing but mean rows is needed.

    Returns
    -------
    list of Rows
        One for each map.
    """
    first = maps[0]
    if first.is_composite:
        parts = [
            device_rows([part], points, device, log_rows=log_rows, averaged=averaged)[0]
            for part in first.members
        ]
        return [MemberRows(tuple(parts))]
    references, widths = first.class_references(), [row_map.kernel_width() for row_map in maps]
    if references is not None and None not in widths:
        return _kernel_rows(references, points, [width or 0.0 for width in widths], device)
    if references is not None and first.drawn_points() is not None:
        x = coordinates(references, as_tensor(points, device).double())
        return [PointRows(x) for _ in maps]
    if first.has_tensor_rows:
        rows = first.tensor_rows(as_tensor(points, device))
        if averaged:
            return [TensorRows(rows)]
        return [LogRows(rows if log_rows else rows.log())]
    rows = as_tensor(first(on_host(points)).each(), device)
    return [LogRows(rows if log_rows else rows.log())]


def _kernel_rows(
    refs: ClassReferences, points: Any, widths: Sequence[float], device: torch.device
) -> list[Rows]:
    """Return the log densities of kernels of several bandwidths."""
    x = coordinates(refs, as_tensor(points, device))
    # As the host packs its references once per fit, so they are copied to a device once.
    there = refs.derived(
        f"on {device}",
        lambda: DeviceReferences.of(np.asarray(refs.points), refs.offsets, refs.weights, device),
    )
    sums = log_sums_to(there, x, widths, precision=refs.spec.precision)
    sums -= as_tensor(refs.log_mass, device).to(sums.dtype)
    return [LogRows(logs) for logs in sums]


def coordinates(refs: ClassReferences, posteriors: torch.Tensor) -> torch.Tensor:
    """Return posteriors (m, k) in the geometry of the kernel, as :func:`kdey.kernels.transform`."""
    if refs.spec.kernel == "gaussian":
        return posteriors
    k, s = posteriors.shape[1], float(refs.spec.shrinkage)
    mixed = (1.0 - s) * posteriors.double() + s / k
    if not bool(mixed.amin() > 0):
        refs.coordinates(on_host(posteriors))  # raises with the message of the host
    logs = mixed.log()
    return logs - logs.mean(dim=1, keepdim=True)
