"""Name the lines of Python that no test runs, each with the reason.

``python scripts/uncovered.py [--report FILE]`` reads what ``make coverage`` has measured and
``uncovered.toml``, which says of files, or of lines that match a pattern, why they stay so. It
fails where less than ``ENOUGH`` of all lines is covered.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

from coverage import Coverage

ROOT = Path(__file__).parents[1]
ENOUGH = 0.95
UNKNOWN = "No reason but time: tests are welcome"


def main() -> int:
    """Print or write the list; return 1 where too little is covered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    total, missing = measured()
    count = sum(map(len, missing.values()))
    share = 1 - count / total
    text = f"{total} lines, {total - count} covered: {share:.1%}\n" + listed(missing)
    if options.report is None:
        print(text)
    else:
        options.report.write_text(text)
    return int(share < ENOUGH)


def measured() -> tuple[int, dict[str, list[int]]]:
    """Return the number of lines that could run, and those that did not, by file."""
    coverage = Coverage(config_file=str(ROOT / "pyproject.toml"))
    coverage.load()
    total, missing = 0, {}
    for file in sorted((ROOT / "src" / "kdey").rglob("*.py")):
        _, could, _, not_run, _ = coverage.analysis2(str(file))
        total += len(could)
        if not_run:
            missing[str(file.relative_to(ROOT / "src"))] = not_run
    return total, missing


def listed(missing: dict[str, list[int]]) -> str:
    """Return the lines grouped by reason, as Markdown."""
    rules = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["reason"]
    groups: dict[str, list[str]] = {rule["why"]: [] for rule in rules} | {UNKNOWN: []}
    for file, numbers in missing.items():
        source = (ROOT / "src" / file).read_text().splitlines()
        reasons: dict[str, list[int]] = {}
        for number in numbers:
            reasons.setdefault(reason(file, source[number - 1], rules), []).append(number)
        for why, mine in reasons.items():
            groups[why].append(f"`{file}`: {ranges(mine)}")
    parts = [f"\n**{why}.** {'; '.join(lines)}.\n" for why, lines in groups.items() if lines]
    return "".join(parts)


def reason(file: str, line: str, rules: list[dict[str, str]]) -> str:
    """Return why a line is not run: the first rule that fits."""
    for rule in rules:
        if fnmatch(file, rule["file"]) and re.search(rule.get("line", ""), line):
            return rule["why"]
    return UNKNOWN


def ranges(numbers: list[int]) -> str:
    """Return 3, 4, 5, 9 as "3-5, 9"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


if __name__ == "__main__":
    sys.exit(main())
