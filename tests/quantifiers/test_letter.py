"""Real posteriors at small bandwidths, where prevalences near zero have huge slopes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import kdey
from kdey import native
from kdey.posteriors import predict_posteriors, training_posteriors
from tests.real_data import DATA, needs_data

LETTER = "uci-multi/letter.csv.gz"


@needs_data(LETTER)
@pytest.mark.skipif(not native.available(), reason="minutes on the NumPy path")
def test_kdeyhd_certifies_every_bag_at_a_small_bandwidth() -> None:
    table = np.genfromtxt(DATA / LETTER, delimiter=",", skip_header=1, dtype=str)
    X, y = table[:, :-1].astype(np.float64), np.unique(table[:, -1], return_inverse=True)[1]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model, classes = LogisticRegression(max_iter=200), np.arange(26)
    fitted, training = training_posteriors(model, X[:14000], y[:14000], classes, cv=3)
    pool = predict_posteriors(fitted, X[14000:], classes)
    bags = kdey.APP(100, 500, 0).bags(y[14000:]).bags
    q = kdey.KDEyHD(bandwidth=0.02, random_state=0, n_jobs=2)
    q.fit_posteriors(training.posteriors, training.labels)
    assert q.solve_posteriors(pool, bags).gap.max() <= 1e-7
