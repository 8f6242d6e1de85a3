"""Compare what two trees of kdey answer, on this machine and on the same inputs.

``python scripts/compare_trees.py OLD_SRC NEW_SRC [--parts NAME ...] [--brief]`` runs
``scripts/tree_values.py`` once with each of the folders on ``PYTHONPATH``, both with the same
number of threads, and prints for every case how many values it has, the largest absolute
difference between the trees, and whether that is at most 1e-10. Texts must be the same, but for
dates and versions. A case that both trees refuse with the same type of error agrees, and is shown
as refused. The exit code is 1 where a case differs, is missing, or is refused by one tree alone.

Words may be changed on purpose: ``--ignore-texts`` shows differences of texts without counting
them.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORKER = Path(__file__).with_name("tree_values.py")
TOLERANCE = 1e-10
#: Numbers, texts and the error of a case.
Case = tuple[NDArray[np.float64], list[str], str]


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    part, case : str
    n_values : int
    difference : float
        Largest absolute difference of numbers; inf where their number differs.
    n_texts : int
        Texts that differ.
    problem : str
        What is the matter where there is nothing to compare; or the first text that differs.
    ok : bool
    """

    part: str
    case: str
    n_values: int
    difference: float
    n_texts: int
    problem: str
    ok: bool

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        agrees = "refused" if self.problem and not self.n_texts else "ok"
        verdict = agrees if self.ok else "DIFFERS"
        return (
            f"{self.part}: {self.case}",
            f"{self.n_values:,}",
            f"{self.difference:.1e}" if self.difference else "0",
            f"{self.n_texts}" if self.n_texts else "",
            verdict,
        )


def run_tree(source: Path, out: Path, parts: Sequence[str], quiet: bool) -> subprocess.Popen[bytes]:
    """Start the worker on one tree."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = os.environ | one | {"PYTHONPATH": str(source), "PYTHONHASHSEED": "0"}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", str(WORKER), str(out), *parts],
        env=environment,
        stderr=subprocess.DEVNULL if quiet else None,
    )


def compare(old: Case, new: Case, tolerance: float, with_texts: bool) -> tuple[Any, ...]:
    """Return number of values, difference, number of texts that differ, problem, and verdict."""
    kinds = [case[2].partition(":")[0] for case in (old, new)]
    if any(kinds):
        problem = "; ".join(
            f"the {which} tree {f'raised {case[2]}' if case[2] else 'answered'}"
            for which, case in (("old", old), ("new", new))
        )
        return 0, 0.0, 0, problem, kinds[0] == kinds[1]
    a, b = old[0], new[0]
    if len(a) != len(b):
        return len(a), np.inf, 0, f"{len(a)} numbers in the old tree, {len(b)} in the new", False
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    apart = np.abs(np.where(same, 0.0, a) - np.where(same, 0.0, b))
    difference = float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))
    pairs = [(x, y) for x, y in zip(old[1], new[1], strict=False) if x != y]
    n_texts = len(pairs) + abs(len(old[1]) - len(new[1]))
    problem = ""
    if n_texts:
        problem = shown(*pairs[0]) if pairs else "another number of texts"
    ok = difference <= tolerance and (n_texts == 0 or not with_texts)
    return len(a) + len(old[1]), difference, n_texts, problem, ok


def shown(old: str, new: str, around: int = 50) -> str:
    """Return where two texts begin to differ."""
    start = next((i for i, (x, y) in enumerate(zip(old, new, strict=False)) if x != y), 0)
    here = slice(max(start - around, 0), start + around)
    return f"{old[here]!r} became {new[here]!r}"


def rows_of(
    old: dict[str, dict[str, Case]], new: dict[str, dict[str, Case]], options: Any
) -> Iterator[Row]:
    """Yield a row for every case of either tree."""
    for part, cases in old.items():
        others = new.get(part, {})
        for case in dict.fromkeys([*cases, *others]):
            if case not in cases or case not in others:
                missing = "old" if case not in cases else "new"
                yield Row(part, case, 0, np.inf, 0, f"missing in the {missing} tree", False)
            else:
                found = compare(
                    cases[case], others[case], options.tolerance, not options.ignore_texts
                )
                yield Row(part, case, *found)


def totals(rows: Sequence[Row]) -> list[Row]:
    """Return one row per part."""
    made = []
    for part in dict.fromkeys(row.part for row in rows):
        own = [row for row in rows if row.part == part]
        made.append(
            Row(
                part,
                f"all {len(own)} cases",
                sum(row.n_values for row in own),
                max(row.difference for row in own),
                sum(row.n_texts for row in own),
                "",
                all(row.ok for row in own),
            )
        )
    return made


def print_table(rows: Sequence[Row]) -> None:
    """Print rows, and below a row what is the matter with it."""
    head = ("what", "values", "difference", "texts", "")
    cells = [head, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    widths[0] = min(widths[0], 90)
    for line, row in zip(cells, [None, *rows], strict=True):
        first = line[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True)]
        print("  ".join([first, *rest, line[-1]]).rstrip())
        if row is not None and row.problem and not (row.ok and not row.n_texts):
            print(f"    {row.problem[:300]}")


def main() -> None:
    """Run both trees and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="folder that holds the package of the old tree")
    parser.add_argument("new", type=Path, help="folder that holds the package of the new tree")
    parser.add_argument("--parts", nargs="+", default=[], help="parts to run; default: all")
    parser.add_argument("--list", action="store_true", help="name the parts and stop")
    parser.add_argument("--brief", action="store_true", help="totals, and cases that differ")
    parser.add_argument("--ignore-texts", action="store_true", help="let texts differ")
    parser.add_argument("--one-by-one", action="store_true", help="not both trees at a time")
    parser.add_argument("--quiet", action="store_true", help="no word while the trees run")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    options = parser.parse_args()
    if options.list:
        from tree_values import PARTS

        print("\n".join(f"{name}: {part.__doc__}" for name, part in PARTS.items()))
        return
    with tempfile.TemporaryDirectory() as folder:
        results = [Path(folder) / "old.pickle", Path(folder) / "new.pickle"]
        running = []
        for source, out in zip((options.old, options.new), results, strict=True):
            running.append(run_tree(source.resolve(), out, options.parts, options.quiet))
            if options.one_by_one:
                running[-1].wait()
        if any(one.wait() for one in running):
            sys.exit("a tree could not be run; see above")
        old, new = (pickle.loads(out.read_bytes()) for out in results)
    rows = list(rows_of(old, new, options))
    bad = [row for row in rows if not row.ok]
    noted = [row for row in rows if row.ok and row.n_texts]
    print_table([*bad, *noted] if options.brief else rows)
    print()
    print_table(totals(rows))
    count = sum(row.n_values for row in rows)
    refused = sum(row.ok and row.problem != "" and not row.n_texts for row in rows)
    print(
        f"\n{len(rows):,} cases, {count:,} values; {refused} cases refused by both trees, "
        f"{len(bad)} not ok"
    )
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
