"""EDy, EDx and KMM against double loops over instances and a general optimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import kdey
from kdey.rows.embedding import EmbeddingMap


def draw(n: int, seed: int, prevalence: tuple[float, ...] = (0.5, 0.3, 0.2)) -> Any:
    """Return features (n, 2) of overlapping classes, and labels, of which each occurs."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(len(prevalence)), rng.choice(3, n - 3, p=prevalence)])
    return rng.normal(size=(n, 2)) + 1.3 * np.array([[0, 0], [1, 0.4], [0, 2]])[y], y


SIMILARITIES = {
    "manhattan": lambda a, b: -np.abs(a - b).sum(),
    "euclidean": lambda a, b: -np.sqrt(((a - b) ** 2).sum()),
    "gaussian": lambda a, b: np.exp(-((a - b) ** 2).sum() / (2 * 0.8**2)),
    "laplacian": lambda a, b: np.exp(-np.abs(a - b).sum() / 0.8),
}


def mean_similarity(name: str, A: Any, B: Any) -> float:
    return float(np.mean([[SIMILARITIES[name](a, b) for b in B] for a in A]))


def discrepancy(name: str, X: Any, y: Any, bag: Any) -> Any:
    """Return the squared distance of embeddings as a function of the prevalence, term by term."""
    parts = [X[y == i] for i in range(3)]
    between = np.array([[mean_similarity(name, a, b) for b in parts] for a in parts])
    to_bag = np.array([mean_similarity(name, a, bag) for a in parts])
    within = mean_similarity(name, bag, bag)
    return lambda a: float(a @ between @ a - 2 * to_bag @ a + within)


def best(function: Any) -> Any:
    """Return the best of several patient runs of a general optimiser."""
    runs = [
        minimize(
            function,
            start,
            bounds=[(0, 1)] * 3,
            constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        for start in (np.full(3, 1 / 3), [0.8, 0.1, 0.1], [0.1, 0.1, 0.8])
    ]
    return min(runs, key=lambda run: run.fun).x


def methods() -> dict[str, Any]:
    return {
        "manhattan": kdey.EDx(standardise=False),
        "euclidean": kdey.EDx(distance="euclidean", standardise=False),
        "gaussian": kdey.KMM(bandwidth=0.8, standardise=False),
        "laplacian": kdey.KMM(kernel="laplacian", bandwidth=0.8, standardise=False),
    }


@pytest.mark.parametrize("name", list(SIMILARITIES))
@pytest.mark.parametrize("prevalence", [(0.2, 0.2, 0.6), (0.0, 1.0, 0.0)])
def test_the_minimum_is_that_of_double_loops(name: str, prevalence: Any) -> None:
    (X, y), bag = draw(60, 0), draw(40, 1, prevalence)[0][3:]
    q = methods()[name].fit(X, y)
    solution = q.solve(bag)
    function = discrepancy(name, X, y, bag)
    np.testing.assert_allclose(solution.prevalence[0], best(function), atol=2e-5)
    assert solution.converged.all()
    assert solution.gap[0] < 1e-12
    # The objective is half the squared distance up to a constant, also away from the optimum.
    problem = q.model_.matching.problem(q.row_map_, q.row_map_(bag), kdey.Bags.whole(len(bag)))
    values, halves = [], []
    for at in np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.1, 0.0, 0.9]]):
        values.append(problem.objective(at[None])[0])
        halves.append(function(at) / 2)
    np.testing.assert_allclose(np.diff(values), np.diff(halves), atol=1e-12)


def test_edy_is_edx_on_posteriors() -> None:
    rng = np.random.default_rng(3)
    y = np.arange(90) % 3
    p = rng.dirichlet(np.ones(3), 90) + np.eye(3)[y]
    p /= p.sum(axis=1, keepdims=True)
    on_posteriors = kdey.EDy().fit_posteriors(p, y).aggregate(p[:25])
    on_features = kdey.EDx(standardise=False).fit(p, y).predict(p[:25])
    np.testing.assert_allclose(on_posteriors, on_features, atol=1e-10)


