"""What is left of a quantifier whose fit fails: nothing that looks fitted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

Fit = TypeVar("Fit", bound=Callable[..., Any])


def unfitted_on_failure(fit: Fit) -> Fit:
    """Make a method ``fit`` that raises leave its quantifier unfitted.

    The classes are known before the rest is made; with them, and without the rest or with that of
    an earlier fit, predictions would fail in words of their own, or answer for other classes.
    """

    @functools.wraps(fit)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return fit(self, *args, **options)
        except BaseException:
            self.__dict__.pop("classes_", None)
            raise

    return cast(Fit, run)
