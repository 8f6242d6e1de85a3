"""Packed references: the same bits as without packing, shared by threads, never stored."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kdey
from kdey import KDEyML, native
from kdey.kernels import PackedReferences, class_log_sums
from kdey.rows.kernel import KernelSpec

from .cases import needs_native, pool

BANDWIDTHS = np.array([0.01, 0.05, 0.3])


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    references, offsets = pool(rng, 5, 90, 0.1)
    queries = np.concatenate([pool(rng, 5, 4, 0.1)[0], references[::40]])
    weights = rng.random(len(references)) * (rng.random(len(references)) < 0.8)
    return queries, references, offsets, weights, rng.integers(-1, len(references), len(queries))


@pytest.mark.smoke
@pytest.mark.parametrize("precision", ["mixed", "double"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_the_same_bits(problem, precision, dtype, weighted):
    queries, references, offsets, weights, exclude = problem
    y, w = references.astype(dtype), weights if weighted else None
    packed = PackedReferences(y, offsets, w, precision=precision)
    for part in (slice(None), slice(3, 4)):
        expected = class_log_sums(
            queries[part], y, offsets, BANDWIDTHS, weights=w, exclude=exclude[part],
            precision=precision,
        )  # fmt: skip
        found = packed.log_sums(queries[part], BANDWIDTHS, exclude=exclude[part], n_threads=2)
        assert np.array_equal(found, expected)


def test_several_chunks_and_more_bandwidths_than_a_pass_holds():
    rng = np.random.default_rng(1)
    references = rng.dirichlet(np.ones(120), 9000).astype(np.float32)  # 4 MB of tiles
    offsets, widths = np.array([0, 10, 10, 9000]), np.geomspace(0.02, 1.0, 35)
    queries = references[::1500]
    packed = PackedReferences(references, offsets)
    assert np.array_equal(
        packed.log_sums(queries, widths), class_log_sums(queries, references, offsets, widths)
    )


def test_without_references_every_sum_is_empty():
    packed = PackedReferences(np.empty((0, 3)), [0, 0, 0])
    assert np.array_equal(packed.log_sums(np.eye(3), [0.1]), np.full((1, 3, 2), -np.inf))


@needs_native
def test_memory_is_as_documented(problem):
    _, references, offsets, weights, _ = problem
    n, k = references.shape
    least = n * (4 * k + 4)
    for w, most in ((None, 16), (weights, 28)):
        packed = PackedReferences(np.tile(references, (20, 1)), 20 * offsets, _tiled(w))
        assert 20 * least < packed.nbytes < 1.35 * 20 * n * (4 * k + most)


def _tiled(weights):
    return None if weights is None else np.tile(weights, 20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"references": np.full((4, 2), np.nan)}, "references contains NaN"),
        ({"offsets": [0, 5]}, "offsets must rise"),
        ({"weights": [-1.0, 1, 1, 1]}, "weights must be finite"),
        ({"precision": "half"}, "precision must be"),
        ({"n_threads": 0}, "n_threads must be"),
    ],
)
def test_bad_references_are_refused(change, message):
    arguments = {"references": np.eye(2)[[0, 1, 0, 1]], "offsets": [0, 4], **change}
    with pytest.raises(ValueError, match=message):
        PackedReferences(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"queries": [[np.nan, 1.0]]}, "queries contains NaN"),
        ({"queries": np.ones((1, 3))}, "queries have 3 columns but references have 2"),
        ({"bandwidths": 0.0}, "bandwidths must be positive"),
        ({"exclude": [4]}, "exclude must lie between"),
        ({"n_threads": True}, "n_threads must be"),
    ],
)
def test_bad_queries_are_refused(arguments, message):
    packed = PackedReferences(np.eye(2)[[0, 1, 0, 1]], [0, 2, 4])
    with pytest.raises(ValueError, match=message):
        packed.log_sums(**{"queries": np.eye(2)[:1], "bandwidths": 0.1, **arguments})


@needs_native
def test_numpy_takes_over_where_the_core_is_switched_off(problem, monkeypatch):
    queries, references, offsets, _, _ = problem
    packed = PackedReferences(references, offsets, precision="double")
    native_sums = packed.log_sums(queries, 0.1)
    monkeypatch.setattr(native, "available", lambda: False)
    assert np.allclose(np.exp(packed.log_sums(queries, 0.1)), np.exp(native_sums), atol=1e-9)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(2)
    posteriors, _ = pool(rng, 3, 60)
    return KDEyML(bandwidth=0.1).fit_posteriors(posteriors, np.repeat(np.arange(3), 60))


def test_packed_once_per_fit(model):
    references = model.row_map_.references
    model.aggregate(np.eye(3))
    packed = references.packed()
    model.aggregate(np.eye(3))
    assert references.packed() is packed
    assert references.at(KernelSpec(0.3, "gaussian", 1e-3)).packed() is packed
    assert references.at(KernelSpec(0.3, "gaussian", 1e-3, "double")).packed() is not packed


def test_copies_pickles_and_files_hold_no_packed_form(model, tmp_path):
    answer = model.aggregate(np.eye(3))
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert "_derived" not in vars(other.row_map_.references)
        assert np.array_equal(other.aggregate(np.eye(3)), answer)
    fresh = copy.deepcopy(model)
    kdey.save(fresh, tmp_path / "fresh.kdey")
    kdey.save(model, tmp_path / "used.kdey")
    sizes = [(tmp_path / name).stat().st_size for name in ("fresh.kdey", "used.kdey")]
    assert sizes[0] == sizes[1]
    assert np.array_equal(kdey.load(tmp_path / "used.kdey").aggregate(np.eye(3)), answer)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(model.row_map_.references.packed())


def test_threads_share_one_packed_form():
    rng = np.random.default_rng(3)
    posteriors, _ = pool(rng, 4, 200)
    labels = np.repeat(np.arange(4), 200)
    fitted = KDEyML(bandwidth=0.1).fit_posteriors(posteriors, labels)
    expected = copy.deepcopy(fitted).aggregate(posteriors[::50])
    references = copy.deepcopy(fitted.row_map_.references)
    with ThreadPoolExecutor(8) as threads:
        forms = list(threads.map(lambda _: references.packed(), range(32)))
        answers = list(threads.map(lambda _: fitted.aggregate(posteriors[::50]), range(32)))
    assert len(set(map(id, forms))) == 1
    assert all(np.array_equal(answer, expected) for answer in answers)


@needs_native
def test_memory_is_freed_with_the_references(problem, monkeypatch):
    _, references, offsets, _, _ = problem
    freed = []
    handle = native.library()

    class Library:
        def __getattr__(self, name):
            return freed.append if name == "kdey_free_references" else getattr(handle, name)

    monkeypatch.setattr(native, "library", Library)
    packed = PackedReferences(references, offsets)
    address, alive = packed._handle, weakref.ref(packed)
    del packed
    gc.collect()
    assert alive() is None
    assert freed == [address]
    handle.kdey_free_references(address)
