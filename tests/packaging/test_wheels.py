"""The scripts that build wheels for all platforms and look into them."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
PAGE = ROOT / "docs" / "lab" / "platforms.md"
if not (SCRIPTS.is_dir() and PAGE.exists()):
    pytest.skip("scripts or pages are not part of this tree", allow_module_level=True)


def load(name: str) -> ModuleType:
    sys.path.insert(0, str(SCRIPTS))
    try:
        return __import__(name)
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def wheel_targets() -> ModuleType:
    return load("wheel_targets")


@pytest.fixture(scope="module")
def check_wheels() -> ModuleType:
    return load("check_wheels")


def test_targets_are_found_by_name(wheel_targets: ModuleType) -> None:
    everything = wheel_targets.targets([])
    assert len({target.name for target in everything}) == len(everything)
    assert wheel_targets.targets(["musl-x86_64"])[0].triple == "x86_64-linux-musl"
    with pytest.raises(SystemExit, match=r"no target 'linux-arm'; the targets are linux-x86_64, "):
        wheel_targets.targets(["linux-arm"])


def test_the_tags_of_every_wheel_stand_in_the_page(wheel_targets: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for target in wheel_targets.TARGETS:
        assert f"| `{target.name}` | `{target.platforms[0]}` |" in page


def test_the_tags_say_what_the_compiler_is_told(wheel_targets: ModuleType) -> None:
    for target in wheel_targets.TARGETS:
        told = re.search(r"(?:gnu|macos)\.(\d+)\.(\d+)", target.triple)
        for platform in target.platforms:
            version = re.fullmatch(r"(?:manylinux|macosx)_(\d+)_(\d+)_\w+", platform)
            if version is not None:
                assert told is not None
                assert told.groups() == version.groups()


def test_a_toolchain_names_the_target(
    wheel_targets: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_wheels = load("build_wheels")
    monkeypatch.setattr(build_wheels, "zig", lambda: Path("/tools/zig"))
    (target,) = wheel_targets.targets(["windows-x86_64"])
    text = build_wheels.write_toolchain(target, tmp_path).read_text()
    assert f'set(CMAKE_CXX_COMPILER "{tmp_path}/c++")' in text
    assert "set(CMAKE_SYSTEM_NAME Windows)" in text
    assert 'exec "/tools/zig" c++ -target x86_64-windows-gnu -s' in (tmp_path / "c++").read_text()
    assert (tmp_path / "ar").read_text() == '#!/bin/sh\nexec "/tools/zig" ar "$@"\n'


def test_a_build_that_differs_is_an_error(
    wheel_targets: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_wheels = load("build_wheels")
    contents = iter([b"first", b"first", b"second"])

    def build_wheel(target: object, source: Path, folder: Path) -> Path:
        wheel = folder / "kdey-1-py3-none-any.whl"
        wheel.write_bytes(next(contents))
        return wheel

    monkeypatch.setattr(build_wheels, "build_wheel", build_wheel)
    target = wheel_targets.TARGETS[0]
    wheel = build_wheels.build(target, tmp_path, tmp_path / "out")
    assert wheel.read_bytes() == b"first"
    build_wheels.build_again(target, tmp_path, wheel)
    with pytest.raises(SystemExit, match=r"a second build of kdey-1\S* is another file"):
        build_wheels.build_again(target, tmp_path, wheel)


def test_files_have_the_time_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    build_wheels = load("build_wheels")
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert int(build_wheels.source_date()) >= int(build_wheels.OLDEST_DATE)
    monkeypatch.setattr(build_wheels, "ROOT", Path("/nowhere"))
    assert build_wheels.source_date() == build_wheels.OLDEST_DATE
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1234567890")
    assert build_wheels.source_date() == "1234567890"


@pytest.fixture
def names(check_wheels: ModuleType) -> list[str]:
    return [*check_wheels.NEEDED, "kdey/__init__.py", "kdey-1.dist-info/WHEEL"]


def faults(check_wheels: ModuleType, names: list[str], tags: str) -> list[str]:
    target = load("wheel_targets").targets(["windows-x86_64"])[0]
    return list(check_wheels.check_names(names, target, f"Wheel-Version: 1.0\n{tags}\n"))


def test_a_wheel_that_is_in_order(check_wheels: ModuleType, names: list[str]) -> None:
    assert faults(check_wheels, names, "Tag: py3-none-win_amd64") == []


def test_faults_of_names_and_tags(check_wheels: ModuleType, names: list[str]) -> None:
    tag = "Tag: py3-none-win_amd64"
    assert faults(check_wheels, names, "Tag: py3-none-any") == ["its tags are ['py3-none-any']"]
    assert faults(check_wheels, names[1:], tag) == ["it lacks ['kdey/_kdey.bin']"]
    for stray in ("tests/__init__.py", "kdey/lib_kdey.dll.a", "bin/kdey"):
        assert faults(check_wheels, [*names, stray], tag) == [f"it should not hold ['{stray}']"]


def test_entries_that_are_missing_or_too_many(check_wheels: ModuleType) -> None:
    declared = set(load("abi_program").entries())
    assert list(check_wheels.check_entries(declared)) == []
    lacking = check_wheels.check_entries(declared - {"kdey_gibbs"})
    assert list(lacking) == ["it does not show ['kdey_gibbs']"]
    assert list(check_wheels.check_entries(declared | {"_Znwm"})) == ["it shows ['_Znwm'] too"]


def test_a_core_of_another_system_is_an_error(check_wheels: ModuleType) -> None:
    pytest.importorskip("lief")
    library = ROOT / "src" / "kdey" / "_kdey.bin"
    if sys.platform != "linux" or not library.exists():
        pytest.skip("there is no core for Linux")
    (target,) = load("wheel_targets").targets(["macos-arm64"])
    assert "no library of Darwin" in next(check_wheels.check_core(library.read_bytes(), target))


def test_commands_of_the_readme_are_those_that_run_without_an_index() -> None:
    script = load("try_wheels").readme_commands()
    assert "kdey fit beans/labelled.csv" in script
    assert "from kdey import Quantifier" in script
    assert "pip install" not in script


def test_the_compiler_is_pinned() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = groups["dependency-groups"]
    assert {"include-group": "site"} in groups["wheels"]
    pinned = [text for text in (*groups["wheels"], *groups["site"]) if isinstance(text, str)]
    assert any(re.fullmatch(r"ziglang==[\d.]+", requirement) for requirement in pinned)
    assert any(re.fullmatch(r"scikit-build-core==[\d.]+", requirement) for requirement in pinned)


def test_the_emulated_tests_exist() -> None:
    try_wheels = load("try_wheels")
    for folder, files in try_wheels.EMULATED_TESTS.items():
        for file in files:
            assert (ROOT / "tests" / folder / file).is_file()
