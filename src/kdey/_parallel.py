"""Threads, processes and devices: the meaning of ``n_jobs`` and ``device=``.

torch is imported only if a device other than the native core on the host is requested.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from multiprocessing import current_process
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs, parallel_config
from joblib.parallel import BACKENDS, get_active_backend
from numpy.typing import ArrayLike
from sklearn import config_context, get_config
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import ThreadpoolController, threadpool_limits

from kdey.simplex import SUM_TOLERANCE, check_posteriors, in_class_order
from kdey.validation import is_tensor, on_gpu, refuse_masked, refuse_sparse

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


#: Values of ``device=``, besides a ``torch.device`` and "cuda:1", "cuda:2", ...
DEVICES = ("cpu", "auto", "cuda", "torch-cpu")
#: Number of kernel values from which "auto" uses the GPU: about one second of work for two cores,
#: well above the cost of starting a GPU.
AUTO_PAIRS = 2e9
_FLOATS = ("float32", "float64")


def device_name(device: Any) -> str:
    """Return ``device`` as one of :data:`DEVICES` or "cuda:N"; raises ValueError otherwise.

    "cpu" is the native core; "torch-cpu" (or ``torch.device("cpu")``) is torch on the same
    processor, for tests; "auto" is the GPU if there is one and the work is large enough.
    """
    if isinstance(device, str):
        if device in DEVICES or re.fullmatch(r"cuda:\d+", device):
            return device
    elif type(device).__module__ == "torch" and type(device).__name__ == "device":
        return "torch-cpu" if device.type == "cpu" else str(device)
    raise ValueError(
        f"device must be one of {', '.join(DEVICES)}, 'cuda:N' or a torch.device, got {device!r}"
    )


def choose_device(device: Any, n_pairs: float, points: Any = None) -> Any:
    """Return the torch device to work on; None for the native core.

    Parameters
    ----------
    device : str or torch.device
        See :func:`device_name`.
    n_pairs : float
        Number of kernel values (or operations of about the same cost) to compute.
    points : array or tensor, optional
        The data. A tensor on a GPU is processed there, whatever ``device`` says.

    Raises
    ------
    RuntimeError
        If torch does not see the requested GPU.
    """
    name = device_name(device)
    if on_gpu(points):
        return points.device
    if name == "cpu" or (name == "auto" and n_pairs < AUTO_PAIRS):
        return None
    if name == "auto":
        return _gpu_if_any()
    torch = import_torch(f"device={name!r}")
    if name == "torch-cpu":
        return torch.device("cpu")
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if n_devices <= int(name.partition(":")[2] or 0):
        raise RuntimeError(
            f"device={name!r}, but torch {torch.__version__} sees {n_devices} CUDA device(s): "
            "install a torch built for CUDA and a driver, or use device='auto' or 'cpu'"
        )
    return torch.device(name)


def _gpu_if_any() -> Any:
    try:
        torch = import_torch("device='auto'")
    except ImportError:
        return None
    return torch.device("cuda") if torch.cuda.is_available() else None


def import_torch(what: str) -> Any:
    """Return the torch module; raises ImportError with the extra that ``what`` needs."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"{what} needs torch: pip install 'kdey[gpu]'") from error
    return torch


def as_tensor(values: Any, device: Any) -> Any:
    """Return an array or tensor as a tensor on ``device``, without a copy if it is there."""
    torch = import_torch("a tensor")
    if is_tensor(values):
        return values.detach().to(device)
    with warnings.catch_warnings():  # torch warns about read-only arrays; nothing is written here
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)


def posteriors_on(
    posteriors: Any, classes: ArrayLike, device: Any, name: str = "posteriors"
) -> Any:
    """Check posteriors as :func:`kdey.simplex.check_posteriors` does, on the device of the work.

    Parameters
    ----------
    posteriors : array-like, data frame or tensor of shape (m, k)
    classes : array-like of shape (k,)
        The labels, by which the columns of a data frame are matched.
    device : torch.device or None
        None: an array is returned. Otherwise a float tensor on it, not copied if already there.
    name : str
        What to call the argument in messages.
    """
    if device is None:
        return check_posteriors(posteriors, classes=classes, name=name)
    refuse_sparse(posteriors, name)
    values = posteriors if is_tensor(posteriors) else in_class_order(posteriors, classes, name)
    values = values if is_tensor(values) else np.asarray(refuse_masked(values, name))
    n_classes = len(np.asarray(classes))
    if values.ndim == 2 and len(values) and str(values.dtype).rpartition(".")[2] in _FLOATS:
        p = as_tensor(values, device)
        deviation = (p.sum(dim=1, dtype=import_torch(name).float64) - 1.0).abs().amax()
        if p.shape[1] == n_classes and bool((p.amin() >= 0) & (deviation <= SUM_TOLERANCE)):
            return p
    # The check on the host reports whatever is wrong, or clips rounding noise.
    return as_tensor(check_posteriors(posteriors, classes=classes, name=name), device)
