"""What ``device=`` means, and where tensors go."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

import kdey
from kdey.simplex import check_posteriors, posteriors_on
from kdey.validation import AUTO_PAIRS, as_tensor, choose_device, device_name, on_host
from tests.gpu.cases import problem
from tests.with_torch import needs_cuda


@pytest.mark.parametrize("given", ["cpu", "auto", "cuda", "cuda:1", "torch-cpu"])
def test_names(given):
    assert device_name(given) == given


def test_torch_devices():
    assert device_name(torch.device("cpu")) == "torch-cpu"
    assert device_name(torch.device("cuda:0")) == "cuda:0"


@pytest.mark.parametrize("given", ["gpu", "cuda:", "CPU", None, 0, True])
def test_other_names_are_refused(given):
    with pytest.raises(ValueError, match="device must be one of"):
        device_name(given)
    P, y, _, _ = problem()
    with pytest.raises(ValueError, match="device must be one of"):
        kdey.KDEyML(bandwidth=0.1, device=given).fit_posteriors(P, y)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_cuda_is_said():
    P, y, Q, bags = problem()
    fitted = kdey.KDEyML(bandwidth=0.1, device="cuda").fit_posteriors(P, y)
    with pytest.raises(RuntimeError, match=r"device='cuda', but torch .* sees 0 CUDA"):
        fitted.aggregate_bags(Q, bags)


def test_too_high_a_number_is_said():
    with pytest.raises(RuntimeError, match="device='cuda:99'"):
        choose_device("cuda:99", 1.0)


def test_auto_goes_by_size(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto", AUTO_PAIRS / 2) is None
    assert choose_device("auto", AUTO_PAIRS * 2) == torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto", AUTO_PAIRS * 2) is None
    assert choose_device("cpu", 1e20) is None


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert choose_device("auto", 1e20) is None
    with pytest.raises(ImportError, match=r"device='cuda' needs torch: pip install 'kdey\[gpu\]'"):
        choose_device("cuda", 1.0)


def test_small_work_does_not_import_torch():
    code = (
        "import sys, numpy as np, kdey\n"
        "P = np.random.default_rng(0).dirichlet(np.ones(3), 60); y = np.arange(60) % 3\n"
        "kdey.KDEyML(bandwidth=0.1, device='auto').fit_posteriors(P, y).aggregate(P)\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_host_tensors_are_not_copied():
    tensor = torch.rand(4, 3)
    assert as_tensor(tensor, torch.device("cpu")).data_ptr() == tensor.data_ptr()
    array = on_host(tensor)
    assert array.ctypes.data == tensor.data_ptr()
    array = np.random.default_rng(0).dirichlet(np.ones(3), 5)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = posteriors_on(array, np.arange(3), torch.device("cpu"))
    assert made.data_ptr() == array.ctypes.data


def test_tensors_with_gradients(place):
    rows = torch.full((4, 2), 0.5, requires_grad=True, device=place)
    assert check_posteriors(rows).tolist() == [[0.5, 0.5]] * 4
    assert not posteriors_on(rows, np.arange(2), place).requires_grad


@needs_cuda
def test_gpu_tensors_stay(monkeypatch):
    P, y, Q, bags = problem()
    fitted = kdey.KDEyML(bandwidth=0.1).fit_posteriors(P, y)
    wanted = fitted.aggregate_bags(Q, bags)
    tensor = torch.from_numpy(Q).cuda()
    assert posteriors_on(tensor, np.arange(5), tensor.device).data_ptr() == tensor.data_ptr()
    np.testing.assert_allclose(fitted.aggregate_bags(tensor, bags), wanted, atol=1e-4)


@needs_cuda
def test_gpu_tensors_without_a_route():
    P, y, Q, _ = problem()
    for method in (kdey.PACC(), kdey.EMQ(solver="em"), kdey.KDEyML(bandwidth=0.1)):
        fitted = method.fit_posteriors(torch.from_numpy(P).cuda(), y)
        tensor = torch.from_numpy(Q).cuda()
        np.testing.assert_allclose(fitted.aggregate(tensor), fitted.aggregate(Q), atol=1e-4)
        low = fitted.estimate_posteriors(tensor, options=kdey.Options(method="analytic")).low
        np.testing.assert_allclose(
            low,
            fitted.estimate_posteriors(Q, options=kdey.Options(method="analytic")).low,
            atol=1e-6,
        )


def test_bad_posteriors_are_told_as_on_the_host(place):
    good = np.full((3, 2), 0.5)
    for bad, message in (
        (np.array([[0.5, 0.5], [np.nan, 1.0]]), r"NaN or infinity \(first in row 1\)"),
        (np.array([[0.5, 0.5], [0.7, 0.7]]), "row 1 sums to 1.4"),
        (np.array([[1.5, -0.5]]), "negative values"),
        (good[:, :1], "1 columns"),
        (good[0], "shape"),
        (good[:0], "empty"),
    ):
        with pytest.raises(ValueError, match=message):
            posteriors_on(as_tensor(bad, place), np.arange(2), place)
    noisy = np.array([[1.0 + 1e-10, -1e-10]])
    assert posteriors_on(noisy, np.arange(2), place).min() == 0
    assert posteriors_on([[0, 1], [1, 0]], np.arange(2), place).dtype == torch.float64
