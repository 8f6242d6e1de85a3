r"""Convex problems of many bags at once, by a primal-dual interior-point method.

.. math:: \min_x f(x) \quad \text{over } x \ge 0, \text{ or over the simplex}

The host's active-set methods decide bag by bag which class leaves or enters; here all bags take
the same steps, so that every operation is one batched product or factorisation. With slacks z of
the bounds and their mean product mu driven to zero, a step solves

.. math:: (H + \mathrm{diag}(z / x))\, \Delta x + \nu 1 = \mu / x - \nabla f

(nu only over the simplex; Nocedal and Wright, *Numerical Optimization*, chapter 19), damped by a
line search on the barrier function. At the end the classes whose slack won are set to zero and
one Newton step is taken among the others (``_polish``), which gives the exact zeros of an active
set; it is kept where its certificate is as good.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kdey.gpu.losses import Loss

#: Share of the way to the border that a step may go.
_REACH = 0.995
#: Added to the diagonal, relative to it: keeps duplicated classes from a singular system.
_RIDGE = 1e-13
#: Halvings of a step before it is taken as it is.
_HALVINGS = 12
#: How far below the wanted gap the barrier goes: its rest must not matter.
_MARGIN = 1e-2


@dataclass(frozen=True, eq=False)
class BatchSolution:
    """Minimisers ``x`` (B, k), their certificates ``gap`` (B,) and iterations ``n_iter`` (B,)."""

    x: torch.Tensor
    gap: torch.Tensor
    n_iter: torch.Tensor


def solve_interior(loss: Loss, tol: torch.Tensor | float, max_iter: int) -> BatchSolution:
    """Minimise the loss of every bag to a gap of ``tol`` (one number, or one per bag)."""
    x = loss.start()
    n = len(x)
    gap = torch.full((n,), torch.inf, dtype=torch.float64, device=x.device)
    n_iter = torch.zeros(n, dtype=torch.int64, device=x.device)
    limit = torch.as_tensor(tol, dtype=torch.float64, device=x.device).expand(n)
    found = BatchSolution(x, gap, n_iter)
    open_bags = torch.arange(n, device=x.device)
    state = _State.begin(loss, x, limit)
    for iteration in range(1, max_iter + 1):
        state.step()
        done = state.settled() if iteration < max_iter else torch.ones_like(state.limit).bool()
        # Leaving bags costs a copy of the others' rows: worth it once half of them are done.
        if not bool(done.all()) and 2 * int(done.sum()) < len(done):
            continue
        which = torch.nonzero(done)[:, 0]
        _record(found, open_bags[which], state.take(which), iteration)
        if len(which) == len(done):
            break
        rest = torch.nonzero(~done)[:, 0]
        state, open_bags = state.take(rest), open_bags[rest]
    return found


def _record(found: BatchSolution, where: torch.Tensor, state: _State, iteration: int) -> None:
    x, gap = _polish(state)
    found.x[where], found.gap[where] = x, gap.clamp(min=0.0)
    found.n_iter[where] = iteration


class _State:
    """The iterates of the bags still worked on."""

    def __init__(self, loss: Loss, x: torch.Tensor, z: torch.Tensor, limit: torch.Tensor) -> None:
        self.loss, self.x, self.z, self.limit = loss, x, z, limit
        self.gradient, self.hessian = loss.derivatives(x)

    @classmethod
    def begin(cls, loss: Loss, x: torch.Tensor, limit: torch.Tensor) -> _State:
        gradient, _ = loss.derivatives(x)
        spread = gradient.amax(dim=1) - gradient.amin(dim=1)
        size = (x.sum(dim=1) * gradient.abs().amax(dim=1) * 1e-3).clamp(min=1e-12)
        mu = torch.maximum(0.1 * spread * x.mean(dim=1), size / x.shape[1])
        return cls(loss, x, mu[:, None] / x, limit)

    def take(self, which: torch.Tensor) -> _State:
        made = object.__new__(_State)
        made.loss, made.limit = self.loss.take(which), self.limit[which]
        made.x, made.z = self.x[which], self.z[which]
        made.gradient, made.hessian = self.gradient[which], self.hessian[which]
        return made

    def settled(self) -> torch.Tensor:
        """Whether both the certificate and the barrier are where they should be, (B,)."""
        gap = self.loss.gap(self.x, self.gradient)
        rest = (self.x * self.z).sum(dim=1) / (1.0 if self.loss.simplex else self._size())
        return (gap <= self.limit) & (rest <= torch.clamp(_MARGIN * self.limit, min=1e-15))

    def _size(self) -> torch.Tensor:
        """Return the size of the objective, by which an unscaled problem is measured."""
        return (self.x * (self.gradient - self.z)).sum(dim=1).abs().clamp(min=1.0)

    def step(self) -> None:
        x, z = self.x, self.z
        products = (x * z).mean(dim=1)
        # First the step of no barrier at all: how far it gets says how small the next may be.
        factor = _factor(self.hessian, z / x)
        ahead = self._direction(factor, torch.zeros_like(products))
        slack = -z - z / x * ahead
        reach = torch.minimum(_room(x, ahead), _room(z, slack))
        mu = products * ((1.0 - reach) ** 2).clamp(1e-3, 0.5)
        move = self._direction(factor, mu)
        self._advance(move, mu)

    def _direction(self, factor: torch.Tensor, mu: torch.Tensor) -> torch.Tensor:
        right = mu[:, None] / self.x - self.gradient
        if not self.loss.simplex:
            return _solve(factor, right[:, :, None])[:, :, 0]
        both = _solve(factor, torch.stack([right, torch.ones_like(right)], dim=2))
        shift = both[:, :, 0].sum(dim=1) / both[:, :, 1].sum(dim=1)
        return both[:, :, 0] - shift[:, None] * both[:, :, 1]

    def _advance(self, move: torch.Tensor, mu: torch.Tensor) -> None:
        slack = mu[:, None] / self.x - self.z - self.z / self.x * move
        length = _REACH * _room(self.x, move)
        slope = ((self.gradient - mu[:, None] / self.x) * move).sum(dim=1)
        before = self._barrier(self.x, mu)
        room = 1e-14 * before.abs()
        for _ in range(_HALVINGS):
            x = self.x + length[:, None] * move
            bad = ~(self._barrier(x, mu) <= before + 1e-4 * length * slope + room)
            if not bool(bad.any()):
                break
            length = torch.where(bad, length / 2, length)
        self.x = self.x + length[:, None] * move
        if self.loss.simplex:
            self.x = self.x / self.x.sum(dim=1, keepdim=True)
        self.z = self.z + (_REACH * _room(self.z, slack))[:, None] * slack
        self.gradient, self.hessian = self.loss.derivatives(self.x)

    def _barrier(self, x: torch.Tensor, mu: torch.Tensor) -> torch.Tensor:
        return self.loss.value(x) - mu * x.log().sum(dim=1)


def _room(x: torch.Tensor, move: torch.Tensor) -> torch.Tensor:
    """Return how far ``x`` may go along ``move`` before it meets zero, at most one, (B,)."""
    ratio = torch.where(move < 0, -x / move, torch.inf)
    return ratio.amin(dim=1).clamp(max=1.0)


def _factor(hessian: torch.Tensor, diagonal: torch.Tensor) -> torch.Tensor:
    """Return the Cholesky factors of H + diag, with a larger ridge where rounding asks for it."""
    own = torch.diagonal(hessian, dim1=1, dim2=2)
    floor = own.amax(dim=1, keepdim=True) * 1e-3
    matrix = hessian + torch.diag_embed(diagonal + _RIDGE * torch.maximum(own, floor))
    factor, trouble = torch.linalg.cholesky_ex(matrix)
    ridge = 1e3 * _RIDGE
    while bool((trouble > 0).any()) and ridge < 1e-3:
        more = torch.where(trouble > 0, ridge, 0.0)[:, None] * torch.maximum(own, floor)
        factor, trouble = torch.linalg.cholesky_ex(matrix + torch.diag_embed(more))
        ridge *= 1e3
    return factor


def _solve(factor: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    # Two triangular solves: batched everywhere, which cholesky_solve is not on every build.
    half = torch.linalg.solve_triangular(factor, right, upper=False)
    return torch.linalg.solve_triangular(factor.transpose(1, 2), half, upper=True)


def _polish(state: _State) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x with exact zeros, and its gap, where that gap is as good; else x as it is."""
    loss, x = state.loss, state.x
    gap = loss.gap(x, state.gradient)
    inside = x > state.z / state.hessian.diagonal(dim1=1, dim2=2).clamp(min=1e-300)
    inside &= x > 1e-9 * x.amax(dim=1, keepdim=True)
    moved = _newton_inside(state, inside)
    feasible = (moved >= 0).all(dim=1) & torch.isfinite(moved).all(dim=1)
    moved = torch.where(feasible[:, None], moved, x)
    exact = loss.gap(moved, loss.derivatives(moved)[0])
    better = feasible & (exact <= torch.maximum(gap, state.limit))
    return torch.where(better[:, None], moved, x), torch.where(better, exact, gap)


def _newton_inside(state: _State, inside: torch.Tensor) -> torch.Tensor:
    """Return x after a Newton step among the classes ``inside``, the others at zero."""
    both = inside[:, :, None] & inside[:, None, :]
    hessian = torch.where(both, state.hessian, 0.0)
    factor = _factor(hessian, (~inside).double())
    x = torch.where(inside, state.x, 0.0)
    # The gradient where the others are at zero already, to first order.
    gradient = state.gradient + torch.bmm(state.hessian, (x - state.x)[:, :, None])[:, :, 0]
    right = torch.where(inside, -gradient, 0.0)
    if not state.loss.simplex:
        return torch.where(inside, x + _solve(factor, right[:, :, None])[:, :, 0], 0.0)
    pair = _solve(factor, torch.stack([right, inside.double()], dim=2))
    excess = x.sum(dim=1) - 1.0 + pair[:, :, 0].sum(dim=1)
    shift = (excess / pair[:, :, 1].sum(dim=1))[:, None]
    return torch.where(inside, x + pair[:, :, 0] - shift * pair[:, :, 1], 0.0)
