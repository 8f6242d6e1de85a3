"""What a soak does: one random thing that a user could do, on random small data.

An operation is a function of its :class:`Case` alone, and a case is drawn from (seed, number), so
that a failure can be repeated on its own: ``soak.py --seed S --only NUMBER``.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from click.testing import CliRunner
from sklearn.base import clone

import kdey
from kdey import native
from tests.quantifiers import methods

NUMPY_SHARE = 0.1
LETTERS = np.array(list("abcdef"))


@dataclass(frozen=True)
class Case:
    """Random data with a random quantifier.

    Attributes
    ----------
    rng : of everything random in the operation
    name, quantifier : not fitted
    X, y : training data, (n, d) and (n,)
    pool, labels : what bags are drawn from
    folder : for files
    """

    rng: np.random.Generator
    name: str
    quantifier: Any
    X: np.ndarray
    y: np.ndarray
    pool: np.ndarray
    labels: np.ndarray
    folder: Path

    def fitted(self) -> Any:
        """Return the quantifier, fitted on a clone."""
        return clone(self.quantifier).fit(self.X, self.y)

    def bags(self) -> list[np.ndarray]:
        """Return one to four bags over the pool."""
        n = len(self.pool)
        sizes = self.rng.integers(1, n, size=self.rng.integers(1, 5))
        return [self.rng.integers(0, n, size=int(size)) for size in sizes]

    def seed(self) -> int:
        """Return a seed for what takes one."""
        return int(self.rng.integers(1 << 31))


def draw(seed: int, number: int, folder: Path) -> Case:
    """Return the case of an operation."""
    rng = np.random.default_rng([seed, number])
    k = int(rng.choice([2, 2, 3, 3, 4, 6]))
    X, y = _data(rng, k, int(rng.integers(12 * k, 80 * k)))
    pool, labels = _data(rng, k, int(rng.integers(20, 300)))
    known = methods.binary() if k == 2 and rng.random() < 0.6 else methods.multiclass()
    name = str(rng.choice(sorted(known)))
    quantifier = known[name]
    if "n_jobs" in quantifier.get_params():
        quantifier.set_params(n_jobs=int(rng.integers(1, 3)))
    if "random_state" in quantifier.get_params():
        quantifier.set_params(random_state=int(rng.integers(1000)))
    return Case(rng, name, quantifier, X, y, pool, labels, folder)


def _data(rng: np.random.Generator, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return overlapping Gaussian classes; each has at least eight instances."""
    codes = np.concatenate([np.repeat(np.arange(k), 8), rng.integers(0, k, max(n - 8 * k, 0))])
    centres = np.random.default_rng(7).normal(scale=1.5, size=(k, 4))
    return centres[codes] + rng.normal(size=(len(codes), 4)), LETTERS[codes]


def right(prevalence: Any) -> None:
    """Raise unless every row is a finite point of the simplex."""
    p = np.atleast_2d(prevalence)
    if not (np.isfinite(p).all() and (p >= 0).all() and np.allclose(p.sum(axis=1), 1.0)):
        raise AssertionError(f"not prevalences: {p}")


def predict(case: Case) -> None:
    """Fit, and predict one bag and several."""
    q = case.fitted()
    right(q.predict(case.pool))
    right(q.predict_bags(case.pool, case.bags()))


def estimate(case: Case) -> None:
    """Intervals of any kind, for one bag or several."""
    q = case.fitted()
    options: dict[str, Any] = {"random_state": case.seed(), "n_replicates": 40}
    options["method"] = str(case.rng.choice(["auto", "bootstrap"]))
    options["target"] = str(case.rng.choice(["population", "bag"]))
    try:
        made = q.estimate_bags(case.pool, case.bags(), options=kdey.Options(**options))
    except ValueError as error:
        if "target='bag'" not in str(error):  # not every method has it, and says so
            raise
        return
    right(made.estimate)
    one = q.estimate(case.pool, confidence=0.8, options=kdey.Options(**options))
    if not ((one.low <= one.estimate) & (one.estimate <= one.high)).all():
        raise AssertionError(f"limits do not hold the estimate: {one}")


