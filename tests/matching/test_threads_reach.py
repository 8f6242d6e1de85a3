"""The number of threads, the starts and the limits of every solver reach the native core."""

import numpy as np
import pytest

from kdey import native
from kdey.bags import Bags
from kdey.matching.divergence import Divergence, solve_divergence
from kdey.matching.histograms import HistogramCauchySchwarz, solve_nonconvex
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture
from kdey.matching.sqp import solve_programs, solve_sqp
from kdey.matching.squares import (
    CauchySchwarz,
    LeastSquares,
    QuadraticMatch,
    solve_cauchy_schwarz,
    solve_least_squares,
    solve_quadratic,
)

M, Q = np.random.default_rng(0).random((6, 3)), np.random.default_rng(1).random((2, 6))
HIST = np.random.default_rng(2).random((2, 4, 3)), np.random.default_rng(3).random((2, 2, 4))
ROWS = MixtureLikelihood(M, Bags.from_indices([[0, 1], [2, 3, 4]], 6))
#: With bags that have no optimum, or one over some classes only: solved apart from the others.
EMPTY = MixtureLikelihood(M * [[1], [1], [0], [0], [0], [1]], ROWS.bags)
ZEROS = Divergence(M * (M > 0.3), Q * (np.arange(6) > 0), "reverse-kl")


def _programs(n_threads):
    return solve_programs(M.T @ M, Q @ M, simplex=True, n_threads=n_threads)


CALLS = {
    "programs": _programs,
    "least squares": lambda n: solve_least_squares(LeastSquares(M, Q), n_threads=n),
    "quadratic": lambda n: solve_quadratic(QuadraticMatch(M.T @ M, Q @ M), n_threads=n),
    "cauchy-schwarz": lambda n: solve_cauchy_schwarz(
        CauchySchwarz.from_targets(M.T @ M, Q @ M), n_threads=n
    ),
    "mixture": lambda n: solve_mixture(ROWS, n_threads=n),
    "mixture, an empty bag": lambda n: solve_mixture(EMPTY, n_threads=n),
    "divergence": lambda n: solve_divergence(Divergence(M, Q, "topsoe"), n_threads=n),
    "restricted": lambda n: solve_divergence(ZEROS, n_threads=n),
    "nonconvex": lambda n: solve_nonconvex(HistogramCauchySchwarz(*HIST), n_threads=n),
    "sqp": lambda n: solve_sqp(Divergence(M, Q, "topsoe"), n_threads=n),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [name for name in CALLS if name != "programs"])
def test_solutions_have_the_types_they_say(name, path):
    solution = CALLS[name](1)
    types = [str(values.dtype) for values in vars(solution).values()]
    assert types == ["float64", "float64", "float64", "int64", "bool"]


@pytest.fixture
def calls(needs_native, monkeypatch):
    made = []
    call = native.call

    def record(name, *arguments):
        made.append((name, arguments))
        return call(name, *arguments)

    monkeypatch.setattr(native, "call", record)
    return made


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CALLS)
def test_every_native_call_gets_the_threads_asked_for(name, calls):
    CALLS[name](13)
    assert calls
    for function, arguments in calls:
        numbers = [a for a in arguments if isinstance(a, int) and not isinstance(a, bool)]
        assert 13 in numbers, function


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_tolerance_and_limit_reach_it_too(calls):
    solve_mixture(ROWS, tol=0.25, max_iter=17)
    solve_divergence(Divergence(M, Q, "topsoe"), tol=0.25, max_iter=17)
    solve_divergence(ZEROS, tol=0.25, max_iter=17)
    assert len(calls) >= 3
    assert all(0.25 in _numbers(args) and 17 in _numbers(args) for _, args in calls)


def test_starts_reach_it(calls):
    start = np.array([[0.125, 0.375, 0.5], [0.5, 0.25, 0.25]])
    solve_mixture(ROWS, start=start)
    arrays = [a for _, arguments in calls for a in arguments if np.shape(a) == (2, 3)]
    assert any(np.array_equal(a, start) for a in arrays)


def _numbers(arguments):
    return [a for a in arguments if isinstance(a, int | float)]


@pytest.mark.parametrize("own", [False, True])
def test_programs_of_any_layout_and_precision_arrive_as_doubles(own, calls):
    gram = np.tile(M.T @ M, (2, 1, 1)) if own else M.T @ M
    arrays = [np.asfortranarray(a, dtype=np.float32) for a in (gram, Q @ M, np.full((2, 3), 1 / 3))]
    solve_programs(arrays[0], arrays[1], simplex=True, start=arrays[2])
    (_, arguments), *_ = calls
    passed = [a for a in arguments if isinstance(a, np.ndarray)]
    assert all(a.flags.c_contiguous for a in passed)
    assert [str(a.dtype) for a in passed] == ["float64"] * 4 + ["int64"]
