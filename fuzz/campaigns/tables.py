"""The campaign over tables: the same rows through every door give the same groups.

A case is a random table. It is written as text in many dialects, as Parquet and as Excel, and made
a frame of pandas, polars, pyarrow and Dask, of categories and of nullable types too. Each door must
give the groups that are known from the making of the table, with the counts and prevalences that
plain loops give, or refuse the table with a message that names the column; only tables that are
ambiguous may be refused. Cases of the kind "damaged" are text files with something the matter: they
may be refused or pointed out, and must not give another answer in silence.
"""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.campaigns import table_doors as doors
from fuzz.campaigns.table_damage import DAMAGES
from fuzz.campaigns.table_rows import CLASSES, KINDS, OF_OBJECTS, RandomTable, random_table
from fuzz.campaigns.tally import Tally
from kdey import PACC
from kdey.tables import canonical_text

#: The kind of cases whose files are damaged.
DAMAGED = "damaged"
SHARES = dict.fromkeys([*KINDS, DAMAGED], 1 / (len(KINDS) + 1))
#: Doors whose files hold scores with fewer digits.
_ROUNDED = ("excel", "excel merged", "excel serial")
#: One table of this many goes through Dask, which takes ten times as long as any other door.
_DASK = 10
#: The first tables of a kind go through all doors, those after them through a few, at random.
_WITH_ALL, _FEW = 120, 4

Answer = dict[tuple[str, ...], tuple[int, int, list[float]]]


def run_case(kind: str, seed: int, number: int, tally: Tally) -> None:
    """Send a random table with a key of ``kind`` through every door; count what came of it."""
    rng = np.random.default_rng([seed, 2000 + list(SHARES).index(kind), number])
    of = str(rng.choice(["words", "codes"])) if kind == DAMAGED else kind
    table, quantifier = random_table(of, rng), _fitted()
    expected = _expected(quantifier, table)
    tally.cases += 1
    if kind == DAMAGED:
        for name, damage in DAMAGES.items():
            tally.problems += 1
            _try_damaged(name, damage(table, rng), quantifier, table, tally, number)
        return
    with tempfile.TemporaryDirectory() as folder:
        ways = list(_doors(kind, table, quantifier, Path(folder), number))
        if number >= _WITH_ALL and len(ways) > _FEW:
            drawn = np.random.default_rng([seed, 3000, number]).choice(len(ways), _FEW, False)
            ways = [ways[place] for place in drawn]
        for name, enter in ways:
            tally.problems += 1
            _try(name, enter, table, expected, tally, number, may_refuse=_ambiguous(kind, name))


def _ambiguous(kind: str, door: str) -> bool:
    """Return whether a door may refuse a table: values that clash, days that may be months."""
    return kind == "clashing" or (kind == "days" and door == "german")


def _fitted() -> Any:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 30)
    p = rng.gamma(np.eye(3)[labels] * 3 + 0.7)
    return PACC().fit_posteriors(p / p.sum(axis=1, keepdims=True), CLASSES[labels])


def _expected(quantifier: Any, table: RandomTable) -> Answer:
    """Return the answer by plain loops over groups that are known from the table's making."""
    answer: Answer = {}
    for key, rows in table.groups.items():
        points = table.posteriors[rows]
        usable = points[~np.isnan(points).any(axis=1)]
        usable = usable.astype(np.float32)  # as scores of groups are held
        shares = quantifier.aggregate(usable).tolist() if len(usable) else [float("nan")] * 3
        answer[key] = (len(usable), len(points) - len(usable), shares)
    return answer


