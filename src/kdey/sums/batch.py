"""From points and group numbers to the first sums, and to rows that can be visited again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags, Indices
from kdey.rows.posterior import one_hot_argmax
from kdey.sums.group_sums import GroupSums, merge
from kdey.sums.plan import Plan

#: Instances whose rows are made at a time: bounds the memory beside the rows that are held.
BLOCK = 1 << 16
Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Rows of a part of the data, sorted by group.

    Attributes
    ----------
    groups : int64 array of shape (g,)
        Numbers of the groups met.
    offsets : int64 array of shape (g + 1,)
        Group g owns rows ``offsets[g]`` to ``offsets[g + 1]``.
    rows : tuple of float32 arrays of shape (m, r)
        One per member. Densities relative to each row's largest (rows without any are ones), or
        the rows of a moment method. float32 halves what is held; sums are in float64.
    hashes : uint64 array of shape (m,) or None
        Of the row keys; only a bootstrap needs them.
    """

    groups: Indices
    offsets: Indices
    rows: tuple[NDArray[np.float32], ...]
    hashes: Hashes | None = None

    def renumbered(self, numbers: NDArray[np.integer]) -> GroupedRows:
        """Return the same rows with other numbers for the groups, shape (g,)."""
        return replace(self, groups=np.asarray(numbers, dtype=np.int64))


def make_batch(
    plan: Plan,
    points: NDArray[Any],
    codes: NDArray[np.integer],
    *,
    hashes: Hashes | None = None,
    hold: bool | None = None,
) -> tuple[GroupSums, GroupedRows | None]:
    """Return the first sums of a batch of instances, and its rows where they are held.

    Parameters
    ----------
    plan : Plan
    points : array of shape (m, d)
        Posteriors, or instances where the method works on those.
    codes : int array of shape (m,)
        Number of the group of each point, in any order.
    hashes : uint64 array of shape (m,), optional
        Of the row keys, for a bootstrap.
    hold : bool, optional
        By default for a likelihood, which is visited again.

    Returns
    -------
    sums : GroupSums
        ``n`` and, of posteriors, ``decisions``; for a likelihood ``start``, ``ignored`` and
        ``scale`` of every member; else ``mean`` of every member (or its log).
    rows : GroupedRows or None
    """
    held = plan.kind == "likelihood" if hold is None else hold
    if len(codes) == 0:
        nothing = np.empty(0, dtype=np.int64)
        empty = GroupedRows(nothing, np.zeros(1, dtype=np.int64), ())
        return GroupSums(nothing, {}), empty if held else None
    order = np.argsort(codes, kind="stable")
    groups, starts = np.unique(np.asarray(codes, dtype=np.int64)[order], return_index=True)
    offsets = np.append(starts, len(order)).astype(np.int64)
    parts: list[GroupSums] = []
    rows: list[list[NDArray[np.float32]]] = [[] for _ in plan.row_maps]
    for first, last in _blocks(len(order)):
        own = points[order[first:last]]
        bags, which = _bags(offsets, first, last)
        made, kept = _first_sums(plan, own, bags, groups[which], held)
        parts.append(made)
        if held:
            for member, array in zip(rows, kept, strict=True):
                member.append(array)
    if not held:
        return merge(parts), None
    arrays = tuple(np.concatenate(member) for member in rows)
    sorted_hashes = None if hashes is None else hashes[order]
    return merge(parts), GroupedRows(groups, offsets, arrays, sorted_hashes)


def _blocks(size: int) -> Iterator[tuple[int, int]]:
    return pairwise([*range(0, size, BLOCK), size])


def _bags(offsets: Indices, first: int, last: int) -> tuple[Bags, Indices]:
    """Return the groups with rows in a block as bags over it, and their positions."""
    cut = np.clip(offsets, first, last) - first
    which = np.flatnonzero(np.diff(cut) > 0)
    ends = np.append(cut[which], last - first).astype(np.int64)
    return Bags(np.arange(last - first, dtype=np.int64), ends, last - first), which


def _first_sums(
    plan: Plan, points: NDArray[Any], bags: Bags, groups: Indices, held: bool
) -> tuple[GroupSums, list[NDArray[np.float32]]]:
    sums: dict[str, Array] = {"n": bags.sizes.astype(np.float64)}
    logs: dict[str, Array] = {}
    if plan.on_posteriors:
        sums["decisions"] = _add(one_hot_argmax(np.asarray(points)), bags)
    kept = []
    for member, row_map in enumerate(plan.row_maps):
        rows = row_map(points, plan.n_threads)
        if plan.kind == "likelihood":
            array, own = _densities(rows.array, plan.log_rows, bags)
            sums |= {f"{name}{member}": values for name, values in own.items()}
            kept.append(array)
        elif plan.kind == "log mean":
            logs[f"mean{member}"] = rows.log_mean(bags) + np.log(bags.sizes)[:, None]
        else:
            sums[f"mean{member}"] = rows.mean(bags) * bags.sizes[:, None]
        if held and plan.kind != "likelihood":
            kept.append(_row_array(rows, len(points)))
    return GroupSums(groups, sums, logs), kept


def _densities(
    given: NDArray[np.floating], logs: bool, bags: Bags
) -> tuple[NDArray[np.float32], dict[str, Array]]:
    """Return densities relative to each row's largest, and the first sums of a likelihood.

    ``start`` is the sum of posteriors at the uniform prevalence: one step of EM for nothing.
    A row of zeros says nothing; it is held as ones, counted, and taken off the sums later.
    """
    rows = np.asarray(given, dtype=np.float64)
    largest = rows.max(axis=1)
    if logs:
        empty = np.isneginf(largest)
        scale = np.where(empty, 0.0, largest)
        rows = np.exp(rows - scale[:, None])
    else:
        empty = largest == 0
        largest = np.where(empty, 1.0, largest)
        scale, rows = np.log(largest), rows / largest[:, None]
    rows[empty] = 1.0
    start = rows / rows.sum(axis=1, keepdims=True)
    start[empty] = 0.0
    own = {"start": _add(start, bags), "ignored": _add(empty, bags), "scale": _add(scale, bags)}
    return rows.astype(np.float32), own


def _add(values: NDArray[Any], bags: Bags) -> Array:
    return np.asarray(np.add.reduceat(values.astype(np.float64), bags.offsets[:-1], axis=0))


def _row_array(rows: Any, size: int) -> NDArray[np.float32]:
    """Return rows of a moment method one by one, shape (m, r)."""
    alone = Bags(np.arange(size, dtype=np.int64), np.arange(size + 1, dtype=np.int64), size)
    return np.asarray(rows.mean(alone), dtype=np.float32)
