"""Answers of QuaPy 0.2.3 on stored posteriors (``tests/frozen/make_quapy.py`` made them).

QuaPy minimises with SLSQP from finite differences and stops up to 1e-3 from the optimum. So its
answers were stored twice: as they come, and from the same losses with SLSQP told to be patient
(``..._patient``). All patient ones must be within 1e-4 of ours; where QuaPy as it comes
is further than that, our objective (evaluated by an oracle of its own) must be the lower one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.neighbors import KernelDensity

import kdey
from kdey.kernels import transform
from tests.objectives import divergence_at

STORED = np.load(Path(__file__).parents[1] / "frozen" / "quapy.npz")
CLASSES = (2, 3, 5)
BANDWIDTH = 0.1
CLOSE = 1e-4
#: Accuracy of the mixed-precision kernel and of the solvers, in an objective of order one.
ROUNDING = 1e-7


def stored(k: int, name: str) -> Any:
    return STORED[f"{k}_{name}"]


def fitted(method: Any, k: int) -> Any:
    return method.fit_posteriors(stored(k, "train"), stored(k, "labels"))


def estimates(method: Any, k: int) -> Any:
    q = fitted(method, k)
    return np.array([q.aggregate(bag) for bag in stored(k, "bags")])


def log_densities(k: int, at: Any, bandwidth: float, kernel: str) -> Any:
    """Return the log of scikit-learn's kernel density of each class, shape (m, k)."""
    points, labels = transform(stored(k, "train"), kernel), stored(k, "labels")
    models = [KernelDensity(bandwidth=bandwidth).fit(points[labels == i]) for i in range(k)]
    return np.stack([model.score_samples(transform(at, kernel)) for model in models], axis=1)


def loss(logs: Any, prevalence: Any) -> float:
    with np.errstate(divide="ignore"):
        return float(-logsumexp(logs + np.log(prevalence), axis=1).mean())


def compare(ours: Any, k: int, name: str, objective: Any) -> None:
    """Assert what the module's docstring says of the answers ``name``."""
    np.testing.assert_allclose(ours, stored(k, f"{name}_patient"), atol=CLOSE)
    theirs = stored(k, name)
    np.testing.assert_allclose(ours, theirs, atol=10 * CLOSE)
    for bag in np.flatnonzero(np.abs(ours - theirs).max(axis=1) > CLOSE):
        assert objective(bag, ours[bag]) < objective(bag, theirs[bag])


@pytest.mark.parametrize("k", CLASSES)
@pytest.mark.parametrize(("kernel", "name"), [("gaussian", "ML"), ("aitchison", "ML_aitchison")])
def test_maximum_likelihood(k: int, kernel: str, name: str) -> None:
    # QuaPy shrinks the bandwidth of log-ratio kernels together with the posteriors.
    h = BANDWIDTH if kernel == "gaussian" else 0.5 * (1 - 1e-3)
    method = kdey.KDEyML(bandwidth=h, kernel=kernel, shrinkage=1e-3, precision="double")

    def objective(bag: int, prevalence: Any) -> float:
        return loss(log_densities(k, stored(k, "bags")[bag], h, kernel), prevalence)

    compare(estimates(method, k), k, name, objective)


@pytest.mark.parametrize("k", CLASSES)
def test_mixed_precision_is_as_close_as_double(k: int) -> None:
    mixed = estimates(kdey.KDEyML(bandwidth=BANDWIDTH), k)
    double = estimates(kdey.KDEyML(bandwidth=BANDWIDTH, precision="double"), k)
    np.testing.assert_allclose(mixed, double, atol=CLOSE / 2)


@pytest.mark.parametrize("k", CLASSES)
def test_emq_is_where_em_converges(k: int) -> None:
    np.testing.assert_allclose(estimates(kdey.EMQ(), k), stored(k, "EMQ"), atol=CLOSE)


@pytest.mark.parametrize("k", CLASSES)
def test_em_stops_where_quapy_stops(k: int) -> None:
    q = fitted(kdey.EMQ(solver="em"), k)
    # QuaPy makes at least twelve iterations whatever the change.
    at_least = fitted(kdey.EMQ(solver="em", tol=1e-300, max_iter=12), k)
    for bag, expected in zip(stored(k, "bags"), stored(k, "EM"), strict=True):
        found = q.solve_posteriors(bag)
        if found.n_iter[0] < 12:
            found = at_least.solve_posteriors(bag)
        np.testing.assert_allclose(found.prevalence[0], expected, atol=1e-9)


@pytest.mark.parametrize("k", CLASSES)
@pytest.mark.parametrize("name", ["PACC", "ACC"])
def test_adjusted_counts(k: int, name: str) -> None:
    method = getattr(kdey, name)()
    templates = fitted(method, k).row_map_.templates

    def objective(bag: int, prevalence: Any) -> float:
        p = stored(k, "bags")[bag]
        shares = np.bincount(p.argmax(axis=1), minlength=k) / len(p) if name == "ACC" else p.mean(0)
        return float(np.linalg.norm(templates @ prevalence - shares))

    compare(estimates(method, k), k, name, objective)


@pytest.mark.parametrize("k", CLASSES)
def test_cauchy_schwarz_objective_is_never_above_quapys(k: int) -> None:
    q = fitted(kdey.KDEyCS(bandwidth=BANDWIDTH, precision="double"), k)
    normaliser = -0.5 * k * np.log(4 * np.pi * BANDWIDTH**2)
    bags = zip(stored(k, "bags"), stored(k, "CS"), stored(k, "CS_objective"), strict=True)
    for bag, theirs, value in bags:
        found = q.solve_posteriors(bag)
        # Ours leaves the kernel's normaliser N out of a and B: -log N + log(N) / 2 is missing.
        assert found.objective[0] - normaliser / 2 <= value + 1e-12
        at_theirs = cs_objective(q, bag, theirs)
        assert at_theirs - normaliser / 2 == pytest.approx(value, abs=1e-9)
        np.testing.assert_allclose(found.prevalence[0], theirs, atol=5e-3)


def cs_objective(q: Any, bag: Any, prevalence: Any) -> float:
    a = np.exp(q.row_map_(bag).log_kernels).mean(axis=0)
    gram = q.row_map_.templates
    return float(-np.log(a @ prevalence) + 0.5 * np.log(prevalence @ gram @ prevalence))


@pytest.mark.parametrize("k", CLASSES)
def test_hellinger_objective_is_never_above_quapys(k: int) -> None:
    q = fitted(kdey.KDEyHD(bandwidth=BANDWIDTH, n_points=k, random_state=0, precision="double"), k)
    points = stored(k, "HD_points").astype(np.float64)
    row_map = q.row_map_.at(q.row_map_.references, points)
    q.model_ = replace(q.model_, row_map=row_map)
    bags = zip(stored(k, "bags"), stored(k, "HD"), stored(k, "HD_objective"), strict=True)
    for bag, theirs, value in bags:
        found = q.solve_posteriors(bag)
        assert found.objective[0] <= value + ROUNDING
        assert found.gap[0] <= 1e-8
        assert divergence_at(q, bag, theirs)[0] == pytest.approx(value, abs=ROUNDING)
        np.testing.assert_allclose(found.prevalence[0], theirs, atol=0.03)
