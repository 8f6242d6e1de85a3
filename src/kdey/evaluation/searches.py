"""Searches over a grid and at random: quantifiers that choose their parameters on validation bags.

After the classes stand the functions that choose the best candidate and arrange scores as
scikit-learn's ``cv_results_`` or as a data frame; the log of a search stands at the end. A line of
the log is ``<checksum> <json>``; the first line contains the fingerprint of the search. Each line
is appended with a single write and synced before the search continues. When the log is opened
again, a line that a crash cut short is removed, and a damaged line is ignored with a warning, so
that its candidate is scored again.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import warnings
import zlib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, field, replace
from numbers import Real
from time import monotonic
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from kdey._display import progress
from kdey._fingerprints import fingerprint
from kdey._io import AppendedFile
from kdey.bags import Array
from kdey.evaluation.protocols import APP, BagProtocol, LabelledBags, check_protocol
from kdey.evaluation.stage_scoring import (
    Candidate,
    CandidateScoring,
    Score,
    StageCache,
    Training,
    check_names,
    joined,
    make_candidates,
    split_off,
)
from kdey.metrics import METRICS, Metric, get_metric
from kdey.model import AnyModel, ForeignModel, Place
from kdey.posteriors import training_clusters
from kdey.quantifiers import FOLD_MODELS_BYTES
from kdey.quantifiers.base import BaseQuantifier, shares_of
from kdey.quantifiers.composed import (
    QuantifierLike,
    as_quantifier,
    check_is_quantifier,
    read_training,
)
from kdey.tables.features import table_instances
from kdey.tables.schema import TableSchema
from kdey.validation import (
    check_count,
    check_positive,
    check_same_rows,
    check_weights,
    make_frame,
    refuse_masked,
)

#: Increases when scores change their meaning; logs of other numbers are refused.
_LOG_FORMAT = 1
#: Parameters that decide how the columns of a table are read.
_READERS = frozenset({"classifier", "quantifier", "schema", "table"})


#: The reason why a candidate has no score if the time of the search was over before its turn.
NOT_TRIED = "not tried: the time limit had passed"


class TimeOverError(Exception):
    """The time of a search is over; raised after a candidate was scored."""


class BaseSearch(BaseQuantifier):
    """Base class of the searches.

    Subclasses declare their own parameters, and inherit those of all searches.

    Parameters
    ----------
    quantifier : quantifier
        Cloned for every candidate.
    scoring : metric or sequence of metrics
        As in :func:`kdey.metrics.get_metric`. Scores are signed so that larger is better.
    protocol : protocol, optional
        Draws the validation bags; default ``APP(n_bags=250, bag_size=500)``.
    validation : float
        Fraction of each class that is split off for validation if ``fit`` gets no validation data.
    refit : bool or str
        Whether to fit the best candidate on training and validation data together. With several
        metrics, it can be the name of the metric that decides (True: the first).
    error_score : "raise" or number
        Score of a candidate that fails. The results contain the reason of the failure. The default
        is NaN, which is never chosen.
    random_state : int
        Seed of the split into training and validation data, and of random candidates.
    log : path, optional
        File to which the score of every candidate is written. The same search with the same log
        resumes where it was interrupted, for whatever reason, and ends with the same result if
        everything random has a seed. The log of another search is refused. With a ``scoring`` of
        your own, it resumes only if that has a version: ``Metric(name, f, title, version="1")``.
    cache : StageCache, optional
        Can be shared by several searches over the same data.
    n_jobs : int, optional
        Number of classifier fits that run at the same time, and of native threads.
    time_limit : float, optional
        Seconds after which no further candidate is tried: the best of those tried so far is taken,
        with a warning, and the others have the reason in the results. At least one candidate is
        tried, and the final fit is not counted. With a ``log``, the same search goes on from there.
    verbose : bool or "auto"
        Whether to show progress.

    Attributes
    ----------
    best_params_ : dict
        The parameters of the best candidate.
    best_score_ : float
        Its mean score over the validation bags.
    best_index_ : int
        Its position in ``cv_results_``.
    best_estimator_ : quantifier
        It, fitted again on all data if ``refit``.
    cv_results_ : dict of arrays
        As in scikit-learn; ``mean_test_*`` is the mean over the validation bags.
    scorer_ : Metric, or dict from names to Metric
        What scores are computed with.
    n_splits_ : int
        1, as there is one set of validation data.

    Notes
    -----
    Each distinct classifier configuration (classifier, ``cv``, ``random_state``) is fitted once,
    cross-validation included, and the distances behind all bandwidths are computed once per
    classifier. Densities of several bandwidths in one pass share the precision that the smallest
    bandwidth needs, so that a score can differ in about its sixth digit from the score of the same
    candidate alone.
    """

    quantifier: QuantifierLike = field(kw_only=False)
    scoring: Any = "ae"
    protocol: Any = None
    validation: float = 0.4
    refit: bool | str = True
    error_score: Any = np.nan
    random_state: Any = 0
    log: str | os.PathLike[str] | None = None
    cache: StageCache | None = None
    n_jobs: int | None = None
    time_limit: float | None = None
    verbose: bool | Literal["auto"] = "auto"

    def _settings(self) -> list[dict[str, Any]]:
        """Return the settings to score first."""
        raise NotImplementedError

    def _warn_of(self, best: int) -> None:
        """Warn of the best candidate where a better one may lie beyond those tried."""

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
    ) -> Self:
        """Score every candidate and fit the best.

        Parameters
        ----------
        X : training instances
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        clusters : array-like of shape (n,), optional
            Id of the cluster in which each training instance was drawn; validation data and folds
            leave clusters whole.
        X_val, y_val : validation instances and labels, optional
            By default they are split off from ``X`` and ``y``. ``y_val`` may be None for a protocol
            that needs no labels (``GivenBags``); the best candidate is then fitted on ``X`` and
            ``y`` only.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter is not allowed, or all candidates failed.

        Warns
        -----
        FitFailedWarning
            If some candidates failed.
        """
        check_is_quantifier(self.quantifier)
        check_same_rows(X, y)
        for name in ("model_", "best_estimator_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if self.time_limit is not None:
            check_positive(self.time_limit, "time_limit")
        deadline = math.inf if self.time_limit is None else monotonic() + self.time_limit
        metrics = self._metrics()
        settings = self._settings()
        first = make_candidates(self.quantifier, settings)
        reader, X, schema = _read_training(self.quantifier, settings, refuse_masked(X, "X"))
        if schema is not None:
            first = make_candidates(reader, settings)
        self._remember_features(X)
        codes, classes = self._labels(y)
        check_consistent_length(X, codes)
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        whole = Training(X, codes, classes, weights, training_clusters(clusters, len(codes)))
        training, X_val, labelled, everything = self._data(whole, X_val, y_val, schema)
        cache = StageCache(1) if self.cache is None else self.cache
        raising = isinstance(self.error_score, str)
        scoring = CandidateScoring(
            training, X_val, labelled, tuple(metrics), cache, self.n_jobs, raising
        )
        self._search(first, scoring, deadline)
        if self.refit:
            self._refit(reader, scoring, everything)
            model = as_quantifier(self.best_estimator_, classes)._fitted_model()
            if isinstance(model, ForeignModel):  # whose estimates need the prevalence
                model = replace(model, prevalence=shares_of(codes, None, len(classes)))
            if schema is not None and model.table_schema is None:
                model = model.with_scorer(schema=schema)
            self.model_ = model
        return self

    def _metrics(self) -> list[Metric]:
        """Return the metrics of ``scoring``, after checks of the parameters about them."""
        if self.protocol is not None:
            check_protocol(self.protocol)
        raises = isinstance(self.error_score, str) and self.error_score == "raise"
        if not raises and not isinstance(self.error_score, Real):
            raise ValueError(f"error_score must be 'raise' or a number, got {self.error_score!r}")
        several = isinstance(self.scoring, Sequence) and not isinstance(self.scoring, str)
        metrics = [get_metric(metric) for metric in (self.scoring if several else [self.scoring])]
        if not metrics or len({metric.name for metric in metrics}) < len(metrics):
            raise ValueError("scoring must name at least one metric, and each only once")
        self._deciding_metric = self._choose_deciding_metric(metrics)
        self.scorer_ = {m.name: m for m in metrics} if several else metrics[0]
        return metrics

    def _choose_deciding_metric(self, metrics: list[Metric]) -> Metric:
        """Return the metric by which the best candidate is chosen."""
        if isinstance(self.refit, bool):
            return metrics[0]
        names = [metric.name for metric in metrics]
        if isinstance(self.refit, str):
            deciding = get_metric(self.refit)
            if deciding.name in names:
                return deciding
        raise ValueError(f"refit must be a bool or one of {names}, got {self.refit!r}")

    def _data(
        self, whole: Training, X_val: Any, y_val: ArrayLike | None, schema: TableSchema | None
    ) -> tuple[Training, Any, LabelledBags, Training]:
        """Return training data, validation instances and bags, and all data together."""
        default = APP(n_bags=250, bag_size=500)
        protocol: BagProtocol = default if self.protocol is None else self.protocol
        if X_val is None:
            if y_val is not None:
                raise ValueError("y_val was passed without X_val: pass both, or neither")
            return *split_off(whole, self.validation, protocol, self.random_state), whole
        if schema is not None and schema.feature_names:
            X_val, _ = table_instances(schema, X_val)
        else:
            validate_data(self, refuse_masked(X_val, "X_val"), reset=False, skip_check_array=True)
        if y_val is not None:
            check_consistent_length(X_val, y_val)
        labelled = protocol.bags(y_val, whole.classes)  # type: ignore[arg-type]
        return whole, X_val, labelled, joined(whole, X_val, y_val)

    def _search(
        self, candidates: list[Candidate], scoring: CandidateScoring, deadline: float
    ) -> None:
        """Score candidates until all are or the time is over; store the results."""
        with self._open_log(candidates, scoring) as log:
            scores, is_over = self._run(candidates, scoring, log, deadline)
        best = best_number(scores, self._deciding_metric, self.error_score)
        self._store_results([dict(candidate.params) for candidate in candidates], scores, best)
        if not is_over:
            self._warn_of(best)

    def _run(
        self,
        candidates: list[Candidate],
        scoring: CandidateScoring,
        log: SearchLog | None,
        deadline: float,
    ) -> tuple[list[Score], bool]:
        """Return the scores of candidates, from the log or new, and whether the time was over.

        Candidates that were not tried have a score that says so.
        """
        scores: dict[int, Score] = {}
        is_over = False
        known = {} if log is None else log.scores
        done = {candidate.key for candidate in candidates if candidate.key in known}
        with progress(len(candidates), "candidates", self.verbose) as shown:

            def record(candidate: Candidate, score: Score) -> None:
                if log is not None:
                    log.append(candidate.key, score)
                scores[candidate.number] = score
                shown.advance()
                if monotonic() > deadline:
                    raise TimeOverError

            for candidate in candidates:
                if candidate.key in done:
                    scores[candidate.number] = known[candidate.key]
                    shown.advance()
            try:
                scoring.run(candidates, done, record)
            except TimeOverError:
                is_over = True
        unknown = {metric.name: float("nan") for metric in scoring.metrics}
        not_tried = Score(unknown, unknown, error=NOT_TRIED)
        return [scores.get(candidate.number, not_tried) for candidate in candidates], is_over

    def _open_log(self, first: list[Candidate], scoring: CandidateScoring) -> Any:
        if self.log is None:
            return nullcontext()
        # Metrics of kdey are known by their names, those of users by the version that they give:
        # what a function computes may depend on anything.
        custom = [metric for metric in scoring.metrics if METRICS.get(metric.name) is not metric]
        why_anew = None
        for metric in custom:
            if metric.version is None:
                why_anew = (
                    f"nobody knows whether the scoring {metric.name!r} is still the same: give it "
                    f"a version, kdey.metrics.Metric({metric.name!r}, function, title, version='1')"
                )
        return SearchLog(
            self.log,
            fingerprint(
                _LOG_FORMAT,
                self.quantifier,
                [candidate.key for candidate in first],
                [metric.name for metric in scoring.metrics],
                scoring.training.key,
                scoring.pool_key,
                scoring.bags_key,
                *((metric.version, metric.lower_is_better) for metric in custom),
            ),
            why_anew,
        )

    def _store_results(
        self, settings: list[dict[str, Any]], scores: list[Score], best: int
    ) -> None:
        """Set the attributes that scikit-learn's searches have, and warn of failures."""
        failed = [score.error for score in scores if score.error and score.error != NOT_TRIED]
        n_skipped = sum(score.error == NOT_TRIED for score in scores)
        if n_skipped:
            warnings.warn(
                f"time_limit={self.time_limit:g} s was over before {n_skipped} of {len(scores)} "
                "candidates were tried; the best of the others is used",
                UserWarning,
                stacklevel=4,
            )
        if failed:
            warnings.warn(
                f"{len(failed)} of {len(scores)} candidates failed, the first with: {failed[0]}. "
                "Set error_score='raise' to see where.",
                FitFailedWarning,
                stacklevel=4,
            )
        several = isinstance(self.scorer_, dict)
        scorer: Any = self.scorer_
        metrics: list[Metric] = list(scorer.values()) if several else [scorer]
        self.cv_results_ = as_cv_results(settings, scores, metrics, several, self.error_score)
        self.n_splits_ = 1
        self.best_index_ = best
        self.best_params_ = settings[best]
        metric = self._deciding_metric
        self.best_score_ = metric.sign * scores[best].means[metric.name]

    def _refit(self, base: QuantifierLike, scoring: CandidateScoring, everything: Training) -> None:
        """Fit the best candidate on all data, with the cached classifier stage if there is one."""
        (best,) = make_candidates(base, [self.best_params_])
        y = everything.classes[everything.codes]
        quantifier = as_quantifier(best.quantifier, everything.classes)
        stages = quantifier._stages()
        if stages is None:
            quantifier.fit(everything.X, y, **everything.drawn)
            # Fits of other libraries may return nothing.
            self.best_estimator_: Any = best.quantifier
            return
        fitted, _ = scoring.fitted(stages[0], everything, FOLD_MODELS_BYTES)
        self.best_estimator_ = quantifier._fit_stage(
            fitted, everything.X, y, clusters=everything.clusters
        )

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per candidate, the best first.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
        """
        check_is_fitted(self, "cv_results_")
        return as_frame(self.cv_results_, backend)

    def _place(self) -> Place:
        return as_quantifier(self.best_estimator_)._place()

    def _fitted_model(self) -> AnyModel:
        if "cv_results_" in vars(self) and "best_estimator_" not in vars(self):
            raise AttributeError(
                "this search keeps no fitted estimator to predict with: fit it with refit=True"
            )
        return super()._fitted_model()

    def _inner_estimator(self) -> Any:
        return self.quantifier


#: A grid with fewer distinct values has no interior, so that every value is on its edge.
_MIN_VALUES = 3


class GridEdgeWarning(UserWarning):
    """The best value lies on the edge of the grid, so that a better one may lie beyond."""


class GridSearchQ(BaseSearch):
    """Exhaustive search over a grid, with every stage computed once.

    Parameters
    ----------
    param_grid : dict or list of dict
        Maps parameter names (``bandwidth``, ``classifier__C``) to lists of values.

    Warns
    -----
    GridEdgeWarning
        If the best value of a numeric parameter (with three values or more) lies on the edge of the
        grid.

    See Also
    --------
    kdey.evaluation.RandomSearchQ : Search over random settings.

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

    def _settings(self) -> list[dict[str, Any]]:
        for grid in self._grids():
            check_names(self.quantifier, grid)
        settings = list(ParameterGrid(self.param_grid))
        if not settings:
            raise ValueError("param_grid contains no candidate: give every name at least one value")
        return settings

    def _grids(self) -> list[dict[str, list[Any]]]:
        """Return the grid (a mapping, or several) as a list of dicts from names to values."""
        grids = self.param_grid
        grids = [grids] if isinstance(grids, Mapping) else grids
        return [{name: list(values) for name, values in grid.items()} for grid in grids]

    def _warn_of(self, best: int) -> None:
        owners = (grid for grid in self._grids() for _ in ParameterGrid(grid))
        grid = next(itertools.islice(owners, best, None))
        params = self.cv_results_["params"][best]
        edges = find_edges(grid, params)
        if not edges:
            return
        reached = "; ".join(
            f"{name}={params[name]:g} is the {end} value tried" for name, end in edges.items()
        )
        warnings.warn(
            f"the best candidate ({_in_words(params)}) lies on the edge of the grid: "
            f"{reached}. A better one may lie beyond: widen the grid",
            GridEdgeWarning,
            stacklevel=4,
        )


