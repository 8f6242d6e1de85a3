"""Scores of candidates: a nested loop over stages, each computed once and kept in a cache.

classifier stage (classifier, cv, seed) -> rows (all bandwidths in one pass) -> solutions -> errors.
A candidate whose quantifier declares no stages is fitted and solved as a whole.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from sklearn.exceptions import ConvergenceWarning

from kdey._support.device import choose_device, on_host
from kdey._support.fingerprint import fingerprint
from kdey._support.threads import thread_count
from kdey._support.validation import check_count
from kdey._support.warnings import muted
from kdey.gpu import match_rows, rows_of_family_on
from kdey.matching import AnyMatching
from kdey.metrics import Metric
from kdey.model_selection.candidates import Candidate, Score, Training, Validation
from kdey.posteriors import ClassifierStage, FittedStage, predict_posteriors
from kdey.quantifiers.base import MethodStages, PoolWork
from kdey.quantifiers.foreign import as_quantifier
from kdey.rows.interface import RowMap, Rows, RowSpec, families, rows_of_family
from kdey.rows.references import BandwidthWarning
from kdey.solvers.solution import Solution

T = TypeVar("T")


class StageCache:
    """What searches over the same data have computed already.

    Hand one to several searches (``GridSearchQ(..., cache=cache)``): each distinct classifier
    configuration is then fitted once for all of them, and a candidate that only another metric
    looks at is not solved again. What was used longest ago is dropped first. Copies of a search
    (``clone``) go on using the same cache.

    Parameters
    ----------
    max_stages : int
        Fitted classifiers to hold, with their training posteriors; and pools' posteriors.
    max_solutions : int
        Candidates whose estimated prevalences to hold.
    """

    def __init__(self, max_stages: int = 64, max_solutions: int = 10_000) -> None:
        self._stages: _Recent[FittedStage] = _Recent(max_stages, "max_stages")
        self._posteriors: _Recent[Any] = _Recent(max_stages, "max_stages")
        self._solutions: _Recent[Solution] = _Recent(max_solutions, "max_solutions")

    def stage(self, key: str, make: Callable[[], FittedStage]) -> FittedStage:
        """Return the fitted stage known by ``key``, made where it is not."""
        return self._stages.fetch(key, make)

    def posteriors(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the posteriors of a pool known by ``key``, made where they are not."""
        return self._posteriors.fetch(key, make)

    def solution(self, key: str) -> Solution | None:
        """Return the solution known by ``key``, or None."""
        found: Solution | None = self._solutions.get(key)
        return found

    def keep(self, key: str, solution: Solution) -> None:
        """Hold a solution under ``key``."""
        self._solutions.put(key, solution)

    def clear(self) -> None:
        """Drop everything."""
        for part in (self._stages, self._posteriors, self._solutions):
            part.clear()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the cache itself: sharing is its purpose."""
        return self

    def __repr__(self) -> str:
        return f"StageCache({len(self._stages)} stages, {len(self._solutions)} solutions)"


class _Recent(OrderedDict[str, T]):
    """A mapping that keeps the ``limit`` entries used last."""

    def __init__(self, limit: int, name: str = "limit") -> None:
        check_count(limit, name)
        super().__init__()
        self._limit = limit

    def __reduce__(self) -> Any:
        return (_Recent, (self._limit,))  # contents stay where they are

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self:
            return default
        self.move_to_end(key)
        return self[key]

    def put(self, key: str, value: T) -> None:
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._limit:
            self.popitem(last=False)

    def fetch(self, key: str, make: Callable[[], T]) -> T:
        if key not in self:
            self.put(key, make())
        self.move_to_end(key)
        return self[key]


Finish = Callable[[Candidate, Score], None]


@dataclass(frozen=True, eq=False)
class Scoring:
    """Scores candidates on fixed data, with the stages in ``cache``."""

    training: Training
    validation: Validation
    metrics: tuple[Metric, ...]
    cache: StageCache
    n_jobs: int | None
    raising: bool

    def run(self, candidates: list[Candidate], finished: set[str], finish: Finish) -> None:
        """Score the candidates whose keys are not in ``finished``, calling ``finish`` on each.

        A pass over several bandwidths is made for all of its candidates if any of them is left,
        so that a search taken up again gives the same bits.
        """
        plain: list[Candidate] = []
        staged: dict[str, list[_Planned]] = {}
        for one in candidates:
            try:
                planned = _plan(one, len(self.training.classes))
            except Exception as error:
                if one.key not in finished:
                    self._failed([one], error, finish)
                continue
            if planned is None:
                plain.append(one)
            else:
                staged.setdefault(planned.stage_key, []).append(planned)
        for group in staged.values():
            if any(planned.candidate.key not in finished for planned in group):
                self._run_stage(group, finished, finish)
        for one in plain:
            if one.key not in finished:
                self._run_plain(one, finish)

    def fitted(self, stage: ClassifierStage, training: Training) -> tuple[FittedStage, str]:
        """Return a classifier stage fitted on ``training``, if not in the cache, and its key."""
        key = fingerprint(stage, training.key)
        return self.cache.stage(
            key,
            lambda: stage.fit(
                training.X, training.codes, training.classes, training.weights, self.n_jobs
            ),
        ), key

    def _run_stage(self, group: list[_Planned], finished: set[str], finish: Finish) -> None:
        start = time.perf_counter()
        left = [planned.candidate for planned in group if planned.candidate.key not in finished]
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
            self._failed(left, error, finish)
            return
        seconds = time.perf_counter() - start
        for members in self._families(group, len(points)):
            if any(planned.candidate.key not in finished for planned in members):
                self._run_family(members, fitted, points, pool_key, seconds, finished, finish)

    def _families(self, group: list[_Planned], pool_size: int) -> Iterator[list[_Planned]]:
        """Yield the candidates of one stage whose rows are made together, on one device."""
        k = len(self.training.classes)
        for device in dict.fromkeys(planned.stages.device for planned in group):
            here = [planned for planned in group if planned.stages.device == device]
            specs = {planned.spec_key: planned.stages.rows for planned in here}
            for family in families(list(specs.values()), pool_size, k):
                keys = [list(specs)[i] for i in family]
                yield [planned for planned in here if planned.spec_key in keys]

    def _run_family(
        self,
        members: list[_Planned],
        fitted: FittedStage,
        points: Any,
        pool_key: str,
        fit_time: float,
        finished: set[str],
        finish: Finish,
    ) -> None:
        specs: dict[str, RowSpec] = {planned.spec_key: planned.stages.rows for planned in members}
        quick = all(planned.stages.matching.takes_quick_rows for planned in members)
        base = fingerprint(pool_key, self.validation.bags_key, list(specs), quick)
        if members[0].stages.device != "cpu":
            base = fingerprint(base, members[0].stages.device)
        solve = self._rows(members, fitted, points, quick)
        for spec_key in specs:
            for planned in (p for p in members if p.spec_key == spec_key):
                if planned.candidate.key in finished:
                    continue
                key = fingerprint(base, spec_key, planned.stages.matching)
                start = time.perf_counter()
                try:
                    solution = self.cache.solution(key) or solve(spec_key, planned.stages.matching)
                except Exception as error:
                    self._failed([planned.candidate], error, finish)
                    continue
                self.cache.keep(key, solution)
                spent = time.perf_counter() - start
                finish(planned.candidate, self._score(solution, fit_time, spent))

    def _rows(
        self, members: list[_Planned], fitted: FittedStage, points: Any, quick: bool
    ) -> Callable[[str, AnyMatching], Solution]:
        """Return the solver of a spec's candidates; rows are made when first asked for."""
        n_threads = thread_count(self.n_jobs)
        specs = {planned.spec_key: planned.stages.rows for planned in members}
        wanted, k = list(specs.values()), len(self.training.classes)
        n_pairs = float(len(fitted.training.labels)) * len(points) * len(wanted)

        def make() -> Iterator[tuple[RowMap, Rows]]:
            device = choose_device(members[0].stages.device, n_pairs, points)
            if device is not None:
                inputs = (fitted.training, points, k, device, n_threads)
                return rows_of_family_on(wanted, members[0].stages.matching, *inputs)
            host = on_host(points)
            return rows_of_family(wanted, fitted.training, host, k, n_threads, quick=quick)

        stream = _Stream(specs, make)

        def solve(spec_key: str, matching: AnyMatching) -> Solution:
            with _quiet():
                row_map, rows = stream.at(spec_key)
                bags = self.validation.labelled.bags
                return match_rows(matching, row_map, rows, bags, n_threads)

        return solve

    def _run_plain(self, one: Candidate, finish: Finish) -> None:
        start = time.perf_counter()
        training = self.training
        extra = {} if training.weights is None else {"sample_weight": training.weights}
        try:
            with _quiet():
                one.quantifier.fit(training.X, training.classes[training.codes], **extra)
                fit_time = time.perf_counter() - start
                start = time.perf_counter()
                pool = PoolWork(self.validation.X, self.n_jobs)
                solve = as_quantifier(one.quantifier).on_pool(pool)
                solution = solve(self.validation.labelled.bags)
        except Exception as error:
            self._failed([one], error, finish)
            return
        finish(one, self._score(solution, fit_time, time.perf_counter() - start))

    def _score(self, solution: Solution, fit_time: float, score_time: float) -> Score:
        labelled = self.validation.labelled
        errors = {
            metric.name: metric(labelled.prevalences, solution.prevalence, bag_size=labelled.sizes)
            for metric in self.metrics
        }
        means = {name: float(values.mean()) for name, values in errors.items()}
        stds = {name: float(values.std()) for name, values in errors.items()}
        stalled = int((~solution.converged).sum())
        return Score(means, stds, stalled, fit_time, score_time)

    def _failed(self, left: list[Candidate], error: Exception, finish: Finish) -> None:
        """Raise, or note the failure as the score of the candidates that are ``left``.

        Classifiers and quantifiers are anybody's and may raise anything, which is why all work on
        a candidate catches every exception and ends here.
        """
        if self.raising:
            raise error
        unknown = {metric.name: float("nan") for metric in self.metrics}
        for one in left:
            finish(one, Score(unknown, unknown, error=f"{type(error).__name__}: {error}"))


