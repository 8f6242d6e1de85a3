"""``kdey report``: a model and a table in, one HTML page out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kdey.inference import Estimate, Estimates

Columns = dict[str, list[Any]]
#: Groups beyond this number are not checked for fit one by one.
_MOST_CHECKED = 50
#: Groups with fewer instances are marked as too small to rely on, and not checked.
_FEWEST = 20


class InputError(click.ClickException):
    """Something that the user can mend: one line and exit code 2."""

    exit_code = 2


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--by", multiple=True, help="Column whose values are groups; repeat for several.")
@click.option("--time", help="Column that is a time: groups in its order.")
@click.option("--label", help="Column of known labels, shown beside the estimates.")
@click.option("--scores", help="Columns of posteriors, with commas, in the order of the classes.")
@click.option(
    "--confidence",
    default=0.95,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
)
@click.option("--title", help="Heading of the page.")
@click.option(
    "-o",
    "--output",
    default=Path("report.html"),
    show_default=True,
    type=click.Path(path_type=Path, dir_okay=False),
)
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
def report(
    model: Path,
    table: Path,
    by: tuple[str, ...],
    time: str | None,
    label: str | None,
    scores: str | None,
    confidence: float,
    title: str | None,
    output: Path,
    debug: bool,
) -> None:
    """Estimate the prevalences of TABLE with MODEL and write one HTML page.

    TABLE is CSV (also compressed) or Parquet. The page needs nothing but a browser, and no
    network.
    """
    with _one_line_errors(debug):
        quantifier = _load(model)
        columns = read_columns(table)
        keys = [name for name in (*by, *([time] if time else [])) if name]
        _require(columns, [*keys, *([label] if label else [])], table)
        points = _points(quantifier, columns, scores, {*keys, label}, table)
        groups = _positions(columns, keys) if keys else {}
        made = _estimates(quantifier, points, list(groups.values()), confidence, scores)
        truth = _truth(quantifier, columns[label], label, table) if label else None
        _write(
            quantifier,
            made,
            groups,
            keys,
            output,
            by=by,
            time=time,
            truth=truth,
            title=title or f"Class prevalences in {table.name}",
            model=model,
            table=table,
        )
    click.echo(f"wrote {output}", err=True)


def read_columns(path: Path) -> Columns:
    """Return the columns of a CSV or Parquet file as lists; None is a missing value."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError("tables need pyarrow: pip install 'kdey[table]'") from None
    if not path.exists():
        raise InputError(f"{path} does not exist")
    try:
        if path.suffix in (".parquet", ".pq"):
            from pyarrow import parquet

            found = parquet.read_table(path)
        else:
            from pyarrow import csv

            found = csv.read_csv(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if found.num_rows == 0:
        raise InputError(f"{path} has no rows: a bag needs at least one instance")
    return {name: found.column(name).to_pylist() for name in found.column_names}


def _load(path: Path) -> Any:
    from kdey.persistence import load

    if not path.exists():
        raise InputError(f"{path} does not exist: make a model file with save")
    return load(path)


def _require(columns: Columns, names: Sequence[str], table: Path) -> None:
    missing = [name for name in names if name not in columns]
    if missing:
        have = ", ".join(list(columns)[:20])
        raise InputError(f"{table} has no column {', '.join(missing)}; it has {have}")


def _points(
    quantifier: Any, columns: Columns, scores: str | None, left_out: set[Any], table: Path
) -> Any:
    """Return the posteriors or features of the table as the quantifier takes them."""
    if scores is not None or not (
        hasattr(quantifier, "classifier_") or hasattr(quantifier, "n_features_in_")
    ):
        names = (
            [str(label) for label in quantifier.classes_] if scores is None else scores.split(",")
        )
        _require(columns, names, table)
        return _matrix(columns, names, table)
    from kdey.frames import make_frame

    if hasattr(quantifier, "feature_names_in_"):
        names = [str(name) for name in quantifier.feature_names_in_]
        _require(columns, names, table)
        return make_frame({name: columns[name] for name in names})
    return _matrix(columns, [name for name in columns if name not in left_out], table)


def _matrix(columns: Columns, names: Sequence[str], table: Path) -> NDArray[np.float64]:
    """Return numeric columns side by side, or say which value is none."""
    import numpy as np

    for name in names:
        for row, value in enumerate(columns[name], start=1):
            if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
                raise InputError(f"{table}, column {name}, row {row}: {value!r} is not a number")
    return np.array([columns[name] for name in names], dtype=np.float64).T


def _positions(columns: Columns, keys: Sequence[str]) -> dict[tuple[Any, ...], list[int]]:
    found: dict[tuple[Any, ...], list[int]] = {}
    for row, values in enumerate(zip(*(columns[name] for name in keys), strict=True)):
        found.setdefault(values, []).append(row)
    return found


def _estimates(
    quantifier: Any, points: Any, groups: list[list[int]], confidence: float, scores: str | None
) -> Estimates:
    """Return the estimate of the whole table and, after it, those of its groups."""
    import warnings

    from kdey.inference import IntervalWarning

    bags = [list(range(len(points))), *groups]
    from_scores = scores is not None or not hasattr(quantifier, "n_features_in_")
    run = quantifier.estimate_posteriors if from_scores else quantifier.estimate_bags
    with warnings.catch_warnings():
        # Too small a group is told in its status.
        warnings.simplefilter("ignore", IntervalWarning)
        made: Estimates = run(points, bags, confidence=confidence)
    return made


def _truth(quantifier: Any, labels: list[Any], name: str, table: Path) -> list[float]:
    """Return the share of each class among known labels."""
    classes = [str(one) for one in quantifier.classes_]
    for row, value in enumerate(labels, start=1):
        if str(value) not in classes:
            raise InputError(
                f"{table}, column {name}, row {row}: {value!r} is not a class of the model"
            )
    given = [str(value) for value in labels]
    return [given.count(one) / len(given) for one in classes]


def _p_values(quantifier: Any, made: Sequence[Estimate]) -> list[float | None]:
    from kdey.diagnostics import FitChecker
    from kdey.report.page import bag_posteriors, can_be_checked

    if len(made) > _MOST_CHECKED or not all(can_be_checked(quantifier, one) for one in made):
        return [None] * len(made)
    checker = FitChecker.fit(quantifier)
    return [
        checker.check(posteriors=bag_posteriors(one), random_state=0).p_value
        if one.size >= _FEWEST
        else None
        for one in made
    ]


def _write(
    quantifier: Any,
    made: Estimates,
    groups: dict[tuple[Any, ...], list[int]],
    keys: Sequence[str],
    output: Path,
    *,
    model: Path,
    table: Path,
    **parts: Any,
) -> None:
    from kdey.report import estimates_table, write_report

    rows = None
    if groups:
        parts_made, named = list(made)[1:], [dict(zip(keys, g, strict=True)) for g in groups]
        rows = estimates_table(parts_made, named, _p_values(quantifier, parts_made), _FEWEST)
    settings = {"Command": _command(), "Model": model.name, "Table": table.name}
    settings |= {f"SHA-256 of {path.name}": _digest(path) for path in (model, table)}
    write_report(output, made[0], quantifier=quantifier, groups=rows, settings=settings, **parts)


def _command() -> str:
    import shlex
    import sys

    return shlex.join(["kdey", *sys.argv[1:]])


def _digest(path: Path) -> str:
    import hashlib

    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _one_line_errors(debug: bool) -> Iterator[None]:
    """Turn what the library says into one line and exit code 2."""
    try:
        yield
    except (OSError, ValueError, TypeError, ImportError) as error:
        if debug:
            raise
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(" ".join(said.split())) from error
