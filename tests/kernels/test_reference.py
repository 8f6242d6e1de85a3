"""The oracle itself, against the formula written out."""

from __future__ import annotations

import math

import numpy as np

from kdey.kernels import QUERY_BLOCK, REFERENCE_BLOCK, class_log_sums_numpy

from .cases import pool


def written_out(x, y, h, weights, left_out, members):
    terms = [
        float(weights[r]) * math.exp(-math.fsum((x - y[r]) ** 2) / (2 * h * h))
        for r in members
        if r != left_out
    ]
    total = math.fsum(terms)
    return math.log(total) if total > 0 else -math.inf


def test_against_the_formula():
    rng = np.random.default_rng(0)
    references, offsets = pool(rng, 3, 20)
    queries, _ = pool(rng, 3, 3)
    weights = rng.random(len(references)).round(1)
    exclude = rng.integers(-1, len(references), len(queries))
    bandwidths = np.array([0.1, 0.7])
    found = class_log_sums_numpy(queries, references, offsets, bandwidths, weights, exclude)
    for b, h in enumerate(bandwidths):
        for j in range(len(queries)):
            for i in range(3):
                members = range(offsets[i], offsets[i + 1])
                wanted = written_out(queries[j], references, h, weights, exclude[j], members)
                assert math.isclose(found[b, j, i], wanted, rel_tol=1e-12, abs_tol=1e-12)


def test_blocks_join_without_a_seam():
    rng = np.random.default_rng(1)
    n, m = REFERENCE_BLOCK + 3, QUERY_BLOCK + 3
    y, x = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    found = class_log_sums_numpy(x, y, np.array([0, n]), np.array([0.5]))[0, :, 0]
    squared = ((x[:, None] - y[None]) ** 2).sum(axis=2)
    assert np.allclose(found, np.log(np.exp(-squared / 0.5).sum(axis=1)), rtol=1e-12)


def test_nothing_underflows():
    found = class_log_sums_numpy(
        np.zeros((1, 1)), np.array([[1.0], [2.0]]), np.array([0, 1, 2]), np.array([1e-4])
    )
    assert np.allclose(found[0, 0], [-0.5e8, -2e8])
