"""What must not change the log-sums: threads, company, blocks, order; and what must."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kdey.kernels import class_log_sums, class_log_sums_numpy

from .cases import class_log_sums_native, needs_native, pool, worst_error

BANDWIDTHS = np.array([0.01, 0.05, 0.3])


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    references, offsets = pool(rng, 6, 400, 0.1)
    queries, _ = pool(rng, 6, 40, 0.1)
    queries[::3] = references[rng.integers(0, len(references), len(queries[::3]))]
    return queries, references, offsets


@pytest.fixture(scope="module")
def extras(problem):
    queries, references, _ = problem
    rng = np.random.default_rng(1)
    weights = rng.random(len(references)) * (rng.random(len(references)) < 0.8)
    return weights, rng.integers(-1, len(references), len(queries))


@needs_native
@pytest.mark.parametrize("precision", ["mixed", "double"])
def test_bit_identical_for_every_thread_count(problem, extras, precision):
    weights, exclude = extras
    results = [
        class_log_sums(
            *problem, BANDWIDTHS, weights=weights, exclude=exclude, precision=precision, n_threads=t
        )
        for t in (1, 2, 3, 16)
    ]
    for other in results[1:]:
        assert np.array_equal(results[0], other)


@needs_native
@pytest.mark.parametrize("precision", ["mixed", "double"])
def test_a_query_does_not_feel_its_company(problem, extras, precision):
    queries, references, offsets = problem
    weights, exclude = extras
    together = class_log_sums(
        queries, references, offsets, BANDWIDTHS, weights=weights, exclude=exclude,
        precision=precision,
    )  # fmt: skip
    for part in ([0], [7], [3, 200, 11, 90], list(range(5, 66))):
        alone = class_log_sums(
            queries[part], references, offsets, BANDWIDTHS, weights=weights, exclude=exclude[part],
            precision=precision,
        )  # fmt: skip
        assert np.array_equal(alone, together[:, part])


ISAS = ["baseline", "avx2", "avx512"]


@pytest.fixture(scope="module")
def wide_problem():
    # Random posteriors of many classes: cutting a class in two hardly narrows it, so that blocks
    # are merged; the last 14 queries are corners, from which powers underflow.
    rng = np.random.default_rng(5)
    references = rng.dirichlet(np.ones(28), 1300)
    queries = np.concatenate([rng.dirichlet(np.ones(28), 30), np.eye(28)[:14]])
    return queries[rng.permutation(len(queries))], references, np.array([0, 700, 1300])


@needs_native
@pytest.mark.parametrize("isa", ISAS)
def test_powers_that_underflow_change_no_bits_of_others(wide_problem, isa, monkeypatch):
    monkeypatch.setenv("KDEY_ISA", isa)
    queries, references, offsets = wide_problem
    h = np.array([0.05, 0.1, 2.0])
    together = class_log_sums_native(*wide_problem, h, skip=False)
    assert worst_error(together, class_log_sums_numpy(*wide_problem, h)) < 1e-4
    for j in range(len(queries)):
        alone = class_log_sums_native(queries[[j]], references, offsets, h, skip=False)
        assert np.array_equal(alone[:, 0], together[:, j])


@needs_native
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("n_columns", [3, 8, 13, 17, 21, 28, 45, 70])
def test_one_bandwidth_in_any_company(n_columns, isa, monkeypatch):
    # Powers stand between products, more or fewer of them for each number of columns, in batches
    # of 12, 8, 6, 4 and 2 queries; the last reference tile is not whole. From the corners some
    # powers underflow.
    monkeypatch.setenv("KDEY_ISA", isa)
    rng = np.random.default_rng(n_columns)
    references, offsets = rng.dirichlet(np.ones(n_columns), 150), np.array([0, 74, 150])
    queries = np.concatenate([rng.dirichlet(np.ones(n_columns), 38), np.eye(n_columns)[:3]])
    for h in (0.08, 0.3):
        together = class_log_sums_native(queries, references, offsets, np.array([h]), skip=False)
        oracle = class_log_sums_numpy(queries, references, offsets, np.array([h]))
        assert worst_error(together, oracle) < 1e-4
        for part in ([0], [40], [1, 2, 3], range(5), range(7), range(31, 41), range(12)):
            alone = class_log_sums_native(
                queries[part], references, offsets, np.array([h]), skip=False
            )
            assert np.array_equal(alone, together[:, part])


@needs_native
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_nearest_reference_may_stand_anywhere_in_a_large_block(
    wide_problem, isa, weighted, monkeypatch
):
    # Every query is a reference, and all others are too far away to matter beside it.
    monkeypatch.setenv("KDEY_ISA", isa)
    _, references, offsets = wide_problem
    queries, h = references[::10], np.array([0.004, 0.3])
    weights = np.random.default_rng(6).random(len(references)) if weighted else None
    found = class_log_sums(queries, references, offsets, h, weights=weights)
    oracle = class_log_sums_numpy(queries, references, offsets, h, weights)
    assert worst_error(found, oracle) < 1e-4


@needs_native
@pytest.mark.parametrize("block_size", [1, 5, 31, 64, 200, 5000])
def test_block_size_does_not_matter(problem, extras, block_size):
    # At one reference per block the 2,400 references also take several chunks.
    weights, exclude = extras
    oracle = class_log_sums_numpy(*problem, BANDWIDTHS, weights, exclude)
    for double, tolerance in ((False, 1e-4), (True, 1e-9)):
        found = class_log_sums_native(
            *problem, BANDWIDTHS, weights, exclude, double=double, block_size=block_size
        )
        assert worst_error(found, oracle) < tolerance


@needs_native
def test_chunks_in_any_order_of_nearness():
    # Each class is its own chunk or more; the nearest comes first, last or in between.
    rng = np.random.default_rng(2)
    references, offsets = pool(rng, 3, 1100, 0.1)
    queries, _ = pool(rng, 3, 15, 0.1)
    exclude = rng.integers(-1, len(references), len(queries))
    oracle = class_log_sums_numpy(queries, references, offsets, BANDWIDTHS, None, exclude)
    for double, tolerance in ((False, 1e-4), (True, 1e-9)):
        found = class_log_sums_native(
            queries, references, offsets, BANDWIDTHS, None, exclude, double=double, block_size=1
        )
        assert worst_error(found, oracle) < tolerance


@needs_native
def test_skipping_does_not_matter(problem):
    on = class_log_sums_native(*problem, BANDWIDTHS)
    off = class_log_sums_native(*problem, BANDWIDTHS, skip=False)
    assert worst_error(on, off) < 1e-6
    assert np.isinf(on).sum() > np.isinf(off).sum()  # something was skipped


@needs_native
def test_many_bandwidths_equal_one_at_a_time(problem):
    bandwidths = np.geomspace(0.01, 2.0, 70)
    together = class_log_sums(*problem, bandwidths)
    oracle = class_log_sums_numpy(*problem, bandwidths)
    assert worst_error(together, oracle) < 1e-4
    for h in (0, 31, 32, 69):
        alone = class_log_sums(*problem, bandwidths[h])
        assert worst_error(alone, together[h : h + 1]) < 1e-4


def test_excluding_equals_removing(problem):
    queries, references, offsets = problem
    left_out = np.array([5, 700, 2399, -1])
    found = class_log_sums(queries[:4], references, offsets, BANDWIDTHS, exclude=left_out)
    for j, row in enumerate(left_out):
        kept = np.ones(len(references))
        if row >= 0:
            kept[row] = 0.0
        wanted = class_log_sums_numpy(queries[j : j + 1], references, offsets, BANDWIDTHS, kept)
        assert worst_error(found[:, j : j + 1], wanted) < 1e-4


def test_leave_one_out_is_never_dominated_by_the_point_itself(problem):
    _, references, offsets = problem
    own = np.arange(len(references))
    found = class_log_sums(references, references, offsets, BANDWIDTHS, exclude=own)
    oracle = class_log_sums_numpy(references, references, offsets, BANDWIDTHS, None, own)
    assert worst_error(found, oracle) < 1e-4


def test_weights_equal_repetition(problem):
    queries, references, offsets = problem
    rng = np.random.default_rng(3)
    times = rng.integers(0, 4, len(references))
    repeated = np.repeat(references, times, axis=0)
    counts = np.add.reduceat(times, offsets[:-1])
    repeated_offsets = np.concatenate([[0], np.cumsum(counts)])
    weighted = class_log_sums(queries, references, offsets, BANDWIDTHS, weights=times)
    plain = class_log_sums(queries, repeated, repeated_offsets, BANDWIDTHS)
    assert worst_error(weighted, plain) < 1e-4


def test_order_within_a_class_does_not_matter(problem):
    queries, references, offsets = problem
    rng = np.random.default_rng(4)
    order = np.concatenate(
        [rng.permutation(np.arange(a, b)) for a, b in itertools.pairwise(offsets)]
    )
    found = class_log_sums(queries, references[order], offsets, BANDWIDTHS)
    assert worst_error(found, class_log_sums(queries, references, offsets, BANDWIDTHS)) < 1e-4


def test_permuting_classes_permutes_columns(problem):
    queries, references, offsets = problem
    blocks = [references[a:b] for a, b in itertools.pairwise(offsets)]
    order = [3, 0, 5, 1, 4, 2]
    moved = np.concatenate([blocks[i] for i in order])
    found = class_log_sums(queries, moved, offsets, BANDWIDTHS)
    wanted = class_log_sums(queries, references, offsets, BANDWIDTHS)[:, :, order]
    assert worst_error(found, wanted) < 1e-4