def _doors(
    kind: str, table: RandomTable, quantifier: Any, folder: Path, number: int
) -> Iterator[tuple[str, Callable[[], doors.Rows]]]:
    """Yield the name of each door that the table fits through, and what sends it there.

    Doors that take long, and those of the same library, have turns.
    """
    yield "pandas", lambda: doors.by_frame(quantifier, table, doors.pandas_frame(table))
    if number % _DASK == 0:
        n_partitions = 1 + number // _DASK % 4
        yield "dask", lambda: doors.by_dask(quantifier, table, n_partitions)
    if kind in OF_OBJECTS:
        return
    names = list(doors.RARE_FRAMES)
    rare = names[number % len(names)]
    for name, frame in (*doors.TYPED_FRAMES.items(), (rare, doors.RARE_FRAMES[rare])):
        yield name, lambda frame=frame: doors.by_frame(quantifier, table, frame(table))
    plain = doors.ReadOptions()
    files: dict[str, tuple[Callable[[], bytes], doors.ReadOptions]] = {
        "parquet": (lambda: doors.parquet_file(table), plain),
        "excel": (lambda: doors.excel_file(table), plain),
        "excel merged": (lambda: doors.excel_file(table, merged=True), plain),
    }
    if kind == "days":
        as_numbers = doors.ReadOptions(date_format="excel")
        files["excel serial"] = (lambda: doors.excel_file(table, as_numbers=True), as_numbers)
    for name, dialect in doors.DIALECTS.items():
        if doors.can_write(table, dialect):
            files[name] = (
                lambda dialect=dialect: doors.text_file(table, dialect),
                dialect.options,
            )
    for name, (write, options) in files.items():
        yield (
            name,
            lambda write=write, options=options: doors.by_file(
                quantifier, table, write(), folder, options
            ),
        )


def _try(
    door: str,
    enter: Callable[[], doors.Rows],
    table: RandomTable,
    expected: Answer,
    tally: Tally,
    number: int,
    *,
    may_refuse: bool,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            rows = enter()
        except (ValueError, TypeError) as error:
            names_column = any(repr(name) in str(error) for name in table.keys)
            if may_refuse and names_column:
                tally.refuse(str(error))
            else:
                tally.fault(number, f"{door}: refused: {error}")
            return
        except Exception:
            tally.fault(number, f"{door}: {traceback.format_exc(limit=-3)}")
            return
    for what in _differences(rows, table, expected, 1e-6 if door in _ROUNDED else 1e-9):
        tally.fault(number, f"{door}: {what}")
        break
    tally.twins += 1


def _try_damaged(
    damage: str, data: bytes, quantifier: Any, table: RandomTable, tally: Tally, number: int
) -> None:
    """Count a damaged file as refused or pointed out; an answer without a word is a fault."""
    with warnings.catch_warnings(record=True) as caught, tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("always")
        try:
            notes = doors.notes_of(data, Path(folder))
            doors.by_file(quantifier, table, data, Path(folder), doors.ReadOptions())
        except (ValueError, TypeError) as error:
            tally.refuse(str(error).replace(folder, damage))
            return
        except Exception:
            tally.fault(number, f"{damage}: {traceback.format_exc(limit=-3)}")
            return
    if notes or any(issubclass(warning.category, UserWarning) for warning in caught):
        tally.warned += 1
    else:
        tally.fault(number, f"{damage}: answered without a word")


def _differences(
    rows: doors.Rows, table: RandomTable, expected: Answer, tolerance: float
) -> Iterator[str]:
    """Yield how an answer differs from the one expected."""
    answer: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        answer.setdefault(tuple(_text(row[name]) for name in table.keys), []).append(row)
    known = {tuple(map(_comparable, key)): value for key, value in expected.items()}
    if set(answer) != set(known):
        odd = sorted(set(answer) ^ set(known))
        yield f"groups {odd[:4]} are not on both sides"
        return
    for key, classes in answer.items():
        n, missing, shares = known[key]
        if [row["class"] for row in classes] != CLASSES.tolist():
            yield f"group {key} has the classes {[row['class'] for row in classes]}"
        elif {(row["n"], row["n_missing"]) for row in classes} != {(n, missing)}:
            counts = (classes[0]["n"], classes[0]["n_missing"])
            yield f"group {key} has {counts} rows used and left out, not {(n, missing)}"
        elif not np.allclose(
            [np.nan if row["estimate"] is None else row["estimate"] for row in classes],
            shares,
            atol=tolerance,
            rtol=0,
            equal_nan=True,
        ):
            yield f"group {key} has other prevalences"


def _text(value: Any) -> str:
    return _comparable(canonical_text(value))


def _comparable(text: str) -> str:
    """Return a key without its decimal mark, which a text file may write as a comma."""
    return text.replace(",", ".")
