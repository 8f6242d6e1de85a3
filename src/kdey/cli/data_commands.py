"""``kdey data``: list, fetch, locate and check data sets. ``kdey demo``: data to try.

``kdey demo`` compares the paper's methods on handwritten digits whose mix has shifted.
``kdey demo --tables DIR`` writes two small tables instead, to try the other commands on. Numbered
forms come in at two offices; the digit on each was scanned at a quarter of its pixels.
``labelled.csv`` holds scans that people have read, ``new.csv`` scans that nobody has, with the
office and the day. Small digits are more frequent among the new forms than among the labelled
ones, and most frequent in the north. The scans are scikit-learn's handwritten digits, offices and
days are made up. No chance is involved: the files are the same on every machine.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.terminal import PROBLEMS, USER_ERRORS, guarded, refusal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kdey.datasets.registry import Entry
    from kdey.tables.output import RowKind, Table

    Array = NDArray[np.float64]

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
    from rich.console import Console

    from kdey.datasets.download import place
    from kdey.datasets.registry import GROUPS, entries
    from kdey.tables.output import Cell, Heading, Row, Table, terminal_table

    if group is not None and group not in GROUPS:
        raise click.BadParameter(f"must be one of {', '.join(GROUPS)}", param_hint="--group")
    columns = tuple(
        Heading(heading, numeric=heading in ("rows", "classes"))
        for heading in ("name", "group", "rows", "classes", "found")
    )
    rows = []
    with _one_line_errors():
        for entry in entries():
            if group in (None, entry.group):
                numbers = (f"{n:,}" if n is not None else "" for n in (entry.rows, entry.classes))
                location = place(entry, data_dir)
                texts = (entry.short_name, entry.group, *numbers, location)
                kind: RowKind = "muted" if location == "missing" else "plain"
                rows.append(Row(tuple(map(Cell, texts)), kind))
    console = Console(highlight=False)
    console.print(terminal_table(Table("data sets", "Data sets", columns, tuple(rows))))
    console.print("missing: `kdey data fetch NAME`, or set KDEY_DATA to a directory that has it")


@data.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--retries", default=3, type=click.IntRange(min=0))
def fetch(names: tuple[str, ...], retries: int) -> None:
    """Download data sets from their official homes into the cache.

    NAMES are data sets or whole groups. Checksums are recorded on the first download and compared
    afterwards. UCI files are converted into one table each; what is done is printed.
    """
    from kdey.datasets.download import fetch as get

    failed = False
    for entry in _entries(names):
        try:
            with _one_line_errors():
                for path in get(entry.full_name, retries=retries, say=click.echo):
                    click.echo(path)
        except click.ClickException as error:
            error.show()
            failed = True
    if failed:
        raise click.exceptions.Exit(PROBLEMS)


@data.command()
@click.argument("name")
@_DIRECTORY
def path(name: str, data_dir: str | None) -> None:
    """Print the paths of the files of a data set."""
    from kdey.datasets.download import paths

    (entry,) = _entries((name,), groups=False)
    with _one_line_errors():
        files = paths(entry, data_dir)
    for place in files:
        click.echo(place)
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
    from kdey.datasets.download import check as examine, place
    from kdey.datasets.registry import entries

    with _one_line_errors():
        chosen = _entries(names) or [e for e in entries() if place(e, data_dir) != "missing"]
        problems = [
            (entry.full_name, text) for entry in chosen for text in examine(entry, data_dir)
        ]
    for name, problem in problems:
        click.echo(f"{name}: {problem.removeprefix(f'{name}: ')}")
    click.echo(f"{len(chosen)} data sets checked, {len(problems)} problems", err=True)
    if problems:
        raise click.exceptions.Exit(PROBLEMS)


def _entries(names: tuple[str, ...], groups: bool = True) -> list[Entry]:
    """Return the data sets of names and groups; an unknown one is a usage error."""
    from kdey.datasets.registry import GROUPS, entries, find

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


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn what the library says into one line and exit code 2."""
    try:
        yield
    except USER_ERRORS as error:
        raise refusal(error) from error


_BAG_SIZE = 500


@click.command()
@click.option("--bags", default=200, help="Number of test bags.")
@click.option("--seed", default=0, help="Seed of the splits and bags.")
@click.option(
    "--tables",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write two small tables into this folder instead, to try the other commands on.",
)
@guarded
def demo(bags: int, seed: int, tables: Path | None) -> None:
    """Compare the paper's methods on handwritten digits, or write two tables to try."""
    if tables is None:
        run_demo(n_bags=bags, seed=seed)
    else:
        _write_tables(tables)


