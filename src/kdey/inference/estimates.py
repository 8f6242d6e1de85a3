"""The answers for many bags: a sequence of estimates that is also a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from kdey.bags import Array
from kdey.frames import make_frame
from kdey.inference.display import heading
from kdey.inference.estimate import Estimate


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Sequence[Estimate]):
    """Estimates of many bags, in their order."""

    items: tuple[Estimate, ...]

    @property
    def estimate(self) -> Array:
        """Prevalences, shape (n_bags, k)."""
        return np.array([one.estimate for one in self.items])

    @property
    def low(self) -> Array:
        """Lower limits, shape (n_bags, k)."""
        return np.array([one.low for one in self.items])

    @property
    def high(self) -> Array:
        """Upper limits, shape (n_bags, k)."""
        return np.array([one.high for one in self.items])

    @overload
    def __getitem__(self, index: int) -> Estimate: ...

    @overload
    def __getitem__(self, index: slice) -> Estimates: ...

    def __getitem__(self, index: int | slice) -> Estimate | Estimates:
        """Return one estimate, or those of a slice."""
        return Estimates(self.items[index]) if isinstance(index, slice) else self.items[index]

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.items)

    def __iter__(self) -> Iterator[Estimate]:
        """Iterate over the estimates."""
        return iter(self.items)

    def to_frame(self, backend: str | None = None) -> Any:
        """Return one row per bag and class as a data frame; ``bag`` numbers the bags."""
        columns: dict[str, list[Any]] = {"bag": [], "size": []}
        for number, one in enumerate(self.items):
            made = one.columns()
            columns["bag"] += [number] * len(one.classes)
            columns["size"] += [one.size] * len(one.classes)
            for name, values in made.items():
                columns.setdefault(name, []).extend(values)
        return make_frame(columns, backend)

    def to_json(self) -> str:
        """Return a JSON list of what :meth:`Estimate.to_dict` holds."""
        return json.dumps([one.to_dict() for one in self.items], allow_nan=False)

    def __repr__(self) -> str:
        """Return the number of bags and the first of them."""
        first = f"; the first: {heading(self.items[0])}" if self.items else ""
        return f"Estimates of {len(self)} bags{first}"

    def _repr_html_(self) -> str:
        shown = "".join(one._repr_html_() for one in self.items[:10])
        more = f"<p>and {len(self) - 10} more bags</p>" if len(self) > 10 else ""
        return f"<div>{shown}{more}</div>"
