"""Rows on a device: what the row maps of :mod:`kdey.rows` give, as tensors.

Kernel rows are computed there; the cheap rows of other likelihoods (EMQ, DIR) are computed on the
host and carried over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from kdey._support.device import as_tensor, on_host
from kdey.gpu.sums import class_log_sums
from kdey.rows.composite import CommitteeMap
from kdey.rows.density import DensityMap
from kdey.rows.monte_carlo import MonteCarloMap
from kdey.rows.overlap import OverlapMap
from kdey.rows.references import ClassReferences


@dataclass(frozen=True, eq=False)
class LogRows:
    """Logarithms of non-negative rows, shape (m, k), -inf for zero."""

    logs: torch.Tensor
    on_device: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class PointRows:
    """Instances in the kernel's geometry, shape (m, k), float64: Monte Carlo rows are streamed."""

    coordinates: torch.Tensor
    on_device: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class PartRows:
    """The rows of each member of a committee."""

    parts: tuple[Any, ...]
    on_device: ClassVar[bool] = True


DeviceRows = LogRows | PointRows | PartRows


def device_rows(
    maps: Sequence[Any], points: Any, device: torch.device, *, log_rows: bool = True
) -> list[DeviceRows]:
    """Return the rows of ``points`` under maps of one family, in one pass over distances.

    Parameters
    ----------
    maps : sequence of row maps
        Kernel maps that differ in bandwidth alone, or a single map of any kind.
    points : array or tensor of shape (m, k)
    device : torch.device
    log_rows : bool
        Whether the rows of a map that only the host knows are logarithms.
    """
    first = maps[0]
    if isinstance(first, CommitteeMap):
        made = [device_rows([part], points, device, log_rows=log_rows)[0] for part in first.parts]
        return [PartRows(tuple(made))]
    if isinstance(first, DensityMap):
        widths = [one.references.bandwidth for one in maps]
        return _kernel_rows(first.references, points, widths, device)
    if isinstance(first, OverlapMap):
        return _kernel_rows(first.references, points, [one.width for one in maps], device)
    if isinstance(first, MonteCarloMap):
        x = coordinates(first.references, as_tensor(points, device).double())
        return [PointRows(x) for _ in maps]
    rows = as_tensor(first(on_host(points)).array, device)
    return [LogRows(rows if log_rows else rows.log())]


def _kernel_rows(
    refs: ClassReferences, points: Any, widths: Sequence[float], device: torch.device
) -> list[DeviceRows]:
    x = coordinates(refs, as_tensor(points, device))
    sums = class_log_sums(
        x,
        refs.points,
        refs.offsets,
        widths,
        weights=refs.weights,
        precision=refs.spec.precision,
        device=device,
    )
    sums -= as_tensor(refs.log_mass, device).to(sums.dtype)
    return [LogRows(one) for one in sums]


def coordinates(refs: ClassReferences, posteriors: torch.Tensor) -> torch.Tensor:
    """Return posteriors in the kernel's geometry, as :func:`kdey.kernels.transform`."""
    if refs.spec.kernel == "gaussian":
        return posteriors
    k, s = posteriors.shape[1], float(refs.spec.shrinkage)
    mixed = (1.0 - s) * posteriors.double() + s / k
    if not bool(mixed.amin() > 0):
        refs.coordinates(on_host(posteriors))  # the host's message
    logs = mixed.log()
    return logs - logs.mean(dim=1, keepdim=True)
