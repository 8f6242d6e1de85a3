"""Tests that read real data sets, which are not part of the repository.

They are looked for in the folder that ``KDEY_DATA`` names, else in ``../shared/data`` beside the
repository. Where they are missing, the tests are skipped and say so; where they are there,
``pytest -m data`` runs these tests alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., None])

DATA = Path(os.environ.get("KDEY_DATA") or Path(__file__).parents[2] / "shared" / "data")


def needs_data(path: str) -> Callable[[Test], Test]:
    """Mark a test that reads a file or folder of the data sets; skip it where that is missing."""
    missing = not (DATA / path).exists()
    reason = f"no {path} in the folder of data sets (KDEY_DATA, or ../shared/data)"

    def marked(test: Test) -> Test:
        return pytest.mark.data(pytest.mark.skipif(missing, reason=reason)(test))

    return marked
