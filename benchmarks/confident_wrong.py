"""Confident and wrong: bags whose interval misses, and whose status is "no problem found".

``python benchmarks/confident_wrong.py`` changes bags of several data sets in ten ways, and writes
to ``benchmarks/results/confident_wrong.csv`` one line per data set and change: the number of bags
that are wrong (some interval misses the true share by more than five points), of those that are
wrong and were said to have no problem, and of those with an alarm. ``label shift`` changes nothing
but the shares: its alarms are false. A few minutes on two busy cores.

To keep to that, a logistic regression (``PACC``) stands for the default pool, bags have 300 rows,
and there are few of them per case. Texts are synthetic (words of two classes).
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kdey
from kdey import status
from summaries import RESULTS

SUMMARY = RESULTS / "confident_wrong.csv"
#: Rows of a bag, and how far an interval must miss to be wrong.
SIZE, MISS = 300, 0.05
#: Words of synthetic texts.
VOCABULARY = 5_000

Array = np.ndarray
Change = Callable[[Array, Array, np.random.Generator], Array]


def all_columns(amount: float) -> Change:
    """Return the change that moves all columns by so many standard deviations."""
    return lambda X, y, rng: X + amount * X.std(axis=0)


def one_class(X: Array, y: Array, rng: np.random.Generator) -> Array:
    """Move one class by half a standard deviation."""
    return X - 0.5 * X.std(axis=0) * (y == y.min())[:, None]


def other_units(X: Array, y: Array, rng: np.random.Generator) -> Array:
    """Measure the column with the largest spread in other units."""
    changed = X.copy()
    changed[:, np.argmax(X.std(axis=0))] *= 2.54
    return changed


def noise(X: Array, y: Array, rng: np.random.Generator) -> Array:
    """Add noise of half a standard deviation."""
    return X + 0.5 * X.std(axis=0) * rng.normal(size=X.shape)


def constant(X: Array, y: Array, rng: np.random.Generator) -> Array:
    """Replace the most spread column by its mean."""
    changed = X.copy()
    column = int(np.argmax(X.std(axis=0)))
    changed[:, column] = X[:, column].mean()
    return changed


def unknown_class(share: float) -> Change:
    """Return the change that replaces rows by mixtures of columns of unrelated rows."""

    def change(X: Array, y: Array, rng: np.random.Generator) -> Array:
        strangers = np.column_stack([rng.permutation(column) for column in X.T])
        away = strangers + 1.5 * X.std(axis=0) * rng.choice([-1.0, 1.0], X.shape[1])
        return np.where(rng.random((len(X), 1)) < share, away, X)

    return change


CHANGES: dict[str, Change] = {
    "label shift": lambda X, y, rng: X,
    "all columns + 0.25 sd": all_columns(0.25),
    "all columns + 0.5 sd": all_columns(0.5),
    "one class - 0.5 sd": one_class,
    "other units": other_units,
    "noise of 0.5 sd": noise,
    "a column constant": constant,
    "unknown class of 10 %": unknown_class(0.1),
    "unknown class of 20 %": unknown_class(0.2),
    "unknown class of 40 %": unknown_class(0.4),
}


def numeric_sets() -> Iterator[tuple[str, Array, Array]]:
    """Yield scikit-learn's bundled sets that are large enough, and three drawn ones."""
    for name, load in (
        ("breast cancer", load_breast_cancer),
        ("digits", load_digits),
        ("iris", load_iris),
        ("wine", load_wine),
    ):
        yield name, *load(return_X_y=True)
    rng = np.random.default_rng(1)
    for d in (5, 20):
        y = rng.integers(0, 3, 3000)
        yield f"Gaussian, {d} columns", rng.normal(size=(3000, d)) + 1.2 * np.eye(3, d)[y], y
    y = rng.integers(0, 2, 3000)
    yield "log-normal", np.exp(0.5 * rng.normal(size=(3000, 6)) + 0.5 * y[:, None]), y


