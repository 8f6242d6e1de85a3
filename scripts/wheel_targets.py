"""The platforms that wheels are built for, and what each of them is called by whom.

Every wheel is ``py3-none-<platform>``: the native core is a library with a C interface, which does
not depend on the version of Python. ``build_wheels.py`` builds them, ``check_wheels.py`` looks
into them, and ``try_wheels.py`` runs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """A platform.

    Parameters
    ----------
    name : str
        What the scripts and ``docs/lab/platforms.md`` call it.
    triple : str
        Zig's name, with the oldest version of the C library or of the system that is supported.
    system, processor : str
        CMake's names.
    platforms : tuple of str
        The platform tags of the wheel.
    """

    name: str
    triple: str
    system: str
    processor: str
    platforms: tuple[str, ...]

    @property
    def tags(self) -> list[str]:
        """The tags of the wheel."""
        return [f"py3-none-{platform}" for platform in self.platforms]

    @property
    def is_x86(self) -> bool:
        """Whether the library has kernels for AVX2 and AVX-512 beside those of the baseline."""
        return self.processor in ("x86_64", "AMD64")

    def wheel(self, folder: Path) -> Path:
        """Return the wheel of this target in a folder; raise SystemExit if there is not one."""
        found = sorted(folder.glob(f"kdey-*-py3-none-*{self.platforms[0]}*.whl"))
        if len(found) != 1:
            raise SystemExit(f"{folder} holds {len(found)} wheels for {self.name}, not one")
        return found[0]


TARGETS = (
    Target(
        "linux-x86_64",
        "x86_64-linux-gnu.2.17",
        "Linux",
        "x86_64",
        ("manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    ),
    Target(
        "linux-aarch64",
        "aarch64-linux-gnu.2.17",
        "Linux",
        "aarch64",
        ("manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    ),
    Target("windows-x86_64", "x86_64-windows-gnu", "Windows", "AMD64", ("win_amd64",)),
    Target("musl-x86_64", "x86_64-linux-musl", "Linux", "x86_64", ("musllinux_1_2_x86_64",)),
    Target("musl-aarch64", "aarch64-linux-musl", "Linux", "aarch64", ("musllinux_1_2_aarch64",)),
    Target("macos-arm64", "aarch64-macos.11.0", "Darwin", "arm64", ("macosx_11_0_arm64",)),
    Target("macos-x86_64", "x86_64-macos.11.0", "Darwin", "x86_64", ("macosx_11_0_x86_64",)),
)


def targets(names: Sequence[str]) -> list[Target]:
    """Return the targets of these names, or all if there are none.

    Raises SystemExit for a name that no target has.
    """
    known = {target.name: target for target in TARGETS}
    for name in names:
        if name not in known:
            raise SystemExit(f"there is no target {name!r}; the targets are {', '.join(known)}")
    return [known[name] for name in names] or list(TARGETS)
