"""Grid and random search."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import check_random_state

from kdey.model_selection.cache import StageCache
from kdey.model_selection.candidates import check_names, grid_dicts, summary_line
from kdey.model_selection.data import Score
from kdey.model_selection.edges import Edge, GridEdgeWarning, find_edges
from kdey.model_selection.search import BaseSearch
from kdey.scalars import check_count


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
        quantifier: Any,
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
        quantifier: Any,
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
