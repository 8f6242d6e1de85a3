"""Time one bag, as a service would meet it, beside the same method elsewhere.

Run with ``OPENBLAS_NUM_THREADS=1 python benchmarks/latency.py``. Each cell is the median and the
99th percentile of single calls on one thread, in microseconds of processor time: on a shared
machine the wall clock measures who else is at work. There are up to 2,000 calls in a cell, and 20
where a call takes longer than 7 ms. Every library gets the same training
posteriors and the same bags; libraries that are not installed have empty cells. QuaPy and
mlquantify are fitted with a classifier that hands posteriors through, and are then called by
``aggregate``; quantificationlib takes predictions itself.

With ``--loaded``, models are fitted on 2,000 rows of ten features, saved and loaded again, and 1
and 8 threads ask for the shares of 200 rows as often as they can: median and 99th percentile of the
processor time that a thread spends on an answer and of the wall clock, answers a second, and
processor time of all threads by answers; ``scoring`` is what its classifiers take.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import kdey
from kdey import native
from kdey.kernels import PackedReferences
from printing import markdown, significant

Answer = Callable[[np.ndarray], Any]
SIZES = (10, 100, 1000)
#: The methods of each library, by the name that kdey has for them.
PEERS: dict[str, dict[str, str]] = {
    "quapy": {
        **{name: f"quapy.method.aggregative.{name}" for name in ("CC", "PACC", "EMQ", "KDEyML")},
        "Quantifier": "quapy.method.meta.Ensemble",
    },
    "mlquantify": {
        "CC": "mlquantify.counting.CC",
        "PACC": "mlquantify.counting.GPACC",
        "EMQ": "mlquantify.likelihood.EMQ",
        "KDEyML": "mlquantify.matching.KDEyML",
    },
    "quantificationlib": {
        "CC": "quantificationlib.baselines.cc.CC",
        "PACC": "quantificationlib.baselines.ac.PAC",
        "EMQ": "quantificationlib.multiclass.em.EM",
    },
}
METHODS: dict[str, Callable[[], Any]] = {
    "CC": kdey.CC,
    "PACC": kdey.PACC,
    "EMQ": kdey.EMQ,
    "KDEyML": lambda: kdey.KDEyML(bandwidth=0.1),
    "KDEyML, automatic": lambda: kdey.KDEyML(random_state=0),
    "Quantifier": lambda: kdey.Quantifier(random_state=0),
}


class HandedThrough(ClassifierMixin, BaseEstimator):
    """A classifier whose instances are their posteriors."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> HandedThrough:
        """Note the classes."""
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the instances."""
        return np.asarray(X)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the most probable classes."""
        return np.asarray(self.classes_[np.argmax(X, axis=1)])


