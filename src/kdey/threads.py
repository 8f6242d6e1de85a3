"""How many threads a call may use: scikit-learn's ``n_jobs`` read the way joblib reads it."""

from __future__ import annotations

from numbers import Integral

from joblib import effective_n_jobs


def thread_count(n_jobs: int | None) -> int:
    """Return the number of native threads for ``n_jobs`` (None: 1, -1: all cores)."""
    if n_jobs is None:
        return 1
    whole = isinstance(n_jobs, Integral | float) and not isinstance(n_jobs, bool)
    if not whole or n_jobs % 1 != 0 or n_jobs == 0:
        raise ValueError(f"n_jobs must be a non-zero integer or None, got {n_jobs!r}")
    return max(1, int(effective_n_jobs(n_jobs)))
