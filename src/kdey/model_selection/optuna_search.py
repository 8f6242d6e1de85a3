"""Search by Optuna over continuous parameters, with stages computed once as in other searches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from kdey.model_selection.candidates import Score, check_names
from kdey.model_selection.scoring import StageCache
from kdey.model_selection.search import BaseSearch, signed_scores
from kdey.quantifiers.foreign import QuantifierLike


class OptunaSearchQ(BaseSearch):
    """Search by Optuna's samplers, in which each classifier configuration is fitted once.

    Needs Optuna (``pip install 'kdey[optuna]'``).

    Parameters
    ----------
    param_distributions : dict
        Maps parameter names to Optuna distributions (``FloatDistribution(0.01, 0.5, log=True)``)
        or lists of values.
    n_trials : int
        Number of candidates.
    batch_size : int
        Number of trials that the sampler suggests at a time. Bandwidths of a batch share one pass
        over the distances; smaller batches let the sampler learn from more trials.
    sampler : Optuna sampler, optional
        Default: ``TPESampler(seed=random_state)``.

    Attributes
    ----------
    study_ : optuna.Study
        The study, which maximises the score.

    See Also
    --------
    kdey.GridSearchQ : Search over a grid.
    kdey.RandomSearchQ : Search over random settings.

    Examples
    --------
    >>> import kdey
    >>> search = kdey.OptunaSearchQ(kdey.KDEyML(), {"bandwidth": [0.05, 0.1]}, n_trials=2)
    >>> search.n_trials
    2
    """

    def __init__(
        self,
        quantifier: QuantifierLike,
        param_distributions: Any,
        *,
        n_trials: int = 50,
        batch_size: int = 5,
        sampler: Any = None,
        scoring: Any = "ae",
        protocol: Any = None,
        validation: float = 0.4,
        refit: bool | str = True,
        error_score: Any = np.nan,
        random_state: Any = 0,
        log: str | os.PathLike[str] | None = None,
        cache: StageCache | None = None,
        n_jobs: int | None = None,
        time_limit: float | None = None,
        verbose: bool | Literal["auto"] = "auto",
    ) -> None:
        self.quantifier = quantifier
        self.param_distributions = param_distributions
        self.n_trials = n_trials
        self.batch_size = batch_size
        self.sampler = sampler
        self.scoring = scoring
        self.protocol = protocol
        self.validation = validation
        self.refit = refit
        self.error_score = error_score
        self.random_state = random_state
        self.log = log
        self.cache = cache
        self.n_jobs = n_jobs
        self.time_limit = time_limit
        self.verbose = verbose

    def _settings(self) -> list[dict[str, Any]]:
        for name in ("n_trials", "batch_size"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be a positive integer, got {getattr(self, name)!r}")
        check_names(self.quantifier, self.param_distributions)
        self.study_ = _new_study(self.sampler, self.random_state)
        self._space = _distributions(self.param_distributions)
        self._trials: list[Any] = []
        return self._ask()

    def _more(
        self, settings: list[dict[str, Any]], scores: Sequence[Score], best: int
    ) -> list[dict[str, Any]]:
        values = signed_scores(scores, self._deciding_metric, np.nan)
        for number in range(len(self.study_.get_trials(states=_finished())), len(values)):
            failed = bool(np.isnan(values[number]))
            state = {"state": _finished()[1]} if failed else {"values": float(values[number])}
            self.study_.tell(self._trials[number], **state)
        return self._ask()

    def _private_stages(self) -> int:
        return 64  # any trial may use any earlier classifier

    def _ask(self) -> list[dict[str, Any]]:
        """Return the settings of the next batch of trials; none if all were tried."""
        size = min(self.batch_size, self.n_trials - len(self._trials))
        batch = [self.study_.ask(self._space) for _ in range(size)]
        self._trials += batch
        return [dict(trial.params) for trial in batch]


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ImportError("OptunaSearchQ needs Optuna: pip install 'kdey[optuna]'") from error
    return optuna


def _new_study(sampler: Any, seed: Any) -> Any:
    optuna = _optuna()
    chosen = optuna.samplers.TPESampler(seed=seed) if sampler is None else sampler
    # By default Optuna logs the creation of every study to standard error.
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(direction="maximize", sampler=chosen)
    finally:
        optuna.logging.set_verbosity(before)


def _distributions(spaces: Any) -> dict[str, Any]:
    """Return Optuna distributions by name, categorical ones for lists of values."""
    categorical = _optuna().distributions.CategoricalDistribution
    return {
        name: categorical(tuple(space)) if isinstance(space, list | tuple) else space
        for name, space in spaces.items()
    }


def _finished() -> tuple[Any, Any]:
    """Return the states of trials that have a score, and of trials that failed."""
    state = _optuna().trial.TrialState
    return (state.COMPLETE, state.FAIL)
