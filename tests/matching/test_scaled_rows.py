"""Rows of a mixture are scaled alike by the native core and by NumPy."""

import numpy as np
import pytest

from kdey import native
from kdey.bags import Bags
from kdey.matching.likelihood import MixtureLikelihood

ROWS = np.array([[0.2, 0.8, 0.0], [0.0, 0.0, 0.0], [3e200, 1e-200, 1.0], [5e-324, 0.0, 0.0]])
LOGS = np.array([[-1.0, 2.0, -np.inf], [-np.inf] * 3, [700.0, -700.0, 0.0], [-1e300, -1e300, 0.0]])
MAKE = {"rows": (MixtureLikelihood, ROWS), "logs": (MixtureLikelihood.from_log_rows, LOGS)}


@pytest.mark.parametrize("kind", MAKE)
def test_both_routes_agree(kind, monkeypatch):
    make, values = MAKE[kind]
    bags = Bags.from_indices([[0, 1], [1], [2, 3]], 4)
    problem = make(values, bags)
    monkeypatch.setattr(native, "available", lambda: False)
    plain = make(values, bags)
    np.testing.assert_allclose(problem.rows, plain.rows, rtol=1e-14, atol=0)
    np.testing.assert_allclose(problem.log_scales, plain.log_scales, rtol=1e-14)
    np.testing.assert_array_equal(problem.n_ignored, plain.n_ignored)
    np.testing.assert_array_equal(problem.is_informative, [True, False, True])
    np.testing.assert_array_equal(plain.is_informative, [True, False, True])


@pytest.mark.parametrize("native_core", [True, False])
@pytest.mark.parametrize(
    ("kind", "bad", "message"),
    [
        ("rows", np.nan, "rows contains NaN or infinity"),
        ("rows", np.inf, "rows contains NaN or infinity"),
        ("rows", -1.0, "rows contains negative values"),
        ("logs", np.nan, r"log_rows contains NaN or \+inf"),
        ("logs", np.inf, r"log_rows contains NaN or \+inf"),
    ],
)
def test_bad_entries_are_named_wherever_they_stand(kind, bad, message, native_core, monkeypatch):
    if not native_core:
        monkeypatch.setattr(native, "available", lambda: False)
    make, values = MAKE[kind]
    for at in range(values.size):
        changed = values.copy()
        changed.flat[at] = bad
        with pytest.raises(ValueError, match=message):
            make(changed, Bags.whole(4))


@pytest.mark.parametrize("kind", MAKE)
def test_shapes_and_pools_are_checked(kind):
    make, values = MAKE[kind]
    for bad in (values[0], np.empty((0, 3))):
        with pytest.raises(ValueError, match=r"shape|empty"):
            make(bad, Bags.whole(4))
    with pytest.raises(ValueError, match="4 rows, but bags were made for a pool of 5"):
        make(values, Bags.whole(5))
    with pytest.raises(ValueError, match="pseudo_share"):
        make(values, Bags.whole(4), pseudo_share=-1.0)


def test_given_log_scales_are_added():
    problem = MixtureLikelihood(np.array([[2.0, 1.0]]), Bags.whole(1), np.array([3.0]))
    np.testing.assert_allclose(problem.log_scales, [3.0 + np.log(2.0)])
