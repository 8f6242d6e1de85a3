"""Mutation testing: change the code in one place, and see whether a test notices.

``python scripts/mutate.py`` (``make mutation``) makes every mutant of ``TARGETS``
(see ``mutations.py``) and runs, for each, the tests that reach the changed lines, the quickest
first, up to the first failure (see ``mutant_runs.py``). Survivors must be explained in
``mutation_survivors.toml``; the run fails where one is not, or where less than ``ENOUGH`` of all
mutants is killed. Results are kept in ``build/mutation.json``; one process, half an hour.

``--only TEXT`` tries the mutants whose name holds TEXT, ``--survivors`` those not yet killed,
``--new`` those not yet tried, ``--report FILE`` none: it writes what is known as Markdown.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from mutant_runs import OPTIONS, SOURCE, Session
from mutations import Mutant, mutants

ROOT = Path(__file__).parents[1]
TARGETS = ("kdey/matching", "kdey/metrics.py")
PACKAGES = [target.removesuffix(".py").replace("/", ".") for target in TARGETS]
TESTS = (
    "tests/matching",
    *(
        f"tests/quantifiers/test_{name}.py"
        for name in ("aggregator", "embeddings", "paper", "penalised", "thresholds")
    ),
    "tests/test_metrics.py",
    "tests/test_metric_registry.py",
    "tests/evaluation/test_scorer.py",
)
KEPT = ROOT / "build" / "mutation.json"
EXPLAINED = Path(__file__).with_name("mutation_survivors.toml")
ENOUGH = 0.9


def main() -> int:
    """Make the mutants, try them, and say what survived."""
    options = arguments()
    everything = [m for target in TARGETS for m in of_target(SOURCE / target)]
    known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if options.report is None:
        known = {} if not (options.only or options.survivors or options.new) else known
        wanted = [m for m in everything if chosen(m, options, known)]
        # In a random order, so that a run that is stopped has tried a fair part of them.
        random.Random(0).shuffle(wanted)
        prepare()
        session = Session(lambda plugin: try_all(plugin, wanted, known))
        if status := pytest.main([*OPTIONS, "-s", *TESTS], plugins=[session]):
            return int(status)
    known = {m.key: known[m.key] for m in everything if m.key in known}
    survivors = [m for m in everything if known.get(m.key) in ("survived", "not reached")]
    if options.report is not None:
        options.report.write_text(report(known, survivors))
    return judge(known, survivors)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--report", type=Path)
    return parser.parse_args()


def of_target(target: Path) -> list[Mutant]:
    """Return the mutants of a file, or of all files of a folder."""
    files = sorted(target.glob("*.py")) if target.is_dir() else [target]
    return [m for f in files for m in mutants(f.read_text(), str(f.relative_to(SOURCE)))]


def chosen(mutant: Mutant, options: argparse.Namespace, known: dict[str, str]) -> bool:
    """Whether the command line asks for this mutant."""
    result = known.get(mutant.key)
    if options.survivors and result not in ("survived", "not reached"):
        return False
    if options.new and result is not None:
        return False
    return options.only in mutant.key


def prepare() -> None:
    """Load what the tests need, and let hypothesis draw the same examples each time."""
    from hypothesis import settings

    os.chdir(ROOT)
    sys.path[:0] = [str(SOURCE), str(ROOT)]
    settings.register_profile("mutation", derandomize=True, deadline=None, database=None)
    for name in PACKAGES:
        importlib.import_module(name)


def try_all(session: Session, wanted: list[Mutant], known: dict[str, str]) -> None:
    """Try the mutants one by one; write down what is known every twenty of them."""
    session.measure(PACKAGES)
    for i, mutant in enumerate(wanted, start=1):
        known[mutant.key], killer = session.attempt(mutant)
        print(f"{i}/{len(wanted)} {known[mutant.key]}: {mutant.key} [{killer}]", flush=True)
        if i % 20 == 0 or i == len(wanted):
            KEPT.parent.mkdir(exist_ok=True)
            KEPT.write_text(json.dumps(known, indent=0))


def reason(mutant: Mutant) -> str:
    """Return why a survivor survives: the first group with a pattern that its key matches."""
    for group in tomllib.loads(EXPLAINED.read_text())["group"]:
        if any(re.search(pattern, mutant.key) for pattern in group["mutants"]):
            return str(group["why"])
    return ""


def judge(known: dict[str, str], survivors: list[Mutant]) -> int:
    """Print the tally; fail where too few are killed or a survivor is not explained."""
    share = 1 - len(survivors) / max(len(known), 1)
    print(
        f"{len(known)} mutants, {len(survivors)} survive: {share:.1%} killed",
        Counter(known.values()),
    )
    unexplained = [m for m in survivors if not reason(m)]
    for mutant in unexplained:
        print(f"not explained: line {mutant.line}: {mutant.key}")
    return int(share < ENOUGH or bool(unexplained))


def report(known: dict[str, str], survivors: list[Mutant]) -> str:
    """Return the tally by part and the survivors with their reasons, as Markdown."""
    lines = ["| part | mutants | killed | survive | share killed |", "|---|---|---|---|---|"]
    for target in TARGETS:
        total = sum(key.startswith(target) for key in known)
        alive = sum(m.file.startswith(target) for m in survivors)
        share = 1 - alive / max(total, 1)
        lines.append(f"| `{target}` | {total} | {total - alive} | {alive} | {share:.1%} |")
    groups: dict[str, list[Mutant]] = {}
    for mutant in survivors:
        groups.setdefault(reason(mutant) or "Not explained", []).append(mutant)
    for why, mine in groups.items():
        lines += ["", f"**{why}**", ""]
        lines += [f"* `{m.file}:{m.line}` {m.scope}: `{m.change}`" for m in mine]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
