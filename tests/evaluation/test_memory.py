"""Peak memory of a large evaluation, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kdey

SCRIPT = """
import resource, sys
import numpy as np
import kdey
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

class Given(ClassifierMixin, BaseEstimator):
    classes_ = np.arange(28)
    def predict_proba(self, X):
        return X

rng = np.random.default_rng(0)
def posteriors(y):
    p = rng.dirichlet(np.full(28, 0.05), len(y)) * 0.3
    p[np.arange(len(y)), y] += 0.7
    return p / p.sum(axis=1, keepdims=True)

y, y_pool = rng.integers(0, 28, 5_000), rng.integers(0, 28, 200_000)
X, pool = posteriors(y), posteriors(y_pool)
methods = {
    "PACC": kdey.PACC(FrozenEstimator(Given())),
    "EMQ": kdey.EMQ(FrozenEstimator(Given())),
    "DM": kdey.DM(FrozenEstimator(Given())),
    "KDEyML": kdey.KDEyML(FrozenEstimator(Given())),
    "KDEyCS": kdey.KDEyCS(FrozenEstimator(Given())),
    "KDEyHD": kdey.KDEyHD(FrozenEstimator(Given()), n_points=int(sys.argv[2]), random_state=0),
}
chosen = sys.argv[1].split(",")
fitted = kdey.evaluation.fit_many({name: methods[name] for name in chosen}, X, y)
results = kdey.evaluate(fitted, pool, y_pool, kdey.APP(5_000, 1_000), n_jobs=2)
for name in chosen:
    assert results.errors("ae", name).mean() < 0.02, name
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB", results.summary())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux")
@pytest.mark.parametrize(
    ("methods", "n_points"), [("PACC,EMQ,DM,KDEyML,KDEyCS", "100"), ("KDEyHD", "1000")]
)
def test_5000_bags_of_1000_over_200000_instances_fit_2_gb(methods: str, n_points: str) -> None:
    root = Path(kdey.__file__).parents[1]
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, methods, n_points],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    ).stdout
    print(out)
    assert float(out.split()[0]) < 2000
