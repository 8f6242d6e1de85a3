"""Rows and solutions on a device or on the host; torch is imported only if a device is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from kdey.arrays import on_host
from kdey.bags import Bags
from kdey.matching.base import AnyMatching, Solution
from kdey.posteriors import TrainingPosteriors
from kdey.rows.base import RowMap, Rows, RowSpec


def device_solver(
    row_map: RowMap, matching: AnyMatching, points: Any, device: Any, n_threads: int = 1
) -> Callable[[Bags], Solution]:
    """Compute rows on a device, and return a function from bags to their solutions.

    Parameters
    ----------
    row_map : RowMap
    matching : Matching
        Its problem must have a form for devices (``matching.device_problem(row_map)``).
    points : array or tensor of shape (m, k)
        Posteriors that were checked.
    device : torch.device
    n_threads : int
        Native threads for what remains to be done on the host.

    Returns
    -------
    callable
        Takes bags and returns their solution.
    """
    rows = rows_on(row_map, matching, points, device)
    return partial(match_rows, matching, row_map, rows, n_threads=n_threads)


def rows_on(row_map: RowMap, matching: AnyMatching, points: Any, device: Any) -> Rows:
    """Return the rows of points on a device; parameters as for :func:`device_solver`."""
    from kdey.gpu.bags import device_rows

    return device_rows([row_map], points, device, **_form(matching, row_map))[0]


def match_rows(
    matching: AnyMatching, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1
) -> Solution:
    """Return ``matching.match(row_map, rows, bags)``, computed where the rows are.

    Parameters
    ----------
    matching : Matching
    row_map : RowMap
    rows : Rows
        On a device or on the host.
    bags : Bags
    n_threads : int
        Native threads on the host.

    Returns
    -------
    Solution
    """
    if not rows.on_device:
        return matching.match(row_map, rows, bags, n_threads)
    from kdey.gpu.solve import solve_bags

    return solve_bags(matching, row_map, rows, bags, n_threads)


def rows_of_family_on(
    specs: Sequence[RowSpec],
    matching: AnyMatching,
    training: TrainingPosteriors,
    points: Any,
    n_classes: int,
    device: Any,
    n_threads: int = 1,
) -> Iterator[tuple[RowMap, Rows]]:
    """Yield row maps and rows as :func:`kdey.rows.base.rows_of_family`, on a device.

    If the problem of ``matching`` has no form for devices, the rows are on the host.

    Parameters
    ----------
    specs : sequence of RowSpec
        Of one family.
    matching : Matching
    training : TrainingPosteriors
    points : array or tensor of shape (m, k)
    n_classes : int
    device : torch.device
    n_threads : int
        Native threads on the host.

    Yields
    ------
    row_map : RowMap
    rows : Rows
    """
    from kdey.gpu.bags import device_rows

    if specs[0].family is not None:
        maps = specs[0].fit_together(specs, training, n_classes, n_threads)
        if matching.device_problem(maps[0]) is not None:
            yield from zip(maps, device_rows(maps, points, device), strict=True)
            return
    for spec in specs:
        row_map = spec.fit(training, n_classes, n_threads)
        if matching.device_problem(row_map) is not None:
            yield row_map, rows_on(row_map, matching, points, device)
        else:
            yield row_map, row_map(on_host(points), n_threads)


class BagSample(Protocol):
    """Bags over some points, and the training posteriors that make their templates."""

    @property
    def training(self) -> TrainingPosteriors:
        """The training posteriors."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""

    @property
    def points(self) -> Any:
        """Posteriors of the instances, shape (m, k)."""

    @property
    def bags(self) -> Bags:
        """Bags over the points."""


def match_family_on(
    specs: Sequence[RowSpec],
    matching: AnyMatching,
    samples: Sequence[BagSample],
    device: Any,
    n_threads: int = 1,
) -> list[list[Solution]]:
    """Return the solutions of bags under the specs of one family, on a device.

    The bags of all samples and specs are solved in one batch where that is possible, because a
    device takes hardly longer for thousands of bags than for fifty.

    Parameters
    ----------
    specs, matching, device, n_threads
        As for :func:`rows_of_family_on`.
    samples : sequence of BagSample

    Returns
    -------
    list of lists of Solution
        For each sample, one per spec.
    """
    fitted = [
        list(
            rows_of_family_on(
                *(specs, matching, sample.training, sample.points, sample.n_classes),
                *(device, n_threads),
            )
        )
        for sample in samples
    ]
    flat = [(*pair, s.bags) for s, pairs in zip(samples, fitted, strict=True) for pair in pairs]
    solutions = match_together(matching, flat, n_threads)
    n = len(specs)
    return [solutions[i * n : (i + 1) * n] for i in range(len(samples))]


def match_together(
    matching: AnyMatching, fitted: Sequence[tuple[RowMap, Rows, Bags]], n_threads: int = 1
) -> list[Solution]:
    """Return the solutions of bags under several row maps, in one batch where that is possible.

    Parameters
    ----------
    matching : Matching
    fitted : sequence of row maps, rows and bags
        Rows on a device or on the host.
    n_threads : int
        Native threads on the host.

    Returns
    -------
    list of Solution
        One for each row map.
    """
    maps = [row_map for row_map, _, _ in fitted]
    there = all(rows.on_device for _, rows, _ in fitted)
    if there and not any(row_map.is_composite for row_map in maps):
        problems = {matching.device_problem(row_map) for row_map in maps}
        problem = problems.pop() if len(problems) == 1 else None
        if problem is not None and problem.kind == "mixture":
            from kdey.gpu.solve import solve_mixtures

            return solve_mixtures(problem, [(rows, bags) for _, rows, bags in fitted])
    return [match_rows(matching, row_map, rows, bags, n_threads) for row_map, rows, bags in fitted]


def _form(matching: AnyMatching, row_map: RowMap) -> dict[str, bool]:
    """Return the form in which the problem of a matching needs rows, as options of device_rows."""
    problem = matching.device_problem(row_map)
    return {
        "log_rows": matching.likelihood is None or matching.likelihood.log_rows,
        "averaged": problem is not None and problem.kind == "means",
    }
