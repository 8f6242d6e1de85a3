"""``kdey monitor``: add a period to a history, ring alarms, take a period back, show it all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdey._display import count_of
from kdey.cli.common import (
    check_output,
    check_table_output,
    deliver,
    guarded,
    names,
    output_options,
    say,
)
from kdey.cli.exit_codes import PROBLEMS
from kdey.cli.reading import open_table, reading_options

if TYPE_CHECKING:
    import pyarrow as pa

    from kdey.monitoring import Alarm, Bound, MonitorSettings, MonitorUpdate


@click.command()
@click.argument("model", required=False)
@click.argument("table", required=False)
@click.option("--history", required=True, help="Parquet file; created by the first period.")
@click.option("--period", help="Date or whole number of all rows: 2024-05-06, 17.")
@click.option("--time", help="In its place: the column of dates or times that says the period.")
@click.option("--every", help="Period that times are cut down to: 1d, 1w, 1mo, 1q, 1y, 6h ...")
@click.option("--above", multiple=True, help="CLASS=SHARE: ring where the share is above; repeat.")
@click.option("--below", multiple=True, help="CLASS=SHARE: ring where the share is below; repeat.")
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
    help="Ring where the data do not look like a mixture of the training classes. Default: yes.",
)
@click.option("--replace", is_flag=True, help="Replace periods that are there with other numbers.")
@click.option("--new-model", is_flag=True, help="The model is another one on purpose.")
@click.option("--undo", metavar="PERIOD", help="Remove a period, as if it had never been sent.")
@click.option("--page", help="HTML page of the history to write.")
@click.option(
    "--scores",
    multiple=True,
    help="Columns of posteriors in the place of features; acc and cc: or one of decided labels.",
)
@click.option("--confidence", default=0.95, show_default=True, help="Of the limits on the page.")
@click.option("--min-size", default=10, show_default=True, help="Below it: 'too small'.")
@click.option(
    "--missing",
    type=click.Choice(["auto", "drop", "error"]),
    default="auto",
    show_default=True,
    help="Rows with a missing value: used if learnt from, else left out; or refused.",
)
@reading_options
@click.option("--jobs", default=-1, show_default=True, help="Threads; -1: all cores.")
@output_options
@guarded
def monitor(model: str | None, table: str | None, **options: Any) -> None:
    """Add the estimates of TABLE by MODEL to a history, and print the alarms that they raise.

    Without MODEL and TABLE, the alarms of the whole history are printed. A period that is sent
    again with the same data changes nothing. --above, --below, --false-alarms, --fluctuation and
    --check-fit are kept with the history when it is created and may be left out later.

    Exit codes: 0, no alarm rings at the periods that were sent; 1, one does; 2, refused, and the
    history is as it was.
    """
    check_table_output(options)
    check_output(options["page"])
    if (model is None) != (table is None):
        raise click.UsageError("MODEL and TABLE belong together: give both, or none")
    if model is not None and options["undo"] is not None:
        raise click.UsageError("--undo takes no MODEL and TABLE")
    alarms = _look(options) if model is None or table is None else _add(model, table, options)
    deliver(_alarm_table(alarms), options["format"], options["output"])
    for alarm in alarms:
        say(f"alarm: {alarm}")
    if model is not None and alarms:
        raise click.exceptions.Exit(PROBLEMS)


def _add(model: str, table: str, options: dict[str, Any]) -> list[Alarm]:
    """Add the periods of a table; return the alarms that ring at them."""
    from kdey import load
    from kdey.groups import Grouping, score
    from kdey.monitoring import add_periods, estimate_periods, period_request, settings_for

    if (options["period"] is None) == (options["time"] is None):
        raise click.UsageError("say the period of the rows: --period, or --time with its column")
    settings = settings_for(options["history"], _settings(options))
    quantifier = load(model).set_params(n_jobs=options["jobs"])
    request = period_request(
        settings,
        options["period"],
        Grouping((), options["time"], options["every"], options["date_format"]),
        scores=names(options["scores"]) or None,
        missing=options["missing"],
        confidence=options["confidence"],
        min_size=options["min_size"],
    )
    scored = score(quantifier, open_table(table, options), request)
    periods = estimate_periods(quantifier, scored, request, options["period"])
    update = add_periods(
        options["history"],
        quantifier,
        periods,
        settings,
        overwrite=options["replace"],
        new_model=options["new_model"],
    )
    _say_update(update)
    _write_page(update.history, options["page"])
    return list(update.alarms)


def _look(options: dict[str, Any]) -> list[Alarm]:
    """Take a period back, if asked to; return all alarms of the history."""
    from kdey.monitoring import find_alarms, read_history, undo_period

    if options["undo"] is None:
        history = read_history(options["history"])
    else:
        history = undo_period(options["history"], options["undo"])
        say(f"removed {options['undo']} from {options['history']}")
    _write_page(history, options["page"])
    return find_alarms(history)


def _settings(options: dict[str, Any]) -> MonitorSettings | None:
    """Return the settings that the options ask for; None if they say nothing."""
    from kdey.monitoring import MonitorSettings

    chosen = {
        "bounds": (*_bounds(options["above"], "above"), *_bounds(options["below"], "below")),
        "false_alarms": options["false_alarms"],
        "fluctuation": options["fluctuation"],
        "check_fit": options["check_fit"],
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
    from kdey.status import problems

    known = [name for name in update.periods if name not in update.added]
    for period in update.history.periods:
        if period.name in update.added:
            say(f"{period.name}: {count_of(period.n, 'row')} added")
        if period.name in update.periods:
            for problem in problems(period.status):
                say(f"{period.name}: {problem}")
    if known:
        say(f"in the history already, with the same numbers: {', '.join(known)}")


def _write_page(history: Any, page: str | None) -> None:
    if page is None:
        return
    from kdey.monitoring.page import write_history_page

    write_history_page(Path(page), history)
    say(f"wrote {page}")


def _alarm_table(alarms: list[Alarm]) -> pa.Table:
    import pyarrow as pa

    from kdey.monitoring.alarms import ALARM_COLUMNS

    texts = ("period", "kind", "class", "since")
    schema = pa.schema(
        [(name, pa.string() if name in texts else pa.float64()) for name in ALARM_COLUMNS]
    )
    return pa.Table.from_pylist([alarm.row() for alarm in alarms], schema)
