"""No test may look at the user's own data directory or cache."""

from __future__ import annotations

from tests.datasets.conftest import no_data, server

__all__ = ["no_data", "server"]
