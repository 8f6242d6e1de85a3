"""Generated problems of every kind that the solvers know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from fuzz.campaigns import arrays
from fuzz.campaigns.arrays import Array
from fuzz.campaigns.case import Case
from kdey import native
from kdey.bags import Bags
from kdey.matching import Solution
from kdey.matching.divergence import GENERATORS, Divergence, solve_divergence
from kdey.matching.histograms import (
    DISSIMILARITIES,
    CdfDistance,
    Dissimilarity,
    HistogramCauchySchwarz,
    MeanHellinger,
    solve_cdf_distance,
    solve_nonconvex,
    ternary_search,
)
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture, solve_mixture_em
from kdey.matching.sqp import solve_sqp
from kdey.matching.squares import (
    CauchySchwarz,
    LeastSquares,
    QuadraticMatch,
    solve_cauchy_schwarz,
    solve_least_squares,
    solve_quadratic,
)

Make = Callable[[np.random.Generator], Case]
Solve = Callable[[], Solution]


@contextmanager
def numpy_path() -> Iterator[None]:
    """Take the NumPy path inside."""
    with patch.object(native, "available", lambda: False):
        yield


def _on_numpy(solve: Solve) -> Solve:
    def run() -> Solution:
        with numpy_path():
            return solve()

    return run


def _path(rng: np.random.Generator) -> str:
    """Return the path to try: native mostly, NumPy, or native with its twin."""
    return str(rng.choice(["native", "numpy", "twins"], p=[0.9, 0.07, 0.03]))


def _few(problem: Any, path: str) -> Any:
    """Return the problem, or its first bags where the slow path is taken."""
    return problem if path == "native" else problem.take(np.arange(min(4, problem.n_bags)))


def _solves(path: str, solve: Solve) -> tuple[Solve, Solve | None]:
    if path == "numpy":
        return _on_numpy(solve), None
    return solve, _on_numpy(solve) if path == "twins" else None


def _start(rng: np.random.Generator, n: int, k: int) -> Array | None:
    return arrays.prevalences(rng, n, k) if rng.random() < 0.25 else None


def _bags(rng: np.random.Generator, pool: int) -> Bags:
    """Return 1 to 100 bags of 1 to 60 instances, with weights or without."""
    n_bags = int(np.exp(rng.uniform(0, np.log(101))))
    sizes = np.exp(rng.uniform(0, np.log(60), n_bags)).astype(int)
    drawn = [rng.integers(0, pool, size) for size in sizes]
    heavy = arrays.weights(rng, int(sizes.sum()))
    if heavy is None:
        return Bags.from_indices(drawn, pool)
    parts = np.split(heavy, np.cumsum(sizes)[:-1])
    for part in parts:
        part[0] = max(part[0], 1.0)  # a bag without weight is refused, which is tried elsewhere
    return Bags.from_indices(drawn, pool, parts)


def _mixture_problem(rng: np.random.Generator) -> MixtureLikelihood:
    n, k, _ = arrays.sizes(rng)
    rows, bags = arrays.matrix(rng, n, k), _bags(rng, n)
    flavour = rng.integers(0, 3)
    if flavour == 0:
        return MixtureLikelihood(rows, bags)
    if flavour == 1:
        return MixtureLikelihood(arrays.scaled(rng, rows)[0], bags)
    with np.errstate(divide="ignore"):
        return MixtureLikelihood.from_log_rows(rng.uniform(1, 1000) * np.log(rows), bags)


def _mixture_case(problem: MixtureLikelihood, solve: Solve, start: Array | None) -> dict[str, Any]:
    n = problem.n_bags
    largest = np.abs(problem.log_scales).max() + 1.0
    return {
        "problem": problem,
        "solve": solve,
        "resolution": np.full(n, 1e-11 * largest + 1e-10),
        "silent": ~problem.is_informative,
        "tol": np.full(n, 1e-8),
        "start": start,
    }


def mixture(rng: np.random.Generator) -> Case:
    """Mixture likelihood by SQP."""
    path = _path(rng)
    problem = _few(_mixture_problem(rng), path)
    start = _start(rng, problem.n_bags, problem.n_classes)
    solve, twin = _solves(path, lambda: solve_mixture(problem, start=start))
    return Case(**_mixture_case(problem, solve, start), warns=True, twin=twin)


def mixture_em(rng: np.random.Generator) -> Case:
    """Mixture likelihood by EM, which stops early by its rule: the gap must still be honest."""
    problem = _mixture_problem(rng)
    start = _start(rng, problem.n_bags, problem.n_classes)
    fields = _mixture_case(
        problem, lambda: solve_mixture_em(problem, start=start, max_iter=60), None
    )
    return Case(**(fields | {"tol": np.full(problem.n_bags, np.inf)}))


def divergence(rng: np.random.Generator) -> Case:
    """Divergences between profiles, every generator."""
    path = _path(rng)
    problem = _few(_divergence_problem(rng), path)
    start = _start(rng, problem.n_bags, problem.n_classes)
    solve, twin = _solves(path, lambda: solve_divergence(problem, start=start))
    return Case(**_divergence_case(problem, solve), warns=True, twin=twin)


def _divergence_problem(rng: np.random.Generator) -> Divergence:
    n, k, bags = arrays.sizes(rng)
    templates = arrays.matrix(rng, n, k)
    targets = arrays.targets(rng, templates, bags)
    if rng.random() < 0.3:
        templates, power = arrays.scaled(rng, templates)
        with np.errstate(over="ignore"):
            targets = np.minimum(targets * power, 1e300)
    reference = None if rng.random() < 0.5 else 10.0 ** rng.uniform(-3, 3, n)
    return Divergence(templates, targets, str(rng.choice(list(GENERATORS))), reference)  # type: ignore[arg-type]


def _divergence_case(problem: Divergence, solve: Solve) -> dict[str, Any]:
    shares = 1.0 / problem.reference
    with np.errstate(over="ignore"):
        size = shares @ problem.templates.max(axis=1) + problem.targets @ shares
    return {
        "problem": problem,
        "solve": solve,
        "resolution": 1e-9 + 1e-11 * size,
        "silent": ~problem.is_finite,
        "tol": np.full(problem.n_bags, 1e-8),
    }


def _square_data(rng: np.random.Generator) -> tuple[Array, Array]:
    n, k, bags = arrays.sizes(rng)
    templates = arrays.matrix(rng, n, k)
    targets = arrays.targets(rng, templates, bags)
    templates, power = arrays.scaled(rng, templates)
    with np.errstate(over="ignore", under="ignore"):
        targets = np.minimum(targets * power, 1e300)
    if rng.random() < 0.3:
        targets = targets * rng.choice([-1.0, 1.0], targets.shape)
        templates = templates * rng.choice([-1.0, 1.0], templates.shape)
    return templates, targets


def least_squares(rng: np.random.Generator) -> Case:
    """Least squares on the simplex."""
    path = _path(rng)
    problem = _few(LeastSquares(*_square_data(rng)), path)
    start = _start(rng, problem.n_bags, problem.n_classes)
    solve, twin = _solves(path, lambda: solve_least_squares(problem, start=start))
    long = np.sqrt((problem.templates**2).sum(axis=0).max())
    size = long * (long + np.sqrt((problem.targets**2).sum(axis=1)))
    return _quadratic_case(problem, solve, 1e-10 * size, twin)


def quadratic(rng: np.random.Generator) -> Case:
    """L2 matching: a Gram matrix, on the simplex."""
    path = _path(rng)
    templates, targets = _square_data(rng)
    with np.errstate(over="ignore", invalid="ignore"):
        whole = QuadraticMatch(templates.T @ templates, targets @ templates)
    problem = _few(whole, path)
    start = _start(rng, problem.n_bags, problem.n_classes)
    solve, twin = _solves(path, lambda: solve_quadratic(problem, start=start))
    size = np.abs(problem.gram).max() + np.abs(problem.targets).max(axis=1)
    return _quadratic_case(problem, solve, 1e-10 * size, twin)


def _quadratic_case(problem: Any, solve: Solve, tol: Array, twin: Solve | None) -> Case:
    silent = np.zeros(problem.n_bags, dtype=np.bool_)
    return Case(problem, solve, 0.1 * tol, tol * (1 + 1e-12), silent, twin=twin)


def cauchy_schwarz(rng: np.random.Generator) -> Case:
    """Cauchy-Schwarz as non-negative least squares."""
    templates, targets = (np.abs(part) for part in _square_data(rng))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        gram, pulls = templates.T @ templates, targets @ templates
        logs = np.log(pulls) + (rng.uniform(-1e4, 1e4) if rng.random() < 0.2 else 0.0)
    path = _path(rng)
    problem = _few(CauchySchwarz(gram, logs), path)
    start = _start(rng, problem.n_bags, problem.n_classes)
    solve, twin = _solves(path, lambda: solve_cauchy_schwarz(problem, start=start))
    finite = np.where(np.isfinite(problem.log_targets), problem.log_targets, 0.0)
    size = 1.0 + np.abs(finite).max(axis=1) + np.abs(np.log(np.diag(problem.gram))).max()
    tol = np.full(problem.n_bags, 1e-10)
    return Case(problem, solve, 1e-11 * size, tol, ~problem.is_informative, twin=twin)


def _histogram_data(rng: np.random.Generator, k: int) -> tuple[Array, Array]:
    n_histograms, bins, bags = int(rng.integers(1, 5)), int(rng.integers(1, 13)), 12
    templates = np.stack([arrays.matrix(rng, bins, k) for _ in range(n_histograms)])
    targets = np.stack([arrays.targets(rng, part, bags) for part in templates], axis=1)
    if rng.random() < 0.7:  # histograms have mass, and so pass the checks
        templates = templates + 10.0 ** rng.uniform(-12, -1)
        targets = targets + 10.0 ** rng.uniform(-12, -1)
        templates /= templates.sum(axis=1, keepdims=True)
        targets /= targets.sum(axis=2, keepdims=True)
    return templates, targets


def nonconvex(rng: np.random.Generator) -> Case:
    """DM-CS and the mean Hellinger distance, from several starts."""
    k = 2 + int(9 * rng.random() ** 2)
    kind = (HistogramCauchySchwarz, MeanHellinger)[int(rng.integers(0, 2))]
    path = "numpy" if rng.random() < 0.1 else "native"
    problem = _few(kind(*_histogram_data(rng, k)), path)
    n = problem.n_bags
    start = _start(rng, n, k)
    solve, _ = _solves(path, lambda: solve_nonconvex(problem, start=start))
    uniform = np.full((n, k), 1.0 / k)
    return Case(problem, solve, _histogram_rounding(problem), None, np.zeros(n, bool), uniform)


def _histogram_rounding(problem: Any) -> Array:
    size = np.abs(
        problem.objective(np.full((problem.n_bags, problem.n_classes), 1 / problem.n_classes))
    )
    largest = max(float(problem.templates.max()), float(problem.targets.max()))
    return 1e-9 * (1.0 + np.where(np.isfinite(size), size, 0.0)) + 1e-14 * np.sqrt(largest)


def _ternary_case(rng: np.random.Generator, problem: Any) -> Case:
    n = problem.n_bags
    corner = np.eye(2)[rng.integers(0, 2, n)]  # both ends are tried: never above them
    size = np.abs(problem.objective(np.full((n, 2), 0.5)))
    rounding = 1e-9 * np.where(np.isfinite(size), size, 0.0) + 1e-12
    return Case(
        problem,
        lambda: ternary_search(problem.objective, n),
        *(rounding, None, np.zeros(n, dtype=np.bool_), corner),
    )


def dissimilarity(rng: np.random.Generator) -> Case:
    """Any dissimilarity of two histograms, by ternary search (DyS)."""
    n, _, bags = arrays.sizes(rng)
    templates = arrays.matrix(rng, n, 2)
    targets = arrays.targets(rng, templates, bags)
    name = str(rng.choice([*DISSIMILARITIES, *GENERATORS]))
    return _ternary_case(rng, Dissimilarity(templates, targets, name))


def mean_hellinger_binary(rng: np.random.Generator) -> Case:
    """Mean Hellinger distance of two classes, by ternary search (HDx)."""
    return _ternary_case(rng, MeanHellinger(*_histogram_data(rng, 2)))


def cdf_distance(rng: np.random.Generator) -> Case:
    """Distances between cumulative distributions: a weighted median, or ternary search (MM)."""
    n, _, bags = arrays.sizes(rng)
    templates, targets = arrays.matrix(rng, n, 2), arrays.matrix(rng, bags, n)
    if rng.random() < 0.7:
        templates, targets = np.cumsum(templates, axis=0), np.cumsum(targets, axis=1)
        templates = templates / np.maximum(templates[-1:], 1e-300)
        targets = targets / np.maximum(targets[:, -1:], 1e-300)
    heavy = rng.gamma(0.5, size=n) * (rng.random(n) < 0.8)
    norm = "l1" if rng.random() < 0.6 else "max"
    problem = CdfDistance(templates, targets, heavy, norm)
    if norm == "max":
        return _ternary_case(rng, problem)
    size = heavy @ templates.max(axis=1) + targets @ heavy
    silent = np.zeros(bags, dtype=np.bool_)
    tol = np.full(bags, np.inf)
    return Case(problem, lambda: solve_cdf_distance(problem), 1e-12 * size, tol, silent)


def _some(bags: Any) -> Any:
    if len(bags) == 0:
        raise ValueError("no bag has an optimum inside the simplex")
    return bags[:6]


def sqp(rng: np.random.Generator) -> Case:
    """Return convex problems of every kind for the generic SQP."""
    pick = rng.integers(0, 3)
    if pick == 0:
        mixed = _mixture_problem(rng)
        mixed = mixed.take(_some(np.flatnonzero(mixed.is_informative)))
        return Case(**_mixture_case(mixed, lambda: solve_sqp(mixed, max_iter=60), None))
    if pick == 1:
        given = _divergence_problem(rng)
        problem = given.take(_some(np.flatnonzero(given.is_finite & given.allowed.all(axis=1))))
        return Case(**_divergence_case(problem, lambda: solve_sqp(problem, max_iter=60)))
    square = LeastSquares(*_square_data(rng))
    square = square.take(np.arange(min(6, square.n_bags)))
    long = np.sqrt((square.templates**2).sum(axis=0).max())
    size = long * (long + np.sqrt((square.targets**2).sum(axis=1)))
    case = _quadratic_case(square, lambda: solve_sqp(square, max_iter=60), 1e-10 * size, None)
    return Case(square, case.solve, case.resolution, np.full(square.n_bags, 1e-8), case.silent)


#: Kind -> how it is made and which share of the campaign it gets.
KINDS: dict[str, tuple[Make, float]] = {
    "mixture": (mixture, 0.2),
    "mixture-em": (mixture_em, 0.03),
    "divergence": (divergence, 0.17),
    "cauchy-schwarz": (cauchy_schwarz, 0.2),
    "least-squares": (least_squares, 0.15),
    "quadratic": (quadratic, 0.14),
    "nonconvex": (nonconvex, 0.003),
    "dissimilarity": (dissimilarity, 0.05),
    "mean-hellinger-binary": (mean_hellinger_binary, 0.02),
    "cdf-distance": (cdf_distance, 0.05),
    "sqp": (sqp, 0.007),
}
