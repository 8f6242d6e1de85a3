"""Where these tests run: on CPU tensors everywhere, and on a GPU where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.with_torch import needs_cuda, one_torch_thread as one_torch_thread, torch

if torch is None:
    # They import torch at the top; test_presence.py says that they did not run.
    names = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    collect_ignore = sorted(names - {"test_presence.py"})


@pytest.fixture(params=["torch-cpu", pytest.param("cuda", marks=needs_cuda)])
def device(request):
    """The name of each device, as ``device=`` takes it."""
    return request.param


@pytest.fixture
def place(device):
    """The same as torch knows it."""
    return torch.device("cpu" if device == "torch-cpu" else device)
