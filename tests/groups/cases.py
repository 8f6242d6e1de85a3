"""A small population of three classes with score columns, groups and dates."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

import kdey
from kdey import KDEyML

CLASSES = np.array(["cat", "dog", "eel"])
SCORES = ["p_cat", "p_dog", "p_eel"]


def posteriors(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    made = rng.gamma(np.eye(3)[labels] * 3 + 0.7)
    return made / made.sum(axis=1, keepdims=True)


def fitted(cls: Any = KDEyML, **options: Any) -> Any:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 60)
    if cls is KDEyML:
        options = {"bandwidth": 0.2, **options}
    return cls(**options).fit_posteriors(posteriors(labels, rng), CLASSES[labels])


def columns(n: int = 240, seed: int = 1) -> dict[str, Any]:
    """Return columns in no particular order: scores, a region, a day and a number."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["south", "north", "east"], n)
    labels = np.where(region == "north", 0, rng.integers(0, 3, n))
    p = posteriors(labels, rng)
    day = np.datetime64("2024-01-01") + rng.integers(0, 40, n).astype("timedelta64[D]")
    return {
        "region": region.tolist(),
        "day": day.astype("datetime64[us]").tolist(),
        "shop": rng.integers(0, 2, n).tolist(),
        "p_eel": p[:, 2].tolist(),
        "p_cat": p[:, 0].tolist(),
        "p_dog": p[:, 1].tolist(),
    }


@dataclass(frozen=True)
class Case:
    """Training posteriors with labels, and posteriors of instances in groups of unequal size."""

    training: np.ndarray
    labels: np.ndarray
    points: np.ndarray
    codes: np.ndarray


def make_case(k: int = 4, n_groups: int = 12, seed: int = 0, largest: int = 1500) -> Case:
    rng = np.random.default_rng(seed)

    def scored(labels: np.ndarray) -> np.ndarray:
        z = rng.normal(size=(len(labels), k))
        z[np.arange(len(labels)), labels] += 1.8
        p = np.exp(z)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    labels = np.arange(400) % k
    sizes = np.maximum(2, np.geomspace(2, largest, n_groups)).astype(int)
    codes = np.repeat(np.arange(n_groups), sizes)
    mixes = rng.dirichlet(np.full(k, 0.5), n_groups)
    drawn = np.array([rng.choice(k, p=mixes[g]) for g in codes])
    order = rng.permutation(len(codes))
    points = scored(drawn)
    return Case(scored(labels), labels, points[order], codes[order])


def keywords(**asked: Any) -> dict[str, Any]:
    """Return keywords of ``predict_groups``: fields of Options among them become ``options``."""
    own = set(inspect.signature(kdey.predict_groups).parameters) | {"options"}
    rare = {name: asked.pop(name) for name in list(asked) if name not in own}
    return {**asked, "options": kdey.Options(**rare)} if rare else asked
