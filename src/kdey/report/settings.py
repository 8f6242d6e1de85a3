"""The settings that a report was made with: the method, the limits and the versions."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from kdey.intervals import Estimate
from kdey.model import kept_training
from kdey.quantifiers.base import BaseQuantifier

if TYPE_CHECKING:
    from kdey.report.page import Report

#: Longest text of one setting.
_LONGEST = 400


def settings_of(report: Report) -> list[tuple[str, str]]:
    """Return names and values: the caller's own, the method, the limits, the versions."""
    estimate, quantifier = report.estimate, report.quantifier
    parts = [(str(name), str(value)) for name, value in report.settings.items()]
    if quantifier is not None:
        parts.append(("Method", _call(quantifier)))
        parts += _training(quantifier)
    if estimate is not None:
        parts += [
            ("Confidence", f"{estimate.confidence:g}"),
            ("Limits", f"{estimate.method}, for the {estimate.target}"),
            ("Optimality gap", _gap(estimate)),
        ]
    return [*parts, *_versions()]


def _call(quantifier: BaseQuantifier) -> str:
    """Return the call that makes the quantifier."""
    params = quantifier.get_params(deep=False)
    inside = ", ".join(f"{name}={_one_line(value)}" for name, value in params.items())
    return f"{type(quantifier).__name__}({inside})"


def _one_line(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _training(quantifier: BaseQuantifier) -> list[tuple[str, str]]:
    training = kept_training(quantifier)
    facts = [("Classes", str(len(quantifier.classes_)))]
    if training is not None:
        facts.append(("Training instances", f"{len(training.labels):,}"))
    names = quantifier.feature_names
    if names is not None:
        shown = ", ".join(names[:30])
        facts.append(("Features", shown + (f", … ({len(names)})" if len(names) > 30 else "")))
    return facts


def _gap(estimate: Estimate) -> str:
    state = "converged" if estimate.converged else "not converged"
    return f"{state}, no certificate" if np.isnan(estimate.gap) else f"{state}, {estimate.gap:.2g}"


def _versions() -> list[tuple[str, str]]:
    import sklearn

    import kdey

    libraries = {
        "kdey": kdey.__version__,
        "scikit-learn": sklearn.__version__,
        "NumPy": np.__version__,
        "Python": platform.python_version(),
    }
    return [("Versions", ", ".join(f"{name} {version}" for name, version in libraries.items()))]
