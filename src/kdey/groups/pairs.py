"""Which groups are compared with which: with the previous one, with the rest, with a reference.

A :class:`Pair` is a group and the groups on the other side, which together make one bag. All
choices depend on the keys of the groups only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kdey.groups.keys import Grouping, GroupKeys
from kdey.tables.columns import canonical_text

#: What ``against`` takes beside a mapping of key values.
PREVIOUS, REST = "previous", "rest"


@dataclass(frozen=True)
class Pair:
    """A comparison.

    Attributes
    ----------
    group : int
        Number of the group.
    others : tuple of int
        Numbers of the groups that it is compared with, taken together.
    name : str
        The other side in words: "2024-01-01", "rest", "shop=A".
    """

    group: int
    others: tuple[int, ...]
    name: str


def find_pairs(keys: GroupKeys, grouping: Grouping, against: str | Mapping[str, Any]) -> list[Pair]:
    """Return the comparisons of a table, in the order of the groups.

    Parameters
    ----------
    keys : GroupKeys
    grouping : Grouping
    against : "previous", "rest" or mapping from key columns to values
        See :func:`~kdey.groups.compare_groups`.

    Raises
    ------
    ValueError
        If there are no keys, ``against`` is none of these, or no group has another to be compared
        with.
    """
    if not keys.names:
        raise ValueError("a comparison needs groups: name their key columns in by or time")
    if isinstance(against, Mapping) and against:
        pairs = _with_reference(keys, against)
    elif isinstance(against, str) and against == PREVIOUS:
        pairs = _with_previous(keys)
    elif isinstance(against, str) and against == REST:
        pairs = _with_rest(keys, grouping)
    else:
        raise ValueError(
            f"against must be 'previous', 'rest' or a mapping from key columns to values, got "
            f"{against!r}"
        )
    if not pairs:
        raise ValueError(
            f"no group can be compared: the table has {len(keys)} groups, and none of them has "
            f"another side for against={against!r}"
        )
    return pairs


def _with_previous(keys: GroupKeys) -> list[Pair]:
    """Pair each group with the one before it among those that share all keys but the last."""
    latest: dict[tuple[str, ...], int] = {}
    pairs = []
    for group in keys.order().tolist():
        values = keys.values[group]
        series = _texts(values[:-1])
        if series in latest:
            name = canonical_text(keys.values[latest[series]][-1])
            pairs.append(Pair(group, (latest[series],), name))
        latest[series] = group
    return pairs


def _with_rest(keys: GroupKeys, grouping: Grouping) -> list[Pair]:
    """Pair each group with all others; with keys beside the time, with those of the same time."""
    within = grouping.time is not None and len(keys.names) > 1
    order, values = keys.order().tolist(), keys.values
    members: dict[tuple[str, ...], list[int]] = {}
    for group in order:
        members.setdefault(_texts(values[group][-1:]) if within else (), []).append(group)
    pairs = []
    for group in order:
        together = members[_texts(values[group][-1:]) if within else ()]
        others = tuple(other for other in together if other != group)
        if others:
            pairs.append(Pair(group, others, REST))
    return pairs


def _with_reference(keys: GroupKeys, reference: Mapping[str, Any]) -> list[Pair]:
    """Pair each group with the one that has the values of the reference and its other keys."""
    unknown = [name for name in reference if name not in keys.names]
    if unknown:
        raise ValueError(
            f"against names {unknown[0]!r}, which is no key of the groups: {', '.join(keys.names)}"
        )
    texts = [_texts(values) for values in keys.values]
    number = {text: group for group, text in enumerate(texts)}
    places = {keys.names.index(name): canonical_text(v) for name, v in reference.items()}
    for place, text in places.items():
        if all(key[place] != text for key in texts):
            raise ValueError(f"no group has {keys.names[place]}={text}, which against names")
    name = ", ".join(f"{keys.names[place]}={text}" for place, text in places.items())
    pairs = []
    for group in keys.order().tolist():
        other = tuple(places.get(i, text) for i, text in enumerate(texts[group]))
        if other in number and number[other] != group:
            pairs.append(Pair(group, (number[other],), name))
    return pairs


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple("" if value is None else canonical_text(value) for value in values)
