"""The native core, threads and processes: the C++ library, and the meaning of ``n_jobs``.

The library is one file next to this module, ``_kdey.bin``, which CMake builds from ``src/native``.
If it is missing (no compiler at install time) or the system refuses to load it, every caller uses
its NumPy path, which gives the same answers more slowly; a warning says so once per process.

The environment variable ``KDEY_NATIVE`` overrides the choice: ``0`` forces the NumPy path, any
other value is the path of a library to load instead (a sanitizer build, say).
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import current_process
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs, parallel_config
from joblib.parallel import BACKENDS, get_active_backend
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import ThreadpoolController, threadpool_limits

T = TypeVar("T")

#: Version of the C interface that this package calls; the library reports its own.
ABI_VERSION = 2
#: Arguments of the native functions as ``src/native/kdey.h`` declares them: p for a pointer (an
#: array or None), i for a 64-bit integer, d for a double.
_ARGUMENTS = {
    "kdey_bag_means": "piipppip",
    "kdey_check_posteriors": "piiip",
    "kdey_class_log_sums": "ppiiiiipipippiiiip",
    "kdey_free_references": "p",
    "kdey_gibbs": "ppiipiippipp",
    "kdey_hierarchy": "piipipipippppppp",
    "kdey_kernel_means": "ppipiipppiddip",
    "kdey_pack_references": "piiipipiiip",
    "kdey_packed_bytes": "p",
    "kdey_packed_log_sums": "ppiipipiip",
    "kdey_scale_rows": "piiippp",
    "kdey_solve_divergence": "ipppiiipdiipppp",
    "kdey_match_one_bag": "piiiippiddp",
    "kdey_solve_least_squares": "ppppiiiiipppp",
    "kdey_solve_mixture": "ppiipppipdiipppp",
    "kdey_solve_programs": "pippiiiiipp",
}
_C_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "d": ctypes.c_double}
#: Names of the instruction sets, by the number that the library gives for the one in use.
INSTRUCTION_SETS = ("baseline", "avx2", "avx512")
#: Exceptions for the status codes of native functions.
_STATUS = {-1: MemoryError, -2: ValueError, -3: RuntimeError}


#: What kdey stands on, and the packages of its extras, as pip calls them.
PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "narwhals"),
    *("click", "rich", "matplotlib", "jinja2", "pyarrow", "skops"),
    *("pooch", "requests", "python-calamine", "xlsxwriter", "dask", "distributed"),
    *("torch", "pandas", "polars"),
)


class NativeMissingWarning(UserWarning):
    """The native core is missing or cannot be loaded; the slower NumPy path is used."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return the loaded native library, or None if the NumPy path must be used.

    Raises ImportError if the library has another ABI version.
    """
    setting = os.environ.get("KDEY_NATIVE", "")
    if setting == "0":
        return None
    path = Path(setting) if setting else Path(__file__).with_name("_kdey.bin")
    if not path.exists():
        _warn_of_numpy(
            f"kdey's native core was not found at {path}",
            "Install a C++ compiler (on Windows Clang), then install kdey again with pip's options "
            "--force-reinstall --no-cache-dir, because pip keeps what it built before",
        )
        return None
    try:
        handle = ctypes.CDLL(str(path))
    except OSError as error:
        _warn_of_numpy(
            f"kdey's native core at {path} cannot be loaded ({error})",
            "Install kdey again on this machine: the file may have been built for another "
            "processor or system, or be damaged or locked",
        )
        return None
    found = handle.kdey_abi_version()
    if found != ABI_VERSION:
        raise ImportError(
            f"native core {path} has ABI version {found}, this kdey needs {ABI_VERSION}; "
            "reinstall kdey"
        )
    for name, kinds in _ARGUMENTS.items():
        getattr(handle, name).argtypes = [_C_TYPES[kind] for kind in kinds]
    handle.kdey_packed_bytes.restype = ctypes.c_int64
    handle.kdey_free_references.restype = None
    return handle


def _warn_of_numpy(problem: str, remedy: str) -> None:
    """Warn that the NumPy path is used: what is wrong with the native core, and what to do."""
    warnings.warn(
        f"{problem}; using NumPy, which gives the same answers but is many times slower. {remedy}. "
        "Set KDEY_NATIVE=0 to silence this.",
        NativeMissingWarning,
        stacklevel=3,
    )


def available() -> bool:
    """Whether the native core is in use."""
    return library() is not None


def instruction_set() -> str | None:
    """Return which instruction set the native core uses; None if it is not in use.

    ``baseline`` is SSE2 on x86-64 and NEON on aarch64. The environment variable ``KDEY_ISA`` can
    lower it.
    """
    handle = library()
    return None if handle is None else INSTRUCTION_SETS[handle.kdey_isa()]


def call(name: str, *arguments: Any) -> None:
    """Call the native function ``name``, and raise if it reports a failure.

    Arrays are passed as pointers to their first element, None as a null pointer, and numbers as the
    types that the C side declares. Arrays must be C-contiguous and have the element type that the C
    side reads: neither is converted.
    """
    status = function(name)(*[address(a) if isinstance(a, np.ndarray) else a for a in arguments])
    if status != 0:
        raise _STATUS.get(status, RuntimeError)(f"{name} failed with status {status}")


def function(name: str) -> Callable[..., int]:
    """Return the native function ``name``, for callers to whom microseconds matter.

    It takes addresses and numbers, and its status is theirs to look at; :func:`call` does both.
    """
    handle = library()
    if handle is None:
        raise RuntimeError(f"the native core is not available, but {name} needs it")
    native_function: Callable[..., int] = getattr(handle, name)
    return native_function


def address(array: NDArray[Any]) -> int:
    """Return the address of the first element of a C-contiguous array."""
    if not array.flags.c_contiguous:
        raise ValueError("arrays passed to the native core must be C-contiguous")
    try:
        # A tenth of the time of ``array.ctypes``, which counts where a call takes microseconds.
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    except (TypeError, ValueError):  # the array is read-only, or empty
        return int(array.ctypes.data)


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


@functools.cache
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


def show_versions() -> None:
    """Print what a report of a fault should contain: versions, platform and native core.

    See Also
    --------
    kdey.native.instruction_set : What the native core uses, alone.

    Examples
    --------
    >>> import kdey
    >>> kdey.show_versions()  # doctest: +SKIP
    kdey            0.2.0
    native core     avx512
    Python          3.12.1
    platform        Linux-6.1.0-x86_64-with-glibc2.36
    processor       x86_64
    numpy           2.3.1
    ...
    """
    import kdey

    lines = {
        "kdey": kdey.__version__,
        "native core": instruction_set() or "not in use: NumPy instead, many times slower",
        "Python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.machine(),
    }
    lines |= {name: _installed(name) for name in PACKAGES}
    width = max(map(len, lines))
    print("\n".join(f"{name:{width}}  {value}" for name, value in lines.items()))


def _installed(name: str) -> str:
    """Return the version of a package, or that it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
