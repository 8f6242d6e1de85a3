"""The edge of a numeric grid: whether the best value lies on it, and how to go on from there.

Grid and random search.
"""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import check_random_state

from kdey._support.validation import check_count
from kdey.model_selection.candidates import Score, check_names, grid_dicts, numbers_of, summary_line
from kdey.model_selection.scoring import StageCache
from kdey.model_selection.search import BaseSearch
from kdey.quantifiers.foreign import QuantifierLike

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


class GridSearchQ(BaseSearch):
    """Exhaustive search over a grid, with every stage computed once.

    Parameters
    ----------
    param_grid : dict or list of dict
        From parameter names (``bandwidth``, ``classifier__C``) to lists of values.
    extend : bool
        Where the best value of a numeric parameter (three values or more) lies on the edge of
        the grid, go on beyond it, with half as many values again each time; otherwise warn.
    max_extensions : int
        How often to go on; then warn.
    quantifier, scoring, protocol, validation, refit, error_score, random_state, log, cache, n_jobs, verbose
        See :class:`~kdey.model_selection.search.BaseSearch`, as for the attributes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> search = kdey.GridSearchQ(
    ...     kdey.KDEyML(LogisticRegression(max_iter=1000), random_state=0),
    ...     {"bandwidth": [0.05, 0.1, 0.2], "classifier__C": [0.1, 1.0]},
    ...     protocol=kdey.APP(n_bags=50, bag_size=50, random_state=0),
    ...     random_state=0,
    ... )
    >>> search = search.fit(X[::2], y[::2])
    >>> sorted(search.best_params_)
    ['bandwidth', 'classifier__C']
    >>> search.predict(X[1::2]).round(1)
    array([0.3, 0.3, 0.3])
    """  # noqa: E501

    def __init__(
        self,
        quantifier: QuantifierLike,
        param_grid: Any,
        *,
        scoring: Any = "ae",
        protocol: Any = None,
        validation: float = 0.4,
        refit: bool | str = True,
        extend: bool = False,
        max_extensions: int = 3,
        error_score: Any = np.nan,
        random_state: Any = 0,
        log: str | os.PathLike[str] | None = None,
        cache: StageCache | None = None,
        n_jobs: int | None = None,
        verbose: bool | Literal["auto"] = "auto",
    ) -> None:
        self.quantifier = quantifier
        self.param_grid = param_grid
        self.scoring = scoring
        self.protocol = protocol
        self.validation = validation
        self.refit = refit
        self.extend = extend
        self.max_extensions = max_extensions
        self.error_score = error_score
        self.random_state = random_state
        self.log = log
        self.cache = cache
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _settings(self) -> list[dict[str, Any]]:
        settings = list(ParameterGrid(self.param_grid))
        self._grids = grid_dicts(self.param_grid)
        self._left = int(self.max_extensions) if self.extend else 0
        for grid in self._grids:
            check_names(self.quantifier, grid)
        if not settings:
            raise ValueError("param_grid holds no candidate")
        self._owner = [number for number, grid in enumerate(self._grids) for _ in _product(grid)]
        return settings

    def _private_stages(self) -> int:
        return 64 if self.extend else 1  # an extension comes back to every classifier

    def _more(
        self, settings: list[dict[str, Any]], scores: Sequence[Score], best: int
    ) -> list[dict[str, Any]]:
        number = self._owner[best]
        grid = self._grids[number]
        edges = find_edges(grid, settings[best])
        if not edges:
            return []
        if self._left == 0 or not any(edge.beyond for edge in edges):
            self._warn(edges, settings[best])
            return []
        self._left -= 1
        wider = dict(grid) | {edge.name: [*grid[edge.name], *edge.beyond] for edge in edges}
        tried = {repr(sorted(one.items())) for one in _product(grid)}
        more = [one for one in _product(wider) if repr(sorted(one.items())) not in tried]
        self._grids[number] = wider
        self._owner += [number] * len(more)
        return more

    def _warn(self, edges: list[Edge], best: Mapping[str, Any]) -> None:
        warnings.warn(
            f"the best candidate ({summary_line(best)}) lies on the edge of the grid: "
            f"{'; '.join(map(str, edges))}. A better one may lie beyond: widen the grid, or set "
            "extend=True",
            GridEdgeWarning,
            stacklevel=5,
        )


class RandomSearchQ(BaseSearch):
    """Search over settings drawn at random, with every stage computed once.

    Parameters
    ----------
    param_distributions : dict or list of dict
        From parameter names to lists of values or distributions with ``rvs``, as in
        scikit-learn's ``RandomizedSearchCV``.
    n_iter : int
        Number of settings drawn, by ``random_state``.
    quantifier, scoring, protocol, validation, refit, error_score, random_state, log, cache, n_jobs, verbose
        See :class:`~kdey.model_selection.search.BaseSearch`, as for the attributes.
    """  # noqa: E501

    def __init__(
        self,
        quantifier: QuantifierLike,
        param_distributions: Any,
        *,
        n_iter: int = 10,
        scoring: Any = "ae",
        protocol: Any = None,
        validation: float = 0.4,
        refit: bool | str = True,
        error_score: Any = np.nan,
        random_state: Any = 0,
        log: str | os.PathLike[str] | None = None,
        cache: StageCache | None = None,
        n_jobs: int | None = None,
        verbose: bool | Literal["auto"] = "auto",
    ) -> None:
        self.quantifier = quantifier
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.scoring = scoring
        self.protocol = protocol
        self.validation = validation
        self.refit = refit
        self.error_score = error_score
        self.random_state = random_state
        self.log = log
        self.cache = cache
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _settings(self) -> list[dict[str, Any]]:
        given = self.param_distributions
        parts = list(given) if isinstance(given, list | tuple) else [given]
        if not parts or not all(isinstance(one, Mapping) for one in parts):
            raise ValueError(
                f"param_distributions must be a mapping, or a list of some, got {given!r}"
            )
        for one in parts:
            check_names(self.quantifier, one)
        rng = check_random_state(self.random_state)
        return list(ParameterSampler(given, check_count(self.n_iter, "n_iter"), random_state=rng))


def _product(grid: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    names = sorted(grid)  # the order of scikit-learn's ParameterGrid
    return [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*(grid[name] for name in names))
    ]