class _Stream:
    """The rows of a family in the order of its specs, made on demand and held one at a time."""

    def __init__(
        self, specs: Mapping[str, RowSpec], make: Callable[[], Iterator[tuple[RowMap, Rows]]]
    ) -> None:
        self._order, self._make = list(specs), make
        self._source: Iterator[tuple[RowMap, Rows]] | None = None
        self._next = 0
        self._current: tuple[RowMap, Rows] | None = None
        self._broken: Exception | None = None

    def at(self, key: str) -> tuple[RowMap, Rows]:
        """Return row map and rows of one spec; what failed once fails for the later ones too."""
        if self._broken is not None:
            raise self._broken
        try:
            self._source = self._source or self._make()
            while self._next <= self._order.index(key):
                self._current = next(self._source)
                self._next += 1
        except Exception as error:
            self._broken = error
            raise
        assert self._current is not None, "rows are asked for in the order of the specs"
        return self._current


@dataclass(frozen=True, eq=False)
class _Planned:
    """A candidate with its stages."""

    candidate: Candidate
    stages: MethodStages
    stage_key: str
    spec_key: str


def _plan(one: Candidate, n_classes: int) -> _Planned | None:
    """Return the candidate's stages; None where it has none. Bad parameters raise here."""
    quantifier = as_quantifier(one.quantifier)
    quantifier.check_n_classes(n_classes)
    stages = quantifier.stages()
    if stages is None:
        return None
    return _Planned(one, stages, fingerprint(stages.classifier), fingerprint(stages.rows))


def _quiet() -> AbstractContextManager[None]:
    """Silence what the results tell: odd bandwidths, and bags short of a certificate."""
    return muted(BandwidthWarning, ConvergenceWarning)
