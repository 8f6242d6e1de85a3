"""Solutions of bags on a device, for matchings whose ``device_problem`` is not None."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from kdey._parallel import as_tensor
from kdey.bags import Array, Bags, offsets_of
from kdey.gpu.bags import DeviceBags, LogRows, PointRows, kernel_means
from kdey.gpu.interior import (
    TENSOR_GENERATORS,
    BatchSolution,
    CauchySchwarzLoss,
    DivergenceLoss,
    MixtureLoss,
    QuadraticLoss,
    solve_interior,
)
from kdey.gpu.sums import in_tiles
from kdey.matching.base import (
    AnyMatching,
    DeviceProblem,
    Solution,
    blank_solution,
    concatenate,
    warn_stalled,
    warn_uninformative,
)
from kdey.matching.divergence import NEGLIGIBLE
from kdey.matching.sqp import TOLERANCE
from kdey.matching.squares import (
    CauchySchwarz,
    QuadraticMatch,
    solve_cauchy_schwarz as host_cauchy_schwarz,
    solve_quadratic as host_quadratic,
)
from kdey.rows.base import RowMap, Rows
from kdey.rows.monte_carlo import MonteCarloMap

#: Largest number of steps of the interior-point method, which usually needs about a dozen.
_MAX_ITER = 100
#: Numbers of bag profiles (bags x points) in memory at a time.
_PROFILES = {"cuda": 1 << 27, "cpu": 1 << 22}
#: Number of bags from which a device solves quadratic programs of k classes. For fewer, the host
#: is done before a device has launched its steps.
_MANY_BAGS = 1000
#: Gap to which a divergence is solved, the same as on the host.
_TOL = 1e-8


def solve_bags(
    matching: AnyMatching, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1
) -> Solution:
    """Return the solution of ``matching.match``, computed on the device of ``rows``.

    Parameters
    ----------
    matching : Matching
        Its ``device_problem(row_map)`` must not be None.
    row_map : RowMap
    rows : Rows
        On a device.
    bags : Bags
    n_threads : int
        Native threads for what remains to be done on the host.

    Returns
    -------
    Solution
    """
    if row_map.is_composite:
        parts = [
            solve_bags(matching.member, part_map, part, bags, n_threads)
            for part_map, part in zip(row_map.members, rows.members, strict=True)
        ]
        return matching.combine(parts, row_map.shares)
    problem = matching.device_problem(row_map)
    assert problem is not None, "the matching must have a problem for devices"
    if problem.kind == "means":
        return matching.match(row_map, rows, bags, n_threads)
    if problem.kind == "divergence":
        return _match_divergence(problem.divergence, row_map, cast(PointRows, rows), bags)
    logs = cast(LogRows, rows)
    if problem.kind == "mixture":
        steps = problem.max_iter or _MAX_ITER
        return maximise_likelihood(logs, bags, problem.tol, steps, problem.pseudo_share)
    targets = _log_means(logs, bags)
    place = logs.logs.device if len(bags) >= _MANY_BAGS else None
    if problem.kind == "cauchy-schwarz":
        inner = CauchySchwarz(row_map.templates, targets)
        if place is None:
            return host_cauchy_schwarz(inner, n_threads=n_threads)
        return solve_cauchy_schwarz(inner, place)
    match = QuadraticMatch(row_map.templates, np.exp(targets))
    if place is None:
        return host_quadratic(match, n_threads=n_threads)
    return solve_quadratic(match, place)


def solve_mixtures(problem: DeviceProblem, parts: Sequence[tuple[Rows, Bags]]) -> list[Solution]:
    """Return the maximum likelihood prevalences of bags over several rows, in one batch.

    Parameters
    ----------
    problem : DeviceProblem
        Of kind "mixture".
    parts : sequence of pairs of LogRows and Bags
        Rows of different numbers of classes, or more than the memory can hold twice, are solved
        one part after the other.

    Returns
    -------
    list of Solution
        One per part.
    """
    logs = [cast(LogRows, rows).logs for rows, _ in parts]
    bags = [held for _, held in parts]
    steps = problem.max_iter or _MAX_ITER
    options = (problem.tol, steps, problem.pseudo_share)
    rows = _joined(logs)
    if rows is None:
        return [
            maximise_likelihood(LogRows(part), held, *options)
            for part, held in zip(logs, bags, strict=True)
        ]
    pools = offsets_of([len(part) for part in logs])[:-1].tolist()
    solution = _maximise_likelihood(rows, DeviceBags.over(bags, pools, rows.device), *options)
    cuts = offsets_of([len(held) for held in bags])
    return [
        Solution(
            *(solution.prevalence[a:b], solution.objective[a:b], solution.gap[a:b]),
            *(solution.n_iter[a:b], solution.converged[a:b]),
        )
        for a, b in pairwise(cuts.tolist())
    ]


def _joined(parts: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Return rows one after the other; None if they do not fit together or into the memory."""
    if len({part.shape[1] for part in parts}) > 1:
        return None
    # Of different precision if some bandwidths are too narrow for float32.
    double = any(part.dtype == torch.float64 for part in parts)
    try:
        return torch.cat([part.double() if double else part for part in parts])
    except torch.OutOfMemoryError:
        return None


