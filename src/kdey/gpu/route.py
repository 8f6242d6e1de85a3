"""The way to a device: rows and solutions there. Imports torch only when it is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from kdey._support.device import on_host
from kdey.bags import Bags
from kdey.matching import AnyMatching
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import RowMap, Rows, RowSpec
from kdey.solvers import Solution


def device_solver(
    row_map: RowMap, matching: AnyMatching, points: Any, device: Any
) -> Callable[[Bags], Solution]:
    """Do the work per instance on ``device``; return the map from bags to their solutions.

    Parameters
    ----------
    row_map : RowMap
    matching : Matching
        With a problem that can be solved on a device (``matching.device_problem(row_map)``).
    points : checked posteriors, array or tensor of shape (m, k)
    device : torch.device
    """
    from kdey.gpu.rows import device_rows

    rows = device_rows([row_map], points, device, log_rows=_in_logs(matching))[0]
    return partial(match_rows, matching, row_map, rows)


def match_rows(
    matching: AnyMatching, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1
) -> Solution:
    """Return ``matching.match(row_map, rows, bags)``, worked out where the rows lie."""
    if not rows.on_device:
        return matching.match(row_map, rows, bags, n_threads)
    from kdey.gpu.solve import solve_bags

    return solve_bags(matching, row_map, rows, bags)


def rows_of_family_on(
    specs: Sequence[RowSpec],
    matching: AnyMatching,
    training: TrainingPosteriors,
    points: Any,
    n_classes: int,
    device: Any,
    n_threads: int = 1,
) -> Iterator[tuple[RowMap, Rows]]:
    """As :func:`kdey.rows.interface.rows_of_family`, with the rows on ``device``.

    Where ``matching`` has no problem that is solved there, the rows are the host's.
    """
    from kdey.gpu.rows import device_rows

    if specs[0].family is not None:
        maps = specs[0].fit_together(specs, training, n_classes, n_threads)
        if matching.device_problem(maps[0]) is not None:
            yield from zip(maps, device_rows(maps, points, device), strict=True)
            return
    for spec in specs:
        row_map = spec.fit(training, n_classes, n_threads)
        if matching.device_problem(row_map) is not None:
            yield row_map, device_rows([row_map], points, device, log_rows=_in_logs(matching))[0]
        else:
            yield row_map, row_map(on_host(points), n_threads)


def _in_logs(matching: AnyMatching) -> bool:
    return matching.likelihood is None or matching.likelihood.log_rows
