"""The kernel sums on a device give the oracle's numbers, in tiles of any size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kdey.gpu import sums as plain
from kdey.gpu.sums import DeviceReferences, class_log_sums, plain_log_sums
from tests.gpu.cases import sums
from tests.kernels.cases import worst_error
from tests.with_torch import needs_cuda

#: Of exp(l - max l), for bandwidths that float32 serves.
FLOAT32 = 1e-4


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize("k", [3, 5, 28])
def test_oracle(place, weighted, leaving, k):
    case = sums(k, k=k, n=40 * k, weighted=weighted, leaving=leaving)
    found = case.on(class_log_sums, device=place).cpu().double().numpy()
    assert worst_error(found, case.oracle()) < FLOAT32


def test_double(place):
    case = sums(1, bandwidths=(0.003, 0.1), weighted=True)
    found = case.on(class_log_sums, device=place, precision="double").cpu()
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), case.oracle(), rtol=1e-9, atol=1e-9)


def test_narrow_bandwidths_are_double(place):
    case = sums(2, bandwidths=(0.1, 0.001, 0.2))
    found = case.on(class_log_sums, device=place).cpu().numpy()
    wanted = case.oracle()
    assert found.dtype == np.float64
    assert worst_error(found, wanted) < FLOAT32
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-9)


def test_far_from_zero_the_centres_help(place):
    # Expanded norms around the origin would be off by 2e-7 * 1e4 / 1e-2 here.
    case = sums(3, bandwidths=(0.1,))
    moved = sums(3, bandwidths=(0.1,))
    moved.queries[:] += 100.0
    moved.references[:] += 100.0
    found = moved.on(class_log_sums, device=place, precision="mixed").cpu().double().numpy()
    assert worst_error(found, case.oracle()) < 1e-3


def test_weights_are_repetitions(place):
    case = sums(4)
    counts = np.random.default_rng(0).integers(0, 4, len(case.references))
    weighted = class_log_sums(
        *(case.queries, case.references, case.offsets, case.bandwidths),
        weights=counts.astype(float),
        device=place,
    )
    labels = np.repeat(np.repeat(np.arange(5), np.diff(case.offsets)), counts)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=5))])
    repeated = np.repeat(case.references, counts, axis=0)
    plainly = class_log_sums(case.queries, repeated, offsets, case.bandwidths, device=place)
    difference = worst_error(weighted.cpu().double().numpy(), plainly.cpu().double().numpy())
    assert difference < FLOAT32


def test_tiles_do_not_matter(monkeypatch):
    case = sums(5, weighted=True, leaving=True)
    whole = case.on(class_log_sums)
    monkeypatch.setattr(plain, "_REFERENCES", 7)
    monkeypatch.setattr(plain, "_TILE", {"cpu": 21})
    parts = case.on(class_log_sums)
    assert worst_error(parts.double().numpy(), whole.double().numpy()) < 1e-5


def test_a_tensor_is_read_where_it_lies(place):
    case = sums(6)
    queries = torch.from_numpy(case.queries).to(place)
    found = class_log_sums(queries, case.references, case.offsets, case.bandwidths)
    assert found.device.type == place.type
    assert worst_error(found.cpu().double().numpy(), case.oracle()) < FLOAT32


def test_all_references_left_out_or_weightless(place):
    x = np.array([[0.2, 0.8], [0.5, 0.5]])
    y = np.array([[0.3, 0.7], [0.6, 0.4], [0.5, 0.5]])
    found = class_log_sums(
        x,
        y,
        np.array([0, 1, 3]),
        [0.1],
        weights=np.array([1.0, 0.0, 0.0]),
        exclude=np.array([0, -1]),
        device=place,
    ).cpu()
    assert torch.isneginf(found[0, 0, 0])
    assert torch.isfinite(found[0, 1, 0])
    assert torch.isneginf(found[0, :, 1]).all()


def test_out_of_memory_halves_the_tile(monkeypatch):
    case = sums(7, m=64)
    wanted = case.on(class_log_sums)
    tried = []
    inner = plain._class_sums

    def short_of_memory(x, *rest):
        tried.append(len(x))
        if len(x) > 10:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return inner(x, *rest)

    monkeypatch.setattr(plain, "_class_sums", short_of_memory)
    found = case.on(class_log_sums)
    assert tried[:4] == [64, 32, 16, 8]
    assert worst_error(found.double().numpy(), wanted.double().numpy()) < 1e-6


@needs_cuda
def test_a_gpu_that_is_truly_full(monkeypatch):
    rng = np.random.default_rng(0)
    queries, references = rng.dirichlet(np.ones(4), 200_000), rng.dirichlet(np.ones(4), 4_000)
    refs = DeviceReferences.of(references, np.array([0, 1000, 4000]), None, torch.device("cuda"))
    x = torch.from_numpy(queries).float().cuda()
    wanted = plain_log_sums(x, refs, [0.1], None, torch.float32)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    monkeypatch.setattr(plain, "_TILE", {"cuda": 1 << 32})  # 17 GB for one matrix
    try:
        torch.cuda.set_per_process_memory_fraction(
            (torch.cuda.memory_reserved() + (1 << 30)) / total
        )
        found = plain_log_sums(x, refs, [0.1], None, torch.float32)
        peak = torch.cuda.max_memory_reserved()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert peak < 3 << 30
    torch.testing.assert_close(found, wanted)


def test_no_tile_is_small_enough(monkeypatch):
    case = sums(8)

    def no_memory(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(plain, "_class_sums", no_memory)
    with pytest.raises(torch.OutOfMemoryError):
        case.on(class_log_sums)


def test_other_errors_pass(monkeypatch):
    case = sums(9)

    def broken(*arguments):
        raise RuntimeError("not about memory")

    monkeypatch.setattr(plain, "_class_sums", broken)
    with pytest.raises(RuntimeError, match="not about memory"):
        case.on(class_log_sums)


def test_no_queries(place):
    case = sums(10)
    refs = DeviceReferences.of(case.references, case.offsets, None, place)
    empty = torch.empty((0, 5), device=place)
    assert plain_log_sums(empty, refs, [0.1], None, torch.float32).shape == (1, 0, 5)
    assert class_log_sums(empty, case.references, case.offsets, [0.1, 0.2]).shape == (2, 0, 5)
