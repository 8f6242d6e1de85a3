"""Losses: the problems of :mod:`kdey.problems` for a batch of bags on a device.

A :class:`Loss` has the value, derivatives and gap that the interior-point method needs. All tensors
are float64. ``x`` always has shape (B, k): row b belongs to bag b. The divergence generators of
:mod:`kdey.problems.separable`, as functions of tensors, are at the end.
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
    """Return x . g - min_i g_i, as :func:`kdey.problems.interface.frank_wolfe_gap`."""
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

    ``gap`` is that of :class:`kdey.problems.CauchySchwarz`, a bound on the divergence.
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

#: Generators by the names of :data:`kdey.problems.separable.GENERATORS`. ``reverse-kl`` is missing:
#: it excludes classes where a bag has no mass, which only the solver of the host can handle.
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
