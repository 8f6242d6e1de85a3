"""The letter data, or a synthetic stand-in of its shape: 26 classes, 20,000 x 16."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

FILE = Path(__file__).parents[2] / "shared" / "data" / "uci-multi" / "letter.csv.gz"


def load_letter() -> tuple[np.ndarray, np.ndarray, str]:
    """Return features (20000, 16), labels and where they come from."""
    if not FILE.exists():
        X, y = make_classification(
            20_000, 16, n_informative=14, n_redundant=2, n_classes=26, n_clusters_per_class=1,
            class_sep=1.5, random_state=0,
        )  # fmt: skip
        return X, y, "a synthetic stand-in for letter"
    with gzip.open(FILE, "rt") as file:
        rows = list(csv.reader(file))[1:]
    X = np.array([row[:-1] for row in rows], dtype=np.float64)
    return X, np.array([row[-1] for row in rows]), "letter"


def split_letter() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    """Return the paper's 70/30 split, standardised: X, y, X_test, y_test and the source."""
    X, y, source = load_letter()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(X_test), y_test, source