def find_edges(grid: Mapping[str, list[Any]], best: Mapping[str, Any]) -> dict[str, str]:
    """Return the numeric parameters of a grid whose best value lies on an edge, and which edge.

    Parameters with fewer than three values are ignored.

    Parameters
    ----------
    grid : mapping from names to the values that were tried
    best : mapping from names to the best values

    Returns
    -------
    dict from names to "smallest" or "largest"
    """
    edges = {}
    for name, values in grid.items():
        numbers = _numbers_of(values)
        if numbers is not None and len(numbers) >= _MIN_VALUES:
            ends = {numbers[0]: "smallest", numbers[-1]: "largest"}
            if best[name] in ends:
                edges[name] = ends[best[name]]
    return edges


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


def _read_training(
    quantifier: QuantifierLike, settings: Sequence[Mapping[str, Any]], X: Any
) -> tuple[QuantifierLike, Any, TableSchema | None]:
    """Decide how a table is read, once for all candidates.

    Candidates with classifiers of their own may read tables in other ways, each for itself.
    """
    ends = {name.rpartition("__")[2] for params in settings for name in params}
    if ends & _READERS:
        return quantifier, X, None
    return read_training(quantifier, X)


def signed_scores(scores: Sequence[Score], metric: Metric, error_score: Any) -> Array:
    """Return the score of each candidate, shape (n_candidates,); larger is better.

    Failed candidates get ``error_score``, or NaN if that is "raise".
    """
    failed = np.nan if isinstance(error_score, str) else float(error_score)
    return np.array(
        [failed if score.error else metric.sign * score.means[metric.name] for score in scores]
    )


