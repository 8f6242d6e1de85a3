"""Which methods have a route on a device, and the way in. Imports torch only when one is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from kdey._support.device import on_host
from kdey.bags import Bags
from kdey.matching import (
    AverageOf,
    MatchCauchySchwarz,
    MatchDivergence,
    MatchSquares,
    MaximiseLikelihood,
)
from kdey.posteriors import TrainingPosteriors
from kdey.rows.composite import CommitteeMap
from kdey.rows.density import DensityMap
from kdey.rows.monte_carlo import MonteCarloMap
from kdey.rows.overlap import OverlapMap
from kdey.solvers import Solution

#: Kernel values that cost about as much as solving for one row of k numbers on the host.
_PAIRS_PER_ROW = 200
#: Only the host's solver knows what this divergence forbids (infinite values).
_ON_HOST = ("reverse-kl",)


def has_route(row_map: Any, matching: Any) -> bool:
    """Whether rows and problem of a fitted quantifier can be worked out on a device.

    Likelihoods of any rows, and the densities of KDEy matched by Cauchy-Schwarz, L2 or a
    divergence, and committees of them. The iterations of EM are those of the host.
    """
    if isinstance(matching, AverageOf) and isinstance(row_map, CommitteeMap):
        return all(has_route(part, matching.inner) for part in row_map.parts)
    if isinstance(matching, MatchCauchySchwarz | MatchSquares):
        return isinstance(row_map, OverlapMap)
    if isinstance(matching, MatchDivergence):
        known = isinstance(row_map, MonteCarloMap) and matching.divergence not in _ON_HOST
        return known and bool(row_map.templates.any(axis=1).all())
    return type(matching) is MaximiseLikelihood


def n_pairs(row_map: Any, n_points: int) -> float:
    """Return about how many kernel values the rows of ``n_points`` instances take."""
    if isinstance(row_map, CommitteeMap):
        return sum(n_pairs(part, n_points) for part in row_map.parts)
    if isinstance(row_map, MonteCarloMap):
        return float(n_points) * len(row_map.points)
    if isinstance(row_map, DensityMap | OverlapMap):
        return float(n_points) * len(row_map.references.points)
    return float(n_points) * _PAIRS_PER_ROW


def device_solver(
    row_map: Any, matching: Any, points: Any, device: Any
) -> Callable[[Bags], Solution]:
    """Do the work per instance on ``device``; return the map from bags to their solutions.

    Parameters
    ----------
    row_map, matching : fitted stages of a quantifier, for which :func:`has_route` holds
    points : checked posteriors, array or tensor of shape (m, k)
    device : torch.device
    """
    from kdey.gpu.rows import device_rows

    rows = device_rows([row_map], points, device, log_rows=_in_logs(matching))[0]
    return partial(match_rows, matching, row_map, rows)


def match_rows(matching: Any, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1) -> Solution:
    """Return ``matching.match(row_map, rows, bags)``, worked out where the rows lie."""
    if not getattr(rows, "on_device", False):
        solution: Solution = matching.match(row_map, rows, bags, n_threads)
        return solution
    from kdey.gpu.solve import solve_bags

    return solve_bags(matching, row_map, rows, bags)


def rows_of_family_on(
    specs: Sequence[Any],
    matching: Any,
    training: TrainingPosteriors,
    points: Any,
    n_classes: int,
    device: Any,
    n_threads: int = 1,
) -> Iterator[tuple[Any, Any]]:
    """As :func:`kdey.rows.interface.rows_of_family`, with the rows on ``device``.

    Where ``matching`` has no route there, the rows are the host's.
    """
    from kdey.gpu.rows import device_rows

    if hasattr(specs[0], "fit_together"):
        maps = specs[0].fit_together(specs, training, n_classes, n_threads)
        if has_route(maps[0], matching):
            yield from zip(maps, device_rows(maps, points, device), strict=True)
            return
    for spec in specs:
        row_map = spec.fit(training, n_classes, n_threads)
        if has_route(row_map, matching):
            yield row_map, device_rows([row_map], points, device, log_rows=_in_logs(matching))[0]
        else:
            yield row_map, row_map(on_host(points), n_threads)


def _in_logs(matching: Any) -> bool:
    return bool(getattr(matching, "log_rows", True))
