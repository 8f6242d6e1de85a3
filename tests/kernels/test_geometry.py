"""The transforms of the posteriors."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.kernels import KERNELS, transform

from .cases import pool

P, _ = pool(np.random.default_rng(0), 5, 8)


def test_gaussian_is_the_identity_without_a_copy():
    assert transform(P, "gaussian") is P
    single = P.astype(np.float32)
    assert transform(single, "gaussian", 0.5) is single


def test_centred_log_ratios():
    s = 0.01
    shrunk = (1 - s) * P + s / 5
    z = transform(P, "aitchison", s)
    assert np.allclose(z.sum(axis=1), 0, atol=1e-12)
    assert np.allclose(z[:, 0] - z[:, 3], np.log(shrunk[:, 0] / shrunk[:, 3]))
    assert z.dtype == np.float64


def test_distances_are_those_of_an_isometric_basis():
    # Helmert's basis, the usual ilr: orthonormal and orthogonal to the ones.
    basis = np.array([[1.0] * i + [-i] + [0.0] * (4 - i) for i in range(1, 5)])
    basis /= np.linalg.norm(basis, axis=1, keepdims=True)
    log_ratios = np.log(P * 0.9 + 0.02) @ basis.T
    z = transform(P, "ilr", 0.1)
    assert np.allclose(
        np.linalg.norm(z[0] - z[1:], axis=1),
        np.linalg.norm(log_ratios[0] - log_ratios[1:], axis=1),
    )


def test_ilr_is_an_alias():
    assert np.array_equal(transform(P, "ilr", 0.02), transform(P, "aitchison", 0.02))
    assert KERNELS == ("gaussian", "aitchison", "ilr")


def test_exact_zeros_need_shrinkage():
    hot = np.eye(3)
    assert np.isfinite(transform(hot, "aitchison", 1e-6)).all()
    with pytest.raises(ValueError, match="shrinkage above 0"):
        transform(hot, "aitchison", 0.0)


@pytest.mark.parametrize("kernel", ["epanechnikov", "", None, 3, ["ilr"]])
def test_unknown_kernels_are_refused(kernel):
    with pytest.raises(ValueError, match="kernel must be one of"):
        transform(P, kernel)


@pytest.mark.parametrize("shrinkage", [-0.1, 1.0, np.nan, "a", None, True])
def test_bad_shrinkage_is_refused(shrinkage):
    with pytest.raises(ValueError, match="shrinkage"):
        transform(P, "aitchison", shrinkage)


def test_a_vector_is_refused():
    with pytest.raises(ValueError, match="posteriors"):
        transform(P[0], "aitchison")
