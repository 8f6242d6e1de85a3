"""Scores of candidates as scikit-learn's ``cv_results_`` and as a frame.

What all searches are: quantifiers that choose their own parameters on validation bags.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from kdey._support import fingerprint as fp
from kdey._support.frames import make_frame
from kdey._support.progress import progress
from kdey._support.validation import check_weights
from kdey.bags import Array
from kdey.metrics import Metric, get_metric
from kdey.model_selection.candidates import (
    Candidate,
    Score,
    Training,
    Validation,
    joined,
    make_candidates,
    split_off,
)
from kdey.model_selection.log import SearchLog
from kdey.model_selection.scoring import Scoring, StageCache
from kdey.protocols import APP, BagProtocol
from kdey.protocols.draw import check_protocol
from kdey.quantifiers.base import BagSolver, BaseQuantifier, PoolWork
from kdey.quantifiers.foreign import QuantifierLike, as_quantifier


def signed_scores(scores: Sequence[Score], metric: Metric, error_score: Any) -> Array:
    """Return the mean score of each candidate, larger is better; failed ones ``error_score``."""
    failed = np.nan if isinstance(error_score, str) else float(error_score)
    return np.array(
        [failed if one.error else metric.sign * one.means[metric.name] for one in scores]
    )


def best_number(scores: Sequence[Score], metric: Metric, error_score: Any) -> int:
    """Return the position of the best candidate, the first one on ties; never a NaN."""
    values = signed_scores(scores, metric, error_score)
    usable = ~np.isnan(values) & np.array([not one.error for one in scores])
    if not usable.any():
        reason = next((one.error for one in scores if one.error), "every score is NaN")
        raise ValueError(f"no candidate can be chosen: all {len(scores)} failed ({reason})")
    return int(np.argmax(np.where(usable, values, -np.inf)))


def as_cv_results(
    settings: Sequence[dict[str, Any]],
    scores: Sequence[Score],
    metrics: Sequence[Metric],
    several: bool,
    error_score: Any,
) -> dict[str, Any]:
    """Return the results under scikit-learn's names, and ``error`` and ``not_converged``."""
    out: dict[str, Any] = {
        "mean_fit_time": np.array([one.fit_time for one in scores]),
        "mean_score_time": np.array([one.score_time for one in scores]),
    }
    for name in dict.fromkeys(name for one in settings for name in one):
        column: Any = np.ma.MaskedArray(np.empty(len(settings), dtype=object), mask=True)
        for number, one in enumerate(settings):
            if name in one:
                column[number] = one[name]
        out[f"param_{name}"] = column
    out["params"] = list(settings)
    for metric in metrics:
        name = metric.name if several else "score"
        values = signed_scores(scores, metric, error_score)
        out[f"mean_test_{name}"] = values
        out[f"std_test_{name}"] = np.array([one.stds[metric.name] for one in scores])
        out[f"rank_test_{name}"] = _ranks(values)
    out["not_converged"] = np.array([one.not_converged for one in scores])
    out["error"] = np.array([one.error for one in scores], dtype=object)
    return out


def _ranks(values: Array) -> Any:
    """Return ranks from 1 (best), equal for ties; NaN shares the last one."""
    filled = np.where(np.isnan(values), -np.inf, values)
    return rankdata(-filled, method="min").astype(np.int32)


def as_frame(cv_results: dict[str, Any], backend: str | None) -> Any:
    """Return ``cv_results_`` as a frame, best candidate first."""
    rank = next(name for name in cv_results if name.startswith("rank_test_"))
    order = np.argsort(cv_results[rank], kind="stable")
    table = {}
    for name, values in cv_results.items():
        if name == "params":
            continue
        plain = values.tolist() if isinstance(values, np.ndarray) else list(values)
        table[name] = [plain[number] for number in order]
    return make_frame(table, backend)


#: The version in which scores last changed their meaning: logs of searches before it are refused.
_SCORES_SINCE = "0.1.0"


