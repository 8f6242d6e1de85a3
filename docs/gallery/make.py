"""Draw the pictures of the gallery: ``python docs/gallery/make.py [FOLDER]`` (under a minute)."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from kdey import APP, CC, EMQ, PACC, KDEyML, evaluate
from kdey.evaluation.significance import nemenyi
from kdey.plots import (
    BiasDisplay,
    CriticalDifferenceDisplay,
    DiagonalDisplay,
    ErrorByShiftDisplay,
    IntervalsDisplay,
    PrevalenceOverTimeDisplay,
    ReliabilityDisplay,
    TuningDisplay,
)

_DPI = 90


def digits() -> tuple[Any, Any, Any, Any]:
    """Return half of the digits to train on and half as a pool, at a quarter of their pixels."""
    data = load_digits()
    X = data.images[:, ::2, ::2].reshape(len(data.images), -1) / 16
    return tuple(train_test_split(X, data.target, train_size=0.5, random_state=0))


def evaluated() -> Iterator[tuple[str, Any]]:
    """Yield the displays of an evaluation."""
    X, X_pool, y, y_pool = digits()
    classifier = LogisticRegression(max_iter=2000)
    methods = {
        "CC": CC(classifier),
        "PACC": PACC(classifier),
        "EMQ": EMQ(classifier),
        "KDEy-ML": KDEyML(classifier, random_state=0),
    }
    fitted = {name: method.fit(X, y) for name, method in methods.items()}
    results = evaluate(fitted, X_pool, y_pool, protocol=APP(300, 200, random_state=0))
    prevalence = fitted["CC"].prevalence_
    yield "diagonal", DiagonalDisplay.from_results(results)
    yield "shift", ErrorByShiftDisplay.from_results(results, prevalence)
    yield "bias", BiasDisplay.from_results(results)
    two = ["CC", "KDEy-ML"]
    yield "bias-by-class", BiasDisplay.from_results(results, methods=two, by_class=True)
    yield "calibration", ReliabilityDisplay.from_estimator(fitted["KDEy-ML"])
    yield "tuning", TuningDisplay.from_estimator(fitted["KDEy-ML"])
    shown = np.random.default_rng(0).choice(np.flatnonzero(y_pool < 5), 400)
    truth = np.bincount(y_pool[shown], minlength=10) / len(shown)
    display = IntervalsDisplay.from_estimator(fitted["KDEy-ML"], X_pool[shown], truth=truth)
    yield "intervals", display
    # Blocks of bags stand in for data sets: the diagram needs many of them.
    metric = next(iter(results.methods["CC"].errors))
    blocks = [results.errors(metric, name).reshape(30, 10).mean(axis=1) for name in methods]
    ranked = nemenyi(np.transpose(blocks), list(methods))
    yield "critical-difference", CriticalDifferenceDisplay.from_results(ranked)


def over_time() -> Any:
    """Return the display of digits whose mix drifts from week to week."""
    X, X_pool, y, y_pool = digits()
    labels = np.array(["zero to two", "three to five", "six to nine"])
    coarse, pool = np.digitize(y, [3, 6]), np.digitize(y_pool, [3, 6])
    quantifier = KDEyML(LogisticRegression(max_iter=2000), random_state=0).fit(X, labels[coarse])
    rng, rows = np.random.default_rng(0), []
    for week in range(26):
        share = 1 / (1 + np.exp(-(week - 12) / 4))
        weights = np.array([0.7 * (1 - share), 0.3, 0.7 * share])[pool]
        bag = rng.choice(len(pool), 250, p=weights / weights.sum())
        columns = quantifier.estimate(X_pool[bag]).columns()
        shared = {"n": len(bag), "week": dt.date(2026, 1, 5) + dt.timedelta(7 * week)}
        rows += [shared | {name: own[code] for name, own in columns.items()} for code in range(3)]
    return PrevalenceOverTimeDisplay.from_results(rows, "week")


def displays() -> Iterator[tuple[str, Any]]:
    """Yield all displays with the names of their files."""
    yield "time", over_time()
    yield from evaluated()


def main(folder: Path) -> None:
    """Write one PNG file per display."""
    import matplotlib.pyplot as plt

    for name, display in displays():
        display.figure_.savefig(folder / f"{name}.png", dpi=_DPI)
        plt.close(display.figure_)
        print(folder / f"{name}.png")


if __name__ == "__main__":
    mpl.use("agg")
    mpl.rcParams.update({"font.size": 9})
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
