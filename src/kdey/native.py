"""The native core: finding, loading and calling the C++ library; what else is installed.

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
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    *("click", "rich", "matplotlib", "mpltern", "jinja2", "resvg-py", "pyarrow", "skops"),
    *("pooch", "requests", "python-calamine", "xlsxwriter", "optuna", "dask", "distributed"),
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
