"""Warnings that can be muted for one thread alone.

``warnings.catch_warnings`` changes the filters of the whole process: where two threads enter and
leave it in turns, the filters of one stay behind for good (before Python 3.14). So what kdey
gives and may want to mute itself, it gives by :func:`warn` and mutes by :func:`muted`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_MUTED: ContextVar[tuple[type[Warning], ...]] = ContextVar("muted", default=())


def warn(message: str, category: type[Warning], stacklevel: int = 1) -> None:
    """As ``warnings.warn``, unless ``category`` is muted here."""
    if not issubclass(category, _MUTED.get()):
        warnings.warn(message, category, stacklevel=stacklevel + 1)


@contextmanager
def muted(*categories: type[Warning]) -> Iterator[None]:
    """Mute what :func:`warn` would say of these categories, in this thread alone."""
    before = _MUTED.set((*_MUTED.get(), *categories))
    try:
        yield
    finally:
        _MUTED.reset(before)
