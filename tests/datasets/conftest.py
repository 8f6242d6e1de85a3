"""No test may look at the user's own data directory or cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .cases import Server, serve


@pytest.fixture(autouse=True)
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("KDEY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as state:
        yield state
