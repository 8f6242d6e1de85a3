"""Running a setting: data sets x seeds x methods x metrics, cell by cell.

:func:`run` stores each cell as soon as it is finished and skips those that the results file
already has, so that the same command continues after an interruption.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.linear_model import LogisticRegression

from experiments.results import BagsRecord, Cell, CellKey, ResultsFile
from experiments.settings import METRICS, Method, Setting
from experiments.tasks import Source, Task
from kdey._fingerprints import fingerprint
from kdey.bags import Array
from kdey.evaluation import GridEdgeWarning, GridSearchQ, StageCache, evaluate
from kdey.metrics import get_metric
from kdey.quantifiers.base import BaseQuantifier
from kdey.rows.kernel import BandwidthWarning
from kdey.validation import training_labels


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


Say = Callable[[str], None]
#: Size (rows times classes) of a data set whose bags cost as much as everything else.
_LEAST = 5000.0


@dataclass(frozen=True, eq=False)
class Run:
    """What to run.

    Attributes
    ----------
    setting : Setting
    sources : sequence of Source
        The data sets.
    methods : sequence of str
    metrics : sequence of {"mae", "mrae"}
    seeds : sequence of int
        One split of every data set for each.
    n_jobs : int
        Classifier fits run at once, and native threads; cells do not depend on it.
    """

    setting: Setting
    sources: Sequence[Source]
    methods: Sequence[str]
    metrics: Sequence[str] = tuple(METRICS)
    seeds: Sequence[int] = (0,)
    n_jobs: int = -1

    def all_cells(self) -> Iterator[CellKey]:
        """Yield the cells in the order in which they are run."""
        for source, seed in self.tasks():
            for method in self.methods:
                yield from self.cells(source, seed, method)

    def tasks(self) -> list[tuple[Source, int]]:
        """Return pairs of a data set and a seed: all data sets under the first seed first."""
        return [(source, seed) for seed in self.seeds for source in self.sources]

    def cells(self, source: Source, seed: int, method: str) -> list[CellKey]:
        """Return the cells that one search serves."""
        return [
            CellKey(self.setting.name, source.name, method, metric, seed) for metric in self.metrics
        ]

    def config(self, method: str) -> str:
        """Return the fingerprint of what a method's cells depend on besides the data."""
        return fingerprint(self.setting.key, self.setting.method(method).key)


def run(plan: Run, store: ResultsFile, say: Say) -> list[str]:
    """Run the cells that a results file does not have yet, storing each as it is finished.

    Parameters
    ----------
    plan : Run
    store : ResultsFile
        Cells made with other grids, numbers of bags or data are refused, not replaced.
    say : callable
        Called with lines of progress.

    Returns
    -------
    failures : list of str
        Cells that could not be finished, and why; the others are run nevertheless.
    """
    _check_configs(plan, store)
    pace = Pace.of({key: _cost(plan, key) for key in plan.all_cells()})
    for key in plan.all_cells():
        if key in store.results.cells:
            pace.skip(key)
    if pace.skipped:
        say(f"{pace.skipped} of {pace.total} cells are in {store.path} already")
    failures: list[str] = []
    for source, seed in plan.tasks():
        failures += _run_task(plan, source, seed, store, pace, say)
    return failures


def _run_task(
    plan: Run, source: Source, seed: int, store: ResultsFile, pace: Pace, say: Say
) -> list[str]:
    left = {
        method: [k for k in plan.cells(source, seed, method) if k not in store.results.cells]
        for method in plan.methods
    }
    if not any(left.values()):
        return []
    task = source.task(plan.setting, seed)
    _check_data(plan, task, store)
    _store_bags(plan, task, store)
    # One cache per task: what its methods share is released with it.
    cache = StageCache(max_stages=256, max_solutions=1)
    failures = []
    for method, keys in left.items():
        if not keys:
            continue
        try:
            for cell in run_cells(plan, task, method, [k.metric for k in keys], cache):
                store.append(cell)
                say(pace.completed(cell.key, cell.mean))
        except Exception as error:  # whatever it is, it must not cost hours of other cells
            failures.append(f"{keys[0]}: {type(error).__name__}: {error}")
            say(f"failed: {failures[-1]}")
            for key in keys:
                pace.skip(key)
    return failures


def run_cells(
    plan: Run, task: Task, method: str, metrics: Sequence[str], cache: StageCache
) -> Iterator[Cell]:
    """Yield one method's cells on a task, each as soon as it is finished."""
    start = time.perf_counter()
    setting, definition = plan.setting, plan.setting.method(method)
    chosen = choose(definition, task, setting, metrics, cache, plan.n_jobs)
    search = time.perf_counter() - start
    template = definition.build(classifier_of(setting), task.seed, plan.n_jobs)
    # An automatic method looks at the data before it decides on its classifiers.
    shared_stages = None if definition.automatic else cache
    tested: dict[str, _TestOutcome] = {}
    for metric, choice in chosen.items():
        params_key = fingerprint(dict(choice.params))
        if params_key not in tested:
            tested[params_key] = _test(template, choice, task, shared_stages, plan.n_jobs)
        yield _cell(plan, task, method, metric, choice, tested[params_key], search)


@dataclass(frozen=True, eq=False)
class _TestOutcome:
    """What a chosen quantifier gave on the test bags."""

    errors: dict[str, Array]
    not_converged: int
    fit: float
    test: float


