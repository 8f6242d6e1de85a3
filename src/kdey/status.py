"""The words of a status: what is the matter with an estimate, and whether its fit was checked.

A status is "no problem found", or parts separated by "; ". Groups, estimates, reports and the
command line all take their words from here. "no problem found" is only said of a bag whose scores
and columns were checked in full: one that was not checked, or only in part, says so.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Scores and columns were checked, and look like a mixture of the training classes.
OK = "no problem found"
EMPTY = "empty"
#: Fewer instances than asked for: estimated, but not checked.
TOO_SMALL = "too small"
POOR_FIT = "poor fit"
MISSING_VALUES = "missing values"
#: Values that training lacks, in more instances than an estimate can bear.
UNSEEN_VALUES = "unseen values"
#: Share of instances with such a value above which the status says so: an estimate may be wrong by
#: about this share (docs/lab/decisions/0016-tables.md).
MOST_UNSEEN = 0.05
NOT_CONVERGED = "not converged"
#: Pooling found no sign that the prevalences of groups differ.
ALIKE = "groups cannot be told apart"
#: Pooling found a group too far from the others: it keeps its separate estimate.
DOES_NOT_BELONG = "does not belong"
#: Too few groups to learn from what they have in common: all keep their separate estimates.
TOO_FEW_GROUPS = "too few groups to pool"
#: Smoothing found that the shares jumped since the period before.
JUMP = "jump since the period before"
#: A class has so few labels in training that estimates and limits lean on them.
FEW_LABELS = "few labels"
#: Rows were drawn in so few clusters that intervals of rare classes can be too narrow.
FEW_CLUSTERS = "few clusters"
#: A group without a label in a table with labels: its estimate holds under label shift only.
NO_LABELS = "no labels"
#: A group lacks a stratum whose share is known: the shares of the others were scaled up.
MISSING_STRATA = "missing strata"
#: Strata with fewer rows than the least size hold a part of the group that matters. Estimates of a
#: few rows lean away from zero and one, and so does their sum.
SMALL_STRATA = "small strata"
#: Share of the rows of a group in such strata above which the status says so.
MOST_SMALL = 0.05
#: A group so large that a random part of its rows stands for all.
THINNED = "a sample of its rows"
#: Some interval is wider than :data:`WIDE` points: the shares cannot be told.
CANNOT_BE_TOLD = "cannot be told"
#: Width of an interval above which it says nothing.
WIDE = 0.5
#: No misfit was found, but nothing is known of the columns, or of the scores.
ONLY_SCORES = "only scores were checked"
ONLY_COLUMNS = "only columns were checked"
#: No misfit was found by a check that sees only some kinds of misfit; see ``docs/trust.md``.
ONE_SIDED = "checked one-sided"
NOT_CHECKED = "not checked"
#: No bag of the model can be checked: k numbers fit k classes whatever they are.
CANNOT_BE_CHECKED = "cannot be checked"

#: The reason where the caller turned the check off.
TURNED_OFF = "the check was turned off"
_SEPARATOR = "; "


def not_checked(reason: str) -> str:
    """Return the part that says that the fit was not checked, and why."""
    return f"{NOT_CHECKED} ({reason})"


def cannot_be_checked(reason: str) -> str:
    """Return the part that says that no check could find anything, and why."""
    return f"{CANNOT_BE_CHECKED} ({reason})"


def join_status(parts: Iterable[str]) -> str:
    """Return the status with these parts; "no problem found" if there are none."""
    kept = [part for part in parts if part != OK]
    return _SEPARATOR.join(kept) or OK


def status_parts(status: str) -> list[str]:
    """Return the parts of a status."""
    return status.split(_SEPARATOR)


def is_about_checking(part: str) -> bool:
    """Return whether a part says how far the fit was checked, and not that something is wrong."""
    partly = (ONE_SIDED, ONLY_SCORES, ONLY_COLUMNS)
    return part in partly or part.startswith((NOT_CHECKED, CANNOT_BE_CHECKED))


def problems(status: str) -> list[str]:
    """Return the parts of a status that say that something is wrong."""
    return [part for part in status_parts(status) if part != OK and not is_about_checking(part)]
