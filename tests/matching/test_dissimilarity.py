"""Dissimilarities of two histograms: against loops, by name, and as a problem."""

from math import log, sqrt

import numpy as np
import pytest

from kdey.matching.divergence import GENERATORS
from kdey.matching.histograms import DISSIMILARITIES, Dissimilarity, resolve_dissimilarity


def _symmetric(p, q):
    return 2 * sum((x - y) ** 2 / (x + y) for x, y in zip(p, q, strict=True) if x + y > 0)


def _ordinal(p, q):
    return sum(abs(sum(p[:i]) - sum(q[:i])) for i in range(1, len(p) + 1))


LOOPS = {
    "l1": lambda p, q: sum(abs(x - y) for x, y in zip(p, q, strict=True)),
    "l2": lambda p, q: sqrt(sum((x - y) ** 2 for x, y in zip(p, q, strict=True))),
    "prob-symm": _symmetric,
    "ordinal": _ordinal,
    "kl": lambda p, q: sum(y * log(y / x) - y + x for x, y in zip(p, q, strict=True)),
}


def _histograms():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(5), size=4), rng.dirichlet(np.ones(5), size=4)


def test_every_dissimilarity_has_a_loop():
    assert set(DISSIMILARITIES) == set(LOOPS) - {"kl"}


@pytest.mark.parametrize("name", LOOPS)
def test_matches_the_loop(name):
    p, q = _histograms()
    expected = [LOOPS[name](a.tolist(), b.tolist()) for a, b in zip(p, q, strict=True)]
    np.testing.assert_allclose(resolve_dissimilarity(name)(p, q), expected, rtol=1e-12)


@pytest.mark.parametrize("name", DISSIMILARITIES)
def test_bins_empty_on_both_sides_change_nothing(name):
    p, q = _histograms()
    empty = np.zeros((4, 1))
    wide = resolve_dissimilarity(name)(np.hstack([p, empty]), np.hstack([q, empty]))
    np.testing.assert_allclose(wide, resolve_dissimilarity(name)(p, q), atol=1e-15)


@pytest.mark.parametrize("name", [*DISSIMILARITIES, *GENERATORS])
def test_the_problem_compares_the_mixture_with_the_bag(name):
    rng = np.random.default_rng(1)
    templates, targets = rng.dirichlet(np.ones(5), size=2).T, rng.dirichlet(np.ones(5), size=3)
    x = rng.dirichlet(np.ones(2), size=3)
    problem = Dissimilarity(templates, targets, name)
    assert (problem.n_bags, problem.n_classes) == (3, 2)
    mixtures = x[:, :1] * templates[:, 0] + x[:, 1:] * templates[:, 1]
    expected = resolve_dissimilarity(name)(mixtures, targets)
    np.testing.assert_allclose(problem.objective(x), expected, rtol=1e-12)
    part = problem.take(np.array([2, 0]))
    np.testing.assert_allclose(part.objective(x[[2, 0]]), expected[[2, 0]], rtol=1e-12)
    assert np.isnan(problem.gap(x)).all()
    assert problem.gap(x).shape == (3,)


def test_infinite_and_undefined_values_come_without_a_warning():
    problem = Dissimilarity([[1.0, 0.5], [0.0, 0.5]], [[0.5, 0.5]], "kl")
    assert problem.objective(np.array([[1.0, 0.0]]))[0] == np.inf
    own = Dissimilarity([[1.0, 1.0]], [[0.0]], lambda p, q: ((p - p) / q).sum(axis=1))
    assert np.isnan(own.objective(np.array([[0.5, 0.5]]))[0])


def test_a_callable_is_taken_as_it_is():
    def largest(p, q):
        return np.abs(p - q).max(axis=1)

    assert resolve_dissimilarity(largest) is largest
    problem = Dissimilarity([[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5]], largest)
    np.testing.assert_allclose(problem.objective(np.array([[0.8, 0.2]])), [0.3])


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Dissimilarity(np.ones((3, 3)), np.ones((1, 3)), "l1"), r"^templates must have"),
        (lambda: Dissimilarity(-np.ones((3, 2)), np.ones((1, 3)), "l1"), r"^templates contains"),
        (lambda: Dissimilarity(np.ones((3, 2)), np.ones((1, 4)), "l1"), r"^targets must have"),
        (lambda: Dissimilarity(np.ones((3, 2)), -np.ones((1, 3)), "l1"), r"^targets contains neg"),
        (lambda: resolve_dissimilarity("l3"), r"must be one of \['chi2', .*'topsoe'\] or a call"),
    ],
)
def test_bad_input_is_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()
