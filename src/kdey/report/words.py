"""The answer in sentences: what a reader should take away before any figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from kdey.diagnostics import FitResult, FitVerdict
from kdey.intervals import Estimate
from kdey.report.groups import ClassRow, Group, GroupTable, by_size
from kdey.report.vocabulary import listed, percent
from kdey.status import (
    OK,
    ONE_SIDED,
    POOR_FIT,
    is_about_checking,
    problems,
    status_parts,
)

#: Classes that are named; the others are summed.
_NAMED = 3
#: Classes that are named where they differ from training.
_NAMED_CHANGES = 3
#: Errors of two classes with a correlation below this are those of classes that look alike.
_LOOK_ALIKE = -0.8


def answer(estimate: Estimate, rows: Sequence[ClassRow]) -> list[str]:
    """Return the answer for one bag in a few sentences."""
    ordered = by_size(rows)
    subject = "this bag" if estimate.target == "bag" else "the population that it was drawn from"
    level = f"{100 * estimate.confidence:g}\u00a0%"
    first, *others = ordered[:_NAMED]
    named = [_with_limits(first, level), *(_with_limits(row, "") for row in others)]
    sentences = [
        f"The bag holds {estimate.size:,} instances. In {subject}, an estimated {listed(named)}."
    ]
    rest = ordered[_NAMED:]
    if rest:
        sentences.append(_rest(rest))
    return [
        *sentences,
        *_look_alikes(estimate),
        *_against_labels(ordered),
        *_against_training(ordered),
        *_against_naive(ordered),
    ]


def _with_limits(row: ClassRow, level: str) -> str:
    between = f"{percent(row.low)} to {percent(row.high)}"
    limits = f"{level} interval {between}" if level else between
    return f"{percent(row.estimate)} are “{row.name}” ({limits})"


def _rest(rest: Sequence[ClassRow]) -> str:
    share = sum(row.estimate or 0.0 for row in rest)
    if len(rest) == 1:
        return f"The remaining {_with_limits(rest[0], '')}."
    maybe_absent = sum((row.low or 0.0) < 0.0005 for row in rest)
    absent = f"; {maybe_absent} of them may be absent" if maybe_absent else ""
    return f"The other {len(rest)} classes together make up {percent(share)}{absent}."


def _look_alikes(estimate: Estimate) -> list[str]:
    """Return the two classes that are told apart worst, where their sum is known much better."""
    k = len(estimate.classes)
    if k < 3 or estimate.method == "none":
        return []
    covariance = estimate.covariance
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.outer(deviations, deviations)
    correlation = np.where(scale > 0, covariance / np.where(scale > 0, scale, 1.0), 0.0)
    first, second = np.unravel_index(int(np.argmin(np.triu(correlation, 1))), (k, k))
    if correlation[first, second] > _LOOK_ALIKE:
        return []
    labels = [estimate.classes[first], estimate.classes[second]]
    both = estimate.merge({"both": labels})
    widths = estimate.high - estimate.low
    if both.high[0] - both.low[0] > 0.5 * min(widths[first], widths[second]):
        return []
    return [
        f"“{labels[0]}” and “{labels[1]}” look alike and are hard to tell apart; together they "
        f"make up {percent(both.estimate[0])} ({percent(both.low[0])} to {percent(both.high[0])}), "
        "which is known better than the share of either."
    ]


def _against_labels(rows: Sequence[ClassRow]) -> list[str]:
    """Return for which classes the known labels lie outside the limits, if any are known."""
    known = [row for row in rows if row.truth is not None]
    if not known:
        return []
    outside = [row for row in known if row.outside(row.truth)]
    if not outside:
        return ["The shares of the known labels lie within the limits of every class."]
    named = [f"“{row.name}” ({percent(row.truth)} of the labels)" for row in outside[:_NAMED]]
    more = len(outside) - _NAMED
    others = f", and of {more} more" if more > 0 else ""
    return [
        f"The shares of the known labels lie outside the limits of {listed(named)}{others}: here "
        "the estimate is wrong by more than its limits say."
    ]


def _against_training(rows: Sequence[ClassRow]) -> list[str]:
    known = [row for row in rows if row.training is not None]
    changed = [row for row in known if row.outside(row.training)]
    if not known:
        return []
    if not changed:
        return ["No class differs from its share in training by more than chance explains."]
    changed.sort(key=lambda row: -abs((row.estimate or 0.0) - (row.training or 0.0)))
    parts = [
        f"“{row.name}” is {_more_or_less(row)} frequent ({percent(row.training)} in training)"
        for row in changed[:_NAMED_CHANGES]
    ]
    more = len(changed) - _NAMED_CHANGES
    tail = f", and {more} other classes have changed too" if more > 0 else ""
    return [f"Compared with training, {listed(parts)}{tail}."]


def _more_or_less(row: ClassRow) -> str:
    return "more" if (row.estimate or 0.0) > (row.training or 0.0) else "less"


def _against_naive(rows: Sequence[ClassRow]) -> list[str]:
    differing = [row for row in rows if row.outside(row.naive)]
    if not differing:
        return []
    worst = max(differing, key=lambda row: abs((row.estimate or 0.0) - (row.naive or 0.0)))
    many = (
        f" and lies outside the limits for {len(differing)} classes" if len(differing) > 1 else ""
    )
    return [
        f"Counting the classifier's decisions would have said {percent(worst.naive)} for "
        f"“{worst.name}”{many}: it does not correct for the classifier's mistakes."
    ]


def groups_answer(table: GroupTable) -> list[str]:
    """Return what the groups show, in a few sentences."""
    usable = [group for group in table.groups if any(r.estimate is not None for r in group.rows)]
    sentences = [f"The table has {_number_and_sizes(table)}."]
    if table.time is not None and len(table.series) == 1 and len(usable) > 1:
        sentences += _change(table, usable)
    elif len(usable) > 1:
        sentences += _spread(table, usable)
    flagged = [group for group in table.groups if problems(group.status)]
    if flagged:
        kinds = listed(sorted({part for group in flagged for part in problems(group.status)}))
        verb = "needs" if len(flagged) == 1 else "need"
        sentences.append(f"{len(flagged):,} of them {verb} another look ({kinds}).")
    return [*sentences, *_checking(table.groups)]


#: What groups are checked for, in one sentence.
_MEANING_OF_CHECKED = (
    "Checking compares each group with mixtures of the classes as they were in training; a group "
    "that was not checked may hold something that training did not have."
)


def _checking(groups: Sequence[Group]) -> list[str]:
    """Return how far the fit of groups was checked, where it was not in full."""
    parts = Counter(
        part for group in groups for part in status_parts(group.status) if is_about_checking(part)
    )
    sentences = [
        f"The fit of {'all' if n == len(groups) else f'{n:,} of the'} groups was {part}."
        for part, n in parts.items()
    ]
    return [*sentences, _MEANING_OF_CHECKED] if sentences else []


def _number_and_sizes(table: GroupTable) -> str:
    """Return how many groups there are and how large they are."""
    sizes, count = [group.n for group in table.groups], len(table.groups)
    is_series = table.time is not None and len(table.by) == 1
    noun = f"value{_plural(count)} of {table.time}" if is_series else f"group{_plural(count)}"
    span = f"{min(sizes):,}" + (f" to {max(sizes):,}" if min(sizes) < max(sizes) else "")
    each = " each" if count > 1 else ""
    return f"{count:,} {noun} with {span} instance{_plural(max(sizes))}{each}"


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


def _change(table: GroupTable, usable: Sequence[Group]) -> list[str]:
    """Return the class that changed most from the first time to the last, if limits show it."""
    first, last = usable[0], usable[-1]
    shared = [name for name in table.classes if name in first.by_class and name in last.by_class]
    if not shared:
        return []
    moved = {n: _share(last, n) - _share(first, n) for n in shared}
    clear = [n for n in shared if not _overlap(first.by_class[n], last.by_class[n])]
    name = max(clear or shared, key=lambda n: abs(moved[n]))
    verb = "rose" if moved[name] > 0 else "fell"
    values = f"from {_with_span(first.by_class[name])} to {_with_span(last.by_class[name])}"
    span = f"From {table.period(first)} to {table.period(last)}"
    if clear:
        return [f"{span}, “{name}” {verb} most: {values}."]
    return [
        f"{span}, no class changed so much that its limits are apart. The largest estimated change "
        f"is that of “{name}”, {values}, which may be chance."
    ]


def _spread(table: GroupTable, usable: Sequence[Group]) -> list[str]:
    """Return the class that differs most between groups, if limits show it."""

    def ends(name: str) -> tuple[Group, Group]:
        present = [group for group in usable if name in group.by_class]
        ordered = sorted(present, key=lambda group: _share(group, name))
        return ordered[0], ordered[-1]

    reach = {
        n: _share(ends(n)[1], n) - _share(ends(n)[0], n)
        for n in table.classes
        if _occurs(usable, n)
    }
    if not reach:
        return []
    clear = [n for n in reach if not _overlap(*(group.by_class[n] for group in ends(n)))]
    if not clear:
        return [
            "For every class the limits of the groups with the smallest and the largest share "
            "overlap: the differences between groups may be chance."
        ]
    name = max(clear, key=lambda n: reach[n])
    least, most = ends(name)
    return [
        f"Groups differ most in “{name}”: {_with_span(most.by_class[name])} in "
        f"{table.label(most)}; {_with_span(least.by_class[name])} in {table.label(least)}."
    ]


def _occurs(groups: Sequence[Group], name: str) -> bool:
    return any(name in group.by_class for group in groups)


def _share(group: Group, name: str) -> float:
    return group.by_class[name].estimate or 0.0


def _with_span(row: ClassRow) -> str:
    return f"{percent(row.estimate)} ({percent(row.low)} to {percent(row.high)})"


def _overlap(a: ClassRow, b: ClassRow) -> bool:
    if None in (a.low, a.high, b.low, b.high):
        return True
    return (a.low or 0.0) <= (b.high or 0.0) and (b.low or 0.0) <= (a.high or 0.0)


#: Tone and headline of the status of a fit check; other statuses say that there was none.
_HEADLINES = {
    OK: ("good", "Fit check passed."),
    POOR_FIT: ("bad", "Careful."),
    ONE_SIDED: ("", "Checked one-sided."),
}


def fit_headline(result: FitResult) -> tuple[str, str]:
    """Return the tone ("good", "bad" or "") and the headline of what is known of the fit."""
    return _HEADLINES.get(result.status, ("", "Not checked."))


def fit_meaning(check: FitVerdict) -> list[str]:
    """Return what the fit check asks and what follows from it."""
    question = (
        "The estimate rests on one assumption: each class looks in this bag as it looked in "
        "training, and only the shares have changed. The check compares how well the bag fits a "
        "mixture of the training classes with how well bags fit that were drawn from the training "
        "data at the estimated shares."
    )
    if check.rejected:
        conclusion = (
            "Take the estimate with care: look at the instances that fit worst, and label some "
            "of this bag's instances to train on if you can."
        )
    elif not check.cross_fitted:
        conclusion = "The check found no contradiction to the assumption where it looked."
    else:
        conclusion = (
            "Nothing contradicts the assumption. This is no proof: a small bag shows little, "
            "and scores cannot reveal a change that looks like a change of shares."
        )
    if check.cross_fitted:
        return [question, conclusion]
    caution = (
        "The check was one-sided: the bag was scored by another model than the training data "
        "(cross-validation), which makes the p-value larger than it should be. There are fewer "
        "alarms than there should be, never too many, and classes that moved to where others are "
        "go unnoticed. Fit with keep_fold_models=True for the full check."
    )
    return [question, conclusion, caution]
