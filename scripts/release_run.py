"""Every gate of a release, run on the last commit and recorded.

``python scripts/release_run.py [--only NAME ...]`` (``make release-run``; hours)

Each gate is a target of the Makefile with a log of its own in ``build/release``. The record has the
commit, the processor and of each gate the command, exit status, time and closing line. It is
written after every gate, and a gate that has passed on this very commit is not run again, so that a
run that was stopped goes on. ``--table`` prints the record, for the page on releases.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "build" / "release"
RECORD = ROOT / "results" / "release_run.json"
#: Gates in the order in which they are run: what fails soonest comes first.
GATES = {
    "ci": "bash .ci/run",
    "oldest": "make test-oldest",
    "newest": "make test-newest",
    "wheel": "make release-check",
    "quapy": "make test-quapy",
    "slow": "make test-slow",
    "sanitizers": "make sanitize",
    "fuzzing": "make fuzz",
    "wheels": "make wheels-twice wheels test-wheels",
    "audit": "make audit",
    "mutation": "make mutation",
    "campaigns": "make campaign",
    "soak": "make soak",
}
#: The lines by which programs say how it went; the last one is kept, or the last one of all.
CLOSING = re.compile(
    r"passed|failed|killed|findings|faults|in order|vulnerabilities|the same|\"flat\"|^red:"
)


def machine() -> str:
    """Return the processor's name and the widest instruction set that kdey uses on it."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.+)", info.read_text()) if info.exists() else []
    from kdey.native import instruction_set

    processor = names[0] if names else platform.processor()
    return f"{processor}, {os.cpu_count()} cores, {instruction_set() or 'NumPy'}"


def commit() -> str:
    """Return the last commit; stop where the tree differs from it, but for the record."""

    def said(*words: str) -> str:
        git = ["git", "-c", f"safe.directory={ROOT}", *words]
        return subprocess.run(git, cwd=ROOT, capture_output=True, text=True).stdout.strip()

    if said("status", "--porcelain", "--", ".", f":!{RECORD.relative_to(ROOT)}"):
        raise SystemExit("what is released is a commit: commit or stash the changes first")
    return said("rev-parse", "--short=10", "HEAD")


def run(name: str) -> dict[str, Any]:
    """Run one gate and return what is recorded of it."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log, start, before = LOGS / f"{name}.log", time.perf_counter(), os.times()
    # What is set for trying things (KDEY_NATIVE=0, say) is no part of a release.
    kept = {key: value for key, value in os.environ.items() if not key.startswith("KDEY_")}
    with log.open("w") as said:
        done = subprocess.run(
            GATES[name].split(), cwd=ROOT, env=kept, stdout=said, stderr=subprocess.STDOUT
        )
    after = os.times()
    spent = sum(after[2:4]) - sum(before[2:4])  # of child processes
    lines = [line.strip("= \n") for line in log.read_text(errors="replace").splitlines()]
    closing = [line for line in lines if CLOSING.search(line)] or [line for line in lines if line]
    return {
        "command": GATES[name],
        "status": done.returncode,
        "minutes": round((time.perf_counter() - start) / 60, 1),
        "processor_minutes": round(spent / 60, 1),
        "closing": closing[-1][:200] if closing else "",
    }


def table(record: dict[str, Any]) -> str:
    """Return the record as a table in Markdown."""
    lines = [
        f"Commit {record['commit']}, {record['when']}, {record['machine']}:",
        "",
        "| gate | command | minutes (of processors) | status | last line |",
        "|---|---|---|---|---|",
    ]
    for name, gate in record["gates"].items():
        times = f"{gate['minutes']} ({gate['processor_minutes']})"
        closing = gate["closing"].replace("|", "/")
        status = "passed" if gate["status"] == 0 else f"**exit {gate['status']}**"
        lines.append(f"| {name} | `{gate['command']}` | {times} | {status} | {closing} |")
    missing = [name for name in GATES if name not in record["gates"]]
    return "\n".join([*lines, *(["", f"Not run: {', '.join(missing)}."] if missing else [])])


def main() -> None:
    """Run the gates that were asked for and record each, or print the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=GATES, default=list(GATES))
    parser.add_argument("--table", action="store_true", help="run nothing, print the record")
    asked = parser.parse_args()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if asked.table:
        print(table(record) if record else "No gate has been recorded: make release-run")
        return
    if record.get("commit") != (head := commit()):
        record = {"commit": head, "machine": machine(), "when": "", "gates": {}}
    for name in asked.only:
        if record["gates"].get(name, {}).get("status") == 0:
            continue
        print(f"{name}: {GATES[name]}", flush=True)
        gate = run(name)
        if commit() != head:
            raise SystemExit(f"{name}: the last commit is another one now, so this tells nothing")
        record["gates"][name] = gate
        record["when"] = datetime.now(UTC).strftime("%Y-%m-%d")
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    failed = [name for name in asked.only if record["gates"][name]["status"]]
    if failed:
        raise SystemExit(f"red: {', '.join(failed)} (logs in {LOGS.relative_to(ROOT)})")


if __name__ == "__main__":
    main()
