"""Commands on a model file: ``kdey estimate``, ``compare``, ``report``, ``monitor``, ``inspect``.

Each parses its options, calls the library and prints; Python does the same by the same functions.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.command_options import (
    asked_of,
    check_columns,
    comparison_options,
    comparison_side,
    group_options,
    jobs_option,
    labelled_options,
    names,
    open_table,
    reading_options,
    row_options,
    survey_options,
)
from kdey.cli.terminal import (
    PROBLEMS,
    check_ending,
    check_outputs,
    deliver,
    guarded,
    output_options,
    printable,
    refuse_idle,
    say,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from kdey.intervals import Estimates
    from kdey.monitoring import (
        Alarm,
        Bound,
        History,
        MonitorSettings,
        MonitorUpdate,
        Period,
    )
    from kdey.quantifiers import AggregativeQuantifier
    from kdey.quantifiers.base import BaseQuantifier
    from kdey.report import Report
    from kdey.tables.schema import TableSchema
    from kdey.tables.sources import TableSource


#: Options of ``kdey monitor`` that do something to a history without a new table.
_WITHOUT_TABLE = frozenset(("history", "undo", "page", "metrics", "output", "format", "digits"))
#: Groups or findings that are named on standard error; the table has all of them.
_MOST_NAMED = 5


def _opened(
    model: str, table: str, options: dict[str, Any]
) -> tuple[AggregativeQuantifier, TableSource]:
    """Return a model and a table; what is wrong with the options is said before it is loaded."""
    file = _file(model, table, options)
    if "by" in options:
        from kdey.groups import Request

        Request.of(**asked_of(options, None))
    return _load(model, options["jobs"]), file


def _file(model: str, table: str, options: dict[str, Any]) -> TableSource:
    """Return a table that has the columns which options name; the model must be there.

    What imports much is imported after this, so that a typo is answered at once.
    """
    file = open_table(table, options)
    check_columns(file, options)
    Path(model).stat()
    return file


def _load(model: str, jobs: int) -> AggregativeQuantifier:
    from kdey import load

    quantifier: AggregativeQuantifier = load(model).set_params(n_jobs=jobs)
    return quantifier


@click.command()
@click.argument("model")
@click.argument("table")
@group_options
@labelled_options
@survey_options
@click.option(
    "--target",
    type=click.Choice(["population", "bag"]),
    default="population",
    help="Intervals for the population behind a group, or for this very group.",
)
@click.option("--shrink", is_flag=True, help="Small groups borrow from the others.")
@click.option(
    "--shrink-within",
    metavar="KEY",
    help="Groups borrow from those with the same value of this key column, and these from all.",
)
@click.option(
    "--shrink-covers",
    type=click.Choice(["each-group", "average-group"]),
    default="each-group",
    help="Whether intervals of groups that borrow are right for each of them, or on average.",
)
@click.option("--smooth", is_flag=True, help="Periods (--time) borrow from their neighbours.")
@click.option("--wide", is_flag=True, help="One row per group instead of one per group and class.")
@click.option(
    "--drift",
    type=click.FloatRange(min=1.0),
    metavar="FACTOR",
    help="Add the ends of intervals that allow for classes changed by up to this factor.",
)
@click.option("--level", default=0.01, help="P-value up to which a group is said to fit poorly.")
@click.option("--fail-on-misfit", is_flag=True, help="Exit with code 1 where a group does not fit.")
@jobs_option
@output_options
@guarded
def estimate(model: str, table: str, **options: Any) -> None:
    """Estimate the share of each class in TABLE by MODEL, with intervals.

    TABLE is CSV, JSON, Parquet, Arrow or Excel, - for standard input, or a folder or pattern of
    such files. CSV and Parquet are read in batches and may be larger than memory. Columns are
    found by name.
    """
    check_outputs((model, table), (options["output"], options["format"]))
    if options["fail_on_misfit"] and not options["check_fit"]:
        raise click.UsageError("--fail-on-misfit needs the fit check: leave --no-check-fit out")
    if options["drift"] is not None and options["wide"]:
        raise click.UsageError("--drift adds columns to rows of classes: leave --wide out")
    if options["drift"] is not None and (
        taken := {*names(options["by"]), options["time"]} & _DRIFT
    ):
        raise click.UsageError(f"key column {min(taken)!r} has the name of a column of the result")
    if options["drift"] is not None and not math.isfinite(options["drift"]):
        raise click.UsageError(f"--drift takes a number of at least 1, got {options['drift']}")
    quantifier, groups = _estimate_groups(model, table, options)
    table_of_groups = groups.to_frame("pyarrow", wide=options["wide"])
    if options["drift"] is not None:
        table_of_groups = _with_drift(table_of_groups, groups, options["drift"])
    deliver(table_of_groups, options["format"], options["output"], options["digits"])
    _report_problems(groups, quantifier)
    _report_verdicts(groups)
    if options["fail_on_misfit"]:
        _fail_on_misfit(groups)


_DRIFT = frozenset(("drift_low", "drift_high"))


def _with_drift(table: pa.Table, groups: Estimates, factor: float) -> pa.Table:
    """Return a table of groups and classes with the intervals under drift beside the others."""
    from kdey.intervals.drift import drift_intervals_of_bags

    low, high, reason = drift_intervals_of_bags(groups, factor)
    if reason is not None:
        say(f"some groups have no interval under drift: {reason}")
    place = table.column_names.index("high") + 1
    for name, values in (("drift_high", high), ("drift_low", low)):
        table = table.add_column(place, name, [values.ravel()])
    return table


def _estimate_groups(
    model: str, table: str, options: dict[str, Any]
) -> tuple[AggregativeQuantifier, Estimates]:
    """Return the model and its answers."""
    quantifier, file = _opened(model, table, options)
    from kdey._display import progress
    from kdey.groups import Request, estimate_table
    from kdey.intervals.display import check_key_names

    request = Request.of(**asked_of(options, quantifier.classes_))
    if options["wide"]:  # said before the work, not after it
        classes = request.merging(quantifier.classes_).names
        check_key_names(request.names, classes, labelled=request.labelled is not None)
    # Reading and solving each count a row once.
    with progress(2 * (file.n_rows or 0), "rows", "auto" if file.n_rows else False) as shown:
        groups = estimate_table(
            quantifier, file, request, on_batch=shown.advance, on_rows=shown.advance
        )
    return quantifier, groups


def _report_problems(groups: Estimates, quantifier: AggregativeQuantifier) -> None:
    """Say for every problem how many groups have it, and which; and of few labels, of what class.

    The status of a group has no room for the class.
    """
    from kdey.model import Model
    from kdey.status import FEW_LABELS, OK, status_parts

    affected: dict[str, list[int]] = {}
    for number, status in enumerate(groups.status):
        for part in status_parts(status):
            affected.setdefault(part, []).append(number)
    affected.pop(OK, None)
    keys = groups.keys.columns
    values = groups.keys.rows() if affected else []
    for problem, numbers in affected.items():
        if not keys:
            say(f"{problem}: the whole table")
            continue
        shown = [_group_name(keys, values[n]) for n in numbers[:_MOST_NAMED]]
        more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
        of_all = f"{len(numbers)} of {len(groups)} groups"
        say(f"{problem}: {of_all} ({'; '.join(shown)}{more})")
    model = quantifier.model_
    if FEW_LABELS in affected and isinstance(model, Model):
        for note in model.training_notes:
            say(note)


def _report_verdicts(groups: Estimates) -> None:
    """Say which estimate to believe, of the whole table or of the first groups."""
    labelled, shown = groups.labelled, groups[:_MOST_NAMED]
    if labelled is None:
        return
    keys = groups.keys.columns
    values = shown.keys.rows() if keys else [()]
    for value, verdict in zip(values, labelled["verdict"][:_MOST_NAMED], strict=True):
        name = _group_name(keys, value)
        say(f"{name}: {verdict}" if name else verdict)
    if len(groups) > _MOST_NAMED:
        say(f"and {len(groups) - _MOST_NAMED} more groups: see the column 'verdict'")


def _fail_on_misfit(groups: Estimates) -> None:
    """End with an exit code of its own where groups do not fit."""
    from kdey.status import POOR_FIT, status_parts

    misfits = sum(POOR_FIT in status_parts(status) for status in groups.status)
    if misfits:
        say(f"{misfits} of {len(groups)} groups do not fit the training classes")
        raise click.exceptions.Exit(PROBLEMS)


def _group_name(keys: Iterable[str], values: Iterable[Any]) -> str:
    """Return the keys of a group and their values, such as ``shop=A, week=2024-01-01``."""
    return ", ".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))


@click.command()
@click.argument("model")
@click.argument("table")
@group_options
@survey_options
@comparison_options
@jobs_option
@output_options
@guarded
def compare(model: str, table: str, **options: Any) -> None:
    """Compare the groups or periods of TABLE by MODEL, to see whether something changed.

    Differences and ratios have intervals of their own; adjusted p-values allow for the number of
    tests in the table. Errors that groups share, because the same training data are behind them,
    cancel.
    """
    check_outputs((model, table), (options["output"], options["format"]))
    compared = _compare(model, table, comparison_side(options["against"]), options)
    deliver(compared, options["format"], options["output"], options["digits"])
    _say_findings(compared, options["correction"])


def _compare(
    model: str, table: str, against: str | dict[str, str] | None, options: dict[str, Any]
) -> pa.Table:
    quantifier, file = _opened(model, table, options)
    from kdey.groups import compare_groups

    asked = asked_of(options, quantifier.classes_)
    compared = compare_groups(quantifier, file, against=against, **asked)
    return compared.to_frame("pyarrow")


def _say_findings(table: pa.Table, correction: str) -> None:
    """Say how many differences are findings at 5 %, and the clearest of them."""
    rows = [row for row in table.to_pylist() if row["adjusted_p_value"] <= 0.05]
    keys = table.column_names[: table.column_names.index("against")]
    rows.sort(key=lambda row: row["adjusted_p_value"])
    how = "" if correction == "none" else f" ({correction})"
    say(f"{len(rows)} of {table.num_rows} differences have an adjusted p-value up to 0.05{how}")
    for row in rows[:_MOST_NAMED]:
        group = ", ".join(f"{key}={row[key]}" for key in keys)
        say(
            f"  {group} against {row['against']}: {row['class']} {100 * row['difference']:+.1f} "
            f"points ({100 * row['low']:+.1f} to {100 * row['high']:+.1f})"
        )


@click.command()
@click.argument("model")
@click.argument("table")
@group_options
@survey_options
@labelled_options
@comparison_options
@click.option("--label", help="Column of known labels, shown beside the estimates.")
@click.option("--focus", help="The class that was asked for: the page is about its share.")
@jobs_option
@click.option("--title", help="Heading of the page.")
@click.option("-o", "--output", default="report.html", help="File to write.")
@click.option("--figures", help="Folder to write each figure to, as a file of its own.")
@click.option(
    "--figure-format",
    "figure_formats",
    type=click.Choice(["svg", "png"]),
    multiple=True,
    default=["svg"],
    help="Format of the figures; repeat for both.",
)
@guarded
def report(model: str, table: str, **options: Any) -> None:
    """Estimate the share of each class in TABLE by MODEL and write one HTML page.

    TABLE is CSV, JSON, Parquet, Arrow or Excel. The page needs nothing but a browser, and no
    network.
    """
    from kdey._display import count_of

    if comparison_side(options["against"]) is None:
        refuse_idle(["correction"], "without --against")
    check_outputs((model, table), (options["output"], "page"))
    if options["figures"] is not None:
        from kdey.plots.style import pyplot

        pyplot()  # says what to install before the work begins
    page = _make_report(model, table, options)
    page.write(options["output"])
    say(f"wrote {options['output']}")
    if options["figures"] is not None:
        from kdey.plots import write_figures

        written = write_figures(page, options["figures"], options["figure_formats"])
        say(f"wrote {count_of(len(written), 'figure')} to {options['figures']}")


def _make_report(model: str, table: str, options: dict[str, Any]) -> Report:
    quantifier, file = _opened(model, table, options)
    from dataclasses import replace

    from kdey.report import make_report

    asked = asked_of(options, quantifier.classes_)
    said = {"labelled": asked.pop("labelled"), "focus": options["focus"]}
    report = make_report(
        quantifier,
        file,
        against=comparison_side(options["against"]),
        truth=options["label"],
        title=options["title"],
        **{**asked, "options": replace(asked["options"], **said)},
    )
    settings = {"Command": shlex.join(["kdey", *sys.argv[1:]]), **report.settings}
    for path in (Path(model), Path(table)):
        if path.is_file():  # A pipe was read already, and a device may have no end.
            settings[f"SHA-256 of {path.name}"] = _digest(path)
    keep_order = True if options["order"] is not None else None
    return replace(report, settings=settings, keep_order=keep_order)


def _digest(path: Path) -> str:
    import hashlib

    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@click.command()
@click.argument("model", required=False)
@click.argument("table", required=False)
@click.option("--history", required=True, help="Parquet file; created by the first period.")
@click.option("--period", help="Period of all rows, a date or a whole number: 2024-05-06, 17.")
@click.option("--time", help="Column of dates or times from which the period of a row follows.")
@click.option("--every", help="Period that times are cut down to: 1d, 1w, 1mo, 1q, 1y, 6h ...")
@click.option(
    "--groups", help="Column of groups: a history of each, with a joint chance of alarms."
)
@click.option("--above", multiple=True, help="CLASS=SHARE: alarm where the share is above; repeat.")
@click.option("--below", multiple=True, help="CLASS=SHARE: alarm where the share is below; repeat.")
@click.option(
    "--accuracy-below",
    type=float,
    help="Alarm where the accuracy that the classifier is expected to have is below this share.",
)
@click.option(
    "--false-alarms",
    type=float,
    help="Chance of any false alarm within 100 periods. Default: 0.05.",
)
@click.option(
    "--fluctuation",
    type=float,
    help="Standard deviation of true shares from period to period that is ordinary. Default: 0.",
)
@click.option(
    "--check-fit/--no-check-fit",
    default=None,
    help="Alarm where the data do not look like a mixture of the training classes. Default: yes.",
)
@click.option("--replace", is_flag=True, help="Replace periods that are there.")
@click.option("--new-model", is_flag=True, help="The model is another one on purpose.")
@click.option("--undo", metavar="PERIOD", help="Remove a period, as if it had never been sent.")
@click.option("--page", help="HTML page of the history to write.")
@click.option(
    "--metrics", help="File to write the newest period to, as OpenMetrics text for Prometheus."
)
@row_options
@reading_options
@jobs_option
@output_options
@guarded
def monitor(model: str | None, table: str | None, **options: Any) -> None:
    """Add the estimates of TABLE by MODEL to a history, and print the alarms that they raise.

    Without MODEL and TABLE, the alarms of the whole history are printed. A period that is sent
    again with the same data changes nothing. --groups, --above, --below, --accuracy-below,
    --false-alarms, --fluctuation and --check-fit are kept with the history when it is created and
    may be left out later.

    Exit codes: 0, no alarm in the periods that were sent; 1, an alarm; 2, refused, and the
    history is as it was.
    """
    check_ending(options["history"], "parquet")
    files, page = (model, table, options["history"]), (options["page"], "page")
    metrics = (options["metrics"], "metrics")
    check_outputs(files, (options["output"], options["format"]), page, metrics)
    if (model is None) != (table is None):
        raise click.UsageError("MODEL and TABLE belong together: give both, or none")
    if model is not None and options["undo"] is not None:
        raise click.UsageError("--undo takes no MODEL and TABLE")
    if model is None:
        refuse_idle(options.keys() - _WITHOUT_TABLE, "without MODEL and TABLE")
    alarms = _look(options) if model is None or table is None else _add(model, table, options)
    deliver(_alarm_table(alarms), options["format"], options["output"], options["digits"])
    for alarm in alarms:
        say(f"alarm: {alarm}")
    if model is not None and alarms:
        raise click.exceptions.Exit(PROBLEMS)


def _add(model: str, table: str, options: dict[str, Any]) -> list[Alarm]:
    """Add the periods of a table; return the alarms that ring at them."""
    if (options["period"] is None) == (options["time"] is None):
        raise click.UsageError("say the period of the rows: --period, or --time with its column")
    file = _file(model, table, options)
    from kdey.monitoring import monitor as add
    from kdey.options import Options

    settings = _settings(options)
    chosen = Options(
        missing=options["missing"],
        min_size=options["min_size"],
        date_format=options["date_format"],
    )
    update = add(
        _load(model, options["jobs"]),
        file,
        options["history"],
        period=options["period"],
        time=options["time"],
        every=options["every"],
        groups=options["groups"],
        settings=settings,
        overwrite=options["replace"],
        new_model=options["new_model"],
        scores=names(options["scores"]) or None,
        confidence=options["confidence"],
        options=chosen,
    )
    _say_update(update)
    _write_history(update.history, options)
    return list(update.alarms)


def _look(options: dict[str, Any]) -> list[Alarm]:
    """Take a period back, if asked to; return all alarms of the history."""
    from kdey.monitoring import find_alarms, read_history, undo_period

    if options["undo"] is None:
        history = read_history(options["history"])
    else:
        history = undo_period(options["history"], options["undo"])
        say(f"removed {options['undo']} from {options['history']}")
    _write_history(history, options)
    return find_alarms(history)


def _settings(options: dict[str, Any]) -> MonitorSettings | None:
    """Return the settings that the options ask for; None if they say nothing."""
    from kdey.monitoring import MonitorSettings

    chosen = {
        "bounds": (*_bounds(options["above"], "above"), *_bounds(options["below"], "below")),
        "false_alarms": options["false_alarms"],
        "fluctuation": options["fluctuation"],
        "check_fit": options["check_fit"],
        "accuracy_below": options["accuracy_below"],
    }
    given = {name: value for name, value in chosen.items() if value not in (None, ())}
    return MonitorSettings(**given) if given else None


def _bounds(texts: tuple[str, ...], side: str) -> list[Bound]:
    from kdey.monitoring import Bound

    bounds = []
    for text in texts:
        label, equals, share = text.rpartition("=")
        try:
            bounds.append(Bound(label, side, float(share)))
        except ValueError as error:
            reason = f"{error}" if equals and _is_number(share) else f"got {text!r}"
            raise click.UsageError(f"--{side} takes CLASS=SHARE: {reason}") from None
    return bounds


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _say_update(update: MonitorUpdate) -> None:
    """Say of each period what was added to the history, and what is the matter with which group."""
    by_name: dict[str, list[Period]] = {}
    for period in update.history.periods:
        if period.title in update.periods:
            by_name.setdefault(period.name, []).append(period)
    known = []
    for name, periods in by_name.items():
        _say_period(name, [p for p in periods if p.title in update.added], periods)
        known += [name] * any(p.title not in update.added for p in periods)
    if known:
        say(f"in the history already, with the same numbers: {_first_of(known)}")
    gaps = update.history.gaps
    if gaps:
        between = "; ".join(f"{first} and {last}" for first, last in gaps[-5:])
        say(f"periods are missing in the history between {between}")


def _say_period(name: str, added: list[Period], periods: list[Period]) -> None:
    from kdey._display import count_of
    from kdey.status import problems

    if added:
        groups = f" of {count_of(len(added), 'group')}" if added[0].group else ""
        say(f"{name}: {count_of(sum(period.n for period in added), 'row')}{groups} added")
    affected: dict[str, list[str]] = {}
    for period in periods:
        for problem in problems(period.status):
            affected.setdefault(problem, []).append(period.group)
    for problem, groups_with in affected.items():
        where = f" ({_first_of(groups_with)})" if any(groups_with) else ""
        say(f"{name}: {problem}{where}")


def _first_of(texts: list[str]) -> str:
    """Return the first texts, and how many more there are."""
    more = len(texts) - _MOST_NAMED
    return "; ".join(texts[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _write_history(history: History, options: dict[str, Any]) -> None:
    """Write the page and the metrics of a history, where they are asked for."""
    from kdey._io import write_whole
    from kdey.monitoring import metrics_text, write_history_page

    if options["page"] is not None:
        write_history_page(Path(options["page"]), history)
        say(f"wrote {options['page']}")
    if options["metrics"] is not None:
        write_whole(options["metrics"], metrics_text(history))
        say(f"wrote {options['metrics']}")


def _alarm_table(alarms: list[Alarm]) -> pa.Table:
    import pyarrow as pa

    from kdey.monitoring.alarms import ALARM_COLUMNS

    texts = ("period", "group", "kind", "class", "since")
    schema = pa.schema(
        [(name, pa.string() if name in texts else pa.float64()) for name in ALARM_COLUMNS]
    )
    return pa.Table.from_pylist([alarm.row() for alarm in alarms], schema)


#: Categories of a column that are shown; --json has all of them.
_MOST_TEXTS = 8


@click.command()
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of lines.")
@guarded
def inspect(model: str, as_json: bool) -> None:
    """Show what MODEL was fitted on and with: classes, columns, method, settings."""
    from kdey import load
    from kdey.persistence import describe

    quantifier = load(model)
    facts = _facts(quantifier, describe(model))
    if as_json:
        click.echo(json.dumps(facts, indent=2, allow_nan=False))
        return
    explanation = facts.pop("explanation", [])
    for name, value in facts.items():
        click.echo(printable(f"{name}: {_line(_shortened(value))}"))
    for line in explanation:
        for part in textwrap.wrap(printable(line), 80, subsequent_indent="  "):
            click.echo(part)


def _facts(quantifier: BaseQuantifier, manifest: dict[str, Any]) -> dict[str, Any]:
    schema = quantifier.model_.table_schema
    labels = quantifier.classes_.tolist()
    shares = quantifier.prevalence_.tolist()
    facts: dict[str, Any] = {
        "method": type(quantifier).__name__,
        "written by": f"kdey {manifest.get('kdey')}",
        "libraries": manifest.get("libraries") or None,
        "classes": {str(label): round(p, 6) for label, p in zip(labels, shares, strict=True)},
        "training rows": _rows(quantifier),
        "classifier": _classifier(quantifier),
        "settings": _plain_settings(quantifier),
    }
    if schema is not None:
        facts |= _column_facts(schema)
    else:  # Fitted in Python on a frame, whose columns have names.
        facts["feature columns"] = list(quantifier.model_.scorer.feature_names or [])
    facts |= _choices(quantifier)
    return {name: value for name, value in facts.items() if value not in (None, {}, [])}


def _choices(quantifier: BaseQuantifier) -> dict[str, Any]:
    """Return what was chosen at fit: in a sentence, or in the lines of an explanation."""
    record = quantifier.model_.tuning
    explanation = getattr(quantifier, "explain", quantifier.summary)()
    if explanation is None or (record is not None and explanation == record.summary()):
        return {"tuning": explanation}
    return {"explanation": explanation.splitlines()}


def _column_facts(schema: TableSchema) -> dict[str, Any]:
    """Return what the columns of the training table are taken for."""
    unused = schema.with_role("id", "ignored")
    return {
        "label column": schema.label,
        _needed_title(schema): list(schema.needed),
        "columns of categories": {
            c.name: list(c.categories) for c in schema.feature_columns if c.categories
        },
        "columns of sentences": [c.name for c in schema.feature_columns if c.kind == "text"],
        "columns with missing values": {
            c.name: c.n_missing for c in schema.feature_columns if c.n_missing
        },
        "unused columns": {c.name: c.reason for c in unused},
    }


def _needed_title(schema: TableSchema) -> str:
    """Return what to call the columns that estimates need."""
    if not schema.scores:
        return "feature columns"
    return "column of decisions" if len(schema.scores) == 1 else "score columns"


def _rows(quantifier: BaseQuantifier) -> int | None:
    from kdey.model import kept_training

    training = kept_training(quantifier)
    return None if training is None else len(training.labels)


def _classifier(quantifier: BaseQuantifier) -> str:
    from kdey.stacking.pooled_classifier import pool_of

    classifier = quantifier.model_.scorer.classifier
    if classifier is None:
        return "none: fitted on scores"
    pool = pool_of(classifier)
    if pool is not None:
        return f"a pool of {', '.join(pool.models_)}"
    steps = getattr(classifier, "steps", None)
    return type(classifier if steps is None else steps[-1][1]).__name__


def _plain_settings(quantifier: BaseQuantifier) -> dict[str, Any]:
    plain = (bool, int, float, str)
    return {
        name: value
        for name, value in quantifier.get_params(deep=False).items()
        if isinstance(value, plain)
    }


def _shortened(value: Any) -> Any:
    """Return facts with lists inside them cut short; --json has all of it."""
    if not isinstance(value, dict):
        return value
    return {key: _few(item) if isinstance(item, list) else item for key, item in value.items()}


def _few(texts: list[str]) -> str:
    shown = ", ".join(text if len(text) <= 30 else f"{text[:29]}…" for text in texts[:_MOST_TEXTS])
    more = f", and {len(texts) - _MOST_TEXTS} more" if len(texts) > _MOST_TEXTS else ""
    return f"({shown}{more})"


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
