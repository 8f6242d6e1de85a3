"""How many threads and processes a call may use: scikit-learn's ``n_jobs`` read as joblib does."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from multiprocessing import current_process
from numbers import Integral
from typing import Any, TypeVar

from joblib import effective_n_jobs, parallel_config
from joblib.parallel import BACKENDS, get_active_backend
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

T = TypeVar("T")


def thread_count(n_jobs: int | None) -> int:
    """Return the number of native threads for ``n_jobs`` (None: 1, -1: all cores)."""
    if n_jobs is None:
        return 1
    whole = isinstance(n_jobs, Integral | float) and not isinstance(n_jobs, bool)
    if not whole or n_jobs % 1 != 0 or n_jobs == 0:
        raise ValueError(f"n_jobs must be a non-zero integer or None, got {n_jobs!r}")
    if _no_processes():
        # joblib would say that it can start no processes here; threads can be.
        with parallel_config(backend="threading"):
            return max(1, int(effective_n_jobs(n_jobs)))
    return max(1, int(effective_n_jobs(n_jobs)))


def run_jobs(jobs: Sequence[Callable[[], T]], n_jobs: int | None) -> list[T]:
    """Return what the jobs give, in their order, as many at once as ``n_jobs`` says.

    One at a time they are plain calls: scikit-learn's ``Parallel`` would set the warning filters
    of the whole process around each, which threads of the caller must not do at once.
    """
    if _in_turn(n_jobs):
        return [job() for job in jobs]
    # All threads of a process share joblib's pool of workers, and may not start it at once.
    shares_workers = isinstance(get_active_backend()[0], BACKENDS["loky"])
    with _workers if shares_workers else nullcontext():
        made: list[T] = Parallel(n_jobs=n_jobs)(delayed(job)() for job in jobs)
    return made


def _in_turn(n_jobs: int | None) -> bool:
    """Return whether joblib would run one job at a time, here; a cluster takes even those."""
    if n_jobs is not None and _no_processes():
        return True
    own = getattr(get_active_backend()[0], "default_n_jobs", 1) == 1
    return own and int(effective_n_jobs(n_jobs)) == 1


def _no_processes() -> bool:
    """Return whether joblib would want processes in a worker that must not have children.

    The workers of ``multiprocessing.Pool`` are such. joblib takes one job there, with a warning.
    """
    return bool(current_process().daemon) and not getattr(
        get_active_backend()[0], "supports_sharedmem", False
    )


class _Lock:
    """A lock that a forked child finds open: the thread that held it is not there."""

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._held = threading.RLock()

    def __enter__(self) -> None:
        self._held.acquire()

    def __exit__(self, *error: object) -> None:
        self._held.release()


_workers = _Lock()


class _BlasLimit:
    """One BLAS thread for as long as anyone asks for it.

    The number is a setting of the whole process. Were every thread to set and restore it for
    itself, one that came while another was inside would "restore" what the other had set.
    """

    def __init__(self) -> None:
        self._users = 0
        self._limits: Any = None
        self._lock = _Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._limits = threadpool_limits(1, user_api="blas")
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._limits.restore_original_limits()


#: ``with one_blas_thread(): ...``
one_blas_thread = _BlasLimit()
