"""Every problem refuses bad data with a message that names the argument."""

import numpy as np
import pytest

from kdey.matching.divergence import Divergence
from kdey.matching.histograms import CdfDistance, HistogramCauchySchwarz, MeanHellinger
from kdey.matching.squares import CauchySchwarz, LeastSquares, QuadraticMatch

ONES = np.ones((4, 2))
HIST = np.full((2, 3, 2), 1 / 3)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: LeastSquares(ONES, np.ones((3, 5))), "targets must have shape"),
        (lambda: LeastSquares(ONES * np.nan, np.ones((3, 4))), "templates contains NaN"),
        (lambda: QuadraticMatch(ONES, np.ones((3, 2))), "gram must be square"),
        (
            lambda: QuadraticMatch([[1.0, 2.0], [0.0, 1.0]], np.ones((3, 2))),
            "gram must be symmetric",
        ),
        (lambda: QuadraticMatch(np.eye(2), np.ones((3, 3))), "targets must have shape"),
        (lambda: CauchySchwarz(np.eye(2), np.ones((3, 3))), "log_targets must have shape"),
        (lambda: CauchySchwarz(np.eye(2), [[0.0, np.nan]]), "log_targets contains NaN"),
        (lambda: CauchySchwarz(np.eye(2), [[0.0, np.inf]]), "log_targets contains"),
        (lambda: CauchySchwarz(-np.eye(2), np.ones((3, 2))), "gram contains negative"),
        (
            lambda: CauchySchwarz(np.diag([1.0, 0]), np.ones((3, 2))),
            "gram must have a positive diag",
        ),
        (lambda: CauchySchwarz.from_targets(np.eye(2), -ONES), "targets contains negative"),
        (lambda: Divergence(ONES, np.ones((3, 4)), "nothing"), "divergence must be one of"),
        (lambda: Divergence(ONES, -np.ones((3, 4)), "kl"), "targets contains negative"),
        (lambda: Divergence(ONES, np.ones((3, 4)), "kl", np.zeros(4)), "reference must be pos"),
        (lambda: Divergence(ONES, np.ones((3, 4)), "kl", np.ones(3)), "reference must have"),
        (lambda: HistogramCauchySchwarz(HIST, np.ones((1, 2, 4))), "targets must have shape"),
        (lambda: HistogramCauchySchwarz(HIST, np.zeros((1, 2, 3))), "targets holds"),
        (lambda: HistogramCauchySchwarz(0 * HIST, np.ones((1, 2, 3))), "templates holds"),
        (lambda: MeanHellinger(-HIST, np.ones((1, 2, 3))), "templates contains negative"),
        (lambda: CdfDistance(ONES, np.ones((1, 4)), np.ones(4), "l2"), "norm must be one of"),
        (lambda: CdfDistance(np.ones((4, 3)), np.ones((1, 4)), np.ones(4)), "templates must"),
        (lambda: CdfDistance(ONES, np.ones((1, 4)), -np.ones(4)), "weights must be non-neg"),
        (lambda: CdfDistance(ONES, np.ones((1, 5)), np.ones(4)), "targets must have shape"),
        (lambda: CdfDistance(ONES, np.ones((1, 4)), np.ones(5)), "weights must have shape"),
        (lambda: LeastSquares(ONES, np.full((3, 4), np.nan)), "targets contains NaN"),
        (lambda: Divergence(-ONES, np.ones((3, 4)), "kl"), "templates contains negative"),
        (lambda: MeanHellinger(HIST, -np.ones((1, 2, 3))), "targets contains negative"),
        (lambda: HistogramCauchySchwarz(-HIST, np.ones((1, 2, 3))), "templates contains neg"),
        (lambda: HistogramCauchySchwarz(HIST, -np.ones((1, 2, 3))), "targets contains neg"),
        (lambda: QuadraticMatch(np.eye(2) * np.nan, np.ones((3, 2))), "gram contains NaN"),
        (lambda: CauchySchwarz.from_targets(np.eye(2), np.ones(2)), "targets must have shape"),
    ],
)
def test_bad_data_is_refused(make, match):
    with pytest.raises(ValueError, match=f"^{match}"):
        make()


def test_divergence_tells_where_it_can_be_finite():
    templates = np.array([[0.0, 0.0], [0.5, 0.0], [0.5, 1.0]])
    targets = np.array([[0.2, 0.4, 0.4], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(
        Divergence(templates, targets, "kl").is_finite, [False, True, True]
    )
    reverse = Divergence(templates, targets, "reverse-kl")
    np.testing.assert_array_equal(reverse.allowed, [[True, True], [True, True], [False, True]])
    assert reverse.is_finite.all()
    assert Divergence(templates, targets, "hellinger").is_finite.all()


def test_concatenated_and_averaged_squared_hellinger_differ_by_a_factor():
    # Firat (2016) concatenates the class-wise histograms, Bunse (2022) averages their distances.
    rng = np.random.default_rng(0)
    templates = rng.dirichlet(np.ones(5), size=(4, 4)).transpose(0, 2, 1)
    targets = rng.dirichlet(np.ones(5), size=(2, 4))
    x = rng.dirichlet(np.ones(4), size=2)
    joined = Divergence(templates.reshape(-1, 4), targets.reshape(2, -1), "hellinger")
    average = np.mean(
        [Divergence(templates[c], targets[:, c], "hellinger").objective(x) for c in range(4)],
        axis=0,
    )
    np.testing.assert_allclose(joined.objective(x) / 4, average)
