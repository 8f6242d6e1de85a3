"""What a fit check found, in numbers and in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.frames import make_frame

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FitCheck:
    """Result of :func:`kdey.check_fit`.

    Attributes
    ----------
    p_value : float
        Share of null bags that fit no better than this one. Small: more has changed than the
        prevalence.
    p_density, p_distance : float
        P-values of the two statistics alone: is the bag where training had little, and is it
        distributed as the fitted mixture is? The second is NaN where ``cross_fitted`` is False.
    statistic : float
        Of density: how much lower (negative) or higher the bag's mean log-density is than its
        fitted mixture expects.
    null : array of shape (n_null,)
        The statistic of bags of the same size that differ in prevalence only.
    prevalence : array of shape (k,)
        The check's own estimate of the mixture, by maximum likelihood.
    log_densities : array of shape (m,)
        Log of the fitted mixture's density at each instance (floored, no normaliser).
    local_p_values : array of shape (m,)
        For each instance, the share of the fitted mixture with a density no higher.
    unknown_share : float
        Estimated share of instances in excess among those that lie far from every class, a lower
        bound on the share of a class not seen in training; zero where there is no excess.
    unknown_class : bool
        Whether the bag does not fit and that excess is larger than chance gives.
    level : float
        Significance level of ``rejected`` and ``unknown_class``.
    cross_fitted : bool
        Whether the bag was scored by the models that scored the training set. If not, only the
        density is looked at and p-values tend to be too large (see ``docs/trust.md``): a small one
        is still a reason to worry.
    """

    p_value: float
    p_density: float
    p_distance: float
    statistic: float
    null: Array
    prevalence: Array
    log_densities: Array
    local_p_values: Array
    unknown_share: float
    unknown_class: bool
    level: float
    cross_fitted: bool

    @property
    def rejected(self) -> bool:
        """Whether the p-value is below the level."""
        return self.p_value <= self.level

    def worst(self, n: int = 10) -> NDArray[np.int64]:
        """Return the positions of the ``n`` instances that fit worst, worst first."""
        return np.argsort(self.log_densities, kind="stable")[:n]

    def to_frame(self, n: int | None = None, backend: str | None = None) -> Any:
        """Return a frame of the ``n`` worst instances (None: all), worst first.

        Columns: ``instance``, ``log_density``, ``local_p_value``.
        """
        order = self.worst(len(self.log_densities) if n is None else n)
        table = {
            "instance": order,
            "log_density": self.log_densities[order],
            "local_p_value": self.local_p_values[order],
        }
        return make_frame(table, backend)

    @property
    def verdict(self) -> str:
        """What this means, in a sentence."""
        p = f"p = {self.p_value:.3g}"
        if not self.rejected:
            return f"The bag looks like a mixture of the training classes ({p})."
        if self.unknown_class:
            return (
                f"The bag does not fit the training classes ({p}): at least about "
                f"{self.unknown_share:.0%} of it lies far from all of them, as an unknown class "
                "would."
            )
        return (
            f"The bag does not fit the training classes ({p}): instances of known classes look "
            "different from training, so more than the prevalence has changed."
        )

    def summary(self) -> dict[str, Any]:
        """Return the numbers about the whole bag and the verdict, as plain values."""
        numbers = ("p_value", "unknown_share", "unknown_class", "rejected", "cross_fitted")
        return {**{name: getattr(self, name) for name in numbers}, "verdict": self.verdict}

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict
