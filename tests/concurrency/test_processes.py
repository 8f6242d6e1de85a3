"""Processes: made in any way, after any use of threads, and from within each other."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import joblib
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone

import kdey
from kdey.native import run_jobs, thread_count

from .cases import answers, data, quantifiers, same

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
METHODS = multiprocessing.get_all_start_methods()


def fitted() -> Any:
    """Return a quantifier that takes several native threads."""
    X, y, _ = data()
    quantifier = kdey.KDEyML(bandwidth=0.1, cv=3, random_state=0, n_jobs=1).fit(X, y)
    return quantifier.set_params(n_jobs=3)


def ask(quantifier: Any) -> list[np.ndarray]:
    """Return answers, with warnings as errors: a worker that complains fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return answers(quantifier, data()[2])


def refit(quantifier: Any) -> list[np.ndarray]:
    X, y, pool = data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return answers(clone(quantifier).fit(X, y), pool)


def counted(n_jobs: int | None) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return thread_count(n_jobs)


@pytest.fixture(scope="module")
def used() -> Any:
    """Return a quantifier with which threads, ours and Python's, have worked in this process."""
    quantifier = fitted()
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(ask, [quantifier] * 3))
    return quantifier


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_workers_of_every_kind(method: str, used: Any) -> None:
    """Workers of a pool must not have children: threads are taken, without a word."""
    expected = ask(used)
    with multiprocessing.get_context(method).Pool(2) as pool:
        for found in pool.map_async(ask, [used] * 4).get(timeout=100):
            assert same(found, expected)
        again = pool.apply_async(refit, [used]).get(timeout=100)
        assert pool.apply_async(counted, [3]).get(timeout=100) == 3
        assert pool.apply_async(counted, [None]).get(timeout=100) == 1
    assert same(again, expected)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_bare_fork_while_threads_work(used: Any) -> None:
    """The child has one thread of its parent's; nothing that it needs may belong to another."""
    expected = ask(used)
    with ThreadPoolExecutor(2) as threads:
        busy = [threads.submit(refit, used) for _ in range(4)]
        for _ in range(3):
            assert same(in_child(lambda: ask(used)), expected)
        for one in busy:
            assert same(one.result(), expected)


def test_threads_that_fit_by_processes(used: Any) -> None:
    """joblib's pool of workers is one for all threads, and breaks where two start it at once."""
    get_reusable_executor().shutdown(wait=True)
    expected = ask(used)
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(refit, [used] * 4):
            assert same(found, expected)


def in_child(call: Callable[[], Any]) -> Any:
    """Return what ``call`` gives in a child made by a bare fork; a child that hangs is killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - not seen from here
        signal.alarm(100)
        with os.fdopen(writing, "wb") as stream:
            stream.write(pickle.dumps(call()))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        told = stream.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with status {status}"
    return pickle.loads(told)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_fork_while_blas_is_held() -> None:
    """A thread inside the limit, even one that holds its lock, does not stop a child."""
    from kdey.native import one_blas_thread

    def enter() -> int:
        with one_blas_thread():
            return 7

    with one_blas_thread(), ThreadPoolExecutor(1) as another:
        another.submit(one_blas_thread._lock.__enter__).result()
        assert in_child(enter) == 7
        another.submit(one_blas_thread._lock.__exit__).result()


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_joblib_workers(backend: str, used: Any) -> None:
    expected = ask(used)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        for found in joblib.Parallel()(joblib.delayed(ask)(used) for _ in range(3)):
            assert same(found, expected)


def test_every_quantifier_travels_to_a_process() -> None:
    """Answers of a pickle in a fresh interpreter are those of the original."""
    X, y, pool = data()
    made = {name: clone(one).fit(X, y) for name, one in quantifiers().items()}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        found = dict(zip(made, executor.map(ask, made.values()), strict=True))
    for name, quantifier in made.items():
        assert same(found[name], answers(quantifier, pool)), name


def test_fits_at_once_give_the_same(used: Any) -> None:
    """Folds and members fitted by two processes are those fitted one after the other."""
    X, y, pool = data()
    for name in ("KDEyHD", "OneVsAll", "Ensemble"):
        one, two = (
            answers(clone(quantifiers()[name]).set_params(n_jobs=n).fit(X, y), pool) for n in (1, 2)
        )
        assert same(one, two), name


def test_jobs_keep_their_order() -> None:
    jobs = [lambda i=i: i for i in range(5)]
    assert run_jobs(jobs, None) == run_jobs(jobs, 1) == list(range(5))
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert run_jobs(jobs, None) == list(range(5))
    with pytest.raises(ValueError, match="n_jobs"):
        run_jobs(jobs, 0)


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
from kdey import KDEyML
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
rng = np.random.default_rng(0)
P = rng.dirichlet(np.ones(5), 1000)
q = KDEyML(bandwidth=0.05, n_jobs=2).fit_posteriors(P, np.arange(1000) % 5)
few = q.aggregate(P[:50])
bags = [np.arange(1000)] * 40
started = threading.Event()
def interrupt():
    started.wait()
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    started.set()
    while True:
        q.aggregate_bags(P, bags)
except KeyboardInterrupt:
    assert np.array_equal(q.aggregate(P[:50]), few)
    q.fit_posteriors(P, np.arange(1000) % 5)
    assert np.array_equal(q.aggregate(P[:50]), few)
    print("usable")
"""


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("way", ["1", "0"])
def test_an_interrupt_leaves_all_usable(way: str) -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if way == "0":
        variables["KDEY_NATIVE"] = "0"
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env=variables, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.stdout.strip() == "usable", done.stderr
