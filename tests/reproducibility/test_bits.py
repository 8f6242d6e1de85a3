"""Fresh processes give the same numbers: to the last bit, or within a stated tolerance."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kdey import native

pytest.importorskip("pandas")
ROOT = Path(__file__).parents[2]
needs_native = pytest.mark.skipif(not native.available(), reason="the native core is not built")

#: Of prevalences and limits by two routes: mixed precision, and where solvers stop.
TOLERANCE = 1e-6
#: The NumPy path has a generator of its own for Gibbs draws: other draws of the same distribution.
OTHER_DRAWS = "groups: draws"


def numbers(folder: Path, parts: str, *arguments: Any, **environment: str) -> dict[str, np.ndarray]:
    """Return everything, computed in a fresh process under some variables."""
    out = folder / f"{len(list(folder.iterdir()))}.npz"
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    fixed = {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    words = ["-W", "ignore", "-m", "tests.reproducibility.everything", out, parts, *arguments]
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, **fixed, **environment}, cwd=ROOT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with np.load(out) as found:
        return dict(found)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return numbers(tmp_path_factory.mktemp("once"), "all", PYTHONHASHSEED="1")


def differing(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> list[str]:
    assert a.keys() == b.keys()
    return [name for name in a if not np.array_equal(a[name], b[name], equal_nan=True)]


#: Two workers show what one would: a difference of either kind. The others tell them apart.
WORKERS = [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4))]


@pytest.mark.parametrize("n_jobs", WORKERS)
def test_neither_a_fresh_process_nor_workers_change_a_bit(
    n_jobs: int, once: dict[str, np.ndarray], tmp_path: Path
) -> None:
    assert len(once) > 100
    assert differing(once, numbers(tmp_path, "all", n_jobs, PYTHONHASHSEED="77")) == []


def far_apart(once: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> dict[str, float]:
    """Return by how much numbers differ where it is more than the tolerance."""
    assert other.keys() <= once.keys()
    worst = {name: float(np.nanmax(np.abs(once[name] - other[name]))) for name in other}
    return {name: value for name, value in worst.items() if not value <= TOLERANCE}


PARTS = ["points", pytest.param("all", marks=pytest.mark.slow)]


@needs_native
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("isa", ["baseline", pytest.param("avx2", marks=pytest.mark.slow)])
def test_instruction_sets_agree(
    isa: str, parts: str, once: dict[str, np.ndarray], tmp_path: Path
) -> None:
    other = numbers(tmp_path, parts, KDEY_ISA=isa)
    assert len(other) > 50
    assert far_apart(once, other) == {}


@needs_native
@pytest.mark.parametrize("parts", PARTS)
def test_numpy_gives_what_the_native_core_gives(
    parts: str, once: dict[str, np.ndarray], tmp_path: Path
) -> None:
    other = numbers(tmp_path, parts, KDEY_NATIVE="0")
    assert len(other) > 50
    assert set(far_apart(once, other)) <= {OTHER_DRAWS}
