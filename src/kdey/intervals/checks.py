"""What checks say of a bag: verdicts on its scores and columns, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from kdey.status import (
    OK,
    ONE_SIDED,
    ONLY_COLUMNS,
    ONLY_SCORES,
    POOR_FIT,
    TURNED_OFF,
    cannot_be_checked,
    not_checked,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class FitVerdict:
    """The verdict of a fit check on one bag.

    Attributes
    ----------
    p_value : float
        Share of null bags that fit no better than this one. A small value means that more than the
        prevalence has changed.
    level : float
        Significance level of ``rejected``.
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
            return f"The sample looks like a mixture of the training classes ({p})."
        if not self.rejected:
            return (
                f"No misfit was found ({p}), but the fit was checked one-sided: without the models "
                "of the folds the check misses classes that look like other classes."
            )
        return f"The sample does not fit the training classes ({p}): more than the shares changed."

    @property
    def _sample(self) -> str:
        if self.n_checked == self.size:
            return ""
        return f", from {self.n_checked:,} of {self.size:,} instances"

    def summary(self) -> dict[str, Any]:
        """Return the results for the whole bag and the verdict, as plain values."""
        names = [item.name for item in fields(FitVerdict)]
        return {name: getattr(self, name) for name in (*names, "rejected", "status", "verdict")}

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict


@dataclass(frozen=True)
class NotChecked:
    """What stands in place of a verdict where nothing was checked.

    Attributes
    ----------
    reason : str
        A few words.
    never : bool
        Whether no bag of this model can be checked, because k numbers always fit k classes.
    """

    reason: str
    never: bool = False

    @property
    def status(self) -> str:
        """That the fit was not checked and why, in the words of :mod:`kdey.status`."""
        return cannot_be_checked(self.reason) if self.never else not_checked(self.reason)

    @property
    def verdict(self) -> str:
        """That the fit was not checked and why, in a sentence."""
        return f"The fit {'cannot be' if self.never else 'was not'} checked: {self.reason}."

    def summary(self) -> dict[str, Any]:
        """Return status, reason and a sentence, as plain values."""
        return {"status": self.status, "reason": self.reason, "verdict": self.verdict}

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict


#: What is known of the scores of a bag: a verdict, or why there is none.
FitResult: TypeAlias = FitVerdict | NotChecked


@dataclass(frozen=True)
class ColumnFinding:
    """A column of a bag that is no mixture of what it was in the classes.

    Attributes
    ----------
    name : str
    p_value : float
        Adjusted for the number of columns.
    sentence : str
        How it differs.
    """

    name: str
    p_value: float
    sentence: str


@dataclass(frozen=True)
class ColumnVerdict:
    """The verdict of the column check on one bag.

    Attributes
    ----------
    p_value : float
        The smallest p-value of a column, adjusted for their number.
    level : float
        Up to which a column is a finding.
    n_columns : int
        Number of columns that were checked; a text counts as several.
    findings : tuple of ColumnFinding
        The columns that have changed, the surest first.
    """

    p_value: float
    level: float
    n_columns: int
    findings: tuple[ColumnFinding, ...] = ()

    @property
    def rejected(self) -> bool:
        """Whether some column has changed."""
        return bool(self.findings)

    @property
    def status(self) -> str:
        """The verdict in the words of :mod:`kdey.status`."""
        return POOR_FIT if self.rejected else OK

    @property
    def verdict(self) -> str:
        """The meaning of the result, in a sentence or more."""
        if not self.rejected:
            return (
                f"Each of the {self.n_columns} columns looks like a mixture of the training "
                f"classes (p = {self.p_value:.3g})."
            )
        named = ". ".join(finding.sentence for finding in self.findings[:3])
        more = len(self.findings) - 3
        rest = f" {more} more of {self.n_columns} columns have changed." if more > 0 else ""
        return f"{named} (p = {self.p_value:.3g}).{rest}"

    def summary(self) -> dict[str, Any]:
        """Return the results and the verdict, as plain values."""
        return {
            "p_value": self.p_value,
            "level": self.level,
            "n_columns": self.n_columns,
            "findings": [vars(finding) for finding in self.findings],
            "rejected": self.rejected,
            "status": self.status,
            "verdict": self.verdict,
        }

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict


