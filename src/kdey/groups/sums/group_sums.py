"""Sums per group: what a part of the data contributes, how parts add up, and where they lie.

A :class:`Plan` is what a part must know of a fitted quantifier, and no more: it travels.
:func:`make_batch` turns points and group numbers into first sums (:class:`GroupSums`) and rows that
can be visited again (:class:`GroupedRows`); :func:`merge` adds up the sums of parts. A
:class:`Source` goes through all parts, in one process (:class:`LocalSource`) or in many
(``kdey.groups.cluster``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags, Indices
from kdey.fitted import FittedQuantifier
from kdey.intervals import FittedModel
from kdey.matching.interface import BagSummary
from kdey.rows.interface import RowMap
from kdey.rows.posterior import one_hot_argmax

Fields: TypeAlias = dict[str, Array]
Hashes: TypeAlias = NDArray[np.uint64]
#: Instances whose rows are made at a time: bounds the memory beside the rows that are held.
BLOCK = 1 << 16


@dataclass(frozen=True, eq=False)
class Plan:
    """The row maps of a quantifier and what is summed of their rows.

    Attributes
    ----------
    row_maps : tuple of RowMap
        One per member: several for composites.
    moment_map : RowMap or None
        Its rows are kept after those of the members, for the limits of a likelihood; None if the
        limits need the rows of the members only.
    kind : {"rows", "mean", "log mean"}
        What must be known of a group: all its rows, which are visited again, or a mean, for which
        one pass is enough.
    log_rows : bool
        Whether the rows of a likelihood are logarithms.
    n_classes : int
    on_posteriors : bool
        Whether points are posteriors, of which decisions can be counted.
    n_threads : int
    """

    row_maps: tuple[RowMap, ...]
    kind: BagSummary
    log_rows: bool
    n_classes: int
    on_posteriors: bool
    n_threads: int = 1
    moment_map: RowMap | None = None

    @property
    def kept_maps(self) -> tuple[tuple[RowMap, bool], ...]:
        """All maps whose rows are kept, each with whether they are logarithms."""
        members = tuple((row_map, self.log_rows) for row_map in self.row_maps)
        return members if self.moment_map is None else (*members, (self.moment_map, False))


def plan_of(quantifier: FittedQuantifier) -> Plan:
    """Return the plan of a fitted quantifier, or raise where bags are no sums to it."""
    return plan_of_model(summable_stages(quantifier))


def summable_stages(quantifier: FittedQuantifier) -> FittedModel:
    """Return the fitted stages of a quantifier that estimates from sums, or raise."""
    model = quantifier.interval_model()
    if model is None:
        raise ValueError(
            f"{type(quantifier).__name__} does not estimate from sums over instances: use a method "
            "with rows and a matching (KDEyML, EMQ, DIR, ACC, PACC, CC, PCC, DM, HDy, ...), or "
            "estimate in memory"
        )
    if model.matching.bag_summary == "rows" and model.matching.member.likelihood is None:
        raise ValueError(
            f"{type(quantifier).__name__} needs all instances of a group at once, which sums over "
            "its parts do not keep: estimate in memory, or use a method on means or a likelihood"
        )
    return model


def plan_of_model(model: FittedModel) -> Plan:
    """Return the plan of fitted stages."""
    likelihood = model.matching.member.likelihood
    logs = likelihood is not None and likelihood.log_rows
    return Plan(
        model.row_map.members,
        model.matching.bag_summary,
        logs,
        model.n_classes,
        model.on_posteriors,
        model.n_threads,
        model.moment_map if model.has_calibrated_moments else None,
    )


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums over the rows of some groups, by name.

    Attributes
    ----------
    groups : int64 array of shape (g,)
        Numbers of the groups, ascending.
    sums : dict of arrays of shape (g, ...)
        Added up when parts are put together.
    logs : dict of arrays of shape (g, ...)
        Logarithms of sums, added up in the log domain.
    """

    groups: Indices
    sums: Fields
    logs: Fields = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.groups)

    def renumbered(self, numbers: NDArray[np.integer]) -> GroupSums:
        """Return the same sums with other numbers for the groups, shape (g,), all different."""
        order = np.argsort(numbers, kind="stable")
        return GroupSums(
            np.asarray(numbers, dtype=np.int64)[order],
            {name: values[order] for name, values in self.sums.items()},
            {name: values[order] for name, values in self.logs.items()},
        )

    def spread(self, name: str, n_groups: int) -> Array:
        """Return the sums ``name`` of groups 0..n_groups - 1, zero for those without any."""
        values = self.sums[name]
        out = np.zeros((n_groups, *values.shape[1:]))
        out[self.groups] = values
        return out


