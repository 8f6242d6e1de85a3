r"""Solutions of bags on a device, for matchings that have a ``device_form``.

A :class:`Loss` has the value, derivatives and gap that the solver needs: the problems of
:mod:`kdey.matching`, as tensors in float64. ``x`` always has shape (B, k): row b belongs to bag b.
:func:`solve_interior` is an interior-point method for all of them at once:

.. math:: \min_x f(x) \quad \text{over } x \ge 0, \text{ or over the simplex}

The active-set methods of the host decide for each bag which class leaves or enters. Here all bags
make the same steps, so that every operation is one batched product or factorisation. With slacks z
of the bounds, whose mean product mu with x is driven to zero, a step solves

.. math:: (H + \mathrm{diag}(z / x))\, \Delta x + \nu 1 = \mu / x - \nabla f

(nu only over the simplex; Nocedal and Wright, *Numerical Optimization*, chapter 19), damped by a
line search on the barrier function. At the end, classes whose slack dominates are set to zero and
the others make one Newton step (``_polish``), which gives the exact zeros of an active set. This
result is kept if its certificate is as good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray

from kdey.bags import Bags, Indices, offsets_of
from kdey.gpu.device_rows import DeviceBags, DeviceRows, bag_log_means, kernel_means
from kdey.gpu.sums import in_tiles
from kdey.matching import (
    AnyMatching,
    Composite,
    Solution,
    blank_solution,
    concatenate,
    warn_stalled,
    warn_uninformative,
)
from kdey.matching.divergence import NEGLIGIBLE, MatchDivergence
from kdey.matching.likelihood import MaximiseLikelihood
from kdey.matching.sqp import TOLERANCE, normalised
from kdey.matching.squares import (
    CauchySchwarz,
    QuadraticMatch,
    certify,
    solve_cauchy_schwarz as host_cauchy_schwarz,
    solve_quadratic as host_quadratic,
)
from kdey.rows import RowMap, Rows
from kdey.rows.monte_carlo import MonteCarloMap
from kdey.validation import as_tensor

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
        Its ``device_form(row_map)`` must not be None.
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
        assert isinstance(matching, Composite), "composite rows have a composite matching"
        parts = [
            solve_bags(matching.inner, part_map, part, bags, n_threads)
            for part_map, part in zip(row_map.members, rows.members, strict=True)
        ]
        return matching.combine(parts, row_map)
    form = matching.device_form(row_map)
    if form == "means":
        return matching.match(row_map, rows, bags, n_threads)
    values = cast(DeviceRows, rows).values
    if form == "divergence":
        return _match_divergence(cast(MatchDivergence, matching), row_map, values, bags)
    if form == "mixture":
        likelihood, place = cast(MaximiseLikelihood, matching), values.device
        steps = likelihood.max_iter or _MAX_ITER
        options = (likelihood.tol, steps, row_map.pseudo_share)
        return maximise_likelihood(values, DeviceBags.of(bags, place), *options)
    targets, many = bag_log_means(values, bags), len(bags) >= _MANY_BAGS
    if form == "cauchy-schwarz":
        inner = CauchySchwarz(row_map.templates, targets)
        if many:
            return solve_cauchy_schwarz(inner, values.device)
        return host_cauchy_schwarz(inner, n_threads=n_threads)
    assert form == "quadratic", "the matching must have a form for devices"
    match = QuadraticMatch(row_map.templates, np.exp(targets))
    if many:
        return solve_quadratic(match, values.device)
    return host_quadratic(match, n_threads=n_threads)


def solve_mixtures(
    likelihood: MaximiseLikelihood, parts: Sequence[tuple[Rows, Bags]], pseudo_share: float = 0.0
) -> list[Solution]:
    """Return the maximum likelihood prevalences of bags over several rows, in one batch.

    Parameters
    ----------
    likelihood : MaximiseLikelihood
    parts : sequence of pairs of DeviceRows and Bags
        Rows of different numbers of classes, or more than the memory can hold twice, are solved
        one part after the other.
    pseudo_share : float
        That of all rows.

    Returns
    -------
    list of Solution
        One per part.
    """
    logs = [cast(DeviceRows, rows).values for rows, _ in parts]
    bags = [held for _, held in parts]
    options = (likelihood.tol, likelihood.max_iter or _MAX_ITER, pseudo_share)
    rows = _joined(logs)
    if rows is None:
        return [
            maximise_likelihood(part, DeviceBags.of(held, part.device), *options)
            for part, held in zip(logs, bags, strict=True)
        ]
    pools = offsets_of([len(part) for part in logs])[:-1].tolist()
    solution = maximise_likelihood(rows, DeviceBags.over(bags, pools, rows.device), *options)
    cuts = offsets_of([len(held) for held in bags]).tolist()
    return [solution[a:b] for a, b in pairwise(cuts)]


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
    logs: torch.Tensor,
    device_bags: DeviceBags,
    tol: float,
    max_iter: int,
    pseudo_share: float = 0.0,
) -> Solution:
    """Return the solution of :func:`kdey.matching.likelihood.solve_mixture`, in parts of the bags.

    Parameters
    ----------
    logs : tensor of shape (m, k)
        Logarithms of the rows.
    device_bags : DeviceBags
        Their positions refer to the rows.
    tol : float
        Gap to which each bag is solved.
    max_iter : int
    pseudo_share : float
        Weight of one pseudo-instance per class, relative to that of the bag.

    Returns
    -------
    Solution
    """
    n_bags = len(device_bags.sizes)
    solution = blank_solution(n_bags, logs.shape[1])
    informative = np.zeros(n_bags, dtype=np.bool_)

    def work(selected: Indices, positions: torch.Tensor, weights: torch.Tensor) -> None:
        loss, offset, known = _mixture(logs, positions, weights, pseudo_share)
        x, gap, n_iter = solve_interior(loss, tol, max_iter)
        informative[selected] = known.cpu().numpy()
        _store(solution, selected, x, loss.value(x) - offset, gap, n_iter)

    device_bags.for_each(logs.shape[1], work)
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


def solve_cauchy_schwarz(problem: CauchySchwarz, device: torch.device) -> Solution:
    """Return the solution of :func:`kdey.matching.squares.solve_cauchy_schwarz`, by a device.

    The gap is computed by the problem on the host.
    """
    informative = problem.is_informative
    a = np.where(informative[:, None], problem.scaled_targets, 1.0)
    gram = as_tensor(problem.gram / np.diag(problem.gram).max(), device)
    loss = CauchySchwarzLoss(gram, as_tensor(a, device))
    solved, _, n_iter = solve_interior(loss, 0.1 * TOLERANCE, _MAX_ITER)
    x = solved.cpu().numpy()
    x[~informative] = 1.0
    if not informative.all():
        warn_uninformative(int((~informative).sum()), "every class inner product is zero")
    steps = n_iter.cpu().numpy()
    return certify(problem, normalised(x), steps, np.full(len(x), TOLERANCE))


def solve_quadratic(problem: QuadraticMatch, device: torch.device) -> Solution:
    """Return the solution of :func:`kdey.matching.squares.solve_quadratic`, by a device.

    The gap is computed by the problem on the host.
    """
    norm = np.diag(problem.gram).max()
    loss = QuadraticLoss(
        as_tensor(problem.gram / norm, device), as_tensor(problem.targets / norm, device)
    )
    x, _, n_iter = solve_interior(loss, 0.1 * TOLERANCE, _MAX_ITER)
    size = np.abs(problem.gram).max() + np.abs(problem.targets).max(axis=1)
    return certify(problem, normalised(x.cpu().numpy()), n_iter.cpu().numpy(), TOLERANCE * size)


def _match_divergence(
    matching: MatchDivergence, row_map: RowMap, x: torch.Tensor, bags: Bags
) -> Solution:
    """Return the solution of a divergence at the points that the row map drew."""
    assert isinstance(row_map, MonteCarloMap), "a divergence on a device needs drawn points"
    bandwidth = row_map.references.bandwidth
    points = as_tensor(row_map.points, x.device).double()
    log_scale = as_tensor(row_map.log_reference, x.device)
    templates = as_tensor(row_map.templates, x.device)
    step = max(1, _PROFILES.get(x.device.type, 1 << 22) // len(points))
    parts: list[Solution] = []

    def work(start: int, stop: int) -> None:
        targets = kernel_means(points, log_scale, x, bags[start:stop], bandwidth)
        parts.append(_solve_divergence(matching.divergence, templates, targets, row_map.n_terms))

    in_tiles(work, len(bags), step)
    solution = concatenate(parts)
    known = ~np.isnan(solution.gap)
    return _mark_converged(solution, known, _TOL, "the bag lies far from every reference point")


def _solve_divergence(
    divergence: str, templates: torch.Tensor, targets: torch.Tensor, n_terms: int
) -> Solution:
    targets = torch.where(targets < NEGLIGIBLE, 0.0, targets)
    loss = DivergenceLoss(templates, targets, n_terms, divergence)
    x, gap, n_iter = solve_interior(loss, _TOL, _MAX_ITER)
    solution = blank_solution(len(targets), templates.shape[1])
    _store(solution, np.arange(len(targets)), x, loss.value(x), gap, n_iter)
    solution.gap[~targets.any(dim=1).cpu().numpy()] = np.nan
    return solution


def _store(solution: Solution, selected: Indices, *results: torch.Tensor) -> None:
    """Write prevalence, objective, gap and iterations of some bags to the solution of all."""
    whole = (solution.prevalence, solution.objective, solution.gap, solution.n_iter)
    for target, values in zip(whole, results, strict=True):
        target[selected] = values.cpu().numpy()


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


Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

#: Numbers of the table of outer products in memory at a time.
_OUTER = 1 << 26


class Loss:
    """Base: a convex objective for each bag, over the simplex or over x >= 0."""

    #: Whether x must sum to one.
    simplex: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        """Number of bags B and of classes k."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        raise NotImplementedError

    def start(self) -> torch.Tensor:
        """Return a point inside the feasible set, shape (B, k): the uniform prevalence."""
        n, k = self.shape
        return torch.full((n, k), 1.0 / k, dtype=torch.float64, device=self.device)

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """Return the value to minimise, shape (B,)."""
        raise NotImplementedError

    def derivatives(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return gradient (B, k) and Hessian (B, k, k)."""
        raise NotImplementedError

    def gap(self, x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Return the certificate at ``x``: a bound on the distance to the optimum, (B,)."""
        return frank_wolfe_gap(x, gradient)

    def select(self, positions: torch.Tensor) -> Self:
        """Return the loss of some of the bags."""
        raise NotImplementedError


def frank_wolfe_gap(x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Return x . g - min_i g_i, as :func:`kdey.matching.frank_wolfe_gap`."""
    spread = gradient - gradient.amin(dim=1, keepdim=True)
    return (x * spread).sum(dim=1)


@dataclass(frozen=True, eq=False)
class MixtureLoss(Loss):
    r"""Mean negative log-likelihood, :math:`-\sum_j w_j \log(D_j \cdot x)`.

    Attributes
    ----------
    rows : tensor of shape (B, n, k)
        D, each row relative to its largest entry; any positive numbers if the weight is zero.
    weights : tensor of shape (B, n)
        Sum to one in each bag; zero for padding.
    """

    rows: torch.Tensor
    weights: torch.Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Number of bags and of classes."""
        return self.rows.shape[0], self.rows.shape[2]

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.rows.device

    def _mixture(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bmm(self.rows, x[:, :, None])[:, :, 0]

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """Return the objective for rows that are relative to their largest entry."""
        return -(self.weights * self._mixture(x).log()).sum(dim=1)

    def derivatives(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return -R'w and R'diag(w)R, where R are the rows divided by their mixture."""
        root = self.weights.sqrt()
        scaled = self.rows * (root / self._mixture(x))[:, :, None]
        gradient = -torch.bmm(root[:, None, :], scaled)[:, 0]
        return gradient, torch.bmm(scaled.transpose(1, 2), scaled)

    def gap(self, x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Return max_i g_i - 1 with g = -gradient, as the problem on the host does."""
        return (-gradient).amax(dim=1) - 1.0

    def select(self, positions: torch.Tensor) -> MixtureLoss:
        """Return the loss of some of the bags."""
        return MixtureLoss(self.rows[positions], self.weights[positions])


@dataclass(frozen=True, eq=False)
class QuadraticLoss(Loss):
    r""":math:`\tfrac12 x'Bx - t \cdot x` over the simplex (KDEy-L2, least squares).

    Attributes
    ----------
    gram : tensor of shape (k, k)
    targets : tensor of shape (B, k)
    """

    gram: torch.Tensor
    targets: torch.Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Number of bags and of classes."""
        return len(self.targets), len(self.gram)

    @property
    def device(self) -> torch.device:
        """Where the targets are."""
        return self.targets.device

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """Return the objective."""
        return (x * (x @ self.gram / 2 - self.targets)).sum(dim=1)

    def derivatives(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return Bx - t, and B for every bag."""
        return x @ self.gram - self.targets, self.gram.expand(len(x), -1, -1)

    def select(self, positions: torch.Tensor) -> Self:
        """Return the loss of some of the bags."""
        return type(self)(self.gram, self.targets[positions])


class CauchySchwarzLoss(QuadraticLoss):
    r"""The quadratic loss over x >= 0: the Cauchy-Schwarz problem, whose optimum is x / sum(x).

    ``gap`` is that of :class:`kdey.matching.squares.CauchySchwarz`, a bound on the divergence.
    """

    simplex: ClassVar[bool] = False

    def start(self) -> torch.Tensor:
        """Return the best multiple of the uniform vector."""
        x = super().start()
        slope = (x * self.targets).sum(dim=1)
        curve = (x * (x @ self.gram)).sum(dim=1)
        return x * (slope / curve)[:, None]

    def gap(self, x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Return log max_i (a_i / (Bx)_i) (x'Bx) / (a . x)."""
        smooth = gradient + self.targets
        ratio = torch.where(self.targets > 0, self.targets / smooth, 0.0).amax(dim=1)
        return (ratio * (x * smooth).sum(dim=1) / (x * self.targets).sum(dim=1)).log()


@dataclass(frozen=True, eq=False)
class DivergenceLoss(Loss):
    r""":math:`\sum_t \varphi(M_t \cdot x, q_t) / r` over the simplex (KDEy-HD).

    Attributes
    ----------
    templates : tensor of shape (t, k)
        M, without rows of zeros, which only add a constant.
    targets : tensor of shape (B, t)
    n_terms : int
        r.
    generator : str
        A name in :data:`TENSOR_GENERATORS`.
    """

    templates: torch.Tensor
    targets: torch.Tensor
    n_terms: int
    generator: str

    @property
    def shape(self) -> tuple[int, int]:
        """Number of bags and of classes."""
        return len(self.targets), self.templates.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the targets are."""
        return self.targets.device

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """Return the objective, without the constant of rows of zeros."""
        value, _, _ = TENSOR_GENERATORS[self.generator]
        return value(x @ self.templates.T, self.targets).sum(dim=1) / self.n_terms

    def derivatives(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return M' (phi'/r) and M' diag(phi''/r) M."""
        p = x @ self.templates.T
        _, first, second = TENSOR_GENERATORS[self.generator]
        gradient = first(p, self.targets) @ self.templates / self.n_terms
        return gradient, self._hessian(second(p, self.targets) / self.n_terms)

    def _hessian(self, curves: torch.Tensor) -> torch.Tensor:
        """Return M' diag(curves) M for every bag, shape (B, k, k)."""
        # One product with the table of outer products M_t M_t' computes all bags.
        t, k = self.templates.shape
        hessian = curves.new_zeros((len(curves), k * k))
        step = max(1, _OUTER // (k * k))
        for start in range(0, t, step):
            part = self.templates[start : start + step]
            outer = (part[:, :, None] * part[:, None, :]).reshape(len(part), -1)
            hessian.addmm_(curves[:, start : start + step], outer)
        return hessian.reshape(-1, k, k)

    def select(self, positions: torch.Tensor) -> DivergenceLoss:
        """Return the loss of some of the bags."""
        return replace(self, targets=self.targets[positions])


def _topsoe(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    both = p + q
    return torch.xlogy(p, 2 * p / both) + torch.xlogy(q, 2 * q / both)


def _topsoe_first(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return torch.log(2 * p / (p + q))


def _topsoe_second(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return q / (p * (p + q))


#: phi(p, q) and its first two derivatives by p, for p > 0 and q >= 0 of equal shape, by the names
#: of :data:`kdey.matching.divergence.GENERATORS`. ``reverse-kl`` is missing: it excludes classes
#: where a bag has no mass, which only the solver of the host can handle.
TENSOR_GENERATORS: dict[str, tuple[Function, Function, Function]] = {
    "hellinger": (
        lambda p, q: (p.sqrt() - q.sqrt()) ** 2,
        lambda p, q: 1.0 - (q / p).sqrt(),
        lambda p, q: 0.5 * q.sqrt() / (p * p.sqrt()),
    ),
    "topsoe": (_topsoe, _topsoe_first, _topsoe_second),
    "jensen-shannon": (
        lambda p, q: 0.5 * _topsoe(p, q),
        lambda p, q: 0.5 * _topsoe_first(p, q),
        lambda p, q: 0.5 * _topsoe_second(p, q),
    ),
    "kl": (
        lambda p, q: torch.xlogy(q, q / p) - q + p,
        lambda p, q: 1.0 - q / p,
        lambda p, q: q / (p * p),
    ),
    "chi2": (
        lambda p, q: (p - q) ** 2 / (p + q),
        lambda p, q: 1.0 - 4.0 * (q / (p + q)) ** 2,
        lambda p, q: 8.0 * q * q / (p + q) ** 3,
    ),
}

#: Largest step, as a share of the way to the border.
_MAX_STEP = 0.995

#: Added to the diagonal, relative to it, so that duplicated classes do not make systems singular.
_RIDGE = 1e-13

#: Number of halvings of a step, after which it is accepted as it is.
_HALVINGS = 12

#: The remaining barrier term must be smaller than the tolerance of the gap by this factor.
_MARGIN = 1e-2


def solve_interior(
    loss: Loss, tol: torch.Tensor | float, max_iter: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Minimise the loss of every bag.

    Parameters
    ----------
    loss : Loss
    tol : float or tensor of shape (B,)
        Gap to which each bag is solved.
    max_iter : int

    Returns
    -------
    x : tensor of shape (B, k)
        The minimisers.
    gap : tensor of shape (B,)
        Their certificates.
    n_iter : int64 tensor of shape (B,)
    """
    x = loss.start()
    n = len(x)
    gap = torch.full((n,), torch.inf, dtype=torch.float64, device=x.device)
    n_iter = torch.zeros(n, dtype=torch.int64, device=x.device)
    limit = torch.as_tensor(tol, dtype=torch.float64, device=x.device).expand(n)
    active = torch.arange(n, device=x.device)
    state = _InteriorState.initial(loss, x, limit)
    for iteration in range(1, max_iter + 1):
        state.step()
        done = state.is_converged()
        if iteration == max_iter:
            done = torch.ones_like(done)
        # Removing bags copies the rows of the others, which pays once half of them are done.
        if not bool(done.all()) and 2 * int(done.sum()) < len(done):
            continue
        finished = torch.nonzero(done)[:, 0]
        bags = active[finished]
        x[bags], rest_gap = _polish(state.select(finished))
        gap[bags], n_iter[bags] = rest_gap.clamp(min=0.0), iteration
        if len(finished) == len(done):
            break
        rest = torch.nonzero(~done)[:, 0]
        state, active = state.select(rest), active[rest]
    return x, gap, n_iter


class _InteriorState:
    """The iterates of the bags that have not converged."""

    def __init__(self, loss: Loss, x: torch.Tensor, z: torch.Tensor, limit: torch.Tensor) -> None:
        self.loss, self.x, self.z, self.limit = loss, x, z, limit
        self.gradient, self.hessian = loss.derivatives(x)

    @classmethod
    def initial(cls, loss: Loss, x: torch.Tensor, limit: torch.Tensor) -> _InteriorState:
        """Return the state at a starting point, with slacks of a suitable size."""
        gradient, _ = loss.derivatives(x)
        spread = gradient.amax(dim=1) - gradient.amin(dim=1)
        size = (x.sum(dim=1) * gradient.abs().amax(dim=1) * 1e-3).clamp(min=1e-12)
        mu = torch.maximum(0.1 * spread * x.mean(dim=1), size / x.shape[1])
        return cls(loss, x, mu[:, None] / x, limit)

    def select(self, positions: torch.Tensor) -> _InteriorState:
        """Return the state of some of the bags, without computing derivatives."""
        state = object.__new__(_InteriorState)
        state.loss, state.limit = self.loss.select(positions), self.limit[positions]
        state.x, state.z = self.x[positions], self.z[positions]
        state.gradient, state.hessian = self.gradient[positions], self.hessian[positions]
        return state

    def is_converged(self) -> torch.Tensor:
        """Return whether both certificate and barrier term are small enough, shape (B,)."""
        gap = self.loss.gap(self.x, self.gradient)
        rest = (self.x * self.z).sum(dim=1) / (1.0 if self.loss.simplex else self._size())
        return (gap <= self.limit) & (rest <= torch.clamp(_MARGIN * self.limit, min=1e-15))

    def _size(self) -> torch.Tensor:
        """Return the size of the objective (B,), relative to which a barrier term is small."""
        return (self.x * (self.gradient - self.z)).sum(dim=1).abs().clamp(min=1.0)

    def step(self) -> None:
        """Make one step, with a barrier chosen by a predictor step."""
        x, z = self.x, self.z
        products = (x * z).mean(dim=1)
        # The predictor step has no barrier; the longer it can be, the smaller is the next barrier.
        factor = _factor(self.hessian, z / x)
        predictor = self._direction(factor, torch.zeros_like(products))
        slack = -z - z / x * predictor
        length = torch.minimum(_longest_step(x, predictor), _longest_step(z, slack))
        mu = products * ((1.0 - length) ** 2).clamp(1e-3, 0.5)
        self._advance(self._direction(factor, mu), mu)

    def _direction(self, factor: torch.Tensor, mu: torch.Tensor) -> torch.Tensor:
        """Return the Newton direction of x for the barrier ``mu``, shape (B, k)."""
        right = mu[:, None] / self.x - self.gradient
        if not self.loss.simplex:
            return _solve(factor, right[:, :, None])[:, :, 0]
        both = _solve(factor, torch.stack([right, torch.ones_like(right)], dim=2))
        shift = both[:, :, 0].sum(dim=1) / both[:, :, 1].sum(dim=1)
        return both[:, :, 0] - shift[:, None] * both[:, :, 1]

    def _advance(self, move: torch.Tensor, mu: torch.Tensor) -> None:
        """Move x and z along a direction, halving the step of bags whose barrier function rises."""
        slack = mu[:, None] / self.x - self.z - self.z / self.x * move
        length = _MAX_STEP * _longest_step(self.x, move)
        slope = ((self.gradient - mu[:, None] / self.x) * move).sum(dim=1)
        before = self._barrier(self.x, mu)
        rounding = 1e-14 * before.abs()
        for _ in range(_HALVINGS):
            x = self.x + length[:, None] * move
            bad = ~(self._barrier(x, mu) <= before + 1e-4 * length * slope + rounding)
            if not bool(bad.any()):
                break
            length = torch.where(bad, length / 2, length)
        self.x = self.x + length[:, None] * move
        if self.loss.simplex:
            self.x = self.x / self.x.sum(dim=1, keepdim=True)
        self.z = self.z + (_MAX_STEP * _longest_step(self.z, slack))[:, None] * slack
        self.gradient, self.hessian = self.loss.derivatives(self.x)

    def _barrier(self, x: torch.Tensor, mu: torch.Tensor) -> torch.Tensor:
        return self.loss.value(x) - mu * x.log().sum(dim=1)


def _longest_step(x: torch.Tensor, move: torch.Tensor) -> torch.Tensor:
    """Return the longest step of ``x`` along ``move`` until an entry is zero, at most one, (B,)."""
    ratio = torch.where(move < 0, -x / move, torch.inf)
    return ratio.amin(dim=1).clamp(max=1.0)


def _factor(hessian: torch.Tensor, diagonal: torch.Tensor) -> torch.Tensor:
    """Return the Cholesky factors of H + diag, with a larger ridge if rounding requires it."""
    curvature = torch.diagonal(hessian, dim1=1, dim2=2)
    floor = curvature.amax(dim=1, keepdim=True) * 1e-3
    matrix = hessian + torch.diag_embed(diagonal + _RIDGE * torch.maximum(curvature, floor))
    factor, failures = torch.linalg.cholesky_ex(matrix)
    ridge = 1e3 * _RIDGE
    while bool((failures > 0).any()) and ridge < 1e-3:
        more = torch.where(failures > 0, ridge, 0.0)[:, None] * torch.maximum(curvature, floor)
        factor, failures = torch.linalg.cholesky_ex(matrix + torch.diag_embed(more))
        ridge *= 1e3
    return factor


def _solve(factor: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the solutions of batched systems, from Cholesky factors."""
    # Triangular solves are batched everywhere, which cholesky_solve is not in every build.
    half = torch.linalg.solve_triangular(factor, right, upper=False)
    return torch.linalg.solve_triangular(factor.transpose(1, 2), half, upper=True)


def _polish(state: _InteriorState) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x with exact zeros and its gap if this gap is as good, else x as it is and its gap."""
    loss, x = state.loss, state.x
    gap = loss.gap(x, state.gradient)
    inside = x > state.z / state.hessian.diagonal(dim1=1, dim2=2).clamp(min=1e-300)
    inside &= x > 1e-9 * x.amax(dim=1, keepdim=True)
    polished = _newton_inside(state, inside)
    feasible = (polished >= 0).all(dim=1) & torch.isfinite(polished).all(dim=1)
    polished = torch.where(feasible[:, None], polished, x)
    polished_gap = loss.gap(polished, loss.derivatives(polished)[0])
    better = feasible & (polished_gap <= torch.maximum(gap, state.limit))
    return torch.where(better[:, None], polished, x), torch.where(better, polished_gap, gap)


def _newton_inside(state: _InteriorState, inside: torch.Tensor) -> torch.Tensor:
    """Return x after a Newton step among the classes ``inside``, the others at zero."""
    both = inside[:, :, None] & inside[:, None, :]
    hessian = torch.where(both, state.hessian, 0.0)
    factor = _factor(hessian, (~inside).double())
    x = torch.where(inside, state.x, 0.0)
    # To first order, the gradient at the point where the other classes are zero.
    gradient = state.gradient + torch.bmm(state.hessian, (x - state.x)[:, :, None])[:, :, 0]
    right = torch.where(inside, -gradient, 0.0)
    if not state.loss.simplex:
        return torch.where(inside, x + _solve(factor, right[:, :, None])[:, :, 0], 0.0)
    pair = _solve(factor, torch.stack([right, inside.double()], dim=2))
    excess = x.sum(dim=1) - 1.0 + pair[:, :, 0].sum(dim=1)
    shift = (excess / pair[:, :, 1].sum(dim=1))[:, None]
    return torch.where(inside, x + pair[:, :, 0] - shift * pair[:, :, 1], 0.0)
