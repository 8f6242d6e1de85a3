"""The code in README.md and CONTRIBUTING.md runs as printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from kdey import PACC, check_quantifier

ROOT = Path(__file__).parents[1]


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.S)


@pytest.fixture(scope="module")
def namespace() -> dict[str, Any]:
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    P = PACC().fit(X, y).training_.posteriors
    bags = [rng.integers(len(X), size=40) for _ in range(3)]
    return {"X": X, "y": y, "X_bag": X[::3], "X_pool": X, "bags": bags, "P": P, "P_bag": P[::3]}


def test_readme_blocks_run_in_order(
    namespace: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some of them write files
    found = blocks("README.md")
    assert len(found) >= 3
    for block in found:
        exec(compile(block, "README.md", "exec"), namespace)
    assert namespace["solution"].converged.all()


def test_contributing_quantifier_passes_the_checks() -> None:
    (block,) = blocks("CONTRIBUTING.md")
    made: dict[str, Any] = {"__name__": "contributed"}
    exec(compile(block, "CONTRIBUTING.md", "exec"), made)
    # Pickling needs a class to be found under its module's name.
    import sys
    import types

    module = types.ModuleType("contributed")
    module.__dict__.update(made)
    sys.modules["contributed"] = module
    try:
        check_quantifier(made["SquaredPACC"](cv=3))
    finally:
        del sys.modules["contributed"]


def test_readme_claim_of_adjusted_prevalence(namespace: dict[str, Any]) -> None:
    from kdey import ACC

    adjusted = ACC.from_rates(sensitivity=0.9, specificity=0.95).adjust([0.88, 0.12])
    np.testing.assert_allclose(adjusted, [0.918, 0.082], atol=5e-4)
