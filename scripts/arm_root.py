"""A folder with Python for Linux on aarch64, to be run by ``qemu-aarch64-static -L FOLDER``.

Debian's packages of that architecture are downloaded with settings of apt of their own, and
unpacked: nothing is installed on this machine, and its list of architectures stays as it is.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

#: NumPy's wheels need the C++ library, those of scikit-learn OpenMP.
PACKAGES = ("python3", "libstdc++6", "libgomp1", "musl")
#: Settings under which apt knows another architecture, and nothing that is installed.
SETTINGS = """\
APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Dir::State "{folder}/state";
Dir::State::status "{folder}/state/status";
Dir::Cache "{folder}/cache";
"""


def make_root(folder: Path) -> Path:
    """Return a root with Python in ``folder``; what is not there is downloaded."""
    root, complete = folder / "root", folder / "complete"
    if complete.exists() and complete.read_text().split() == list(PACKAGES):
        return root
    for part in ("state/lists/partial", "cache/archives/partial", "root"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "state" / "status").touch()
    settings = folder / "apt.conf"
    settings.write_text(SETTINGS.format(folder=folder.resolve()))
    apt = ["apt-get", "--config-file", str(settings), "--quiet", "--yes"]
    subprocess.run([*apt, "update"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        [*apt, "install", "--download-only", *PACKAGES], check=True, stdout=subprocess.DEVNULL
    )
    for package in sorted((folder / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(root)], check=True)
    complete.write_text(" ".join(PACKAGES))
    return root
