"""Options that several commands share, and what they stand for.

How a table is written, labelled tables, groups, designs, comparisons and protocols. What is fitted
is in ``fit_commands``.
"""

from __future__ import annotations

import ast
import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.terminal import Command, in_options, say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kdey.evaluation.protocols import BagProtocol
    from kdey.tables.sources import TableSource
    from kdey.tables.training import TableOptions, TrainingTable


PROTOCOLS = {"app": "APP", "npp": "NPP", "dirichlet": "DirichletProtocol"}
#: Options that have the names of the library: keywords of groups, and entries of its options.
_ASKED = ("time", "every", "labelled", "smooth")
_CHOSEN = (
    *("confidence", "target", "min_size", "check_fit", "level", "believe", "selection"),
    *("missing", "date_format", "strata", "variance_strata", "weights", "clusters", "fpc"),
    "shrink_covers",
)
#: Options that name columns which the table must have, by what messages call these.
_COLUMN_OPTIONS = {
    "key column": ("by", "time"),
    "label column": ("label",),
    "score column": ("scores",),
    "column": (
        *("features", "ignore"),
        *("labelled", "selection", "weights", "clusters", "strata", "variance_strata", "fpc"),
        *("decided", "human"),
    ),
}


def names(texts: Iterable[str]) -> list[str]:
    """Return the names in repeated options, in lists separated by commas, or in both."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def settings(texts: Iterable[str], option: str) -> dict[str, Any]:
    """Return the settings of ``name=value`` options; values are numbers, None, lists or texts."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option} takes name=value, got {text!r}")
        values[name.strip()] = literal(value.strip())
    return values


def kinds_of(texts: Iterable[str], option: str, kinds: Sequence[str]) -> dict[str, Any]:
    """Return the kinds of columns in ``NAME=KIND`` options; a name may contain "="."""
    chosen: dict[str, Any] = {}
    for text in texts:
        name, equals, kind = text.rpartition("=")
        if not equals or kind not in kinds:
            *first, last = (f"NAME={known}" for known in kinds)
            raise click.UsageError(f"{option} takes {', '.join(first)} or {last}, got {text!r}")
        if chosen.get(name, kind) != kind:
            raise click.UsageError(f"{option} gives {name!r} twice")
        chosen[name] = kind
    return chosen


