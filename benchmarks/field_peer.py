"""QuaPy's side of ``field.py``: arrays in, estimates and seconds out; needs quapy."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

import numpy as np
import quapy as qp
from quapy.data import LabelledCollection
from quapy.method.aggregative import EMQ, PACC, KDEyML
from quapy.method.meta import Ensemble
from quapy.model_selection import GridSearchQ
from quapy.protocol import UPP
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

#: The grids, over what a user would try first: six settings each.
GRIDS: dict[str, dict[str, list[Any]]] = {
    "KDEyML": {"bandwidth": [0.01, 0.03, 0.05, 0.1, 0.15, 0.2]},
    "PACC": {"classifier__C": [0.01, 0.1, 1, 10], "classifier__class_weight": [None, "balanced"]},
    "EMQ": {"calib": [None, "bcts", "ts", "vs"]},
}
TREE_GRID = {"classifier__min_samples_leaf": [1, 3, 10], "classifier__max_features": ["sqrt", 0.5]}


def make_classifier(name: str) -> Any:
    if name == "logistic regression":
        return LogisticRegression(max_iter=1000)
    if name == "gradient boosting":
        return HistGradientBoostingClassifier(random_state=0)
    return ExtraTreesClassifier(random_state=0)


def make_method(name: str, classifier: Any) -> Any:
    if name == "Ensemble of EMQ-BCTS":
        return Ensemble(EMQ(classifier, calib="bcts", val_split=5))
    if name == "EMQ-BCTS":
        return EMQ(classifier, calib="bcts", val_split=5)
    if name == "EMQ":
        return EMQ(classifier)
    return {"KDEyML": KDEyML, "PACC": PACC}[name](classifier)


def searched(name: str, classifier: Any, data: LabelledCollection, size: int, n_jobs: int) -> Any:
    """Return the best of a small grid, picked on 50 bags of 40 % of the training data, refitted."""
    training, validation = data.split_stratified(train_prop=0.6, random_state=1)
    grid = GRIDS[name]
    if name == "PACC" and not isinstance(classifier, LogisticRegression):
        grid = TREE_GRID
    model = EMQ(classifier, val_split=5) if name == "EMQ" else make_method(name, classifier)
    protocol = UPP(validation, sample_size=size, repeats=50, random_state=0)
    search = GridSearchQ(model, grid, protocol, error="mae", refit=False, n_jobs=n_jobs)
    search.fit(*training.Xy)
    return search.best_model().fit(*data.Xy)


def main() -> None:
    warnings.simplefilter("ignore")
    given, made, options = np.load(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    size = int(given["bag_size"])
    qp.environ["SAMPLE_SIZE"] = size
    start = sum(os.times()[:4])
    classifier = make_classifier(options["classifier"])
    name, _, grid = options["method"].partition(", ")
    data = LabelledCollection(given["X"], given["y"])
    if grid:
        q = searched(name, classifier, data, size, options["jobs"])
    else:
        q = make_method(name, classifier).fit(*data.Xy)
    X, splits = given["X_test"], given["offsets"][1:-1]
    bags = np.split(given["indices"], splits)
    estimates = np.array([q.predict(X[bag]) for bag in bags])
    np.savez(made, estimates=estimates, seconds=sum(os.times()[:4]) - start)


if __name__ == "__main__":
    main()