def evaluate(case: Case) -> None:
    """Two quantifiers over a protocol."""
    named = {"one": case.fitted(), "two": kdey.PACC(methods.classifier(), cv=3)}
    named["two"].fit(case.X, case.y)
    protocol = kdey.APP(int(case.rng.integers(1, 40)), 30, random_state=case.seed())
    results = kdey.evaluate(
        named, case.pool, case.labels, protocol, n_jobs=int(case.rng.integers(1, 3)), verbose=False
    )
    results.to_frame()


def search(case: Case) -> None:
    """Search over a small grid, or at random."""
    classifier = methods.classifier()
    quantifier = kdey.KDEyML(classifier, cv=3, kernel="gaussian", bandwidth=0.1)
    shared: dict[str, Any] = {
        "protocol": kdey.APP(20, 30, random_state=case.seed()),
        "verbose": False,
        "n_jobs": int(case.rng.integers(1, 3)),
    }
    grid = {"bandwidth": [0.05, 0.1, 0.2], "classifier__C": [0.1, 1.0]}
    found: Any = (
        kdey.GridSearchQ(quantifier, grid, **shared)
        if case.rng.random() < 0.7
        else kdey.evaluation.RandomSearchQ(quantifier, grid, n_iter=3, **shared)
    )
    right(found.fit(case.X, case.y).predict(case.pool))


def save_and_load(case: Case) -> None:
    """Write a model file or a pickle; read back it gives the same answer."""
    q = case.fitted()
    if case.rng.random() < 0.5:
        path = kdey.save(q, case.folder / "model.kdey")
        again = kdey.load(path)
    else:
        again = pickle.loads(pickle.dumps(q))
    if not np.array_equal(q.predict(case.pool), again.predict(case.pool)):
        raise AssertionError("the model read back answers differently")


def report(case: Case) -> None:
    """Write a page on an estimate."""
    q = case.fitted()
    kdey.write_report(case.folder / "report.html", q.estimate(case.pool), quantifier=q)


def plot(case: Case) -> None:
    """Draw an estimate, or an evaluation."""
    import matplotlib.pyplot as plt

    from kdey.plots import DiagonalDisplay, IntervalsDisplay

    q = case.fitted()
    if case.rng.random() < 0.5:
        display: Any = IntervalsDisplay.from_estimate(q.estimate(case.pool))
    else:
        protocol = kdey.APP(15, 20, random_state=0)
        results = kdey.evaluate(q, case.pool, case.labels, protocol, verbose=False)
        display = DiagonalDisplay.from_results(results)
    display.figure_.savefig(case.folder / "picture.png", dpi=50)
    plt.close(display.figure_)


def group_table(case: Case) -> None:
    """Estimates by group of a data frame."""
    frame = _frame(case)
    q = clone(case.quantifier).fit(frame[list("pqrs")], case.y)
    table = q.predict_groups(
        frame.drop(columns="kind"), by="shop", options=kdey.Options(n_replicates=40)
    ).to_frame()
    right(table.groupby("shop")["estimate"].sum().to_numpy()[:, None])


def _frame(case: Case) -> pd.DataFrame:
    frame = pd.DataFrame(case.X, columns=list("pqrs"))
    return frame.assign(shop=case.rng.choice(["N", "S"], len(frame)), kind=case.y)


