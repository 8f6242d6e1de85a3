"""Rows of several specs at once, where they can share the work.

A spec may declare a ``family`` and ``fit_together``, and its maps ``rows_together``: specs of one
family differ in what a single pass can serve (the bandwidth). Specs without one are on their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from kdey.posteriors import TrainingPosteriors

#: Numbers held at a time in the rows of one family.
_CHUNK = 1 << 25


def families(specs: Sequence[Any], pool_size: int, n_classes: int) -> list[list[int]]:
    """Return the positions of the specs that are made together, first come first.

    A family is cut where the rows of all its members would not fit the memory.
    """
    grouped: dict[Any, list[int]] = {}
    for number, spec in enumerate(specs):
        grouped.setdefault(getattr(spec, "family", ("alone", number)), []).append(number)
    limit = max(1, _CHUNK // max(1, pool_size * n_classes))
    return [
        members[start : start + limit]
        for members in grouped.values()
        for start in range(0, len(members), limit)
    ]


def rows_of_family(
    specs: Sequence[Any],
    training: TrainingPosteriors,
    points: NDArray[Any],
    n_classes: int,
    n_threads: int = 1,
    *,
    quick: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """Yield the fitted row map and the rows of ``points`` of each spec of one family.

    ``quick`` takes a map's ``quick_rows``, where it has them.
    """
    if hasattr(specs[0], "fit_together"):
        maps = specs[0].fit_together(specs, training, n_classes, n_threads)
        yield from zip(maps, maps[0].rows_together(maps, points, n_threads), strict=True)
        return
    for spec in specs:
        row_map = spec.fit(training, n_classes, n_threads)
        make = getattr(row_map, "quick_rows", row_map) if quick else row_map
        yield row_map, make(points, n_threads)