def _write_tables(folder: Path) -> None:
    """Write the two tables, and print what can be done with them."""
    labelled, new = write_demo_tables(folder)
    model, page = folder / "forms.kdey", folder / "forms.html"
    click.echo(
        f"{click.format_filename(labelled)}: scans of digits that people have read\n"
        f"{click.format_filename(new)}: scans that nobody has read, from two offices\n"
        "Which digits came in at each office? Try:\n"
        f"  kdey fit {_word(labelled)} --label digit -o {_word(model)}\n"
        f"  kdey estimate {_word(model)} {_word(new)} --by office\n"
        f"  kdey report {_word(model)} {_word(new)} --by office -o {_word(page)}"
    )


def _word(path: Path) -> str:
    """Return a path as one word of a shell."""
    return shlex.quote(click.format_filename(path))


def demo_methods(seed: int) -> dict[str, Any]:
    """Return the twelve methods of the paper and the two baselines below them."""
    import kdey

    return {
        "CC": kdey.CC(),
        "PCC": kdey.PCC(),
        "ACC": kdey.ACC(),
        "PACC": kdey.PACC(),
        "HDy-OvA": kdey.OneVsAll(kdey.HDy()),
        "DM-T": kdey.DM(divergence="topsoe"),
        "DM-HD": kdey.DM(divergence="hellinger"),
        "DM-CS": kdey.DM(divergence="cauchy-schwarz"),
        "EMQ": kdey.EMQ(),
        "EMQ-BCTS": kdey.EMQ(calibration="bcts"),
        "DIR": kdey.DIR(),
        "KDEy-HD": kdey.KDEyHD(random_state=seed),
        "KDEy-CS": kdey.KDEyCS(),
        "KDEy-ML": kdey.KDEyML(),
    }


def run_demo(*, n_bags: int = 200, seed: int = 0) -> None:
    """Fit, draw shifted bags, estimate, and print the results."""
    import numpy as np
    from rich.console import Console
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from kdey.evaluation.protocols import DirichletProtocol
    from kdey.metrics import absolute_error
    from kdey.posteriors import predict_posteriors, training_posteriors
    from kdey.tables.output import terminal_table

    console = Console(highlight=False)
    digits = load_digits()
    # Every second pixel only: the classifier makes mistakes, as classifiers do in practice.
    X = digits.images[:, ::2, ::2].reshape(len(digits.images), -1)
    X_train, X_pool, y_train, y_pool = train_test_split(
        X, digits.target, train_size=0.5, stratify=digits.target, random_state=seed
    )
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    fitted, training = training_posteriors(
        classifier, X_train, y_train, np.arange(10), cv=10, random_state=seed
    )
    pool = predict_posteriors(fitted, X_pool, np.arange(10))
    bags = DirichletProtocol(n_bags, _BAG_SIZE, seed, concentration=0.3).bags(y_pool)
    accuracy = float(np.mean(pool.argmax(axis=1) == y_pool))
    console.print(
        "\n[bold]Handwritten digits at a quarter of their pixels.[/bold] A logistic regression "
        f"learnt from {len(y_train)} labelled images is right on {accuracy:.0%} of new ones. In "
        f"training each digit makes up about 10 %. We draw {n_bags} bags of {_BAG_SIZE} images "
        "whose mix is quite another, often dominated by a few digits, and ask how many per cent "
        "of each digit a bag holds.\n"
    )
    estimates, errors, seconds = {}, {}, {}
    for name, method in demo_methods(seed).items():
        start = time.perf_counter()
        method.fit_posteriors(training.required(), training.labels)
        estimates[name] = method.aggregate_bags(pool, bags.bags)
        seconds[name] = time.perf_counter() - start
        errors[name] = absolute_error(bags.prevalences, estimates[name])
    console.print(terminal_table(_errors_table(errors, seconds), titled=True))
    console.print(terminal_table(_example_table(estimates, bags.prevalences), titled=True))
    console.print(_summary({name: float(values.mean()) for name, values in errors.items()}))


