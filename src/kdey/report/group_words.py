"""What groups and periods show, in sentences that stay true for many groups.

The extremes of many groups differ even if all groups are the same. A difference is called clear if
it exceeds its error by what the largest of all differences needs: with m pairs of limits of half
widths a and b at level 1 - alpha, and z the normal quantile, if it exceeds

    sqrt(a^2 + b^2) z(1 - alpha / 2m) / z(1 - alpha / 2),

and if the limits do not overlap, as a reader of the figure would ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scipy.stats import norm

from kdey._display import count_of
from kdey.report.groups import ClassRow, Group, GroupTable
from kdey.report.vocabulary import listed, percent, plain_status
from kdey.status import EMPTY, POOR_FIT, TOO_SMALL, is_about_checking, problems, status_parts

#: Confidence of limits that do not say theirs.
_DEFAULT_CONFIDENCE = 0.95


def groups_answer(table: GroupTable, totals: GroupTable | None = None) -> list[str]:
    """Return what groups show in a few sentences: differences, then their number and sizes.

    Parameters
    ----------
    table : GroupTable
    totals : GroupTable, optional
        Each series over all its times; by default computed from the times.
    """
    if table.time is None:
        sentences = _spread(table)
    else:
        sentences = _changes(table)
        if len(table.series) > 1:
            sentences = [*_spread(table.totals() if totals is None else totals), *sentences]
    sentences.append(_number_and_sizes(table))
    flagged = [group for group in table.groups if problems(group.status)]
    if flagged:
        kinds = sorted({part for group in flagged for part in problems(group.status)})
        words = listed([plain_status(kind) for kind in kinds])
        verb = "needs" if len(flagged) == 1 else "need"
        which = f"{len(flagged):,} of the {_groups(table, len(table.groups))}"
        if len(table.groups) == 1:
            which = "It"
        sentences.append(f"{which} {verb} another look ({words}).")
    return sentences


def groups_checked(table: GroupTable) -> list[str]:
    """Return how many groups were checked, and what came out."""
    count = len(table.groups)
    if count == 1:
        return []
    parts = [status_parts(group.status) for group in table.groups]
    partly = Counter(part for words in parts for part in words if is_about_checking(part))
    too_small = sum(TOO_SMALL in words or EMPTY in words for words in parts)
    in_full = sum(
        not any(is_about_checking(part) or part in (TOO_SMALL, EMPTY) for part in words)
        for words in parts
    )
    poor = [g for g, words in zip(table.groups, parts, strict=True) if POOR_FIT in words]
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
    for part, n in partly.items():
        sentences.append(f"{_all_of(n, count)} groups were {_how_checked(part)}.")
    if too_small:
        sentences.append(f"{_all_of(too_small, count)} groups were too small to be checked.")
    return sentences


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


def _number_and_sizes(table: GroupTable) -> str:
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


def _changes(table: GroupTable) -> list[str]:
    """Return the clearest change from the first time to the last, of any series."""
    ends = {}
    for label, groups in table.series.items():
        usable = _usable(groups)
        if len(usable) > 1:
            ends[label] = (usable[0], usable[-1])
    pairs = [
        (label, name, first.by_class[name], last.by_class[name])
        for label, (first, last) in ends.items()
        for name in table.classes
        if name in first.by_class and name in last.by_class
    ]
    if not pairs:
        return []
    moved = [abs(_share(last) - _share(first)) for _, _, first, last in pairs]
    clear = [
        place
        for place, (_, _, first, last) in enumerate(pairs)
        if _apart(first, last, len(pairs), table.confidence)
    ]
    best = max(clear or range(len(pairs)), key=lambda place: moved[place])
    label, name, first_row, last_row = pairs[best]
    first, last = ends[label]
    verb = "rose" if _share(last_row) > _share(first_row) else "fell"
    values = f"from {_with_span(first_row)} to {_with_span(last_row)}"
    span = f"From {table.period(first)} to {table.period(last)}"
    where = f" in {label}" if len(table.series) > 1 else ""
    if clear:
        return [f"{span}, “{name}” {verb} most{where}: {values}."]
    return [
        f"{span}, no class changed so much that it cannot be chance. The largest estimated change "
        f"is that of “{name}”{where}, {values}."
    ]


def _spread(table: GroupTable) -> list[str]:
    """Return the class that differs most between groups, if limits show it."""
    usable = _usable(table.groups)
    if len(usable) < 2:
        return []
    ends: dict[str, tuple[Group, Group]] = {}
    for name in table.classes:
        present = [group for group in usable if name in group.by_class]
        if len(present) > 1:
            ordered = sorted(present, key=lambda group: _share(group.by_class[name]))
            ends[name] = (ordered[0], ordered[-1])
    if not ends:
        return []
    n_pairs = len(ends) * len(usable) * (len(usable) - 1) // 2
    rows = {name: tuple(group.by_class[name] for group in pair) for name, pair in ends.items()}
    clear = [n for n, (low, high) in rows.items() if _apart(low, high, n_pairs, table.confidence)]
    if not clear:
        return [
            "No two groups differ by more than chance can explain: the differences between groups "
            "may be chance."
        ]
    name = max(clear, key=lambda n: _share(rows[n][1]) - _share(rows[n][0]))
    least, most = ends[name]
    return [
        f"Groups differ most in “{name}”: {_with_span(most.by_class[name])} in "
        f"{table.label(most)}; {_with_span(least.by_class[name])} in {table.label(least)}."
    ]


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
    alpha = 1 - (_DEFAULT_CONFIDENCE if confidence is None else confidence)
    wider = float(norm.isf(alpha / (2 * max(n_pairs, 1))) / norm.isf(alpha / 2))
    limits_apart = (lower.high or 0.0) < (upper.low or 0.0)
    return limits_apart and _share(upper) - _share(lower) > wider * error
