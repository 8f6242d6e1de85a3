"""The batched solver against the host's exact ones, problem by problem."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kdey.bags import Bags
from kdey.gpu.device_rows import DeviceBags
from kdey.gpu.solve import (
    TENSOR_GENERATORS,
    DivergenceLoss,
    MixtureLoss,
    maximise_likelihood,
    solve_cauchy_schwarz,
    solve_interior,
    solve_quadratic,
)
from kdey.matching.divergence import GENERATORS, Divergence, solve_divergence
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture
from kdey.matching.squares import (
    CauchySchwarz,
    QuadraticMatch,
    solve_cauchy_schwarz as host_cauchy_schwarz,
    solve_quadratic as host_quadratic,
)


def mixture(seed, n_bags=12, n=80, k=6, concentration=0.5, lean=2.0):
    """Return rows of shape (n_bags, n, k) whose classes are drawn by sparse prevalences."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(k, 0.5), (n_bags, n))
    for b, alpha in enumerate(rng.dirichlet(np.full(k, concentration), n_bags)):
        drawn = rng.choice(k, n, p=alpha)
        rows[b, np.arange(n), drawn] += lean * rng.random(n)
    return rows / rows.max(axis=2, keepdims=True)


def host_mixture(rows):
    n_bags, n, k = rows.shape
    bags = Bags(np.arange(n_bags * n), np.arange(n_bags + 1) * n, n_bags * n)
    return MixtureLikelihood(rows.reshape(-1, k), bags)


def solved(rows, place, tol=1e-8, max_iter=100):
    weights = np.full(rows.shape[:2], 1.0 / rows.shape[1])
    loss = MixtureLoss(torch.from_numpy(rows).to(place), torch.from_numpy(weights).to(place))
    return answer(loss, tol, max_iter)


def answer(loss, tol, max_iter):
    x, gap, n_iter = solve_interior(loss, tol, max_iter)
    return SimpleNamespace(x=x, gap=gap, n_iter=n_iter)


@pytest.mark.parametrize(("k", "n"), [(2, 20), (6, 80), (28, 60), (28, 300), (3, 1)])
def test_mixture(place, k, n):
    rows = mixture(k + n, n=n, k=k)
    found, problem = solved(rows, place), host_mixture(rows)
    exact = solve_mixture(problem, tol=1e-12)
    x = found.x.cpu().numpy()
    np.testing.assert_allclose(x, exact.prevalence, atol=1e-6)
    np.testing.assert_allclose(x.sum(axis=1), 1.0, atol=1e-12)
    assert (found.gap <= 1e-8).all()
    np.testing.assert_allclose(found.gap.cpu().numpy(), problem.gap(x), atol=1e-12)
    assert ((x == 0) == (exact.prevalence == 0)).all()


def test_pure_bags(place):
    rows = np.full((3, 50, 4), 1e-8)
    for b in range(3):
        rows[b, :, b] = 1.0
    found = solved(rows, place).x.cpu().numpy()
    np.testing.assert_allclose(found, np.eye(4)[:3], atol=1e-6)


def test_duplicated_and_absent_classes(place):
    rows = mixture(3)
    rows[:, :, 1] = rows[:, :, 0]
    rows[:, :, 5] = 0.0
    found, problem = solved(rows, place), host_mixture(rows)
    exact = solve_mixture(problem)
    x = found.x.cpu().numpy()
    assert (problem.gap(x) <= 1e-8).all()
    merged, wanted = x[:, 0] + x[:, 1], exact.prevalence[:, 0] + exact.prevalence[:, 1]
    np.testing.assert_allclose(merged, wanted, atol=1e-5)
    assert (x[:, 5] == 0).all()


def test_batch_is_loop(place):
    rows = mixture(4)
    together = solved(rows, place).x
    alone = torch.cat([solved(rows[b : b + 1], place).x for b in range(len(rows))])
    np.testing.assert_allclose(together.cpu(), alone.cpu(), atol=1e-9)


def test_too_few_iterations_show_in_the_gap(place):
    rows = mixture(5)
    found = solved(rows, place, max_iter=2)
    assert (found.n_iter == 2).all()
    gap = host_mixture(rows).gap(found.x.cpu().numpy())
    assert gap.max() > 1e-8
    np.testing.assert_allclose(found.gap.cpu().numpy(), gap, atol=1e-10)


