"""The paper's model selection: one search serves every metric; automatic methods need none."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.linear_model import LogisticRegression

from kdey.metrics import get_metric
from kdey.model_selection import GridEdgeWarning, GridSearchQ, StageCache
from kdey.paper.methods import Method
from kdey.paper.settings import METRICS, Setting
from kdey.paper.tasks import Task
from kdey.rows.references import BandwidthWarning


@dataclass(frozen=True)
class Choice:
    """What was chosen for one metric.

    Attributes
    ----------
    params : mapping from full parameter names to values
    error : float or None
        Mean error over the validation bags; None where nothing was chosen.
    candidates, failed : int
        How many settings were tried, and how many gave no estimate.
    on_edge : tuple of str
        The method's own parameters whose value is the last of all that were tried.
    """

    params: Mapping[str, Any]
    error: float | None
    candidates: int
    failed: int
    on_edge: tuple[str, ...]


#: What an automatic method is tested with: its defaults.
NO_CHOICE = Choice({}, None, 0, 0, ())


@dataclass(frozen=True, eq=False)
class _Trials:
    """Candidates of a search with their mean errors by metric (NaN where one failed)."""

    params: list[dict[str, Any]]
    errors: dict[str, Any]

    def __add__(self, other: _Trials) -> _Trials:
        joined = {name: np.concatenate([e, other.errors[name]]) for name, e in self.errors.items()}
        return _Trials(self.params + other.params, joined)


def choose(
    method: Method,
    task: Task,
    setting: Setting,
    metrics: Sequence[str],
    cache: StageCache,
    n_jobs: int,
) -> dict[str, Choice]:
    """Return the best parameters of a method by each metric.

    Where a metric's choice is the largest value of a parameter that has values ``beyond``, those
    are tried too, for that metric; what another metric sees does not change. An automatic method
    keeps its defaults, and no search is run.

    Parameters
    ----------
    metrics : sequence of {"mae", "mrae"}
    cache : StageCache
        Holds the classifiers, which all methods of a task share.
    """
    if method.automatic:
        return dict.fromkeys(metrics, NO_CHOICE)
    base = _search(method, task, setting, metrics, method.grid, cache, n_jobs)
    wider: _Trials | None = None
    chosen = {}
    for metric in metrics:
        tried = base
        if method.beyond and _edges(method, base.params[_best(base, metric)], method.grid):
            if wider is None:
                wider = _search(method, task, setting, metrics, method.beyond, cache, n_jobs)
            tried = base + wider
        chosen[metric] = _choice(method, tried, metric)
    return chosen


def classifier_of(setting: Setting) -> LogisticRegression:
    """Return the classifier of every method, its grid not yet applied."""
    return LogisticRegression(max_iter=setting.max_iter)


def _search(
    method: Method,
    task: Task,
    setting: Setting,
    metrics: Sequence[str],
    method_grid: Mapping[str, tuple[Any, ...]],
    cache: StageCache,
    n_jobs: int,
) -> _Trials:
    search = GridSearchQ(
        method.build(classifier_of(setting), task.seed, n_jobs),
        method.param_grid(setting.classifiers, method_grid),
        scoring=[METRICS[metric] for metric in metrics],
        protocol=task.validation.protocol,
        refit=False,
        cache=cache,
        n_jobs=n_jobs,
        verbose=False,
    )
    validation = task.validation
    with quiet():
        search.fit(task.train.X, task.train.y, X_val=validation.X, y_val=validation.y)
    scores = search.cv_results_
    return _Trials(
        scores["params"],
        {
            metric: get_metric(METRICS[metric]).sign * scores[f"mean_test_{METRICS[metric]}"]
            for metric in metrics
        },
    )


def _best(tried: _Trials, metric: str) -> int:
    return int(np.nanargmin(tried.errors[metric]))


def _choice(method: Method, tried: _Trials, metric: str) -> Choice:
    errors, best = tried.errors[metric], _best(tried, metric)
    params = tried.params[best]
    full_grid = {
        name: (*values, *method.beyond.get(name, ())) for name, values in method.grid.items()
    }
    return Choice(
        params,
        float(errors[best]),
        len(errors),
        int(np.isnan(errors).sum()),
        tuple(_edges(method, params, full_grid)),
    )


def _edges(
    method: Method, params: Mapping[str, Any], grid: Mapping[str, tuple[Any, ...]]
) -> list[str]:
    """Return the method's own parameters that are the last of their grid."""
    prefix = "quantifier__" if method.per_class else ""
    return [name for name, values in grid.items() if params[prefix + name] == values[-1]]


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings that the results record, or that each of 14 classifiers would repeat."""
    with warnings.catch_warnings():
        categories = (ConvergenceWarning, GridEdgeWarning, BandwidthWarning, FitFailedWarning)
        for kind in categories:
            warnings.simplefilter("ignore", kind)
        # Classes rarer than the folds, and calibration of posteriors that need none.
        for start in ("cv: ", "P separates the classes"):
            warnings.filterwarnings("ignore", start, UserWarning)
        yield
