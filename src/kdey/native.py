"""The native core: finding, loading and calling the C++ library.

The library is one file next to this module, ``_kdey.bin``, which CMake builds from ``src/native``.
If it is missing (no compiler at install time), every caller uses its NumPy path, which gives the
same answers more slowly; a warning says so once per process.

The environment variable ``KDEY_NATIVE`` overrides the choice: ``0`` forces the NumPy path, any
other value is the path of a library to load instead (a sanitizer build, say).
"""

from __future__ import annotations

import ctypes
import functools
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Version of the C interface that this package calls; the library reports its own.
ABI_VERSION = 2
#: Exceptions for the status codes of native functions.
_STATUS = {-1: MemoryError, -2: ValueError, -3: RuntimeError}


class NativeMissingWarning(UserWarning):
    """The native core is not installed; the slower NumPy path is used."""


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
        warnings.warn(
            f"kdey's native core was not found at {path}; using NumPy, which gives the same "
            "answers but is many times slower. Install a C++ compiler and reinstall kdey, or "
            "set KDEY_NATIVE=0 to silence this.",
            NativeMissingWarning,
            stacklevel=2,
        )
        return None
    handle = ctypes.CDLL(str(path))
    version = handle.kdey_abi_version()
    if version != ABI_VERSION:
        raise ImportError(
            f"native core {path} has ABI version {version}, this kdey needs {ABI_VERSION}; "
            "reinstall kdey"
        )
    return handle


def available() -> bool:
    """Whether the native core is in use."""
    return library() is not None


def call(name: str, *arguments: Any) -> None:
    """Call the native function ``name``, and raise if it reports a failure.

    Arrays are passed as pointers to their first element (None as a null pointer), Python ints
    as 64-bit integers and floats as doubles, which are the types that the C side declares.
    """
    handle = library()
    if handle is None:
        raise RuntimeError(f"the native core is not available, but {name} needs it")
    status = getattr(handle, name)(*(_as_c(a) for a in arguments))
    if status != 0:
        raise _STATUS.get(status, RuntimeError)(f"{name} failed with status {status}")


def _as_c(argument: NDArray[np.generic] | int | float | None) -> Any:
    if argument is None:
        return ctypes.c_void_p(None)
    if isinstance(argument, np.ndarray):
        if not argument.flags.c_contiguous:
            raise ValueError("arrays passed to the native core must be C-contiguous")
        return ctypes.c_void_p(argument.ctypes.data)
    if isinstance(argument, int | np.integer):
        return ctypes.c_int64(int(argument))
    return ctypes.c_double(argument)
