"""Pages may draw: into memory, and nothing stays open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def drawn_in_memory() -> Iterator[None]:
    try:
        import matplotlib
        from matplotlib import pyplot as plt
    except ImportError:
        yield
        return
    matplotlib.use("agg")
    yield
    plt.close("all")
