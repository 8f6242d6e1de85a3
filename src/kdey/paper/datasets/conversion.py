"""Applying a recipe: the text of the UCI archive to a table of the data directory."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from kdey._support.files import write_whole
from kdey.paper.datasets.recipes import Recipe
from kdey.paper.datasets.registry import Entry


def convert(entry: Entry, recipe: Recipe, downloads: list[Path], target: Path) -> None:
    """Write the table of a data set, or raise and write nothing.

    Parameters
    ----------
    entry : Entry
        Rows, features and classes must come out as it says.
    recipe : Recipe
    downloads : list of Path
        In the order of the recipe's URLs.
    target : Path
        The ``.csv.gz`` to write; it is there whole or not at all.
    """
    rows = [row for path in downloads for row in _rows(path, recipe)]
    names = _names(entry, len(rows[0]) - 1)
    _compare(entry, rows, downloads)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[*names, "label"], *rows])
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, gzip.compress(text.getvalue().encode(), mtime=0))


def _names(entry: Entry, n_features: int) -> list[str]:
    """Return column names; columns of words keep those by which the registry knows them."""
    if len(entry.categorical) == n_features:
        return list(entry.categorical)
    names = [f"x{j}" for j in range(n_features)]
    for j, name in _WORD_COLUMNS.get(entry.name, {}).items():
        names[j] = name
    return names


_WORD_COLUMNS = {
    "abalone": {0: "sex"},
    "chess-krk": {0: "wk_file", 2: "wr_file", 4: "bk_file"},
}


def _rows(path: Path, recipe: Recipe) -> list[list[str]]:
    """Return the rows of one download, features first, label last."""
    lines = _text(path, recipe.member).splitlines()
    if (recipe.member or "").endswith(".arff"):
        marks = [n for n, line in enumerate(lines, start=1) if line.strip().lower() == "@data"]
        lines = lines[marks[0] :] if marks else []
    if recipe.header:
        lines = lines[1:]
    made = []
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip().strip('"') for cell in line.split(recipe.delimiter)]
        if line.strip() and (recipe.missing is None or recipe.missing not in cells):
            made.append(_row(path, number, cells, recipe))
    if not made:
        raise ValueError(f"{path}: no rows of data")
    return made


def _row(path: Path, number: int, cells: list[str], recipe: Recipe) -> list[str]:
    try:
        label = cells[recipe.label]
    except IndexError:
        raise ValueError(
            f"{path}, row {number}: {len(cells)} cells, the label is in column {recipe.label}; "
            "is this the data file?"
        ) from None
    kept = len(cells) if recipe.features is None else recipe.features
    skipped = {*recipe.drop, recipe.label % len(cells)}
    codes = dict(recipe.codes)
    features = [codes.get(cells[j], cells[j]) for j in range(kept) if j not in skipped]
    if recipe.positive:
        # Some files write labels as numbers with decimals: 1.0000.
        label = (
            "1" if label.partition(".")[0] in recipe.positive or label in recipe.positive else "0"
        )
    return [*features, label]


def _text(path: Path, member: str | None) -> str:
    try:
        if member is None:
            return path.read_text(encoding="utf-8-sig")
        with ZipFile(path) as archive:
            return archive.read(member).decode("utf-8-sig")
    except (BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as the data file ({error})") from error


def _compare(entry: Entry, rows: list[list[str]], downloads: list[Path]) -> None:
    where = " + ".join(path.name for path in downloads)
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise ValueError(f"{where}: rows of {min(widths)} to {max(widths)} columns")
    found = (len(rows), len(rows[0]) - 1, len({row[-1] for row in rows}))
    wanted = (entry.rows, entry.features, entry.classes)
    if found != wanted:
        raise ValueError(
            f"{where}: rows, features and classes are {found}, {entry.full_name} has {wanted}"
        )
