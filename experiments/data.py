"""``python -m experiments data``: lists, fetches, locates and checks the data sets of the paper."""

from __future__ import annotations

import click
from rich.console import Console

from experiments.download import check as examine, fetch as get, paths, place
from kdey.cli.terminal import PROBLEMS, USER_ERRORS, refusal, saying_what_is_logged
from kdey.datasets.registry import GROUPS, Entry, entries, find
from kdey.tables.output import Cell, Heading, Row, RowKind, Table, terminal_table

_DIRECTORY = click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False),
    help="Look there alone, not in $KDEY_DATA and the cache.",
)


@click.group()
def data() -> None:
    """List, fetch, locate and check the data sets of the paper."""


@data.command(name="list")
@click.option("--group", help="Only this group.")
@_DIRECTORY
def list_(group: str | None, data_dir: str | None) -> None:
    """Print all data sets and where they are found now."""
    if group is not None and group not in GROUPS:
        raise click.BadParameter(f"must be one of {', '.join(GROUPS)}", param_hint="--group")
    columns = tuple(
        Heading(heading, numeric=heading in ("rows", "classes"))
        for heading in ("name", "group", "rows", "classes", "found")
    )
    rows = []
    for entry in entries():
        if group in (None, entry.group):
            numbers = (f"{n:,}" if n is not None else "" for n in (entry.rows, entry.classes))
            location = place(entry, data_dir)
            texts = (entry.short_name, entry.group, *numbers, location)
            kind: RowKind = "muted" if location == "missing" else "plain"
            rows.append(Row(tuple(map(Cell, texts)), kind))
    console = Console(highlight=False)
    console.print(terminal_table(Table("data sets", "Data sets", columns, tuple(rows))))
    console.print(
        "missing: `python -m experiments data fetch NAME`, or set KDEY_DATA to a directory that "
        "has it"
    )


@data.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--retries", default=3, show_default=True, type=click.IntRange(min=0))
def fetch(names: tuple[str, ...], retries: int) -> None:
    """Download data sets from their official homes into the cache.

    NAMES are data sets or whole groups. Checksums are recorded on the first download and compared
    afterwards. UCI files are converted into one table each; what is done is said on standard error.
    """
    failed = False
    for entry in _entries(names):
        try:
            with saying_what_is_logged():
                for path in get(entry.full_name, retries=retries):
                    click.echo(path)
        except USER_ERRORS as error:
            refusal(error).show()
            failed = True
    if failed:
        raise click.exceptions.Exit(PROBLEMS)


@data.command()
@click.argument("name")
@_DIRECTORY
def path(name: str, data_dir: str | None) -> None:
    """Print the paths of the files of a data set."""
    (entry,) = _entries((name,), groups=False)
    files = paths(entry, data_dir)
    for file in files:
        click.echo(file)
    if not files:
        click.echo(f"{entry.full_name} comes with scikit-learn: it has no file", err=True)


@data.command()
@click.argument("names", nargs=-1)
@_DIRECTORY
def check(names: tuple[str, ...], data_dir: str | None) -> None:
    """Verify the files of data sets: checksum, columns, labels, numbers of rows and classes.

    NAMES are data sets or whole groups; by default all that are found. The exit code is 1 if
    anything is wrong.
    """
    chosen = _entries(names) or [e for e in entries() if place(e, data_dir) != "missing"]
    problems = [(entry.full_name, text) for entry in chosen for text in examine(entry, data_dir)]
    for name, problem in problems:
        click.echo(f"{name}: {problem.removeprefix(f'{name}: ')}")
    click.echo(f"{len(chosen)} data sets checked, {len(problems)} problems", err=True)
    if problems:
        raise click.exceptions.Exit(PROBLEMS)


def _entries(names: tuple[str, ...], groups: bool = True) -> list[Entry]:
    """Return the data sets of names and groups; an unknown one is a usage error."""
    chosen = []
    for name in names:
        if groups and name in GROUPS:
            chosen += [entry for entry in entries() if entry.group == name]
            continue
        try:
            chosen.append(find(name))
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    return chosen
