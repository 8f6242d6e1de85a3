"""The campaign over features and labels: the same rows through every door give the same answer.

A case is a random labelled table with columns of every kind, some of which are no features (ids,
dates, constants), and a new table with something the matter. The labelled table is read as CSV, as
Parquet and from frames: features and labels must be the same. A model is fitted on it, saved and
loaded, and asked about the new table by all of its methods, with frames of three libraries and with
files. Each must give the answer that plain loops over the values give, or refuse the table with a
message that names the column.
"""

from __future__ import annotations

import datetime as dt
import io
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.linear_model import LogisticRegression

import kdey
from fuzz.campaigns.arrays import Array
from fuzz.campaigns.tally import Tally
from kdey.tables.features import prepare, reading_tables
from kdey.tables.sources import open_source
from kdey.tables.training import TableOptions, TrainingTable, training_table

#: What is the matter with the new table.
SHARES = dict.fromkeys(("nothing", "unseen", "gaps", "lacking", "absent", "changed"), 1 / 6)
TRAINING_ROWS, NEW_ROWS = 60, 40
LABELS: tuple[tuple[Any, Any], ...] = (
    ("no", "yes"),
    (2, 10),
    ("01", "1"),
    ("True", "true"),
    (False, True),
    ("9223372036854775808", "-1"),
    ("größer, X", 'sagt "x"'),
    (-3, 0),
)
#: Texts of categories: with separators, quotes, spaces and letters beyond ASCII.
WORDS = ("red", "Red", "a,b", "two words", 'say "x"', "größe", "x;y", "NA", "+x ", "=1")

Values = list[Any]
Doors = Iterator[tuple[str, Callable[[], Array]]]


@dataclass(frozen=True, eq=False)
class FeatureCase:
    """A labelled table, a new one, and what plain loops make of the new one.

    Attributes
    ----------
    training, new : dicts from names to columns of plain values, None where one is missing
    features : names of the columns that are features, in the order of the table
    X : array of shape (NEW_ROWS, d)
        The features of the new table.
    usable : bool array of shape (NEW_ROWS,)
        Rows that a table of groups uses.
    refused : name of the column that methods on instances must name in a refusal, or None
    always : bool
        Whether groups refuse it too.
    """

    training: dict[str, Values]
    new: dict[str, Values]
    features: list[str]
    X: Array
    usable: np.ndarray[Any, np.dtype[np.bool_]]
    refused: str | None
    always: bool


def run_case(kind: str, seed: int, number: int, tally: Tally) -> None:
    """Send a random table through every door; count what came of it."""
    rng = np.random.default_rng([seed, 3000 + list(SHARES).index(kind), number])
    tally.cases += 1
    case = random_case(kind, rng)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        try:
            tables = _training_tables(case, Path(folder))
            for what in _training_differences(case, tables):
                tally.fault(number, what)
                return
            model = _fitted(tables["csv"], Path(folder), rng)
            expected = _expected(model, case)
            doors = list(_doors(model, case, Path(folder)))
        except Exception:
            tally.fault(number, traceback.format_exc(limit=-3))
            return
        for name, enter in doors:
            tally.problems += 1
            _try(name, enter, case, expected, tally, number)


# Random tables


def random_case(kind: str, rng: np.random.Generator) -> FeatureCase:
    """Return a case in which ``kind`` is the matter with the new table."""
    classes = LABELS[rng.integers(len(LABELS))]
    codes = np.r_[0, 1, rng.integers(0, 2, TRAINING_ROWS - 2)]
    # The same generator for both tables: a column is made once and cut in two.
    shift = np.r_[codes, rng.integers(0, 2, NEW_ROWS)]
    columns = {name: make(shift, rng) for name, make in _chosen_columns(rng).items()}
    training = {name: values[:TRAINING_ROWS] for name, values in columns.items()}
    new = {name: values[TRAINING_ROWS:] for name, values in columns.items()}
    features = [name for name in columns if not name.startswith("no ")]
    refused = _spoil(kind, training, new, features, rng)
    training["label"] = [classes[code] for code in codes]
    unknown: Values = [None] * NEW_ROWS
    X = np.column_stack([_positions(training[n], new.get(n, unknown)) for n in features])
    lacks = np.zeros(NEW_ROWS, dtype=np.bool_)
    for name in features:
        if None not in training[name] and name in new:
            lacks |= np.array([value is None for value in new[name]])
    order = rng.permutation(list(new)).tolist()
    extra = {"extra": ["?"] * NEW_ROWS}
    return FeatureCase(
        training,
        extra | {name: new[name] for name in order},
        features,
        X,
        ~lacks,
        refused,
        kind in ("absent", "changed") and refused is not None,
    )


