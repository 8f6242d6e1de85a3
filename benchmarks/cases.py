"""Cases of the evidence runs: data sets, classifiers, bags, and results that survive a kill."""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kdey import APP

sys.path.append(str(Path(__file__).parents[1]))  # the experiments are not installed
RESULTS = Path(__file__).parent / "results"
DATA = Path(os.environ.get("KDEY_DATA", Path(__file__).parents[2] / "shared" / "data"))
#: The paper's five first, then the others, small ones first.
PAPER = tuple(
    f"uci-multi/{name}"
    for name in ("academic-success", "wine-quality", "digits", "dry-bean", "letter")
)
EXTRA = (
    *("uci-extra/maternal-health-risk", "uci-extra/phishing", "uci-extra/cmc", "uci-extra/yeast"),
    *("uci-extra/semeion", "uci-extra/ctg-fhr10", "uci-extra/abalone", "uci-extra/page-blocks"),
    *("uci-extra/pendigits", "uci-extra/nursery", "uci-extra/chess-krk"),
    *("uci-extra/mnist-test10k", "text/news20-lsa300"),
)
#: A pool with fewer instances gets bags of 100.
SMALL_POOL = 700


def make_classifier(name: str) -> Any:
    """Return a classifier at its default settings (logistic regression with more iterations)."""
    logistic = LogisticRegression(max_iter=1000)
    made = {
        "logistic regression": logistic,
        "calibrated logistic regression": CalibratedClassifierCV(logistic),
        "extra trees": ExtraTreesClassifier(random_state=0),
        "gradient boosting": HistGradientBoostingClassifier(random_state=0),
    }
    return made[name]


@dataclass(frozen=True, eq=False)
class Case:
    """A split data set, standardised on its training part."""

    name: str
    seed: int
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def bag_size(self) -> int:
        """Size of the bags drawn from the test pool."""
        return 100 if len(self.y_test) < SMALL_POOL else 500

    def bags(self, n_bags: int, seed: int) -> Any:
        """Return bags of the test pool by the paper's protocol."""
        return APP(n_bags, self.bag_size, seed).bags(self.y_test, np.unique(self.y))


def load_case(name: str, seed: int) -> Case:
    """Return one split (70/30, stratified) of a set named ``group/name``."""
    try:
        from kdey.datasets import load_dataset
    except ImportError:
        return _local_case(name, seed)
    split = load_dataset(name, DATA).split(seed)
    return Case(name, seed, split.development.X, split.development.y, split.test.X, split.test.y)


def _local_case(name: str, seed: int) -> Case:
    X, y = _read(DATA / f"{name}.csv.gz")
    classes, counts = np.unique(y, return_counts=True)
    keep = np.isin(y, classes[counts >= 4])  # the others cannot be in both parts
    parts = train_test_split(X[keep], y[keep], test_size=0.3, stratify=y[keep], random_state=seed)
    scaler = StandardScaler().fit(parts[0])
    return Case(
        name, seed, scaler.transform(parts[0]), parts[2], scaler.transform(parts[1]), parts[3]
    )


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(path, "rt") as file:
        head, *rows = csv.reader(file)
    columns = [
        _column([row[i] for row in rows]) for i, name in enumerate(head[:-1]) if name != "split"
    ]
    return np.hstack(columns), np.array([row[-1] for row in rows])


def _column(values: list[str]) -> np.ndarray:
    try:
        return np.array(values, dtype=np.float64)[:, None]
    except ValueError:
        coder = OneHotEncoder(sparse_output=False, drop="first")
        return np.asarray(coder.fit_transform(np.array(values)[:, None]))


class Records:
    """Lines of JSON in a file: appended as they come, skipped when they are there."""

    def __init__(self, file: str, keys: Iterable[str]) -> None:
        self.path, self.keys = RESULTS / file, tuple(keys)
        self.path.parent.mkdir(exist_ok=True)
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines if line.endswith("}")]

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        return any(tuple(row[name] for name in self.keys) == key for row in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        """Append a line and say so."""
        self.rows.append(row)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(" ".join(str(row[name]) for name in self.keys), "done", flush=True)


def quiet() -> None:
    """Silence what small classes and solvers at their limit say in every fold."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", category=UserWarning)


def geometric_mean(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def spread(values: Sequence[float] | np.ndarray) -> str:
    """Return the geometric mean of ratios and their range."""
    return f"{geometric_mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"
