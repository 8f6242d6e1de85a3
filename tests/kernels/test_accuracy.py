"""The native kernel against the NumPy oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kdey.kernels import class_log_sums, class_log_sums_numpy, transform

from .cases import class_log_sums_native, needs_native, one_hot_pool, pool, worst_error

pytestmark = needs_native

BANDWIDTHS = {"gaussian": [0.01, 0.03, 0.1, 0.4], "aitchison": [0.05, 0.3, 1.0, 3.0]}
TOLERANCE = {"mixed": 1e-4, "double": 1e-9}


@pytest.mark.parametrize("precision", ["mixed", "double"])
@pytest.mark.parametrize("kernel", ["gaussian", "aitchison"])
@pytest.mark.parametrize("n_classes", [2, 3, 28, 100])
@pytest.mark.parametrize("spread", [0.02, 0.3])
def test_every_geometry_and_class_count(n_classes, kernel, precision, spread):
    rng = np.random.default_rng(n_classes)
    references, offsets = pool(rng, n_classes, 2400 // n_classes, spread)
    queries, _ = pool(rng, n_classes, 120 // n_classes + 1, spread)
    x, y = transform(queries, kernel), transform(references, kernel)
    bandwidths = np.array(BANDWIDTHS[kernel])
    oracle = class_log_sums_numpy(x, y, offsets, bandwidths)
    found = class_log_sums(x, y, offsets, bandwidths, precision=precision)
    assert worst_error(found, oracle) < TOLERANCE[precision]
    for h in range(len(bandwidths)):  # alone each bandwidth chooses its own arithmetic
        alone = class_log_sums(x, y, offsets, bandwidths[h], precision=precision)
        assert worst_error(alone, oracle[h : h + 1]) < TOLERANCE[precision]


@pytest.mark.parametrize("precision", ["mixed", "double"])
@pytest.mark.parametrize("n_classes", [2, 5, 40])
def test_one_hot_posteriors_and_duplicates(n_classes, precision):
    rng = np.random.default_rng(1)
    references, offsets = one_hot_pool(rng, n_classes, 60)
    queries, _ = one_hot_pool(rng, n_classes, 3)
    bandwidths = np.array([0.01, 0.1, 1.0])
    for kernel in ("gaussian", "aitchison"):
        x, y = transform(queries, kernel), transform(references, kernel)
        oracle = class_log_sums_numpy(x, y, offsets, bandwidths)
        found = class_log_sums(x, y, offsets, bandwidths, precision=precision)
        assert worst_error(found, oracle) < TOLERANCE[precision]


@pytest.mark.parametrize("precision", ["mixed", "double"])
@pytest.mark.parametrize("bandwidth", [1e-8, 1e-4, 1e-3, 5.0, 1e6, 1e40])
def test_absurd_bandwidths(bandwidth, precision):
    rng = np.random.default_rng(2)
    references, offsets = pool(rng, 4, 300)
    queries = np.concatenate([pool(rng, 4, 10)[0], references[::97]])
    oracle = class_log_sums_numpy(queries, references, offsets, np.array([bandwidth]))
    found = class_log_sums(queries, references, offsets, bandwidth, precision=precision)
    # Below h = 1e-4 an exponent near 1e16 has no digits left after the point, in the oracle too.
    seen = (oracle.max(axis=-1) > -1e5)[..., None]
    assert worst_error(np.where(seen, found, 0.0), np.where(seen, oracle, 0.0)) < 1e-4
    assert np.allclose(found.max(axis=-1), oracle.max(axis=-1), rtol=1e-9, atol=1e-4)


@pytest.mark.parametrize("precision", ["mixed", "double"])
def test_queries_far_from_every_reference(precision):
    rng = np.random.default_rng(3)
    references, offsets = pool(rng, 6, 200, 0.05)
    queries = 1.0 / 6 + rng.normal(0, 1e-3, (30, 6))
    for h in (0.01, 0.03, 0.1):
        for centre in (0.0, 10.0, 300.0):
            oracle = class_log_sums_numpy(queries + centre, references, offsets, np.array([h]))
            found = class_log_sums(queries + centre, references, offsets, h, precision=precision)
            assert np.allclose(found.max(axis=-1), oracle.max(axis=-1), rtol=1e-12, atol=1e-4)
            if centre < 100:  # beyond, float64 exponents themselves err by more
                assert worst_error(found, oracle) < 1e-4


@pytest.mark.parametrize("precision", ["mixed", "double"])
def test_a_common_offset_does_not_matter(precision):
    # Far from the origin float32 coordinates have few digits; centred ones keep them.
    rng = np.random.default_rng(4)
    references, offsets = pool(rng, 5, 200)
    queries, _ = pool(rng, 5, 20)
    moved = class_log_sums(
        queries + 64.0, references + 64.0, offsets, [0.01, 0.1], precision=precision
    )
    oracle = class_log_sums_numpy(queries, references, offsets, np.array([0.01, 0.1]))
    assert worst_error(moved, oracle) < TOLERANCE["mixed"]


def test_float32_input_is_taken_as_it_is():
    rng = np.random.default_rng(5)
    references, offsets = pool(rng, 7, 150)
    queries, _ = pool(rng, 7, 20)
    x, y = queries.astype(np.float32), references.astype(np.float32)
    oracle = class_log_sums_numpy(x, y, offsets, np.array([0.02, 0.2]))
    for a, b in ((x, y), (x.astype(float), y), (x, y.astype(float))):
        assert worst_error(class_log_sums(a, b, offsets, [0.02, 0.2]), oracle) < 1e-4
        found = class_log_sums(a, b, offsets, [0.02, 0.2], precision="double")
        assert worst_error(found, oracle) < 1e-9


def test_huge_ratios_of_weights():
    rng = np.random.default_rng(6)
    references, offsets = pool(rng, 3, 200)
    queries, _ = pool(rng, 3, 30)
    weights = 10.0 ** rng.uniform(-300, 300, len(references))
    bandwidths = np.array([0.01, 0.05, 0.5])
    oracle = class_log_sums_numpy(queries, references, offsets, bandwidths, weights)
    for precision in ("mixed", "double"):
        found = class_log_sums(
            queries, references, offsets, bandwidths, weights=weights, precision=precision
        )
        assert worst_error(found, oracle) < TOLERANCE[precision]


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_columns=st.integers(1, 70),
    sizes=st.lists(st.integers(0, 90), min_size=1, max_size=6),
    n_queries=st.integers(0, 60),
    log_bandwidths=st.lists(st.floats(-4, 1), min_size=1, max_size=4),
    block_size=st.sampled_from([0, 1, 7, 32, 100]),
    weighted=st.booleans(),
    excluding=st.booleans(),
    double=st.booleans(),
    skip=st.booleans(),
    single=st.booleans(),
)
def test_anything_goes(
    seed, n_columns, sizes, n_queries, log_bandwidths, block_size, weighted, excluding, double,
    skip, single,
):  # fmt: skip
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n = int(offsets[-1])
    dtype = np.float32 if single else np.float64
    scale = 10.0 ** rng.uniform(-2, 1)
    y = (rng.normal(size=(n, n_columns)) * scale).astype(dtype)
    x = (rng.normal(size=(n_queries, n_columns)) * scale).astype(dtype)
    if n and n_queries:
        x[::2] = y[rng.integers(0, n, len(x[::2]))]
    bandwidths = np.array(10.0 ** np.array(log_bandwidths)) * scale
    weights = rng.random(n) * (rng.random(n) < 0.7) if weighted else None
    exclude = rng.integers(-1, n, n_queries) if excluding else None
    oracle = class_log_sums_numpy(x, y, offsets, bandwidths, weights, exclude)
    found = class_log_sums_native(
        x, y, offsets, bandwidths, weights, exclude, double=double, block_size=block_size, skip=skip
    )
    assert worst_error(found, oracle) < TOLERANCE["double" if double else "mixed"]


@pytest.mark.parametrize("n_classes", [28, 100])
def test_coordinates_that_are_all_alike(n_classes):
    # Log-ratios of one-hot posteriors: float32 rounding errors all point the same way. The
    # queries lie midway, where two classes compete.
    rng = np.random.default_rng(7)
    references, offsets = one_hot_pool(rng, n_classes, 10)
    queries = 0.5 * (references[rng.integers(0, len(references), (2, 80))]).sum(axis=0)
    bandwidths = np.geomspace(0.05, 10.0, 40)
    for shrinkage in (1e-6, 1e-3, 0.1):
        x, y = transform(queries, "aitchison", shrinkage), transform(references, "ilr", shrinkage)
        oracle = class_log_sums_numpy(x, y, offsets, bandwidths)
        for h in range(len(bandwidths)):
            found = class_log_sums(x, y, offsets, bandwidths[h])
            assert worst_error(found, oracle[h : h + 1]) < 1e-4


@needs_native
@pytest.mark.parametrize("weights", [None, [2.0, 0.5]])
@pytest.mark.parametrize("precision", ["mixed", "double"])
def test_bandwidths_whose_scale_float32_cannot_hold(weights, precision):
    """Found by fuzz/native: zero distance times an infinite scale was NaN, and the sum -inf."""
    points = np.array([[0.25], [0.5]])
    offsets, h = np.array([0, 1, 2]), [1e-17, 1e-19, 1e-30, 1e-50]
    for chosen in (h, *([one] for one in h)):
        sums = class_log_sums(points, points, offsets, chosen, weights=weights, precision=precision)
        for at_h in sums:
            np.testing.assert_allclose(
                np.diag(at_h), np.log([1.0, 1.0] if weights is None else weights), atol=1e-4
            )
            assert np.isneginf(at_h[0, 1])
            assert np.isneginf(at_h[1, 0])
