"""These tests train with torch, where it is installed."""

from __future__ import annotations

import pytest

try:
    import torch
except ImportError:
    torch = None
    # test_presence.py in tests/gpu says that tests with torch did not run.
    collect_ignore = ["test_histogram_network.py", "test_training.py"]


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread():
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
