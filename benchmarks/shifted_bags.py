"""Protocols of the benchmarks: smooth shares of ordered classes, and drift within the classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kdey.bags import Bags, offsets_of
from kdey.evaluation import LabelledBags
from kdey.evaluation.protocols import (
    Replace,
    bag_generators,
    check_fits,
    draw_bags,
    realised_prevalences,
)
from kdey.simplex import Array, round_counts, sample_smooth, sample_uniform
from kdey.validation import Codes, Labels, encode_labels


@dataclass(frozen=True)
class SmoothAPP:
    """Prevalences uniform on the smoothest part of the simplex (APP-OQ of Bunse et al., 2022)."""

    n_bags: int = 1000
    bag_size: int = 500
    random_state: int = 0
    smoothest: float = 0.2

    def bags(self, y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
        """Return bags over the pool labelled ``y``, prevalences ordered as ``classes``."""
        codes, known = encode_labels(y, classes)
        generators = list(bag_generators(self.random_state, self.n_bags))
        prevalences = [sample_smooth(len(known), 1, rng, self.smoothest)[0] for rng in generators]
        counts = round_counts(np.stack(prevalences), self.bag_size)
        bags = draw_bags(codes, known, counts, "auto", generators)
        return LabelledBags(bags, counts / self.bag_size, known)


@dataclass(frozen=True, eq=False)
class MixedShift:
    r"""Label shift and a shift within the classes at once: p(y) and p(x | y) both change.

    The prevalence of a bag is uniform on the simplex. Within each class instances are drawn with
    probabilities proportional to :math:`\exp(s\, u \cdot z)`, where z is the standardised covariate
    of an instance, u a random direction and s a random strength of each bag, at most ``strength``.
    """

    covariate: ArrayLike
    n_bags: int = 1000
    bag_size: int = 500
    random_state: int = 0
    replace: Replace = "auto"
    strength: float = 2.0

    def bags(self, y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
        """Return bags over the pool labelled ``y``, prevalences ordered as ``classes``."""
        codes, known = encode_labels(y, classes)
        check_fits(self.bag_size, len(codes), self.replace)
        z = _standardised(self.covariate, len(codes))
        members = [np.flatnonzero(codes == i) for i in range(len(known))]
        drawn = []
        for rng in bag_generators(self.random_state, self.n_bags):
            counts = round_counts(sample_uniform(len(known), 1, rng)[0], self.bag_size)
            tilts = _tilts(z, self.strength, rng)
            parts = []
            for label, (positions, count) in enumerate(zip(members, counts, strict=True)):
                if count:
                    _check_class(len(positions), int(count), known.tolist()[label], self.replace)
                    picks = _tilted_draw(tilts[positions], int(count), self.replace, rng)
                    parts.append(positions[picks])
            drawn.append(np.sort(np.concatenate(parts)))
        return _labelled(drawn, codes, known)


def _standardised(covariate: ArrayLike, n: int) -> Array:
    """Return the covariate with mean zero and variance one in every column, shape (n, d)."""
    values = np.asarray(covariate, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != n:
        raise ValueError(f"covariate must have {n} rows, as y has, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("covariate contains NaN or infinity")
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _tilts(z: Array, strength: float, rng: np.random.Generator) -> Array:
    """Return the log of the relative probability of each instance in one bag, shape (n,)."""
    direction = rng.standard_normal((z.shape[1],))
    direction /= np.sqrt((direction**2).sum())
    return np.asarray(strength * rng.random() * (z @ direction))


def _tilted_draw(tilts: Array, size: int, replace: Replace, rng: np.random.Generator) -> Codes:
    """Return positions drawn with probabilities proportional to exp(tilts).

    Without replacement, one after the other: the largest of the logs plus Gumbel noise.
    """
    if replace is True or size > len(tilts):
        shares = np.exp(tilts - tilts.max())
        cumulative = np.cumsum(shares) / shares.sum()
        picks = np.searchsorted(cumulative, rng.random(size), side="right")
        return np.minimum(picks, len(tilts) - 1).astype(np.int64)
    keys = tilts + rng.gumbel(size=len(tilts))
    return np.asarray(np.argpartition(-keys, size - 1)[:size], dtype=np.int64)


def _check_class(available: int, count: int, name: object, replace: Replace) -> None:
    """Raise ValueError if a class has too few instances for a bag."""
    if available == 0:
        raise ValueError(f"a bag needs {count} instances of class {name!r}, but y has none")
    if replace is False and count > available:
        raise ValueError(
            f"a bag needs {count} instances of class {name!r}, but y has {available} and "
            'replace=False; use smaller bags, or replace="auto"'
        )


def _labelled(drawn: list[Codes], codes: Codes, known: Labels) -> LabelledBags:
    offsets = offsets_of(np.array([len(bag) for bag in drawn]))
    bags = Bags(np.concatenate(drawn), offsets, len(codes))
    return LabelledBags(bags, realised_prevalences(bags, codes, len(known)), known)
