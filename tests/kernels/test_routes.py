"""Every instruction set and the NumPy route give the same sums; memory stays bounded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kdey.kernels import class_log_sums_numpy

from .cases import needs_native, pool, worst_error

BANDWIDTHS = np.array([0.01, 0.05, 0.3])


def run_python(code, *arguments, **environment):
    """Run ``code`` in a fresh interpreter; the instruction set is chosen at the first call."""
    import kdey

    source = str(Path(kdey.__file__).parents[1])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


SUMS = """
import sys
import numpy as np
from kdey.kernels import class_log_sums
data = np.load(sys.argv[1])
found = [
    class_log_sums(data["x"], data["y"], data["offsets"], data["h"], weights=weights,
                   exclude=data["exclude"], precision=precision, n_threads=2)
    for weights in (None, data["weights"]) for precision in ("mixed", "double")
]
np.save(sys.argv[2], np.stack(found))
"""


@pytest.mark.smoke
@needs_native
@pytest.mark.parametrize(
    "environment",
    [{"KDEY_ISA": "baseline"}, {"KDEY_ISA": "avx2"}, {"KDEY_ISA": "avx512"}, {"KDEY_NATIVE": "0"}],
    ids=lambda e: "-".join(e.values()),
)
def test_every_route_agrees(environment, tmp_path):
    rng = np.random.default_rng(0)
    y, offsets = pool(rng, 9, 160, 0.1)
    x = np.concatenate([pool(rng, 9, 6, 0.1)[0], y[::80]])
    weights, exclude = rng.random(len(y)), rng.integers(-1, len(y), len(x))
    np.savez(
        tmp_path / "in.npz", x=x, y=y, offsets=offsets, h=BANDWIDTHS, weights=weights,
        exclude=exclude,
    )  # fmt: skip
    run_python(SUMS, tmp_path / "in.npz", tmp_path / "out.npy", **environment)
    found = np.load(tmp_path / "out.npy")
    for at, w in ((0, None), (2, weights)):
        oracle = class_log_sums_numpy(x, y, offsets, BANDWIDTHS, w, exclude)
        assert worst_error(found[at], oracle) < 1e-4
        assert worst_error(found[at + 1], oracle) < 1e-9


MEMORY = """
import resource, sys
import numpy as np
from kdey.kernels import class_log_sums
n, m, n_bandwidths, columns = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
y = rng.random((n, columns), dtype=np.float32)
x = rng.random((m, columns), dtype=np.float32)
h = np.geomspace(0.01, 1, n_bandwidths)
offsets = np.array([0, n // 3, n])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
class_log_sums(x[:5], y[:50], [0, 25, 50], h)
before = peak()
result = class_log_sums(x, y, offsets, h, n_threads=2)
print(peak() - before - result.nbytes / 2**20)
"""


@needs_native
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in KiB on Linux")
@pytest.mark.parametrize(
    ("n", "m", "n_bandwidths", "columns"),
    [(200_000, 200, 2, 5), (2_000, 60_000, 2, 5), (5_000, 300, 200, 20), (20_000, 20, 1, 300)],
)
def test_extra_memory_is_bounded(n, m, n_bandwidths, columns):
    extra = float(run_python(MEMORY, n, m, n_bandwidths, columns))
    assert extra < 16.0  # MB; the inputs alone are up to 24
