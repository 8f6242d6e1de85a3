"""The notebook runs from top to bottom, and its stored outputs are small and say what it says."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdey

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (extra test)")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (extra test)")
for needed in ("ipykernel", "matplotlib", "pandas", "jinja2", "skops"):
    pytest.importorskip(needed, reason=f"the notebook needs {needed}")

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "from-table-to-report.ipynb"
if not NOTEBOOK.exists():
    pytest.skip("notebooks/ is not part of this tree", allow_module_level=True)


def printed(notebook: Any) -> list[str]:
    """Return the text of every output, one for each code cell."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["\n".join(map(_text, cell.outputs)) for cell in cells]


def _text(output: Any) -> str:
    return str(output.get("text") or output.get("data", {}).get("text/plain", ""))


def judge(outputs: list[str]) -> None:
    """Check the words of the notebook against the output of its cells."""
    _, _, estimate, months, _, files = outputs
    rows = [line.split() for line in estimate.splitlines()[2:7]]
    low, high, counted = (np.array([row[at] for row in rows], float) for at in (2, 3, 4))
    truth = np.array([2, 2, 10, 80, 6]) / 100
    assert "1,200 items" in estimate
    assert ((low <= truth) & (truth <= high)).all()
    assert counted[3] < low[3]
    assert months.count("poor fit") == 1
    assert months.splitlines()[-1].endswith("poor fit")  # the port in August
    assert "beans.html" in files
    assert "beans.kdey" in files


def test_stored_outputs_are_there_and_small() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert len(text) < 80_000
    assert "/tmp/" not in text
    assert "Warning" not in text
    stored = nbformat.reads(text, as_version=4)
    nbformat.validate(stored)
    judge(printed(stored))


def test_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(kdey.__file__).parents[1]))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    with warnings.catch_warnings():
        # What the notebook's own machinery deprecates is none of our business.
        warnings.simplefilter("ignore")
        client.execute()
    judge(printed(notebook))
