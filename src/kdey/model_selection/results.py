"""Scores of candidates as scikit-learn's ``cv_results_`` and as a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from kdey.bags import Array
from kdey.frames import make_frame
from kdey.metrics import Metric
from kdey.model_selection.data import Score


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
