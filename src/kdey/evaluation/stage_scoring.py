"""Scoring of candidates: a nested loop over stages, each of which is computed once and cached.

The stages are: classifier stage (classifier, cv, seed) -> rows (all bandwidths in one pass) ->
solutions -> errors. A candidate whose quantifier declares no stages is fitted and solved as a
whole.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from sklearn.exceptions import ConvergenceWarning

from kdey._caching import fingerprint
from kdey._display import muted
from kdey._parallel import choose_device, thread_count
from kdey.arrays import on_host
from kdey.bags import Bags
from kdey.evaluation.candidates import Candidate, Score, Training, Validation
from kdey.gpu.route import match_together, rows_of_family_on
from kdey.matching.base import AnyMatching, Solution
from kdey.metrics import Metric
from kdey.model import Pool
from kdey.posteriors import ClassifierStage, FittedStage, predict_posteriors
from kdey.quantifiers.base import MethodStages
from kdey.quantifiers.composed import as_quantifier, pool_solver
from kdey.rows.base import RowMap, Rows, RowSpec, families, rows_of_family
from kdey.rows.kernel import BandwidthWarning
from kdey.validation import check_count

T = TypeVar("T")
#: Called with every candidate and its score as soon as the score is known.
ScoreCallback = Callable[[Candidate, Score], None]


class StageCache:
    """A cache of stages for several searches over the same data.

    Pass the same cache to several searches (``GridSearchQ(..., cache=cache)``). Each distinct
    classifier configuration is then fitted once for all of them, and a candidate that is judged by
    another metric is not solved again. The cache drops the entries that were used longest ago.
    Copies of a search (``clone``) share its cache.

    Parameters
    ----------
    max_stages : int
        Largest number of fitted classifiers, with their training posteriors, and of posteriors of
        pools.
    max_solutions : int
        Largest number of candidates whose estimated prevalences are kept.

    See Also
    --------
    kdey.GridSearchQ : Search over a grid.
    kdey.evaluation.RandomSearchQ : Search over random settings.

    Examples
    --------
    >>> import kdey
    >>> cache = kdey.evaluation.StageCache(max_stages=8)
    >>> search = kdey.GridSearchQ(kdey.KDEyML(), {"bandwidth": [0.1, 0.2]}, cache=cache)
    """

    def __init__(self, max_stages: int = 64, max_solutions: int = 10_000) -> None:
        self._stages: _Recent[FittedStage] = _Recent(max_stages, "max_stages")
        self._posteriors: _Recent[Any] = _Recent(max_stages, "max_stages")
        self._solutions: _Recent[Solution] = _Recent(max_solutions, "max_solutions")

    def stage(self, key: str, make: Callable[[], FittedStage]) -> FittedStage:
        """Return the fitted stage stored under ``key``, after calling ``make`` if there is none."""
        return self._stages.fetch(key, make)

    def posteriors(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the posteriors stored under ``key``, after calling ``make`` if there are none."""
        return self._posteriors.fetch(key, make)

    def solution(self, key: str) -> Solution | None:
        """Return the solution stored under ``key``, or None."""
        solution: Solution | None = self._solutions.get(key)
        return solution

    def keep(self, key: str, solution: Solution) -> None:
        """Store a solution under ``key``."""
        self._solutions.store(key, solution)

    def clear(self) -> None:
        """Drop everything."""
        for part in (self._stages, self._posteriors, self._solutions):
            part.clear()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the cache itself, because its purpose is to be shared."""
        return self

    def __repr__(self) -> str:
        return f"StageCache({len(self._stages)} stages, {len(self._solutions)} solutions)"


class _Recent(OrderedDict[str, T]):
    """A mapping that keeps the ``limit`` entries that were used most recently."""

    def __init__(self, limit: int, name: str = "limit") -> None:
        check_count(limit, name)
        super().__init__()
        self._limit = limit

    def __reduce__(self) -> Any:
        return (_Recent, (self._limit,))  # the contents are not pickled

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self:
            return default
        self.move_to_end(key)
        return self[key]

    def store(self, key: str, value: T) -> None:
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._limit:
            self.popitem(last=False)

    def fetch(self, key: str, make: Callable[[], T]) -> T:
        if key not in self:
            self.store(key, make())
        self.move_to_end(key)
        return self[key]


@dataclass(frozen=True, eq=False)
class Scoring:
    """Scores candidates on fixed data.

    Attributes
    ----------
    training : Training
    validation : Validation
    metrics : tuple of Metric
    cache : StageCache
    n_jobs : int or None
    raising : bool
        Whether the exception of a candidate is raised; otherwise its score records the failure.
    """

    training: Training
    validation: Validation
    metrics: tuple[Metric, ...]
    cache: StageCache
    n_jobs: int | None
    raising: bool

    def run(self, candidates: list[Candidate], done: set[str], record: ScoreCallback) -> None:
        """Score the candidates whose keys are not in ``done``, and call ``record`` on each.

        A pass over several bandwidths always includes all of its candidates, even if only some
        still need a score, so that a resumed search gives exactly the same numbers.
        """
        plain: list[Candidate] = []
        by_stage: dict[str, list[_StagedCandidate]] = {}
        for candidate in candidates:
            try:
                staged = _stages_of(candidate, len(self.training.classes))
            except Exception as error:
                if candidate.key not in done:
                    self._record_failure([candidate], error, record)
                continue
            if staged is None:
                plain.append(candidate)
            else:
                by_stage.setdefault(staged.stage_key, []).append(staged)
        for group in by_stage.values():
            if any(staged.candidate.key not in done for staged in group):
                self._run_stage(group, done, record)
        for candidate in plain:
            if candidate.key not in done:
                self._run_plain(candidate, record)

    def fitted(
        self, stage: ClassifierStage, training: Training, keep_bytes: float = 0
    ) -> tuple[FittedStage, str]:
        """Return a classifier stage, from the cache or fitted on ``training``, and its key.

        A stage that is fitted keeps the models of its folds up to ``keep_bytes``.
        """
        key = fingerprint(stage, training.key)
        return self.cache.stage(
            key,
            lambda: stage.fit(
                training.X,
                training.codes,
                training.classes,
                training.weights,
                self.n_jobs,
                keep_bytes,
            ),
        ), key

    def _run_stage(
        self, group: list[_StagedCandidate], done: set[str], record: ScoreCallback
    ) -> None:
        """Score the candidates that share a classifier stage."""
        start = time.perf_counter()
        remaining = [staged.candidate for staged in group if staged.candidate.key not in done]
        try:
            fitted, key = self.fitted(group[0].stages.classifier, self.training)
            pool_key = fingerprint(key, self.validation.pool_key)
            points = self.cache.posteriors(
                pool_key,
                lambda: predict_posteriors(
                    fitted.classifier, self.validation.X, self.training.classes, stay=True
                ),
            )
        except Exception as error:
            self._record_failure(remaining, error, record)
            return
        seconds = time.perf_counter() - start
        for members in self._families(group, len(points)):
            if any(staged.candidate.key not in done for staged in members):
                self._run_family(members, fitted, points, pool_key, seconds, done, record)

    def _families(
        self, group: list[_StagedCandidate], pool_size: int
    ) -> Iterator[list[_StagedCandidate]]:
        """Yield the candidates of a stage whose rows are computed together, on one device."""
        k = len(self.training.classes)
        for device in dict.fromkeys(staged.stages.device for staged in group):
            on_device = [staged for staged in group if staged.stages.device == device]
            specs = {staged.spec_key: staged.stages.rows for staged in on_device}
            for family in families(list(specs.values()), pool_size, k):
                keys = [list(specs)[i] for i in family]
                yield [staged for staged in on_device if staged.spec_key in keys]

    def _run_family(
        self,
        members: list[_StagedCandidate],
        fitted: FittedStage,
        points: Any,
        pool_key: str,
        fit_time: float,
        done: set[str],
        record: ScoreCallback,
    ) -> None:
        """Score the candidates whose rows are computed together."""
        specs: dict[str, RowSpec] = {staged.spec_key: staged.stages.rows for staged in members}
        quick = all(staged.stages.matching.takes_quick_rows for staged in members)
        base = fingerprint(pool_key, self.validation.bags_key, list(specs), quick)
        if members[0].stages.device != "cpu":
            base = fingerprint(base, members[0].stages.device)
        solve = self._solver(members, fitted, points, quick)
        for spec_key in specs:
            for staged in (p for p in members if p.spec_key == spec_key):
                if staged.candidate.key in done:
                    continue
                key = fingerprint(base, spec_key, staged.stages.matching)
                start = time.perf_counter()
                try:
                    solution = self.cache.solution(key) or solve(spec_key, staged.stages.matching)
                except Exception as error:
                    self._record_failure([staged.candidate], error, record)
                    continue
                self.cache.keep(key, solution)
                seconds = time.perf_counter() - start
                record(staged.candidate, self._score(solution, fit_time, seconds))

    def _solver(
        self, members: list[_StagedCandidate], fitted: FittedStage, points: Any, quick: bool
    ) -> Callable[[str, AnyMatching], Solution]:
        """Return the solver of a family's candidates, which computes rows when first needed."""
        n_threads = thread_count(self.n_jobs)
        specs = {staged.spec_key: staged.stages.rows for staged in members}
        row_specs, k = list(specs.values()), len(self.training.classes)
        n_pairs = float(len(fitted.training.labels)) * len(points) * len(row_specs)
        asked, bags = members[0].stages.device, self.validation.labelled.bags

        def compute_rows() -> Iterator[tuple[RowMap, Rows]]:
            host = on_host(points)
            return rows_of_family(row_specs, fitted.training, host, k, n_threads, quick=quick)

        def compute_on(
            some: list[RowSpec], matching: AnyMatching, device: Any
        ) -> Iterator[tuple[RowMap, Rows]]:
            inputs = (fitted.training, points, k, device, n_threads)
            return rows_of_family_on(some, matching, *inputs)

        stream = _RowStream(specs, compute_rows)
        on_device = _DeviceSolutions(members, compute_on, bags, n_threads)

        def solve(spec_key: str, matching: AnyMatching) -> Solution:
            with _mute_known_warnings():
                device = choose_device(asked, n_pairs, points)
                if device is not None:
                    return on_device.at(spec_key, matching, device)
                row_map, rows = stream.at(spec_key)
                return matching.match(row_map, rows, bags, n_threads)

        return solve

    def _run_plain(self, candidate: Candidate, record: ScoreCallback) -> None:
        """Fit and score a candidate without stages."""
        start = time.perf_counter()
        training = self.training
        extra = {} if training.weights is None else {"sample_weight": training.weights}
        try:
            with _mute_known_warnings():
                quantifier = as_quantifier(candidate.quantifier, training.classes)
                quantifier.fit(training.X, training.classes[training.codes], **extra)
                fit_time = time.perf_counter() - start
                start = time.perf_counter()
                solve = pool_solver(quantifier, Pool(self.validation.X), self.n_jobs)
                solution = solve(self.validation.labelled.bags)
        except Exception as error:
            self._record_failure([candidate], error, record)
            return
        record(candidate, self._score(solution, fit_time, time.perf_counter() - start))

    def _score(self, solution: Solution, fit_time: float, score_time: float) -> Score:
        labelled = self.validation.labelled
        errors = {
            metric.name: metric(labelled.prevalences, solution.prevalence, bag_size=labelled.sizes)
            for metric in self.metrics
        }
        means = {name: float(values.mean()) for name, values in errors.items()}
        stds = {name: float(values.std()) for name, values in errors.items()}
        not_converged = int((~solution.converged).sum())
        return Score(means, stds, not_converged, fit_time, score_time)

    def _record_failure(
        self, candidates: list[Candidate], error: Exception, record: ScoreCallback
    ) -> None:
        """Raise, or record the failure as the score of the candidates.

        Users may pass classifiers and quantifiers of their own, which may raise anything. All work
        on a candidate therefore catches every exception and passes it to this method.
        """
        if self.raising:
            raise error
        unknown = {metric.name: float("nan") for metric in self.metrics}
        for candidate in candidates:
            record(candidate, Score(unknown, unknown, error=f"{type(error).__name__}: {error}"))


