"""What the folders of tests with torch share; other folders do not import torch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

try:
    import torch
except ImportError:
    torch = None

needs_cuda = pytest.mark.skipif(
    torch is None or not torch.cuda.is_available(), reason="no CUDA device"
)


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> Iterator[None]:
    """Hold torch to one thread, as ``one_blas_thread`` holds BLAS, if it is installed."""
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
