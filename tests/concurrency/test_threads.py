"""Many Python threads at once: the answers are those of one, and nothing is left behind."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

import kdey

from .cases import ROUTES, SLOW_IN_NUMPY, answers, data, fit_and_answer, quantifiers, route, same

N_THREADS = 4


@pytest.fixture(autouse=True)
def eager_switches() -> Iterator[None]:
    """Let the interpreter switch threads fifty times as often as it does by itself."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Return what the calls give, all started together."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        gate.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.mark.parametrize("way", ROUTES)
@pytest.mark.parametrize("name", quantifiers())
def test_threads_share_a_fitted_quantifier(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "numpy" and name in SLOW_IN_NUMPY:
        pytest.skip("takes seconds in NumPy")
    X, y, pool = data()
    with route(way, monkeypatch):
        fitted = clone(quantifiers()[name]).fit(X, y)
        # A fresh copy has none of its lazily made parts: the threads make them at once.
        expected = answers(clone(quantifiers()[name]).fit(X, y), pool)
        for found in at_once([lambda: answers(fitted, pool)] * N_THREADS):
            assert same(found, expected)


@pytest.mark.parametrize("way", ROUTES)
def test_threads_fit_on_their_own(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with route(way, monkeypatch):
        made = [one for name, one in quantifiers().items() if name not in SLOW_IN_NUMPY]
        expected = [fit_and_answer(one) for one in made]
        found = at_once([lambda one=one: fit_and_answer(one) for one in made])
    for a, b in zip(found, expected, strict=True):
        assert same(a, b)


def test_native_threads_below_python_threads() -> None:
    X, y, pool = data()
    one = kdey.KDEyML(bandwidth=0.1, cv=3, random_state=0).fit(X, y)
    expected = answers(one, pool)
    many = one.set_params(n_jobs=3)
    for found in at_once([lambda: answers(many, pool)] * N_THREADS):
        assert same(found, expected)


def test_searches_and_groups_at_once() -> None:
    pd = pytest.importorskip("pandas")
    X, y, pool = data()
    frame = pd.DataFrame(pool, columns=list("abcd")).assign(shop=["N", "S"] * 60)
    grid = {"bandwidth": [0.05, 0.2]}

    def work() -> list[np.ndarray]:
        inner = kdey.KDEyML(kernel="gaussian", bandwidth=0.1, cv=3, random_state=0)
        protocol = kdey.APP(10, 20, random_state=0)
        search = kdey.GridSearchQ(inner, grid, protocol=protocol, verbose=False).fit(
            pd.DataFrame(X, columns=list("abcd")), y
        )
        table = search.predict_groups(frame, by="shop").to_frame()
        scores = search.to_frame("pandas").filter(like="mean_test").to_numpy()
        return [scores, table[["estimate", "low", "high"]].to_numpy()]

    expected = work()
    for found in at_once([work] * 4):
        assert same(found, expected)


def test_no_warning_stays_muted() -> None:
    """``catch_warnings`` in a thread changes the filters of all, and may leave them changed.

    scikit-learn turns warnings into errors that way where it looks at labels; kdey must not leave
    any muted.
    """
    X, y, _ = data()

    def work() -> None:
        kdey.KDEyML(cv=3, random_state=0, bandwidth="auto", n_jobs=1).fit(X, y)

    with warnings.catch_warnings():
        before = [one for one in warnings.filters if one[0] == "ignore"]
        for _ in range(3):
            at_once([work] * N_THREADS)
            assert [one for one in warnings.filters if one[0] == "ignore"] == before


def test_muting_holds_for_one_thread() -> None:
    from kdey._display import muted, warn

    inside, leave = threading.Event(), threading.Event()

    def mute() -> None:
        with muted(RuntimeWarning):
            warn("not heard", RuntimeWarning)
            inside.set()
            leave.wait()
            with pytest.warns(UserWarning, match="another kind"):
                warn("another kind", UserWarning)

    muter = threading.Thread(target=mute)
    muter.start()
    inside.wait()
    try:
        with pytest.warns(RuntimeWarning, match="heard"):
            warn("heard", RuntimeWarning)
    finally:
        leave.set()
        muter.join()
    with muted(Warning), muted():
        warn("a base class mutes its kinds", RuntimeWarning)
    with pytest.warns(RuntimeWarning, match="again"):
        warn("again", RuntimeWarning)


def blas_threads() -> list[int]:
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_blas_threads_are_given_back() -> None:
    from kdey.native import one_blas_thread

    first, second = one_blas_thread(), one_blas_thread()
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first.__enter__()
        second.__enter__()
        assert set(blas_threads()) <= {1}
        first.__exit__(None, None, None)  # the order of threads, not of a stack
        assert set(blas_threads()) <= {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before
        with one_blas_thread():
            assert set(blas_threads()) <= {1}
        assert blas_threads() == before