def test_random_features_approach_the_kernel() -> None:
    (X, y), bag = draw(200, 4), draw(150, 5, (0.1, 0.3, 0.6))[0]
    for kernel in ("gaussian", "laplacian"):
        exact = kdey.KMM(kernel=kernel, bandwidth=1.0).fit(X, y).predict(bag)
        many = kdey.KMM(kernel=kernel, bandwidth=1.0, random_features=4000).fit(X, y).predict(bag)
        np.testing.assert_allclose(many, exact, atol=0.03)


def test_the_median_rule_and_the_choice_among_its_multiples() -> None:
    X, y = draw(150, 6)
    apart = [np.sqrt(((a - b) ** 2).sum()) for a in X for b in X if (a != b).any()]
    spec = EmbeddingMap("gaussian")
    from kdey.posteriors import TrainingPosteriors

    row_map = spec.fit(TrainingPosteriors(X, y), 3)
    assert row_map.embedding.spec.width == pytest.approx(np.median(apart), rel=1e-3)
    tuned = kdey.KMM(bandwidth="auto", tune_bag_size=60).fit(X, y)
    assert tuned.tuning_.best_value in (0.125, 0.25, 0.5, 1.0, 2.0)
    assert tuned.model_.row_spec.multiple == tuned.tuning_.best_value


def test_units_of_standardised_features_do_not_matter() -> None:
    (X, y), bag = draw(80, 7), draw(50, 8)[0]
    units = np.array([1000.0, 0.01])
    for make in (kdey.EDx, kdey.KMM):
        np.testing.assert_allclose(
            make().fit(X * units, y).predict(bag * units),
            make().fit(X, y).predict(bag),
            atol=1e-8,
        )


def test_new_rows_leave_an_instance_out_of_its_own_class() -> None:
    from kdey.posteriors import TrainingPosteriors

    X, y = draw(20, 9)
    for spec in (EmbeddingMap("euclidean"), EmbeddingMap("gaussian", 0.8)):
        row_map = spec.fit(TrainingPosteriors(X, y), 3)
        rows = row_map.new_rows(TrainingPosteriors(X, y), np.arange(20))
        for i in range(3, 20):
            others = (y == y[i]) & (np.arange(20) != i)
            same = np.mean([SIMILARITIES[spec.similarity](X[i], x) for x in X[others]])
            other = (y[i] + 1) % 3
            apart = np.mean([SIMILARITIES[spec.similarity](X[i], x) for x in X[y == other]])
            expected = same - apart + row_map.shift[y[i]] - row_map.shift[other]
            assert rows[i, y[i]] - rows[i, other] == pytest.approx(expected, abs=1e-12)


def test_limits_cover() -> None:
    """Analytic 95 % limits hold the true prevalence in most of 60 draws of training and bag."""
    prevalence, inside = (0.15, 0.25, 0.6), []
    for seed in range(60):
        q = kdey.EDx().fit(*draw(150, 2 * seed))
        estimate = q.estimate(draw(153, 2 * seed + 1, prevalence)[0][3:])
        assert estimate.method == "analytic"
        inside.append((estimate.low <= prevalence) & (prevalence <= estimate.high))
    assert np.mean(inside) > 0.9


@pytest.mark.parametrize(
    ("quantifier", "message"),
    [
        (kdey.EDx(distance="cosine"), "distance must be one of"),
        (kdey.KMM(kernel="linear"), "kernel must be one of"),
        (kdey.KMM(bandwidth=0), "bandwidth must be a positive number"),
        (kdey.KMM(bandwidth="scott"), "bandwidth must be one of"),
        (kdey.KMM(random_features=1), "random_features must be an integer of at least 2"),
    ],
)
def test_parameters_are_checked(quantifier: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantifier.fit(*draw(30, 0))


def test_distances_have_no_random_features() -> None:
    with pytest.raises(ValueError, match="has no random features"):
        EmbeddingMap("euclidean", random_features=10)
