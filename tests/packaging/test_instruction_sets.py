"""The instruction set that the native core picks is one this machine has, and the best of them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from kdey import native

CPU = Path("/proc/cpuinfo")
AVX512 = {"avx512f", "avx512dq", "avx512bw", "avx512vl"}
ASK = "from kdey import native; print(native.library().kdey_isa())"

pytestmark = [
    pytest.mark.skipif(not native.available(), reason="the native core is not in use"),
    pytest.mark.skipif(
        platform.machine() != "x86_64" or not CPU.exists(), reason="read off Linux on x86-64"
    ),
]


def expected() -> int:
    """Return what Linux says the processor and itself can do: 0 baseline, 1 avx2, 2 avx512."""
    line = next(one for one in CPU.read_text().splitlines() if one.startswith("flags"))
    flags = set(line.split())
    if not {"avx2", "fma"} <= flags:
        return 0
    return 2 if flags >= AVX512 else 1


def picked(**environment: str) -> int:
    source = str(Path(native.__file__).parents[1])
    variables = {**os.environ, "PYTHONPATH": source, **environment}
    variables = {k: v for k, v in variables.items() if k != "KDEY_ISA" or k in environment}
    done = subprocess.run(
        [sys.executable, "-c", ASK], env=variables, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_the_best_is_picked() -> None:
    assert picked() == expected()


@pytest.mark.parametrize(("name", "code"), [("baseline", 0), ("avx2", 1), ("avx512", 2)])
def test_the_environment_lowers_it_only(name: str, code: int) -> None:
    assert picked(KDEY_ISA=name) == min(code, expected())
