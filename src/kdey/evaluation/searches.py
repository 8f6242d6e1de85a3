"""Searches over a grid, at random, and by Optuna, with every stage computed once."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import check_random_state

from kdey.evaluation.base_search import BaseSearch, signed_scores
from kdey.evaluation.stage_scoring import Score, check_names
from kdey.validation import check_count

#: A grid with fewer distinct values has no interior, so that every value is on its edge.
_MIN_VALUES = 3


class GridEdgeWarning(UserWarning):
    """The best value lies on the edge of the grid, so that a better one may lie beyond."""


def find_edges(grid: Mapping[str, list[Any]], best: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the numeric parameters of a grid whose best value lies on an edge, and what to try.

    Parameters with fewer than three values are ignored.

    Parameters
    ----------
    grid : mapping from names to the values that were tried
    best : mapping from names to the best values

    Returns
    -------
    dict from names to the values beyond the edge to try next
    """
    edges = {}
    for name, values in grid.items():
        numbers = _numbers_of(values)
        if numbers is None or len(numbers) < _MIN_VALUES:
            continue
        if best[name] in (numbers[0], numbers[-1]):
            edges[name] = _beyond(numbers, upper=best[name] == numbers[-1])
    return edges


def _beyond(numbers: list[Any], upper: bool) -> list[Any]:
    """Return values beyond an edge, half as many as the grid has, spaced as the grid is there.

    Evenly spaced grids continue by their step, others by their ratio. A positive grid whose step
    would lead to zero or below continues by halves.
    """
    last, before = (numbers[-1], numbers[-2]) if upper else (numbers[0], numbers[1])
    count = math.ceil(len(numbers) / 2)
    whole = all(isinstance(number, int) for number in numbers)
    step = last - before
    positive = numbers[0] > 0
    if _even(numbers) or not positive:
        values = [last + step * i for i in range(1, count + 1)]
        if positive and min(values) <= 1e-9 * abs(step):
            values = [last / 2**i for i in range(1, count + 1)]
    else:
        values = [last * (last / before) ** i for i in range(1, count + 1)]
    if whole:
        return sorted({round(v) for v in values if round(v) != 0 or not positive} - set(numbers))
    return [float(f"{value:.12g}") for value in values]  # 0.21, not 0.21000000000000002


def _even(numbers: list[Any]) -> bool:
    steps = [b - a for a, b in itertools.pairwise(numbers)]
    return bool(max(steps) - min(steps) <= 1e-6 * max(steps))


def _grid_dicts(param_grid: Any) -> list[dict[str, list[Any]]]:
    """Return a grid (a mapping, or several) as a list of dicts from names to lists of values."""
    grids = [param_grid] if isinstance(param_grid, Mapping) else list(param_grid)
    return [{name: list(values) for name, values in grid.items()} for grid in grids]


def _in_words(params: Mapping[str, Any]) -> str:
    """Return parameters as a text for messages."""
    return ", ".join(f"{name}={value!r}" for name, value in params.items()) or "no parameters"


def _numbers_of(values: Sequence[Any]) -> list[Any] | None:
    """Return the distinct values in rising order if all are numbers, else None."""
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in _plain(values)):
        return None
    return sorted(set(_plain(values)))


def _plain(values: Sequence[Any]) -> list[Any]:
    """Return values with NumPy scalars converted to Python numbers."""
    return [v.item() if hasattr(v, "item") and getattr(v, "ndim", 1) == 0 else v for v in values]


class GridSearchQ(BaseSearch):
    """Exhaustive search over a grid, with every stage computed once.

    Parameters
    ----------
    param_grid : dict or list of dict
        Maps parameter names (``bandwidth``, ``classifier__C``) to lists of values.
    extend : bool
        Whether to extend the grid if the best value of a numeric parameter (with three values or
        more) lies on its edge, each time by half as many values; otherwise the search warns.
    max_extensions : int
        Largest number of extensions, after which the search warns.

    See Also
    --------
    kdey.evaluation.RandomSearchQ : Search over random settings.
    kdey.evaluation.OptunaSearchQ : Search by Optuna.

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
    """

    param_grid: Any = field(kw_only=False)
    extend: bool = False
    max_extensions: int = 3

    def _settings(self) -> list[dict[str, Any]]:
        settings = list(ParameterGrid(self.param_grid))
        self._grids = _grid_dicts(self.param_grid)
        self._extensions_left = int(self.max_extensions) if self.extend else 0
        for grid in self._grids:
            check_names(self.quantifier, grid)
        if not settings:
            raise ValueError("param_grid contains no candidate: give every name at least one value")
        # The number of the grid from which each candidate comes.
        self._owner = [
            number for number, grid in enumerate(self._grids) for _ in ParameterGrid(grid)
        ]
        return settings

    def _private_stages(self) -> int:
        return 64 if self.extend else 1  # an extension uses every classifier once more

    def _more(
        self, settings: list[dict[str, Any]], scores: Sequence[Score], best: int
    ) -> list[dict[str, Any]]:
        number = self._owner[best]
        grid = self._grids[number]
        edges = find_edges(grid, settings[best])
        if not edges:
            return []
        if self._extensions_left == 0 or not any(edges.values()):
            self._warn(edges, grid, settings[best])
            return []
        self._extensions_left -= 1
        wider = dict(grid) | {name: [*grid[name], *beyond] for name, beyond in edges.items()}
        tried = {repr(sorted(params.items())) for params in ParameterGrid(grid)}
        more = [
            params for params in ParameterGrid(wider) if repr(sorted(params.items())) not in tried
        ]
        self._grids[number] = wider
        self._owner += [number] * len(more)
        return more

    def _warn(
        self, edges: Iterable[str], grid: Mapping[str, list[Any]], best: Mapping[str, Any]
    ) -> None:
        reached = "; ".join(
            f"{name}={best[name]:g} is the "
            f"{'largest' if best[name] == max(grid[name]) else 'smallest'} value tried"
            for name in edges
        )
        warnings.warn(
            f"the best candidate ({_in_words(best)}) lies on the edge of the grid: "
            f"{reached}. A better one may lie beyond: widen the grid, or set extend=True",
            GridEdgeWarning,
            stacklevel=5,
        )


