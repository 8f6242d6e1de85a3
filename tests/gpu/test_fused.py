"""The fused kernel: in Triton's interpreter everywhere, compiled where there is a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.with_torch import needs_cuda

pytest.importorskip("triton", reason="Triton is not installed")
ROOT = Path(__file__).parents[2]


def test_interpreted():
    # The interpreter is chosen when Triton is imported: a process of its own.
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.fused_check"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=ROOT,
    )
    if "only 0-dimensional arrays" in done.stderr:
        pytest.skip("this Triton's interpreter does not work with this NumPy")
    assert done.returncode == 0, done.stdout + done.stderr


@needs_cuda
def test_compiled():
    from tests.gpu.fused_check import TOLERANCE, cases, error

    found = {name: error(case, torch.device("cuda"), None) for name, case in cases(True).items()}
    assert max(found.values()) < TOLERANCE, "\n".join(map(str, found.items()))


@needs_cuda
def test_every_shape_gives_the_same():
    from kdey.gpu.fused import Shape
    from tests.gpu.fused_check import TOLERANCE, cases, error

    case = cases(True)["all of it"]
    for shape in (Shape(64, 32, 4, 2), Shape(128, 128, 8, 3), Shape(64, 64, 4, 2)):
        assert error(case, torch.device("cuda"), shape) < TOLERANCE


@needs_cuda
def test_cuda_takes_the_fused_kernel():
    from kdey.gpu.sums import fused_available

    assert fused_available(torch.zeros((2, 28), device="cuda"), 100)
    assert not fused_available(torch.zeros((2, 1000), device="cuda"), 100)
    assert not fused_available(torch.zeros((2, 28), device="cuda"), 1 << 30)
    assert not fused_available(torch.zeros((2, 28)), 100)


def test_two_halves_hold_float32():
    from kdey.gpu.sums import DeviceReferences, PaddedReferences

    rng = np.random.default_rng(0)
    points = rng.dirichlet(np.full(28, 0.1), 200)
    refs = DeviceReferences.of(points, np.array([0, 90, 90, 200]), None, torch.device("cpu"))
    padded = PaddedReferences.of(refs, 1.0, 0.1)
    assert padded.starts.tolist() == [0, 96, 96, 224]
    assert np.log2(padded.scale) == int(np.log2(padded.scale))
    whole = (padded.high.double() + padded.low.double())[:, :28] / padded.scale
    wanted = refs.points
    held = whole[padded.position[:-1]]
    assert float((held - wanted).abs().max()) < 2.0**-23
    assert padded.position[-1] == -1


@pytest.mark.parametrize("shift", [0.0, 1000.0])
@pytest.mark.parametrize(("columns", "folded"), [(14, True), (15, False), (30, True), (31, False)])
def test_norms_are_columns_where_there_is_room(columns, folded, shift):
    from kdey.gpu.sums import DeviceReferences, PaddedReferences

    rng = np.random.default_rng(columns)
    points = shift + rng.dirichlet(np.full(columns, 0.1), 100)
    refs = DeviceReferences.of(points, np.array([0, 100]), None, torch.device("cpu"))
    queries = torch.from_numpy(shift + rng.dirichlet(np.full(columns, 0.1), 5)).float()
    padded = PaddedReferences.of(refs, float(queries.max()), 0.1)
    assert (padded.half_norms is None) == folded
    x = (padded.queries(queries) - padded.centres).double()
    u = x @ (padded.high.double() + padded.low.double()).T
    u -= 0.0 if padded.half_norms is None else padded.half_norms.double()
    references = refs.points * padded.scale
    wanted = x[:, :columns] @ references.T - (references**2).sum(dim=1) / 2
    # Both have about float32's precision, relative to the largest norms.
    largest = float((references**2).sum(dim=1).max())
    assert float((u[:, :100] - wanted).abs().max()) < 2.0**-21 * largest
    assert float(wanted.min()) > padded.empty > float(u[:, 100:].max())


def test_references_are_packed_once():
    from kdey.gpu.sums import DeviceReferences, PaddedReferences

    points = np.random.default_rng(0).dirichlet(np.ones(4), 10)
    refs = DeviceReferences.of(points, np.array([0, 10]), None, torch.device("cpu"))
    first = PaddedReferences.of(refs, 0.9, 0.1)
    assert PaddedReferences.of(refs, 0.97, 0.1) is first
    other = PaddedReferences.of(refs, 0.97, 1000.0)
    assert other.scale < first.scale
    again = PaddedReferences.of(refs, 0.9, 0.1)
    assert again is not first
    assert torch.equal(again.high, first.high)


def test_wide_bandwidths_lower_the_scale():
    from kdey.gpu.sums import DeviceReferences, PaddedReferences

    points = np.random.default_rng(0).dirichlet(np.ones(4), 10)
    refs = DeviceReferences.of(points, np.array([0, 10]), None, torch.device("cpu"))
    scales = [PaddedReferences.of(refs, 1.0, h).scale for h in (0.1, 1.0, 1000.0)]
    assert scales[0] == scales[1] == 512.0
    assert scales[2] == 4.0
