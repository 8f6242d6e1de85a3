"""Posteriors of a known population: logistic-normal classes on the simplex."""

from __future__ import annotations

import numpy as np

CENTRES = np.array([[2.0, 0.0, 0.0], [0.0, 1.5, 0.0], [0.0, 0.5, 2.0]])


def posteriors(labels: np.ndarray, rng: np.random.Generator, centres=CENTRES) -> np.ndarray:
    """Return one posterior per label, shape (m, 3)."""
    logits = centres[labels] + rng.normal(scale=1.2, size=(len(labels), centres.shape[1]))
    odds = np.exp(logits)
    return odds / odds.sum(axis=1, keepdims=True)


def draw(counts, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return posteriors and labels of given class counts."""
    labels = np.repeat(np.arange(len(counts)), counts)
    return posteriors(labels, rng), labels


def outsiders(size: int, rng: np.random.Generator) -> np.ndarray:
    """Return posteriors far from every class: halfway between the first and the last."""
    noise = rng.normal(scale=0.01, size=(size, 1))
    return np.hstack([0.5 + noise, np.zeros((size, 1)), 0.5 - noise])
