"""The picture of the layers in ARCHITECTURE.md shows the layers that the imports are held to."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.test_imports import LAYERS

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "layers_figure.py"

if not (SCRIPT.exists() and (ROOT / "docs" / "figures").exists()):
    pytest.skip("scripts or figures are not part of this tree", allow_module_level=True)


def test_the_figure_is_the_one_that_the_script_draws() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["read_layers"]() == list(LAYERS)
    drawn = script["FIGURE"].read_text(encoding="utf-8")
    assert drawn == script["draw"](list(LAYERS)), "run python scripts/layers_figure.py"


def test_every_layer_says_what_it_does() -> None:
    script = runpy.run_path(str(SCRIPT))
    silent = [rooms for rooms in LAYERS if not set(rooms) & set(script["NOTES"])]
    assert silent == []
