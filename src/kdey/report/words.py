"""The answer in words: what was asked, what came out, how sure it is, and how far to trust it.

Words of the library (bag, prevalence, posterior) have no place in sentences for everybody:
instances are records, and what the classifier learnt from are the training examples.

Sentences on groups stay true for many groups. The extremes of many groups differ even if all groups
are the same. A difference is called clear if it exceeds its error by what the largest of all
differences needs: with m pairs of intervals of half widths a and b at level 1 - alpha, and z the
normal quantile, if it exceeds

    sqrt(a^2 + b^2) z(1 - alpha / 2m) / z(1 - alpha / 2),

and if the intervals do not overlap, as a reader of the figure would ask.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom, norm

from kdey import status
from kdey._display import count_of
from kdey.bags import Array
from kdey.diagnostics import FitVerdict, identifiability, plan_labels
from kdey.diagnostics.column_check import benjamini_hochberg
from kdey.intervals import Estimate, Estimates, difference
from kdey.intervals.checks import Checks, ColumnVerdict, NotChecked, unknown_sentence
from kdey.intervals.display import bag_names
from kdey.intervals.drift import unavailable
from kdey.report.explorer import ALARM_LEVEL, DEFAULT_CONFIDENCE, Explorer
from kdey.report.page import Highlight, listed, percent, plain_status
from kdey.report.shown_groups import ClassRow, Group, GroupTable, by_size
from kdey.status import is_about_checking, problems, status_parts

if TYPE_CHECKING:
    from kdey.quantifiers.base import BaseQuantifier
    from kdey.report import Report

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
#: Classes up to which it is said how large a drift overturns the conclusion; more take too long.
_MOST_DRIFTING = 8
#: The share of false alarms among all alarms of groups that is allowed.
FALSE_ALARMS = 0.05
#: More labels than so many times those of training are no plan.
_MOST_LABELS = 10
#: Changes and groups that are named.
_MOST_FINDINGS = 5
#: Intervals wider than this leave a share unknown for most purposes.
_WIDE = 0.2


def question(estimate: Estimate | None, groups: GroupTable | None, focus: str | None = None) -> str:
    """Return what was asked, in a sentence."""
    if estimate is not None:
        records, n_classes = f"{estimate.size:,} records", len(estimate.classes)
    else:
        total = sum(group.n for group in groups.groups) if groups is not None else 0
        records = f"{total:,} records"
        n_classes = len(groups.classes) if groups is not None else 0
    keys = ""
    if groups is not None:
        names = [groups.calendar.noun or n if n == groups.time else n for n in groups.by]
        keys = f", by {listed(names)}"
    if focus is not None:
        return f"What share of {records} is “{focus}”{keys}?"
    return f"What share of {records} belongs to each of {n_classes} classes{keys}?"


def headline(estimate: Estimate, rows: Sequence[ClassRow], focus: str | None = None) -> str:
    """Return the answer for all records in a sentence: of the class that was asked for, or more."""
    ordered = by_size(rows)
    records = count_of(estimate.size, "record")
    subject = (
        f"Of these {records}"
        if estimate.target == "bag"
        else f"Of all records like these {estimate.size:,}"
    )
    asked = [row for row in ordered if row.name == focus] or ordered[:_NAMED]
    first = f"{subject}, an estimated {listed([_with_interval(row) for row in asked])}."
    if status.CANNOT_BE_TOLD in estimate.problems:
        first = f"The shares cannot be told: some interval is wider than {status.WIDE:.0%}. {first}"
    return first


def how_sure(estimate: Estimate, rows: Sequence[ClassRow], by_labels: bool = False) -> list[str]:
    """Return what the intervals promise, and what is known better or worse than it seems."""
    meaning = meaning_of_intervals(estimate, by_labels)
    return [meaning, *_look_alikes(estimate), *_hardly_known(rows)]


def against_others(rows: Sequence[ClassRow], focus: str | None = None) -> list[str]:
    """Return what else is to say of the shares: of rare classes, of training and of counting."""
    asked = [row for row in rows if row.name == focus] or rows
    rest = [] if focus is not None else _rest(by_size(rows)[_NAMED:])
    return [*rest, *_against_training(asked), *_against_naive(asked)]


def _with_interval(row: ClassRow) -> str:
    interval = "" if row.low is None else f" ({percent(row.low)} to {percent(row.high)})"
    return f"{percent(row.estimate)} are “{row.name}”{interval}"


def _rest(rest: Sequence[ClassRow]) -> list[str]:
    """Return the share of the classes that are not named by themselves."""
    if not rest:
        return []
    if len(rest) == 1:
        return [f"The remaining {_with_interval(rest[0])}."]
    share = sum(row.estimate or 0.0 for row in rest)
    maybe_absent = sum((row.low or 0.0) < 0.0005 for row in rest)
    absent = f"; {maybe_absent} of them may be absent" if maybe_absent else ""
    return [f"The other {len(rest)} classes together make up {percent(share)}{absent}."]


def meaning_of_intervals(estimate: Estimate, by_labels: bool = False) -> str:
    """Return what the intervals in brackets mean; labels of these records make them safer."""
    if estimate.method == "none":
        return "These shares have no intervals."
    level = f"{100 * estimate.confidence:g}\u00a0%"
    which = (
        "all of them contain the true shares at once"
        if estimate.simultaneous
        else "each of them contains the true share"
    )
    condition = (
        "whatever has changed since training, as labels of some of these records have been used"
        if by_labels
        else "provided that only the shares have changed since training"
    )
    return (
        f"The intervals in brackets are made so that {which} in {level} of such cases, {condition}."
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
            "The share of every class among the training examples lies within its interval: no "
            "class has clearly become more or less frequent."
        ]
    changed.sort(key=lambda row: -abs((row.estimate or 0.0) - (row.training or 0.0)))
    parts = [
        f"“{row.name}” is {_more_or_less(row)} frequent ({percent(row.training)} there)"
        for row in changed[:_NAMED_CHANGES]
    ]
    more = len(changed) - _NAMED_CHANGES
    others = count_of(more, "other class lies", "other classes lie")
    tail = f"; {others} outside the interval too" if more > 0 else ""
    return [f"Compared with the training examples, {listed(parts)}{tail}."]


def _more_or_less(row: ClassRow) -> str:
    return "more" if (row.estimate or 0.0) > (row.training or 0.0) else "less"


def withstands_drift(estimate: Estimate, focus: str | None = None) -> list[str]:
    """Return how large a change of the classes themselves would overturn the main conclusion.

    The conclusion is that the class in focus, or that which differs most from the training
    examples, does differ from them.
    """
    outside = (estimate.low > estimate.training_prevalence) | (
        estimate.high < estimate.training_prevalence
    )
    if focus is not None:
        outside &= np.array([str(label) == focus for label in estimate.classes])
    if (
        not outside.any()
        or len(estimate.classes) > _MOST_DRIFTING
        or unavailable(estimate.uncertainty) is not None
    ):
        return []
    change = estimate.estimate - estimate.training_prevalence
    i = int(np.argmax(np.where(outside, np.abs(change), -1.0)))
    bound, side = float(estimate.training_prevalence[i]), "above" if change[i] > 0 else "below"
    factor = estimate.tipping_point(estimate.classes[i], **{side: bound})
    frequent = f"{'more' if change[i] > 0 else 'less'} frequent than among the training examples"
    return [_stands(f"“{estimate.classes[i]}” is {frequent}", factor)]


def change_withstands_drift(periods: Estimates) -> list[str]:
    """Return the same for the clearest change from the first period to the last.

    Parameters
    ----------
    periods : Estimates
        In the order of time.
    """
    if len(periods) < 2:
        return []
    first, last = periods[0], periods[len(periods) - 1]
    if len(periods.classes) > _MOST_DRIFTING or any(
        unavailable(one.uncertainty) is not None for one in (first, last)
    ):
        return []
    change = difference(last, first)
    clear = (change.low > 0.0) | (change.high < 0.0)
    if not clear.any():
        return []
    # Rounded, since with two classes both change by as much.
    i = int(np.argmax(np.where(clear, np.abs(change.difference).round(9), -1.0)))
    names, verb = bag_names(periods), "rose" if change.difference[i] > 0 else "fell"
    what = f"“{change.classes[i]}” {verb} from {names[0]} to {names[-1]}"
    return [_stands(what, change.tipping_point(change.classes[i]))]


def _stands(conclusion: str, factor: float) -> str:
    if np.isinf(factor):
        return f"The conclusion that {conclusion} stands however the classes themselves changed."
    digits = 2 if factor >= 1.1 else 3  # a factor of 1 would say nothing
    return (
        f"The conclusion that {conclusion} stands unless the classes themselves have changed, some "
        f"kinds of their records having become more or less common by a factor of "
        f"{max(factor, 1.01):.{digits}g} or more."
    )


def _against_naive(rows: Sequence[ClassRow]) -> list[str]:
    differing = [row for row in rows if row.outside(row.naive)]
    if not differing:
        return []
    worst = max(differing, key=lambda row: abs((row.estimate or 0.0) - (row.naive or 0.0)))
    others = len(differing) - 1
    more = f", and outside those of {count_of(others, 'more class', 'more classes')}"
    return [
        "Just counting what the model takes each record for would have said "
        f"{percent(worst.naive)} for “{worst.name}”, outside the interval{more if others else ''}: "
        "such a count passes on the model's mistakes, which these shares are corrected for."
    ]


def against_labels(rows: Sequence[ClassRow], look_trained: bool = False) -> list[str]:
    """Return for which classes the known labels lie outside the interval, if any are known.

    Parameters
    ----------
    rows : sequence of ClassRow
    look_trained : bool
        Whether the labels look like those that the model was fitted on, which test nothing.
    """
    known = [row for row in rows if row.truth is not None]
    if not known:
        return []
    if look_trained:
        return [
            "Known labels are not compared: there are exactly as many of each class as the model "
            "was trained on. They seem to be its training data, which cannot show whether it "
            "is right about new records."
        ]
    outside = [row for row in known if row.outside(row.truth)]
    if not outside:
        return [
            "Known labels agree: their shares lie within the interval of every class. (This says "
            "something only of records that the model was not trained on.)"
        ]
    named = [f"“{row.name}” ({percent(row.truth)} of the labels)" for row in outside[:_NAMED]]
    more = len(outside) - _NAMED
    others = f", and of {more} more" if more > 0 else ""
    return [
        f"Known labels disagree: their shares lie outside the interval of {listed(named)}{others}. "
        "If the labelled records are all records or a random part of them, the estimate is wrong "
        "there by more than its interval says."
    ]


def group_findings(
    table: GroupTable, totals: GroupTable, explorer: Explorer, focus: str | None = None
) -> list[Highlight]:
    """Return what stands out among groups: misfit, changes, differences.

    Parameters
    ----------
    table, totals : GroupTable
        The groups, and those over all times; the rows of the explorer are the latter.
    explorer : Explorer
    focus : str, optional
        The class that was asked for: others do not count.
    """
    findings = [*_misfits(explorer, table), *change_findings(explorer, focus)]
    if len(totals.groups) > 1:
        findings += _spread(totals, explorer, focus)
    return findings


def need_a_look(table: GroupTable) -> list[str]:
    """Return how many groups need another look, and why."""
    flagged = [group for group in table.groups if problems(group.status)]
    if not flagged:
        return []
    kinds = sorted({part for group in flagged for part in problems(group.status)})
    words = listed([plain_status(kind) for kind in kinds])
    verb = "needs" if len(flagged) == 1 else "need"
    which = f"{len(flagged):,} of the {_groups(table, len(table.groups))}"
    if len(table.groups) == 1:
        which = "It"
    return [f"{which} {verb} another look ({words})."]


def _misfits(explorer: Explorer, table: GroupTable) -> list[Highlight]:
    """Return which rows look unlike the training examples, and whether chance may be behind it."""
    words, rows = plain_status(status.POOR_FIT), explorer.misfits
    if not rows:
        return []
    links = {explorer.rows[row]: explorer.link(row) for row in rows[:_MOST_FINDINGS]}
    more = len(rows) - len(links)
    text = f"{'look' if len(rows) > 1 else words.split()[0]} {words.split(' ', 1)[1]}"
    text = f"and {count_of(more, 'more')} {text}" if more > 0 else text
    expected = ALARM_LEVEL * len(explorer.rows)
    least = min((group.p_value or 0.0 for group in table.groups), default=0.0)
    chance = min(
        binom.sf(len(rows) - 1, len(explorer.rows), ALARM_LEVEL), least * len(table.groups)
    )
    if not explorer.times and chance > FALSE_ALARMS:
        return [
            Highlight(
                f"{text}. Chance alone would flag {expected:.1f} of {len(explorer.rows):,} on "
                "average, so that this may be chance.",
                links,
            )
        ]
    whose = "their" if len(rows) > 1 else "its"
    text = f"{text}: {whose} shares may be wrong by more than the intervals say."
    return [Highlight(text, links)]


def change_findings(explorer: Explorer, focus: str | None = None) -> list[Highlight]:
    """Return the clear changes over time, of each row the largest."""
    if len(explorer.times) < 2:
        return []
    change, names = explorer.changes, explorer.classes
    moved = change.moved
    if focus is not None and focus in names:
        moved = moved * (np.array(names) == focus)
    # Of two classes that change by as much, that in focus is named.
    size = np.abs(moved).round(4)
    size[:, explorer.focus] *= 1.0001
    label = size.argmax(axis=1)
    rows = np.argsort(-size.max(axis=1), kind="stable")
    clear = [int(row) for row in rows if size[row, label[row]] > 0]
    if not clear:
        return [Highlight("No share has changed over time by more than chance explains.")]
    findings = []
    for row in clear[:_MOST_FINDINGS]:
        code = int(label[row])
        verb = "rose" if moved[row, code] > 0 else "fell"
        what = f"“{names[code]}” {verb}" if names[code] else verb
        findings.append(
            Highlight(
                f"{what} from {percent(float(change.before[row, code]))} before "
                f"{explorer.times[change.place[row, code]]} to "
                f"{percent(float(change.since[row, code]))} since.",
                {explorer.rows[row]: explorer.link(row)},
                names[code],
            )
        )
    more = len(clear) - len(findings)
    if more > 0:
        rest = "more changed" if more > 1 else "more has changed"
        findings.append(
            Highlight(f"{more:,} {rest} clearly: sort the table by change to see them.")
        )
    return findings


def groups_checked(table: GroupTable) -> list[str]:
    """Return how many groups were checked, and what came out."""
    count = len(table.groups)
    if count == 1:
        return []
    parts = [status_parts(group.status) for group in table.groups]
    partly = Counter(part for words in parts for part in words if is_about_checking(part))
    small = (status.TOO_SMALL, status.EMPTY)
    too_small = sum(any(part in small for part in words) for words in parts)
    in_full = sum(
        not any(is_about_checking(part) or part in small for part in words) for words in parts
    )
    poor = [g for g, words in zip(table.groups, parts, strict=True) if status.POOR_FIT in words]
    sentences = []
    if in_full:
        checked = _all_of(in_full, count)
        if poor:
            named = listed([table.label(group) for group in poor[:3]])
            more = f" and {len(poor) - 3:,} more" if len(poor) > 3 else ""
            verb = "look" if len(poor) > 1 else "looks"
            result = f"{named}{more} {verb} unlike any mix of the training examples"
        else:
            result = "none of them looks unlike a mix of the training examples"
        sentences.append(f"{checked} groups were checked in this way: {result}.")
        sentences += _false_alarms(table, len(poor))
    for part, n in partly.items():
        sentences.append(f"{_all_of(n, count)} groups were {_how_checked(part)}.")
    if too_small:
        sentences.append(f"{_all_of(too_small, count)} groups were too small to be checked.")
    return sentences


def _false_alarms(table: GroupTable, n_poor: int) -> list[str]:
    """Return how many checks were made, and which alarms stand where false ones are few."""
    p_values = [group.p_value for group in table.groups]
    made = [np.nan if p is None else p for p in p_values]
    n_made = int(np.isfinite(made).sum())
    if n_made < 2 or not n_poor:
        return []
    kept = int(benjamini_hochberg(made, FALSE_ALARMS).sum())
    which = {0: "none of the alarms stands", 1: "one alarm stands"}.get(kept, f"{kept:,} stand")
    return [
        f"{n_made:,} checks were made, each with a chance of about {ALARM_LEVEL:.0%} of a false "
        f"alarm. If at most {FALSE_ALARMS:.0%} of all alarms may be false, {which}."
    ]


def _how_checked(part: str) -> str:
    plain = plain_status(part)
    if plain == "not checked":
        return "not checked, and may hold something that the training examples lack"
    return "checked for a part of what may go wrong (the technical part says which)"


def _all_of(n: int, count: int) -> str:
    return f"All {count:,}" if n == count else f"{n:,} of the {count:,}"


def _groups(table: GroupTable, count: int) -> str:
    """Return a number of groups, called by what they are."""
    if table.time is not None and len(table.by) == 1 and table.calendar.noun:
        return count_of(count, table.calendar.noun)
    return count_of(count, "group")


def groups_described(table: GroupTable) -> str:
    """Return how many groups there are and how large they are."""
    sizes, count = [group.n for group in table.groups], len(table.groups)
    span = f"{min(sizes):,} to {max(sizes):,}" if min(sizes) < max(sizes) else f"{min(sizes):,}"
    records = f"{span} {'record' if max(sizes) == 1 else 'records'}"
    each = " each" if count > 1 else ""
    verb = "is" if count == 1 else "are"
    parts = ""
    if table.time is not None and len(table.series) > 1:
        noun = table.calendar.noun or "time"
        n_times = len({table.moment(group) for group in table.groups})
        keys = listed([name for name in table.by if name != table.time])
        values = count_of(len(table.series), "value")
        parts = f" ({values} of {keys}, {count_of(n_times, noun)})"
    return f"There {verb} {_groups(table, count)}{parts} with {records}{each}."


def _usable(groups: Sequence[Group]) -> list[Group]:
    return [group for group in groups if any(row.estimate is not None for row in group.rows)]


def _spread(table: GroupTable, explorer: Explorer, focus: str | None) -> list[Highlight]:
    """Return the class that differs most between groups, if intervals show it."""
    usable = _usable(table.groups)
    if len(usable) < 2:
        return []
    ends: dict[str, tuple[Group, Group]] = {}
    for name in table.classes if focus is None else [focus]:
        present = [group for group in usable if name in group.by_class]
        if len(present) > 1:
            ordered = sorted(present, key=lambda group: _share(group.by_class[name]))
            ends[name] = (ordered[0], ordered[-1])
    if not ends:
        return []
    n_pairs = len(ends) * len(usable) * (len(usable) - 1) // 2
    rows = {n: (low.by_class[n], high.by_class[n]) for n, (low, high) in ends.items()}
    clear = [n for n, (low, high) in rows.items() if _apart(low, high, n_pairs, table.confidence)]
    if not clear:
        return [
            Highlight(
                "No two groups differ by more than chance can explain: the differences between "
                "groups may be chance."
            )
        ]
    # Of two classes that differ by as much, the table shows one.
    shown = explorer.classes[explorer.focus]
    name = max(clear, key=lambda n: (round(_gap(*rows[n]), 4), n == shown))
    places = [table.groups.index(group) for group in reversed(ends[name])]
    spans = [_with_span(table.groups[place].by_class[name]) for place in places]
    links = {explorer.rows[place]: explorer.link(place) for place in places}
    text = f"the largest difference, in “{name}”, {spans[0]} against {spans[1]}."
    return [Highlight(text, links, name)]


def _gap(least: ClassRow, most: ClassRow) -> float:
    return _share(most) - _share(least)


def _share(row: ClassRow) -> float:
    return row.estimate or 0.0


def _with_span(row: ClassRow) -> str:
    return f"{percent(row.estimate)} ({percent(row.low)} to {percent(row.high)})"


def _apart(a: ClassRow, b: ClassRow, n_pairs: int, confidence: float | None) -> bool:
    """Return whether two shares differ clearly, though so many pairs were looked at."""
    lower, upper = sorted((a, b), key=_share)
    if None in (lower.high, upper.low, lower.low, upper.high):
        return False
    reach_up = (lower.high or 0.0) - _share(lower)
    reach_down = _share(upper) - (upper.low or 0.0)
    error = float((reach_up**2 + reach_down**2) ** 0.5)
    alpha = 1 - (DEFAULT_CONFIDENCE if confidence is None else confidence)
    wider = float(norm.isf(alpha / (2 * max(n_pairs, 1))) / norm.isf(alpha / 2))
    intervals_apart = (lower.high or 0.0) < (upper.low or 0.0)
    return intervals_apart and _share(upper) - _share(lower) > wider * error


def next_steps(report: Report) -> list[str]:
    """Return what to do next: what to look at, and what to label."""
    steps, explorer = [], report.group_explorer
    if explorer is not None:
        flagged = [explorer.rows[row] for row in explorer.shown if explorer.flags[row]]
        more = len(flagged) - _NAMED
        if flagged:
            others = f" and {count_of(more, 'more group')}" if more > 0 else ""
            steps.append(f"Look first at {listed(flagged[:_NAMED])}{others}.")
    if report.checks is not None and report.checks.rejected:
        steps.append(
            "Look at some of the records by hand, and label some of them to train on if you can."
        )
    if report.estimate is not None and report.quantifier is not None:
        steps += _labels_to_collect(report.quantifier, report.estimate)
    return steps


def _labels_to_collect(quantifier: BaseQuantifier, estimate: Estimate) -> list[str]:
    """Return how many more training examples would halve the widest interval, where known."""
    if len(estimate.classes) != len(quantifier.classes_) or not estimate.size:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said when the quantifier was fitted
            known = identifiability(
                quantifier,
                estimate.size,
                prevalence=estimate.estimate,
                confidence=estimate.confidence,
            )
        plan = plan_labels(known, max(float(known.width().max()) / 2, 0.001))
    except (TypeError, ValueError):
        return []  # The method has no posteriors, or keeps none of training.
    if not plan.reachable or plan.extra.sum() > _MOST_LABELS * known.training_counts.sum():
        return [
            "More training examples alone would hardly narrow the intervals: that takes more "
            "records to estimate, too."
        ]
    most = int(plan.extra.argmax())
    return [
        f"About {int(plan.extra.sum()):,} more training examples, most of "
        f"“{estimate.classes[most]}”, would halve the widest interval."
    ]


#: Tone and headline of the status of the checks; other statuses say that there were none.
_HEADLINES = {
    status.OK: ("good", "No problem found in scores and columns."),
    status.POOR_FIT: ("bad", "Careful."),
    status.ONE_SIDED: ("", "Partly checked."),
    status.ONLY_SCORES: ("", "Only scores were checked."),
    status.ONLY_COLUMNS: ("", "Only columns were checked."),
}
_PARTLY = (
    "No sign was found that the records are anything but a mix of the classes as they were in "
    "training, but only a part of what may go wrong was checked."
)
_RESULTS = {
    status.OK: (
        "The records, and each of their columns, look like a mix of the classes as they were in "
        "training."
    ),
    status.ONE_SIDED: _PARTLY,
    status.ONLY_SCORES: _PARTLY,
    status.ONLY_COLUMNS: _PARTLY,
}
_NOT_CHECKED = (
    "Whether the records look like a mix of the classes as they were in training is not known; "
    "the technical part says why it was not checked."
)
_NEVER_CHECKED = (
    "Whether the records look like a mix of the classes as they were in training cannot be known: "
    "any shares of decided classes can be explained by some mix."
)
_MISFIT = "The records do not look like any mix of the classes as they were in training"
#: What the check compares.
MEANING_OF_CHECKED = (
    "The shares rest on one assumption: each class looks here as it looked in training, and only "
    "the shares have changed. Checking means that the records were compared with mixes of the "
    "training examples at the estimated shares."
)
#: Columns that are described one by one.
_NAMED_COLUMNS = 5


def fit_headline(checks: Checks, flagged_groups: int = 0) -> tuple[str, str]:
    """Return the tone ("good", "careful", "bad" or "") and the headline of what was checked.

    Parameters
    ----------
    checks : Checks
    flagged_groups : int
        Number of groups that do not fit.
    """
    if checks.status.startswith(status.CANNOT_BE_CHECKED):
        return "", "Cannot be checked."
    tone, headline = _HEADLINES.get(checks.status, ("", "Not checked."))
    scores = checks.scores
    if tone == "bad" and not (isinstance(scores, FitVerdict) and scores.rejected):
        return "careful", headline
    if flagged_groups and tone != "bad":
        groups = "One group needs" if flagged_groups == 1 else f"{flagged_groups:,} groups need"
        return "careful", f"{groups} another look."
    return tone, headline


def fit_result(checks: Checks) -> str:
    """Return what the checks found, in a sentence or more for everybody."""
    if not checks.rejected:
        if checks.status.startswith(status.CANNOT_BE_CHECKED):
            return _NEVER_CHECKED
        return _RESULTS.get(checks.status, _NOT_CHECKED)
    result = [
        f"{_MISFIT}: the classes look different from before, so that the shares may be wrong by "
        "more than the intervals say."
    ]
    if checks.unknown_share:
        result.append(
            f"{unknown_sentence(checks.unknown_share, 'records')} How many more there are, nobody "
            "can say: records of a new class may look like those of others."
        )
    return " ".join([*result, *changed_columns(checks)])


def changed_columns(checks: Checks) -> list[str]:
    """Return a sentence on each column that has changed, the surest first."""
    if not isinstance(checks.columns, ColumnVerdict):
        return []
    findings = checks.columns.findings
    sentences = [f"{quoted(finding.sentence)}." for finding in findings[:_NAMED_COLUMNS]]
    more = len(findings) - _NAMED_COLUMNS
    if more > 0:
        sentences.append(f"{count_of(more, 'more column')} changed, too.")
    return sentences


def quoted(sentence: str) -> str:
    """Return a sentence with names of columns as pages show them: in quotes, not backticks."""
    return re.sub(r"`([^`]*)`", r"“\1”", sentence)


def fit_sentences(checks: Checks) -> list[str]:
    """Return what the checks found, what they asked and what to do, for everybody."""
    sentences = [fit_result(checks), MEANING_OF_CHECKED]
    if isinstance(checks.scores, NotChecked) and isinstance(checks.columns, NotChecked):
        return sentences
    if isinstance(checks.columns, ColumnVerdict):
        sentences.append(
            f"{count_of(checks.columns.n_columns, 'column')} were looked at, with a correction for "
            "their number."
        )
    if checks.rejected:
        return [
            *sentences,
            "Look at some of the records by hand, and label some of them to train on if you can.",
        ]
    return [
        *sentences,
        "This is no proof: few records show little, and no check can reveal a change of the "
        "classes that looks like a change of their shares.",
    ]


def fit_meaning(check: FitVerdict, columns_changed: bool = False) -> list[str]:
    """Return what the fit check asks and what follows from it, for those who know the method."""
    question = (
        "The estimate rests on one assumption: each class looks in this sample as it looked "
        "in training, and only the shares have changed. The check compares how well the sample "
        "fits a mixture of the training classes with how well samples fit that were drawn from "
        "the training data at the estimated shares."
    )
    if check.rejected:
        conclusion = (
            "Take the estimate with care: look at the items that fit worst, and label some items "
            "of this sample to train on if you can."
        )
    elif columns_changed:
        conclusion = (
            "The scores do not contradict the assumption, but columns do: look at what became of "
            "them before you take the shares for right."
        )
    elif not check.cross_fitted:
        conclusion = "The check found no contradiction to the assumption where it looked."
    else:
        conclusion = (
            "Nothing contradicts the assumption. This is no proof: a small sample shows little, "
            "and scores cannot reveal a change that looks like a change of shares."
        )
    if check.cross_fitted:
        return [question, conclusion]
    caution = (
        "The check was one-sided: the sample was scored by another model than the training "
        "data (cross-validation), which makes the p-value larger than it should be. There are "
        "fewer alarms than there should be, never too many, and classes that moved to where "
        "others are go unnoticed. Fit with keep_fold_models=True for the full check."
    )
    return [question, conclusion, caution]