def _test(
    template: BaseQuantifier, choice: Choice, task: Task, cache: StageCache | None, n_jobs: int
) -> _TestOutcome:
    """Fit a choice on the development data and evaluate it on the test bags."""
    start = time.perf_counter()
    with quiet():
        fitted = _refit(clone(template).set_params(**choice.params), task, cache, n_jobs)
        fit = time.perf_counter() - start
        start = time.perf_counter()
        errors: dict[str, list[Array]] = {name: [] for name in METRICS}
        not_converged = 0
        for part in task.tests():
            evaluation = evaluate(
                {"chosen": fitted},
                part.X,
                part.y,
                part.protocol,
                metrics=list(METRICS.values()),
                n_jobs=n_jobs,
                verbose=False,
            )
            not_converged += int((~evaluation.methods["chosen"].solution.converged).sum())
            for name, metric in METRICS.items():
                errors[name].append(evaluation.errors(metric))
    joined = {name: np.concatenate(parts) for name, parts in errors.items()}
    return _TestOutcome(joined, not_converged, fit, time.perf_counter() - start)


def _refit(
    quantifier: BaseQuantifier, task: Task, cache: StageCache | None, n_jobs: int
) -> BaseQuantifier:
    """Fit on the development data, with a classifier that other methods may have fitted.

    Parameters
    ----------
    cache : StageCache or None
        Holds the classifiers; None: the quantifier fits all on its own.
    """
    X, y = task.development.X, task.development.y
    stages = None if cache is None else quantifier._stages()
    if cache is None or stages is None:
        return quantifier.fit(X, y)
    codes, classes = training_labels(y)
    stage = stages[0]
    key = fingerprint("development", stage, task.key)
    fitted = cache.stage(key, lambda: stage.fit(X, codes, classes, None, n_jobs))
    return quantifier._fit_stage(fitted, X, y)


def _cell(
    plan: Run,
    task: Task,
    method: str,
    metric: str,
    choice: Choice,
    tested: _TestOutcome,
    search: float,
) -> Cell:
    import kdey

    return Cell(
        key=CellKey(plan.setting.name, task.dataset, method, metric, task.seed),
        config=plan.config(method),
        data=task.key,
        errors=tested.errors[metric],
        params=choice.params,
        validation=choice.error,
        candidates=choice.candidates,
        failed=choice.failed,
        on_edge=choice.on_edge,
        seconds={"search": search, "fit": tested.fit, "test": tested.test},
        not_converged=tested.not_converged,
        version=kdey.__version__,
        source=task.source,
    )


def _store_bags(plan: Run, task: Task, store: ResultsFile) -> None:
    if (plan.setting.name, task.dataset, task.seed) in store.results.bags:
        return
    sizes = task.sizes
    same = bool((sizes == sizes[0]).all())
    store.append(
        BagsRecord(
            plan.setting.name,
            task.dataset,
            task.seed,
            task.shift,
            len(np.unique(task.development.y)),
            len(task.development.y),
            round(float(sizes.mean())),
            task.source,
            task.notes,
            () if same else tuple(sizes.tolist()),
        )
    )


def _check_configs(plan: Run, store: ResultsFile) -> None:
    for key in plan.all_cells():
        stored = store.results.cells.get(key)
        if stored is not None and stored.config != plan.config(key.method):
            raise ValueError(
                f"{store.path} holds a cell ({key}) made with another grid or protocol; name "
                "another file with --results"
            )


def _check_data(plan: Run, task: Task, store: ResultsFile) -> None:
    for key, cell in store.results.cells.items():
        origin = (key.experiment, key.dataset, key.seed)
        if origin == (plan.setting.name, task.dataset, task.seed) and cell.data != task.key:
            raise ValueError(
                f"{store.path} holds a cell ({key}) made from other data of that name; name "
                "another file with --results"
            )


def _cost(plan: Run, key: CellKey) -> float:
    """Return the expected cost of a cell, in units that are the same for all of a run."""
    size = next(source.size for source in plan.sources if source.name == key.dataset)
    method = plan.setting.method(key.method)
    grid = method.param_grid(plan.setting.classifiers, method.grid)
    candidates = float(np.prod([len(values) for values in grid.values()]))
    # KDEy-HD solves at thousands of points where the others have as many rows as a bag; and
    # however small a set is, its bags must be solved.
    return (size + _LEAST) * candidates * (10.0 if key.method == "KDEy-HD" else 1.0)


@dataclass(eq=False)
class Pace:
    """How far a run is and how long it will take: cells weighted by their expected cost.

    Attributes
    ----------
    left : dict from the keys of open cells to their costs
    total : int
        Number of cells in all.
    skipped : int
        Cells that were not run: already in the file, or failed.
    """

    left: dict[Any, float]
    total: int
    skipped: int = 0
    _spent: float = 0.0
    _start: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, costs: Mapping[Any, float]) -> Self:
        """Return the pace of a run with these costs by cell."""
        return cls(dict(costs), len(costs))

    def skip(self, key: Any) -> None:
        """Remove a cell that is not run."""
        if self.left.pop(key, None) is not None:
            self.skipped += 1

    def completed(self, key: Any, mean: float) -> str:
        """Count a cell as finished; return a line of progress."""
        self._spent += self.left.pop(key)
        elapsed = time.monotonic() - self._start
        seconds = elapsed / self._spent * sum(self.left.values())
        n_done = self.total - len(self.left)
        return f"[{n_done}/{self.total}] {key}: {mean:.5f} ({duration(elapsed)}, {_left(seconds)})"


def duration(seconds: float) -> str:
    """Return seconds in words: "42 s", "3 min 05 s", "2 h 10 min"."""
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60:02d} s"
    return f"{rounded // 3600} h {rounded % 3600 // 60:02d} min"


def _left(seconds: float) -> str:
    return "done" if seconds == 0 else f"about {duration(seconds)} left"