def maximise_likelihood(
    rows: LogRows, bags: Bags, tol: float, max_iter: int, pseudo_share: float = 0.0
) -> Solution:
    """Return the solution of :func:`kdey.matching.solve_mixture`, in runs of bags that fit memory.

    Parameters
    ----------
    rows : LogRows
    bags : Bags
    tol : float
        Gap to which each bag is solved.
    max_iter : int
    pseudo_share : float
        Weight of one pseudo-instance per class, relative to that of the bag.

    Returns
    -------
    Solution
    """
    device_bags = DeviceBags.of(bags, rows.logs.device)
    return _maximise_likelihood(rows.logs, device_bags, tol, max_iter, pseudo_share)


def _maximise_likelihood(
    logs: torch.Tensor, device_bags: DeviceBags, tol: float, max_iter: int, pseudo_share: float
) -> Solution:
    """Return the solution of bags whose positions refer to the rows ``logs``, shape (m, k)."""
    n_bags = len(device_bags.sizes)
    solution = blank_solution(n_bags, logs.shape[1])
    informative = np.zeros(n_bags, dtype=np.bool_)
    for run in device_bags.runs(logs.shape[1]):

        def work(start: int, stop: int, run: NDArray[np.int64] = run) -> None:
            selected = run[start:stop]
            loss, offset, known = _mixture(logs, *device_bags.gather(selected), pseudo_share)
            solved = solve_interior(loss, tol, max_iter)
            values = loss.value(solved.x) - offset
            informative[selected] = known.cpu().numpy()
            _store(solution, selected, solved, values)

        in_tiles(work, len(run), len(run))
    return _mark_converged(solution, informative, tol, "every row is zero")


def _mixture(
    logs: torch.Tensor, positions: torch.Tensor, weights: torch.Tensor, pseudo_share: float
) -> tuple[MixtureLoss, torch.Tensor, torch.Tensor]:
    """Return the loss of bags, their mean log scale (B,), and whether they are informative (B,)."""
    rows = logs[positions].double()
    scale = rows.amax(dim=2)
    weights = torch.where(torch.isneginf(scale), 0.0, weights)
    ignored = weights == 0
    rows = torch.where(ignored[:, :, None], 0.0, rows - scale[:, :, None]).exp_()
    mass = weights.sum(dim=1, keepdim=True)
    shares = weights / torch.where(mass > 0, mass, 1.0)
    offset = (shares * torch.where(ignored, 0.0, scale)).sum(dim=1)
    if pseudo_share > 0:
        n_bags, _, k = rows.shape
        total = 1.0 + k * pseudo_share
        pseudo = torch.eye(k, dtype=rows.dtype, device=rows.device).expand(n_bags, k, k)
        rows = torch.cat([rows, pseudo], dim=1)
        added = shares.new_full((n_bags, k), pseudo_share / total)
        shares, offset = torch.cat([shares / total, added], dim=1), offset / total
    return MixtureLoss(rows, shares), offset, mass[:, 0] > 0


def _log_means(rows: LogRows, bags: Bags) -> Array:
    """Return the logarithm of each bag's mean row, shape (n_bags, k), without underflow."""
    logs = rows.logs
    device_bags = DeviceBags.of(bags, logs.device)
    out = np.empty((len(bags), logs.shape[1]))
    for run in device_bags.runs(logs.shape[1]):

        def work(start: int, stop: int, run: NDArray[np.int64] = run) -> None:
            positions, weights = device_bags.gather(run[start:stop])
            shares = weights / weights.sum(dim=1, keepdim=True)
            sums = torch.logsumexp(logs[positions].double() + shares.log()[:, :, None], dim=1)
            out[run[start:stop]] = sums.cpu().numpy()

        in_tiles(work, len(run), len(run))
    return out


