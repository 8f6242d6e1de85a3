"""Warnings that can be muted in one thread only.

``warnings.catch_warnings`` changes the filters of the whole process: if two threads enter and leave
it alternately, the filters of one of them stay in place (before Python 3.14). Warnings that kdey
may have to mute are therefore issued by :func:`warn` and muted by :func:`muted`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_MUTED: ContextVar[tuple[type[Warning], ...]] = ContextVar("muted", default=())


def warn(message: str, category: type[Warning], stacklevel: int = 1) -> None:
    """Issue a warning as ``warnings.warn`` does, unless ``category`` is muted in this thread."""
    if not issubclass(category, _MUTED.get()):
        warnings.warn(message, category, stacklevel=stacklevel + 1)


@contextmanager
def muted(*categories: type[Warning]) -> Iterator[None]:
    """Mute warnings of these categories that :func:`warn` issues in this thread."""
    token = _MUTED.set((*_MUTED.get(), *categories))
    try:
        yield
    finally:
        _MUTED.reset(token)
