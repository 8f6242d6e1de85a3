"""What all searches are: quantifiers that choose their own parameters on validation bags."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from numbers import Real
from typing import Any, Literal, Self

from numpy.typing import ArrayLike
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from kdey import fingerprint as fp
from kdey.metrics import Metric, get_metric
from kdey.model_selection.cache import StageCache
from kdey.model_selection.candidates import Candidate, make_candidates
from kdey.model_selection.data import Score, Training, Validation
from kdey.model_selection.log import SearchLog
from kdey.model_selection.results import as_cv_results, as_frame, best_number
from kdey.model_selection.scoring import Scoring
from kdey.model_selection.split import joined, split_off
from kdey.progress import progress
from kdey.protocols import APP, BagProtocol
from kdey.protocols.parameters import check_protocol
from kdey.quantifiers.base import BaseQuantifier
from kdey.quantifiers.pool import BagSolver, PoolWork
from kdey.weights import check_weights


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

    quantifier: Any
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
        import kdey

        validation = scoring.validation
        return SearchLog(
            self.log,
            fp.fingerprint(
                kdey.__version__,
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
        made, y = best.quantifier, everything.classes[everything.codes]
        stage = getattr(made, "_classifier_stage", lambda: None)()
        if stage is None:
            weights = everything.weights
            extra = {} if weights is None else {"sample_weight": weights}
            self.best_estimator_ = made.fit(everything.X, y, **extra)
            return
        fitted, _ = scoring.fitted(stage, everything)
        self.best_estimator_ = made.fit_stage(fitted, everything.X, y)

    @property
    def results_(self) -> Any:
        """One row per candidate as a frame, best first (see :func:`kdey.frames.make_frame`)."""
        check_is_fitted(self, "cv_results_")
        return self.to_frame()

    def to_frame(self, backend: str | None = None) -> Any:
        """Return :attr:`results_` as a frame of a given library."""
        check_is_fitted(self, "cv_results_")
        return as_frame(self.cv_results_, backend)

    def _on_pool(self, pool: PoolWork) -> BagSolver:
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("predictions need refit=True: no estimator was kept")
        solver: BagSolver = self.best_estimator_.on_pool(pool)
        return solver
