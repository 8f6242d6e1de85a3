"""How much a method depends on its one parameter: test errors over the whole grid.

As in the paper's stability analysis, the classifier keeps its defaults; all values of a
parameter come from one pass over the test bags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from experiments.results import Curve, ResultsFile
from experiments.run import quiet
from experiments.settings import METHODS, METRICS, Method, Setting
from experiments.tasks import Source, Task, TaskBags
from kdey._fingerprints import fingerprint
from kdey.evaluation import GridSearchQ, StageCache
from kdey.quantifiers.base import BaseQuantifier

#: The methods of the paper's figure.
CURVES = ("DM-HD", "KDEy-ML")


def run_sensitivity(
    setting: Setting,
    sources: Sequence[Source],
    seeds: Sequence[int],
    store: ResultsFile,
    n_jobs: int,
    say: Callable[[str], None],
    methods: Sequence[str] = CURVES,
) -> None:
    """Store the curves that a results file does not have yet.

    Parameters
    ----------
    setting : Setting
        Defines the size and number of the test bags.
    methods : sequence of str
        Each must have one parameter of its own.
    """
    for seed in seeds:
        for source in sources:
            left = [
                (method, metric)
                for method in methods
                for metric in METRICS
                if (source.name, method, metric, seed) not in store.results.curves
            ]
            if not left:
                continue
            task, cache = source.task(setting, seed), StageCache()
            for method in dict.fromkeys(method for method, _ in left):
                for curve in curves(setting, METHODS[method], task, cache, n_jobs):
                    store.append(curve)
                say(f"{source.name}, {method}, seed {seed}: stored")


def curves(
    setting: Setting, method: Method, task: Task, cache: StageCache, n_jobs: int
) -> list[Curve]:
    """Return the mean test error at each value of a method's parameter, by each metric."""
    ((parameter, values),) = method.grid.items()
    values = (*values, *method.beyond.get(parameter, ()))
    quantifier = method.build(LogisticRegression(max_iter=setting.max_iter), task.seed, n_jobs)
    parts = [
        _scores(quantifier, {parameter: list(values)}, task, part, cache, n_jobs)
        for part in task.tests()
    ]
    sizes = np.array([len(part.labelled) for part in task.tests()], dtype=np.float64)
    config = fingerprint(method.key, setting.bag_size, setting.n_test, setting.max_iter, task.key)
    return [
        Curve(
            task.dataset,
            method.name,
            metric,
            task.seed,
            config,
            parameter,
            tuple(float(value) for value in values),
            tuple(np.average([part[metric] for part in parts], axis=0, weights=sizes).tolist()),
            task.source,
        )
        for metric in METRICS
    ]


def _scores(
    quantifier: BaseQuantifier,
    grid: dict[str, list[Any]],
    task: Task,
    part: TaskBags,
    cache: StageCache,
    n_jobs: int,
) -> dict[str, Any]:
    search = GridSearchQ(
        quantifier,
        grid,
        scoring=list(METRICS.values()),
        protocol=part.protocol,
        refit=False,
        error_score="raise",
        cache=cache,
        n_jobs=n_jobs,
        verbose=False,
    )
    with quiet():
        search.fit(task.development.X, task.development.y, X_val=part.X, y_val=part.y)
    scores = search.cv_results_
    return {name: -scores[f"mean_test_{metric}"] for name, metric in METRICS.items()}
