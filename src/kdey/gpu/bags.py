r"""Bags on a device: gathered in runs of similar size, and worked on in tiles that fit the memory.

:class:`DeviceBags` gathers the rows of bags, and :func:`bag_means` averages them.
:func:`kernel_means` computes mean kernels between
bags and points, which Monte Carlo rows need; it is the device's version of
:func:`kdey.kernels.means.kernel_means`, in float64:

.. math:: q_{bi} = \frac{1}{r_i} \sum_j w_{bj}
          \exp\left(-\frac{\|x_i - u_j\|^2}{2 h^2}\right), \qquad \sum_j w_{bj} = 1

:func:`in_tiles` halves a tile if the memory does not suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from kdey._support.device import as_tensor
from kdey.bags import Array, Bags, offsets_of

#: Numbers (bags x longest bag x classes) in memory at a time.
_NUMBERS = {"cuda": 1 << 27, "cpu": 1 << 22}
#: Kernel values in memory at a time.
_TILE = {"cuda": 1 << 27, "cpu": 1 << 21}


@dataclass(frozen=True, eq=False)
class DeviceBags:
    """Bags over one pool, or over several that follow one another, as tensors on one device.

    Attributes
    ----------
    indices : int64 tensor
        Positions in the pool of each bag.
    starts, ends : int64 tensors of shape (n_bags,)
        Bag b has ``indices[starts[b]:ends[b]]``.
    shifts : int64 tensor of shape (n_bags,)
        Where the pool of each bag begins.
    weights : float64 tensor or None
        In the shape of ``indices``.
    sizes : int64 array of shape (n_bags,)
        On the host.
    """

    indices: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor
    shifts: torch.Tensor
    weights: torch.Tensor | None
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, bags: Bags, device: torch.device) -> DeviceBags:
        """Return the bags with their positions and weights on ``device``."""
        return cls.over([bags], [0], device)

    @classmethod
    def over(
        cls, parts: Sequence[Bags], pool_starts: Sequence[int], device: torch.device
    ) -> DeviceBags:
        """Return the bags of several pools, one part after the other.

        Parameters
        ----------
        parts : sequence of Bags
            An object that occurs several times is copied to the device once.
        pool_starts : sequence of int
            Where the pool of each part begins.
        device : torch.device

        Returns
        -------
        DeviceBags
        """
        distinct = list({id(bags): bags for bags in parts}.values())
        slots = offsets_of([len(bags.indices) for bags in distinct])[:-1].tolist()
        first = {id(bags): slot for bags, slot in zip(distinct, slots, strict=True)}
        weights = None
        if any(bags.weights is not None for bags in distinct):
            each = (np.ones(len(b.indices)) if b.weights is None else b.weights for b in distinct)
            weights = _joined([as_tensor(values, device) for values in each])
        shifts = np.repeat(np.asarray(pool_starts, dtype=np.int64), [len(b) for b in parts])
        return cls(
            _joined([as_tensor(bags.indices, device) for bags in distinct]),
            as_tensor(np.concatenate([b.offsets[:-1] + first[id(b)] for b in parts]), device),
            as_tensor(np.concatenate([b.offsets[1:] + first[id(b)] for b in parts]), device),
            as_tensor(shifts, device),
            weights,
            np.concatenate([bags.sizes for bags in parts]),
        )

    def runs(self, width: int) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of bags that are processed together, with bounded memory.

        Bags are sorted by size, so that padding at most doubles a run. A run exceeds the bound only
        if a single bag does.

        Parameters
        ----------
        width : int
            Numbers per instance.

        Yields
        ------
        int64 array
        """
        order = np.argsort(self.sizes, kind="stable")
        sizes = self.sizes[order]
        limit = _NUMBERS.get(self.indices.device.type, 1 << 24) // width
        start = 0
        while start < len(order):
            longest = np.arange(1, len(order) - start + 1) * sizes[start:]
            stop = start + max(1, int(np.searchsorted(longest, limit, side="right")))
            twice = int(np.searchsorted(sizes, 2 * sizes[start], side="right"))
            stop = min(stop, max(twice, start + 1))
            yield order[start:stop]
            start = stop

    def gather(self, selected: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return positions and weights of the instances of some bags.

        Parameters
        ----------
        selected : int64 array of shape (B,)
            Numbers of the bags.

        Returns
        -------
        positions : int64 tensor of shape (B, n)
            Positions in the pool, or in all pools; n is the size of the largest bag.
        weights : float64 tensor of shape (B, n)
            Zero for the padding of smaller bags.
        """
        device = self.indices.device
        longest = int(self.sizes[selected].max())
        bags = as_tensor(selected, device)
        starts = self.starts[bags][:, None]
        slots = starts + torch.arange(longest, device=device)
        valid = slots < self.ends[bags][:, None]
        slots = torch.where(valid, slots, starts)
        weights = valid.double() if self.weights is None else self.weights[slots] * valid
        return self.indices[slots] + self.shifts[bags][:, None], weights


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    """Return vectors one after the other; a single one as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def bag_means(rows: torch.Tensor, bags: Bags) -> Array:
    """Return the mean row of each bag, on the host.

    Parameters
    ----------
    rows : tensor of shape (m, r)
    bags : Bags

    Returns
    -------
    float64 array of shape (n_bags, r)
    """
    device_bags = DeviceBags.of(bags, rows.device)
    out = np.empty((len(bags), rows.shape[1]))
    for run in device_bags.runs(rows.shape[1]):

        def work(start: int, stop: int, run: NDArray[np.int64] = run) -> None:
            positions, weights = device_bags.gather(run[start:stop])
            shares = weights / weights.sum(dim=1, keepdim=True)
            means = torch.bmm(shares[:, None, :], rows[positions].double())[:, 0]
            out[run[start:stop]] = means.cpu().numpy()

        in_tiles(work, len(run), len(run))
    return out


def kernel_means(
    points: torch.Tensor,
    log_scale: torch.Tensor,
    instances: torch.Tensor,
    bags: Bags,
    bandwidth: float,
) -> torch.Tensor:
    """Return the mean kernel of each bag at each point, divided by ``exp(log_scale)``.

    Parameters
    ----------
    points : tensor of shape (t, D)
    log_scale : tensor of shape (t,)
    instances : tensor of shape (m, D)
        Instances of the pool.
    bags : Bags
    bandwidth : float

    Returns
    -------
    tensor of shape (n_bags, t)
    """
    used, columns = np.unique(bags.indices, return_inverse=True)
    u = instances[as_tensor(used, instances.device)]
    centre = u.mean(dim=0)  # distances are more accurate with small norms
    u = u - centre
    norms = (u**2).sum(dim=1, keepdim=True)
    positions = as_tensor(columns.reshape(-1), u.device)
    offsets = as_tensor(bags.offsets[:-1], u.device)
    shares = as_tensor(bags.matrix().data, u.device)
    out = u.new_empty((len(bags), len(points)))
    factor = -0.5 / bandwidth**2

    def work(start: int, stop: int) -> None:
        x = points[start:stop] - centre
        last = factor * (x**2).sum(dim=1) - log_scale[start:stop]
        exponents = torch.addmm(last, u, x.T, alpha=-2.0 * factor).add_(factor * norms)
        # A bag is a weighted sum of rows, which is what torch calls an embedding bag.
        out[:, start:stop] = torch.nn.functional.embedding_bag(
            positions, exponents.exp_(), offsets, mode="sum", per_sample_weights=shares
        )

    in_tiles(work, len(points), _TILE.get(u.device.type, 1 << 22) // len(used))
    return out


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
