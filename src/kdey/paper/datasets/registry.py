"""The data sets that exist, the files they consist of, and the official home of those files."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from kdey.paper.datasets.uci import Recipe, recipe_for

#: Record of each edition of LeQua, by its group.
_ZENODO_LEQUA = {
    "lequa": "https://zenodo.org/records/6546188",
    "lequa2024": "https://zenodo.org/records/11661820",
}
_ZENODO_TWEETS = "https://zenodo.org/records/4255764"
#: Page to read on a group that has no archive of its own.
_PAGES = {
    "tweets-approx": "no official home: word counts made from the public tweets",
    "text": "http://qwone.com/~jason/20Newsgroups/ (documents; the vectors are derived)",
    "uci-extra": "http://yann.lecun.com/exdb/mnist/",  # the one extra set that is not in UCI
    "bundled": "scikit-learn",
}

#: Group -> what it holds. Names of the first four groups are those of the paper's tables.
GROUPS = {
    "uci-multi": "the five UCI multiclass sets of the paper",
    "uci-binary": "the 29 UCI binary sets of the paper",
    "tweets": "the 11 tweet sentiment sets of the paper",
    "lequa": "LeQua 2022, tasks T1A, T1B, T2A and T2B (see load_lequa)",
    "lequa2024": "LeQua 2024, tasks T1 to T4 (see load_lequa)",
    "uci-extra": "twelve more multiclass sets",
    "tweets-approx": "word counts of the same tweets; not the published features",
    "text": "20 newsgroups, 300 latent dimensions",
    "bundled": "multiclass sets that come with scikit-learn",
}
#: Binary sets of the paper that scikit-learn brings along.
BUNDLED_BINARY = ("iris.2", "iris.3", "wdbc", "wine.1", "wine.2", "wine.3")
#: Rows and classes of the sets that scikit-learn brings along.
_BUNDLED = {"digits-subset": (1797, 64, 10), "wine": (178, 13, 3), "iris": (150, 4, 3)}
#: Groups of stand-ins, whose sets are only known by their name with the group in front.
_STAND_INS = ("tweets-approx",)


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Attributes
    ----------
    role : str
        "all", or the part that the file holds: "train", "validation", "test", "prevalences".
    path : str
        Place below the data directory.
    sha256 : str or None
        Of the known copy; None where no copy is known.
    rows : int or None
    """

    role: str
    path: str
    sha256: str | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Entry:
    """One data set.

    Attributes
    ----------
    group, name : str
    files : tuple of DataFile
        Empty for what comes with scikit-learn alone.
    features, classes : int or None
        What the files are known to hold.
    uci : int or None
        Number of the set in the UCI Machine Learning Repository.
    categorical : tuple of str
        Columns that hold words.
    """

    group: str
    name: str
    files: tuple[DataFile, ...] = field(default=())
    features: int | None = None
    classes: int | None = None
    uci: int | None = None
    categorical: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name with its group in front, which is never ambiguous."""
        return f"{self.group}/{self.name}"

    @property
    def short_name(self) -> str:
        """The name as ``find`` takes it: without its group where that is unambiguous."""
        bare = self.group not in _STAND_INS and len(_same(self.name)) == 1
        return self.name if bare else self.full_name

    @property
    def rows(self) -> int | None:
        """Number of instances, where known."""
        if not self.files:
            return _BUNDLED[self.name][0]
        known = [file.rows for file in self.files if file.rows is not None]
        return sum(known) if known else None

    @property
    def is_lequa(self) -> bool:
        """Whether the set is a task of LeQua, with given bags in archives."""
        return self.group in _ZENODO_LEQUA

    @property
    def bundled(self) -> bool:
        """Whether scikit-learn brings the set along."""
        return self.group == "bundled" or (
            self.group == "uci-binary" and self.name in BUNDLED_BINARY
        )

    @property
    def title(self) -> str:
        """What to call the set in a table: the paper's name, or one that no paper's set has."""
        return self.short_name if self.group in ("uci-extra", *_STAND_INS) else self.name


@cache
def entries() -> tuple[Entry, ...]:
    """Return all data sets, in the order of the groups."""
    text = (files("kdey.paper.datasets") / "catalogue.csv").read_text(encoding="utf-8")
    lines: dict[tuple[str, str], list[dict[str, str]]] = {}
    for line in csv.DictReader(text.splitlines()):
        lines.setdefault((line["group"], line["name"]), []).append(line)
    listed = [_entry(group, name, group_lines) for (group, name), group_lines in lines.items()]
    for name, (_, features, classes) in _BUNDLED.items():
        listed.append(Entry("bundled", name, features=features, classes=classes))
    order = list(GROUPS)
    return tuple(sorted(listed, key=lambda entry: order.index(entry.group)))


def _entry(group: str, name: str, lines: list[dict[str, str]]) -> Entry:
    data_files = tuple(
        DataFile(line["role"], line["file"], line["sha256"] or None, _number(line["rows"]))
        for line in lines
    )
    first = lines[0]
    features, classes, uci = (_number(first[key]) for key in ("features", "classes", "uci"))
    return Entry(
        group, name, data_files, features, classes, uci, tuple(first["categorical"].split())
    )


def _number(text: str) -> int | None:
    return int(text) if text else None


def names(group: str) -> list[str]:
    """Return the names of a group, as :func:`~kdey.datasets.load_dataset` takes them.

    Parameters
    ----------
    group : str
        One of ``GROUPS``, or "bundled-binary": the binary sets that need no data directory.

    Returns
    -------
    list of str
        Bare names where they are unambiguous, else with the group in front ("uci-binary/yeast":
        there is a multiclass yeast too). ``Dataset.name`` is the name for tables.
    """
    if group == "bundled-binary":
        return list(BUNDLED_BINARY)
    if group not in GROUPS:
        known = ", ".join([*GROUPS, "bundled-binary"])
        raise ValueError(f"group must be one of {known}; got {group!r}")
    return [entry.short_name for entry in entries() if entry.group == group]


def find(name: str, group: str | None = None) -> Entry:
    """Return the data set of a name, "letter" or "uci-multi/letter", upper or lower case.

    Parameters
    ----------
    name : str
    group : str, optional
        The group, where the name does not carry it.
    """
    head, _, tail = name.rpartition("/")
    group_name = head or group
    if group_name == "bundled-binary" and tail in BUNDLED_BINARY:
        group_name = "uci-binary"  # the same sets under another name
    matches = [entry for entry in _same(tail) if group_name in (None, entry.group)]
    if group_name in _STAND_INS:
        matches = [e for e in entries() if e.group == group_name and e.name.lower() == tail.lower()]
    if not matches:
        raise ValueError(f"name: no data set is called {name!r}{_suggestion(name)}")
    if len(matches) > 1:
        both = " and ".join(entry.full_name for entry in matches)
        raise ValueError(f"name: {name!r} is ambiguous, it may mean {both}; give the full name")
    return matches[0]


def _same(name: str) -> list[Entry]:
    """Return the sets that a bare name may mean; stand-ins need their group."""
    return [e for e in entries() if e.name.lower() == name.lower() and e.group not in _STAND_INS]


def _suggestion(name: str) -> str:
    known = {entry.short_name.lower(): entry.short_name for entry in entries()}
    close = get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    if not close:
        return "; `kdey data list` prints all names"
    return f"; did you mean {', '.join(known[match] for match in close)}?"


@dataclass(frozen=True)
class Home:
    """Where a data set officially lives.

    Attributes
    ----------
    page : str
        For people: description, licence, citation.
    urls : tuple of str
        What to download; empty where it has to be done by hand.
    recipe : Recipe or None
        How the downloads become a table of the data directory, for UCI sets.
    """

    page: str
    urls: tuple[str, ...] = ()
    recipe: Recipe | None = None


def home(entry: Entry) -> Home:
    """Return the official home of a data set."""
    if entry.is_lequa:
        page = _ZENODO_LEQUA[entry.group]
        names = (file.path.rpartition("/")[2] for file in entry.files)
        return Home(page, tuple(f"{page}/files/{name}" for name in names))
    if entry.group == "tweets":
        archive = f"{_ZENODO_TWEETS}/files/tweet_sentiment_quantification_snam.zip"
        return Home(_ZENODO_TWEETS, (archive,))
    if entry.uci is not None:
        recipe = recipe_for(entry.full_name)
        page = f"https://archive.ics.uci.edu/dataset/{entry.uci}"
        return Home(page, () if recipe is None else recipe.urls, recipe)
    return Home(_PAGES.get(entry.group, ""))
