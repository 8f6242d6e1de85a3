"""Threads and processes: the meaning of ``n_jobs``, parallel jobs, limits on other threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from multiprocessing import current_process
from numbers import Integral
from typing import Any, TypeVar

from joblib import effective_n_jobs, parallel_config
from joblib.parallel import BACKENDS, get_active_backend
from sklearn import config_context, get_config
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import ThreadpoolController, threadpool_limits

T = TypeVar("T")


def thread_count(n_jobs: int | None) -> int:
    """Return the number of native threads for ``n_jobs`` (None: 1, -1: all cores).

    Raises ValueError unless ``n_jobs`` is None or a non-zero integer.
    """
    if n_jobs is None:
        return 1
    is_number = isinstance(n_jobs, Integral | float) and not isinstance(n_jobs, bool)
    if not is_number or n_jobs % 1 != 0 or n_jobs == 0:
        raise ValueError(f"n_jobs must be a non-zero integer or None, got {n_jobs!r}")
    if _cannot_start_processes():
        # joblib would warn that it cannot start processes here; threads it can.
        with parallel_config(backend="threading"):
            return max(1, int(effective_n_jobs(n_jobs)))
    return max(1, int(effective_n_jobs(n_jobs)))


def run_jobs(jobs: Sequence[Callable[[], T]], n_jobs: int | None) -> list[T]:
    """Return the results of the jobs, in their order; up to ``n_jobs`` of them run in parallel.

    If they run one at a time, they are plain calls: scikit-learn's ``Parallel`` would change the
    warning filters of the whole process around each job, which is not safe if the caller has
    several threads.
    """
    if _runs_sequentially(n_jobs):
        return [job() for job in jobs]
    # All threads of a process share joblib's pool of workers, and only one may start it.
    shares_workers = isinstance(get_active_backend()[0], BACKENDS["loky"])
    with _workers if shares_workers else nullcontext():
        results: list[T] = Parallel(n_jobs=n_jobs)(delayed(job)() for job in jobs)
    return results


def run_in_threads(jobs: Sequence[Callable[[], T]], n_threads: int) -> list[T]:
    """Return the results of the jobs, in their order; up to ``n_threads`` of them run at once.

    For jobs that spend their time outside the interpreter's lock, such as predictions. With several
    threads each job has a single thread of OpenMP, so that they do not compete for the cores.
    """
    if n_threads == 1 or len(jobs) < 2:
        return [job() for job in jobs]
    settings = get_config()  # of scikit-learn, which threads do not inherit

    def run(job: Callable[[], T]) -> T:
        with config_context(**settings), one_openmp_thread():
            return job()

    with ThreadPoolExecutor(min(n_threads, len(jobs))) as executor:
        futures = [executor.submit(copy_context().run, run, job) for job in jobs]
        return [future.result() for future in futures]


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Limit what this thread starts to one thread of OpenMP.

    OpenMP counts threads for each thread that starts some, so that others keep theirs.
    """
    with _openmp().limit(limits=1):
        yield


@cache
def _openmp() -> Any:
    """Return the controller of OpenMP's libraries, once: finding them takes milliseconds."""
    return ThreadpoolController().select(user_api="openmp")


def _runs_sequentially(n_jobs: int | None) -> bool:
    """Return whether joblib would run one job at a time in this process.

    The backend of a cluster gets even a single job.
    """
    if n_jobs is not None and _cannot_start_processes():
        return True
    is_local = getattr(get_active_backend()[0], "default_n_jobs", 1) == 1
    return is_local and int(effective_n_jobs(n_jobs)) == 1


def _cannot_start_processes() -> bool:
    """Return whether joblib would start processes from a worker that may not have children.

    Workers of ``multiprocessing.Pool`` may not. joblib runs one job at a time there and warns.
    """
    return bool(current_process().daemon) and not getattr(
        get_active_backend()[0], "supports_sharedmem", False
    )


class _Lock:
    """A lock that is open in a forked child, where the thread that held it does not exist."""

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


#: Guards the start of joblib's workers.
_workers = _Lock()


class _BlasLimit:
    """A context manager that limits BLAS to one thread while at least one thread is inside.

    The number of BLAS threads is a setting of the whole process. If every thread set and restored
    it by itself, a thread that enters while another is inside would "restore" the other's limit.
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
