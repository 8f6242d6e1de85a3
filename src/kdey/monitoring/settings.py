"""What is watched, and how often a false alarm may ring. Stored with a history, once for all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kdey.monitoring.windows import HORIZON
from kdey.validation import check_choice

ABOVE, BELOW = "above", "below"
#: Kinds of alarms.
MOVED, BOUND, FIT = "moved", "bound", "fit"


@dataclass(frozen=True)
class Bound:
    """A bound on the share of a class.

    Attributes
    ----------
    label : str
        The class, as text.
    side : {"above", "below"}
        On which side of the bound the alarm rings.
    share : float in (0, 1)
    """

    label: str
    side: str
    share: float

    def __post_init__(self) -> None:
        check_choice(self.side, "side", (ABOVE, BELOW))
        if not 0.0 < self.share < 1.0:
            raise ValueError(
                f"the bound of class {self.label!r} must lie strictly between 0 and 1, got "
                f"{self.share!r}"
            )

    def __str__(self) -> str:
        """Return the bound in words."""
        return f"{self.label} {self.side} {self.share:g}"


@dataclass(frozen=True)
class MonitorSettings:
    """What is watched in a history.

    The chance of a false alarm is divided equally between the kinds of alarms that are watched,
    and within a kind between classes or bounds.

    Attributes
    ----------
    false_alarms : float
        Chance of any false alarm within 100 periods, above 0 and at most 0.5.
    bounds : tuple of Bound
    fluctuation : float
        Standard deviation of the true shares from period to period that counts as ordinary. With
        0, any change of a share that can be seen is one.
    check_fit : bool
        Whether an alarm rings where the new data do not look like a mixture of the training
        classes.
    """

    false_alarms: float = 0.05
    bounds: tuple[Bound, ...] = ()
    fluctuation: float = 0.0
    check_fit: bool = True

    def __post_init__(self) -> None:
        if not 0.0 < self.false_alarms <= 0.5:
            raise ValueError(
                f"false_alarms must be above 0 and at most 0.5, got {self.false_alarms!r}"
            )
        if not 0.0 <= self.fluctuation < 0.5:
            raise ValueError(
                f"fluctuation must be at least 0 and below 0.5, got {self.fluctuation!r}"
            )
        if len(set(self.bounds)) != len(self.bounds):
            raise ValueError("a bound is named twice")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of alarms that are watched."""
        return (MOVED, *([BOUND] if self.bounds else []), *([FIT] if self.check_fit else []))

    def chance(self, kind: str, n_streams: int = 1) -> float:
        """Return the chance of a false alarm within 100 periods of one stream of a kind."""
        return self.false_alarms / len(self.kinds) / n_streams

    @property
    def fit_level(self) -> float:
        """The fit p-value up to which a period raises an alarm."""
        return self.chance(FIT) / HORIZON

    @property
    def n_null(self) -> int:
        """The number of null bags of a fit check that can raise an alarm.

        A bag that is worse than all null bags in one of the two statistics of the check has a
        p-value of up to two over the number of bags.
        """
        return max(300, math.ceil(2.0 / self.fit_level) - 1)

    def check_classes(self, labels: Sequence[str]) -> None:
        """Raise ValueError where a bound names no class."""
        for bound in self.bounds:
            if bound.label not in labels:
                raise ValueError(
                    f"no class {bound.label!r} to bound: the classes are {', '.join(labels)}"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {
            "false_alarms": self.false_alarms,
            "bounds": [[b.label, b.side, b.share] for b in self.bounds],
            "fluctuation": self.fluctuation,
            "check_fit": self.check_fit,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MonitorSettings:
        """Return the settings from plain values."""
        return cls(
            float(values["false_alarms"]),
            tuple(Bound(str(label), side, float(share)) for label, side, share in values["bounds"]),
            float(values["fluctuation"]),
            bool(values["check_fit"]),
        )

    def __str__(self) -> str:
        """Return the settings in words."""
        watched = "; ".join(map(str, self.bounds)) or "none"
        return (
            f"false alarms {self.false_alarms:g}, bounds: {watched}, fluctuation "
            f"{self.fluctuation:g}, fit {'checked' if self.check_fit else 'not checked'}"
        )
