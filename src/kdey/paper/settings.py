"""The paper's experimental settings: which data, how many bags, of what size, which methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kdey._support.fingerprint import fingerprint
from kdey.paper.methods import CLASSIFIERS, METHODS, Method

#: Name of a metric on the command line and in results -> the metric that is averaged.
METRICS = {"mae": "ae", "mrae": "rae"}
_MULTI = tuple(name for name in METHODS if name != "HDy")
_BINARY = tuple(name for name in METHODS if name != "HDy-OvA")


@dataclass(frozen=True)
class Setting:
    """One of the paper's tables.

    Attributes
    ----------
    name : str
        As on the command line and in results.
    datasets : str
        Group of data sets, as :func:`kdey.datasets.names` knows it.
    instead : str
        Group that takes its place where its files are missing; its sets have names of their own.
    published : (str, str)
        The setting and the group in the table of published results.
    bag_size, n_validation, n_test : int
        Size and number of bags.
    max_iter : int
        Of the logistic regression.
    classifiers : mapping from parameters of the logistic regression to values
    methods : tuple of str
    quick : bool
        Whether the grids are thinned.
    """

    name: str
    datasets: str
    instead: str
    published: tuple[str, str]
    bag_size: int
    n_validation: int = 250
    n_test: int = 1000
    max_iter: int = 3000
    methods: tuple[str, ...] = _MULTI
    classifiers: Mapping[str, tuple[Any, ...]] = field(default_factory=lambda: CLASSIFIERS)
    quick: bool = False

    def quick_version(self) -> Setting:
        """Return a version that runs in minutes: fewer classifiers and bags, thinner grids."""
        classifiers = {"C": (0.1, 1.0, 10.0), "class_weight": (None,)}
        return replace(
            self,
            bag_size=min(self.bag_size, 200),
            n_validation=50,
            n_test=200,
            classifiers=classifiers,
            quick=True,
        )

    def with_one_classifier(self) -> Setting:
        """Return the setting without a grid over the classifier, left at its defaults."""
        return replace(self, classifiers={"C": (1.0,), "class_weight": (None,)})

    def method(self, name: str) -> Method:
        """Return a method as this setting runs it."""
        return METHODS[name].thinned() if self.quick else METHODS[name]

    @property
    def key(self) -> str:
        """Fingerprint of what a cell's numbers depend on here."""
        draws = (self.bag_size, self.n_validation, self.n_test)
        return fingerprint(*draws, self.max_iter, self.classifiers)


SETTINGS = {
    "multi": Setting("multi", "uci-multi", "bundled", ("multiclass", "UCI-multi"), 500),
    "binary": Setting(
        "binary",
        "uci-binary",
        "bundled-binary",
        ("binary", "UCI-binary"),
        100,
        methods=_BINARY,
    ),
    "tweets": Setting(
        "tweets", "tweets", "tweets-approx", ("multiclass", "Tweets"), 100, max_iter=100
    ),
    "lequa": Setting(
        "lequa",
        "lequa",
        "lequa-like",
        ("multiclass", "LeQua"),
        1000,
        n_validation=1000,
        n_test=5000,
        max_iter=100,
    ),
    "lequa-binary": Setting(
        "lequa-binary",
        "lequa",
        "lequa-like",
        ("binary", "LeQua"),
        250,
        n_validation=1000,
        n_test=5000,
        max_iter=100,
        methods=_BINARY,
    ),
}
