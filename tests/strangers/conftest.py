"""Tests of the network train with torch, where it is installed."""

from __future__ import annotations

from tests.with_torch import one_torch_thread as one_torch_thread, torch

if torch is None:
    # test_presence.py in tests/gpu says that tests with torch did not run.
    collect_ignore = ["test_network.py", "test_network_training.py"]