#: What is known of the columns of a bag: a verdict, or why there is none.
ColumnResult: TypeAlias = ColumnVerdict | NotChecked


@dataclass(frozen=True)
class Checks:
    """All that was checked of a bag.

    Attributes
    ----------
    scores : FitVerdict or NotChecked
        Whether the scores look like a mixture of those of the training classes.
    columns : ColumnVerdict or NotChecked
        Whether every column does, by itself.
    unknown_share : float or None
        At least this share of the bag comes from no class as training knew it, by scores and
        columns together: a lower bound that holds in 98 % of samples, whatever an unknown class
        looks like. Nobody can say how much more there is. None where the bag fits or there is
        nothing to compare.

    See Also
    --------
    kdey.Estimate : Prevalences of one bag with intervals and checks.
    kdey.check_fit : The check of the scores in more detail.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.PACC(random_state=0).fit(X[::2], y[::2])
    >>> q.estimate(X[1::2] + [1.0, 0.0, 0.0, 0.0]).checks.columns.findings[0].name
    'column 0'
    """

    scores: FitResult
    columns: ColumnResult
    unknown_share: float | None = None

    @property
    def p_value(self) -> float:
        """The p-value of both checks together, twice the smaller one; NaN if none was made."""
        made = [check.p_value for check in self._made]
        return min(1.0, len(made) * min(made)) if made else float("nan")

    @property
    def rejected(self) -> bool:
        """Whether scores or columns do not fit the training classes."""
        return any(check.rejected for check in self._made)

    @property
    def _made(self) -> list[FitVerdict | ColumnVerdict]:
        return [check for check in (self.scores, self.columns) if not isinstance(check, NotChecked)]

    @property
    def status(self) -> str:
        """What was found and how far was looked, in the words of :mod:`kdey.status`."""
        if self.rejected:
            return POOR_FIT
        if isinstance(self.scores, NotChecked):
            return self.scores.status if isinstance(self.columns, NotChecked) else ONLY_COLUMNS
        if not self.scores.cross_fitted:
            return ONE_SIDED
        return ONLY_SCORES if isinstance(self.columns, NotChecked) else OK

    @property
    def verdict(self) -> str:
        """The meaning of the results, in a few sentences."""
        return " ".join(self.verdicts)

    @property
    def verdicts(self) -> list[str]:
        """The meaning of the result of each check, what was found first."""
        if isinstance(self.scores, NotChecked) and isinstance(self.columns, NotChecked):
            return [self.scores.verdict]
        parts: list[str] = []
        if isinstance(self.columns, ColumnVerdict) and self.columns.rejected:
            parts.append(self.columns.verdict)
        if not (parts and isinstance(self.scores, NotChecked)):
            parts.append(self.scores.verdict)
        if isinstance(self.columns, ColumnVerdict) and not self.columns.rejected:
            parts.append(self.columns.verdict)
        if isinstance(self.columns, NotChecked):
            parts.append(f"Columns were not checked: {self.columns.reason}.")
        if self.unknown_share:
            parts.append(unknown_sentence(self.unknown_share))
        return parts

    def summary(self) -> dict[str, Any]:
        """Return both checks as plain values, as ``diagnostics`` of an estimate hold them."""
        return {
            "fit": self.scores.summary(),
            "columns": self.columns.summary(),
            "unknown_share": self.unknown_share,
        }

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict


def unknown_sentence(share: float, instances: str = "instances") -> str:
    """Return what a lower bound above zero on the share of unknown classes means."""
    least = np.floor(1000.0 * share) / 10.0  # rounded up it would no longer be a bound
    return (
        f"At least {least:.1f} % of the {instances} come from no class as training knew it: from "
        "an unknown one, or from one that has changed."
    )


#: What is said of a bag without rows, or where the checks were turned off.
NOTHING_CHECKED = Checks(NotChecked(TURNED_OFF), NotChecked(TURNED_OFF))