def best_number(scores: Sequence[Score], metric: Metric, error_score: Any) -> int:
    """Return the position of the best candidate (the first on ties), whose score is not NaN.

    Raises
    ------
    ValueError
        If all candidates failed.
    """
    values = signed_scores(scores, metric, error_score)
    usable = ~np.isnan(values) & np.array([not score.error for score in scores])
    if not usable.any():
        reason = next((score.error for score in scores if score.error), "every score is NaN")
        raise ValueError(f"no candidate can be chosen: all {len(scores)} failed ({reason})")
    return int(np.argmax(np.where(usable, values, -np.inf)))


def as_cv_results(
    settings: Sequence[dict[str, Any]],
    scores: Sequence[Score],
    metrics: Sequence[Metric],
    several: bool,
    error_score: Any,
) -> dict[str, Any]:
    """Return the results under the names of scikit-learn, with ``error`` and ``not_converged``.

    Parameters
    ----------
    settings : sequence of dicts from parameter names to values
    scores : sequence of Score
        One for each setting.
    metrics : sequence of Metric
    several : bool
        Whether columns are named after the metrics; otherwise after "score".
    error_score : "raise" or number
        Score of candidates that failed.

    Returns
    -------
    dict from names to columns of length n_candidates
    """
    results: dict[str, Any] = {
        "mean_fit_time": np.array([score.fit_time for score in scores]),
        "mean_score_time": np.array([score.score_time for score in scores]),
    }
    for name in dict.fromkeys(name for params in settings for name in params):
        column: Any = np.ma.MaskedArray(np.empty(len(settings), dtype=object), mask=True)
        for number, params in enumerate(settings):
            if name in params:
                column[number] = params[name]
        results[f"param_{name}"] = column
    results["params"] = list(settings)
    for metric in metrics:
        name = metric.name if several else "score"
        values = signed_scores(scores, metric, error_score)
        results[f"mean_test_{name}"] = values
        results[f"std_test_{name}"] = np.array([score.stds[metric.name] for score in scores])
        results[f"rank_test_{name}"] = _ranks(values)
    results["not_converged"] = np.array([score.not_converged for score in scores])
    results["error"] = np.array([score.error for score in scores], dtype=object)
    return results


