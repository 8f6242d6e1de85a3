r"""Losses of a batch of bags on a device, and an interior-point method for all of them at once.

A :class:`Loss` has the value, derivatives and gap that the method needs: the problems of
:mod:`kdey.matching`, as tensors in float64. ``x`` always has shape (B, k): row b belongs to bag b.

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

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import torch

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

#: Numbers of the table of outer products in memory at a time.
_OUTER = 1 << 26


class Loss(Protocol):
    """A convex objective for each bag, over the simplex or over x >= 0."""

    #: Whether x must sum to one.
    simplex: ClassVar[bool]

    def start(self) -> torch.Tensor:
        """Return a point inside the feasible set, shape (B, k)."""

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """Return the value to minimise, shape (B,)."""

    def derivatives(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return gradient (B, k) and Hessian (B, k, k)."""

    def gap(self, x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Return the certificate at ``x``: a bound on the distance to the optimum, (B,)."""

    def select(self, positions: torch.Tensor) -> Self:
        """Return the loss of some of the bags."""


def frank_wolfe_gap(x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Return x . g - min_i g_i, as :func:`kdey.matching.base.frank_wolfe_gap`."""
    spread = gradient - gradient.amin(dim=1, keepdim=True)
    return (x * spread).sum(dim=1)


def uniform(n: int, k: int, device: torch.device) -> torch.Tensor:
    """Return the uniform prevalence n times, shape (n, k)."""
    return torch.full((n, k), 1.0 / k, dtype=torch.float64, device=device)


@dataclass(frozen=True, eq=False)
class MixtureLoss:
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
    simplex: ClassVar[bool] = True

    def start(self) -> torch.Tensor:
        """Return the uniform prevalence."""
        return uniform(len(self.rows), self.rows.shape[2], self.rows.device)

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
class QuadraticLoss:
    r""":math:`\tfrac12 x'Bx - t \cdot x` over the simplex (KDEy-L2, least squares).

    Attributes
    ----------
    gram : tensor of shape (k, k)
    targets : tensor of shape (B, k)
    """

    gram: torch.Tensor
    targets: torch.Tensor
    simplex: ClassVar[bool] = True

    def start(self) -> torch.Tensor:
        """Return the uniform prevalence."""
        return uniform(len(self.targets), len(self.gram), self.targets.device)

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """Return the objective."""
        return (x * (x @ self.gram / 2 - self.targets)).sum(dim=1)

    def derivatives(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return Bx - t, and B for every bag."""
        return x @ self.gram - self.targets, self.gram.expand(len(x), -1, -1)

    def gap(self, x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Return the Frank-Wolfe gap."""
        return frank_wolfe_gap(x, gradient)

    def select(self, positions: torch.Tensor) -> Self:
        """Return the loss of some of the bags."""
        return type(self)(self.gram, self.targets[positions])


@dataclass(frozen=True, eq=False)
class CauchySchwarzLoss(QuadraticLoss):
    r"""The quadratic loss over x >= 0: the Cauchy-Schwarz problem, whose optimum is x / sum(x).

    ``gap`` is that of :class:`kdey.matching.CauchySchwarz`, a bound on the divergence.
    """

    simplex: ClassVar[bool] = False

    def start(self) -> torch.Tensor:
        """Return the best multiple of the uniform vector."""
        x = uniform(len(self.targets), len(self.gram), self.targets.device)
        slope = (x * self.targets).sum(dim=1)
        curve = (x * (x @ self.gram)).sum(dim=1)
        return x * (slope / curve)[:, None]

    def gap(self, x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Return log max_i (a_i / (Bx)_i) (x'Bx) / (a . x)."""
        smooth = gradient + self.targets
        ratio = torch.where(self.targets > 0, self.targets / smooth, 0.0).amax(dim=1)
        return (ratio * (x * smooth).sum(dim=1) / (x * self.targets).sum(dim=1)).log()


@dataclass(frozen=True, eq=False)
class DivergenceLoss:
    r""":math:`\sum_t \varphi(M_t \cdot x, q_t) / r_t` over the simplex (KDEy-HD).

    Attributes
    ----------
    templates : tensor of shape (t, k)
        M, without rows of zeros, which only add a constant.
    targets : tensor of shape (B, t)
    shares : tensor of shape (t,)
        1 / r.
    generator : TensorGenerator
    """

    templates: torch.Tensor
    targets: torch.Tensor
    shares: torch.Tensor
    generator: TensorGenerator
    simplex: ClassVar[bool] = True

    def start(self) -> torch.Tensor:
        """Return the uniform prevalence."""
        return uniform(len(self.targets), self.templates.shape[1], self.targets.device)

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """Return the objective, without the constant of rows of zeros."""
        return self.generator.value(x @ self.templates.T, self.targets) @ self.shares

    def derivatives(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return M' (phi'/r) and M' diag(phi''/r) M."""
        p = x @ self.templates.T
        gradient = (self.generator.first(p, self.targets) * self.shares) @ self.templates
        curves = self.generator.second(p, self.targets) * self.shares
        return gradient, self._hessian(curves)

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

    def gap(self, x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Return the Frank-Wolfe gap."""
        return frank_wolfe_gap(x, gradient)

    def select(self, positions: torch.Tensor) -> DivergenceLoss:
        """Return the loss of some of the bags."""
        return DivergenceLoss(self.templates, self.targets[positions], self.shares, self.generator)


@dataclass(frozen=True)
class TensorGenerator:
    """phi(p, q) and its first two derivatives by p, for p > 0 and q >= 0 of equal shape."""

    value: Function
    first: Function
    second: Function


def _topsoe(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    both = p + q
    return torch.xlogy(p, 2 * p / both) + torch.xlogy(q, 2 * q / both)


def _scaled(generator: TensorGenerator, factor: float) -> TensorGenerator:
    return TensorGenerator(
        lambda p, q: factor * generator.value(p, q),
        lambda p, q: factor * generator.first(p, q),
        lambda p, q: factor * generator.second(p, q),
    )


_TOPSOE = TensorGenerator(
    _topsoe,
    lambda p, q: torch.log(2 * p / (p + q)),
    lambda p, q: q / (p * (p + q)),
)

#: Generators by the names of :data:`kdey.matching.GENERATORS`. ``reverse-kl`` is missing: it
#: excludes classes where a bag has no mass, which only the solver of the host can handle.
TENSOR_GENERATORS: dict[str, TensorGenerator] = {
    "hellinger": TensorGenerator(
        lambda p, q: (p.sqrt() - q.sqrt()) ** 2,
        lambda p, q: 1.0 - (q / p).sqrt(),
        lambda p, q: 0.5 * q.sqrt() / (p * p.sqrt()),
    ),
    "topsoe": _TOPSOE,
    "jensen-shannon": _scaled(_TOPSOE, 0.5),
    "kl": TensorGenerator(
        lambda p, q: torch.xlogy(q, q / p) - q + p,
        lambda p, q: 1.0 - q / p,
        lambda p, q: q / (p * p),
    ),
    "chi2": TensorGenerator(
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


@dataclass(frozen=True, eq=False)
class BatchSolution:
    """Solutions of a batch of B bags.

    Attributes
    ----------
    x : tensor of shape (B, k)
        The minimisers.
    gap : tensor of shape (B,)
        Their certificates.
    n_iter : int64 tensor of shape (B,)
    """

    x: torch.Tensor
    gap: torch.Tensor
    n_iter: torch.Tensor


def solve_interior(loss: Loss, tol: torch.Tensor | float, max_iter: int) -> BatchSolution:
    """Minimise the loss of every bag.

    Parameters
    ----------
    loss : Loss
    tol : float or tensor of shape (B,)
        Gap to which each bag is solved.
    max_iter : int

    Returns
    -------
    BatchSolution
    """
    x = loss.start()
    n = len(x)
    gap = torch.full((n,), torch.inf, dtype=torch.float64, device=x.device)
    n_iter = torch.zeros(n, dtype=torch.int64, device=x.device)
    limit = torch.as_tensor(tol, dtype=torch.float64, device=x.device).expand(n)
    solution = BatchSolution(x, gap, n_iter)
    active = torch.arange(n, device=x.device)
    state = _State.initial(loss, x, limit)
    for iteration in range(1, max_iter + 1):
        state.step()
        done = state.is_converged()
        if iteration == max_iter:
            done = torch.ones_like(done)
        # Removing bags copies the rows of the others, which pays once half of them are done.
        if not bool(done.all()) and 2 * int(done.sum()) < len(done):
            continue
        finished = torch.nonzero(done)[:, 0]
        _record(solution, active[finished], state.select(finished), iteration)
        if len(finished) == len(done):
            break
        rest = torch.nonzero(~done)[:, 0]
        state, active = state.select(rest), active[rest]
    return solution


def _record(
    solution: BatchSolution, positions: torch.Tensor, state: _State, iteration: int
) -> None:
    """Write the polished results of some bags to the solution of all."""
    x, gap = _polish(state)
    solution.x[positions], solution.gap[positions] = x, gap.clamp(min=0.0)
    solution.n_iter[positions] = iteration


class _State:
    """The iterates of the bags that have not converged."""

    def __init__(self, loss: Loss, x: torch.Tensor, z: torch.Tensor, limit: torch.Tensor) -> None:
        self.loss, self.x, self.z, self.limit = loss, x, z, limit
        self.gradient, self.hessian = loss.derivatives(x)

    @classmethod
    def initial(cls, loss: Loss, x: torch.Tensor, limit: torch.Tensor) -> _State:
        """Return the state at a starting point, with slacks of a suitable size."""
        gradient, _ = loss.derivatives(x)
        spread = gradient.amax(dim=1) - gradient.amin(dim=1)
        size = (x.sum(dim=1) * gradient.abs().amax(dim=1) * 1e-3).clamp(min=1e-12)
        mu = torch.maximum(0.1 * spread * x.mean(dim=1), size / x.shape[1])
        return cls(loss, x, mu[:, None] / x, limit)

    def select(self, positions: torch.Tensor) -> _State:
        """Return the state of some of the bags, without computing derivatives."""
        state = object.__new__(_State)
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


def _polish(state: _State) -> tuple[torch.Tensor, torch.Tensor]:
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


def _newton_inside(state: _State, inside: torch.Tensor) -> torch.Tensor:
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
