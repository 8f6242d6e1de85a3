"""Commands that need no model: ``kdey audit`` and ``kdey demo``.

``kdey audit`` says what the labels of a rule, a person or a language model are worth.

``kdey demo`` compares the paper's methods on dry beans whose mix has shifted. ``kdey demo --tables
DIR`` writes the beans as tables instead, to try the other commands on: ``labelled.csv``, beans of
which the variety is known; ``new.csv``, the deliveries of three suppliers; ``judged.csv``, what two
judges say of the new beans, and an expert of some; ``known.csv``, the new beans with their variety,
to compare with. The beans are real, the deliveries made up (:func:`kdey.datasets.load_beans`).
"""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.command_options import check_columns, names, open_table, reading_options
from kdey.cli.terminal import (
    check_outputs,
    deliver,
    drawn_table,
    guarded,
    output_options,
    refuse_idle,
    say,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from kdey.diagnostics import Audit
    from kdey.tables.output import RowKind, Table
    from kdey.tables.sources import TableSource

    Array = NDArray[np.float64]
    Labels = NDArray[np.object_]

_BAG_SIZE = 500


@click.command()
@click.option("--bags", default=200, help="Number of test bags.")
@click.option("--seed", default=0, help="Seed of the splits and bags.")
@click.option(
    "--tables",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the beans as tables into this folder instead, to try the other commands on.",
)
@guarded
def demo(bags: int, seed: int, tables: Path | None) -> None:
    """Compare the paper's methods on dry beans, or write tables to try."""
    if tables is None:
        run_demo(n_bags=bags, seed=seed)
    else:
        refuse_idle(["bags", "seed"], "with --tables")
        _write_tables(tables)


def _write_tables(folder: Path) -> None:
    """Write the tables, and print what can be done with them."""
    write_demo_tables(folder)
    labelled, new, judged, known, model, page = (
        folder / name for name in (*TABLES, "beans.kdey", "beans.html")
    )
    click.echo(
        f"{click.format_filename(labelled)}: beans of which the variety is known\n"
        f"{click.format_filename(new)}: beans of three suppliers, from June to August\n"
        f"{click.format_filename(judged)}: what two judges take them for, and an expert 300\n"
        f"{click.format_filename(known)}: the same with their variety, to compare with\n"
        "Which share of each variety did the suppliers send? Try:\n"
        f"  kdey fit {_word(labelled)} --label variety -o {_word(model)}\n"
        f"  kdey estimate {_word(model)} {_word(new)} --by supplier\n"
        f"  kdey report {_word(model)} {_word(new)} --by supplier --time day --every 1mo "
        f"-o {_word(page)}\n"
        "What are the labels of a judge worth? Try:\n"
        f"  kdey audit {_word(judged)} --decided camera,sieve --human expert"
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
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from kdey._display import progress
    from kdey.datasets.loading import bean_rows
    from kdey.evaluation.protocols import DirichletProtocol
    from kdey.metrics import absolute_error
    from kdey.posteriors import predict_posteriors, training_posteriors
    from kdey.tables.output import terminal_table

    console = Console(highlight=False)
    beans = [row for row in bean_rows() if row["variety"] != "bombay"]  # not among the labelled
    X = np.array([(row["area"], row["perimeter"]) for row in beans], dtype=float)
    names, y = np.unique([row["variety"] for row in beans], return_inverse=True)
    new = np.array([row["supplier"] != "" for row in beans])
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    codes = np.arange(len(names))
    fitted, training = training_posteriors(
        classifier, X[~new], y[~new], codes, cv=10, random_state=seed
    )
    pool = predict_posteriors(fitted, X[new], codes)
    bags = DirichletProtocol(n_bags, _BAG_SIZE, seed, concentration=0.3).bags(y[new])
    accuracy = float(np.mean(pool.argmax(axis=1) == y[new]))
    console.print(
        "\n[bold]Dry beans of five varieties, by area and perimeter.[/bold] A logistic regression "
        f"learnt from {np.sum(~new):,} labelled beans is right on {accuracy:.0%} of new ones. We "
        f"draw {n_bags} samples of {_BAG_SIZE} beans whose mix is quite another than that of the "
        "labelled ones, often dominated by one variety, and ask how many per cent of each variety "
        "a sample holds.\n"
    )
    estimates, errors, seconds = {}, {}, {}
    methods = list(demo_methods(seed).items())
    for number, (name, method) in enumerate(progress(methods, "methods"), start=1):
        if not sys.stderr.isatty():  # where no bar is drawn
            say(f"{number} of {len(methods)}: {name}")
        start = time.perf_counter()
        method.fit_posteriors(training.required(), training.labels)
        estimates[name] = method.aggregate_bags(pool, bags.bags)
        seconds[name] = time.perf_counter() - start
        errors[name] = absolute_error(bags.prevalences, estimates[name])
    console.print(terminal_table(_errors_table(errors, seconds), titled=True))
    shares = np.bincount(y[~new]) / np.sum(~new)
    example = _example_table(estimates, bags.prevalences, shares, names.tolist())
    console.print(terminal_table(example, titled=True))
    console.print(_summary({name: float(values.mean()) for name, values in errors.items()}))


def _errors_table(errors: dict[str, Array], seconds: dict[str, float]) -> Table:
    from kdey.tables.output import Cell, Row, Table, headings

    names = ("mean", "worst sample", "ms per sample with fit")
    best = min(values.mean() for values in errors.values())
    rows = []
    for name, values in errors.items():
        milliseconds = 1000 * seconds[name] / len(values)
        texts = (f"{100 * values.mean():.2f}", f"{100 * values.max():.2f}", f"{milliseconds:.2f}")
        kind: RowKind = "best" if values.mean() == best else "plain"
        rows.append(Row.named(name, map(Cell, texts), kind))
    title = "Mean absolute error per class, in percentage points"
    return Table("errors", title, headings("method", names), tuple(rows))


def _example_table(
    estimates: dict[str, Array], true: Array, training: Array, names: list[str]
) -> Table:
    """Return one strongly shifted sample, variety by variety."""
    from kdey.tables.output import Cell, Row, Table, headings

    bag = int(abs(true - training).sum(axis=1).argmax())
    shares = {
        "training": training,
        "truth": true[bag],
        **{name: estimates[name][bag] for name in ("CC", "KDEy-ML")},
    }
    rows = [
        Row.named(name, [Cell(f"{100 * share:.1f}") for share in values])
        for name, values in shares.items()
    ]
    title = f"The most shifted sample (number {bag}), per cent of each variety"
    return Table("example", title, headings("", names), tuple(rows))


def _summary(errors: dict[str, float]) -> str:
    best = min(errors, key=lambda name: errors[name])
    return (
        "\n[bold]What you just saw.[/bold] Counting the classifier's decisions (CC) is off by "
        f"{100 * errors['CC']:.2f} points per variety: its mistakes spill from the frequent "
        "varieties into the rare ones, and counting cannot tell. Methods that know how the "
        "classifier errs "
        f"undo this: {best} is best here with {100 * errors[best]:.2f} points, "
        f"{errors['CC'] / errors[best]:.1f} times closer than counting; KDEy-ML, which "
        f"chose its own bandwidths, has {100 * errors['KDEy-ML']:.2f}. All methods saw the same "
        "classifier, the same training posteriors and the same samples.\n"
    )


#: The tables of ``kdey demo --tables`` and their columns.
TABLES = {
    "labelled.csv": ("area", "perimeter", "variety"),
    "new.csv": ("supplier", "day", "area", "perimeter"),
    "judged.csv": ("supplier", "day", "sieve", "camera", "expert"),
    "known.csv": ("supplier", "day", "area", "perimeter", "variety"),
}


def write_demo_tables(folder: Path) -> None:
    """Write the tables of beans into a folder, which is made if it does not exist.

    Parameters
    ----------
    folder : Path
        Where the files go. Files of these names that hold anything else are not overwritten.

    Raises
    ------
    ValueError
        If the folder has another file of one of these names. No file is written then.
    """
    from kdey.datasets.loading import bean_rows
    from kdey.tables.output import csv_text

    beans = bean_rows()
    contents = {}
    for name, columns in TABLES.items():
        rows = [row for row in beans if (row["supplier"] == "") == (name == "labelled.csv")]
        text = csv_text(list(columns), [[row[column] for column in columns] for row in rows])
        contents[folder / name] = text.encode()
    for path, data in contents.items():
        if path.exists() and path.read_bytes() != data:
            raise ValueError(
                f"{path} exists and is another table, which would be lost: name another folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for path, data in contents.items():
        path.write_bytes(data)


#: Column of the rows to label next that says which row of the table each is, from 1.
ROW = "row"
#: Column that says whose decisions a row is about, where there are several judges.
JUDGE = "judge"
#: Classes up to which it is printed how they are confused.
_MOST_CROSSED = 12


@click.command()
@click.argument("table")
@click.option(
    "--decided",
    required=True,
    multiple=True,
    help="Column of the decided labels, one in every row. Repeat, or commas, for several judges.",
)
@click.option("--human", required=True, help="Column of the labels of people; others are empty.")
@click.option("--by", multiple=True, help="Key columns of groups; repeat, or commas.")
@click.option("--weights", help="Column of sampling weights.")
@click.option("--clusters", help="Column of the clusters in which rows were drawn.")
@click.option("--confidence", default=0.95, help="Confidence of the intervals.")
@click.option(
    "--target",
    type=click.Choice(["population", "bag"]),
    default="population",
    help="Intervals for the population behind the rows, or for these very rows.",
)
@click.option(
    "--more",
    multiple=True,
    metavar="FILE",
    help="A file of --next-rows in which the column of --human was filled in; repeat.",
)
@click.option("--next", "n_next", default=100, help="How many rows --next-rows writes.")
@click.option("--next-rows", metavar="FILE", help="Write the rows to label next.")
@click.option("--confusion", metavar="FILE", help="Write what is decided against what is right.")
@click.option("--seed", default=0, help="Of the draw of rows to label next.")
@reading_options
@output_options
@guarded
def audit(table: str, **options: Any) -> None:
    """Say what decided labels in TABLE are worth, by the labels that people gave to some rows.

    Somebody has decided every row: a rule, a person, a language model. The labels of people, at
    random rows, correct the shares of the decisions, whatever is wrong with them; no model is
    needed. The rows to label next are those that narrow the intervals most.

    Several judges are compared with the first, whose decisions the rows to label next go by.
    """
    extra = ((options[name], None) for name in ("next_rows", "confusion"))
    check_outputs((table, *options["more"]), (options["output"], options["format"]), *extra)
    judges = list(dict.fromkeys(names(options["decided"])))
    if not judges:
        raise click.UsageError("--decided names no column")
    if len(judges) > 1 and JUDGE in names(options["by"]):
        raise click.UsageError(f"key column {JUDGE!r} has the name of a column of the result")
    file = open_table(table, options)
    check_columns(file, options)
    keys = names(options["by"])
    frame = file.read([*judges, options["human"], *keys])
    columns = {name: frame[name].to_numpy() for name in (*keys, *_numbers(options))}
    decided, human = [_labels(frame, name) for name in judges], _labels(frame, options["human"])
    for path in options["more"]:
        _fill_in(human, decided[0], open_table(path, options), judges[0], options["human"])
    from kdey.diagnostics import audit as audit_labels

    found = {
        judge: audit_labels(
            labels,
            human,
            by={name: columns[name] for name in keys} or None,
            sample_weight=None if options["weights"] is None else columns[options["weights"]],
            clusters=None if options["clusters"] is None else columns[options["clusters"]],
            drawn_by=decided[0],
            confidence=options["confidence"],
            target=options["target"],
            seed=options["seed"],
        )
        for judge, labels in zip(judges, decided, strict=True)
    }
    shares = _of_judges({judge: one.to_frame("pyarrow") for judge, one in found.items()})
    deliver(shares, options["format"], options["output"], options["digits"])
    _say_judges(found, decided)
    if options["confusion"] is not None:
        matrices = _of_judges({judge: _confusion(one) for judge, one in found.items()})
        deliver(matrices, None, options["confusion"], options["digits"])
    if options["next_rows"] is not None:
        _write_next(found[judges[0]], frame, options)


def _of_judges(tables: dict[str, pa.Table]) -> pa.Table:
    """Return the tables below each other, with a column of the judge where there are several."""
    import pyarrow as pa

    if len(tables) == 1:
        return next(iter(tables.values()))
    named = [table.add_column(0, JUDGE, [[judge] * len(table)]) for judge, table in tables.items()]
    return pa.concat_tables(named, promote_options="permissive")


def _confusion(found: Audit) -> pa.Table:
    """Return a row for each pair of a decided and a right class."""
    import pyarrow as pa

    classes, k = list(found.classes), len(found.classes)
    return pa.table(
        {
            "decided": [name for name in classes for _ in range(k)],
            "human": classes * k,
            "share": found.confusion.ravel(),
            "n_labels": found.counts.ravel(),
        }
    )


def _say_judges(found: dict[str, Audit], decided: list[Labels]) -> None:
    """Say of each judge how it errs, and how it compares with the first."""
    name, *others = found
    for judge, one in found.items():
        say(f"{judge}: {one.verdict}" if others else one.verdict)
        _say_classes(one)
        _say_confusion(one)
    for judge, labels in zip(others, decided[1:], strict=True):
        alike = 100 * (decided[0] == labels).mean()
        say(f"{name} and {judge} agree on {alike:.0f} % of the rows; {_better(found, name, judge)}")


def _better(found: dict[str, Audit], *pair: str) -> str:
    """Return which of two judges is right more often, and how wide its intervals are."""
    import numpy as np

    best, other = sorted(pair, key=lambda judge: -found[judge].accuracy[0, 0])
    more, low, high = (100 * value for value in found[best].more_often_right(found[other]))
    clear = "more than chance explains" if low > 0 else "which chance may explain"
    both = [share for judge in (best, other) if (share := found[judge].shares[0]) is not None]
    # A name that one judge alone has used has a narrow interval near zero.
    common = [name for name in both[0].classes if name in both[1].classes]
    first, second = ((s.high - s.low)[np.isin(s.classes, common)].mean() for s in both)
    wide = f", and has intervals {first / second:.2f} times as wide" if second > 0.0 else ""
    lead = f"{more:.1f} points more often than {other} ({low:.1f} to {high:.1f})"
    return f"{best} is right {lead}, {clear}{wide}"


def _say_confusion(found: Audit) -> None:
    """Say what share of all rows is decided as one class and belongs to another."""
    import numpy as np
    import pyarrow as pa

    if len(found.classes) > _MOST_CROSSED:
        return
    say("  share of all rows, by what was decided (down) and what is right (across):")
    shares = np.where(found.counts.T > 0, found.confusion.T, np.nan)
    names_of = list(map(str, found.classes))
    crossed = pa.table({"": names_of, **dict(zip(names_of, shares, strict=True))})
    for line in drawn_table(crossed).strip("\n").splitlines():
        if line.strip():
            say(f"  {line.rstrip()}")


def _numbers(options: dict[str, Any]) -> list[str]:
    return [options[name] for name in ("weights", "clusters") if options[name] is not None]


def _labels(frame: Any, name: str) -> Labels:
    """Return a column of labels as texts, None where a cell is empty.

    A judge that writes 1 and people who write "1" mean the same class.
    """
    import numpy as np

    texts = [
        None if cell is None or cell != cell else _text(cell) for cell in frame[name].to_list()
    ]
    return np.array([text or None for text in texts], dtype=object)


def _text(cell: Any) -> str:
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell) if whole else cell).strip()


def _fill_in(human: Labels, decided: Labels, file: TableSource, judge: str, people: str) -> None:
    """Put the labels of a filled-in file of rows into the column of the table."""
    from kdey.tables import require_names
    from kdey.tables.sources import TableError

    wanted = [ROW, judge, people]
    require_names(file.columns, wanted, "column")
    frame = file.read(wanted[1:])
    rows = frame[ROW].to_list()
    said, labels = _labels(frame, judge), _labels(frame, people)
    for row, decision, label in zip(rows, said, labels, strict=True):
        place = int(row) - 1 if str(row).isdigit() else -1
        if not 0 <= place < len(human) or decided[place] != decision:
            raise TableError(
                f"{file.name}: row {row} with decision {decision!r} is not in the table: give "
                "the table that the rows to label were drawn from"
            )
        if label is not None and human[place] not in (None, label):
            raise TableError(
                f"{file.name}: row {row} has the label {label!r}, but {human[place]!r} in the table"
            )
        human[place] = label if label is not None else human[place]


def _say_classes(found: Audit) -> None:
    """Say for each class how much of it the decisions find, and how much of what they say holds."""
    for row in found.judge("pyarrow").to_pylist():
        parts = []
        if row["n_human"]:
            parts.append(f"{100 * row['recall']:.0f} % of its rows are found")
        if n := row["n_decided"]:
            parts.append(f"{100 * row['precision']:.0f} % of those named so are right ({n} labels)")
        say(f"  {row['class']}: {', '.join(parts) or 'no label tells'}")


def _write_next(found: Audit, frame: Any, options: dict[str, Any]) -> None:
    """Write the rows to label next, with their numbers in the table."""
    import pyarrow as pa

    rows = found.draw_next(options["n_next"], options["seed"])
    table = frame[rows.tolist()].to_arrow()
    if ROW in table.column_names:
        table = table.drop_columns([ROW])
    table = table.add_column(0, ROW, pa.array(rows + 1))
    deliver(table, None, options["next_rows"], 17)