def solve_cauchy_schwarz(problem: CauchySchwarz, device: torch.device) -> Solution:
    """Return the solution of :func:`kdey.matching.solve_cauchy_schwarz`, by a device.

    The gap is computed by the problem on the host.
    """
    informative = problem.is_informative
    a = np.where(informative[:, None], problem.scaled_targets, 1.0)
    gram = as_tensor(problem.gram / np.diag(problem.gram).max(), device)
    solved = solve_interior(
        CauchySchwarzLoss(gram, as_tensor(a, device)), 0.1 * TOLERANCE, _MAX_ITER
    )
    x = solved.x.cpu().numpy()
    x[~informative] = 1.0
    if not informative.all():
        warn_uninformative(int((~informative).sum()), "every class inner product is zero")
    return _certified(problem, x, solved, np.full(len(x), TOLERANCE))


def solve_quadratic(problem: QuadraticMatch, device: torch.device) -> Solution:
    """Return the solution of :func:`kdey.matching.solve_quadratic`, by a device.

    The gap is computed by the problem on the host.
    """
    norm = np.diag(problem.gram).max()
    loss = QuadraticLoss(
        as_tensor(problem.gram / norm, device), as_tensor(problem.targets / norm, device)
    )
    solved = solve_interior(loss, 0.1 * TOLERANCE, _MAX_ITER)
    size = np.abs(problem.gram).max() + np.abs(problem.targets).max(axis=1)
    return _certified(problem, solved.x.cpu().numpy(), solved, TOLERANCE * size)


def _certified(
    problem: CauchySchwarz | QuadraticMatch, x: Array, solved: BatchSolution, tol: Array
) -> Solution:
    """Return the solution with objective and gap of the problem on the host."""
    x = x / x.sum(axis=1, keepdims=True)
    gap = problem.gap(x)
    with np.errstate(invalid="ignore"):
        converged = gap <= tol
    return Solution(x, problem.objective(x), gap, solved.n_iter.cpu().numpy(), converged)


def _match_divergence(divergence: str, row_map: RowMap, rows: PointRows, bags: Bags) -> Solution:
    """Return the solution of a divergence at the points that the row map drew."""
    assert isinstance(row_map, MonteCarloMap), "a divergence on a device needs drawn points"
    bandwidth = row_map.references.bandwidth
    x = rows.coordinates
    points = as_tensor(row_map.points, x.device).double()
    log_scale = as_tensor(row_map.log_reference, x.device)
    templates = as_tensor(row_map.templates, x.device)
    step = max(1, _PROFILES.get(x.device.type, 1 << 22) // len(points))
    parts: list[Solution] = []

    def work(start: int, stop: int) -> None:
        targets = kernel_means(points, log_scale, x, bags[start:stop], bandwidth)
        parts.append(_solve_divergence(divergence, templates, targets, row_map.n_terms))

    in_tiles(work, len(bags), step)
    solution = concatenate(parts)
    known = ~np.isnan(solution.gap)
    return _mark_converged(solution, known, _TOL, "the bag lies far from every reference point")


def _solve_divergence(
    divergence: str, templates: torch.Tensor, targets: torch.Tensor, n_terms: int
) -> Solution:
    targets = torch.where(targets < NEGLIGIBLE, 0.0, targets)
    shares = templates.new_full((len(templates),), 1.0 / n_terms)
    loss = DivergenceLoss(templates, targets, shares, TENSOR_GENERATORS[divergence])
    solved = solve_interior(loss, _TOL, _MAX_ITER)
    solution = blank_solution(len(targets), templates.shape[1])
    _store(solution, np.arange(len(targets)), solved, loss.value(solved.x))
    solution.gap[~targets.any(dim=1).cpu().numpy()] = np.nan
    return solution


def _store(
    solution: Solution, selected: NDArray[np.int64], solved: BatchSolution, values: torch.Tensor
) -> None:
    """Write the results of some bags to the solution of all."""
    solution.prevalence[selected] = solved.x.cpu().numpy()
    solution.objective[selected] = values.cpu().numpy()
    solution.gap[selected] = solved.gap.cpu().numpy()
    solution.n_iter[selected] = solved.n_iter.cpu().numpy()


def _mark_converged(
    solution: Solution, informative: NDArray[np.bool_], tol: float, why: str
) -> Solution:
    """Set ``converged``, and give uninformative bags the uniform prevalence with a warning."""
    uninformative = ~informative
    if uninformative.any():
        warn_uninformative(int(uninformative.sum()), why)
        solution.prevalence[uninformative] = 1.0 / solution.prevalence.shape[1]
        solution.objective[uninformative] = solution.gap[uninformative] = np.nan
        solution.n_iter[uninformative] = 0
    np.less_equal(solution.gap, tol, out=solution.converged)
    return warn_stalled(solution, informative, tol)