class RandomSearchQ(BaseSearch):
    """Search over settings drawn at random, with every stage computed once.

    Parameters
    ----------
    param_distributions : dict or list of dict
        Maps parameter names to lists of values or distributions with ``rvs``, as in
        scikit-learn's ``RandomizedSearchCV``.
    n_iter : int
        Number of settings, which are drawn with ``random_state``.

    See Also
    --------
    kdey.evaluation.OptunaSearchQ : Search by Optuna.
    kdey.GridSearchQ : Search over a grid.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> search = kdey.evaluation.RandomSearchQ(
    ...     kdey.KDEyML(),
    ...     {"bandwidth": [0.05, 0.1, 0.2]},
    ...     n_iter=2,
    ...     protocol=kdey.APP(n_bags=20, bag_size=50),
    ... )
    >>> sorted(search.fit(X[::2], y[::2]).best_params_)
    ['bandwidth']
    """

    param_distributions: Any = field(kw_only=False)
    n_iter: int = 10

    def _settings(self) -> list[dict[str, Any]]:
        spaces = self.param_distributions
        listed = list(spaces) if isinstance(spaces, list | tuple) else [spaces]
        if not listed or not all(isinstance(space, Mapping) for space in listed):
            raise ValueError(
                f"param_distributions must be a mapping or a list of mappings, got {spaces!r}"
            )
        for space in listed:
            check_names(self.quantifier, space)
        rng = check_random_state(self.random_state)
        return list(ParameterSampler(spaces, check_count(self.n_iter, "n_iter"), random_state=rng))


class OptunaSearchQ(BaseSearch):
    """Search by Optuna's samplers, in which each classifier configuration is fitted once.

    Needs Optuna (``pip install 'kdey[optuna]'``).

    Parameters
    ----------
    param_distributions : dict
        Maps parameter names to Optuna distributions (``FloatDistribution(0.01, 0.5, log=True)``)
        or lists of values.
    n_trials : int
        Number of candidates.
    batch_size : int
        Number of trials that the sampler suggests at a time. Bandwidths of a batch share one pass
        over the distances; smaller batches let the sampler learn from more trials.
    sampler : Optuna sampler, optional
        Default: ``TPESampler(seed=random_state)``.

    Attributes
    ----------
    study_ : optuna.Study
        The study, which maximises the score.

    See Also
    --------
    kdey.GridSearchQ : Search over a grid.
    kdey.evaluation.RandomSearchQ : Search over random settings.

    Examples
    --------
    >>> from kdey import KDEyML
    >>> from kdey.evaluation import OptunaSearchQ
    >>> search = OptunaSearchQ(KDEyML(), {"bandwidth": [0.05, 0.1]}, n_trials=2)
    >>> search.n_trials
    2
    """

    param_distributions: Any = field(kw_only=False)
    n_trials: int = 50
    batch_size: int = 5
    sampler: Any = None

    def _settings(self) -> list[dict[str, Any]]:
        for name in ("n_trials", "batch_size"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be a positive integer, got {getattr(self, name)!r}")
        check_names(self.quantifier, self.param_distributions)
        self.study_ = _new_study(self.sampler, self.random_state)
        self._space = _distributions(self.param_distributions)
        self._trials: list[Any] = []
        return self._ask()

    def _more(
        self, settings: list[dict[str, Any]], scores: Sequence[Score], best: int
    ) -> list[dict[str, Any]]:
        values = signed_scores(scores, self._deciding_metric, np.nan)
        for number in range(len(self.study_.get_trials(states=_finished())), len(values)):
            failed = bool(np.isnan(values[number]))
            state = {"state": _finished()[1]} if failed else {"values": float(values[number])}
            self.study_.tell(self._trials[number], **state)
        return self._ask()

    def _private_stages(self) -> int:
        return 64  # any trial may use any earlier classifier

    def _ask(self) -> list[dict[str, Any]]:
        """Return the settings of the next batch of trials; none if all were tried."""
        size = min(self.batch_size, self.n_trials - len(self._trials))
        batch = [self.study_.ask(self._space) for _ in range(size)]
        self._trials += batch
        return [dict(trial.params) for trial in batch]


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ImportError("OptunaSearchQ needs Optuna: pip install 'kdey[optuna]'") from error
    return optuna


def _new_study(sampler: Any, seed: Any) -> Any:
    optuna = _optuna()
    chosen = optuna.samplers.TPESampler(seed=seed) if sampler is None else sampler
    # By default Optuna logs the creation of every study to standard error.
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(direction="maximize", sampler=chosen)
    finally:
        optuna.logging.set_verbosity(before)


def _distributions(spaces: Any) -> dict[str, Any]:
    """Return Optuna distributions by name, categorical ones for lists of values."""
    categorical = _optuna().distributions.CategoricalDistribution
    return {
        name: categorical(tuple(space)) if isinstance(space, list | tuple) else space
        for name, space in spaces.items()
    }


def _finished() -> tuple[Any, Any]:
    """Return the states of trials that have a score, and of trials that failed."""
    state = _optuna().trial.TrialState
    return (state.COMPLETE, state.FAIL)
