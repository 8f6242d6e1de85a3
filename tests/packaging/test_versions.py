"""The oldest versions are those that pyproject.toml promises, every one."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("packaging")


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import versions

    yield versions
    sys.modules.pop("versions")


@pytest.fixture
def project() -> dict[str, Any]:
    return {
        "name": "toy",
        "dependencies": ["a>=1.2", "b>=3,<5"],
        "optional-dependencies": {
            "one": ["c~=2.1", "toy[two]"],
            "two": ["a>=1.10", "toy[one]", "never>=1; python_version < '3'"],
            "loose": ["d"],
        },
    }


def text(found: dict[str, Any]) -> dict[str, str]:
    return {name: str(version) for name, version in found.items()}


def test_bounds_of_all_that_is_named(versions: Any, project: dict[str, Any]) -> None:
    assert text(versions.oldest(project, [])) == {"a": "1.2", "b": "3"}
    # "one" and "two" name each other; of two bounds of a the higher holds, as versions: 1.10 > 1.2.
    assert text(versions.oldest(project, ["one"])) == {"a": "1.10", "b": "3", "c": "2.1"}


def test_a_requirement_without_a_bound_is_refused(versions: Any, project: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="d has no lower bound"):
        versions.oldest(project, ["loose"])


def test_every_requirement_of_ours_has_a_bound(
    versions: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["versions.py"])
    versions.main()
    lines = capsys.readouterr().out.splitlines()
    own = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in own["dependencies"]:
        assert requirement.replace(">=", "==") in lines
    assert len(lines) > 20
