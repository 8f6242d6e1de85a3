"""Estimates on a GPU, or on any other device of torch (extra ``gpu``).

The parameter ``device`` of a quantifier names the device (``kdey.validation.device_name``).
This file has what the rest of the library calls; it does not import torch. The others do, and are
imported when a device is used: ``bags`` computes rows there, gathers those of bags, and has the
moments that analytic intervals are made of; ``sums`` has the class log-sums, by the Triton kernel
of ``fused`` or plain torch; ``solve`` solves bags, all by one interior-point method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kdey.bags import Bags
from kdey.matching import AnyMatching, Solution
from kdey.posteriors import TrainingPosteriors
from kdey.rows import RowMap, Rows, RowSpec
from kdey.rows.kernel import KernelMap, family_rows, fit_family
from kdey.rows.monte_carlo import MonteCarloMap
from kdey.validation import on_host

__all__ = [
    "family_rows_on",
    "match_family_on",
    "match_together",
    "n_pairs",
    "rows_on",
]


def rows_on(row_map: RowMap, matching: AnyMatching, points: Any, device: Any) -> Rows:
    """Return the rows of points under one map on a device, as :func:`family_rows_on` does."""
    return family_rows_on([row_map], matching, points, device)[0]


def family_rows_on(
    maps: Sequence[RowMap], matching: AnyMatching, points: Any, device: Any, n_threads: int = 1
) -> list[Rows]:
    """Return rows as ``family_rows``, on a device if the problem of ``matching`` has a form for it.

    Parameters
    ----------
    maps : sequence of RowMap
        Fitted maps of one family.
    matching : Matching
    points : array or tensor of shape (m, k)
        Posteriors that were checked.
    device : torch.device
    n_threads : int
        Native threads on the host.
    """
    from kdey.gpu.device_rows import device_rows

    form, likelihood = matching.device_form(maps[0]), matching.likelihood
    if form is None:
        return family_rows(maps, on_host(points), n_threads)
    log_rows = likelihood is None or likelihood.log_rows
    return device_rows(maps, points, device, log_rows=log_rows, averaged=form == "means")


def match_family_on(
    specs: Sequence[RowSpec],
    matching: AnyMatching,
    samples: Sequence[tuple[TrainingPosteriors, Any, int, Bags]],
    device: Any,
    n_threads: int = 1,
) -> list[list[Solution]]:
    """Return the solutions of bags under the specs of one family, on a device.

    The bags of all samples and specs are solved in one batch where that is possible, because a
    device takes hardly longer for thousands of bags than for fifty.

    Parameters
    ----------
    specs, matching, device, n_threads
        As for :func:`family_rows_on`.
    samples : sequence of (TrainingPosteriors, points, n_classes, Bags)
        Bags over some points, and the training posteriors that make their templates.

    Returns
    -------
    list of lists of Solution
        For each sample, one per spec.
    """
    fitted: list[tuple[RowMap, Rows, Bags]] = []
    for training, points, n_classes, bags in samples:
        maps = fit_family(specs, training, n_classes, n_threads)
        rows = family_rows_on(maps, matching, points, device, n_threads)
        fitted += [(*pair, bags) for pair in zip(maps, rows, strict=True)]
    solutions = match_together(matching, fitted, n_threads)
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
    on_device = [rows.on_device for _, rows, _ in fitted]
    if not any(on_device):
        return [matching.match(*each, n_threads) for each in fitted]
    from kdey.gpu.solve import solve_bags, solve_mixtures

    likelihood, shares = matching.likelihood, {row_map.pseudo_share for row_map in maps}
    apart = any(row_map.is_composite for row_map in maps) or len(shares) > 1
    if all(on_device) and not apart and likelihood is not None:
        return solve_mixtures(likelihood, [(rows, bags) for _, rows, bags in fitted], shares.pop())
    return [
        solve_bags(matching, *each, n_threads) if there else matching.match(*each, n_threads)
        for each, there in zip(fitted, on_device, strict=True)
    ]


#: Number of kernel values that cost about as much as one row of a method without kernels.
_PAIRS_PER_ROW = 200


def n_pairs(row_map: RowMap, n_points: int) -> float:
    """Return about how much the rows of ``n_points`` instances cost, in kernel values."""
    per_point = 0
    for part in row_map.members:
        if isinstance(part, MonteCarloMap):
            per_point += len(part.points)
        elif isinstance(part, KernelMap):
            per_point += len(part.references.points)
        else:
            per_point += _PAIRS_PER_ROW
    return float(n_points) * per_point
