"""Metrics as scorers: over protocols, over a single bag, inside scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

from kdey.bags import Bags
from kdey.evaluation.evaluating import scorer
from kdey.evaluation.protocols import APP, GivenBags
from kdey.metrics import absolute_error, get_metric, relative_absolute_error


class Counter(BaseEstimator):
    """Reads the class off the only feature, then leans towards the training prevalence."""

    def __init__(self, lean=0.0):
        self.lean = lean

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.prior_ = self._shares(y)
        return self

    def _shares(self, values):
        return np.array([np.mean(np.ravel(values) == c) for c in self.classes_])

    def predict(self, X):
        return (1 - self.lean) * self._shares(X) + self.lean * self.prior_


class BatchCounter(Counter):
    def predict_bags(self, X, bags):
        self.asked_ = len(bags)
        return np.stack([self.predict(X[bag]) for bag in bags])


@pytest.fixture
def pool():
    y = np.repeat([0, 1, 2], [50, 30, 20])
    return y[:, None], y


PROTOCOL = APP(n_bags=20, bag_size=40)
FOLDS = StratifiedKFold(2)


def test_scores_are_negative_mean_errors(pool):
    X, y = pool
    fitted = Counter(lean=0.5).fit(X, y)
    bags = PROTOCOL.bags(y)
    estimated = np.stack([fitted.predict(X[bag]) for bag in bags.bags])
    expected = absolute_error(bags.prevalences, estimated).mean()
    assert scorer("ae", PROTOCOL)(fitted, X, y) == pytest.approx(-expected)
    relative = relative_absolute_error(bags.prevalences, estimated, bag_size=40).mean()
    assert scorer("rae", PROTOCOL)(fitted, X, y) == pytest.approx(-relative)
    assert scorer("ae", PROTOCOL)(Counter().fit(X, y), X, y) == 0.0


def test_predict_bags_is_used_where_there_is_one(pool):
    X, y = pool
    batch = BatchCounter(lean=0.5).fit(X, y)
    loop = scorer("ae", PROTOCOL)(Counter(lean=0.5).fit(X, y), X, y)
    assert scorer("ae", PROTOCOL)(batch, X, y) == loop
    assert batch.asked_ == 20


def test_without_a_protocol_the_data_are_one_bag(pool):
    X, y = pool
    fitted = Counter(lean=1.0).fit(X, y)
    assert scorer("nae")(fitted, X, y) == 0.0
    expected = absolute_error([0.0, 0.6, 0.4], [0.5, 0.3, 0.2])
    assert scorer("ae")(fitted, X[50:], y[50:]) == pytest.approx(-expected)
    assert scorer("rae")(fitted, X[50:], y[50:]) < -1


def test_classes_missing_from_y_keep_their_column(pool):
    X, y = pool
    fitted = Counter(lean=0.5).fit(X, y)
    some = y != 1
    given = GivenBags([np.arange(40), np.arange(30, 70)], [[1.0, 0, 0], [0.5, 0, 0.5]])
    assert scorer("ae", given)(fitted, X[some], y[some]) < 0
    with pytest.raises(ValueError, match=r"needs \d+ instances of class 1, but y has none"):
        scorer("ae", PROTOCOL)(fitted, X[some], y[some])


def test_works_inside_scikit_learn(pool):
    X, y = pool
    scores = cross_val_score(Counter(lean=0.3), X, y, scoring=scorer("ae", PROTOCOL), cv=FOLDS)
    assert scores.shape == (2,)
    assert (scores < 0).all()
    search = GridSearchCV(
        Counter(), {"lean": [0.9, 0.0, 0.5]}, scoring=scorer("rae", PROTOCOL), cv=FOLDS
    )
    assert search.fit(X, y).best_params_ == {"lean": 0.0}


def test_larger_is_better_metrics_keep_their_sign(pool):
    X, y = pool
    from kdey.metrics import Metric

    agreement = Metric(
        "agreement", lambda a, b: 1 - absolute_error(a, b), "agreement", lower_is_better=False
    )
    assert scorer(agreement)(Counter().fit(X, y), X, y) == 1.0


def test_bad_use_is_refused(pool):
    X, y = pool
    with pytest.raises(NotFittedError, match="Counter is not fitted"):
        scorer("ae")(Counter(), X, y)
    with pytest.raises(ValueError, match=r"not in classes: \[7\]"):
        scorer("ae")(Counter().fit(X, y), X, np.where(y == 0, 7, y))
    with pytest.raises(ValueError, match="is unknown"):
        scorer("nope")
    weighted = GivenBags(Bags.whole(100, np.arange(100.0)), [[0.5, 0.3, 0.2]])
    with pytest.raises(ValueError, match="no predict_bags, so weighted bags"):
        scorer("ae", weighted)(Counter().fit(X, y), X, y)
    assert get_metric("ae").sign == -1
