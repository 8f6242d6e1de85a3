"""Any dissimilarity of two histograms, binary: the problem behind DyS (Maletzke et al., 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kdey.problems.generator import GENERATORS
from kdey.problems.protocol import Array, Indices, check_non_negative, with_fields

#: Takes p and q of shape (n_bags, b), gives shape (n_bags,).
DissimilarityFunction: TypeAlias = Callable[[Array, Array], Array]


def _manhattan(p: Array, q: Array) -> Array:
    return np.asarray(np.abs(p - q).sum(axis=1))


def _euclidean(p: Array, q: Array) -> Array:
    return np.asarray(np.sqrt(((p - q) ** 2).sum(axis=1)))


def _prob_symm(p: Array, q: Array) -> Array:
    """Return the probabilistic symmetric chi-squared divergence; empty bins count as zero."""
    total = p + q
    return np.asarray(
        2.0 * np.divide((p - q) ** 2, total, out=np.zeros_like(total), where=total > 0).sum(axis=1)
    )


def _ordinal(p: Array, q: Array) -> Array:
    """Return the earth mover's distance between ordered bins."""
    return np.asarray(np.abs(np.cumsum(p - q, axis=1)).sum(axis=1))


DISSIMILARITIES: dict[str, DissimilarityFunction] = {
    "l1": _manhattan,
    "l2": _euclidean,
    "prob-symm": _prob_symm,
    "ordinal": _ordinal,
}


def resolve_dissimilarity(dissimilarity: str | DissimilarityFunction) -> DissimilarityFunction:
    """Return the function of a dissimilarity given by name, or the callable itself.

    Names are those of ``DISSIMILARITIES`` and of the f-divergences
    (:data:`kdey.problems.generator.GENERATORS`).
    """
    if callable(dissimilarity):
        return dissimilarity
    name: object = dissimilarity
    if isinstance(name, str) and name in DISSIMILARITIES:
        return DISSIMILARITIES[name]
    if isinstance(name, str) and name in GENERATORS:
        value = GENERATORS[name].value
        return lambda p, q: np.asarray(value(p, q).sum(axis=1))
    names = sorted([*DISSIMILARITIES, *GENERATORS])
    raise ValueError(f"dissimilarity must be one of {names} or a callable, got {dissimilarity!r}")


@dataclass(frozen=True, eq=False)
class Dissimilarity:
    r"""Dissimilarity of a bag's histogram to the mixture of two class ones.

    .. math:: f(\alpha) = d(\alpha_0 h_0 + \alpha_1 h_1, q)

    Attributes
    ----------
    templates : array of shape (b, 2)
    targets : array of shape (n_bags, b)
    dissimilarity : str or callable
    """

    templates: Array
    targets: Array
    dissimilarity: str | DissimilarityFunction

    def __post_init__(self) -> None:
        templates = check_non_negative(self.templates, "templates", (None, 2))
        targets = check_non_negative(self.targets, "targets", (None, len(templates)))
        object.__setattr__(self, "templates", templates)
        object.__setattr__(self, "targets", targets)

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.targets)

    @property
    def n_classes(self) -> int:
        """Two."""
        return 2

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,)."""
        function = resolve_dissimilarity(self.dissimilarity)
        with np.errstate(divide="ignore", invalid="ignore"):
            return function(prevalences @ self.templates.T, self.targets)

    def gap(self, prevalences: Array) -> Array:
        """Return NaN: nothing is known of the dissimilarity, shape (n_bags,)."""
        return np.full(len(prevalences), np.nan)

    def take(self, which: Indices) -> Dissimilarity:
        """Return the problem of the bags at positions ``which``."""
        return with_fields(self, targets=self.targets[which])