def outcomes(X: Array, y: Array, n_splits: int, n_bags: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what came of every changed bag."""
    rng = np.random.default_rng(seed)
    classes = np.unique(y)
    for split in range(n_splits):
        order = rng.permutation(len(y))
        train, rest = order[: len(y) // 2], order[len(y) // 2 :]
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        quantifier = kdey.PACC(model, random_state=split).fit(X[train], y[train])
        for name, change in CHANGES.items():
            for _ in range(n_bags):
                share = rng.dirichlet(np.ones(len(classes)))
                chosen = rng.choice(classes, min(SIZE, len(rest)), p=share)
                rows = np.array([rng.choice(rest[y[rest] == label]) for label in chosen])
                rows = np.unique(rows)  # no row twice, which label shift would not give
                truth = np.array([(y[rows] == label).mean() for label in classes])
                estimate = quantifier.estimate(change(X[rows], y[rows], rng))
                miss = np.maximum(estimate.low - truth, truth - estimate.high).max()
                yield {"change": name, "wrong": miss > MISS, "status": estimate.status}


def text_outcomes(n_splits: int, n_bags: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what came of bags of texts: under label shift, and with other words."""
    rng = np.random.default_rng(seed)
    tilt = np.exp(rng.normal(scale=0.6, size=(2, VOCABULARY)))
    frequencies = tilt / np.arange(1, VOCABULARY + 1) ** 1.05
    frequencies /= frequencies.sum(axis=1, keepdims=True)

    def texts(labels: Array, new: float = 0.0) -> pd.DataFrame:
        made = []
        for label in labels:
            words = rng.choice(VOCABULARY, rng.integers(6, 20), p=frequencies[label])
            fresh = rng.random(len(words)) < new
            pairs = zip(words, fresh, strict=True)
            made.append(" ".join(f"{'new' if f else 'w'}{w}" for w, f in pairs))
        return pd.DataFrame({"text": made})

    for split in range(n_splits):
        y = rng.integers(0, 2, 800)
        quantifier = kdey.Quantifier(
            classifiers="logistic regression", effort="low", random_state=split
        ).fit(texts(y), y)
        for name, new in (("label shift", 0.0), ("changed vocabulary", 0.3)):
            for _ in range(n_bags):
                labels = (rng.random(SIZE) < rng.random()).astype(int)
                truth = np.array([(labels == 0).mean(), (labels == 1).mean()])
                estimate = quantifier.estimate(texts(labels, new))
                miss = np.maximum(estimate.low - truth, truth - estimate.high).max()
                yield {"change": name, "wrong": miss > MISS, "status": estimate.status}


def summarised(data: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one line per kind of change."""
    lines = []
    for change in dict.fromkeys(row["change"] for row in rows):
        own = [row for row in rows if row["change"] == change]
        wrong = [row for row in own if row["wrong"]]
        unseen = [row for row in wrong if row["status"] == status.OK]
        alarms = [row for row in own if status.POOR_FIT in status.status_parts(row["status"])]
        lines.append(
            {
                "data": data,
                "change": change,
                "bags": len(own),
                "alarms": len(alarms),
                "wrong": len(wrong),
                "confident_and_wrong": len(unseen),
            }
        )
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Run all cases and write the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--bags", type=int, default=3)
    parser.add_argument("--output", type=Path, default=SUMMARY)
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    lines: list[dict[str, Any]] = []
    for name, X, y in numeric_sets():
        lines += summarised(name, list(outcomes(X, y, asked.splits, asked.bags, seed=0)))
        _write(asked.output, lines)
    lines += summarised("texts", list(text_outcomes(asked.splits, 2 * asked.bags, seed=0)))
    _write(asked.output, lines)
    wrong = sum(line["wrong"] for line in lines)
    unseen = sum(line["confident_and_wrong"] for line in lines)
    print(f"{unseen} of {wrong} wrong bags have no problem found")


def _write(path: Path, lines: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