@pytest.mark.parametrize("name", sorted(TENSOR_GENERATORS))
@pytest.mark.parametrize("k", [2, 12])
def test_divergences(place, name, k):
    rng = np.random.default_rng(k)
    t, n_bags = 300, 10
    templates = rng.dirichlet(np.full(k, 0.3), t)
    templates /= templates.mean(axis=0)
    prevalences = rng.dirichlet(np.full(k, 0.4), n_bags)
    targets = prevalences @ templates.T * rng.gamma(9, 1 / 9, (n_bags, t))
    targets[:, :20] = 0.0
    problem = Divergence(templates, targets, GENERATORS[name], np.full(t, float(t)))
    exact = solve_divergence(problem, tol=1e-11)
    tensors = [torch.from_numpy(v).to(place) for v in (templates, targets)]
    loss = DivergenceLoss(*tensors, t, name)
    found = answer(loss, 1e-8, 100)
    x = found.x.cpu().numpy()
    np.testing.assert_allclose(x, exact.prevalence, atol=1e-4)
    np.testing.assert_allclose(loss.value(found.x).cpu(), problem.objective(x), atol=1e-12)
    np.testing.assert_allclose(found.gap.cpu(), problem.gap(x), atol=1e-11)
    assert (found.gap <= 1e-8).all()


def test_divergence_hessian_in_steps(place, monkeypatch):
    from kdey.gpu import solve

    rng = np.random.default_rng(0)
    templates, targets = rng.random((50, 4)), rng.random((3, 50))
    tensors = [torch.from_numpy(v).to(place) for v in (templates, targets)]
    loss = DivergenceLoss(*tensors, 50, "hellinger")
    problem = Divergence(templates, targets, GENERATORS["hellinger"], np.full(50, 50.0))
    x = rng.dirichlet(np.ones(4), 3)
    monkeypatch.setattr(solve, "_OUTER", 7 * 16)
    gradient, hessian = loss.derivatives(torch.from_numpy(x).to(place))
    np.testing.assert_allclose(gradient.cpu(), problem.gradient(x), atol=1e-12)
    np.testing.assert_allclose(hessian.cpu(), problem.hessian(x), atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-7, 1e5])
@pytest.mark.parametrize("k", [2, 5, 28])
def test_quadratics(place, k, scale):
    rng = np.random.default_rng(k)
    factor = rng.random((k + 4, k)) ** 3
    gram = factor.T @ factor * scale
    targets = rng.dirichlet(np.full(k, 0.4), 30) @ gram
    targets *= 1.0 + 0.1 * rng.random((30, k))
    square = QuadraticMatch(gram, targets)
    found, exact = solve_quadratic(square, place), host_quadratic(square)
    np.testing.assert_allclose(found.prevalence, exact.prevalence, atol=1e-7)
    assert found.converged.all()
    assert ((found.prevalence == 0) == (exact.prevalence == 0)).all()
    angle = CauchySchwarz.from_targets(gram, targets)
    found, exact = solve_cauchy_schwarz(angle, place), host_cauchy_schwarz(angle)
    np.testing.assert_allclose(found.prevalence, exact.prevalence, atol=1e-7)
    np.testing.assert_allclose(found.objective, exact.objective, atol=1e-9)
    assert found.converged.all()


def test_singular_gram(place):
    gram = np.array([[1.0, 1.0, 0.2], [1.0, 1.0, 0.2], [0.2, 0.2, 1.0]])
    targets = np.array([[0.6, 0.6, 0.5], [1.0, 1.0, 0.2]])
    found = solve_quadratic(QuadraticMatch(gram, targets), place)
    exact = host_quadratic(QuadraticMatch(gram, targets))
    assert found.converged.all()
    np.testing.assert_allclose(found.prevalence[:, 2], exact.prevalence[:, 2], atol=1e-7)


def test_uninformative_rows_and_bags(place):
    logs = torch.log(torch.tensor([[0.5, 0.5], [0.0, 0.0], [0.9, 0.1]], dtype=torch.float64))
    bags = Bags.from_indices([[0, 2, 1], [1, 1], [2]], 3)
    with pytest.warns(UserWarning, match="1 bag"):
        found = maximise_likelihood(logs.to(place), DeviceBags.of(bags, place), 1e-8, 100)
    with pytest.warns(UserWarning, match="1 bag"):
        exact = solve_mixture(MixtureLikelihood.from_log_rows(logs.numpy(), bags))
    np.testing.assert_allclose(found.prevalence, exact.prevalence, atol=1e-6)
    np.testing.assert_allclose(found.objective, exact.objective, atol=1e-8)
    assert np.isnan(found.gap[1])
    assert found.converged.tolist() == [True, False, True]


def test_no_information_for_cauchy_schwarz(place):
    logs = np.array([[-np.inf, -np.inf], [-1.0, -2.0]])
    with pytest.warns(UserWarning, match="every class inner product is zero"):
        found = solve_cauchy_schwarz(CauchySchwarz(np.eye(2), logs), place)
    assert found.prevalence[0].tolist() == [0.5, 0.5]
    assert np.isnan(found.gap[0])
    assert found.converged.tolist() == [False, True]
