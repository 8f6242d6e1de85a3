"""How the files that the UCI archive hands out become tables of the data directory.

A recipe changes no number: it says which column is the label, which rows and columns go, and
which labels count as positive. It is applied by ``kdey data fetch`` alone, which says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

_ARCHIVE = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_STATIC = "https://archive.ics.uci.edu/static/public"


@dataclass(frozen=True)
class Recipe:
    """What to do with the downloads of one data set.

    Attributes
    ----------
    urls : tuple of str
        Their rows are put one after the other.
    label : int
        Column of the label, negative from the end.
    delimiter : str or None
        None: any white space.
    header : bool
        Whether the first line names the columns.
    drop : tuple of int
        Columns left out, such as running numbers.
    features : int or None
        How many columns from the left are features (before any drop); None: all but the label.
    positive : tuple of str
        Labels that become 1, all others 0; empty: labels stay.
    missing : str or None
        Rows with such a cell are left out.
    codes : tuple of (str, str)
        Words of the feature columns and the numbers to put for them.
    member : str or None
        File inside a zip archive.
    """

    urls: tuple[str, ...]
    label: int = -1
    delimiter: str | None = ","
    header: bool = False
    drop: tuple[int, ...] = ()
    features: int | None = None
    positive: tuple[str, ...] = ()
    missing: str | None = None
    codes: tuple[tuple[str, str], ...] = field(default=())
    member: str | None = None

    def words(self) -> str:
        """Return in a few words what is done."""
        said = [f"label from column {self.label}"]
        if self.drop:
            said.append(f"columns {list(self.drop)} left out")
        if self.features is not None:
            said.append(f"the first {self.features} columns kept")
        if self.missing is not None:
            said.append(f"rows with {self.missing!r} left out")
        if self.codes:
            said.append("coded " + ", ".join(f"{word}={code}" for word, code in self.codes))
        if self.positive:
            said.append(f"label 1 for {', '.join(self.positive)}")
        return "; ".join(said)


def recipe_for(full_name: str) -> Recipe | None:
    """Return the recipe of a data set, or None where it has to be made by hand."""
    return _RECIPES.get(full_name)


def _plain(*paths: str, **settings: object) -> Recipe:
    return replace(Recipe(tuple(f"{_ARCHIVE}/{path}" for path in paths)), **settings)  # type: ignore[arg-type]


def _positive(recipe: Recipe, *labels: str) -> Recipe:
    return replace(recipe, positive=labels)


_BALANCE = _plain("balance-scale/balance-scale.data", label=0)
_CMC = _plain("cmc/cmc.data")
_IRIS = _plain("iris/iris.data")
_WINE = _plain("wine/wine.data", label=0)
_WHITE = _plain("wine-quality/winequality-white.csv", delimiter=";", header=True)
_RED = _plain("wine-quality/winequality-red.csv", delimiter=";", header=True)
_YEAST = _plain("yeast/yeast.data", delimiter=None, drop=(0,))
_GOOD_WINE = ("6", "7", "8", "9", "10")
_SONAR = "undocumented/connectionist-bench/sonar/sonar.all-data"

_MULTI = {
    "academic-success": Recipe(
        (f"{_STATIC}/697/predict+students+dropout+and+academic+success.zip",),
        delimiter=";",
        header=True,
        member="data.csv",
    ),
    "digits": _plain("optdigits/optdigits.tra", "optdigits/optdigits.tes"),
    "dry-bean": Recipe(
        (f"{_STATIC}/602/dry+bean+dataset.zip",), member="DryBeanDataset/Dry_Bean_Dataset.arff"
    ),
    "letter": _plain("letter-recognition/letter-recognition.data", label=0),
    "wine-quality": _WHITE,
}
_BINARY = {
    "balance.1": _positive(_BALANCE, "L"),
    "balance.3": _positive(_BALANCE, "R"),
    "breast-cancer": _positive(
        _plain("breast-cancer-wisconsin/breast-cancer-wisconsin.data", drop=(0,), missing="?"), "2"
    ),
    "cmc.1": _positive(_CMC, "1"),
    "cmc.2": _positive(_CMC, "2"),
    "cmc.3": _positive(_CMC, "3"),
    "german": _positive(_plain("statlog/german/german.data-numeric", delimiter=None), "1"),
    "haberman": _positive(_plain("haberman/haberman.data"), "2"),
    "ionosphere": _positive(_plain("ionosphere/ionosphere.data"), "b"),
    "iris.2": _positive(_IRIS, "Iris-versicolor"),
    "iris.3": _positive(_IRIS, "Iris-virginica"),
    "mammographic": _positive(
        _plain("mammographic-masses/mammographic_masses.data", missing="?"), "1"
    ),
    # Column 263 marks digit 7; the paper's authors took it (their text calls it 8).
    "semeion": _positive(
        _plain("semeion/semeion.data", delimiter=None, label=263, features=256), "1"
    ),
    "sonar": _positive(_plain(_SONAR), "R"),
    "spambase": _positive(_plain("spambase/spambase.data"), "1"),
    "spectf": _positive(_plain("spect/SPECTF.train", "spect/SPECTF.test", label=0), "0"),
    "tictactoe": _positive(
        _plain("tic-tac-toe/tic-tac-toe.data", codes=(("o", "0"), ("b", "1"), ("x", "2"))),
        "negative",
    ),
    "transfusion": _positive(_plain("blood-transfusion/transfusion.data", header=True), "1"),
    "wdbc": _positive(_plain("breast-cancer-wisconsin/wdbc.data", label=1, drop=(0,)), "M"),
    "wine.1": _positive(_WINE, "1"),
    "wine.2": _positive(_WINE, "2"),
    "wine.3": _positive(_WINE, "3"),
    "wine-q-red": _positive(_RED, *_GOOD_WINE),
    "wine-q-white": _positive(_WHITE, *_GOOD_WINE),
    "yeast": _positive(_YEAST, "NUC"),
}
_EXTRA = {
    "abalone": _plain("abalone/abalone.data"),
    "chess-krk": _plain("chess/king-rook-vs-king/krkopt.data"),
    "cmc": _CMC,
    "nursery": _plain("nursery/nursery.data"),
    "pendigits": _plain("pendigits/pendigits.tra", "pendigits/pendigits.tes"),
    "yeast": _YEAST,
}
_RECIPES = {
    f"{group}/{name}": recipe
    for group, table in (("uci-multi", _MULTI), ("uci-binary", _BINARY), ("uci-extra", _EXTRA))
    for name, recipe in table.items()
}
