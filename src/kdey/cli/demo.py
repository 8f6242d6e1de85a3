"""``kdey demo``: the paper's methods on handwritten digits whose mix has shifted.

``kdey demo --tables DIR`` writes two small tables instead, to try the other commands on. Numbered
forms come in at two offices; the digit on each was scanned at a quarter of its pixels.
``labelled.csv`` holds scans that people have read, ``new.csv`` scans that nobody has, with the
office and the day. Small digits are more frequent among the new forms than among the labelled
ones, and most frequent in the north. The scans are scikit-learn's handwritten digits, offices and
days are made up. No chance is involved: the files are the same on every machine.
"""

from __future__ import annotations

import csv
import io
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdey import ACC, CC, DIR, DM, EMQ, PACC, PCC, HDy, KDEyCS, KDEyHD, KDEyML, OneVsAll
from kdey.cli.printing import guarded
from kdey.evaluation.protocols import DirichletProtocol, LabelledBags
from kdey.metrics import absolute_error
from kdey.posteriors import Posteriors, TrainingPosteriors, predict_posteriors, training_posteriors
from kdey.quantifiers.aggregative import AggregativeQuantifier
from kdey.tables.output import Cell, Row, RowKind, Table, headings, terminal_table

if TYPE_CHECKING:
    from rich.console import Console


Array = NDArray[np.float64]
PosteriorQuantifier: TypeAlias = AggregativeQuantifier | OneVsAll
_BAG_SIZE = 500


@click.command()
@click.option("--bags", default=200, show_default=True, help="Number of test bags.")
@click.option("--seed", default=0, show_default=True, help="Seed of the splits and bags.")
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


def demo_methods(seed: int) -> dict[str, PosteriorQuantifier]:
    """Return the twelve methods of the paper and the two baselines below them."""
    return {
        "CC": CC(),
        "PCC": PCC(),
        "ACC": ACC(),
        "PACC": PACC(),
        "HDy-OvA": OneVsAll(HDy()),
        "DM-T": DM(divergence="topsoe"),
        "DM-HD": DM(divergence="hellinger"),
        "DM-CS": DM(divergence="cauchy-schwarz"),
        "EMQ": EMQ(),
        "EMQ-BCTS": EMQ(calibration="bcts"),
        "DIR": DIR(),
        "KDEy-HD": KDEyHD(random_state=seed),
        "KDEy-CS": KDEyCS(),
        "KDEy-ML": KDEyML(),
    }


def run_demo(*, n_bags: int = 200, seed: int = 0) -> None:
    """Fit, draw shifted bags, estimate, and print the results."""
    from rich.console import Console

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
    protocol = DirichletProtocol(n_bags, _BAG_SIZE, seed, concentration=0.3)
    bags = protocol.bags(y_pool)
    accuracy = float(np.mean(pool.argmax(axis=1) == y_pool))
    _print_setting(console, len(y_train), accuracy, n_bags)
    outcomes = {
        name: _evaluate(method, training, pool, bags) for name, method in demo_methods(seed).items()
    }
    console.print(terminal_table(_errors_table(outcomes), titled=True))
    console.print(terminal_table(_example_table(outcomes, bags), titled=True))
    _print_summary(console, outcomes)


def _print_setting(console: Console, n_training: int, accuracy: float, n_bags: int) -> None:
    console.print(
        "\n[bold]Handwritten digits at a quarter of their pixels.[/bold] A logistic regression "
        f"learnt from {n_training} labelled images is right on {accuracy:.0%} of new ones. In "
        f"training each digit makes up about 10 %. We draw {n_bags} bags of {_BAG_SIZE} images "
        "whose mix is quite another, often dominated by a few digits, and ask how many per cent "
        "of each digit a bag holds.\n"
    )


@dataclass(frozen=True)
class Outcome:
    """What one method gave: estimates (n_bags, k), absolute errors (n_bags,), and its time."""

    estimates: Array
    errors: Array
    seconds: float


def _evaluate(
    method: PosteriorQuantifier, training: TrainingPosteriors, pool: Posteriors, bags: LabelledBags
) -> Outcome:
    start = time.perf_counter()
    method.fit_posteriors(training.required(), training.labels)
    estimates = method.aggregate_bags(pool, bags.bags)
    seconds = time.perf_counter() - start
    return Outcome(estimates, absolute_error(bags.prevalences, estimates), seconds)


