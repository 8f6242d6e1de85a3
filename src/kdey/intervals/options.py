"""Options of an interval: the parameters of ``estimate``, validated in one place."""

from __future__ import annotations

from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from kdey._support.validation import check_choice, check_count, check_share

TARGETS = ("population", "bag")
METHODS = ("auto", "analytic", "bootstrap")
INTERVALS = ("percentile", "bias-corrected", "basic")


class IntervalWarning(UserWarning):
    """The data cannot support an informative interval, so a wide one is returned."""


@dataclass(frozen=True)
class IntervalOptions:
    """Parameters of an interval.

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
        How limits are computed from bootstrap replicates.
    simultaneous : bool
        Whether the limits should cover all classes at once (Bonferroni).
    n_replicates : int
        Number of bootstrap replicates, at least 20.
    resample_templates : bool
        Whether the bootstrap resamples the training instances too.
    random_state : int
        Seed of the bootstrap. The same seed gives every bag the same training replicates, so
        that differences between bags share them.

    Raises
    ------
    ValueError
        If an option has a value that is not allowed.
    """

    confidence: float = 0.95
    target: str = "population"
    method: str = "auto"
    interval: str = "percentile"
    simultaneous: bool = False
    n_replicates: int = 500
    resample_templates: bool = True
    random_state: int = 0

    def __post_init__(self) -> None:
        check_share(self.confidence, "confidence")
        check_choice(self.target, "target", TARGETS)
        check_choice(self.method, "method", METHODS)
        check_choice(self.interval, "interval", INTERVALS)
        check_count(self.n_replicates, "n_replicates", 20)
        check_count(self.random_state, "random_state", 0)

    @classmethod
    def of(cls, **options: Any) -> IntervalOptions:
        """Return the options of these names; raises TypeError, which lists them, for another."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                alike = get_close_matches(name, known, 1)
                hint = f", did you mean {alike[0]}?" if alike else ";"
                raise TypeError(f"unknown option {name}{hint} the options are {', '.join(known)}")
        return cls(**options)

    def tail(self, n_classes: int) -> float:
        """Return the probability outside each end of the interval of a class."""
        miss = 1.0 - self.confidence
        return miss / 2.0 / (n_classes if self.simultaneous else 1)
