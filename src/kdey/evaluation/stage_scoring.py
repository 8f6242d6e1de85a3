"""The candidates of a search and how they are scored, with every stage computed once and cached.

The stages are: classifier stage (classifier, cv, seed) -> rows (all bandwidths in one pass) ->
solutions -> errors. A candidate whose quantifier declares no stages is fitted and solved as a
whole. Settings are checked when candidates are created, before any expensive work. Data and
candidates have fingerprints, which are the keys of the cache and of the log.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kdey._display import muted
from kdey._fingerprints import fingerprint
from kdey.bags import Array
from kdey.classifiers import make_splits
from kdey.evaluation.protocols import BagProtocol, LabelledBags
from kdey.gpu import family_rows_on, match_together
from kdey.matching import AnyMatching, Solution
from kdey.metrics import Metric
from kdey.native import thread_count
from kdey.posteriors import ClassifierStage, FittedStage, predict_posteriors
from kdey.quantifiers.base import Stages
from kdey.quantifiers.composed import QuantifierLike, as_quantifier, pool_solver
from kdey.rows import RowMap, Rows, RowSpec
from kdey.rows.kernel import BandwidthWarning, families, family_rows, fit_family
from kdey.tuning.trials import quick, takes_quick_rows
from kdey.validation import (
    as_tensor,
    check_count,
    choose_device,
    device_name,
    for_numpy,
    import_torch,
    is_tensor,
    on_host,
    take_rows,
    training_labels,
)

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Training:
    """The data on which candidates are fitted.

    Attributes
    ----------
    X : training instances
    codes : int64 array of shape (n,)
        Class codes of the instances.
    classes : array of shape (k,)
    weights : array of shape (n,) or None
    clusters : int64 array of shape (n,) or None
    """

    X: Any
    codes: NDArray[np.int64]
    classes: NDArray[Any]
    weights: Array | None
    clusters: NDArray[np.int64] | None = None

    @cached_property
    def key(self) -> str:
        """Fingerprint of all of these."""
        return fingerprint(self.X, self.codes, self.classes, self.weights, self.clusters)

    @property
    def drawn(self) -> dict[str, Any]:
        """The weights and clusters that there are, as keywords of ``fit``."""
        known = {"sample_weight": self.weights, "clusters": self.clusters}
        return {name: values for name, values in known.items() if values is not None}


@dataclass(frozen=True)
class Score:
    """The score of one candidate; the log stores it under these names.

    Attributes
    ----------
    means, stds : mapping from the name of a metric to a float
        Mean error over the bags, and its standard deviation.
    not_converged : int
        Number of bags whose solution did not reach the solver's tolerance.
    fit_time, score_time : float
        Seconds. The fit of a classifier stage counts for each of its candidates.
    error : str
        The reason why there is no score; empty if there is one.
    """

    means: Mapping[str, float]
    stds: Mapping[str, float]
    not_converged: int = 0
    fit_time: float = 0.0
    score_time: float = 0.0
    error: str = ""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One setting of the quantifier.

    Attributes
    ----------
    number : int
        Position in the search, from 0.
    params : mapping from parameter names to values
    quantifier : quantifier
        Unfitted clone with these parameters.
    key : str
        Fingerprint of the parameters.
    """

    number: int
    params: Mapping[str, Any]
    quantifier: QuantifierLike
    key: str

    @cached_property
    def stages(self) -> Stages | None:
        """The stages of the quantifier; None if it must be fitted whole.

        Raises ValueError for bad parameters.
        """
        quantifier = as_quantifier(self.quantifier)
        stages = quantifier._stages()
        return None if quantifier._chooses_matching else stages

    @cached_property
    def rows_key(self) -> str:
        """Fingerprint of the row spec."""
        return fingerprint(self.staged[1])

    @property
    def staged(self) -> Stages:
        """The stages of a candidate that has some."""
        assert self.stages is not None
        return self.stages

    @property
    def matching(self) -> AnyMatching:
        """The matching of a candidate that has stages."""
        return self.staged[2]

    @property
    def device(self) -> str:
        """Where its rows are computed."""
        return device_name(as_quantifier(self.quantifier).device)