def _chosen_columns(rng: np.random.Generator) -> dict[str, Callable[..., Values]]:
    """Return makers of some columns by name; those called "no ..." are no features."""
    chosen = {name: make for name, make in MAKERS.items() if rng.random() < 0.5}
    # One column at least tells the classes apart.
    return {"width": _floats, **chosen}


def _floats(codes: Any, rng: np.random.Generator) -> Values:
    return (rng.normal(size=len(codes)) + 1.5 * codes).tolist()


def _counts(codes: Any, rng: np.random.Generator) -> Values:
    return (rng.integers(0, 6, len(codes)) + codes).tolist()


def _gappy(codes: Any, rng: np.random.Generator) -> Values:
    values = _floats(codes, rng)
    gaps = rng.random(len(values)) < 0.2
    gaps[0] = True
    return [None if gap else value for gap, value in zip(gaps, values, strict=True)]


def _words(codes: Any, rng: np.random.Generator) -> Values:
    words = rng.choice(WORDS, 4, replace=False).tolist()
    drawn = rng.integers(0, 3, len(codes)) + codes
    drawn[:4] = np.arange(4)
    return [words[i] for i in drawn]


def _truths(codes: Any, rng: np.random.Generator) -> Values:
    drawn = rng.random(len(codes)) < 0.3 + 0.4 * codes
    drawn[:2] = [False, True]
    return [bool(value) for value in drawn]


def _zip_codes(codes: Any, rng: np.random.Generator) -> Values:
    drawn = rng.integers(0, 4, len(codes))
    drawn[:4] = np.arange(4)
    return [f"{501 + i:05d}" for i in drawn]


def _ids(codes: Any, rng: np.random.Generator) -> Values:
    return (int(rng.choice([0, 10**6, 2**53])) + rng.permutation(len(codes))).tolist()


def _text_ids(codes: Any, rng: np.random.Generator) -> Values:
    return [f"u-{i}" for i in rng.permutation(len(codes))]


def _dates(codes: Any, rng: np.random.Generator) -> Values:
    return [
        dt.date(2024, 1, 1) + dt.timedelta(days=int(i)) for i in rng.integers(0, 90, len(codes))
    ]


def _constant(codes: Any, rng: np.random.Generator) -> Values:
    return ["EU"] * len(codes)


MAKERS: dict[str, Callable[..., Values]] = {
    "count": _counts,
    "a gap": _gappy,
    "größe": _words,
    'say "b"': _truths,
    "zip,code": _zip_codes,
    "no id": _ids,
    "no text id": _text_ids,
    "no date": _dates,
    "no constant": _constant,
}


def _spoil(
    kind: str,
    training: dict[str, Values],
    new: dict[str, Values],
    features: list[str],
    rng: np.random.Generator,
) -> str | None:
    """Change the new table; return the column that must be named in a refusal, if one must."""
    name = str(rng.choice(features))
    texts = [n for n in features if isinstance(training[n][0], str)]
    if kind == "unseen" and texts:
        name = str(rng.choice(texts))
        new[name] = [value.upper() + "!" if rng.random() < 0.3 else value for value in new[name]]
    elif kind == "gaps":
        new[name] = [None if rng.random() < 0.2 else value for value in new[name]]
        lacking = None not in training[name] and None in new[name]
        return name if lacking else None
    elif kind == "lacking":
        for column in features:
            new[column] = [None if i == 5 else value for i, value in enumerate(new[column])]
        return next((n for n in features if None not in training[n]), None)
    elif kind == "absent":
        del new[name]
        return name
    elif kind == "changed":
        new["width"] = ["wide" if i % 7 == 3 else value for i, value in enumerate(new["width"])]
        return "width"
    return None


def _positions(training: Values, new: Values) -> Array:
    """Return a column of X by a plain loop: numbers, or positions among the texts of training."""
    known = [value for value in training if value is not None]
    if not isinstance(known[0], bool | str):
        return np.array([v if isinstance(v, int | float) else np.nan for v in new])
    texts = sorted({_plain_text(value) for value in known})
    position = {text: float(i) for i, text in enumerate(texts)}
    return np.array([position.get(_plain_text(value), np.nan) for value in new])


def _plain_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# Doors of training


def _training_tables(case: FeatureCase, folder: Path) -> dict[str, TrainingTable]:
    """Return the training data by each door."""
    frames = _frames(case.training)
    (folder / "t.csv").write_text(_csv(case.training), encoding="utf-8")
    pl.from_arrow(frames["pyarrow"]).write_parquet(folder / "t.parquet")
    tables = {
        name: training_table(nw.from_native(frame, eager_only=True), TableOptions("label"))
        for name, frame in frames.items()
    }
    for name in ("csv", "parquet"):
        file = open_source(str(folder / f"t.{name}"))
        tables[name] = training_table(file.read(), TableOptions("label"), file.first_row)
    return tables