def literal(text: str) -> Any:
    """Return the Python value that a text spells, or else the text.

    Raises click.UsageError if the value is nested more deeply than Python can read.
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (MemoryError, RecursionError):
        raise _nested_too_deeply(text) from None
    except (ValueError, SyntaxError, TypeError) as error:
        if "too many nested" in str(error):
            raise _nested_too_deeply(text) from None
        return text


def _nested_too_deeply(text: str) -> click.UsageError:
    return click.UsageError(f"a value is nested too deeply: {text[:40]}...")


def with_options(command: Command, *options: Callable[[Command], Command]) -> Command:
    """Give a command options, listed in its help in this order."""
    for option in reversed(options):
        command = option(command)
    return command


jobs_option = click.option("--jobs", default=-1, help="Threads; -1: all cores.")


def reading_options(command: Command) -> Command:
    """Give a command the options that say how its table is written."""
    return with_options(
        command,
        click.option(
            "--encoding",
            default="auto",
            help="Encoding of a text file, such as utf-8 or cp1252.",
        ),
        click.option(
            "--separator",
            default="auto",
            help="What separates the columns of a text file: , ; | tab or another character.",
        ),
        click.option(
            "--decimal",
            type=click.Choice(["auto", ".", ","]),
            default="auto",
            help="Decimal mark of numbers that are written as text.",
        ),
        click.option(
            "--date-format",
            default="auto",
            help="How dates are written, such as %d.%m.%Y; excel: serial numbers such as 45292; "
            "auto: ISO 8601, or what the column shows.",
        ),
        click.option("--sheet", default="auto", help="Sheet of an Excel file: name or number."),
        click.option(
            "--missing-values",
            multiple=True,
            help="Texts that mean a missing value in all columns but the keys, beside the "
            "empty cell; repeat, or commas.",
        ),
    )


def open_table(path: str, options: Mapping[str, Any]) -> TableSource:
    """Return the table at a path by the options of :func:`reading_options`.

    What had to be assumed about it is said on standard error.
    """
    from kdey.tables.dialect import ReadOptions
    from kdey.tables.sources import open_source

    file = open_source(
        path,
        ReadOptions(
            options["encoding"],
            options["separator"],
            options["decimal"],
            options["date_format"],
            options["sheet"],
            tuple(names(options["missing_values"])),
        ),
    )
    for note in file.notes:
        say(f"{file.name}: {in_options(note)}")
    return file


def check_columns(file: TableSource, options: Mapping[str, Any]) -> None:
    """Raise TableError if the table lacks a column that an option names.

    Only the header is read: a typo is answered before a model is loaded or a row is read.
    """
    from kdey.tables import require_names
    from kdey.tables.sources import TableError

    for what, of_columns in _COLUMN_OPTIONS.items():
        values = [options[name] for name in of_columns if options.get(name)]
        wanted = [
            v for value in values for v in ([value] if isinstance(value, str) else names(value))
        ]
        try:
            require_names(file.columns, wanted, what)
        except TableError:
            raise
        except ValueError as error:
            raise TableError(f"{file.name}: {error}") from error


def label_options(command: Command) -> Command:
    """Give a command the options of a labelled table."""
    return with_options(
        command,
        click.option("--label", required=True, help="Column of the classes."),
        click.option(
            "--features",
            multiple=True,
            help="Columns to use, whatever they look like. Default: all that look like features.",
        ),
        click.option("--ignore", multiple=True, help="Columns to leave out; repeat, or commas."),
        click.option(
            "--type",
            "types",
            multiple=True,
            help="NAME=number, category, text or date: what a column is taken for; repeat.",
        ),
        click.option(
            "--label-type",
            type=click.Choice(["auto", "text", "integer"]),
            default="auto",
            help="What labels are; auto: integers if all are (01 is not), else text.",
        ),
        click.option(
            "--unlabelled",
            type=click.Choice(["error", "drop"]),
            default="error",
            help="Rows without a label: refuse them, or leave them out.",
        ),
        click.option(
            "--missing",
            type=click.Choice(["auto", "drop", "error"]),
            default="auto",
            help="Rows with a missing value: learn from them, leave them out, refuse them.",
        ),
        reading_options,
    )


def table_options(options: Mapping[str, Any], file: TableSource) -> TableOptions:
    """Return how a labelled table is read, by the options of :func:`label_options`."""
    from kdey.tables.training import TableOptions

    return TableOptions(
        options["label"],
        features=tuple(names(options["features"])),
        roles=dict.fromkeys(names(options["ignore"]), "ignored"),
        scores=tuple(names(options.get("scores", ()))),
        types=kinds_of(options["types"], "--type", ("number", "category", "text", "date")),
        missing=options["missing"],
        unlabelled=options["unlabelled"],
        label_type=options["label_type"],
        decimal=file.decimal,
        clusters=options.get("clusters"),
        strata=options.get("strata"),
    )


def read_labelled(table: str, options: Mapping[str, Any]) -> TrainingTable:
    """Return the training data of a table; errors name the file."""
    from kdey.tables.sources import TableError
    from kdey.tables.training import training_table

    file = open_table(table, options)
    check_columns(file, options)
    frame = file.read()
    try:
        training = training_table(frame, table_options(options, file), file.first_row)
    except ValueError as error:
        raise TableError(f"{file.name}: {error}") from error
    _say_what_is_left_out(file.name, training)
    return training


def _say_what_is_left_out(name: str, training: TrainingTable) -> None:
    from kdey._display import count_of
    from kdey.tables.schema import column_lines

    if training.unlabelled:
        say(f"{name}: {count_of(training.unlabelled, 'row')} without a label left out")
    if training.dropped:
        say(f"{name}: {count_of(training.dropped, 'row')} with missing values left out")
    say(f"{name}: columns, and what they are taken for")
    for line in column_lines(training.schema.columns):
        say(line)


def row_options(command: Command) -> Command:
    """Give a command what rows are estimated by, and how they are judged."""
    return with_options(
        command,
        click.option(
            "--scores",
            multiple=True,
            help="Columns of posteriors in the place of features; acc and cc: or one of decided "
            "labels.",
        ),
        click.option("--confidence", default=0.95, help="Confidence of the intervals."),
        click.option("--min-size", default=10, help="Smaller groups are called 'too small'."),
        click.option(
            "--missing",
            type=click.Choice(["auto", "drop", "error"]),
            default="auto",
            help="Rows with a missing value: used if learnt from, else left out and counted; or "
            "all left out; or refused.",
        ),
    )


def group_options(command: Command) -> Command:
    """Give a command the options of groups, of scores and of missing values."""
    return with_options(
        command,
        click.option("--by", multiple=True, help="Key columns of the groups; repeat, or commas."),
        click.option("--time", help="Column of dates or times: one more, last key."),
        click.option(
            "--every", help="Period that times are cut down to: 1d, 1w, 1mo, 1q, 1y, 6h ..."
        ),
        row_options,
        click.option(
            "--check-fit/--no-check-fit",
            default=True,
            help="Ask if groups look like mixtures of the training classes.",
        ),
        click.option(
            "--key-type",
            "key_types",
            multiple=True,
            help="NAME=integer or NAME=text: what a key is turned into; repeat. Keys of text "
            "files are text.",
        ),
        reading_options,
    )


def comparison_options(command: Command) -> Command:
    """Give a command the options that say what groups are compared with."""
    return with_options(
        command,
        click.option(
            "--against",
            multiple=True,
            help="Compare groups with previous: the period (or last key) before; rest: all others "
            "together; NAME=VALUE: the group with this key, repeat for several keys. compare takes "
            "previous with --time, and rest without.",
        ),
        click.option(
            "--correction",
            type=click.Choice(["holm", "fdr", "none"]),
            default="holm",
            help="For many tests: any false finding at most 5 %, 5 % of the findings, or nothing.",
        ),
    )


def comparison_side(texts: tuple[str, ...]) -> str | dict[str, str] | None:
    """Return the other side of comparisons by ``--against``; None where nothing is compared."""
    if not texts:
        return None
    if len(texts) == 1 and texts[0] in ("previous", "rest"):
        return texts[0]
    reference = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--against takes previous, rest or NAME=VALUE, got {text!r}")
        reference[name] = value
    return reference


def survey_options(command: Command) -> Command:
    """Give a command weights, clusters, strata, and the classes that are shown."""
    return with_options(
        command,
        click.option("--weights", help="Column of sampling weights."),
        click.option("--clusters", help="Column of the clusters in which rows were drawn."),
        click.option(
            "--strata", help="Column of strata: each is estimated by itself, then summed by shares."
        ),
        click.option(
            "--variance-strata",
            help="Column of the strata within which rows or clusters were drawn, where all are "
            "estimated together: strata decide the variance only.",
        ),
        click.option(
            "--stratum-share",
            "stratum_shares",
            multiple=True,
            help="NAME=NUMBER: share or size of a stratum in the population; repeat for all. "
            "Default: the shares among the rows.",
        ),
        click.option(
            "--fpc",
            help="Column of the number of rows (or clusters) in the population of a group or "
            "stratum, or of the share of them that was drawn.",
        ),
        click.option(
            "--label-noise",
            multiple=True,
            help="NUMBER or CLASS=NUMBER: known share of the training rows with a label (with this "
            "one) that belong to another class; shares are corrected for it. Repeat.",
        ),
        click.option(
            "--label-noise-bound",
            multiple=True,
            help="As --label-noise, but the largest share possible: estimates stay, and intervals "
            "allow for all noise up to it.",
        ),
        click.option(
            "--merge",
            multiple=True,
            help='"NEW=A,B": show classes A and B as one, with the interval of their sum; "NEW=A" '
            "shows A by another name; repeat.",
        ),
        click.option("--order", help="Classes in the order in which to show them, with commas."),
    )


def labelled_options(command: Command) -> Command:
    """Give a command labels of some rows."""
    return with_options(
        command,
        click.option(
            "--labelled",
            help="Column with the labels of some rows, a random draw of each group; the other "
            "cells are empty. Shows three estimates side by side, and says which to use.",
        ),
        click.option(
            "--selection",
            help="Column of the probabilities with which labelled rows were chosen, if not at "
            "random.",
        ),
        click.option(
            "--believe",
            type=click.Choice(["prediction-powered", "label-shift", "labels"]),
            default="prediction-powered",
            help="The estimate with labels that the column 'estimate' shows.",
        ),
    )


def asked_of(options: Mapping[str, Any], classes: NDArray[Any] | None) -> dict[str, Any]:
    """Return what the options of groups ask for, as keywords of :func:`kdey.predict_groups`.

    Parameters
    ----------
    options : mapping
        Those of :func:`group_options` and, where a command has them, of :func:`survey_options` and
        :func:`labelled_options`, and how groups are pooled.
    classes : array of shape (k,) or None
        None: before the model is loaded, to check the others; ``--merge`` is left out.
    """
    from kdey.options import Options

    asked = {name: options[name] for name in _ASKED if name in options}
    if "shrink" in options:
        asked["shrink"] = options["shrink_within"] or options["shrink"]
    chosen = {name: options[name] for name in _CHOSEN if name in options}
    chosen["scores"] = names(options["scores"]) or None
    chosen["key_types"] = kinds_of(options["key_types"], "--key-type", ("integer", "text"))
    if classes is not None and "merge" in options:
        chosen["merge"] = merge_of(options, classes)
        for name in ("label_noise", "label_noise_bound"):
            chosen[name] = noise_of(options[name], f"--{name.replace('_', '-')}", classes)
    if "stratum_shares" in options:
        chosen["stratum_shares"] = stratum_shares_of(options)
    if "correction" in options:
        chosen["correction"] = None if options["correction"] == "none" else options["correction"]
    return {**asked, "by": names(options["by"]), "options": Options(**chosen)}


def stratum_shares_of(options: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the shares in ``NAME=NUMBER`` options; a name may contain "="."""
    shares = {}
    for text in options["stratum_shares"]:
        name, equals, number = text.rpartition("=")
        try:
            shares[name] = float(number)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise click.UsageError(f"--stratum-share takes NAME=NUMBER, got {text!r}")
    _refuse_repeated(options["stratum_shares"], "--stratum-share")
    return shares or None


