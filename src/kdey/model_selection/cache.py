"""A cache of stages that several searches share: explicit, bounded, passed in by the user."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Self, TypeVar

from kdey.scalars import check_count
from kdey.solvers.solution import Solution
from kdey.stages import FittedStage

T = TypeVar("T")


class StageCache:
    """What searches over the same data have computed already.

    Hand one to several searches (``GridSearchQ(..., cache=cache)``): each distinct classifier
    configuration is then fitted once for all of them, and a candidate that only another metric
    looks at is not solved again. What was used longest ago is dropped first. Copies of a search
    (``clone``) go on using the same cache.

    Parameters
    ----------
    max_stages : int
        Fitted classifiers to hold, with their training posteriors; and pools' posteriors.
    max_solutions : int
        Candidates whose estimated prevalences to hold.
    """

    def __init__(self, max_stages: int = 64, max_solutions: int = 10_000) -> None:
        self._stages: _Recent[FittedStage] = _Recent(max_stages, "max_stages")
        self._posteriors: _Recent[Any] = _Recent(max_stages, "max_stages")
        self._solutions: _Recent[Solution] = _Recent(max_solutions, "max_solutions")

    def stage(self, key: str, make: Callable[[], FittedStage]) -> FittedStage:
        """Return the fitted stage known by ``key``, made where it is not."""
        return self._stages.fetch(key, make)

    def posteriors(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the posteriors of a pool known by ``key``, made where they are not."""
        return self._posteriors.fetch(key, make)

    def solution(self, key: str) -> Solution | None:
        """Return the solution known by ``key``, or None."""
        found: Solution | None = self._solutions.get(key)
        return found

    def keep(self, key: str, solution: Solution) -> None:
        """Hold a solution under ``key``."""
        self._solutions.put(key, solution)

    def clear(self) -> None:
        """Drop everything."""
        for part in (self._stages, self._posteriors, self._solutions):
            part.clear()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the cache itself: sharing is its purpose."""
        return self

    def __repr__(self) -> str:
        return f"StageCache({len(self._stages)} stages, {len(self._solutions)} solutions)"


class _Recent(OrderedDict[str, T]):
    """A mapping that keeps the ``limit`` entries used last."""

    def __init__(self, limit: int, name: str = "limit") -> None:
        check_count(limit, name)
        super().__init__()
        self._limit = limit

    def __reduce__(self) -> Any:
        return (_Recent, (self._limit,))  # contents stay where they are

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self:
            return default
        self.move_to_end(key)
        return self[key]

    def put(self, key: str, value: T) -> None:
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._limit:
            self.popitem(last=False)

    def fetch(self, key: str, make: Callable[[], T]) -> T:
        if key not in self:
            self.put(key, make())
        self.move_to_end(key)
        return self[key]
