"""Settings of all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from tests.budget import pytest_terminal_summary as pytest_terminal_summary

# Nothing fails for being slow: hypothesis would fail examples that take 200 ms, and tests whose
# examples are made slowly, which a busy machine can do to any of them.
settings.register_profile("kdey", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kdey")


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS and OpenMP to one thread.

    The tests fit thousands of classifiers on a few hundred rows, where several threads only wait
    for each other: beside other work on the machine a fit takes twenty times as long. Programs that
    tests start, such as the commands of the pages, inherit it.
    """
    for library in ("OMP", "OPENBLAS"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    with threadpool_limits(1):
        yield