def merge_of(options: Mapping[str, Any], classes: NDArray[Any]) -> dict[Any, Any] | None:
    """Return the groups of classes that ``--merge`` and ``--order`` ask for; None: every class.

    Labels with commas are written in double quotes, as in CSV.

    Parameters
    ----------
    options : mapping
    classes : array of shape (k,)

    Returns
    -------
    dict from labels to lists of classes, or None

    Raises
    ------
    click.UsageError
        If an option cannot be read, or names a class that the model does not have.
    """
    from kdey.tables import canonical_text

    known = {canonical_text(label): label for label in classes.tolist()}
    groups: dict[Any, list[Any]] = {}
    for text in options["merge"]:
        name, equals, members = text.partition("=")
        if not equals or not name.strip() or not members.strip():
            raise click.UsageError(f'--merge takes "NEW=A,B", got {text!r}')
        if name.strip() in groups:
            raise click.UsageError(f"--merge gives {name.strip()!r} twice")
        groups[name.strip()] = [_class(label, known, "--merge") for label in _listed(members)]
    if options["order"] is None:
        return groups or None
    ordered: dict[Any, list[Any]] = {}
    for label in _listed(options["order"]):
        if label in groups:
            ordered[label] = groups[label]
        else:
            single = _class(label, known, "--order")
            ordered[single] = [single]
    return ordered | groups


