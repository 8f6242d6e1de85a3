"""The code in docs/trust.md runs as printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

DOCUMENT = Path(__file__).parents[2] / "docs" / "trust.md"


def test_blocks_run_in_order() -> None:
    X, y = load_iris(return_X_y=True)
    part = np.arange(len(X)) % 3 > 0
    namespace: dict[str, Any] = {"X": X[part], "y": y[part], "X_bag": X[~part]}
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "trust.md", "exec"), namespace)
    assert 0 < namespace["found"].p_value <= 1
    assert namespace["adapted"].predict(X[~part]).shape == (50,)
    assert namespace["weights"].shape == (100,)
