r"""Work in tiles that fit the device: where memory runs out, the tile is halved.

Bags on a device: their rows gathered in runs of about equal size.

Mean kernels between bags and given points on a device, for Monte Carlo rows.

The device's :func:`kdey.kernels.means.kernel_means`, in float64:

.. math:: q_{bi} = \frac{1}{r_i} \sum_j w_{bj}
          \exp\left(-\frac{\|x_i - u_j\|^2}{2 h^2}\right), \qquad \sum_j w_{bj} = 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from kdey._support.device import as_tensor
from kdey.bags import Bags


def in_tiles(work: Callable[[int, int], None], total: int, tile: int) -> int:
    """Call ``work(start, stop)`` over ``range(total)`` in tiles; return the tile that fitted.

    A tile that finds no device memory is done again in halves, and later tiles are as small; the
    error is passed on only where a tile of one does not fit. ``work`` must not leave half of its
    effects behind when it fails.
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
        # Outside the handler, where the failed call's tensors are no longer referred to.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return tile


#: Numbers (bags x longest bag x classes) held at a time.
_NUMBERS = {"cuda": 1 << 27, "cpu": 1 << 22}


@dataclass(frozen=True, eq=False)
class DeviceBags:
    """Bags in compressed form, see :class:`kdey.bags.Bags`, with tensors on one device."""

    indices: torch.Tensor
    offsets: torch.Tensor
    weights: torch.Tensor | None
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, bags: Bags, device: torch.device) -> DeviceBags:
        """Return the bags with their positions and weights on ``device``."""
        weights = None if bags.weights is None else as_tensor(bags.weights, device)
        indices, offsets = as_tensor(bags.indices, device), as_tensor(bags.offsets, device)
        return cls(indices, offsets, weights, bags.sizes)

    def runs(self, width: int) -> Iterator[NDArray[np.int64]]:
        """Yield the positions of bags to be worked on together, ``width`` numbers per instance.

        Bags are taken by size, so that padding at most doubles a run, and a run holds a bounded
        amount of numbers unless a single bag has more.
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

    def gather(self, which: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return pool positions (B, n) and float64 weights (B, n), zero where a bag is shorter."""
        device = self.indices.device
        longest = int(self.sizes[which].max())
        bags = as_tensor(which, device)
        places = self.offsets[bags][:, None] + torch.arange(longest, device=device)
        held = places < self.offsets[bags + 1][:, None]
        places = torch.where(held, places, self.offsets[bags][:, None])
        weights = held.double() if self.weights is None else self.weights[places] * held
        return self.indices[places], weights


#: Kernel values held at a time.
_TILE = {"cuda": 1 << 27, "cpu": 1 << 21}


def kernel_means(
    points: torch.Tensor,
    log_scale: torch.Tensor,
    instances: torch.Tensor,
    bags: Bags,
    bandwidth: float,
) -> torch.Tensor:
    """Return the mean kernel of each bag at each point over ``exp(log_scale)``, (n_bags, t).

    Parameters
    ----------
    points : tensor of shape (t, D)
    log_scale : tensor of shape (t,)
    instances : tensor of shape (m, D)
        The pool.
    bags : Bags
    bandwidth : float
    """
    used, columns = np.unique(bags.indices, return_inverse=True)
    u = instances[as_tensor(used, instances.device)]
    centre = u.mean(dim=0)  # small norms make exact distances
    u = u - centre
    norms = (u**2).sum(dim=1, keepdim=True)
    places = as_tensor(columns.reshape(-1), u.device)
    offsets = as_tensor(bags.offsets[:-1], u.device)
    shares = as_tensor(bags.matrix().data, u.device)
    out = u.new_empty((len(bags), len(points)))
    factor = -0.5 / bandwidth**2

    def work(start: int, stop: int) -> None:
        x = points[start:stop] - centre
        last = factor * (x**2).sum(dim=1) - log_scale[start:stop]
        exponents = torch.addmm(last, u, x.T, alpha=-2.0 * factor).add_(factor * norms)
        # A bag is a weighted sum of rows: what an embedding layer calls a bag, too.
        out[:, start:stop] = torch.nn.functional.embedding_bag(
            places, exponents.exp_(), offsets, mode="sum", per_sample_weights=shares
        )

    in_tiles(work, len(points), _TILE.get(u.device.type, 1 << 22) // len(used))
    return out
