"""Small data, settings and results for the tests of the experiments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from experiments.results import BagsRecord, Cell, CellKey, Results
from experiments.settings import SETTINGS, Setting
from experiments.tasks import Source, source_of


@dataclass(frozen=True)
class Part:
    X: Any
    y: Any


@dataclass(frozen=True)
class Split:
    train: Part
    validation: Part
    test: Part
    development: Part
    notes: tuple[str, ...] = ("split by the tests",)


@dataclass(frozen=True)
class Data:
    """A stand-in for ``kdey.datasets.Dataset``."""

    name: str
    X: Any
    y: Any
    source: str = "scikit-learn"

    def split(self, seed: int = 0) -> Split:
        X, X_test, y, y_test = train_test_split(
            self.X, self.y, test_size=0.3, stratify=self.y, random_state=seed
        )
        a, b, ya, yb = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed + 1)
        stack = sp.vstack if sp.issparse(self.X) else np.vstack
        both = Part(stack([a, b]), np.concatenate([ya, yb]))
        return Split(Part(a, ya), Part(b, yb), Part(X_test, y_test), both)


def iris(name: str = "iris") -> Data:
    """Return iris in text labels with two noisy features: no method is perfect on it."""
    X, y = load_iris(return_X_y=True)
    noise = np.random.default_rng(0).normal(scale=0.4, size=(len(X), 2))
    return Data(name, X[:, [1, 3]] + noise, np.array(["a", "b", "c"])[y])


def source(name: str = "iris") -> Source:
    return source_of(iris(name))


def tiny(name: str = "multi", **changes: Any) -> Setting:
    """Return a setting that runs in a second."""
    classifiers = {"C": (0.1, 1.0), "class_weight": (None,)}
    small = {
        "bag_size": 40,
        "n_validation": 12,
        "n_test": 15,
        "classifiers": classifiers,
        "quick": True,
    }
    return replace(SETTINGS[name], **(small | changes))


def cell(
    dataset: str,
    method: str,
    errors: Any,
    *,
    metric: str = "mae",
    seed: int = 0,
    experiment: str = "multi",
) -> Cell:
    """Return a cell with given errors."""
    return Cell(
        key=CellKey(experiment, dataset, method, metric, seed),
        config="c",
        data="d",
        errors=np.asarray(errors, dtype=np.float64),
        params={"bandwidth": 0.1, "classifier__class_weight": None},
        validation=0.1,
        candidates=20,
        failed=0,
        on_edge=(),
        seconds={"search": 1.0, "fit": 0.1, "test": 0.1},
        not_converged=0,
        version="0",
        source="nowhere",
    )


def results(cells: list[Cell]) -> Results:
    """Return results of given cells, with their bags."""
    joined = Results()
    for record in cells:
        joined.cells[record.key] = record
        key = (record.key.experiment, record.key.dataset, record.key.seed)
        shift = np.linspace(0, 0.5, len(record.errors))
        joined.bags[key] = BagsRecord(*key, shift, 3, 100, 40, "nowhere")
    return joined


def drawn_results(
    datasets: tuple[str, ...], methods: tuple[str, ...], *, seeds: tuple[int, ...] = (0,)
) -> Results:
    """Return random results; later methods err more."""
    rng = np.random.default_rng(1)
    return results(
        [
            cell(d, m, rng.gamma(2.0, 0.01 * (1 + j), size=60), metric=metric, seed=seed)
            for d in datasets
            for j, m in enumerate(methods)
            for metric in ("mae", "mrae")
            for seed in seeds
        ]
    )