def merge(parts: Sequence[GroupSums]) -> GroupSums:
    """Return the sums of all parts; their order determines the rounding.

    Parts without a group have nothing to add and need not name any sums.
    """
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    flat = np.concatenate([part.groups for part in parts])
    order = np.argsort(flat, kind="stable")
    groups, starts = np.unique(flat[order], return_index=True)

    def total(fields: Sequence[Fields], add: np.ufunc) -> Fields:
        return {
            name: add.reduceat(np.concatenate([part[name] for part in fields])[order], starts)
            for name in fields[0]
        }

    sums = total([part.sums for part in parts], np.add)
    return GroupSums(groups, sums, total([part.logs for part in parts], np.logaddexp))


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Rows of a part of the data, sorted by group.

    Attributes
    ----------
    groups : int64 array of shape (g,)
        Numbers of the groups that the part has.
    offsets : int64 array of shape (g + 1,)
        Group g owns rows ``offsets[g]`` to ``offsets[g + 1]``.
    rows : tuple of float32 arrays of shape (m, r)
        One per member, and those of the moment equation if it has its own. Densities relative to
        each row's largest (rows without any are ones), or
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
    held = plan.kind == "rows" if hold is None else hold
    if len(codes) == 0:
        nothing = np.empty(0, dtype=np.int64)
        empty = GroupedRows(nothing, np.zeros(1, dtype=np.int64), ())
        return GroupSums(nothing, {}), empty if held else None
    order = np.argsort(codes, kind="stable")
    groups, starts = np.unique(np.asarray(codes, dtype=np.int64)[order], return_index=True)
    offsets = np.append(starts, len(order)).astype(np.int64)
    parts: list[GroupSums] = []
    rows: list[list[NDArray[np.float32]]] = [[] for _ in plan.kept_maps]
    for first, last in _blocks(len(order)):
        bags, which = _bags(offsets, first, last)
        sums, arrays = _first_sums(plan, points[order[first:last]], bags, groups[which], held)
        parts.append(sums)
        if held:
            for member, array in zip(rows, arrays, strict=True):
                member.append(array)
    if not held:
        return merge(parts), None
    joined = tuple(np.concatenate(member) for member in rows)
    sorted_hashes = None if hashes is None else hashes[order]
    return merge(parts), GroupedRows(groups, offsets, joined, sorted_hashes)


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
    arrays = []
    for member, (row_map, is_log) in enumerate(plan.kept_maps):
        rows = row_map(points, plan.n_threads)
        if plan.kind == "rows":
            array, of_member = _densities(rows.each(), is_log, bags)
            sums |= {f"{name}{member}": values for name, values in of_member.items()}
            arrays.append(array)
        elif plan.kind == "log mean":
            logs[f"mean{member}"] = rows.log_mean(bags) + np.log(bags.sizes)[:, None]
        else:
            sums[f"mean{member}"] = rows.mean(bags) * bags.sizes[:, None]
        if held and plan.kind != "rows":
            arrays.append(rows.each().astype(np.float32))
    return GroupSums(groups, sums, logs), arrays


def _densities(
    densities: NDArray[np.floating], logs: bool, bags: Bags
) -> tuple[NDArray[np.float32], dict[str, Array]]:
    """Return densities relative to each row's largest, and the first sums of a likelihood.

    ``start`` is the sum of posteriors at the uniform prevalence: one step of EM at no cost.
    A row of zeros says nothing; it is held as ones, counted, and subtracted from the sums later.
    """
    rows = np.asarray(densities, dtype=np.float64)
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
    sums = {"start": _add(start, bags), "ignored": _add(empty, bags), "scale": _add(scale, bags)}
    return rows.astype(np.float32), sums


def _add(values: NDArray[Any], bags: Bags) -> Array:
    return np.asarray(np.add.reduceat(values.astype(np.float64), bags.offsets[:-1], axis=0))


#: From the rows of a part of the data to its sums. It travels: a frozen dataclass to call.
Contribution: TypeAlias = Callable[[GroupedRows], GroupSums]
#: Points, group numbers and, for a bootstrap, hashes of row keys.
Points: TypeAlias = tuple[NDArray[Any], NDArray[np.integer], "Hashes | None"]


class Source(Protocol):
    """Parts of the data on any engine."""

    def first(self, plan: Plan, hold: bool) -> GroupSums:
        """Go through the instances once: make rows, keep them if ``hold``, return first sums."""

    def total(self, contribution: Contribution) -> GroupSums:
        """Go through the rows again and return the sum of what the parts contribute."""


@dataclass(eq=False)
class LocalSource:
    """Batches in this process, out of memory where the caller's batches are.

    Attributes
    ----------
    batches : callable that returns the batches, each time from the beginning
    keep : bool
        Whether rows stay in memory between passes; else they are made again in each.
    """

    batches: Callable[[], Iterable[Points]]
    keep: bool = True
    _plan: Plan | None = field(default=None, repr=False)
    _rows: list[GroupedRows] = field(default_factory=list, repr=False)

    def first(self, plan: Plan, hold: bool) -> GroupSums:
        """Go through the batches once."""
        self._plan, parts = plan, []
        self._rows.clear()
        for points, codes, hashes in self.batches():
            sums, rows = make_batch(plan, points, codes, hashes=hashes, hold=hold and self.keep)
            parts.append(sums)
            if rows is not None:
                self._rows.append(rows)
        return merge(parts)

    def total(self, contribution: Contribution) -> GroupSums:
        """Go through the rows again."""
        return merge([contribution(rows) for rows in self._parts()])

    def _parts(self) -> Iterable[GroupedRows]:
        if self.keep:
            yield from self._rows
            return
        assert self._plan is not None, "first() comes first"
        for points, codes, hashes in self.batches():
            rows = make_batch(self._plan, points, codes, hashes=hashes, hold=True)[1]
            assert rows is not None
            yield rows