def draw(rng: np.random.Generator, size: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return posteriors (size, k) that lean towards the classes of their instances, and these."""
    labels = rng.permutation(np.arange(size) % k)
    gammas = rng.gamma(0.3 + 2.0 * np.eye(k)[labels])
    return gammas / gammas.sum(axis=1, keepdims=True), labels


def ours(method: str, P: np.ndarray, y: np.ndarray) -> dict[str, Answer]:
    """Return the two ways to ask kdey."""
    fitted = METHODS[method]().fit_posteriors(P, y)
    return {"aggregate": fitted.aggregate, "aggregator()": fitted.aggregator()}


def theirs(library: str, method: str, P: np.ndarray, y: np.ndarray) -> Answer | None:
    """Return how to ask another library; None if it is not installed or lacks the method."""
    place = PEERS[library].get(method)
    if place is None:
        return None
    module, _, name = place.rpartition(".")
    try:
        kind = getattr(import_module(module), name)
    except ImportError:
        return None
    if library == "quantificationlib":
        fitted = kind(estimator_test=HandedThrough().fit(P, y))
        fitted.fit(P, y, predictions_train=P)
        return lambda bag: fitted.predict(bag, predictions_test=bag)
    if name == "Ensemble":
        base = import_module("quapy.method.aggregative").EMQ
        return kind(base(HandedThrough())).fit(P, y).predict
    fitted = kind(HandedThrough()).fit(P, y)
    if library == "quapy" and method == "CC":  # takes decisions
        return lambda bag: fitted.aggregate(bag.argmax(axis=1))
    return fitted.aggregate


def quantiles(answer: Answer, bags: list[np.ndarray], seconds: float) -> tuple[float, float]:
    """Return median and 99th percentile of single calls, in microseconds."""
    for bag in bags[:5]:
        answer(bag)
    taken: list[int] = []
    end = time.process_time() + seconds
    while len(taken) < 2000 and (len(taken) < 20 or time.process_time() < end):
        bag = bags[len(taken) % len(bags)]
        start = time.process_time_ns()
        answer(bag)
        taken.append(time.process_time_ns() - start)
    middle, high = np.quantile(taken, [0.5, 0.99]) / 1e3
    return float(middle), float(high)


def cell(answer: Answer | None, bags: list[np.ndarray], seconds: float) -> str | None:
    if answer is None:
        return None
    middle, high = quantiles(answer, bags, seconds)
    return f"{significant(middle)} / {significant(high)}"


def installed(library: str) -> str:
    try:
        return f"{library} {version(library)}"
    except PackageNotFoundError:
        return f"{library} (not installed)"


def one_query(rng: np.random.Generator, seconds: float) -> str:
    """Return the time of one query against 20,000 references of 28 classes, and the memory."""
    n, k = 20_000, 28
    references, labels = draw(rng, n, k)
    references = references[np.argsort(labels, kind="stable")]
    packed = PackedReferences(references, np.linspace(0, n, k + 1).astype(np.int64))
    queries = [row[None] for row in draw(rng, 50, k)[0]]
    middle, high = quantiles(lambda query: packed.log_sums(query, 0.1), queries, seconds)
    return (
        f"One query against {n:,} packed references of {k} classes: {significant(middle)} / "
        f"{significant(high)} microseconds. The packed form takes "
        f"{packed.nbytes / 1e6:.1f} MB, the references in float64 {references.nbytes / 1e6:.1f}."
    )


#: Rows of one question, columns, and threads of a service.
QUESTION, COLUMNS, THREADS = 200, 10, (1, 8)


def loaded_models(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return models that were fitted, written and read again."""
    made: dict[str, Any] = {
        "Quantifier": kdey.Quantifier(random_state=0),
        "KDEyML": kdey.KDEyML(LogisticRegression(), random_state=0),
        "PACC": kdey.PACC(LogisticRegression(), random_state=0),
    }
    models = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, q in made.items():
            kdey.save(q.fit(X, y), Path(folder) / "model.kdey")
            models[name] = kdey.load(Path(folder) / "model.kdey")
    for name in ("KDEyML", "PACC"):
        try:
            kind = getattr(import_module("quapy.method.aggregative"), name)
        except ImportError:
            continue
        models[f"{name} of QuaPy"] = pickle.loads(
            pickle.dumps(kind(LogisticRegression()).fit(X, y))
        )
    return models


def serve(answer: Answer, bags: list[np.ndarray], n_threads: int, seconds: float) -> list[str]:
    """Return p50 and p99 by thread and by clock, answers a second and processor time of each."""
    taken: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds

    def ask(number: int) -> None:
        while time.perf_counter() < end:
            start, spent = time.perf_counter(), time.thread_time()
            answer(bags[(number + len(taken)) % len(bags)])
            taken.append((time.thread_time() - spent, time.perf_counter() - start))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(n_threads)]
    begin, processor = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = len(taken) / (time.perf_counter() - begin)
    each = 1e3 * (time.process_time() - processor) / len(taken)
    both = 1e3 * np.quantile(taken, [0.5, 0.99], axis=0).T
    return [*map(significant, (*both.ravel(), rate, each))]


def print_loaded(seconds: float) -> None:
    """Print the times of loaded models that answer in threads."""
    rng = np.random.default_rng(0)
    y = np.arange(2_000) % 3
    means = rng.normal(0.0, 0.6, (3, COLUMNS))
    X = means[y] + rng.normal(size=(len(y), COLUMNS))
    bags = [means[rng.integers(3, size=QUESTION)] for _ in range(50)]
    bags = [bag + rng.normal(size=bag.shape) for bag in bags]
    rows = []
    for name, q in loaded_models(X, y).items():
        asked: dict[str, Answer] = {"predict": q.predict}
        if hasattr(q, "estimate"):
            asked = {"scoring": q.model_.points, **asked, "estimate": q.estimate}
        for call, answer in asked.items():
            answer(bags[0])
            rows += [[name, call, str(n), *serve(answer, bags, n, seconds)] for n in THREADS]
    times = ["p50, ms", "p99, ms", "p50 by clock", "p99 by clock", "answers/s", "processor, ms"]
    head = ["model", "call", "threads", *times]
    print(markdown(head, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=3)
    parser.add_argument("--training", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=0.15, help="processor time of each cell")
    parser.add_argument("--loaded", action="store_true", help="a service in threads instead")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.loaded:
        print_loaded(seconds=20 * options.seconds)
        return
    rng, k = np.random.default_rng(0), options.classes
    P, y = draw(rng, options.training, k)
    bags = {size: [draw(rng, size, k)[0] for _ in range(50)] for size in SIZES}
    print(
        f"Instruction set: {native.instruction_set() or 'NumPy'}. "
        f"{options.training:,} training posteriors of {k} classes; median / 99th percentile of one "
        "call in microseconds of processor time. QuaPy's Ensemble stands beside Quantifier.\n"
    )
    rows = []
    for method in METHODS:
        asked: dict[str, Answer | None] = {**ours(method, P, y)}
        asked.update({library: theirs(library, method, P, y) for library in PEERS})
        for size in SIZES:
            cells = [cell(answer, bags[size], options.seconds) for answer in asked.values()]
            rows.append([method, f"{size:,}", *cells])
    head = ["method", "rows", "aggregate", "aggregator()", *map(installed, PEERS)]
    print(markdown(head, rows))
    print(f"\n{one_query(rng, options.seconds)}")


if __name__ == "__main__":
    main()