class BaseSearch(BaseQuantifier):
    """Base of the searches.

    Parameters
    ----------
    quantifier : quantifier
        Cloned for every candidate.
    scoring : metric or sequence of metrics
        As in :func:`kdey.metrics.get_metric`. Scores are signed so that larger is better.
    protocol : protocol, optional
        Draws the validation bags; default ``APP(n_bags=250, bag_size=500)``.
    validation : float
        Fraction of each class split off for validation where ``fit`` is given none.
    refit : bool or str
        Whether to fit the best candidate on training and validation data together; with
        several metrics, the name of the one that decides (True: the first).
    error_score : "raise" or number
        Score of a candidate that fails; its reason is kept in the results, and NaN (which is
        never chosen) by default.
    random_state : int
        Splits off the validation data, and draws candidates where they are drawn.
    log : path, optional
        File to which every finished candidate is written: the same search with the same log
        goes on where it was stopped, however it was, and ends with the same result (given
        seeds for whatever is random). The log of another search is refused.
    cache : StageCache, optional
        Shared by several searches over the same data.
    n_jobs : int, optional
        Classifier fits run at once, and native threads.
    verbose : bool or "auto"
        Whether to show progress.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, cv_results_
        As in scikit-learn; ``mean_test_*`` is the mean over the validation bags.
    scorer_ : the metric, or a dict of them
    n_splits_ : 1, the validation data.

    Notes
    -----
    Each distinct classifier configuration (classifier, ``cv``, ``random_state``) is fitted once,
    cross-validation included, and the distances behind all bandwidths are computed once per
    classifier. Densities of several bandwidths in one pass share the precision that the
    smallest needs, so that a score can differ in about its sixth digit from that of the
    same candidate on its own.
    """

    quantifier: QuantifierLike
    scoring: Any
    protocol: Any
    validation: float
    refit: bool | str
    error_score: Any
    random_state: Any
    log: str | os.PathLike[str] | None
    cache: StageCache | None
    n_jobs: int | None
    verbose: bool | Literal["auto"]

    def _settings(self) -> list[dict[str, Any]]:
        """Return the settings to score first."""
        raise NotImplementedError

    def _more(
        self, settings: list[dict[str, Any]], scores: Sequence[Score], best: int
    ) -> list[dict[str, Any]]:
        """Return settings to score next, once the best so far is known; empty to end."""
        return []

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
    ) -> Self:
        """Score every candidate and fit the best.

        Parameters
        ----------
        X : training instances
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        X_val, y_val : validation instances and labels, optional
            By default split off from ``X`` and ``y``. ``y_val`` may be None for a protocol that
            needs no labels (``GivenBags``); the best is then fitted on ``X`` and ``y`` alone.
        """
        metrics = self._metrics()
        first = make_candidates(self.quantifier, self._settings())
        validate_data(self, X, skip_check_array=True)
        codes = self._start_fit(y)
        check_consistent_length(X, codes)
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        whole = Training.of(X, codes, self.classes_, weights)
        training, validation, everything = self._data(whole, X_val, y_val)
        cache = StageCache(self._private_stages()) if self.cache is None else self.cache
        raising = isinstance(self.error_score, str)
        scoring = Scoring(training, validation, tuple(metrics), cache, self.n_jobs, raising)
        self._search(first, scoring)
        if self.refit:
            self._refit(scoring, everything)
        return self

    def _private_stages(self) -> int:
        """Return how many classifiers to hold where no cache was given."""
        return 1

    def _metrics(self) -> list[Metric]:
        if self.protocol is not None:
            check_protocol(self.protocol)
        raises = isinstance(self.error_score, str) and self.error_score == "raise"
        if not raises and not isinstance(self.error_score, Real):
            raise ValueError(f"error_score must be 'raise' or a number, got {self.error_score!r}")
        several = isinstance(self.scoring, Sequence) and not isinstance(self.scoring, str)
        metrics = [get_metric(one) for one in (self.scoring if several else [self.scoring])]
        if not metrics or len({metric.name for metric in metrics}) < len(metrics):
            raise ValueError("scoring must name at least one metric, and each once")
        names = [metric.name for metric in metrics]
        if isinstance(self.refit, str):
            self._judge = get_metric(self.refit)
            if self._judge.name not in names:
                raise ValueError(f"refit must be a bool or one of {names}, got {self.refit!r}")
        elif not isinstance(self.refit, bool):
            raise ValueError(f"refit must be a bool or one of {names}, got {self.refit!r}")
        else:
            self._judge = metrics[0]
        self.scorer_ = {m.name: m for m in metrics} if several else metrics[0]
        return metrics

    def _data(
        self, whole: Training, X_val: Any, y_val: ArrayLike | None
    ) -> tuple[Training, Validation, Training]:
        """Return training data, validation data and both together."""
        default = APP(n_bags=250, bag_size=500)
        protocol: BagProtocol = default if self.protocol is None else self.protocol
        if X_val is None:
            if y_val is not None:
                raise ValueError("y_val was given without X_val")
            parts = split_off(whole.X, whole, self.validation, protocol, self.random_state)
            return *parts, whole
        self._check_points(X_val)
        if y_val is not None:
            check_consistent_length(X_val, y_val)
        labelled = protocol.bags(y_val, self.classes_)  # type: ignore[arg-type]
        return whole, Validation.of(X_val, labelled), joined(whole, X_val, y_val)

    def _search(self, first: list[Candidate], scoring: Scoring) -> None:
        settings = [dict(one.params) for one in first]
        scores: dict[int, Score] = {}
        with self._open_log(first, scoring) as log:
            candidates = first
            while candidates:
                self._run(candidates, scoring, log, scores)
                ordered = [scores[number] for number in range(len(settings))]
                best = best_number(ordered, self._judge, self.error_score)
                more = self._more(settings, ordered, best)
                candidates = make_candidates(self.quantifier, more, first=len(settings))
                settings += more
        self._conclude(settings, ordered, best)

    def _run(
        self,
        candidates: list[Candidate],
        scoring: Scoring,
        log: SearchLog | None,
        scores: dict[int, Score],
    ) -> None:
        known = {} if log is None else log.scores
        done = {one.key for one in candidates if one.key in known}
        with progress(len(candidates), "candidates", self.verbose) as shown:

            def finish(one: Candidate, score: Score) -> None:
                if log is not None:
                    log.append(one.key, score)
                scores[one.number] = score
                shown.advance()

            for one in candidates:
                if one.key in done:
                    scores[one.number] = known[one.key]
                    shown.advance()
            scoring.run(candidates, done, finish)

    def _open_log(self, first: list[Candidate], scoring: Scoring) -> Any:
        if self.log is None:
            return nullcontext()
        validation = scoring.validation
        return SearchLog(
            self.log,
            fp.fingerprint(
                _SCORES_SINCE,
                self.quantifier,
                [one.key for one in first],
                [metric.name for metric in scoring.metrics],
                scoring.training.key,
                validation.pool_key,
                validation.bags_key,
            ),
        )

    def _conclude(self, settings: list[dict[str, Any]], scores: list[Score], best: int) -> None:
        failed = [score.error for score in scores if score.error]
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
        self.best_score_ = self._judge.sign * scores[best].means[self._judge.name]

    def _refit(self, scoring: Scoring, everything: Training) -> None:
        (best,) = make_candidates(self.quantifier, [self.best_params_])
        y = everything.classes[everything.codes]
        quantifier = as_quantifier(best.quantifier)
        stages = quantifier.stages()
        if stages is None:
            weights = everything.weights
            extra = {} if weights is None else {"sample_weight": weights}
            self.best_estimator_ = best.quantifier.fit(everything.X, y, **extra)
            return
        fitted, _ = scoring.fitted(stages.classifier, everything)
        self.best_estimator_ = quantifier.fit_stage(fitted, everything.X, y)

    @property
    def results_(self) -> Any:
        """One row per candidate as a data frame, best first."""
        check_is_fitted(self, "cv_results_")
        return self.to_frame()

    def to_frame(self, backend: str | None = None) -> Any:
        """Return :attr:`results_` as a frame of a given library."""
        check_is_fitted(self, "cv_results_")
        return as_frame(self.cv_results_, backend)

    @property
    def answering(self) -> BaseQuantifier:
        """The best candidate, fitted on everything."""
        best = vars(self).get("best_estimator_")
        if best is None:
            raise AttributeError("predictions need refit=True: no estimator was kept")
        return as_quantifier(best)

    def inner_estimator(self) -> Any:
        """Return the quantifier that X is handed to."""
        return self.quantifier

    def _on_pool(self, pool: PoolWork) -> BagSolver:
        return self.answering.on_pool(pool)