def command_line(case: Case) -> None:
    """``kdey fit``, then ``estimate`` or ``report``, in this process."""
    from kdey.cli.__main__ import kdey as command

    frame, folder = _frame(case), case.folder
    frame.drop(columns="shop").to_csv(folder / "train.csv", index=False)
    frame.drop(columns="kind").to_csv(folder / "new.csv", index=False)
    model = folder / "cli.kdey"
    method = ["--method", "kdey-ml", "--option", "bandwidth=0.2"]
    fit = ["fit", folder / "train.csv", "--label", "kind", *method, "-o", model]
    asked = str(case.rng.choice(["estimate", "report", "inspect"]))
    then: list[Any] = [asked, model]
    if asked != "inspect":
        then += [
            folder / "new.csv",
            "--by",
            "shop",
            "-o",
            folder / f"{asked}.{'csv' if asked == 'estimate' else 'html'}",
        ]
    for words in (fit, then):
        done = CliRunner().invoke(command, [str(word) for word in words])
        if done.exit_code:
            raise AssertionError(f"kdey {words}: {done.output}")


def draw_posterior(case: Case) -> None:
    """Draws of a prevalence, and a fit check, where there are training posteriors."""
    q = kdey.KDEyML(methods.classifier(), cv=3, bandwidth=0.2, random_state=0).fit(case.X, case.y)
    draws = kdey.sample_posterior(q, case.pool, min_ess=50, random_state=case.seed())
    right(draws.mean())
    kdey.check_fit(q, case.pool, n_null=40, random_state=case.seed())


def many_threads(case: Case) -> None:
    """Four Python threads ask one quantifier at once."""
    q = case.fitted()
    expected = q.predict(case.pool)
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(q.predict, [case.pool] * 8):
            if not np.array_equal(found, expected):
                raise AssertionError("a thread was answered differently")


def bad_input(case: Case) -> None:
    """Input that must raise an error that names it."""
    q = case.fitted()
    broken = case.pool.copy()
    broken[0, 0] = np.nan
    wrong: list[Callable[[], Any]] = [
        lambda: q.predict(case.pool[:0]),
        lambda: q.predict(broken),
        lambda: q.predict_bags(case.pool, [np.array([len(case.pool)])]),
        lambda: q.estimate(case.pool, confidence=1.5),
        lambda: clone(case.quantifier).fit(case.X, case.y[:-1]),
        lambda: kdey.load(case.folder / "no such file.kdey"),
    ]
    for attempt in wrong:
        try:
            attempt()
        except (ValueError, FileNotFoundError):
            continue
        if not (attempt is wrong[1] and case.name == "TrainingPrevalence"):
            raise AssertionError("bad input was taken")


#: What is done, and how often in proportion.
OPERATIONS: dict[str, tuple[Callable[[Case], None], int]] = {
    "predict": (predict, 8),
    "estimate": (estimate, 6),
    "evaluate": (evaluate, 4),
    "search": (search, 2),
    "save and load": (save_and_load, 3),
    "report": (report, 2),
    "plot": (plot, 2),
    "groups": (group_table, 3),
    "command line": (command_line, 2),
    "posterior draws": (draw_posterior, 2),
    "threads": (many_threads, 3),
    "bad input": (bad_input, 3),
}


def perform(seed: int, number: int, folder: Path) -> str:
    """Do operation ``number``; return its kind."""
    rng = np.random.default_rng([seed, number, 1])
    shares = np.array([share for _, share in OPERATIONS.values()], dtype=float)
    kind = str(rng.choice(list(OPERATIONS), p=shares / shares.sum()))
    with core(numpy_only=rng.random() < NUMPY_SHARE):
        OPERATIONS[kind][0](draw(seed, number, folder))
    return kind


@contextmanager
def core(*, numpy_only: bool) -> Iterator[None]:
    """Take the NumPy path for a while."""
    before = os.environ.get("KDEY_NATIVE")
    if numpy_only:
        os.environ["KDEY_NATIVE"] = "0"
        native.library.cache_clear()
    try:
        yield
    finally:
        if numpy_only:
            os.environ.pop("KDEY_NATIVE")
            if before is not None:
                os.environ["KDEY_NATIVE"] = before
            native.library.cache_clear()
