"""Fingerprints: what means the same is the same, and what does not is not."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import types
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import FunctionTransformer

import kdey
from kdey._fingerprints import fingerprint, globals_read
from tests.evaluation.cases import blobs


def power(exponent: float) -> Any:
    return lambda x: x**exponent


def itself() -> Any:
    def count(n: int) -> int:
        return 0 if n == 0 else 1 + count(n - 1)

    return count


class Scaled:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return self.factor * x

    def apply(self, x: Any) -> Any:
        return self.factor * x


MEANINGS = [
    lambda: lambda x: x,
    lambda: lambda x: x + 1,
    lambda: lambda x: x + 2,
    lambda: lambda x, y=1: x,
    lambda: lambda x, y=2: x,
    lambda: lambda x, *, y=2: x,
    lambda: lambda x: math.sin(x),
    lambda: lambda x: math.cos(x),
    lambda: lambda x: [y + 1 for y in x],
    lambda: lambda x: [y + 2 for y in x],
    lambda: power(1.0),
    lambda: power(2.0),
    itself,
    lambda: Scaled(1.0).apply,
    lambda: Scaled(2.0).apply,
    lambda: Scaled(2.0),
    lambda: partial(np.add, 1),
    lambda: partial(np.add, 2),
    lambda: np.add,
    lambda: np.sin,
    lambda: math,
    lambda: Scaled,
    lambda: LogisticRegression(C=1.0),
    lambda: LogisticRegression(C=2.0),
    lambda: FunctionTransformer(lambda x: x),
    lambda: FunctionTransformer(lambda x: -x),
]


def test_the_same_meaning_has_the_same_fingerprint_and_no_other_has() -> None:
    found = [fingerprint(make()) for make in MEANINGS]
    assert len(set(found)) == len(MEANINGS)
    assert [fingerprint(make()) for make in MEANINGS] == found


def test_fingerprints_are_those_of_the_next_process() -> None:
    program = "from tests.test_fingerprint import *; print(*[fingerprint(m()) for m in MEANINGS])"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"}
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env
    ).stdout
    assert found.split() == [fingerprint(make()) for make in MEANINGS]


FACTOR = 1.0
LOCK = threading.Lock()


class Options:
    SHIFT = 0.0


def helper(x: Any, shift: float = 0.0) -> Any:
    return FACTOR * x + shift


def reads_global(x: Any) -> Any:
    return FACTOR * x


def reads_inside(x: Any) -> Any:
    return [FACTOR * y for y in x]


def calls_helper(x: Any) -> Any:
    return helper(x)


def reads_class(x: Any) -> Any:
    return x + Options.SHIFT


def reads_module(x: Any) -> Any:
    return settings.LIMIT * x


def reads_lock(x: Any) -> Any:
    with LOCK:
        return FACTOR * x


def reads_itself(x: Any) -> Any:
    return REGISTRY["itself"](x) if x else FACTOR


def encloses() -> Any:
    def inner(x: Any) -> Any:
        return helper(x)

    return lambda x: inner(x)


class ReadsGlobal:
    def __call__(self, x: Any) -> Any:
        return FACTOR * x


REGISTRY = {"itself": reads_itself}
settings = types.ModuleType("settings_of_a_user")
settings.LIMIT = 1.0  # type: ignore[attr-defined]
sys.modules[settings.__name__] = settings
HERE = sys.modules[__name__]


@pytest.mark.parametrize(
    ("make", "changed", "value"),
    [
        (lambda: reads_global, (HERE, "FACTOR"), 2.0),
        (lambda: reads_inside, (HERE, "FACTOR"), 2.0),
        (lambda: calls_helper, (HERE, "FACTOR"), 2.0),
        (lambda: calls_helper, (helper, "__defaults__"), (1.0,)),
        (lambda: calls_helper, (helper, "__code__"), reads_class.__code__),
        (lambda: reads_class, (Options, "SHIFT"), 1.0),
        (lambda: reads_module, (settings, "LIMIT"), 2.0),
        (lambda: reads_lock, (HERE, "FACTOR"), 2.0),
        (lambda: reads_itself, (HERE, "FACTOR"), 2.0),
        (encloses, (HERE, "FACTOR"), 2.0),
        (lambda: partial(reads_global), (HERE, "FACTOR"), 2.0),
        (ReadsGlobal, (HERE, "FACTOR"), 2.0),
        (lambda: FunctionTransformer(reads_global), (HERE, "FACTOR"), 2.0),
    ],
)
def test_functions_differ_by_what_they_read(
    make: Any, changed: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint(make())
    assert fingerprint(make()) == before
    monkeypatch.setattr(*changed, value)
    assert fingerprint(make()) != before


def test_what_a_function_does_not_read_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(reads_class)
    monkeypatch.setattr(HERE, "FACTOR", 2.0)
    monkeypatch.setattr(settings, "LIMIT", 2.0)
    assert fingerprint(reads_class) == before


def test_functions_of_libraries_enter_without_what_they_read() -> None:
    assert not list(globals_read(train_test_split))
    assert not list(globals_read(lambda x: np.sin(math.pi * x)))  # type: ignore[arg-type]


def test_what_cannot_be_told_apart_is_refused() -> None:
    with pytest.raises(TypeError, match="must be picklable"):
        fingerprint(threading.Lock())


def test_a_search_over_functions_scores_each_of_them() -> None:
    X, y = blobs(150, seed=1)
    keep = np.isin(y, ["a", "b"])

    def distance(sign: float) -> Any:
        return lambda p, q: sign * np.abs(p - q).sum(axis=1)

    search = kdey.GridSearchQ(
        kdey.DyS(LogisticRegression(), cv=3),
        {"dissimilarity": [distance(1.0), distance(-1.0)]},
        protocol=kdey.APP(20, 50),
        refit=False,
    ).fit(X[keep], y[keep])
    near, far = search.cv_results_["mean_test_score"]
    assert near > far + 0.1
