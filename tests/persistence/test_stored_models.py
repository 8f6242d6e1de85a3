"""Model files that were written once go on answering as they did."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdey
from kdey.persistence.archive import FORMAT
from tests.frozen.make_models import ANSWERS, ARCHIVE, answer, quantifiers

FILES = sorted(quantifiers())


@pytest.fixture(scope="module")
def stored() -> dict[str, bytes]:
    assert ARCHIVE.exists(), f"format {FORMAT} is new: python -m tests.frozen.make_models"
    with zipfile.ZipFile(ARCHIVE) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def answers(stored: dict[str, bytes]) -> Any:
    return json.loads(stored[ANSWERS])


def test_every_method_has_a_file(stored: dict[str, bytes], answers: Any) -> None:
    """``python -m tests.frozen.make_models`` adds that of a new method."""
    assert sorted(stored) == sorted([*FILES, ANSWERS])
    assert sorted(answers["shares"]) == FILES
    assert ARCHIVE.stat().st_size < 300_000


@pytest.mark.parametrize("name", FILES)
def test_a_stored_model_answers_as_when_it_was_written(
    name: str, stored: dict[str, bytes], answers: Any, tmp_path: Path
) -> None:
    path = tmp_path / "model.kdey"
    path.write_bytes(stored[name])
    expected = answers["shares"][name]
    found = answer(kdey.load(path), np.array(answers["bags"][str(len(expected))]))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
