"""The answer in sentences: what a reader should take away before any figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

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
    return [*sentences, *_against_training(ordered), *_against_naive(ordered)]


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


def _checking(groups: Sequence[Group]) -> list[str]:
    """Return how far the fit of groups was checked, where it was not in full."""
    parts = Counter(
        part for group in groups for part in status_parts(group.status) if is_about_checking(part)
    )
    return [
        f"The fit of {'all' if n == len(groups) else f'{n:,} of the'} groups was {part}."
        for part, n in parts.items()
    ]


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
    """Return the class that changed most from the first time to the last."""
    first, last = usable[0], usable[-1]
    shared = [name for name in table.classes if name in first.by_class and name in last.by_class]
    if not shared:
        return []
    moved = {n: _share(last, n) - _share(first, n) for n in shared}
    name = max(moved, key=lambda n: abs(moved[n]))
    verb = "rose" if moved[name] > 0 else "fell"
    a, b = first.by_class[name], last.by_class[name]
    overlap = _overlap(a, b)
    hint = " Their intervals overlap, so this may be chance." if overlap else ""
    return [
        f"From {table.label(first)} to {table.label(last)}, “{name}” {verb} most: from "
        f"{_with_span(a)} to {_with_span(b)}.{hint}"
    ]


def _spread(table: GroupTable, usable: Sequence[Group]) -> list[str]:
    """Return the class that differs most between groups."""

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
    name = max(reach, key=lambda n: reach[n])
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