def _ranks(values: Array) -> Any:
    """Return ranks from 1 (best), equal for ties; all NaN share the last rank."""
    filled = np.where(np.isnan(values), -np.inf, values)
    return rankdata(-filled, method="min").astype(np.int32)


def as_frame(cv_results: dict[str, Any], backend: str | None) -> Any:
    """Return ``cv_results_`` as a data frame, the best candidate first."""
    rank = next(name for name in cv_results if name.startswith("rank_test_"))
    order = np.argsort(cv_results[rank], kind="stable")
    table = {}
    for name, values in cv_results.items():
        if name == "params":
            continue
        plain = values.tolist() if isinstance(values, np.ndarray) else list(values)
        table[name] = [plain[number] for number in order]
    return make_frame(table, backend)


_KIND = "kdey search log 1"


class SearchLog(AppendedFile):
    """An append-only log of scores, open for one search.

    Parameters
    ----------
    path : path-like
        The file, which is created if it does not exist.
    fingerprint : str
        Fingerprint of data, parameters and seed.
    why_anew : str or None
        Why scores that are there must not be taken; they are removed with a warning that says so.

    Attributes
    ----------
    scores : dict from the key of a candidate to its Score

    Raises
    ------
    ValueError
        If the file is not a log, or the log of another search.
    """

    def __init__(
        self, path: str | os.PathLike[str], fingerprint: str, why_anew: str | None = None
    ) -> None:
        super().__init__(path, "the log", "search")
        self.scores = dict[str, Score]()
        try:
            self._read(fingerprint, why_anew)
        except BaseException:  # Nobody else could close the file, as there will be no object.
            self.close()
            raise

    def append(self, key: str, score: Score) -> None:
        """Write the score of a candidate, which is on disk when this method returns."""
        self.write(_encode({"candidate": key, **asdict(score)}))
        self.scores[key] = score

    def _read(self, fingerprint: str, why_anew: str | None) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        lines = content[:whole].splitlines()
        if not lines:
            self._write_header(content, _encode({"kind": _KIND, "search": fingerprint}))
            return
        self._check_header(_decode(lines[0]), fingerprint)
        self.cut(whole)  # only after the check that the file is a log
        if why_anew is not None and len(lines) > 1:
            self.cut(len(lines[0]) + 1)
            warnings.warn(
                f"log {self.path}: the search starts anew, because {why_anew}",
                UserWarning,
                stacklevel=4,
            )
            return
        damaged = 0
        for line in lines[1:]:
            record = _decode(line)
            if record is None:
                damaged += 1
            else:
                key = record.pop("candidate")
                self.scores[key] = Score(**record)
        if damaged:
            warnings.warn(
                f"log {self.path}: {damaged} damaged line(s) ignored; their candidates are "
                "scored again",
                UserWarning,
                stacklevel=4,
            )

    def _write_header(self, content: bytes, header: bytes) -> None:
        """Write the first line, over an incomplete copy of the same line if there is one."""
        if not header.startswith(content):
            self._check_header(None, "")
        self.cut(0)
        self.write(header)

    def _check_header(self, header: Mapping[str, Any] | None, fingerprint: str) -> None:
        if header is None or header.get("kind") != _KIND:
            raise ValueError(f"log {self.path} is not the log of a search; use another file")
        if header["search"] != fingerprint:
            raise ValueError(
                f"log {self.path} belongs to another search (its data, parameters or seed "
                "differ); use another file, or delete it to start from the beginning"
            )


def _encode(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def _decode(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line, or None if the line is damaged."""
    checksum, _, text = line.partition(b" ")
    if checksum != f"{zlib.crc32(text):08x}".encode():
        return None
    record: dict[str, Any] = json.loads(text)
    return record
