"""Says why the tests of this folder did not run, where torch is missing."""

from __future__ import annotations

import pytest


def test_torch_is_installed():
    pytest.importorskip(
        "torch", reason="torch is not installed (extra 'gpu'): tests/gpu did not run"
    )
