"""What an interval is asked to be: parameters of ``estimate``, checked in one place."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

TARGETS = ("population", "bag")
METHODS = ("auto", "analytic", "bootstrap")
INTERVALS = ("percentile", "bias-corrected", "basic")


class IntervalWarning(UserWarning):
    """The data cannot support an informative interval; a wide one is given instead."""


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
        "auto" is "analytic" wherever the method has it (ACC, PACC, EMQ, DIR, KDEy-ML).
    interval : {"percentile", "bias-corrected", "basic"}
        How bootstrap replicates become limits.
    simultaneous : bool
        Whether all classes are to be covered at once (Bonferroni).
    n_replicates : int
        Bootstrap replicates.
    resample_templates : bool
        Whether the bootstrap resamples the training instances too.
    random_state : int
        Seed of the bootstrap. The same seed gives every bag the same training replicates, so
        that differences between bags share them.
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
        c: Any = self.confidence
        if isinstance(c, bool) or not isinstance(c, Real) or not 0.0 < float(c) < 1.0:
            raise ValueError(
                f"confidence must be a number strictly between 0 and 1, such as 0.95; got {c!r}"
            )
        _check_choice("target", self.target, TARGETS)
        _check_choice("method", self.method, METHODS)
        _check_choice("interval", self.interval, INTERVALS)
        _check_integer("n_replicates", self.n_replicates, 20)
        _check_integer("random_state", self.random_state, 0)

    def tail(self, n_classes: int) -> float:
        """Return the probability left out at each end of one class's interval."""
        miss = 1.0 - self.confidence
        return miss / 2.0 / (n_classes if self.simultaneous else 1)


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {allowed}, got {value!r}")


def _check_integer(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
