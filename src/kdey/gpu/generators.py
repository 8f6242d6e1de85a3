"""Divergence generators of :mod:`kdey.problems.generator` on tensors: phi, phi', phi'' in p > 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class TensorGenerator:
    """phi(p, q) with its derivatives in p, for p > 0 and q >= 0 of equal shape."""

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

#: By the names of :data:`kdey.problems.generator.GENERATORS`. ``reverse-kl`` is missing: it forbids
#: classes where a bag has no mass, which only the host's solver handles.
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
