"""The sampler of many groups against distributions that are known, on both routes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import kstest

from kdey import native
from kdey.bayes.chains import effective_size
from kdey.bayes.pooling import GroupTree, HierarchyChain, hierarchy_sweeps


@pytest.fixture(params=("native", "numpy"))
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "native" and not native.available():
        pytest.skip("the native core is not built")
    if request.param == "numpy":
        monkeypatch.setattr(native, "available", lambda: False)
    return str(request.param)


def start(tree: GroupTree, k: int, seed: int = 0) -> HierarchyChain:
    return HierarchyChain.start(tree, np.full(k, 1.0 / k), np.random.SeedSequence(seed))


def shares(concentrations: np.ndarray, scale: float) -> np.ndarray:
    return scale / (scale + concentrations)


def one_hot(counts: np.ndarray) -> np.ndarray:
    """Return rows that fix the class of each instance."""
    return np.concatenate([np.repeat(np.eye(counts.shape[1]), row, axis=0) for row in counts])


def exact_share(counts: np.ndarray, scale: float) -> tuple[float, float]:
    """Return mean and sd of scale / (scale + kappa) given counts of two classes, by quadrature."""
    u = (np.arange(300) + 0.5) / 300
    kappa = (scale * (1 - u) / u)[:, None, None]
    mean = ((np.arange(300) + 0.5) / 300)[None, :, None]
    a, b, n = kappa * mean, kappa * (1 - mean), counts.sum(axis=1)
    logs = gammaln(kappa) - gammaln(kappa + n)
    logs = logs + gammaln(a + counts[:, 0]) - gammaln(a) + gammaln(b + counts[:, 1]) - gammaln(b)
    total = logs.sum(axis=2)
    density = np.exp(total - total.max()).sum(axis=1)
    density /= density.sum()
    centre = float(density @ u)
    return centre, float(np.sqrt(density @ (u - centre) ** 2))


# The larger counts go beyond those that the native core summarises by histograms.
@pytest.mark.smoke
@pytest.mark.parametrize("times", [1, 20])
def test_concentration_matches_quadrature(route: str, times: int) -> None:
    counts = times * np.array([[5, 1], [2, 4], [3, 3], [6, 0], [1, 5]])
    tree = GroupTree.of(counts.sum(axis=1))
    n_sweeps = 4000 if route == "native" else 600
    trace = hierarchy_sweeps(one_hot(counts), tree, start(tree, 2), n_sweeps)
    drawn = shares(trace[100:, 0], tree.scales[0])
    mean, sd = exact_share(counts, tree.scales[0])
    error = sd / np.sqrt(effective_size(drawn[None]))
    assert abs(drawn.mean() - mean) < 4 * error
    assert drawn.std() == pytest.approx(sd, rel=0.2)


def test_without_instances_draws_follow_the_prior(route: str) -> None:
    tree = GroupTree.of(np.zeros(4, dtype=np.int64), np.array([0, 0, 1, 1]))
    trace = hierarchy_sweeps(np.empty((0, 3)), tree, start(tree, 3), 300)
    for level in range(2):
        assert kstest(shares(trace[1:, level], 1.0), "uniform").pvalue > 1e-4


# Data drawn from the chain's own prevalences leave the prior as it is (Geweke, 2004): a wrong
# conditional distribution anywhere would move it.
@pytest.mark.parametrize("parents", [[0] * 6, [0, 0, 0, 1, 1, 2]])
def test_data_drawn_from_the_model_leave_the_prior(route: str, parents: list[int]) -> None:
    tree = GroupTree.of(np.full(6, 4), np.array(parents))
    chain, rng = start(tree, 3), np.random.default_rng(1)
    n = 2000 if route == "native" else 300
    drawn = np.empty((n, 2))
    first = np.empty(n)
    for i in range(n):
        limits = np.cumsum(chain.prevalences[tree.owners], axis=1)[:, :-1]
        labels = (rng.random((24, 1)) > limits).sum(axis=1)
        rows = np.eye(3)[labels] + 1e-9
        drawn[i] = hierarchy_sweeps(rows, tree, chain, 1)[0]
        first[i] = chain.prevalences[0, 0]
    n_levels = 1 if max(parents) == 0 else 2
    for level in range(n_levels):
        u = shares(drawn[:, level], tree.scales[level])
        error = np.sqrt(1 / 12 / effective_size(u[None]))
        assert abs(u.mean() - 0.5) < 4 * error
        assert abs((u < 0.2).mean() - 0.2) < 4 * np.sqrt(0.16 / effective_size(u[None]))
    assert abs(first.mean() - 1 / 3) < 4 * first.std() / np.sqrt(effective_size(first[None]))


def test_counts_are_those_of_the_instances(route: str) -> None:
    counts = np.array([[3, 0, 2], [0, 0, 0], [1, 40, 0]])
    tree = GroupTree.of(counts.sum(axis=1))
    chain = start(tree, 3)
    hierarchy_sweeps(one_hot(counts), tree, chain, 3)
    np.testing.assert_array_equal(chain.counts, counts)
    np.testing.assert_allclose(chain.prevalences.sum(axis=1), 1.0)


def test_chains_go_on_where_they_stopped() -> None:
    counts = np.array([[3, 5], [4, 1]])
    tree = GroupTree.of(counts.sum(axis=1))
    whole, parts = start(tree, 2), start(tree, 2)
    expected = hierarchy_sweeps(one_hot(counts), tree, whole, 6)
    if not native.available():
        pytest.skip("the NumPy path seeds a new generator at each call")
    found = [hierarchy_sweeps(one_hot(counts), tree, parts, 2) for _ in range(3)]
    np.testing.assert_array_equal(np.concatenate(found), expected)


@pytest.mark.skipif(not native.available(), reason="the native core is not built")
@pytest.mark.parametrize(
    ("name", "value"),
    [("means", np.nan), ("means", 1e300), ("top", 0.0), ("concentrations", -1.0), ("state", 0)],
)
def test_native_core_refuses_what_cannot_be_drawn(name: str, value: float) -> None:
    tree = GroupTree.of(np.array([2, 1]))
    chain = start(tree, 2)
    getattr(chain, name)[:] = value
    with pytest.raises(ValueError, match="kdey_hierarchy failed"):
        hierarchy_sweeps(np.ones((3, 2)), tree, chain, 1)


def test_scales_are_median_sizes() -> None:
    tree = GroupTree.of(np.array([10, 0, 20, 60]), np.array([0, 0, 1, 1]))
    np.testing.assert_array_equal(tree.scales, [20.0, 45.0])
