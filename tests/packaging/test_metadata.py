"""What a release says of itself agrees with itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import kdey

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
#: The extras that make up the development environment.
DEVELOPMENT = ("dev", "test", "lint", "docs", "cli", "data", "excel", "plot", "save")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def distribution(requirement: str) -> str:
    """Return the normalised name in a requirement."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def test_the_version_stands_in_one_place(project: dict[str, Any]) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", kdey.__version__)
    assert "version" not in project["project"]
    source = project["tool"]["scikit-build"]["metadata"]["version"]["input"]
    lines = (ROOT / source).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if "__version__ =" in line] == [
        f'__version__ = "{kdey.__version__}"'
    ]


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## \[(\S+)\]", text, re.MULTILINE)
    assert first is not None
    version, _, development = kdey.__version__.partition(".dev")
    assert first[1] == ("Unreleased" if development else version)
    if development:
        assert f"\n## [Unreleased] {version}\n" in text


def test_the_citation_names_the_last_release_and_the_paper() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d\S+)\]", changes, re.MULTILINE)
    assert f"\nversion: {released[0]}\n" in text
    assert "Kernel Density Estimation for Multiclass Quantification" in text


def test_the_package_is_typed() -> None:
    assert Path(kdey.__file__).with_name("py.typed").is_file()


@pytest.mark.smoke
@pytest.mark.skipif(not CONSTRAINTS.exists(), reason="an sdist has no .ci")
def test_every_development_dependency_is_pinned(project: dict[str, Any]) -> None:
    lines = [
        line
        for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[a-z0-9._-]+==[\w.!+]+", line) for line in lines)
    pinned = {distribution(line) for line in lines}
    extras = project["project"]["optional-dependencies"]
    asked = [*project["project"]["dependencies"], *(r for e in DEVELOPMENT for r in extras[e])]
    missing = {distribution(r) for r in asked} - pinned - {"kdey"}
    assert not missing, f"{sorted(missing)} have no pinned version: run `make lock`"


def test_windows_is_built_with_ninja(
    monkeypatch: pytest.MonkeyPatch, project: dict[str, Any]
) -> None:
    # CMake's choice without Visual Studio is NMake, which is missing then too.
    reader = pytest.importorskip("scikit_build_core.settings.skbuild_read_settings")
    for system, arguments in (("win32", ["-GNinja"]), ("linux", []), ("darwin", [])):
        monkeypatch.setattr("sys.platform", system)
        settings = reader.SettingsReader(project, {}, state="wheel").settings
        assert settings.cmake.args == arguments
