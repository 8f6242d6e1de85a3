"""What checks say of a bag: the verdict on its scores, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from kdey.status import OK, ONE_SIDED, POOR_FIT, not_checked


@dataclass(frozen=True, eq=False, kw_only=True)
class FitVerdict:
    """The verdict of a fit check on one bag.

    Attributes
    ----------
    p_value : float
        Share of null bags that fit no better than this one. A small value means that more than the
        prevalence has changed.
    unknown_share : float or None
        Estimated excess share of instances that lie far from every class, a lower bound on the
        share of a class absent from training; zero if there is no excess. None if it was not
        computed because the bag fits.
    unknown_class : bool
        Whether the bag does not fit and this excess is larger than chance explains.
    level : float
        Significance level of ``rejected`` and ``unknown_class``.
    cross_fitted : bool
        Whether the models that scored the training set also scored the bag. If not, the check is
        one-sided: only the density is tested and p-values tend to be too large (see
        ``docs/trust.md``); a small p-value is still a reason to worry.
    size : int
        Number of instances of the bag.
    n_checked : int
        Number of them that were checked: all, or a random sample of a large bag.
    n_null : int
        Number of null bags that the p-value rests on.
    """

    p_value: float
    unknown_share: float | None
    unknown_class: bool
    level: float
    cross_fitted: bool
    size: int
    n_checked: int
    n_null: int

    @property
    def rejected(self) -> bool:
        """Whether the p-value is at most the level."""
        return self.p_value <= self.level

    @property
    def status(self) -> str:
        """The verdict in the words of :mod:`kdey.status`."""
        if self.rejected:
            return POOR_FIT
        return OK if self.cross_fitted else ONE_SIDED

    @property
    def verdict(self) -> str:
        """The meaning of the result, in a sentence or two."""
        p = f"p = {self.p_value:.3g}{self._sample}"
        if not self.rejected and self.cross_fitted:
            return f"The bag looks like a mixture of the training classes ({p})."
        if not self.rejected:
            return (
                f"No misfit was found ({p}), but the fit was checked one-sided: without the models "
                "of the folds the check misses classes that look like other classes."
            )
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

    @property
    def _sample(self) -> str:
        if self.n_checked == self.size:
            return ""
        return f", from {self.n_checked:,} of {self.size:,} instances"

    def summary(self) -> dict[str, Any]:
        """Return the results for the whole bag and the verdict, as plain values."""
        names = (*_VERDICT, "rejected", "status", "verdict")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict

    @classmethod
    def from_summary(cls, summary: Mapping[str, Any]) -> FitVerdict:
        """Return the verdict that gave a :meth:`summary`."""
        return FitVerdict(**{name: summary[name] for name in _VERDICT})


#: Names of the fields of a verdict.
_VERDICT = tuple(item.name for item in fields(FitVerdict))


@dataclass(frozen=True)
class NotChecked:
    """What stands in place of a verdict where the fit was not checked.

    Attributes
    ----------
    reason : str
        A few words.
    """

    reason: str

    @property
    def status(self) -> str:
        """That the fit was not checked and why, in the words of :mod:`kdey.status`."""
        return not_checked(self.reason)

    @property
    def verdict(self) -> str:
        """That the fit was not checked and why, in a sentence."""
        return f"The fit was not checked: {self.reason}."

    def summary(self) -> dict[str, Any]:
        """Return status, reason and a sentence, as plain values."""
        return {"status": self.status, "reason": self.reason, "verdict": self.verdict}

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict


#: What is known of the fit of a bag: a verdict, or why there is none.
FitResult: TypeAlias = FitVerdict | NotChecked
