"""The measured numbers of the pages, rewritten or checked against the results they come from.

    python scripts/measured.py            # rewrite the numbers of all pages
    python scripts/measured.py --check    # change nothing; fail where a number is another one

Two kinds of comment in a Markdown page say where its numbers come from.

A table, or all that a script prints, stands between two comments::

    <!-- measured: stacking.py table | table 1 -->
    | way | mean error | ...
    <!-- end -->

Numbers in a paragraph, a list or a table written by hand are listed by the comment before it, with
the digits as they are written and the place of each::

    <!-- numbers:
    0.57  stacking.py table | table 1 | Quantifier | to KDEy-ML on logistic regression
    0.933 coverage_default.py --tables | table 1 | lowest | covered
    -->

A place begins with a source: a script of ``benchmarks`` with the arguments that make it print its
stored results, a stored section of the page of benchmarks (``section tuning``), a page whose tables
are made from results, or a JSON file of the repository. After it comes one of

* ``table N | ROW | COLUMN``: a cell of the N-th table that is printed ("table 1+2": of two tables
  with the same columns). ROW is the first cell of the row, or several separated by " / ". "lowest",
  "highest" and "mean" take the whole column, and "count" counts its rows. "COLUMN [2]" is the
  second number of the cell, "COLUMN : OTHER" the quotient of two cells, and "COLU*" the first
  column that begins so;
* ``"words with #"``: the number in the place of # in what is printed;
* ``key.of.a.value``: of a JSON file.

``* 100`` at the end turns a share into a percentage.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
SECTIONS = BENCHMARKS / "results" / "sections"

BLOCK = re.compile(
    r"^<!-- measured: (?P<place>[^\n]*?) -->\n(?P<text>.*?)^<!-- end -->$", re.M | re.S
)
LIST = re.compile(r"^<!-- numbers:\n(?P<entries>.*?)^-->\n(?P<text>.*?)(?=^\s*$|\Z)", re.M | re.S)
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
#: Rows of a table that stand for all of its rows.
WHOLE = {
    "lowest": min,
    "highest": max,
    "mean": lambda values: sum(values) / len(values),
    "count": len,
}


class MeasuredError(ValueError):
    """A place that leads nowhere, or a number that is not in its paragraph."""


@dataclass(frozen=True)
class Fault:
    """A number or a table of a page that is not what was measured."""

    page: str
    line: int
    written: str
    measured: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.written} is written, {self.measured} was measured"


# ------------------------------------------------------------------------------------ pages


def pages() -> list[Path]:
    """Return the pages that may hold measured numbers."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    built = tuple(
        ROOT / "docs" / one for one in ("auto_examples", "api/generated", "lab/generated")
    )
    return sorted(path for path in found if not any(map(path.is_relative_to, built)))


def faults(path: Path) -> list[Fault]:
    """Return what is not as measured on a page."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    found = []
    for block in BLOCK.finditer(text):
        measured = block_text(block["place"])
        if block["text"] != measured:
            first = first_difference(block["text"], measured)
            found.append(Fault(name, _line(text, block.start()), *first))
    for listed in LIST.finditer(text):
        for written, place in entries(listed["entries"]):
            measured = written_like(written, value_at(place))
            line = _line(text, listed.start())
            if written != measured:
                found.append(Fault(name, line, written, f"{measured} ({place})"))
            elif not occurrences(written, listed["text"]):
                found.append(Fault(name, line, "no such number", written))
    return found


def rewritten(text: str) -> str:
    """Return a page with the measured numbers in the place of those that it has.

    Tables and numbers whose place leads nowhere stay as they are; :func:`faults` raises there.
    """

    def block(found: re.Match[str]) -> str:
        try:
            return f"<!-- measured: {found['place']} -->\n{block_text(found['place'])}<!-- end -->"
        except MeasuredError:
            return found[0]

    text = BLOCK.sub(block, text)
    return LIST.sub(lambda found: _rewritten_list(found["entries"], found["text"]), text)


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield each number of a list as it is written, with its place."""
    for line in text.splitlines():
        written, _, place = line.strip().partition(" ")
        if not NUMBER.fullmatch(written) or not place:
            raise MeasuredError(f"not a number and its place: {line!r}")
        yield written, place.strip()


