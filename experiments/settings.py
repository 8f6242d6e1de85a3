"""The methods that the experiments compare, and the settings that they are compared in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sklearn.base import ClassifierMixin

from kdey._fingerprints import fingerprint
from kdey.quantifiers import AggregativeQuantifier
from kdey.quantifiers.base import BaseQuantifier
from kdey.quantifiers.counting import ACC, PACC
from kdey.quantifiers.densities import DIR, EMQ, KDEyCS, KDEyHD, KDEyL2, KDEyML
from kdey.quantifiers.distances import DM, HDy
from kdey.quantifiers.meta import OneVsAll
from kdey.quantifiers.quantifier import Quantifier

#: Grid of the logistic regression.
CLASSIFIERS = {"C": tuple(10.0**e for e in range(-3, 4)), "class_weight": (None, "balanced")}
BANDWIDTHS = tuple(round(0.01 * i, 2) for i in range(1, 21))
#: Tried where the best bandwidth is the largest one, as the paper did.
WIDER = tuple(round(0.01 * i, 2) for i in range(21, 31))
BINS = (*range(2, 11), *range(12, 33, 2), 64)

_FOLDS, _HELD_OUT = 10, 0.4
_BINS = {"n_bins": BINS}
#: The paper's kernel: a Gaussian on the posteriors themselves.
_WIDTHS: dict[str, Any] = {
    "options": {"kernel": "gaussian"},
    "grid": {"bandwidth": BANDWIDTHS},
    "beyond": {"bandwidth": WIDER},
}
#: The paper's number of Monte Carlo points.
_POINTS = {"n_points": 10_000}
#: The iterations of the literature, as the paper's EMQ: stop at a mean change of 1e-4.
_EM = {"solver": "em"}

ADJUSTMENT = "Adjustment"
MATCHING = "Distribution matching"
LIKELIHOOD = "Maximum likelihood"
AUTOMATIC = "Automatic"


@dataclass(frozen=True)
class Method:
    """A method with everything that its cells depend on.

    Attributes
    ----------
    name, family : str
        As in the paper's tables.
    quantifier : class of the quantifier
    cv : int, float or None
        How training posteriors are made; see :func:`kdey.posteriors.training_posteriors`.
    options : mapping from parameters of the quantifier to fixed values
    grid : mapping from parameters to the values to choose from
    beyond : mapping from parameters to values tried where the largest of ``grid`` is best
    per_class : bool
        One binary quantifier, with a classifier of its own, per class.
    automatic : bool
        Whether the quantifier keeps its defaults, classifier included, so that nothing is
        selected on validation bags.
    former_defaults : mapping from parameters to values
        Options that were the defaults of the quantifier when the first results were written. The
        key leaves them out, so that these results stay valid.
    """

    name: str
    family: str
    quantifier: type[AggregativeQuantifier]
    cv: int | float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    beyond: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    per_class: bool = False
    automatic: bool = False
    former_defaults: Mapping[str, Any] = field(default_factory=dict)

    def build(self, classifier: ClassifierMixin, seed: int, n_jobs: int) -> BaseQuantifier:
        """Return the unfitted quantifier, around a classifier unless it is automatic."""
        if self.automatic:
            return self.quantifier(random_state=seed, n_jobs=n_jobs, **self.options)
        inner_jobs = 1 if self.per_class else n_jobs
        options = {**self.former_defaults, **self.options}
        quantifier = self.quantifier(
            classifier, cv=self.cv, random_state=seed, n_jobs=inner_jobs, **options
        )
        return OneVsAll(quantifier, n_jobs=n_jobs) if self.per_class else quantifier

    def param_grid(
        self, classifiers: Mapping[str, tuple[Any, ...]], grid: Mapping[str, tuple[Any, ...]]
    ) -> dict[str, list[Any]]:
        """Return a grid over the classifier's and the method's own parameters, by full names.

        That of an automatic method is empty.
        """
        if self.automatic:
            return {}
        params = {f"classifier__{name}": values for name, values in classifiers.items()} | dict(
            grid
        )
        prefix = "quantifier__" if self.per_class else ""
        return {prefix + name: list(values) for name, values in params.items()}

    def thinned(self, every: int = 5) -> Method:
        """Return the method with every fifth (``every``) value of its grid, and none beyond."""
        thin = {name: values[every - 1 :: every] for name, values in self.grid.items()}
        return replace(self, grid=thin, beyond={})

    @property
    def key(self) -> str:
        """Fingerprint of everything but the name, the family and former defaults."""
        parts = (self.quantifier, self.cv, self.options, self.grid, self.beyond, self.per_class)
        # The others keep the keys that they had before there were automatic methods.
        return fingerprint(*parts, "automatic") if self.automatic else fingerprint(*parts)


_ALL = (
    Method("ACC", ADJUSTMENT, ACC, _HELD_OUT),
    Method("PACC", ADJUSTMENT, PACC, _HELD_OUT),
    Method("HDy", MATCHING, HDy, _HELD_OUT),
    Method("HDy-OvA", MATCHING, HDy, _HELD_OUT, per_class=True),
    Method("DM-T", MATCHING, DM, _FOLDS, {"divergence": "topsoe"}, _BINS),
    Method("DM-HD", MATCHING, DM, _FOLDS, {"divergence": "hellinger"}, _BINS),
    Method("KDEy-HD", MATCHING, KDEyHD, _FOLDS, **_WIDTHS, former_defaults=_POINTS),
    Method("DM-CS", MATCHING, DM, _FOLDS, {"divergence": "cauchy-schwarz"}, _BINS),
    Method("KDEy-CS", MATCHING, KDEyCS, _FOLDS, **_WIDTHS),
    Method("KDEy-L2", MATCHING, KDEyL2, _FOLDS, **_WIDTHS),
    Method("DIR", LIKELIHOOD, DIR, _HELD_OUT),
    Method("EMQ", LIKELIHOOD, EMQ, None, _EM),
    Method("EMQ-BCTS", LIKELIHOOD, EMQ, _HELD_OUT, {"calibration": "bcts", **_EM}),
    Method("KDEy-ML", LIKELIHOOD, KDEyML, _FOLDS, **_WIDTHS),
    Method("KDEy-ML-auto", AUTOMATIC, KDEyML, automatic=True),
    Method("Quantifier", AUTOMATIC, Quantifier, automatic=True),
)

#: Every method by name, in the order of the paper's tables, then the automatic ones.
METHODS: Mapping[str, Method] = {method.name: method for method in _ALL}
#: The columns of the paper's compact tables.
COMPACT = ("PACC", "DM-T", "DM-HD", "KDEy-HD", "DM-CS", "KDEy-CS", "EMQ", "KDEy-ML")
#: Methods that choose for themselves; they have a column in every table.
AUTOMATIC_METHODS = tuple(method.name for method in _ALL if method.automatic)
#: Each proposal of the paper with its closest rival.
PAIRS = (("KDEy-HD", "DM-HD"), ("KDEy-CS", "DM-CS"), ("KDEy-ML", "EMQ"))
#: The automatic methods with the paper's best, whose parameters are selected on validation bags.
AUTOMATIC_PAIRS = tuple((name, "KDEy-ML") for name in AUTOMATIC_METHODS)


def find_methods(names: Iterable[str], known: Iterable[str] = METHODS) -> list[Method]:
    """Return the methods of these names, each once; an unknown name is an error."""
    allowed = list(known)
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in allowed:
            raise ValueError(f"method {name!r} is unknown here; there are {', '.join(allowed)}")
    return [METHODS[name] for name in chosen]


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
