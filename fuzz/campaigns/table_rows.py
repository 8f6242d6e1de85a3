"""Random tables whose groups are known: key columns of every kind beside score columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz.campaigns.arrays import Array

#: Score columns, in the order of the classes.
SCORES = ("p_ash", "p_elm", "p_oak")
CLASSES = np.array(["ash", "elm", "oak"])
#: Names of key columns: with separators, quotes and letters beyond ASCII.
NAMES = ("key", "a;b", 'say "x"', "größe", "two words", "x,y")


@dataclass(frozen=True, eq=False)
class RandomTable:
    """A table with keys, and what its groups are.

    Attributes
    ----------
    keys : dict from a name to the values of a key column
        Plain values; None where one is missing.
    texts : dict from the same names to the texts that tell the groups apart
        Made beside the values, without the code that is tried.
    time : name of the key that is a column of dates, or None
    posteriors : array of shape (m, 3)
        NaN in rows that lack a score.
    """

    keys: dict[str, list[Any]]
    texts: dict[str, list[str]]
    time: str | None
    posteriors: Array

    @property
    def columns(self) -> dict[str, list[Any]]:
        """All columns by name, plain values, None where one is missing."""
        scores = np.where(np.isnan(self.posteriors), None, self.posteriors.astype(object))
        return {**self.keys, **{name: scores[:, i].tolist() for i, name in enumerate(SCORES)}}

    @property
    def groups(self) -> dict[tuple[str, ...], list[int]]:
        """The rows of each group, by the texts of its keys."""
        rows: dict[tuple[str, ...], list[int]] = {}
        for row, key in enumerate(zip(*self.texts.values(), strict=True)):
            rows.setdefault(key, []).append(row)
        return rows


def _integers(rng: np.random.Generator) -> list[tuple[Any, str]]:
    scale = int(rng.choice([5, 1000, 2**40, 2**53 - 1]))
    values = rng.integers(-scale, scale, 6, endpoint=True).tolist()
    return [(value, f"{value:d}") for value in values]


def _floats(rng: np.random.Generator) -> list[tuple[Any, str]]:
    # Ten digits: sheets of Excel keep no more than 15.
    values = [*(rng.integers(-50, 50, 3) / 4).tolist(), *rng.normal(size=2).round(9).tolist()]
    values += [1e-7, 2.0]
    return [(v, f"{int(v):d}" if v == int(v) else repr(v)) for v in values]


def _truths(rng: np.random.Generator) -> list[tuple[Any, str]]:
    return [(True, "true"), (False, "false")]


_CODES = (
    "7",
    "007",
    "07",
    "+7",
    "7.0",
    "7e0",
    "true",
    "True",
    "TRUE",
    "1",
    "01",
    "NA",
    "nan",
    "None",
)
_IDS = tuple(f"{10**19 + i}" for i in range(4))
_WORDS = (
    *("plain", " leading", "trailing ", "a,b", "a;b", "a|b", "a\tb", 'say "x"', "'quoted'"),
    *(
        "two\nlines",
        "=1+1",
        "-x",
        "@x",
        "Zürich",
        "東京",
        "null",
        "2024-01-01",
        "1,5",
        "#",
        "b'East'",
    ),
)


def _texts(pool: tuple[str, ...]) -> Callable[[np.random.Generator], list[tuple[Any, str]]]:
    def draw(rng: np.random.Generator) -> list[tuple[Any, str]]:
        chosen = rng.choice(len(pool), min(6, len(pool)), replace=False)
        return [(pool[i], pool[i]) for i in chosen]

    return draw


#: Keys that look alike, and those that need more than one code point or none that is seen.
_UNSEEN = (
    "A",
    "A\u200b",
    "\u200eA",
    "A\u00ad",
    "e\u0301",
    "é",
    "a\u00a0b",
    "a b",
    "\u2060",
    "ﬁ",
    "fi",
)


def _days(rng: np.random.Generator) -> list[tuple[Any, str]]:
    days = [dt.date(2023, 11, 1) + dt.timedelta(int(n)) for n in rng.integers(0, 120, 8)]
    return [(day, day.replace(day=1).isoformat()) for day in days]


def _clashing(rng: np.random.Generator) -> list[tuple[Any, str]]:
    pairs: tuple[tuple[Any, str], ...] = ((1, "1"), (True, "true"), (2.5, "2.5"))
    value, text = pairs[int(rng.integers(len(pairs)))]
    return [(value, text), (text, text), ("other", "other")]


def _objects(rng: np.random.Generator) -> list[tuple[Any, str]]:
    return [(True, "true"), (1, "1"), (1.0, "1"), ("word", "word"), (2.5, "2.5")]


#: Kind of key -> what draws its values, each with its text.
KINDS: dict[str, Callable[[np.random.Generator], list[tuple[Any, str]]]] = {
    "integers": _integers,
    "floats": _floats,
    "truths": _truths,
    "codes": _texts(_CODES),
    "ids": _texts(_IDS),
    "words": _texts(_WORDS),
    "unseen": _texts(_UNSEEN),
    "days": _days,
    "clashing": _clashing,
    "objects": _objects,
}
#: Kinds that no column of one type holds: only frames of Python objects can.
OF_OBJECTS = ("clashing", "objects")


def random_table(kind: str, rng: np.random.Generator) -> RandomTable:
    """Return a table with a key column of one kind and, half of the time, another beside it."""
    n = int(rng.integers(20, 80))
    kinds = [kind]
    if rng.random() < 0.5 and kind not in OF_OBJECTS:
        kinds.insert(0, str(rng.choice(["integers", "codes", "words"])))
    names = [str(name) for name in rng.choice(NAMES, len(kinds), replace=False)]
    keys: dict[str, list[Any]] = {}
    texts: dict[str, list[str]] = {}
    for name, of in zip(names, kinds, strict=True):
        pool = KINDS[of](rng)
        picks = [pool[i] for i in rng.integers(0, len(pool), n)]
        if of == "clashing":
            picks[:2] = pool[:2]  # both are there, or nothing would clash
        if rng.random() < 0.4:
            picks = [(None, "") if rng.random() < 0.15 else pick for pick in picks]
            picks[: 2 if of == "clashing" else 0] = pool[:2] if of == "clashing" else []
        keys[name] = [value for value, _ in picks]
        texts[name] = [text for _, text in picks]
    return RandomTable(keys, texts, names[-1] if kind == "days" else None, _posteriors(rng, n))


def _posteriors(rng: np.random.Generator, n: int) -> Array:
    labels = rng.integers(0, 3, n)
    p = rng.gamma(np.eye(3)[labels] * 3 + 0.7)
    p /= p.sum(axis=1, keepdims=True)
    if rng.random() < 0.5:
        p[rng.random(n) < 0.1, int(rng.integers(3))] = np.nan
    return p