def _rewritten_list(listed: str, text: str) -> str:
    """Return the comment and its paragraph; equal numbers are told apart by their order."""
    items = list(entries(listed))
    changes: dict[int, tuple[str, str]] = {}
    for written in dict.fromkeys(written for written, _ in items):
        new = [_renewed(written, place) for old, place in items if old == written]
        starts = occurrences(written, text)
        if not starts and all(occurrences(one, text) for one in new):
            continue  # the paragraph has been rewritten by hand, its comment has not
        if len(new) == 1:
            new *= len(starts)
        if not starts or len(new) != len(starts):
            raise MeasuredError(f"{len(new)} places, but {len(starts)} times {written} in {text!r}")
        changes |= {start: (written, one) for start, one in zip(starts, new, strict=True)}
    for start in sorted(changes, reverse=True):
        old, one = changes[start]
        text = text[:start] + one + text[start + len(old) :]
    width = max(len(written) for written, _ in items)
    lines = [f"{_renewed(written, place):{width}} {place}" for written, place in items]
    return "<!-- numbers:\n" + "\n".join(lines) + f"\n-->\n{text}"


def _renewed(written: str, place: str) -> str:
    """Return the number at a place; what is written, where the place leads nowhere."""
    try:
        return written_like(written, value_at(place))
    except MeasuredError:
        return written


def occurrences(number: str, text: str) -> list[int]:
    """Return where a number stands in a text, not as a part of a longer one."""
    whole = rf"(?<![\d.,]){re.escape(number)}(?![\d]|[.,]\d)"
    return [found.start() for found in re.finditer(whole, text)]


def first_difference(written: str, measured: str) -> tuple[str, str]:
    """Return the first lines of two texts that differ."""
    ours, theirs = [*written.splitlines(), ""], [*measured.splitlines(), ""]
    differing = (pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1])
    return next(differing, ("a table", "another number of lines"))


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


# ----------------------------------------------------------------------------------- places


def block_text(place: str) -> str:
    """Return what stands between the two comments of a block."""
    source, *rest = (part.strip() for part in place.split("|"))
    if not rest:
        return f"\n{printed(source).strip()}\n\n"
    number = re.fullmatch(r"table (\d+)", rest[0])
    if number is None or len(rest) > 1:
        raise MeasuredError(f"{place!r} does not name a table")
    lines = table(source, int(number[1]))
    return "\n" + "\n".join(lines) + "\n\n"


def value_at(place: str) -> float:
    """Return the number at a place."""
    place, times, factor = place.partition(" * ")
    source, *rest = (part.strip() for part in place.split(" | "))
    if source.endswith(".json"):
        value = _json_value(source, rest[0])
    elif len(rest) == 1:
        value = _number_in_words(source, rest[0].strip('"'))
    elif len(rest) == 3:
        value = _cell(source, rest[0], rest[1], rest[2])
    else:
        raise MeasuredError(f"{place!r} is neither a cell, nor words with #, nor a key")
    return value * float(factor) if times else value


def _cell(source: str, name: str, row: str, column: str) -> float:
    dividend, quotient, divisor = column.partition(" : ")
    if quotient:
        return _cell(source, name, row, dividend) / _cell(source, name, row, divisor)
    head, body = _rows(source, name)
    column, _, order = column.partition(" [")
    if column.endswith("*"):
        column = next((name for name in head if name.startswith(column[:-1])), column)
    if column not in head:
        raise MeasuredError(f"{name} of {source!r} has no column {column!r}, but {head}")
    index = head.index(column)
    nth = int(order.rstrip("]")) if order else 1
    if row in WHOLE:
        cells = [cells[index] for cells in body if NUMBER.search(cells[index])]
        return float(WHOLE[row]([_nth_number(cell, nth) for cell in cells]))
    keys = row.split(" / ")
    found = [cells[index] for cells in body if cells[: len(keys)] == keys]
    if len(found) != 1:
        raise MeasuredError(f"{len(found)} rows of {name} of {source!r} are {row!r}")
    return _nth_number(found[0], nth)


