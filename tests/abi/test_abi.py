"""The native core seen from C: the program that is run on every platform a wheel is made for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from kdey import native

ROOT = Path(__file__).parents[2]
LIBRARY = Path(native.__file__).with_name("_kdey.bin")
HEADER = ROOT / "src" / "native" / "kdey.h"

if not ((ROOT / "scripts").is_dir() and HEADER.exists()):
    pytest.skip("sources and scripts are not beside the package", allow_module_level=True)
needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or sys.platform == "win32", reason="there is no C compiler"
)
needs_library = pytest.mark.skipif(not LIBRARY.exists(), reason="the native core is not built")


class Extended(NamedTuple):
    program: Path
    entries: list[str]


@pytest.fixture(scope="module")
def abi_program() -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import abi_program
    finally:
        sys.path.pop(0)
    return abi_program


@pytest.fixture(scope="module")
def program(abi_program: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = abi_program.compile_program(tmp_path_factory.mktemp("abi") / "abi")
    return path


@pytest.fixture(scope="module")
def extended(abi_program: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Extended:
    """The program for a header that declares one more entry."""
    folder = tmp_path_factory.mktemp("extended")
    header = folder / "kdey.h"
    added = "KDEY_API int32_t kdey_brand_new(int64_t n);\n"
    header.write_text(HEADER.read_text(encoding="utf-8") + added, encoding="utf-8")
    program = abi_program.compile_program(folder / "abi", header=header)
    return Extended(program, abi_program.entries(header))


def run(program: Path, library: Path, isa: str = "avx512") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, library],
        env={**os.environ, "KDEY_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )


def test_entries_are_those_that_python_calls(abi_program: ModuleType) -> None:
    called_without_arguments = {"kdey_abi_version", "kdey_isa"}
    assert set(abi_program.entries()) == {*native._ARGUMENTS, *called_without_arguments}


def test_every_entry_has_a_call(abi_program: ModuleType) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in abi_program.SOURCES.glob("*.c"))
    assert set(re.findall(r"CALL\((kdey_\w+)\)", text)) == set(abi_program.entries())


@needs_compiler
@needs_library
@pytest.mark.parametrize("isa", ["avx512", "avx2", "baseline"])
def test_answers_are_right(program: Path, isa: str) -> None:
    done = run(program, LIBRARY, isa)
    assert done.returncode == 0, done.stderr
    entries = re.findall(r"^KDEY_API .*?\b(kdey_\w+)\(", HEADER.read_text(), re.MULTILINE)
    assert f"{len(entries)} of {len(entries)} entries called" in done.stdout
    assert ", 0 failed" in done.stdout


@needs_compiler
@needs_library
def test_an_entry_that_the_library_lacks_is_named(extended: Extended) -> None:
    done = run(extended.program, LIBRARY)
    assert done.returncode == 2
    assert "has no kdey_brand_new" in done.stderr


@needs_compiler
def test_an_entry_without_a_call_is_named(extended: Extended, tmp_path: Path) -> None:
    """A library of entries that do nothing: the program says all that is wrong with it."""
    empty = "".join(f"int {name}(void) {{ return 0; }}\n" for name in extended.entries)
    (tmp_path / "empty.c").write_text(empty)
    library = tmp_path / "empty.so"
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "empty.c", "-o", library], check=True)
    done = run(extended.program, library)
    assert done.returncode == 1
    assert "the program never calls kdey_brand_new" in done.stderr
    assert "ABI version 0" in done.stderr
    assert "largest log-sum of a query" in done.stderr


@needs_library
@pytest.mark.skipif(
    shutil.which("nm") is None or sys.platform != "linux", reason="read by nm on Linux"
)
def test_the_library_shows_nothing_but_its_entries(abi_program: ModuleType) -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True
    ).stdout
    assert {line.split()[-1] for line in listed.splitlines()} == set(abi_program.entries())
