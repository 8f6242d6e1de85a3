"""Every method finds prevalences that shifted, and certifies what it found."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kdey
from tests.objectives import divergence_at

from .methods import binary, multiclass

#: Methods without a correction, which label shift leads astray, and the baseline itself.
UNCORRECTED = {"TrainingPrevalence", "CC", "PCC"}
CONVEX = {
    "ML": kdey.KDEyML(bandwidth=0.1),
    "ML-aitchison": kdey.KDEyML(kernel="aitchison", bandwidth=0.5),
    "EMQ": kdey.EMQ(),
    "EMQ-BCTS": kdey.EMQ(calibration="bcts"),
    "DIR": kdey.DIR(),
    "HD": kdey.KDEyHD(bandwidth=0.1, n_points=2000, random_state=0),
    "DM-T": kdey.DM(divergence="topsoe"),
    "DM-HD": kdey.DM(divergence="hellinger"),
    "PACC": kdey.PACC(),
    "ACC": kdey.ACC(),
    "L2": kdey.KDEyL2(bandwidth=0.1),
}


def gaussians(k: int, y: Any, rng: Any) -> Any:
    """Return features of labels ``y``: overlapping Gaussians at the corners of a simplex."""
    return 2.0 * np.eye(k)[y] + rng.normal(scale=0.9, size=(len(y), k))


@cache
def shifted(k: int) -> tuple[Any, Any, Any, Any, Any]:
    """Return X, y of a skewed training set, a pool, bags over it and their true prevalences."""
    rng = np.random.default_rng(k)
    skew = np.arange(1, k + 1) / np.arange(1, k + 1).sum()
    y = rng.choice(k, 600, p=skew)
    pool_labels = np.repeat(np.arange(k), 1000)
    pool = gaussians(k, pool_labels, rng)
    truth = rng.dirichlet(np.ones(k), 12)
    bags = []
    for i, p in enumerate(truth):
        counts = rng.multinomial(400, p)
        truth[i] = counts / 400
        drawn = [rng.choice(1000, n, replace=False) + 1000 * c for c, n in enumerate(counts)]
        bags.append(np.concatenate(drawn))
    return gaussians(k, y, rng), y, pool, bags, truth


def mean_error(method: Any, k: int) -> float:
    X, y, pool, bags, truth = shifted(k)
    made = clone(method)
    made.set_params(**{s: 0 for s in made.get_params() if s.endswith("random_state")})
    return float(np.abs(made.fit(X, y).predict_bags(pool, bags) - truth).mean())


@pytest.mark.parametrize("name", [n for n in multiclass() if n not in UNCORRECTED])
def test_multiclass_methods_follow_the_shift(name: str) -> None:
    baseline = mean_error(kdey.TrainingPrevalence(), 3)
    error = mean_error(multiclass()[name], 3)
    assert error < 0.05
    assert error < baseline / 4


@pytest.mark.parametrize("name", binary())
def test_binary_methods_follow_the_shift(name: str) -> None:
    baseline = mean_error(kdey.TrainingPrevalence(), 2)
    error = mean_error(binary()[name], 2)
    assert error < 0.06
    assert error < baseline / 4


def test_correction_beats_counting() -> None:
    counting = min(mean_error(kdey.CC(), 3), mean_error(kdey.PCC(), 3))
    for method in (kdey.PACC(), kdey.EMQ(), kdey.KDEyML(bandwidth=0.1), kdey.KDEyCS(bandwidth=0.1)):
        assert mean_error(method, 3) < 0.75 * counting


def test_more_instances_help() -> None:
    """CS, HD and L2 smooth both sides and are consistent: larger bags, smaller errors."""
    X, y, pool, _, _ = shifted(3)
    rng, truth = np.random.default_rng(0), np.array([0.6, 0.3, 0.1])
    q = kdey.KDEyCS(bandwidth=0.1, random_state=0).fit(X, y)
    errors = []
    for size in (20, 1000):
        counts = np.round(size * truth).astype(int)
        bags = [
            np.concatenate([rng.choice(1000, n) + 1000 * c for c, n in enumerate(counts)])
            for _ in range(20)
        ]
        errors.append(np.abs(q.predict_bags(pool, bags) - truth).mean())
    assert errors[1] < errors[0] / 2


@cache
def real(name: str) -> tuple[Any, Any, Any, Any, Any]:
    """Return posteriors and labels for training, posteriors of a pool, bags and truths."""
    X, y = {"digits": load_digits, "wine": load_wine}[name](return_X_y=True)
    X_train, X_pool, y_train, y_pool = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=0
    )
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    q = kdey.PACC(model, random_state=0).fit(X_train, y_train)
    size = 200 if name == "digits" else 60
    found = kdey.APP(n_bags=40, bag_size=size, random_state=0).bags(y_pool)
    P = q.classifier_.predict_proba(X_pool)
    return q.training_.posteriors, q.training_.labels, P, found.bags, found.prevalences


#: Set from measured errors of 0.004-0.007 and 0.009-0.023, with room for other versions of the
#: classifier; the training prevalence itself is at 0.067 and 0.194.
BOUNDS = {"digits": 0.012, "wine": 0.04}


@pytest.mark.parametrize("source", BOUNDS)
@pytest.mark.parametrize("name", [*CONVEX, "CS"])
def test_real_data(name: str, source: str) -> None:
    P, y, pool, bags, truth = real(source)
    method = clone((CONVEX | {"CS": kdey.KDEyCS(bandwidth=0.1)})[name])
    found = method.fit_posteriors(P, y).aggregate_bags(pool, bags)
    assert np.abs(found - truth).mean() < BOUNDS[source]
    assert np.abs(np.bincount(y) / len(y) - truth).mean() > 4 * BOUNDS[source]


@pytest.mark.parametrize("name", CONVEX)
def test_convex_methods_certify_their_optimum(name: str) -> None:
    for source in ("digits", "wine"):
        P, y, pool, bags, _ = real(source)
        q = clone(CONVEX[name]).fit_posteriors(P, y)
        found = q.solve_posteriors(pool, bags)
        assert found.converged.all()
        assert (found.gap >= 0).all()
        assert found.gap.max() <= 1e-8
        assert_certificate_is_valid(q, pool, bags, found)


def test_cauchy_schwarz_certifies_its_global_optimum() -> None:
    for source in ("digits", "wine"):
        P, y, pool, bags, _ = real(source)
        q = kdey.KDEyCS(bandwidth=0.1).fit_posteriors(P, y)
        found = q.solve_posteriors(pool, bags)
        assert found.converged.all()
        assert found.gap.max() <= 1e-8
        assert_certificate_is_valid(q, pool, bags, found)


def assert_certificate_is_valid(q: Any, pool: Any, bags: Any, found: Any) -> None:
    """No prevalence tried, near or far, may lie below the objective by more than the gap."""
    k, rng = found.prevalence.shape[1], np.random.default_rng(0)
    constant = divergence_at(q, pool, found.prevalence, bags) - found.objective
    assert (constant >= -1e-9).all() or type(q).__name__ == "KDEyCS"
    for step in (1.0, 0.1, 1e-3):
        other = rng.dirichlet(np.ones(k), len(found))
        tried = (1 - step) * found.prevalence + step * other
        value = divergence_at(q, pool, tried, bags) - constant
        assert (value >= found.objective - found.gap - 1e-10).all()


@pytest.mark.parametrize("name", ["DM-CS", "DM-meanHD"])
def test_methods_without_certificate_say_so_and_beat_random_search(name: str) -> None:
    P, y, pool, bags, _ = real("wine")
    q = clone(multiclass()[name]).fit_posteriors(P, y)
    part = bags[:4]
    found = q.solve_posteriors(pool, part)
    assert np.isnan(found.gap).all()
    rng = np.random.default_rng(0)
    for _ in range(50):
        tried = rng.dirichlet(np.ones(3), 4)
        assert (divergence_at(q, pool, tried, part) >= found.objective - 1e-9).all()


def test_em_says_how_far_from_the_optimum_it_stopped() -> None:
    P, y, pool, bags, _ = real("digits")
    exact = kdey.EMQ().fit_posteriors(P, y).solve_posteriors(pool, bags)
    em = kdey.EMQ(solver="em").fit_posteriors(P, y).solve_posteriors(pool, bags)
    assert em.converged.all()
    assert (em.gap > 1e-8).any()
    assert (em.objective - exact.objective <= em.gap + 1e-10).all()
    assert (em.objective >= exact.objective - 1e-8).all()
