"""Values computed from a frozen object, kept with it as long as it lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Derived:
    """Base of frozen objects that keep what is computed from them.

    What is kept is neither pickled nor copied nor stored in model files: it is computed again when
    it is needed.
    """

    def derived(self, name: str, compute: Callable[[], T]) -> T:
        """Return what ``compute`` returns, computed once per object under this name.

        Threads that ask for the same value at the same time may compute it twice, but all of them
        get the same object.
        """
        kept: dict[str, Any] = self.__dict__.setdefault("_derived", {})
        if name not in kept:
            kept.setdefault(name, compute())
        return cast(T, kept[name])

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without what is computed from them."""
        return {name: value for name, value in vars(self).items() if name != "_derived"}