def _rows(source: str, name: str) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of "table 1", or of the tables of "table 1+2" in one."""
    numbers = re.fullmatch(r"table (\d+(?:\+\d+)*)", name)
    if numbers is None:
        raise MeasuredError(f"{name!r} of {source!r} does not name a table")
    tables = [[split(line) for line in table(source, int(n))] for n in numbers[1].split("+")]
    if any(lines[0] != tables[0][0] for lines in tables):
        raise MeasuredError(f"the tables of {name!r} of {source!r} have different columns")
    return tables[0][0], [row for lines in tables for row in lines[2:]]


def _nth_number(cell: str, nth: int) -> float:
    numbers = NUMBER.findall(cell)
    if len(numbers) < nth:
        raise MeasuredError(f"the cell {cell!r} does not have {nth} numbers")
    return float(numbers[nth - 1].replace(",", ""))


def _number_in_words(source: str, words: str) -> float:
    before, hole, after = words.partition("#")
    if not hole:
        raise MeasuredError(f"{words!r} has no #")
    pattern = rf"{re.escape(before)}({NUMBER.pattern}){re.escape(after)}"
    found = re.search(pattern, " ".join(printed(source).split()))
    if found is None:
        raise MeasuredError(f"{source!r} does not print {words!r}")
    return float(found[1].replace(",", ""))


def _json_value(name: str, key: str) -> float:
    value = json.loads((ROOT / name).read_text(encoding="utf-8"))
    for part in key.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return float(value)


def written_like(example: str, value: float) -> str:
    """Return a value with the decimals, separators and exponent of a number that is written."""
    if "e" in example:
        digits = len(example.partition("e")[0].partition(".")[2])
        mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
        padded = len(re.sub(r".*e[-+]?", "", example)) > 1
        power = f"{int(exponent):03d}" if padded and int(exponent) < 0 else str(int(exponent))
        return f"{mantissa}e{'+' if 'e+' in example and int(exponent) >= 0 else ''}{power}"
    decimals = len(example.partition(".")[2])
    return f"{value:{',' if ',' in example or value >= 10_000 else ''}.{decimals}f}"


# ---------------------------------------------------------------------------------- sources


def table(source: str, number: int) -> list[str]:
    """Return the lines of the N-th table that a source prints, counted from one."""
    tables: list[list[str]] = []
    before = ""
    for line in printed(source).splitlines():
        if line.startswith("|"):
            if not before.startswith("|"):
                tables.append([])
            tables[-1].append(line)
        before = line
    if not 1 <= number <= len(tables):
        raise MeasuredError(f"{source!r} prints {len(tables)} tables: there is no table {number}")
    return tables[number - 1]


def split(line: str) -> list[str]:
    """Return the cells of a line of a table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@cache
def printed(source: str) -> str:
    """Return what a source prints: a script with its arguments, or a stored section."""
    if source.startswith("section "):
        stored = json.loads((SECTIONS / f"{source.split()[1]}.json").read_text(encoding="utf-8"))
        return str(stored["printed"])
    if source.endswith(".md"):
        return (ROOT / source).read_text(encoding="utf-8")
    script, *arguments = shlex.split(source)
    path = BENCHMARKS / script
    if not path.is_file():
        raise MeasuredError(f"there is no benchmarks/{script}")
    output = io.StringIO()
    before = sys.argv, sys.path
    try:
        sys.argv, sys.path = [str(path), *arguments], [str(path.parent), *sys.path]
        with redirect_stdout(output):
            runpy.run_path(str(path), run_name="__main__")
    except Exception as error:
        raise MeasuredError(f"benchmarks/{source} fails with {error!r}") from error
    finally:
        sys.argv, sys.path = before
    return output.getvalue()


def main() -> None:
    """Rewrite or check all pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if stale")
    check = parser.parse_args().check
    stale = 0
    broken = 0
    for path in pages():
        try:
            found = faults(path)
        except MeasuredError as error:
            broken += 1
            found = []
            print(f"{path.relative_to(ROOT)}: {error}")
        stale += len(found)
        for fault in found:
            print(fault)
        text = path.read_text(encoding="utf-8")
        new = text if check else rewritten(text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: rewritten")
    if broken:
        sys.exit(f"{broken} pages name places that lead nowhere")
    if check and stale:
        sys.exit(f"{stale} numbers are not what was measured: run python scripts/measured.py")


if __name__ == "__main__":
    main()