def _errors_table(errors: dict[str, Array], seconds: dict[str, float]) -> Table:
    from kdey.tables.output import Cell, Row, Table, headings

    names = ("mean", "worst bag", "ms per bag with fit")
    best = min(values.mean() for values in errors.values())
    rows = []
    for name, values in errors.items():
        milliseconds = 1000 * seconds[name] / len(values)
        texts = (f"{100 * values.mean():.2f}", f"{100 * values.max():.2f}", f"{milliseconds:.2f}")
        kind: RowKind = "best" if values.mean() == best else "plain"
        rows.append(Row.named(name, map(Cell, texts), kind))
    title = "Mean absolute error per class, in percentage points"
    return Table("errors", title, headings("method", names), tuple(rows))


def _example_table(estimates: dict[str, Array], true: Array) -> Table:
    """Return one strongly shifted bag, digit by digit."""
    from kdey.tables.output import Cell, Row, Table, headings

    bag = int(abs(true - 0.1).sum(axis=1).argmax())
    shares = {"truth": true[bag], **{name: estimates[name][bag] for name in ("CC", "KDEy-ML")}}
    rows = [
        Row.named("training", [Cell("10")] * 10),
        *(
            Row.named(name, [Cell(f"{100 * share:.1f}") for share in values])
            for name, values in shares.items()
        ),
    ]
    title = f"The most shifted bag (number {bag}), per cent of each digit"
    return Table("example", title, headings("", [str(digit) for digit in range(10)]), tuple(rows))


def _summary(errors: dict[str, float]) -> str:
    best = min(errors, key=lambda name: errors[name])
    return (
        "\n[bold]What you just saw.[/bold] Counting the classifier's decisions (CC) is off by "
        f"{100 * errors['CC']:.2f} points per digit: its mistakes spill from the frequent digits "
        "into the rare ones, and counting cannot tell. Methods that know how the classifier errs "
        f"undo this: {best} is best here with {100 * errors[best]:.2f} points, "
        f"{errors['CC'] / errors[best]:.1f} times closer than counting; KDEy-ML, which "
        f"chose its own bandwidths, has {100 * errors['KDEy-ML']:.2f}. All methods saw the same "
        "classifier, the same training posteriors and the same bags.\n"
    )


LABELLED, NEW = "labelled.csv", "new.csv"
_FIRST_DAY = date(2026, 1, 5)  # a Monday
_N_DAYS = 14


def demo_forms() -> dict[str, NDArray[Any]]:
    """Return "pixels" (n, 16), "digits" (n,) and "offices" (n,) of all forms.

    "labelled" and "new", of shape (n,), are true for the forms of ``labelled.csv`` and of
    ``new.csv``. Those that are neither are in no file.
    """
    import numpy as np
    from sklearn.datasets import load_digits

    bunch = load_digits()
    digits = np.asarray(bunch.target, dtype=np.int64)
    pixels = bunch.images[:, ::2, ::2].reshape(len(digits), -1).astype(np.int64)
    position = np.arange(len(digits))
    small = digits < 4
    offices = np.where(small ^ (position % 5 == 0), "north", "south")
    even = position % 2 == 0
    # Every third of the large digits is new: those for which no office looks unlike its training.
    new = ~even & (small | (position % 3 == 1))
    return {"pixels": pixels, "digits": digits, "offices": offices, "labelled": even, "new": new}


def write_demo_tables(folder: Path) -> tuple[Path, Path]:
    """Write ``labelled.csv`` and ``new.csv`` into a folder, which is made if it does not exist.

    Parameters
    ----------
    folder : Path
        Where the files go. Files of these names that hold anything else are not overwritten.

    Returns
    -------
    labelled, new : Path
        The two files.

    Raises
    ------
    ValueError
        If the folder has another file of one of these names. No file is written then.
    """
    from kdey.tables.output import csv_text

    forms = demo_forms()
    pixels, digits = forms["pixels"].tolist(), forms["digits"].tolist()
    names = [f"p{number}" for number in range(len(pixels[0]))]
    labelled = [[*pixels[i], digits[i]] for i in forms["labelled"].nonzero()[0].tolist()]
    new = [
        [forms["offices"][i], _FIRST_DAY + timedelta(days=i % _N_DAYS), *pixels[i]]
        for i in forms["new"].nonzero()[0].tolist()
    ]
    contents = {
        folder / LABELLED: csv_text([*names, "digit"], labelled),
        folder / NEW: csv_text(["office", "day", *names], new),
    }
    for path, text in contents.items():
        if path.exists() and path.read_bytes() != text.encode():
            raise ValueError(
                f"{path} exists and is another table, which would be lost: name another folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in contents.items():
        path.write_bytes(text.encode())
    return folder / LABELLED, folder / NEW