def make_candidates(
    quantifier: QuantifierLike, settings: Iterable[Mapping[str, Any]]
) -> list[Candidate]:
    """Return one candidate for each setting.

    Parameters
    ----------
    quantifier : quantifier
        Cloned for each candidate.
    settings : iterable of mappings from parameter names to values

    Returns
    -------
    list of Candidate

    Raises
    ------
    ValueError
        If the quantifier has no parameter of a name.
    """
    all_params = [dict(setting) for setting in settings]
    check_names(quantifier, {name: None for params in all_params for name in params})
    return [
        Candidate(number, params, _with_params(quantifier, params), fingerprint(params))
        for number, params in enumerate(all_params)
    ]


def check_names(quantifier: QuantifierLike, names: Iterable[str]) -> None:
    """Raise ValueError for a parameter that the quantifier does not have."""
    known = quantifier.get_params(deep=True)
    inner = known.get("classifier")
    for name in names:
        head, _, rest = name.partition("__")
        unset = head == "classifier" and rest and "classifier" in known and inner is None
        if name in known or (unset and rest in _default_classifier(quantifier).get_params()):
            continue
        raise ValueError(
            f"parameter {name!r} is unknown to {type(quantifier).__name__}; it has "
            f"{', '.join(sorted(known))}"
        )


def _default_classifier(quantifier: QuantifierLike) -> Any:
    return as_quantifier(quantifier)._inner_estimator()


def _with_params(quantifier: QuantifierLike, params: Mapping[str, Any]) -> Any:
    """Return a clone with the parameters set, with an explicit default classifier if needed."""
    copy = clone(quantifier)
    nested = any(name.startswith("classifier__") for name in params)
    if nested and "classifier" not in params and copy.get_params()["classifier"] is None:
        copy.set_params(classifier=_default_classifier(copy))
    # Values that are estimators are cloned, because candidates must not share fitted objects.
    return copy.set_params(**{name: clone(v, safe=False) for name, v in params.items()})