class _RowStream:
    """The rows of a family in the order of its specs, computed on demand.

    Only the rows of one spec are in memory at a time.

    Parameters
    ----------
    specs : mapping from keys to row specs
    compute : callable
        Returns an iterator over the row maps and rows of the specs, in their order.
    """

    def __init__(
        self, specs: Mapping[str, RowSpec], compute: Callable[[], Iterator[tuple[RowMap, Rows]]]
    ) -> None:
        self._order, self._compute = list(specs), compute
        self._source: Iterator[tuple[RowMap, Rows]] | None = None
        self._next = 0
        self._current: tuple[RowMap, Rows] | None = None
        self._error: Exception | None = None

    def at(self, key: str) -> tuple[RowMap, Rows]:
        """Return row map and rows of a spec; after an error, raise it for all later specs."""
        if self._error is not None:
            raise self._error
        try:
            self._source = self._source or self._compute()
            while self._next <= self._order.index(key):
                self._current = next(self._source)
                self._next += 1
        except Exception as error:
            self._error = error
            raise
        assert self._current is not None, "rows must be requested in the order of the specs"
        return self._current


class _DeviceSolutions:
    """The solutions of a family on a device, computed on demand.

    All candidates with the same matching are solved in one batch, because a device takes hardly
    longer for many bags than for few. The rows of all of them are in memory at the same time.

    Parameters
    ----------
    members : sequence of _StagedCandidate
    compute : callable
        Takes row specs, a matching and a device, and returns an iterator over row maps and rows.
    bags : Bags
    n_threads : int
        Native threads on the host.
    """

    def __init__(
        self,
        members: Sequence[_StagedCandidate],
        compute: Callable[[list[RowSpec], AnyMatching, Any], Iterator[tuple[RowMap, Rows]]],
        bags: Bags,
        n_threads: int,
    ) -> None:
        self._members, self._compute = members, compute
        self._bags, self._n_threads = bags, n_threads
        self._solutions: dict[str, dict[str, Solution]] = {}
        self._errors: dict[str, Exception] = {}

    def at(self, spec_key: str, matching: AnyMatching, device: Any) -> Solution:
        """Return the solution of a candidate; an error is raised for all of its batch."""
        key = fingerprint(matching)
        if key in self._errors:
            raise self._errors[key]
        try:
            if key not in self._solutions:
                self._solutions[key] = self._solve(matching, key, device)
        except Exception as error:
            self._errors[key] = error
            raise
        return self._solutions[key][spec_key]

    def _solve(self, matching: AnyMatching, key: str, device: Any) -> dict[str, Solution]:
        """Return the solutions of all candidates with a matching, by the keys of their specs."""
        members = [m for m in self._members if fingerprint(m.stages.matching) == key]
        specs = {staged.spec_key: staged.stages.rows for staged in members}
        # A matching without a form for devices gets rows on the host.
        family = self._compute(list(specs.values()), matching, device)
        fitted = [(row_map, rows, self._bags) for row_map, rows in family]
        solutions = match_together(matching, fitted, self._n_threads)
        return dict(zip(specs, solutions, strict=True))


@dataclass(frozen=True, eq=False)
class _StagedCandidate:
    """A candidate with its stages and their fingerprints."""

    candidate: Candidate
    stages: MethodStages
    stage_key: str
    spec_key: str


def _stages_of(candidate: Candidate, n_classes: int) -> _StagedCandidate | None:
    """Return the candidate with its stages, or None if it has none; bad parameters raise."""
    quantifier = as_quantifier(candidate.quantifier)
    quantifier.check_n_classes(n_classes)
    stages = quantifier.stages()
    if stages is None:
        return None
    return _StagedCandidate(
        candidate, stages, fingerprint(stages.classifier), fingerprint(stages.rows)
    )


def _mute_known_warnings() -> AbstractContextManager[None]:
    """Mute warnings about what the results report: odd bandwidths, bags without convergence."""
    return muted(BandwidthWarning, ConvergenceWarning)