def _errors_table(outcomes: dict[str, Outcome]) -> Table:
    names = ("mean", "worst bag", "ms per bag with fit")
    best = min(outcome.errors.mean() for outcome in outcomes.values())
    rows = []
    for name, outcome in outcomes.items():
        errors, milliseconds = outcome.errors, 1000 * outcome.seconds / len(outcome.estimates)
        texts = (f"{100 * errors.mean():.2f}", f"{100 * errors.max():.2f}", f"{milliseconds:.2f}")
        kind: RowKind = "best" if errors.mean() == best else "plain"
        rows.append(Row.named(name, map(Cell, texts), kind))
    title = "Mean absolute error per class, in percentage points"
    return Table("errors", title, headings("method", names), tuple(rows))


def _example_table(outcomes: dict[str, Outcome], bags: LabelledBags) -> Table:
    """Return one strongly shifted bag, digit by digit."""
    bag = int(np.argmax(np.abs(bags.prevalences - 0.1).sum(axis=1)))
    rows = [
        Row.named("training", [Cell("10")] * 10),
        Row.named("truth", _percent(bags.prevalences[bag])),
        *(Row.named(name, _percent(outcomes[name].estimates[bag])) for name in ("CC", "KDEy-ML")),
    ]
    title = f"The most shifted bag (number {bag}), per cent of each digit"
    return Table("example", title, headings("", [str(digit) for digit in range(10)]), tuple(rows))


def _percent(prevalence: Array) -> list[Cell]:
    return [Cell(f"{100 * share:.1f}") for share in prevalence]


def _print_summary(console: Console, outcomes: dict[str, Outcome]) -> None:
    errors = {name: float(outcome.errors.mean()) for name, outcome in outcomes.items()}
    best = min(errors, key=lambda name: errors[name])
    console.print(
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


@dataclass(frozen=True)
class Forms:
    """Scanned forms: pixels (n, 16), digits (n,), offices (n,), and which file each is in.

    ``labelled`` and ``new``, of shape (n,), are true for the forms of ``labelled.csv`` and of
    ``new.csv``.
    """

    pixels: NDArray[np.int64]
    digits: NDArray[np.int64]
    offices: NDArray[np.str_]
    labelled: NDArray[np.bool_]
    new: NDArray[np.bool_]

    @property
    def pixel_names(self) -> list[str]:
        """The names of the columns of pixels."""
        return [f"p{number}" for number in range(self.pixels.shape[1])]


def demo_forms() -> Forms:
    """Return all forms. Those that are neither labelled nor new are in no file."""
    bunch = load_digits()
    digits = np.asarray(bunch.target, dtype=np.int64)
    pixels = bunch.images[:, ::2, ::2].reshape(len(digits), -1).astype(np.int64)
    position = np.arange(len(digits))
    small = digits < 4
    offices = np.where(small ^ (position % 5 == 0), "north", "south")
    even = position % 2 == 0
    # Every third of the large digits is new: those for which no office looks unlike its training.
    return Forms(pixels, digits, offices, even, ~even & (small | (position % 3 == 1)))


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
    forms = demo_forms()
    contents = {folder / LABELLED: _labelled_text(forms), folder / NEW: _new_text(forms)}
    for path, text in contents.items():
        if path.exists() and path.read_bytes() != text.encode():
            raise ValueError(
                f"{path} exists and is another table, which would be lost: name another folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in contents.items():
        path.write_bytes(text.encode())
    return folder / LABELLED, folder / NEW


def _labelled_text(forms: Forms) -> str:
    columns = (*forms.pixel_names, "digit")
    rows = np.column_stack([forms.pixels, forms.digits])[forms.labelled].tolist()
    return _csv_text(columns, rows)


def _new_text(forms: Forms) -> str:
    columns = ("office", "day", *forms.pixel_names)
    rows = [
        (forms.offices[position], _day(position), *forms.pixels[position])
        for position in np.flatnonzero(forms.new).tolist()
    ]
    return _csv_text(columns, rows)


def _day(position: int) -> str:
    return (_FIRST_DAY + timedelta(days=position % _N_DAYS)).isoformat()


def _csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue()