def _training_differences(case: FeatureCase, tables: dict[str, TrainingTable]) -> Iterator[str]:
    X = np.column_stack([_positions(case.training[n], case.training[n]) for n in case.features])
    for door, table in tables.items():
        if table.schema.feature_names != tuple(case.features):
            yield f"{door}: features {table.schema.feature_names}, not {case.features}"
        elif not np.array_equal(table.X, X, equal_nan=True):
            yield f"{door}: other features"
        elif [_plain_text(label) for label in table.y.tolist()] != [
            _plain_text(label) for label in case.training["label"]
        ]:
            yield f"{door}: labels {sorted(set(table.y.tolist()))}"
        elif table.y.dtype.kind != tables["csv"].y.dtype.kind:
            yield f"{door}: labels of kind {table.y.dtype.kind}"


def _frames(columns: dict[str, Values]) -> dict[str, Any]:
    table = pa.table({name: pa.array(values) for name, values in _typed(columns).items()})
    return {"pyarrow": table, "polars": pl.from_arrow(table), "pandas": table.to_pandas()}


def _typed(columns: dict[str, Values]) -> dict[str, Values]:
    """Return columns of one type each: a text among numbers makes all of them texts."""
    return {
        name: [None if v is None else _cell(v) for v in values]
        if len({type(v) for v in values if v is not None}) > 1
        else values
        for name, values in columns.items()
    }


def _csv(columns: dict[str, Values]) -> str:
    stream = io.StringIO(newline="")
    pd.DataFrame({name: [_cell(v) for v in values] for name, values in columns.items()}).to_csv(
        stream, index=False
    )
    return stream.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dt.date):
        return value.isoformat()
    return _plain_text(value) if isinstance(value, bool) else str(value)


# Doors of a model


def _fitted(table: TrainingTable, folder: Path, rng: np.random.Generator) -> Any:
    """Return a model of the training data, saved and loaded."""
    pipeline = reading_tables(prepare(LogisticRegression(), table.schema.kinds), table.schema)
    fitted = kdey.PACC(pipeline, cv=3, random_state=0).fit(table.X, table.y)
    return kdey.load(kdey.save(fitted, folder / "m.kdey"))


def _expected(model: Any, case: FeatureCase) -> tuple[Array, Array]:
    """Return the answers for all rows, and for those that groups use."""
    both = (case.X, case.X[case.usable])
    if case.always:
        return np.empty(0), np.empty(0)
    whole, used = (model.predict(X) if len(X) else np.full(2, np.nan) for X in both)
    return whole, used


def _doors(model: Any, case: FeatureCase, folder: Path) -> Doors:
    bags = [np.arange(NEW_ROWS)]
    for library, frame in _frames(case.new).items():
        for name, ask in {
            "predict": model.predict,
            "estimate": lambda frame: model.estimate(frame).estimate,
            "estimate_bags": lambda frame: model.estimate_bags(frame, bags).estimate[0],
            "check_fit": lambda frame: _checked(model, frame),
            "groups": lambda frame: np.asarray(model.predict_groups(frame).to_frame()["estimate"]),
        }.items():
            yield f"{library} {name}", lambda ask=ask, frame=frame: ask(frame)
    (folder / "n.csv").write_text(_csv(case.new), encoding="utf-8")
    pl.from_arrow(_frames(case.new)["pyarrow"]).write_parquet(folder / "n.parquet")
    for name in ("csv", "parquet"):
        yield f"{name} groups", lambda name=name: _by_file(model, folder / f"n.{name}")


def _checked(model: Any, frame: Any) -> Array:
    kdey.check_fit(model, frame, n_null=20, random_state=0)
    answer: Array = model.predict(frame)
    return answer


def _by_file(model: Any, path: Path) -> Array:
    answer: Array = kdey.predict_groups(model, path).estimate[0]
    return answer


def _try(
    door: str,
    enter: Callable[[], Array],
    case: FeatureCase,
    expected: tuple[Array, Array],
    tally: Tally,
    number: int,
) -> None:
    by_group = door.endswith("groups")
    must_refuse = case.refused is not None and (case.always or not by_group)
    try:
        answer = enter()
    except (ValueError, TypeError) as error:
        if must_refuse and repr(case.refused) in str(error):
            tally.refuse(str(error))
        else:
            tally.fault(number, f"{door}: refused: {error}")
        return
    except Exception:
        tally.fault(number, f"{door}: {traceback.format_exc(limit=-3)}")
        return
    tally.twins += 1
    if must_refuse:
        tally.fault(number, f"{door}: answered though {case.refused!r} cannot be used")
    elif not np.allclose(answer, expected[int(by_group)], atol=1e-9, equal_nan=True):
        tally.fault(number, f"{door}: {answer}, not {expected[int(by_group)]}")
