"""A small population of three classes with score columns, groups and dates."""

from __future__ import annotations

from typing import Any

import numpy as np

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
