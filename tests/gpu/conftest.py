"""Where these tests run: on CPU tensors everywhere, and on a GPU where there is one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra 'gpu')")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["torch-cpu", pytest.param("cuda", marks=needs_cuda)])
def device(request):
    """The name of each device, as ``device=`` takes it."""
    return request.param


@pytest.fixture
def place(device):
    """The same as torch knows it."""
    return torch.device("cpu" if device == "torch-cpu" else device)
