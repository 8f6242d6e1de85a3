"""What is installed: versions, platform and native core, for those who look into a fault."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import kdey
from kdey import native

#: What kdey stands on, and the packages of its extras, as pip calls them.
PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "narwhals"),
    *("click", "rich", "matplotlib", "mpltern", "jinja2", "resvg-py", "pyarrow", "skops"),
    *("pooch", "requests", "python-calamine", "xlsxwriter", "optuna", "dask", "distributed"),
    *("torch", "pandas", "polars"),
)


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
    lines = {
        "kdey": kdey.__version__,
        "native core": native.instruction_set() or "not in use: NumPy instead, many times slower",
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
