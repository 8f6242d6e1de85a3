"""Compare what two trees of kdey answer, on this machine and on the same inputs.

``python scripts/compare_trees.py OLD_SRC NEW_SRC [--parts NAME ...] [--brief]`` runs
``scripts/tree_values.py`` once with each of the folders on ``PYTHONPATH``, both with the same
number of threads, and prints for every case how many values it has, the largest absolute
difference between the trees, and whether that is at most 1e-10. Texts must be the same, but for
dates and versions, and for words that were replaced on purpose.

A case that both trees refuse with the same type of error agrees, and is shown as refused; not so
where the error is of a name, a module or a parameter that is not there, because such a case
compares nothing. The exit code is 1 where a case differs, is missing, or is refused by one tree
alone. What differs on purpose stands in ``scripts/intended_changes.toml`` with its reason, and is
shown as intended.

Words may be changed on purpose: ``--ignore-texts`` shows differences of texts without counting
them.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORKER = Path(__file__).with_name("tree_values.py")
INTENDED = Path(__file__).with_name("intended_changes.toml")
TOLERANCE = 1e-10
#: Errors of something that a tree does not have, or that is called otherwise there.
INTERFACE = ("AttributeError", "ImportError", "ModuleNotFoundError", "NameError", "TypeError")
#: An editable install finds its own kdey before PYTHONPATH is looked at, in every process that is
#: started; so each of them drops such finders as it starts.
WITHOUT_FINDERS = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if "_editable" not in type(f).__module__]
"""
#: Numbers, texts and the error of a case.
Case = tuple[NDArray[np.float64], list[str], str]


@dataclass(frozen=True)
class Intended:
    """A change that is meant.

    Attributes
    ----------
    cases : str
        Pattern of the cases, as "part: case"; it must match the whole.
    reason : str
    tolerance : float
        Numbers may differ by so much; inf: by anything, and their number too.
    texts : bool
        Whether texts may differ.
    refused : {"", "new", "both"}
        The tree that may refuse the case, whatever its error.
    """

    cases: str
    reason: str
    tolerance: float = TOLERANCE
    texts: bool = False
    refused: str = ""

    def covers(self, row: Row) -> bool:
        """Whether the difference of a row is the one that is meant."""
        if not re.fullmatch(self.cases, f"{row.part}: {row.case}"):
            return False
        if row.refused:
            return row.refused == self.refused
        return row.difference <= self.tolerance and (self.texts or not row.n_texts)


def read_intended(path: Path = INTENDED) -> list[Intended]:
    """Return the changes that are meant."""
    return [Intended(**entry) for entry in tomllib.loads(path.read_text())["change"]]


def read_wording(path: Path = INTENDED) -> list[tuple[re.Pattern[str], str]]:
    """Return patterns of words that were replaced on purpose, and what both trees get instead."""
    words = tomllib.loads(path.read_text())["words"]
    return [(re.compile(entry["pattern"]), entry["instead"]) for entry in words]


def reworded(text: str, wording: Sequence[tuple[re.Pattern[str], str]]) -> str:
    """Return a text with the words that count as the same made the same."""
    for pattern, instead in wording:
        text = pattern.sub(instead, text)
    return text


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
    refused : {"", "old", "new", "both"}
        The trees that did not answer.
    ok : bool
    intended : str
        Why a difference is meant.
    """

    part: str
    case: str
    n_values: int
    difference: float
    n_texts: int
    problem: str
    refused: str
    ok: bool
    intended: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        agrees = "intended" if self.intended else "refused" if self.refused else "ok"
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
    (out.parent / "sitecustomize.py").write_text(WITHOUT_FINDERS)
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join([str(out.parent), str(source)])
    environment = os.environ | one | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", str(WORKER), str(out), *parts],
        env=environment,
        stderr=subprocess.DEVNULL if quiet else None,
    )


def compare(part: str, case: str, old: Case, new: Case, options: Any) -> Row:
    """Compare what two trees gave for a case."""
    if old[2] or new[2]:
        return _refused(part, case, old[2], new[2])
    a, b = old[0], new[0]
    texts = [[reworded(text, options.wording) for text in case[1]] for case in (old, new)]
    pairs = [(x, y) for x, y in zip(*texts, strict=False) if x != y]
    n_texts = len(pairs) + abs(len(old[1]) - len(new[1]))
    if len(a) != len(b):
        problem = f"{len(a)} numbers in the old tree, {len(b)} in the new"
        return Row(part, case, len(a), np.inf, n_texts, problem, "", False)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    apart = np.abs(np.where(same, 0.0, a) - np.where(same, 0.0, b))
    difference = float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))
    problem = ""
    if n_texts:
        problem = shown(*pairs[0]) if pairs else "another number of texts"
    ok = difference <= options.tolerance and (n_texts == 0 or options.ignore_texts)
    return Row(part, case, len(a) + len(old[1]), difference, n_texts, problem, "", ok)


def _refused(part: str, case: str, old: str, new: str) -> Row:
    """Return the row of a case that at least one tree refused."""
    kinds = [error.partition(":")[0] for error in (old, new)]
    told = "; ".join(
        f"the {which} tree {f'raised {error}' if error else 'answered'}"
        for which, error in (("old", old), ("new", new))
    )
    ok = kinds[0] == kinds[1] and kinds[0] not in INTERFACE
    which = "both" if all(kinds) else "old" if kinds[0] else "new"
    return Row(part, case, 0, 0.0, 0, told, which, ok)


def shown(old: str, new: str, around: int = 50) -> str:
    """Return where two texts begin to differ."""
    start = next((i for i, (x, y) in enumerate(zip(old, new, strict=False)) if x != y), 0)
    here = slice(max(start - around, 0), start + around)
    return f"{old[here]!r} became {new[here]!r}"


def rows_of(
    old: dict[str, dict[str, Case]], new: dict[str, dict[str, Case]], options: Any
) -> Iterator[Row]:
    """Yield a row for every case of either tree."""
    absent: Case = (np.zeros(0), [], "KeyError: there is no such case")
    intended = read_intended()
    for part, cases in old.items():
        others = new.get(part, {})
        for case in dict.fromkeys([*cases, *others]):
            row = compare(part, case, cases.get(case, absent), others.get(case, absent), options)
            meant = next((one for one in intended if not row.ok and one.covers(row)), None)
            yield row if meant is None else replace(row, ok=True, intended=meant.reason)


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
        if row is not None and row.problem and (not row.ok or row.n_texts):
            print(f"    {row.problem[:300]}")
        if row is not None and row.intended:
            print(f"    intended: {row.intended}")


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
    options.wording = read_wording()
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
    noted = [row for row in rows if row.ok and (row.n_texts or row.intended)]
    print_table([*bad, *noted] if options.brief else rows)
    print()
    print_table(totals(rows))
    count = sum(row.n_values for row in rows)
    refused = sum(row.ok and row.refused == "both" and not row.intended for row in rows)
    intended = sum(row.intended != "" for row in rows)
    print(
        f"\n{len(rows):,} cases, {count:,} values; {refused} cases refused by both trees, "
        f"{intended} changed as intended, {len(bad)} not ok"
    )
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
