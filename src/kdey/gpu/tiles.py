"""Work in tiles that fit the device: where memory runs out, the tile is halved."""

from __future__ import annotations

from collections.abc import Callable

import torch


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
