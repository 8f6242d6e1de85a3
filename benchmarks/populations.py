"""Populations with known prevalences, and real sets whose split is redrawn, for coverage."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FOLDER = Path(os.environ.get("KDEY_DATA", Path(__file__).parents[2] / "shared" / "data"))
REAL = ("academic-success", "digits", "dry-bean")
#: Real sets whose scored rows are the population, and how many of their classes are used, the most
#: frequent ones.
SCORED = {
    "spambase": ("uci-binary/spambase", 2),
    "wine-q-white": ("uci-binary/wine-q-white", 2),
    "academic-success": ("uci-multi/academic-success", 3),
    "cmc": ("uci-extra/cmc", 3),
    "dry-bean": ("uci-multi/dry-bean", 5),
    "pendigits": ("uci-extra/pendigits", 5),
}
DIRICHLET = np.array([[4.0, 1.5, 1.0], [1.2, 3.0, 1.5], [1.0, 1.0, 2.5]])
INNER = {
    2: [(0.3, 0.7), (0.6, 0.4)],
    3: [(0.2, 0.3, 0.5), (0.6, 0.2, 0.2), (1 / 3, 1 / 3, 1 / 3)],
    5: [(0.2, 0.2, 0.2, 0.2, 0.2), (0.3, 0.15, 0.15, 0.2, 0.2)],
}
BORDER = {
    2: [(0.03, 0.97), (0.0, 1.0)],
    3: [(0.02, 0.08, 0.9), (0.0, 0.3, 0.7), (0.01, 0.01, 0.98)],
    5: [(0.0, 0.0, 0.3, 0.3, 0.4), (0.01, 0.02, 0.03, 0.04, 0.9)],
}


@dataclass(frozen=True)
class Population:
    """A population: k classes, and how instances of given labels are drawn."""

    n_classes: int
    draw: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    classifier: bool = False


def gaussian(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return features: overlapping normal classes in the plane, the first one wider."""
    angle = 2 * np.pi * labels / 3
    scale = 1.0 + 0.3 * (labels == 0)
    middle = 1.3 * np.column_stack([np.cos(angle), np.sin(angle)])
    return middle + scale[:, None] * rng.normal(size=(len(labels), 2))


def dirichlet(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return posteriors drawn from one Dirichlet per class; they are not calibrated."""
    raw = rng.gamma(DIRICHLET[labels])
    return raw / raw.sum(axis=1, keepdims=True)


def beta(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return binary posteriors of two broad, overlapping Beta classes."""
    p = np.where(labels == 1, rng.beta(4, 2, len(labels)), rng.beta(2, 3, len(labels)))
    return np.column_stack([1 - p, p])


def softmax(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return posteriors of five classes by noisy scores: crowded corners, as in practice."""
    scores = rng.normal(size=(len(labels), 5))
    scores[np.arange(len(labels)), labels] += 2.0
    raw = np.exp(2.0 * scores)
    return raw / raw.sum(axis=1, keepdims=True)


SYNTHETIC = {
    "gaussian": Population(3, gaussian, classifier=True),
    "dirichlet": Population(3, dirichlet),
    "beta": Population(2, beta),
    "softmax": Population(5, softmax),
}


def classifier() -> LogisticRegression:
    """Return the classifier of all sets: standardised logistic regression."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))


@cache
def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and label codes of a real set; bundled digits where data are absent."""
    path = FOLDER / "uci-multi" / f"{name}.csv.gz"
    if not path.exists():
        from sklearn.datasets import load_digits

        print(f"(no {path.name} in the data folder: scikit-learn's bundled digits instead)")
        return load_digits(return_X_y=True)
    with gzip.open(path, "rt") as file:
        head, *rows = list(csv.reader(file))
    columns = [i for i, name in enumerate(head) if name not in ("label", "split")]
    X = np.array([[float(row[i]) for i in columns] for row in rows])
    return X, np.unique([row[-1] for row in rows], return_inverse=True)[1]


@cache
def scored(name: str, most: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return posteriors out of fold and label codes of a set of ``SCORED``, at most 4,000 rows."""
    from cases import DATA, _read

    file, k = SCORED[name]
    X, y = _read(DATA / f"{file}.csv.gz")
    values, counts = np.unique(y, return_counts=True)
    kept = np.sort(values[np.argsort(-counts, kind="stable")[: min(k, most)]])
    rows = np.flatnonzero(np.isin(y, kept))
    rows = np.random.default_rng(0).permutation(rows)[:4_000]
    codes = np.searchsorted(kept, y[rows])
    return cross_val_predict(classifier(), X[rows], codes, method="predict_proba"), codes


def scored_population(name: str, most: int = 5) -> Population:
    """Return the rows of a real set, scored once, as a population: its posteriors by class."""
    p, codes = scored(name, most)
    members = [np.flatnonzero(codes == code) for code in range(p.shape[1])]

    def draw(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        sizes = np.array([len(own) for own in members])[labels]
        places = (rng.random(len(labels)) * sizes).astype(int)
        rows = np.array([members[label][i] for label, i in zip(labels, places, strict=True)])
        return p[rows]

    return Population(p.shape[1], draw)
