r"""How much a method depends on its one parameter: test errors over the whole grid.

As in the paper's stability analysis, the classifier keeps its defaults; all values of a
parameter come from one pass over the test bags.

Beside the grid of KDEy-ML stand the bandwidths of density estimation that the paper tried without
success (:func:`rule_bandwidths`): they make densities accurate, which is not what a quantifier
needs. With d = k - 1 dimensions and n the mean size of a class they are

* *Silverman's* rule of thumb (:func:`kdey.kernels.resolve_bandwidth`),
* *Scott's* cross-validation: the h of least :math:`\int \hat f^2 - \frac2n \sum_j
  \hat f_{-j}(x_j)`, summed over the classes, on the grid of the experiments (Scott and Terrell,
  1987),
* *Woodroofe's* plug-in: :math:`h^{d+4} = d (4 \pi)^{-d/2} / (n \psi)`, where
  :math:`\psi = \int (\nabla^2 f)^2` is that of a pilot density, here at Silverman's bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression

from experiments.results import Curve, ResultsFile
from experiments.run import quiet
from experiments.settings import BANDWIDTHS, METHODS, METRICS, WIDER, Method, Setting
from experiments.tasks import Source, Task, TaskBags
from kdey._fingerprints import fingerprint
from kdey.bags import Array, Indices, offsets_of
from kdey.evaluation import GridSearchQ, StageCache
from kdey.kernels import resolve_bandwidth
from kdey.quantifiers.base import BaseQuantifier

#: The methods of the paper's figure.
CURVES = ("DM-HD", "KDEy-ML")
#: KDEy-ML at the bandwidths of these rules.
BY_RULES, RULES = "KDEy-ML by rules", ("Silverman", "Scott", "Woodroofe")
#: References of a class that are compared with one another.
_MOST_ROWS = 1500


def run_sensitivity(
    setting: Setting,
    sources: Sequence[Source],
    seeds: Sequence[int],
    store: ResultsFile,
    n_jobs: int,
    say: Callable[[str], None],
    methods: Sequence[str] = (*CURVES, BY_RULES),
) -> None:
    """Store the curves that a results file does not have yet.

    Parameters
    ----------
    setting : Setting
        Defines the size and number of the test bags.
    methods : sequence of str
        Each must have one parameter of its own, or be ``BY_RULES``.
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
                make = rule_curves if method == BY_RULES else curves
                for curve in make(
                    setting, METHODS.get(method, METHODS["KDEy-ML"]), task, cache, n_jobs
                ):
                    store.append(curve)
                say(f"{source.name}, {method}, seed {seed}: stored")


def curves(
    setting: Setting, method: Method, task: Task, cache: StageCache, n_jobs: int
) -> list[Curve]:
    """Return the mean test error at each value of a method's parameter, by each metric."""
    ((parameter, values),) = method.grid.items()
    values = (*values, *method.beyond.get(parameter, ()))
    return _curves(setting, method, parameter, values, task, cache, n_jobs)


def rule_curves(
    setting: Setting, method: Method, task: Task, cache: StageCache, n_jobs: int
) -> list[Curve]:
    """Return the mean test error at the bandwidth of each of ``RULES``, by each metric."""
    quantifier = method.build(LogisticRegression(max_iter=setting.max_iter), task.seed, n_jobs)
    with quiet():
        training = quantifier.fit(task.development.X, task.development.y).training_
    widths = rule_bandwidths(training.required(), training.labels)
    made = _curves(setting, method, "bandwidth", widths, task, cache, n_jobs)
    return [replace(curve, method=BY_RULES) for curve in made]


def rule_bandwidths(posteriors: Array, labels: Indices) -> tuple[float, ...]:
    """Return the bandwidth of each of ``RULES`` for training posteriors of shape (n, k)."""
    d = posteriors.shape[1] - 1
    classes = [posteriors[labels == label] for label in np.unique(labels)]
    n = float(np.mean([len(rows) for rows in classes]))
    points = np.concatenate(classes)
    silverman = resolve_bandwidth("silverman", points, offsets_of([len(rows) for rows in classes]))
    rng = np.random.default_rng(0)
    fewer = [
        rows if len(rows) <= _MOST_ROWS else rng.permutation(rows)[:_MOST_ROWS] for rows in classes
    ]
    squares = [cdist(rows, rows, "sqeuclidean") for rows in fewer if len(rows) > 1]
    grid = (*BANDWIDTHS, *WIDER)
    scott = grid[int(np.argmin([sum(_cross_validation(r2, h, d) for r2 in squares) for h in grid]))]
    psi = float(np.mean([_squared_laplacian(r2, silverman, d) for r2 in squares]))
    woodroofe = (d * (4 * np.pi) ** (-d / 2) / (n * psi)) ** (1 / (d + 4))
    return silverman, float(scott), float(woodroofe)


def _cross_validation(squares: Array, h: float, d: int) -> float:
    """Return the criterion of least-squares cross-validation, from squared distances (n, n)."""
    n = len(squares)
    inner = (4 * np.pi * h * h) ** (-d / 2) * np.exp(-squares / (4 * h * h)).mean()
    others = (np.exp(-squares / (2 * h * h)).sum() - n) / (n * (n - 1))
    return float(inner - 2.0 * (2 * np.pi * h * h) ** (-d / 2) * others)


def _squared_laplacian(squares: Array, pilot: float, d: int) -> float:
    """Return the integral of the squared Laplacian of a kernel density, from squared distances."""
    s = 2.0 * pilot * pilot
    u = squares / s
    terms = (u * u - 2 * (d + 2) * u + d * (d + 2)) * np.exp(-u / 2)
    return float((2 * np.pi * s) ** (-d / 2) / s**2 * terms.mean())


def _curves(
    setting: Setting,
    method: Method,
    parameter: str,
    values: tuple[float, ...],
    task: Task,
    cache: StageCache,
    n_jobs: int,
) -> list[Curve]:
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
            setting.name,
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