def noise_of(texts: Sequence[str], option: str, classes: NDArray[Any]) -> Any:
    """Return the rates of label noise: one, those of classes, or None.

    Raises click.UsageError if a text cannot be read or names no class.
    """
    from kdey.tables import canonical_text

    known = {canonical_text(label): label for label in classes.tolist()}
    rates: dict[Any, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            rate = float(number)
        except ValueError:
            raise click.UsageError(f"{option} takes NUMBER or CLASS=NUMBER, got {text!r}") from None
        if not equals and len(texts) == 1:
            return rate
        if not equals:
            raise click.UsageError(f"{option} takes one NUMBER, or CLASS=NUMBER of several classes")
        rates[_class(name.strip(), known, option)] = rate
    _refuse_repeated(texts, option)
    return rates or None


def _refuse_repeated(texts: Iterable[str], option: str) -> None:
    """Raise click.UsageError where ``NAME=VALUE`` options give one name twice."""
    counts = Counter(text.rpartition("=")[0].strip() for text in texts)
    for name, count in counts.items():
        if count > 1:
            raise click.UsageError(f"{option} gives {name!r} twice")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in next(csv.reader([text], skipinitialspace=True)) if part]


def _class(text: str, known: Mapping[str, Any], option: str) -> Any:
    if text not in known:
        few = ", ".join(list(known)[:8]) + (", ..." if len(known) > 8 else "")
        raise click.UsageError(f"{option}: the model has no class {text!r}; it has {few}")
    return known[text]


def protocol_options(command: Command) -> Command:
    """Give a command the options that say which bags are drawn."""
    return with_options(
        command,
        click.option(
            "--protocol",
            type=click.Choice(list(PROTOCOLS)),
            default="app",
            help="app: samples of every mix (uniform on the simplex); npp: mixes as in the table.",
        ),
        click.option("--bags", default=200, help="Number of samples."),
        click.option("--bag-size", default=100),
    )


def make_protocol(options: dict[str, Any]) -> BagProtocol:
    """Return the protocol that the options name."""
    import kdey

    protocol: BagProtocol = getattr(kdey, PROTOCOLS[options["protocol"]])(
        n_bags=options["bags"], bag_size=options["bag_size"], random_state=options["seed"]
    )
    return protocol
