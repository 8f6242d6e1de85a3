"""Bags on a device: their rows gathered in runs of about equal size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.device import as_tensor

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
