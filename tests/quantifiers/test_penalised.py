"""Ordered and RLLS against a general optimiser on objectives written out term by term."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import kdey
from kdey.matching.likelihood import MixtureLikelihood
from kdey.matching.sqp import PenalisedProblem, ShrunkRatios, solve_sqp
from kdey.matching.squares import CauchySchwarz, LeastSquares, MatchMeans
from kdey.simplex import sample_smooth, sample_uniform
from kdey.tables.features import TableFeatures


def draw(n: int, seed: int, prevalence: Any = (0.1, 0.3, 0.4, 0.2)) -> Any:
    """Return posteriors (n, k) of ordered classes, which are confused with their neighbours."""
    rng = np.random.default_rng(seed)
    k = len(prevalence)
    y = np.concatenate([np.arange(k), rng.choice(k, n - k, p=prevalence)])
    near = np.exp(-np.abs(np.arange(k) - y[:, None]) / 0.8)
    p = near * rng.gamma(1.5, size=(n, k))
    return p / p.sum(axis=1, keepdims=True), y


def best(function: Any, k: int) -> Any:
    """Return the minimum over the simplex by several patient runs of a general optimiser."""
    rng = np.random.default_rng(0)
    runs = [
        minimize(
            function,
            start,
            bounds=[(0, 1)] * k,
            constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
            options={"ftol": 1e-15, "maxiter": 2000},
        )
        for start in [np.full(k, 1 / k), *rng.dirichlet(np.ones(k), 3)]
    ]
    return min(runs, key=lambda run: run.fun)


def roughness(a: Any) -> float:
    return float(sum((a[i - 1] - 2 * a[i] + a[i + 1]) ** 2 for i in range(1, len(a) - 1)))


def squares(p: Any, y: Any, bag: Any, crisp: bool) -> Any:
    rows = (lambda P: np.eye(P.shape[1])[P.argmax(axis=1)]) if crisp else (lambda P: P)
    M = np.stack([rows(p[y == i]).mean(axis=0) for i in range(p.shape[1])], axis=1)
    return lambda a: 0.5 * float(((M @ a - rows(bag).mean(axis=0)) ** 2).sum())


def likelihood(y: Any, bag: Any) -> Any:
    prior = np.bincount(y) / len(y)
    return lambda a: -float(np.mean(np.log(np.maximum((bag / prior) @ a, 1e-300))))


@pytest.mark.parametrize("strength", [0.0, 0.001, 0.1, 10.0])
@pytest.mark.parametrize("name", ["ACC", "PACC", "EMQ"])
def test_tikhonov_against_a_general_optimiser(name: str, strength: float) -> None:
    (p, y), bag = draw(200, 0), draw(80, 1, (0.6, 0.1, 0.1, 0.2))[0]
    fit = likelihood(y, bag) if name == "EMQ" else squares(p, y, bag, name == "ACC")

    def objective(a: Any) -> float:
        return float(fit(a) + strength / 2 * roughness(a))

    q = kdey.Ordered(getattr(kdey, name)(), strength=strength).fit_posteriors(p, y)
    solution = q.solve_posteriors(bag)
    expected = best(objective, 4)
    np.testing.assert_allclose(solution.prevalence[0], expected.x, atol=2e-4)
    assert objective(solution.prevalence[0]) <= expected.fun + 1e-9
    assert solution.converged.all()
    assert solution.gap[0] <= 1e-9


def test_without_strength_it_is_the_method_itself() -> None:
    (p, y), bag = draw(200, 2), draw(80, 3)[0]
    for method in (kdey.PACC(), kdey.KDEyML(bandwidth=0.1), kdey.KDEyL2(bandwidth=0.1)):
        plain = method.fit_posteriors(p, y).aggregate(bag)
        ordered = kdey.Ordered(method, strength=0.0).fit_posteriors(p, y).aggregate(bag)
        np.testing.assert_allclose(ordered, plain, atol=1e-4)


def test_much_strength_leaves_a_straight_line() -> None:
    p, y = draw(300, 4)
    q = kdey.Ordered(kdey.EMQ(), strength=1e6).fit_posteriors(p, y)
    assert roughness(q.aggregate(draw(200, 5, (0.1, 0.1, 0.1, 0.7))[0])) < 1e-8


def test_two_classes_have_no_penalty() -> None:
    p, y = draw(100, 6, (0.4, 0.6))
    bag = draw(60, 7, (0.7, 0.3))[0]
    plain = kdey.PACC().fit_posteriors(p, y).aggregate(bag)
    ordered = kdey.Ordered(kdey.PACC(), strength=5.0).fit_posteriors(p, y).aggregate(bag)
    np.testing.assert_allclose(ordered, plain, atol=1e-6)


def test_the_strength_is_chosen_on_smooth_bags_and_helps_there() -> None:
    p, y = draw(400, 8, np.full(6, 1 / 6))
    q = kdey.Ordered(kdey.PACC(), tune_bag_size=50).fit_posteriors(p, y)
    assert q.tuning_.parameter == "strength"
    assert q.tuning_.metric == "nmd"
    assert q.tuning_.best_value > 0
    assert q.model_.matching.strength == q.tuning_.best_value
    plain = kdey.PACC().fit_posteriors(p, y)
    truths = sample_smooth(6, 40, np.random.default_rng(9), 0.2)
    bags = [draw(56, 100 + b, truth)[0][6:] for b, truth in enumerate(truths)]
    error = kdey.metrics.normalised_match_distance
    ours = error(truths, [q.aggregate(bag) for bag in bags]).mean()
    theirs = error(truths, [plain.aggregate(bag) for bag in bags]).mean()
    assert ours < theirs


def test_an_automatic_bandwidth_is_chosen_first_and_committees_are_penalised() -> None:
    p, y = draw(150, 10)
    q = kdey.Ordered(kdey.KDEyML(random_state=0), strength=1e5).fit_posteriors(p, y)
    assert q.row_map_.is_composite
    assert roughness(q.aggregate(p)) < 1e-6
    assert q.tuning_.parameter == "bandwidth"


def test_limits_and_groups() -> None:
    (p, y), bag = draw(200, 11), draw(80, 12)[0]
    q = kdey.Ordered(kdey.PACC(), strength=0.01).fit_posteriors(p, y)
    estimate = q.estimate_posteriors(bag, options=kdey.Options(random_state=0))
    assert estimate.method == "bootstrap"
    assert (estimate.low < estimate.high).all()


@pytest.mark.parametrize("crisp", [False, True])
@pytest.mark.parametrize("strength", ["finite-sample", 0.02])
def test_rlls_against_a_general_optimiser(crisp: bool, strength: Any) -> None:
    (p, y), bag = draw(120, 13), draw(80, 14, (0.6, 0.1, 0.1, 0.2))[0]
    prior = np.bincount(y) / len(y)
    tau = strength
    if strength == "finite-sample":
        bound = 2 * math.log(8 / 0.05) / (3 * 120) + math.sqrt(2 * math.log(8 / 0.05) / 120)
        tau = (0.03 * bound) ** 2
    fit = squares(p, y, bag, crisp)

    def objective(a: Any) -> float:
        return float(fit(a) + tau / 2 * ((a / prior - 1) ** 2).sum())

    q = kdey.RLLS(strength=strength, crisp=crisp).fit_posteriors(p, y)
    np.testing.assert_allclose(q.aggregate(bag), best(objective, 4).x, atol=1e-4)


def test_rlls_from_no_shrinkage_to_the_training_prevalence() -> None:
    (p, y), bag = draw(120, 15), draw(80, 16)[0]
    free = kdey.RLLS(strength=0.0).fit_posteriors(p, y).aggregate(bag)
    np.testing.assert_allclose(free, kdey.PACC().fit_posteriors(p, y).aggregate(bag), atol=1e-6)
    bound = kdey.RLLS(strength=1e6).fit_posteriors(p, y).aggregate(bag)
    np.testing.assert_allclose(bound, np.bincount(y) / len(y), atol=1e-5)
    tuned = kdey.RLLS(strength="auto", tune_bag_size=60).fit_posteriors(p, y)
    assert tuned.model_.matching.strength == tuned.tuning_.best_value


@pytest.mark.parametrize("strength", [-1.0, "strong", float("nan"), None])
def test_strengths_are_checked(strength: Any) -> None:
    p, y = draw(60, 0)
    with pytest.raises(ValueError, match="strength"):
        kdey.Ordered(kdey.PACC(), strength=strength).fit_posteriors(p, y)
    if strength is not None:
        with pytest.raises(ValueError, match="strength"):
            kdey.RLLS(strength=strength).fit_posteriors(p, y)


def test_what_cannot_be_penalised_is_refused() -> None:
    p, y = draw(60, 0)
    with pytest.raises(TypeError, match="method on posteriors with rows"):
        kdey.Ordered(kdey.EDx(), strength=0.1).fit_posteriors(p, y)
    q = kdey.Ordered(kdey.KDEyCS(bandwidth=0.1), strength=0.1).fit_posteriors(p, y)
    with pytest.raises(ValueError, match="is not convex and cannot be penalised"):
        q.aggregate(p)
    rows = kdey.Friedman().fit_posteriors(p, y).row_map_
    with pytest.raises(ValueError, match="does not know the training prevalence"):
        ShrunkRatios(MatchMeans()).problem(rows, rows(p), kdey.Bags.whole(60))


def test_derivatives_of_the_problem() -> None:
    rng = np.random.default_rng(0)
    inner = LeastSquares(rng.random((5, 4)), rng.random((3, 5)))
    problem = PenalisedProblem(inner, rng.random((2, 4)), rng.random(2))
    x = sample_uniform(4, 3, rng)
    gradient = problem.gradient(x)
    for i in range(4):
        step = 1e-6 * np.eye(4)[i]
        slope = (problem.objective(x + step) - problem.objective(x - step)) / 2e-6
        np.testing.assert_allclose(gradient[:, i], slope, atol=1e-7)
        curve = (problem.gradient(x + step) - problem.gradient(x - step)) / 2e-6
        np.testing.assert_allclose(problem.hessian(x)[:, i], curve, atol=1e-7)
    part = problem.take(np.array([2, 0]))
    np.testing.assert_allclose(part.objective(x[[2, 0]]), problem.objective(x)[[2, 0]])


def test_a_bag_without_information_gets_the_smoothest_prevalence_and_says_so() -> None:
    rows = np.vstack([np.zeros((2, 3)), np.random.default_rng(0).random((4, 3))])
    bags = kdey.Bags.from_indices([np.array([0, 1]), np.array([2, 3, 4, 5])], 6)
    problem = PenalisedProblem(
        MixtureLikelihood(rows, bags), np.array([[1.0, -2.0, 1.0]]), np.zeros(1)
    )
    solution = solve_sqp(problem, tol=1e-9)
    np.testing.assert_allclose(solution.prevalence[0], np.full(3, 1 / 3), atol=1e-4)
    assert np.isnan(solution.gap[0])
    assert not solution.converged[0]
    assert solution.converged[1]


def test_only_convex_problems_are_penalised() -> None:
    inner = CauchySchwarz(np.eye(3), np.log(np.full((1, 3), 0.5)))
    with pytest.raises(ValueError, match="CauchySchwarz is not convex"):
        PenalisedProblem(inner, np.zeros((1, 3)), np.zeros(1))


def test_smooth_prevalences_are_the_smoothest_share() -> None:
    rng = np.random.default_rng(3)
    smooth = sample_smooth(5, 2000, rng, 0.25)
    assert smooth.shape == (2000, 5)
    np.testing.assert_allclose(smooth.sum(axis=1), 1)
    rough = [roughness(a) for a in sample_uniform(5, 4000, rng)]
    bound = np.quantile(rough, 0.25)
    inside = np.mean([roughness(a) <= bound * 1.1 for a in smooth])
    assert inside > 0.98
    # Within that part they are uniform: as many below the bound of 10 % as 10 / 25.
    assert np.mean([roughness(a) <= np.quantile(rough, 0.1) for a in smooth]) == pytest.approx(
        0.4, abs=0.06
    )
    np.testing.assert_array_equal(
        sample_smooth(2, 5, np.random.default_rng(1), 0.1),
        sample_uniform(2, 5, np.random.default_rng(1)),
    )


def test_a_pool_of_classifiers_takes_the_penalty() -> None:
    """Without strength it is the pool; with much of it prevalences lie on a line."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 40)
    frame = pd.DataFrame({"x": y + rng.normal(size=120), "colour": np.where(y == 1, "red", "blue")})
    pool = kdey.Quantifier(["logistic regression"], effort="low", random_state=0)
    bag = frame[y != 2]
    expected = clone(pool).fit(frame, y).predict(bag)
    plain = kdey.Ordered(pool, strength=0.0).fit(frame, y)
    np.testing.assert_allclose(plain.predict(bag), expected, atol=1e-5)
    assert plain.model_.fold_models is not None
    strong = kdey.Ordered(pool, strength=1e6).fit(frame, y).predict(bag)
    assert abs(strong[0] - 2 * strong[1] + strong[2]) < 1e-2 < abs(expected[1] - expected[2])


def test_tables_are_settled_by_the_quantifier_inside() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 30)
    frame = pd.DataFrame({"x": y + rng.normal(size=90), "colour": np.where(y == 1, "red", "blue")})
    classifier = make_pipeline(TableFeatures(), LogisticRegression())
    q = kdey.Ordered(kdey.PACC(classifier, cv=3), strength=0.1).fit(frame, y)
    np.testing.assert_allclose(q.predict(frame).sum(), 1.0)
    assert q.model_.table_schema is not None


def test_methods_that_a_penalty_cannot_be_added_to_are_named() -> None:
    p, y = np.full((9, 3), 1 / 3), np.arange(9) % 3
    with pytest.raises(ValueError, match="CC counts, and minimises nothing"):
        kdey.Ordered(kdey.CC()).fit_posteriors(p, y)
    with pytest.raises(ValueError, match="SORD is for two classes, and y has 3"):
        kdey.Ordered(kdey.SORD()).fit_posteriors(p, y)
