"""What a public entry may answer: a value, or an error of the documented family."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from kdey.matching import Solution

#: NotFittedError is a ValueError; so is LinAlgError, which is no answer to bad input.
DOCUMENTED = (ValueError, TypeError)


class Refused(Exception):
    """The entry refused its input, as documented."""


def answer(call: Callable[[], Any], *names: str) -> Any:
    """Return what ``call`` returns; ``Refused`` where it raises as documented.

    Any other error fails the test, and so does a warning that is not addressed to the user, or a
    message that holds none of ``names``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        try:
            return call()
        except DOCUMENTED as error:
            text = str(error)
            if isinstance(error, np.linalg.LinAlgError):
                raise AssertionError(f"LinAlgError: {text}") from error
            if names and not any(name in text for name in names):
                kind = type(error).__name__
                raise AssertionError(f"{kind} names none of {names}: {text!r}") from error
            raise Refused(text) from error


def refused(call: Callable[[], Any], *names: str) -> bool:
    """Whether ``call`` is refused as documented."""
    try:
        answer(call, *names)
    except Refused:
        return True
    return False


def assert_prevalences(x: Any, shape: tuple[int, ...]) -> None:
    """Fail unless ``x`` holds points of the simplex."""
    assert isinstance(x, np.ndarray)
    assert x.shape == shape
    assert np.isfinite(x).all()
    assert (x >= 0).all()
    np.testing.assert_allclose(x.sum(axis=-1), 1.0, atol=1e-9)


def assert_solution(solution: Solution, shape: tuple[int, int]) -> None:
    """Fail unless the prevalences are valid and the certificates consistent with them."""
    assert_prevalences(solution.prevalence, shape)
    assert solution.converged.dtype == np.bool_
    assert not (solution.gap < 0).any()
    assert not np.isposinf(solution.gap[solution.converged]).any()
    certified = solution.converged & ~np.isnan(solution.gap)  # a median has no objective
    assert not np.isnan(solution.objective[certified]).any()


def assert_limits(estimate: Any, k: int) -> None:
    """Fail unless the limits hold the estimate and lie within [0, 1]."""
    assert_prevalences(estimate.estimate, (k,))
    for values in (estimate.low, estimate.high):
        assert values.shape == (k,)
        assert np.isfinite(values).all()
    assert (estimate.low <= estimate.estimate + 1e-12).all()
    assert (estimate.estimate <= estimate.high + 1e-12).all()
    assert estimate.low.min() >= 0
    assert estimate.high.max() <= 1