def split_off(
    training: Training, fraction: float, protocol: BagProtocol, random_state: Any
) -> tuple[Training, Any, LabelledBags]:
    """Return training and validation data, with a fraction of each class in the latter.

    Parameters
    ----------
    training : Training
        The data to split.
    fraction : float in (0, 1)
    protocol : protocol
        Draws the validation bags.
    random_state : int
        Seed of the split.

    Returns
    -------
    training : Training
    X_val : instances of the validation pool
    labelled : LabelledBags
        Bags over this pool with their true prevalences.

    Raises
    ------
    ValueError
        If the fraction is not allowed, or a class has a single instance.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, float) or not 0 < fraction < 1:
        raise ValueError(f"validation must be a fraction in (0, 1), got {fraction!r}")
    codes, classes, weights = training.codes, training.classes, training.weights
    if int(np.bincount(codes).min()) < 2:
        rare = classes[int(np.bincount(codes).argmin())]
        raise ValueError(
            f"class {rare!r} has one instance, too few to split off validation data; "
            "pass X_val and y_val"
        )
    X = training.X
    clusters = training.clusters
    (train, test), *_ = make_splits(
        *(fraction, X, codes, classes), random_state=random_state, clusters=clusters
    )
    labelled = protocol.bags(classes[codes[test]], classes)
    train_weights = None if weights is None else weights[train]
    train_clusters = None if clusters is None else clusters[train]
    rest = Training(take_rows(X, train), codes[train], classes, train_weights, train_clusters)
    return rest, take_rows(X, test), labelled


def joined(training: Training, X_val: Any, y_val: ArrayLike | None) -> Training:
    """Return training and validation data together; without labels, only the training data.

    Validation instances get weight one if the training data have weights, and are clusters of their
    own if the training data have some.
    """
    if y_val is None:
        return training
    y = np.asarray(for_numpy(y_val, "y_val"))
    labels = np.concatenate([training.classes[training.codes], y])
    codes, classes = training_labels(labels, training.classes)
    weights: Array | None = None
    if training.weights is not None:
        weights = np.concatenate([training.weights, np.ones(len(y))])
    clusters = training.clusters
    if clusters is not None:
        clusters = np.concatenate([clusters, int(clusters.max()) + 1 + np.arange(len(y))])
    return Training(_stack(training.X, X_val), codes, classes, weights, clusters)


def _stack(above: Any, below: Any) -> Any:
    """Return the instances of two pools, one below the other, in the type of the first."""
    if sp.issparse(above) or sp.issparse(below):
        return sp.vstack([above, below], format="csr")
    if hasattr(above, "columns"):
        import narwhals as nw

        frames = [nw.from_native(part, eager_only=True) for part in (above, below)]
        return nw.concat(frames, how="vertical").to_native()
    if isinstance(above, list):
        return [*above, *below]
    if is_tensor(above):
        return import_torch("X").cat([above, as_tensor(below, above.device)])
    stacked: NDArray[Any] = np.concatenate([np.asarray(above), np.asarray(below)])
    return stacked


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
class CandidateScoring:
    """Scores candidates on fixed data.

    Attributes
    ----------
    training : Training
    X_val : instances of the validation pool
    labelled : LabelledBags
        Bags over this pool with their true prevalences.
    metrics : tuple of Metric
    cache : StageCache
    n_jobs : int or None
    raising : bool
        Whether the exception of a candidate is raised; otherwise its score records the failure.
    """

    training: Training
    X_val: Any
    labelled: LabelledBags
    metrics: tuple[Metric, ...]
    cache: StageCache
    n_jobs: int | None
    raising: bool

    @cached_property
    def pool_key(self) -> str:
        """Fingerprint of the validation pool."""
        return fingerprint(self.X_val)

    @cached_property
    def bags_key(self) -> str:
        """Fingerprint of the validation bags."""
        bags = self.labelled.bags
        return fingerprint(bags.indices, bags.offsets, bags.weights, self.labelled.prevalences)

    def run(self, candidates: list[Candidate], done: set[str], record: ScoreCallback) -> None:
        """Score the candidates whose keys are not in ``done``, and call ``record`` on each.

        A pass over several bandwidths always includes all of its candidates, even if only some
        still need a score, so that a resumed search gives exactly the same numbers.
        """
        plain: list[Candidate] = []
        by_stage: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            try:
                as_quantifier(candidate.quantifier)._check_n_classes(len(self.training.classes))
                stages = candidate.stages
            except Exception as error:
                if candidate.key not in done:
                    self._record_failure([candidate], error, record)
                continue
            if stages is None:
                plain.append(candidate)
            else:
                by_stage.setdefault(fingerprint(stages[0]), []).append(candidate)
        for group in by_stage.values():
            if any(candidate.key not in done for candidate in group):
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
                training.clusters,
            ),
        ), key

    def _run_stage(self, group: list[Candidate], done: set[str], record: ScoreCallback) -> None:
        """Score the candidates that share a classifier stage."""
        start = time.perf_counter()
        remaining = [candidate for candidate in group if candidate.key not in done]
        try:
            fitted, key = self.fitted(group[0].staged[0], self.training)
            pool_key = fingerprint(key, self.pool_key)
            points = self.cache.posteriors(
                pool_key,
                lambda: predict_posteriors(
                    fitted.classifier, self.X_val, self.training.classes, keep_on_gpu=True
                ),
            )
        except Exception as error:
            self._record_failure(remaining, error, record)
            return
        seconds = time.perf_counter() - start
        for members in self._families(group, len(points)):
            if any(candidate.key not in done for candidate in members):
                self._run_family(members, fitted, points, pool_key, seconds, done, record)

    def _families(self, group: list[Candidate], pool_size: int) -> Iterator[list[Candidate]]:
        """Yield the candidates of a stage whose rows are computed together, on one device."""
        k = len(self.training.classes)
        for device in dict.fromkeys(candidate.device for candidate in group):
            on_device = [candidate for candidate in group if candidate.device == device]
            specs = _row_specs(on_device)
            for family in families(list(specs.values()), pool_size, k):
                keys = [list(specs)[i] for i in family]
                yield [candidate for candidate in on_device if candidate.rows_key in keys]

    def _run_family(
        self,
        members: list[Candidate],
        fitted: FittedStage,
        points: Any,
        pool_key: str,
        fit_time: float,
        done: set[str],
        record: ScoreCallback,
    ) -> None:
        """Score the candidates whose rows are computed together."""
        specs = list(_row_specs(members))
        is_quick = all(takes_quick_rows(candidate.matching) for candidate in members)
        base = fingerprint(pool_key, self.bags_key, specs, is_quick)
        if members[0].device != "cpu":
            base = fingerprint(base, members[0].device)
        solve = self._solver(members, fitted, points, is_quick)
        for candidate in sorted(members, key=lambda member: specs.index(member.rows_key)):
            if candidate.key in done:
                continue
            key = fingerprint(base, candidate.rows_key, candidate.matching)
            start = time.perf_counter()
            try:
                solution = self.cache.solution(key) or solve(candidate)
            except Exception as error:
                self._record_failure([candidate], error, record)
                continue
            self.cache.keep(key, solution)
            seconds = time.perf_counter() - start
            record(candidate, self._score(solution, fit_time, seconds))

    def _solver(
        self, members: list[Candidate], fitted: FittedStage, points: Any, is_quick: bool
    ) -> Callable[[Candidate], Solution]:
        """Return the solver of a family's candidates, which computes rows when first needed.

        On a device all candidates with the same matching are solved in one batch, because a device
        takes hardly longer for many bags than for few.
        """
        n_threads = thread_count(self.n_jobs)
        specs, k = _row_specs(members), len(self.training.classes)
        n_pairs = float(len(fitted.training.labels)) * len(points) * len(specs)
        asked, bags = members[0].device, self.labelled.bags

        @cache
        def family() -> tuple[dict[str, RowMap], dict[str, Rows]]:
            maps = fit_family(list(specs.values()), fitted.training, k, n_threads)
            rows = family_rows(maps, on_host(points), n_threads)
            return dict(zip(specs, maps, strict=True)), dict(zip(specs, rows, strict=True))

        @cache
        def on_device(matching_key: str, device: Any) -> dict[str, Solution]:
            same = [m for m in members if fingerprint(m.matching) == matching_key]
            some, matching = _row_specs(same), same[0].matching
            maps = fit_family(list(some.values()), fitted.training, k, n_threads)
            rows = family_rows_on(maps, matching, points, device, n_threads)
            each = [(*pair, bags) for pair in zip(maps, rows, strict=True)]
            return dict(zip(some, match_together(matching, each, n_threads), strict=True))

        def solve(candidate: Candidate) -> Solution:
            key, matching = candidate.rows_key, candidate.matching
            with _mute_known_warnings():
                device = choose_device(asked, n_pairs, points)
                if device is not None:
                    return on_device(fingerprint(matching), device)[key]
                maps, rows = family()
                used = quick(rows[key]) if is_quick else rows[key]
                return matching.match(maps[key], used, bags, n_threads)

        return solve

    def _run_plain(self, candidate: Candidate, record: ScoreCallback) -> None:
        """Fit and score a candidate without stages."""
        start = time.perf_counter()
        training = self.training
        try:
            with _mute_known_warnings():
                quantifier = as_quantifier(candidate.quantifier, training.classes)
                quantifier.fit(training.X, training.classes[training.codes], **training.drawn)
                fit_time = time.perf_counter() - start
                start = time.perf_counter()
                solve = pool_solver(quantifier, self.X_val, self.n_jobs)
                solution = solve(self.labelled.bags)
        except Exception as error:
            self._record_failure([candidate], error, record)
            return
        record(candidate, self._score(solution, fit_time, time.perf_counter() - start))

    def _score(self, solution: Solution, fit_time: float, score_time: float) -> Score:
        labelled = self.labelled
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


def _row_specs(candidates: Sequence[Candidate]) -> dict[str, RowSpec]:
    """Return the distinct row specs of candidates by their keys."""
    return {candidate.rows_key: candidate.staged[1] for candidate in candidates}


def _mute_known_warnings() -> AbstractContextManager[None]:
    """Mute warnings about what the results report: odd bandwidths, bags without convergence."""
    return muted(BandwidthWarning, ConvergenceWarning)
