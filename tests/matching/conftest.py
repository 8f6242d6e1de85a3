"""Which path the solvers take."""

import pytest

from kdey import native


@pytest.fixture(params=["native", "numpy"])
def path(request, monkeypatch):
    """Run a test on the native path and on the NumPy path."""
    if request.param == "numpy":
        monkeypatch.setattr(native, "available", lambda: False)
    elif not native.available():
        pytest.skip("the native core is not built")
    return request.param


@pytest.fixture
def needs_native():
    """Skip where only the NumPy path exists."""
    if not native.available():
        pytest.skip("the native core is not built")
