"""Candidates of a search: settings of a quantifier, checked before any work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from kdey.fingerprint import fingerprint


@dataclass(frozen=True, eq=False)
class Candidate:
    """One setting of the quantifier.

    Attributes
    ----------
    number : int
        Position in the search.
    params : mapping from parameter names to values
    quantifier : unfitted clone with these parameters
    key : str
        Fingerprint of the parameters.
    """

    number: int
    params: Mapping[str, Any]
    quantifier: Any
    key: str


def make_candidates(
    quantifier: Any, settings: Iterable[Mapping[str, Any]], first: int = 0
) -> list[Candidate]:
    """Return one candidate per setting, numbered from ``first``; unknown names are refused."""
    found = [dict(setting) for setting in settings]
    check_names(quantifier, {name: None for setting in found for name in setting})
    return [
        Candidate(number, params, _with_params(quantifier, params), fingerprint(params))
        for number, params in enumerate(found, start=first)
    ]


def check_names(quantifier: Any, names: Iterable[str]) -> None:
    """Raise for a parameter that the quantifier does not have."""
    known = quantifier.get_params(deep=True)
    inner = known.get("classifier")
    for name in names:
        head, _, rest = name.partition("__")
        unset = head == "classifier" and rest and "classifier" in known and inner is None
        if name in known or (unset and rest in _default_classifier(quantifier).get_params()):
            continue
        raise ValueError(
            f"parameter {name!r} is unknown to {type(quantifier).__name__}; it has "
            f"{', '.join(sorted(known))}"
        )


def _default_classifier(quantifier: Any) -> Any:
    return quantifier._inner()


def _with_params(quantifier: Any, params: Mapping[str, Any]) -> Any:
    """Return a clone with the parameters set, the default classifier written out if need be."""
    made = clone(quantifier)
    inside = any(name.startswith("classifier__") for name in params)
    if inside and "classifier" not in params and made.get_params()["classifier"] is None:
        made.set_params(classifier=_default_classifier(made))
    # Values that are estimators are cloned: candidates must not share what they fit.
    return made.set_params(**{name: clone(v, safe=False) for name, v in params.items()})


def grid_dicts(param_grid: Any) -> list[dict[str, list[Any]]]:
    """Return a grid as a list of dicts from names to lists of values."""
    grids = [param_grid] if isinstance(param_grid, Mapping) else list(param_grid)
    return [{name: list(values) for name, values in grid.items()} for grid in grids]


def summary_line(params: Mapping[str, Any]) -> str:
    """Return parameters as text for messages."""
    return ", ".join(f"{name}={value!r}" for name, value in params.items()) or "no parameters"


def numbers_of(values: Sequence[Any]) -> list[Any] | None:
    """Return the distinct values in rising order where all are numbers, else None."""
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in _plain(values)):
        return None
    return sorted(set(_plain(values)))


def _plain(values: Sequence[Any]) -> list[Any]:
    return [v.item() if hasattr(v, "item") and getattr(v, "ndim", 1) == 0 else v for v in values]
