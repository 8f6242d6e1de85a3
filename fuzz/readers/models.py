"""Small fitted quantifiers of every shape that a model file can hold, taken apart."""

from __future__ import annotations

import json
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import kdey

Members = dict[str, bytes]


def made() -> list[Any]:
    """Return fitted quantifiers: with and without classifier, nested, on features."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(36, 2)), np.arange(36) % 3
    X += y[:, None]
    posteriors = rng.dirichlet(np.ones(3), 36)
    classifier = LogisticRegression(max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            kdey.KDEyML(bandwidth=0.2).fit_posteriors(posteriors, y),
            kdey.KDEyCS(bandwidth=0.2).fit_posteriors(posteriors, y),
            kdey.DM(n_bins=3).fit_posteriors(posteriors, y),
            kdey.EMQ(calibration="bcts").fit_posteriors(posteriors, y),
            kdey.PACC(classifier, cv=2).fit(X, y),
            kdey.Median(kdey.DM(), {"n_bins": [2, 3]}).fit_posteriors(posteriors, y),
            kdey.DMx(n_bins=3).fit(X, y),
        ]


def taken_apart(quantifier: Any) -> tuple[bytes, Members, dict[str, Any]]:
    """Return a quantifier's file, its members, and what its manifest says beside them."""
    with tempfile.TemporaryDirectory() as folder:
        path = kdey.save(quantifier, Path(folder) / "model.kdey")
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        about = json.loads(members.pop("manifest.json"))
        for key in ("digest", "members", "format"):
            about.pop(key)
        return path.read_bytes(), members, about
