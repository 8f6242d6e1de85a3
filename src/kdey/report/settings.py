"""What a report was made with, so that it can be made again."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from kdey.inference import Estimate

_LONGEST = 400


def settings_of(
    estimate: Estimate | None, quantifier: Any, given: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Return names and values: what was given, the method, the limits, the versions."""
    parts = [(str(name), str(value)) for name, value in given.items()]
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


def _call(quantifier: Any) -> str:
    """Return how the quantifier would be written down."""
    params = quantifier.get_params(deep=False)
    inside = ", ".join(f"{name}={_one_line(value)}" for name, value in params.items())
    return f"{type(quantifier).__name__}({inside})"


def _one_line(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _training(quantifier: Any) -> list[tuple[str, str]]:
    training = getattr(quantifier, "training_", None)
    labels = getattr(training, "labels", None)
    told = [("Classes", str(len(quantifier.classes_)))]
    if labels is not None:
        told.append(("Training instances", f"{len(labels):,}"))
    names = getattr(quantifier, "feature_names_in_", None)
    if names is not None:
        shown = ", ".join(str(name) for name in names[:30])
        told.append(("Features", shown + (f", … ({len(names)})" if len(names) > 30 else "")))
    return told


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
