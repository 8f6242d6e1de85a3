r"""Protocols under which more than the shares of the classes changes.

Most methods of this library assume label shift: p(x | y) stays. These protocols draw bags where it
does not, to see what a method does there. Instances are drawn with probabilities proportional to
:math:`\exp(s\, u \cdot z)`, where z is the standardised covariate of an instance, u a random
direction and s a random strength of each bag.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kdey._support.docstrings import written_out
from kdey._support.validation import check_positive
from kdey.bags import Bags, offsets_of
from kdey.labels import Codes, Labels, encode_labels
from kdey.protocols.draw import (
    SHARED_PARAMETERS,
    LabelledBags,
    Replace,
    bag_generators,
    check_draws,
    check_fits,
    realised_prevalences,
    round_counts,
)
from kdey.simplex import Array, sample_uniform


@written_out(SHARED_PARAMETERS)
@dataclass(frozen=True, eq=False)
class CovariateShift:
    """Covariate shift: p(x) changes and p(y | x) stays.

    Whether an instance is drawn depends on its covariate alone, so that classes follow the
    features. ``PCC`` is right here, and methods for label shift are not.

    Parameters
    ----------
    covariate : array-like of shape (pool_size,) or (pool_size, d)
        What selection depends on: a feature, several, or a score.
    replace : "auto", True or False
        "auto" draws without replacement unless the bag is larger than the pool.
    strength : float
        Largest strength: that of a bag is uniform between zero and this. At 1 the odds of two
        instances one standard deviation apart differ by a factor of e.

    See Also
    --------
    kdey.MixedShift : Bags whose features and prevalences shift.

    Examples
    --------
    >>> import numpy as np
    >>> from kdey.protocols import CovariateShift
    >>> x = np.random.default_rng(0).normal(size=2000)
    >>> drawn = CovariateShift(x, n_bags=20, bag_size=100).bags((x > 0).astype(int))
    >>> bool(np.ptp(drawn.prevalences[:, 1]) > 0.3)
    True
    """

    covariate: ArrayLike
    n_bags: int = 1000
    bag_size: int = 500
    random_state: int = 0
    replace: Replace = "auto"
    strength: float = 2.0

    def __post_init__(self) -> None:
        check_draws(self.n_bags, self.bag_size, self.random_state, self.replace)
        check_positive(self.strength, "strength")

    def bags(self, y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
        """Return bags over the pool labelled ``y``, prevalences ordered as ``classes``."""
        codes, known = encode_labels(y, classes)
        check_fits(self.bag_size, len(codes), self.replace)
        z = _standardised(self.covariate, len(codes))
        drawn = []
        for rng in bag_generators(self.random_state, self.n_bags):
            tilts = _tilts(z, self.strength, rng)
            drawn.append(np.sort(_tilted_draw(tilts, self.bag_size, self.replace, rng)))
        return _labelled(drawn, codes, known)


@written_out(SHARED_PARAMETERS)
@dataclass(frozen=True, eq=False)
class MixedShift:
    """Label shift and a shift within the classes at once: p(y) and p(x | y) both change.

    The prevalence of a bag is uniform on the simplex, as in :class:`kdey.protocols.APP`; within
    each class instances are drawn as in :class:`CovariateShift`, with one direction for the whole
    bag. No method is right here; ``check_fit`` should say so.

    Parameters
    ----------
    replace : "auto", True or False
        "auto" draws a class without replacement in every bag for which it has enough instances.

    See Also
    --------
    kdey.CovariateShift : Bags whose features shift.
    kdey.check_fit : Check whether a bag is a mixture of the training classes.

    Examples
    --------
    >>> import numpy as np
    >>> from kdey import MixedShift
    >>> x = np.random.default_rng(0).normal(size=2000)
    >>> drawn = MixedShift(x, n_bags=5, bag_size=100).bags((x > 0).astype(int))
    >>> drawn.prevalences.shape
    (5, 2)
    """

    covariate: ArrayLike
    n_bags: int = 1000
    bag_size: int = 500
    random_state: int = 0
    replace: Replace = "auto"
    strength: float = 2.0

    def __post_init__(self) -> None:
        check_draws(self.n_bags, self.bag_size, self.random_state, self.replace)
        check_positive(self.strength, "strength")

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
