"""Quadratic programs against enumeration of supports and scipy's NNLS."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import nnls

from kdey import native
from kdey.matching.sqp import solve_programs


def _value(gram, linear, x):
    return 0.5 * x @ gram @ x - linear @ x


def _enumerate(gram, linear, simplex):
    """Return the least value over all supports: slow, obvious."""
    k = len(linear)
    best = np.inf if simplex else 0.0
    for size in range(1, k + 1):
        for support in map(list, combinations(range(k), size)):
            part = gram[np.ix_(support, support)]
            if simplex:
                system = np.block([[part, np.ones((size, 1))], [np.ones((1, size)), 0.0]])
                right = np.append(linear[support], 1.0)
                z = np.linalg.lstsq(system, right, rcond=None)[0][:size]
            else:
                z = np.linalg.lstsq(part, linear[support], rcond=None)[0]
            if z.min() >= -1e-12 and (not simplex or abs(z.sum() - 1) < 1e-9):
                x = np.zeros(k)
                x[support] = np.maximum(z, 0)
                best = min(best, _value(gram, linear, x))
    return best


def _random(seed, k, rank):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(rank, k)) * 10.0 ** rng.uniform(-2, 2, k)
    return a.T @ a, rng.normal(size=rank) @ a, a


@pytest.mark.parametrize("simplex", [True, False])
@pytest.mark.parametrize("rank", [1, 3, 8])
def test_optimal_among_all_supports(simplex, rank, path):
    for seed in range(6):
        gram, linear, _ = _random(seed, 6, rank)
        x, _ = solve_programs(gram, linear[None], simplex=simplex)
        assert x.min() >= 0
        if simplex:
            np.testing.assert_allclose(x.sum(), 1)
        best = _enumerate(gram, linear, simplex)
        scale = np.abs(linear).max() + np.abs(gram).max()
        assert _value(gram, linear, x[0]) <= best + 1e-11 * scale


@pytest.mark.parametrize("k", [1, 2, 28, 120])
def test_as_good_as_scipy_nnls(k, path):
    rng = np.random.default_rng(k)
    a, b = rng.random((k + 5, k)), rng.random((3, k + 5))
    x, _ = solve_programs(a.T @ a, b @ a, simplex=False)
    for mine, target in zip(x, b, strict=True):
        residual = np.linalg.norm(a @ mine - target)
        assert residual <= nnls(a, target)[1] + 1e-9


@pytest.mark.parametrize("simplex", [True, False])
def test_duplicated_and_proportional_classes(simplex, path):
    rng = np.random.default_rng(0)
    a = rng.random((10, 4))
    a = np.concatenate([a, a, 2 * a], axis=1)
    b = rng.random(10)
    x, steps = solve_programs(a.T @ a, (b @ a)[None], simplex=simplex)
    y = solve_programs(a.T @ a, (b @ a)[None], simplex=simplex, start=np.full((1, 12), 1 / 12))[0]
    assert steps[0] < 170  # the limit of one pass
    values = [_value(a.T @ a, b @ a, v) for v in (x[0], y[0])]
    np.testing.assert_allclose(values[0], values[1], atol=1e-11)
    if not simplex:
        assert np.linalg.norm(a @ x[0] - b) <= nnls(a, b)[1] + 1e-9


def test_native_and_numpy_agree(needs_native, monkeypatch):
    rng = np.random.default_rng(4)
    a = rng.random((5, 40, 9))
    grams, linear = a.transpose(0, 2, 1) @ a, rng.normal(size=(5, 9)) + 10
    start = rng.dirichlet(np.full(9, 0.3), size=5)
    fast = [solve_programs(grams, linear, simplex=s, start=start)[0] for s in (True, False)]
    monkeypatch.setattr(native, "available", lambda: False)
    slow = [solve_programs(grams, linear, simplex=s, start=start)[0] for s in (True, False)]
    np.testing.assert_allclose(fast, slow, atol=1e-8)


def test_batch_threads_and_shared_gram_change_no_bit(needs_native):
    rng = np.random.default_rng(5)
    a = rng.random((30, 9))
    gram, linear = a.T @ a, rng.random((50, 30)) @ a
    many, _ = solve_programs(gram, linear, simplex=True)
    threads, _ = solve_programs(gram, linear, simplex=True, n_threads=4)
    each, _ = solve_programs(np.tile(gram, (50, 1, 1)), linear, simplex=True)
    loop = [solve_programs(gram, row[None], simplex=True)[0][0] for row in linear]
    np.testing.assert_array_equal(many, threads)
    np.testing.assert_array_equal(many, loop)
    np.testing.assert_allclose(many, each, atol=1e-12)


def test_all_pulls_negative_gives_zero(path):
    x, _ = solve_programs(np.eye(3), -np.ones((1, 3)), simplex=False)
    np.testing.assert_array_equal(x, 0)


def test_wrong_shapes_are_refused(path):
    with pytest.raises(ValueError, match="gram must have shape"):
        solve_programs(np.eye(3), np.ones((2, 4)), simplex=True)
    with pytest.raises(ValueError, match="gram must have shape"):
        solve_programs(np.zeros((3, 4, 4)), np.ones((2, 4)), simplex=True)
