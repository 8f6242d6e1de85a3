"""Time per 1,000 bags of 500 on letter against QuaPy 0.2.3; prints one table.

Run with ``python benchmarks/evaluation.py [--bags N] [--quapy-bags N]`` where kdey and the extra
``bench`` are installed. Both get the same training posteriors, the same pool posteriors and the
same bags. Times of kdey hold everything from the pool's posteriors on (rows and bags), on all
cores, the best of three; QuaPy is timed on its first few bags, with one BLAS thread and with all,
and the better of its seconds per bag are scaled.
Fitting the templates is outside both. Errors are compared on the bags that QuaPy did.

``--processor`` measures processor time instead, with one thread each: on a shared machine the clock
measures who else is at work. ``KDEY_ISA=avx2 OPENBLAS_CORETYPE=Haswell`` measures as on a machine
without AVX-512, for both.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import kdey
from kdey import native
from kdey.posteriors import predict_posteriors, training_posteriors
from letter import split_letter
from printing import markdown

Posteriors = np.ndarray
Clock = Callable[[], float]


@dataclass(frozen=True)
class Contest:
    """A method of kdey beside one of QuaPy.

    Attributes
    ----------
    ours : type
    options : dict
        Of kdey's method.
    theirs : str
        Name in QuaPy.
    their_options : dict
    """

    ours: Any
    options: dict[str, Any]
    theirs: str
    their_options: dict[str, Any]


_WIDTH, _WIDE = {"bandwidth": 0.08}, {"bandwidth": 0.12, "random_state": 0}
METHODS = {
    "PACC": Contest(kdey.PACC, {}, "PACC", {}),
    "KDEyML": Contest(kdey.KDEyML, _WIDTH, "KDEyML", _WIDTH),
    "KDEyML, automatic": Contest(kdey.KDEyML, {"random_state": 0}, "KDEyML", _WIDTH),
    "KDEyCS": Contest(kdey.KDEyCS, _WIDTH, "KDEyCS", _WIDTH),
    "KDEyHD": Contest(kdey.KDEyHD, _WIDE, "KDEyHD", _WIDE),
}


class _Given(BaseEstimator):
    """Stands in for QuaPy's classifier, which is asked for its classes only."""

    def __init__(self, classes: np.ndarray) -> None:
        self.classes_ = classes

    def fit(self, X: Any, y: Any) -> _Given:
        return self

    def predict_proba(self, X: Any) -> Any:
        return X


def letter_posteriors() -> tuple[Posteriors, np.ndarray, Posteriors, np.ndarray, str]:
    X, y, X_pool, y_pool, source = split_letter()
    classes, codes = np.unique(y, return_inverse=True)
    fitted, training = training_posteriors(
        LogisticRegression(max_iter=3000), X, codes, classes, cv=5, n_jobs=-1, random_state=0
    )
    pool = predict_posteriors(fitted, X_pool, classes)
    return training.required(), codes, pool, np.searchsorted(classes, y_pool), source


def time_kdey(made: Any, pool: Posteriors, bags: Any, clock: Clock) -> tuple[float, np.ndarray]:
    seconds = []
    for _ in range(3):
        start = clock()
        found = made.aggregate_bags(pool, bags)
        seconds.append(clock() - start)
    return min(seconds), found


def time_quapy(
    contest: Contest, training: Posteriors, y: np.ndarray, bags: list[Posteriors], clock: Clock
) -> tuple[float, np.ndarray]:
    from quapy.method import aggregative

    kind = getattr(aggregative, contest.theirs)
    made = kind(_Given(np.unique(y)), fit_classifier=False, **contest.their_options)
    made.aggregation_fit(training, y)
    seconds = []
    # Its products are small: with one BLAS thread it is often faster. The better one counts.
    for blas_threads in (1,) if clock is time.process_time else (1, None):
        with threadpool_limits(blas_threads, user_api="blas"):
            start = clock()
            found = np.array([made.aggregate(bag) for bag in bags])
            seconds.append((clock() - start) / len(bags))
    return min(seconds), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=1000)
    parser.add_argument("--quapy-bags", type=int, default=10)
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--processor", action="store_true", help="processor time, one thread each")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    training, y, pool, y_pool, source = letter_posteriors()
    labelled = kdey.APP(args.bags, 500).bags(y_pool)
    few = min(args.quapy_bags, args.bags)
    copies = [pool[bag] for bag in labelled.bags[:few]]
    clock = time.process_time if args.processor else time.perf_counter
    n_jobs = 1 if args.processor else -1
    print(
        f"{args.bags:,} bags of 500 of {source}; QuaPy's time and both errors from {few} bags. "
        f"Instruction set: {native.instruction_set() or 'NumPy'}. "
        f"{'Processor time, one thread each' if args.processor else 'All cores'}:\n"
    )
    rows = []
    measured: dict[str, tuple[float, np.ndarray]] = {}
    for name in args.methods:
        contest = METHODS[name]
        made = contest.ours(n_jobs=n_jobs, **contest.options).fit_posteriors(training, y)
        ours, found = time_kdey(made, pool, labelled.bags, clock)
        if contest.theirs not in measured:
            measured[contest.theirs] = time_quapy(contest, training, y, copies, clock)
        per_bag, theirs = measured[contest.theirs]
        true = labelled.prevalences[:few]
        a, b = (np.abs(estimate[:few] - true).mean() for estimate in (found, theirs))
        total = per_bag * args.bags
        ratio = f"{total / ours:,.0f}"
        cells = [f"{ours:.3f}", f"{total:.0f}", ratio, f"{a:.5f}", f"{b:.5f}"]
        rows.append([name, *cells])
    head = ["method", "kdey, s", "QuaPy, s", "ratio", "MAE of kdey", "MAE of QuaPy"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
