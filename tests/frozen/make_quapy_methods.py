"""Make quapy_methods.npz: QuaPy 0.2.3's energy distances, threshold methods and RLLS.

Run in an environment with quapy==0.2.3, quadprog and cvxpy:
``python tests/frozen/make_quapy_methods.py``. The posteriors and features are stored beside the
answers, so that the tests need no QuaPy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import quapy as qp
from quapy.method._threshold_optim import MAX, MS, MS2, T50, X
from quapy.method.aggregative import RLLS, EDy
from quapy.method.non_aggregative import EDx
from sklearn.dummy import DummyClassifier

assert qp.__version__ == "0.2.3", qp.__version__
HERE = Path(__file__).parent
N_TRAIN, N_BAG, N_BAGS = 150, 80, 5


def draw(n_classes: int, n: int, prevalence: np.ndarray, rng: np.random.Generator) -> tuple:
    """Return posteriors and features of overlapping classes, and labels of which each occurs."""
    y = np.concatenate([np.arange(n_classes), rng.choice(n_classes, n - n_classes, p=prevalence)])
    p = rng.dirichlet(np.ones(n_classes), n) + np.eye(n_classes)[y] * rng.random((n, 1))
    features = rng.normal(size=(n, 3)) + 1.2 * np.eye(n_classes, 3)[y]
    return np.round(p / p.sum(axis=1, keepdims=True), 6), np.round(features, 6), y


def fitted(method: object, predictions: np.ndarray, y: np.ndarray) -> object:
    """Fit QuaPy's aggregation step; it reads the classes off a fitted classifier."""
    method.classifier = DummyClassifier().fit(np.zeros((len(y), 1)), y)
    if hasattr(method, "_check_init_parameters"):
        method._check_init_parameters()
    method.aggregation_fit(predictions, y)
    return method


def answers(n_classes: int) -> dict[str, np.ndarray]:
    """Return data and answers for one number of classes."""
    rng = np.random.default_rng(n_classes)
    P, F, y = draw(n_classes, N_TRAIN, np.full(n_classes, 1 / n_classes), rng)
    bags = [draw(n_classes, N_BAG, rng.dirichlet(np.ones(n_classes)), rng) for _ in range(N_BAGS)]
    out = {"train": P, "features": F, "labels": y}
    out["bags"] = np.array([bag[0] for bag in bags])
    out["feature_bags"] = np.array([bag[1] for bag in bags])
    for distance in ("manhattan", "euclidean"):
        edy = fitted(EDy(distance=distance), P, y)
        out[f"EDy_{distance}"] = np.array([edy.aggregate(bag) for bag in out["bags"]])
        edx = EDx(distance=distance).fit(F, y)
        out[f"EDx_{distance}"] = np.array([edx.predict(bag) for bag in out["feature_bags"]])
    rlls = fitted(RLLS(), P, y)
    out["RLLS"] = np.array([rlls.aggregate(bag) for bag in out["bags"]])
    out["RLLS_rho"] = np.array(rlls.rho_)
    if n_classes == 2:
        for method in (T50, MAX, X, MS, MS2):
            q = fitted(method(), P[:, 1], y)
            out[method.__name__] = np.array([q.aggregate(bag[:, 1]) for bag in out["bags"]])
    return out


if __name__ == "__main__":
    stored = {f"{k}_{name}": value for k in (2, 3) for name, value in answers(k).items()}
    np.savez_compressed(HERE / "quapy_methods.npz", **stored)
