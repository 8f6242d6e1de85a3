"""Options of an estimate: what is asked for rarely, written down and checked in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kdey.validation import check_choice, check_count, check_share

TARGETS = ("population", "bag")
METHODS = ("auto", "analytic", "bootstrap")
INTERVALS = ("percentile", "bias-corrected", "basic")
LABEL_SHIFT, LABELS, PREDICTION_POWERED = "label-shift", "labels", "prediction-powered"
#: The ways to use labels of the bag itself, in the order in which they are shown.
WAYS = (LABEL_SHIFT, LABELS, PREDICTION_POWERED)
#: What the intervals of groups that lean on one another hold for.
EACH_GROUP, AVERAGE_GROUP = "each-group", "average-group"
MISSING = ("auto", "drop", "error")
HOLM, FALSE_DISCOVERY = "holm", "fdr"
#: Options of tables that functions on tables take as keywords of their own, too.
OF_TABLES = ("scores", "weights", "clusters", "merge", "labelled")
#: Why labels of a bag and label noise exclude each other.
LABELLED_NOISE = (
    "label noise and labelled rows cannot be used together, since it is not known whether the "
    "labels of the new rows are wrong, too: leave one of the two out"
)


class IntervalWarning(UserWarning):
    """The data cannot support an informative interval, so a wide one is returned."""


@dataclass(frozen=True)
class Options:
    """How estimates, of single bags and of groups, are computed and judged.

    Attributes
    ----------
    confidence : float
        Nominal coverage, strictly between 0 and 1.
    target : {"population", "bag"}
        The prevalence of the population that the bag was drawn from, or the realised class
        shares of the instances in this bag.
    method : {"auto", "analytic", "bootstrap"}
        "auto" is "analytic" wherever the method supports it: for ACC, PACC, EMQ, DIR, KDEy-ML and
        methods of your own whose matching has derivatives.
    interval : {"percentile", "bias-corrected", "basic"}
        How an interval is computed from bootstrap replicates.
    simultaneous : bool
        Whether the intervals should cover all classes at once (Bonferroni).
    n_replicates : int
        Number of bootstrap replicates, at least 20.
    resample_templates : bool
        Whether the bootstrap resamples the training instances too.
    random_state : int
        Seed of the bootstrap. The same seed gives every bag the same training replicates, so
        that differences between bags share them.
    check_fit : bool
        Whether to check that a bag looks like a mixture of the training classes.
    level : float
        P-values of the fit check up to it make the status "poor fit".
    believe : {"prediction-powered", "label-shift", "labels"}
        Which estimate is the one of the result where labels of the bag are known.
    selection : array-like, or the name of a column
        The probability with which each labelled instance was chosen, where it was not a random
        draw.
    n_null : int
        Null bags of the fit check of groups, at least 19.
    min_size : int
        Groups with fewer usable instances are estimated too, but their status is "too small".
    missing : {"auto", "drop", "error"}
        Rows of a table with a missing score or feature are left out and counted ("drop"), or raise
        ("error"). With "auto" they are used where the classifier takes missing values and, for a
        model fitted on a table, has learnt from rows that lack the same value; otherwise they are
        left out and counted.
    date_format : str
        How dates that are written as text are read, in the notation of strftime ("%d.%m.%Y").
        "excel": as the serial numbers of a spreadsheet, 45292 for 2024-01-01, of which the day
        counts unless the period is shorter. "auto": ISO 8601, or day, month and year where the
        column shows which comes first.
    key_types : mapping from names of key columns to {"integer", "text"}, optional
        Keys to turn into whole numbers, or into texts.
    strata : name of a column, optional
        The strata from which rows were drawn. Each is estimated by itself, and the estimate of a
        group is their sum weighted by their shares.
    variance_strata : name of a column, or array-like of ids, optional
        The strata within which rows, or clusters of rows, were drawn, where all are estimated
        together: they decide the variance only. The ids are those of the instances of a bag.
    stratum_shares : mapping from strata to shares or sizes in the population, optional
        By default the shares of the strata among the (weighted) rows of each group.
    fpc : float, or the name of a column, optional
        Finite population correction: the number of units (rows, or clusters where these were
        drawn) in the population of a bag, or the share of them that was drawn if it is at most one.
        The bag itself, ``target="bag"``, is the limit in which all were drawn. A column says it
        for each group or stratum, and has one value in it. With ``variance_strata`` an array may
        have one value per instance, that of its stratum.
    label_noise : float, mapping from classes to rates, or array of shape (k, k), optional
        *Known* label noise, of which shares are freed: the share of the training rows with a label
        that belong to another class, one for all classes, or of each (zero where a mapping names
        none). A matrix says where they belong: entry (i, j) is the share of rows with label j that
        belong to class i. Otherwise intervals hold wherever they belong.
    label_noise_bound : float, or mapping from classes to rates, optional
        A *bound* on label noise: estimates are unchanged, and intervals hold for every noise of at
        most these rates.
    shrink_covers : {"each-group", "average-group"}
        What the intervals of groups that borrow from others (``shrink``) cover: every group with
        the nominal probability, or the groups on average. The latter are narrower, and wrong more
        often for a group that is unlike the others.
    scores, weights, clusters, merge, labelled : optional
        What :func:`kdey.predict_groups` takes by these names; its keywords go first.
    correction : {"holm", "fdr"} or None
        How the p-values of comparisons between groups allow for their number; see
        :func:`kdey.compare_groups`.
    key : name of a column, optional
        What tells the rows of a table apart: it chooses the fold model that scores a row for the
        fit check, and the order in which bootstraps resample. By default the features do.

    focus : a class, optional
        The class that was asked for, which a report is about; see :func:`kdey.make_report`.

    Raises
    ------
    ValueError
        If an option has a value that is not allowed.

    See Also
    --------
    kdey.KDEyML.estimate : Estimate a bag with intervals.
    kdey.predict_groups : Estimate the groups of a table.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> options = kdey.Options(target="bag", check_fit=False)
    >>> kdey.PACC().fit(X[::2], y[::2]).estimate(X[1::2], options=options).target
    'bag'
    """

    confidence: float = 0.95
    target: str = "population"
    method: str = "auto"
    interval: str = "percentile"
    simultaneous: bool = False
    n_replicates: int = 500
    resample_templates: bool = True
    random_state: int = 0
    check_fit: bool = True
    level: float = 0.01
    believe: str = PREDICTION_POWERED
    selection: Any = None
    n_null: int = 300
    min_size: int = 10
    missing: str = "auto"
    date_format: str = "auto"
    key_types: Mapping[str, str] | None = None
    strata: str | None = None
    variance_strata: Any = None
    stratum_shares: Mapping[Any, float] | None = None
    fpc: Any = None
    label_noise: Any = None
    label_noise_bound: Any = None
    shrink_covers: str = EACH_GROUP
    scores: Sequence[str] | None = None
    weights: str | None = None
    clusters: str | None = None
    merge: Mapping[Any, Any] | None = None
    labelled: str | None = None
    correction: str | None = HOLM
    key: str | None = None
    focus: Any = None

    def __post_init__(self) -> None:
        check_share(self.confidence, "confidence")
        check_choice(self.target, "target", TARGETS)
        check_choice(self.method, "method", METHODS)
        check_choice(self.interval, "interval", INTERVALS)
        check_count(self.n_replicates, "n_replicates", 20)
        check_count(self.random_state, "random_state", 0)
        check_share(self.level, "level")
        check_choice(self.believe, "believe", WAYS)
        check_count(self.n_null, "n_null", 19)
        check_count(self.min_size, "min_size", 1)
        check_choice(self.missing, "missing", MISSING)
        check_choice(self.shrink_covers, "shrink_covers", (EACH_GROUP, AVERAGE_GROUP))
        if not (self.fpc is None or isinstance(self.fpc, str) or np.all(np.asarray(self.fpc) > 0)):
            raise ValueError(
                "fpc must be the number of units in the population, or the share of them that was "
                f"drawn, both positive, got {self.fpc!r}"
            )
        if self.label_noise is not None and self.label_noise_bound is not None:
            raise ValueError(
                "label_noise is a known rate and label_noise_bound the largest possible one: give "
                "one of them"
            )
        known = isinstance(self.correction, str) and self.correction in (HOLM, FALSE_DISCOVERY)
        if not (known or self.correction is None):
            raise ValueError(f"correction must be 'holm', 'fdr' or None, got {self.correction!r}")

    @property
    def has_label_noise(self) -> bool:
        """Whether something is said of wrong training labels."""
        return self.label_noise is not None or self.label_noise_bound is not None

    @classmethod
    def given(cls, options: Options | None, **values: Any) -> Options:
        """Return the options, with those of the values that are not None in their place.

        Parameters
        ----------
        options : Options, optional
            By default those with all defaults.
        **values
            Options that a function takes as keywords of their own.
        """
        if options is not None and not isinstance(options, cls):
            raise TypeError(f"options must be kdey.Options(...), got {options!r:.80}")
        for name in OF_TABLES if options is not None else ():
            if getattr(options, name) is not None:
                raise ValueError(f"option {name} is for tables, and this is a bag: leave it out")
        said = {name: value for name, value in values.items() if value is not None}
        if options is None:
            return cls(**said)
        return replace(options, **said) if said else options

    def tail(self, n_classes: int) -> float:
        """Return the probability outside each end of the interval of a class."""
        return interval_tail(self.confidence, self.simultaneous, n_classes)


def interval_tail(confidence: float, simultaneous: bool, n_intervals: int) -> float:
    """Return the probability outside each end of one of several intervals."""
    return (1.0 - confidence) / 2.0 / (n_intervals if simultaneous else 1)
