"""Look into the wheels of all platforms without running them.

``python scripts/check_wheels.py [--wheels dist] [target ...]`` in an environment with the
dependency group ``wheels`` (``make wheels``). Of every wheel it checks that

* its tags are those of the platform, and its native core is a library for that system and
  processor, the only one in it;
* the core needs no library that the system lacks, nor a version of the C library (Linux) or of the
  system (macOS) that is newer than the tags say; on macOS for arm64 it is signed, or it would not
  be loaded;
* the core shows the entries of ``src/native/kdey.h`` and nothing else (on macOS, the operators new
  and delete too);
* no file holds a path of the machine that built it.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from abi_program import entries
from wheel_targets import Target, targets

if TYPE_CHECKING:
    import lief

ROOT = Path(__file__).parents[1]
CORE = "kdey/_kdey.bin"
NEEDED = (
    *(CORE, "kdey/py.typed", "kdey/datasets/catalogue.csv"),
    *("kdey/datasets/beans.csv.gz", "kdey/datasets/beans.md"),  # data, and their licence
)
#: Where a wheel may have files; the rest has no place in it.
FOLDERS = re.compile(r"kdey/|kdey-[^/]*\.dist-info/")
#: What every system of a kind has.
GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"}
LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
WINDOWS = re.compile(r"(kernel32|ntdll|advapi32|bcrypt|api-ms-win-crt-[\w-]+)\.dll", re.IGNORECASE)
MACOS = {"/usr/lib/libSystem.B.dylib"}
#: Zig's linker for macOS takes no list of names to show: there the operators new and delete, which
#: are malloc and free, can be seen, and two names of the linker's own.
MACOS_NAMES = re.compile(r"_Z(n[aw]|d[al])\w*|__dso_handle|_mh_dylib_header")


def check_elf(library: lief.ELF.Binary, target: Target) -> Iterator[str]:
    """Yield what is wrong with a core for Linux."""
    machine = library.header.machine_type.name.lower()
    if machine != target.processor:
        yield f"it is for {machine}"
    allowed = {"libc.so"} if "musl" in target.triple else {*GLIBC, LOADERS[target.processor]}
    strange = set(library.libraries) - allowed
    if strange:
        yield f"it needs {sorted(strange)}"
    versions = {
        symbol.name
        for requirement in library.symbols_version_requirement
        for symbol in requirement.get_auxiliary_symbols()
    }
    newest = max((_version(name) for name in versions), default=(0,))
    if newest > _version(target.triple):
        yield f"it needs the C library {'.'.join(map(str, newest))}"
    shown = {str(symbol.name) for symbol in library.exported_symbols}
    yield from check_entries(shown)


def _version(name: str) -> tuple[int, ...]:
    """Return the version in GLIBC_2.17 or x86_64-linux-gnu.2.17; musl has none."""
    match = re.search(r"(?:GLIBC_|gnu\.)(\d+(?:\.\d+)*)$", name)
    return tuple(int(part) for part in match[1].split(".")) if match else (0,)


def check_pe(library: lief.PE.Binary, target: Target) -> Iterator[str]:
    """Yield what is wrong with a core for Windows."""
    machine = library.header.machine.name
    if machine != target.processor:
        yield f"it is for {machine}"
    strange = sorted(entry.name for entry in library.imports if not WINDOWS.fullmatch(entry.name))
    if strange:
        yield f"it needs {strange}"
    yield from check_entries({function.name for function in library.exported_functions})


def check_macho(library: lief.MachO.Binary, target: Target) -> Iterator[str]:
    """Yield what is wrong with a core for macOS."""
    machine = library.header.cpu_type.name.lower()
    if machine != target.processor:
        yield f"it is for {machine}"
    commands = list(library.libraries)
    own = [entry.name for entry in commands if entry.command.name == "ID_DYLIB"]
    if own != ["@rpath/_kdey.bin"]:
        yield f"it calls itself {own}"
    strange = {entry.name for entry in commands} - MACOS - set(own)
    if strange:
        yield f"it needs {sorted(strange)}"
    oldest = library.build_version.minos[:2]
    if oldest != [11, 0]:
        yield f"it needs macOS {oldest}"
    if target.processor == "arm64" and not library.has_code_signature:
        yield "it is not signed"
    shown = {str(symbol.name).removeprefix("_") for symbol in library.exported_symbols}
    yield from check_entries({name for name in shown if not MACOS_NAMES.fullmatch(name)})


def check_entries(shown: set[str]) -> Iterator[str]:
    """Yield what is wrong with the names that a core shows."""
    declared = set(entries())
    if declared - shown:
        yield f"it does not show {sorted(declared - shown)}"
    if shown - declared:
        yield f"it shows {sorted(shown - declared)[:5]} too"


def check_core(content: bytes, target: Target) -> Iterator[str]:
    """Yield what is wrong with the native core of a wheel."""
    import lief  # not needed for the other checks, nor for tests of them

    lief.logging.disable()  # it remarks on every library for macOS that Zig links
    library = lief.parse(list(content))
    if target.system == "Linux" and isinstance(library, lief.ELF.Binary):
        yield from check_elf(library, target)
    elif target.system == "Windows" and isinstance(library, lief.PE.Binary):
        yield from check_pe(library, target)
    elif target.system == "Darwin" and isinstance(library, lief.MachO.Binary):
        yield from check_macho(library, target)
    else:
        yield f"it is no library of {target.system}, but {type(library).__module__}"


def machine_paths() -> list[bytes]:
    """Return the beginnings of paths that tell on which machine a wheel was built."""
    folders = {ROOT, Path.home(), Path(sys.prefix), Path(tempfile.gettempdir())}
    return [f"{folder}/".encode() for folder in sorted(folders)] + [b"zig-cache"]


def check_names(names: list[str], target: Target, metadata: str) -> Iterator[str]:
    """Yield what is wrong with the files of a wheel and with its tags."""
    tags = re.findall(r"^Tag: (.*)$", metadata, re.MULTILINE)
    if sorted(tags) != sorted(target.tags):
        yield f"its tags are {tags}"
    missing = sorted(set(NEEDED) - set(names))
    if missing:
        yield f"it lacks {missing}"
    strays = [name for name in names if not FOLDERS.match(name)]
    libraries = (".a", ".bin", ".dll", ".dylib", ".lib", ".pdb", ".so")
    strays += [name for name in names if name.endswith(libraries) and name != CORE]
    if strays:
        yield f"it should not hold {strays[:5]}"


def check_wheel(wheel: Path, target: Target) -> list[str]:
    """Return what is wrong with a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (metadata,) = (content for name, content in files.items() if name.endswith("dist-info/WHEEL"))
    faults = list(check_names(list(files), target, metadata.decode()))
    if CORE in files:
        faults += [f"{CORE}: {fault}" for fault in check_core(files[CORE], target)]
    for name, content in files.items():
        told = [path.decode() for path in machine_paths() if path in content]
        faults += [f"{name} holds the path {path}" for path in told]
    return faults


def main() -> None:
    """Check the wheels that the command line names; fail where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path, default=ROOT / "dist")
    parser.add_argument("target", nargs="*")
    arguments = parser.parse_args()
    n_faults = 0
    for target in targets(arguments.target):
        faults = check_wheel(target.wheel(arguments.wheels), target)
        n_faults += len(faults)
        for fault in faults or ["tags, system, libraries, entries and paths are in order"]:
            print(f"{target.name}: {fault}", flush=True)
    if n_faults:
        raise SystemExit(f"{n_faults} faults")


if __name__ == "__main__":
    main()
