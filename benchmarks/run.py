"""Run the benchmarks and write ``docs/lab/benchmarks.md`` from what they print.

    python benchmarks/run.py                      # everything; half an hour on two idle cores
    python benchmarks/run.py --only kernel solvers
    python benchmarks/run.py --page               # the page from what has been measured before

Every section of the page is the output of one script in a process of its own with one BLAS thread,
kept in ``results/sections`` with the day and the machine, so that one script can be run again
without the others.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
SECTIONS = HERE / "results" / "sections"
PAGE = HERE.parent / "docs" / "lab" / "benchmarks.md"
DATA = Path(os.environ.get("KDEY_DATA", HERE.parents[1] / "shared" / "data"))
LETTER = DATA / "uci-multi" / "letter.csv.gz"

HEAD = """\
# Benchmarks

Ratios against peers and limits, each taken in one run on the same work. `make bench` measures all
of it and writes this page (`benchmarks/run.py`); a section is what the script it names printed.
Times are the best of several repeats; the machine is shared, so a figure may be worse than it could
be, and seldom better.
"""
TAIL = """\
## Elsewhere

Errors and total time against QuaPy on the paper's sets: [automatic.md](automatic.md). Coverage of
intervals: [intervals.md](../intervals.md). Other libraries: [comparison.md](comparison.md). Growth
with rows, references and classes, and clusters: [scale.md](scale.md).
"""


@dataclass(frozen=True)
class Section:
    """One part of the page: its title, and the script with the arguments that measure it."""

    name: str
    title: str
    script: str
    arguments: tuple[str, ...] = ()
    #: Whether the script only tells what was measured elsewhere, and says itself where.
    told: bool = False
    #: Variables of the environment under which the script runs, as "NAME=value".
    environment: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """What a reader types to measure it; data files are named without their folder."""
        shown = (Path(argument).name for argument in self.arguments)
        return " ".join((*self.environment, f"benchmarks/{self.script}", *shown))


def sections() -> list[Section]:
    """Return the parts of the page in their order."""
    letter = ("--letter", str(LETTER)) if LETTER.exists() else ()
    return [
        Section("latency", "Single small bags", "latency.py"),
        Section("kernel", "Kernel sums", "kernel.py", letter),
        Section("solvers", "Solvers", "solvers.py"),
        Section("instruction_sets", "Instruction sets", "instruction_sets.py"),
        Section("first_answer", "The first answer", "first_answer.py"),
        Section("quantifiers", "Imports, fits and estimates", "quantifiers.py"),
        Section("evaluation", "Against QuaPy", "evaluation.py", ("--quapy-bags", "25")),
        Section(
            "evaluation_avx2",
            "Against QuaPy without AVX-512",
            "evaluation.py",
            ("--quapy-bags", "10"),
            environment=("KDEY_ISA=avx2", "OPENBLAS_CORETYPE=Haswell"),
        ),
        Section("model_selection", "Model selection", "model_selection.py"),
        Section("tuning", "The automatic choice", "tuning.py"),
        Section("intervals", "Intervals", "intervals.py"),
        Section("limits", "Intervals by number of classes", "interval_cost.py"),
        Section("gibbs", "Gibbs sampling", "gibbs.py", ("--bags", "0")),
        Section("groups", "Groups of a large table", "groups.py"),
        Section("report", "Reports on large tables", "fit_check_cost.py", ("report",)),
        Section(
            "checked_groups",
            "Many groups with the fit check",
            "fit_check_cost.py",
            ("groups", "--rows", "300000"),
        ),
        Section("gpu", "GPU", "gpu/table.py", told=True),
    ]


def measure(section: Section) -> None:
    """Run one script and keep what it printed; stop where it fails."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    environment.update(tuple(setting.split("=", 1)) for setting in section.environment)
    command = [sys.executable, str(HERE / section.script), *section.arguments]
    print(f"\n=== {section.command}", flush=True)
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    print(done.stdout, flush=True)
    SECTIONS.mkdir(parents=True, exist_ok=True)
    kept = {
        "command": section.command,
        "when": today(),
        "machine": machine(),
        "printed": done.stdout.strip(),
    }
    (SECTIONS / f"{section.name}.json").write_text(json.dumps(kept, indent=1) + "\n")


def today() -> str:
    """Return the date, as the page shows it."""
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


def machine() -> str:
    """Return processor and versions, in one line."""
    names = ("numpy", "scipy", "scikit-learn")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return f"{os.cpu_count()} x {processor()}, Python {platform.python_version()}, {versions}"


def processor() -> str:
    """Return the processor's name where the system tells."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def page() -> str:
    """Return the page made of the sections that have been measured."""
    parts = [HEAD]
    for section in sections():
        path = SECTIONS / f"{section.name}.json"
        if path.exists():
            kept = json.loads(path.read_text())
            where = "" if section.told else f", {kept['when']}, {kept['machine']}"
            parts.append(
                f"## {section.title}\n\n{kept['printed']}\n\n`{kept['command']}`{where}.\n"
            )
    return "\n".join([*parts, TAIL])


def main() -> None:
    """Measure what was asked for, then write the page."""
    names = [section.name for section in sections()]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these alone")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    asked = parser.parse_args()
    for section in sections():
        if section.name in asked.only and not asked.page:
            measure(section)
            PAGE.write_text(page(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
