"""One round of Newton's method from sums: which trials are taken, and what follows the others."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.groups.sums.group_sums import GroupSums
from kdey.groups.sums.solve import Mixtures, _State

X, TRIAL = np.array([0.5, 0.5]), np.array([0.1, 0.9])


def after_a_trial(value: float, slope: tuple[float, float]) -> _State:
    """Return the state of one problem of ten instances after a trial, its value before being 1.

    ``slope`` is that of the mean log-likelihood at the trial.
    """
    given = Mixtures(np.array([10.0]), np.zeros(1), np.zeros(1), X[None])
    state = _State.begin(given)
    state.x[0], state.value[0], state.slope[0] = X, 1.0, (0.5, 1.5)
    state.target[0] = state.trial[0] = TRIAL
    sums = {
        "value": np.array([10.0 * value]),
        "slope": 10.0 * np.array([slope]),
        "curve": 10.0 * np.eye(2)[None],
    }
    state.receive(GroupSums(np.array([0]), sums), given, 1e-8)
    return state


@pytest.mark.parametrize(
    ("value", "slope", "taken"),
    [
        (0.9, (0.8, 1.2), True),  # lower, and still falling
        (1.0 + 1e-13, (0.8, 1.2), True),  # higher by rounding, but still falling
        (0.5, (3.0, 0.1), True),  # past the lowest point, yet much lower
        (1.1, (3.0, 0.1), False),  # past it and higher
        (np.inf, (3.0, 0.1), False),
    ],
)
def test_a_trial_is_taken_where_the_objective_fell(
    value: float, slope: tuple[float, float], taken: bool
) -> None:
    state = after_a_trial(value, slope)
    np.testing.assert_array_equal(state.x[0], TRIAL if taken else X)
    assert state.value[0] == pytest.approx(value if taken else 1.0)
    assert state.rounds[0] == 1
    assert state.active.tolist() == [0]


def test_a_trial_that_is_not_taken_is_followed_by_a_shorter_step() -> None:
    state = after_a_trial(1.1, (3.0, 0.1))
    share = (state.trial[0] - X)[1] / (TRIAL - X)[1]
    # The slopes along the step, 0.4 before and -1.16 after, cross zero at a quarter of it.
    assert share == pytest.approx(0.4 / (0.4 + 1.16))
