r"""Divergences as sums of a generator: the problem behind KDEy-HD and histogram matching (DM)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kdey.problems.interface import Array, Indices, check_non_negative, frank_wolfe_gap, with_fields
from kdey.problems.separable import Generator, SeparableLoss, resolve_generator


@dataclass(frozen=True, eq=False)
class Divergence:
    r"""Divergence of each bag's profile to the mixture of the class profiles.

    .. math:: f(\alpha) = \sum_t \phi(p_t, q_t) / r_t, \qquad p = M \alpha

    With M and q densities at points drawn from a reference density u and r_t = (number of
    points) u_t this is the Monte Carlo estimate of an f-divergence (KDEy-HD); with M and q
    histograms and r = 1 it is histogram matching. Convex in alpha for every generator.

    Points where no class has mass (a row of zeros in M) add a constant.

    Attributes
    ----------
    templates : array of shape (t, k)
        M >= 0: column i is the profile of class i.
    targets : array of shape (n_bags, t)
        q >= 0: the profile of each bag.
    generator : Generator
        Or its name, see :data:`kdey.problems.separable.GENERATORS`.
    reference : array of shape (t,)
        r > 0; ones by default.
    """

    templates: Array
    targets: Array
    generator: Generator
    reference: Array = None  # type: ignore[assignment]
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        templates = check_non_negative(self.templates, "templates", (None, None))
        targets = check_non_negative(self.targets, "targets", (None, len(templates)))
        divisors = np.ones(len(templates)) if self.reference is None else self.reference
        reference = check_non_negative(divisors, "reference", (len(templates),))
        if not (reference > 0).all():
            raise ValueError("reference must be positive")
        object.__setattr__(self, "templates", templates)
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "generator", resolve_generator(self.generator))
        object.__setattr__(self, "reference", reference)

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.targets)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.templates.shape[1])

    @property
    def is_finite(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether any prevalence has a finite value, shape (n_bags,).

        Only ``kl`` (q > 0 where no class has mass) and ``reverse-kl`` (every class has mass
        where q = 0) can fail this.
        """
        if self.generator.name == "kl":
            no_class = ~(self.templates > 0).any(axis=1)
            return np.asarray(~(self.targets[:, no_class] > 0).any(axis=1))
        return np.asarray(self.allowed.any(axis=1))

    @property
    def allowed(self) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """Which classes may have a positive prevalence at a finite value, shape (n_bags, k)."""
        if self.generator.name != "reverse-kl":
            return np.ones((self.n_bags, self.n_classes), dtype=np.bool_)
        missing = (self.targets == 0).astype(np.float64)
        return np.asarray(missing @ (self.templates > 0) == 0)

    def loss(self, bag: int) -> SeparableLoss:
        """Return the loss of one bag."""
        return SeparableLoss(
            self.templates, 1.0 / self.reference, self.targets[bag], self.generator
        )

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,)."""
        values = [self.loss(b).value(alpha) for b, alpha in enumerate(prevalences)]
        return np.asarray(values, dtype=np.float64)

    def gradient(self, prevalences: Array) -> Array:
        """Return the gradient, shape (n_bags, k); infinite if f has no finite slope."""
        return np.stack([self.loss(b).gradient(alpha) for b, alpha in enumerate(prevalences)])

    def hessian(self, prevalences: Array) -> Array:
        """Return the Hessian, shape (n_bags, k, k)."""
        return np.stack([self.loss(b).hessian(alpha) for b, alpha in enumerate(prevalences)])

    def gap(self, prevalences: Array) -> Array:
        """Return the Frank-Wolfe gap, a bound on f - min f, shape (n_bags,); NaN if f is inf."""
        gradient = self.gradient(prevalences)
        finite = np.isfinite(self.objective(prevalences))
        return np.where(finite, frank_wolfe_gap(prevalences, gradient), np.nan)

    def take(self, which: Indices) -> Divergence:
        """Return the problem of the bags at positions ``which``."""
        return with_fields(self, targets=self.targets[which])
