from __future__ import annotations

from pathlib import Path

import pytest

from .cases import FAST, rows, run, without, write


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model file fitted on numbers and texts."""
    folder = tmp_path_factory.mktemp("model")
    table = write(folder / "train.csv", without(rows(), "shop", "day"))
    result = run("fit", table, "--label", "kind", *FAST, "-o", folder / "model.kdey")
    assert result.exit_code == 0, result.output
    return folder / "model.kdey"
