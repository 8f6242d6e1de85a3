"""The edge of a numeric grid: whether the best value lies on it, and how to go on from there."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kdey.model_selection.candidates import numbers_of

#: Fewer distinct values have no inside.
_LEAST = 3


class GridEdgeWarning(UserWarning):
    """The best value lies on the edge of the grid: a better one may lie beyond."""


@dataclass(frozen=True)
class Edge:
    """A parameter whose best value is the smallest or largest one tried."""

    name: str
    value: float
    upper: bool
    beyond: tuple[Any, ...]

    def __str__(self) -> str:
        side = "largest" if self.upper else "smallest"
        return f"{self.name}={self.value:g} is the {side} value tried"


def find_edges(grid: Mapping[str, list[Any]], best: Mapping[str, Any]) -> list[Edge]:
    """Return the numeric parameters of a grid, of three values or more, that are best at an edge.

    Parameters
    ----------
    grid : mapping from names to the values tried
    best : mapping from names to the best values
    """
    edges = []
    for name, values in grid.items():
        numbers = numbers_of(values)
        if numbers is None or len(numbers) < _LEAST or best[name] not in (numbers[0], numbers[-1]):
            continue
        upper = best[name] == numbers[-1]
        edges.append(Edge(name, best[name], upper, tuple(_beyond(numbers, upper))))
    return edges


def _beyond(numbers: list[Any], upper: bool) -> list[Any]:
    """Return half as many values again beyond an edge, spaced as the grid is there.

    Evenly spaced grids go on by their step, others by their ratio; a positive grid that
    would step to zero or below goes on by halves.
    """
    last, before = (numbers[-1], numbers[-2]) if upper else (numbers[0], numbers[1])
    count = math.ceil(len(numbers) / 2)
    whole = all(isinstance(number, int) for number in numbers)
    step = last - before
    positive = numbers[0] > 0
    if _even(numbers) or not positive:
        made = [last + step * i for i in range(1, count + 1)]
        if positive and min(made) <= 1e-9 * abs(step):
            made = [last / 2**i for i in range(1, count + 1)]
    else:
        made = [last * (last / before) ** i for i in range(1, count + 1)]
    if whole:
        return sorted({round(v) for v in made if round(v) != 0 or not positive} - set(numbers))
    return [float(f"{value:.12g}") for value in made]  # 0.21, not 0.21000000000000002


def _even(numbers: list[Any]) -> bool:
    steps = [b - a for a, b in itertools.pairwise(numbers)]
    return bool(max(steps) - min(steps) <= 1e-6 * max(steps))
