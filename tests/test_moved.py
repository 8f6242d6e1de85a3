"""What 0.1.0 called its modules still imports, warns, and is the same thing."""

from __future__ import annotations

import subprocess
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest

from kdey._support.moved import MOVED

#: Modules that need an extra which may not be installed.
NEEDS = {"gpu": "torch", "interop.quapy_classes": "quapy"}


def needed(name: str) -> str | None:
    return next((extra for start, extra in NEEDS.items() if name.startswith(start)), None)


@pytest.mark.smoke
@pytest.mark.parametrize("old", sorted(MOVED))
def test_old_names_import_with_a_warning(old: str) -> None:
    extra = needed(MOVED[old])
    if extra is not None and find_spec(extra) is None:
        pytest.skip(f"{extra} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import_module(f"kdey.{old}")  # with the packages around it, which warn by themselves
    sys.modules.pop(f"kdey.{old}")
    with pytest.warns(DeprecationWarning, match=f"kdey.{MOVED[old]}; the old name goes with"):
        module = import_module(f"kdey.{old}")
    assert module is import_module(f"kdey.{MOVED[old]}")
    assert module.__name__ == f"kdey.{MOVED[old]}"


def test_new_names_do_not_warn_and_load_nothing_twice() -> None:
    code = (
        "import warnings, sys; warnings.simplefilter('error')\n"
        "import kdey, kdey.options as new\n"
        "warnings.simplefilter('ignore')\n"
        "from kdey.inference.options import Options\n"
        "assert Options is new.Options\n"
        "assert new.__spec__.name == 'kdey.options'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
