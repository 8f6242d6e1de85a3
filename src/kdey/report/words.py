"""The answer for everybody: what was asked, what came out, and how sure it is.

Words of the library (bag, prevalence, posterior) have no place here: instances are records, and
what the classifier learnt from are the training examples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kdey._display import count_of
from kdey.bags import Array
from kdey.intervals import Estimate
from kdey.report.groups import ClassRow, GroupTable, by_size
from kdey.report.vocabulary import listed, percent

#: Classes that are named; the others are summed.
_NAMED = 3
#: Classes that are named where they differ from training.
_NAMED_CHANGES = 3
#: Errors of two classes with a correlation above this do not cancel. It is -1 for two classes that
#: look alike, and -1/2 for two of three.
_LOOK_ALIKE = -0.25
#: Sets of look-alike classes that are named, and classes of a set.
_MOST_SETS, _MOST_ALIKE = 2, 5
#: A sum is known better than a share if its error is at most this part as large.
_BETTER = 0.5
#: Intervals wider than this leave a share unknown for most purposes.
_WIDE = 0.2


def question(estimate: Estimate | None, groups: GroupTable | None) -> str:
    """Return what was asked, in a sentence."""
    if estimate is not None:
        records, n_classes = f"{estimate.size:,} records", len(estimate.classes)
    else:
        total = sum(group.n for group in groups.groups) if groups is not None else 0
        records = f"{total:,} records"
        n_classes = len(groups.classes) if groups is not None else 0
    keys = f", by {listed(groups.by)}" if groups is not None else ""
    return f"What share of {records} belongs to each of {n_classes} classes{keys}?"


def answer(estimate: Estimate, rows: Sequence[ClassRow]) -> list[str]:
    """Return the answer for all records in a few sentences, the most important one first."""
    ordered = by_size(rows)
    records = count_of(estimate.size, "record")
    subject = (
        f"Of these {records}"
        if estimate.target == "bag"
        else f"Of all records like these {estimate.size:,}"
    )
    named = [_with_limits(row) for row in ordered[:_NAMED]]
    return [
        f"{subject}, an estimated {listed(named)}.",
        *_rest(ordered[_NAMED:]),
        meaning_of_limits(estimate),
        *_look_alikes(estimate),
        *_hardly_known(ordered),
        *_against_training(ordered),
        *_against_naive(ordered),
    ]


def _with_limits(row: ClassRow) -> str:
    limits = "" if row.low is None else f" ({percent(row.low)} to {percent(row.high)})"
    return f"{percent(row.estimate)} are “{row.name}”{limits}"


def _rest(rest: Sequence[ClassRow]) -> list[str]:
    """Return the share of the classes that are not named by themselves."""
    if not rest:
        return []
    if len(rest) == 1:
        return [f"The remaining {_with_limits(rest[0])}."]
    share = sum(row.estimate or 0.0 for row in rest)
    maybe_absent = sum((row.low or 0.0) < 0.0005 for row in rest)
    absent = f"; {maybe_absent} of them may be absent" if maybe_absent else ""
    return [f"The other {len(rest)} classes together make up {percent(share)}{absent}."]


def meaning_of_limits(estimate: Estimate) -> str:
    """Return what the limits in brackets promise."""
    if estimate.method == "none":
        return "There are no limits on the error of these shares."
    level = f"{100 * estimate.confidence:g}\u00a0%"
    which = "all of them hold at once" if estimate.simultaneous else "each of them holds"
    return (
        f"The limits in brackets are made so that {which} in {level} of such cases, provided that "
        "only the shares have changed since training."
    )


def _look_alikes(estimate: Estimate) -> list[str]:
    """Return sets of classes that are hard to tell apart, where their sum is known much better."""
    sentences = []
    for alike in look_alike_sets(estimate):
        labels = [f"“{estimate.classes[code]}”" for code in alike]
        both = estimate.merge({"together": [estimate.classes[code] for code in alike]})
        sentences.append(
            f"{listed(labels)} look alike and are hard to tell apart; together they make up "
            f"{percent(both.estimate[0])} ({percent(both.low[0])} to {percent(both.high[0])}), "
            "which is known better than the share of any of them."
        )
    return sentences


def look_alike_sets(estimate: Estimate) -> list[list[int]]:
    """Return codes of classes whose shares are hard to tell apart, but whose sum is known well.

    A set begins with the two classes whose errors cancel most, and takes in a further class if that
    at least halves the error of the sum. It counts if the interval of its sum is at most half as
    wide as that of each of its classes.
    """
    k = len(estimate.classes)
    if k < 3 or estimate.method == "none":
        return []
    free: list[int] = list(range(k))
    sets: list[list[int]] = []
    while len(free) > 1 and len(sets) < _MOST_SETS:
        alike = _most_alike(estimate.covariance, free)
        widths = estimate.high[alike] - estimate.low[alike]
        if len(alike) < 2 or _width_of_sum(estimate, alike) > _BETTER * widths.min():
            break
        sets.append(sorted(alike))
        free = [code for code in free if code not in alike]
    return sets


def _most_alike(covariance: Array, free: Sequence[int]) -> list[int]:
    """Return the classes among some whose errors cancel most; none if no errors cancel."""
    part = covariance[np.ix_(free, free)]
    deviations = np.sqrt(np.maximum(np.diag(part), 0.0))
    scale = np.outer(deviations, deviations)
    correlation = np.triu(np.where(scale > 0, part / np.where(scale > 0, scale, 1.0), 0.0), 1)
    first, second = divmod(int(np.argmin(correlation)), len(free))
    if correlation[first, second] > _LOOK_ALIKE:
        return []
    alike = [free[first], free[second]]

    def error(codes: Sequence[int]) -> float:
        return float(np.sqrt(max(covariance[np.ix_(codes, codes)].sum(), 0.0)))

    # The sum of all classes is always one.
    while len(alike) < min(_MOST_ALIKE, len(free), len(covariance) - 1):
        others = [code for code in free if code not in alike]
        nearest = min(others, key=lambda code: error([*alike, code]))
        if error([*alike, nearest]) > _BETTER * min(error(alike), error([nearest])):
            break
        alike = [*alike, nearest]
    return alike


def _width_of_sum(estimate: Estimate, codes: Sequence[int]) -> float:
    """Return the width of the interval of the sum of some classes."""
    merged = estimate.merge({"together": [estimate.classes[code] for code in codes]})
    return float(merged.high[0] - merged.low[0])


def _hardly_known(rows: Sequence[ClassRow]) -> list[str]:
    """Return which shares are hardly known."""
    wide = sorted((row for row in rows if row.width > _WIDE), key=lambda row: -row.width)
    if not wide:
        return []
    named = [f"“{r.name}” ({percent(r.low)} to {percent(r.high)})" for r in wide[:_NAMED]]
    more = f", and of {count_of(len(wide) - _NAMED, 'more class', 'more classes')}"
    tail = more if len(wide) > _NAMED else ""
    shares = "share" if len(wide) == 1 else "shares"
    return [f"The {shares} of {listed(named)}{tail} can only be told roughly."]


def _against_training(rows: Sequence[ClassRow]) -> list[str]:
    known = [row for row in rows if row.training is not None and row.low is not None]
    changed = [row for row in known if row.outside(row.training)]
    if not known:
        return []
    if not changed:
        return [
            "The share of every class among the training examples lies within its limits: no "
            "class has clearly become more or less frequent."
        ]
    changed.sort(key=lambda row: -abs((row.estimate or 0.0) - (row.training or 0.0)))
    parts = [
        f"“{row.name}” is {_more_or_less(row)} frequent ({percent(row.training)} there)"
        for row in changed[:_NAMED_CHANGES]
    ]
    more = len(changed) - _NAMED_CHANGES
    others = count_of(more, "other class lies", "other classes lie")
    tail = f"; {others} outside the limits too" if more > 0 else ""
    return [f"Compared with the training examples, {listed(parts)}{tail}."]


def _more_or_less(row: ClassRow) -> str:
    return "more" if (row.estimate or 0.0) > (row.training or 0.0) else "less"


def _against_naive(rows: Sequence[ClassRow]) -> list[str]:
    differing = [row for row in rows if row.outside(row.naive)]
    if not differing:
        return []
    worst = max(differing, key=lambda row: abs((row.estimate or 0.0) - (row.naive or 0.0)))
    others = len(differing) - 1
    more = f", and outside those of {count_of(others, 'more class', 'more classes')}"
    return [
        "Just counting what the model takes each record for would have said "
        f"{percent(worst.naive)} for “{worst.name}”, outside the limits{more if others else ''}: "
        "such a count passes on the model's mistakes, which these shares are corrected for."
    ]


def against_labels(rows: Sequence[ClassRow]) -> list[str]:
    """Return for which classes the known labels lie outside the limits, if any are known."""
    known = [row for row in rows if row.truth is not None]
    if not known:
        return []
    outside = [row for row in known if row.outside(row.truth)]
    if not outside:
        return ["Known labels agree: their shares lie within the limits of every class."]
    named = [f"“{row.name}” ({percent(row.truth)} of the labels)" for row in outside[:_NAMED]]
    more = len(outside) - _NAMED
    others = f", and of {more} more" if more > 0 else ""
    return [
        f"Known labels disagree: their shares lie outside the limits of {listed(named)}{others}. "
        "If the labelled records are all records or a random part of them, the estimate is wrong "
        "there by more than its limits say."
    ]
