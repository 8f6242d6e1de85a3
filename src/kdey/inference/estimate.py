"""The answer for one bag: prevalences with their limits, and what they rest on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags
from kdey.frames import make_frame
from kdey.inference.display import estimate_html, estimate_text
from kdey.inference.region import Region
from kdey.inference.uncertainty import Analytic, Draws, Nothing, Uncertainty
from kdey.rows.posterior import one_hot_argmax


@dataclass(frozen=True, eq=False)
class Decisions:
    """The classifier's decisions on a pool, counted when asked for."""

    posteriors: NDArray[np.floating]
    bags: Bags

    @cached_property
    def shares(self) -> Array:
        """Share of decisions for each class in each bag, shape (n_bags, k)."""
        return self.bags.mean(one_hot_argmax(self.posteriors))


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """Prevalences of one bag with confidence limits.

    Attributes
    ----------
    classes : array of shape (k,)
    estimate : array of shape (k,)
        What ``predict`` gives.
    low, high : arrays of shape (k,)
        Limits of each class, ``low <= estimate <= high``.
    confidence : float
    target : {"population", "bag"}
    simultaneous : bool
        Whether the limits cover all classes at once (Bonferroni).
    training_prevalence : array of shape (k,)
    size : int
        Number of instances of the bag.
    gap : float
        Certified distance of the estimate's objective from its optimum; NaN: no certificate.
    converged : bool
    uncertainty : Analytic, Draws or Nothing
        What the limits rest on.
    decisions : Decisions or None
        The classifier's decisions on the pool; None where the method has no classifier.
    number : int
        Position of the bag among those estimated together.
    diagnostics : dict
        ``effective_size``, ``notes``, and ``fit`` where the fit was checked.
    """

    classes: NDArray[Any]
    estimate: Array
    low: Array
    high: Array
    confidence: float
    target: str
    simultaneous: bool
    training_prevalence: Array
    size: int
    gap: float
    converged: bool
    uncertainty: Uncertainty
    decisions: Decisions | None = None
    number: int = 0
    diagnostics: dict[str, Any] = field(default_factory=dict)

    @property
    def classify_and_count(self) -> Array | None:
        """Share of the classifier's decisions for each class, shape (k,), for contrast."""
        return None if self.decisions is None else self.decisions.shares[self.number]

    @property
    def method(self) -> str:
        """How the limits were made: "analytic", "bootstrap" or "none"."""
        names = {Analytic: "analytic", Draws: "bootstrap", Nothing: "none"}
        return names[type(self.uncertainty)]

    @property
    def draws(self) -> Array | None:
        """Bootstrap draws of the target, shape (n_replicates, k)."""
        return self.uncertainty.draws

    @property
    def corrected(self) -> Array | None:
        """The estimate freed of smoothing and calibration bias, (k,); None for the bootstrap."""
        return self.uncertainty.corrected if isinstance(self.uncertainty, Analytic) else None

    @cached_property
    def covariance(self) -> Array:
        """Covariance of the error, shape (k, k)."""
        return self.uncertainty.covariance()

    @cached_property
    def region(self) -> Region:
        """Joint region for all classes at the same confidence."""
        return self.uncertainty.region(self.confidence)

    def columns(self) -> dict[str, Any]:
        """Return one vector per column of the frame."""
        unknown = np.full(len(self.classes), np.nan)
        counted = unknown if self.classify_and_count is None else self.classify_and_count
        return {
            "class": list(self.classes),
            "estimate": self.estimate,
            "low": self.low,
            "high": self.high,
            "classify_and_count": counted,
            "training_prevalence": self.training_prevalence,
        }

    def to_frame(self, backend: str | None = None) -> Any:
        """Return one row per class as a data frame of the installed (or named) library."""
        return make_frame(self.columns(), backend)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values; NaN becomes None."""
        columns = {name: _plain(values) for name, values in self.columns().items()}
        scalars = ("confidence", "target", "method", "simultaneous", "size", "gap", "converged")
        return {
            **{name: _plain(getattr(self, name)) for name in scalars},
            "classes": columns.pop("class"),
            **columns,
            "diagnostics": _plain(self.diagnostics),
        }

    def to_json(self) -> str:
        """Return :meth:`to_dict` as JSON; draws and region stay behind."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def report(self, path: str | PathLike[str], **parts: Any) -> Path:
        """Write one self-contained HTML page on this estimate; return its path.

        Give the ``quantifier`` that made it for a full report; ``parts`` as for
        :func:`kdey.make_report`. Needs jinja2 (``pip install 'kdey[report]'``).
        """
        import kdey  # reports lie above estimates: found through the public names

        return kdey.write_report(path, self, **parts)

    def __repr__(self) -> str:
        """Return a table of the limits."""
        return estimate_text(self)

    def _repr_html_(self) -> str:
        return estimate_html(self)


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
