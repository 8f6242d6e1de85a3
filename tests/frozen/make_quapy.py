"""Make quapy.npz: prevalences and objectives of QuaPy 0.2.3 on fixed posteriors.

Run in an environment with quapy==0.2.3: ``python tests/frozen/make_quapy.py``. The posteriors are
stored beside the answers, so that the tests need no QuaPy.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import quapy as qp
from quapy.method._kdey import KDEyCS, KDEyHD, KDEyML
from quapy.method.aggregative import ACC, EMQ, PACC
from scipy import optimize
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

assert qp.__version__ == "0.2.3", qp.__version__
HERE = Path(__file__).parent
BANDWIDTH = 0.1


def posteriors(n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return training posteriors, labels, and six bags of shifted prevalence."""
    X, y = make_classification(
        n_samples=4000, n_features=12, n_informative=8, n_classes=n_classes, random_state=seed
    )
    model = LogisticRegression(max_iter=1000)
    train, rest = slice(0, 500), slice(500, None)
    P = cross_val_predict(model, X[train], y[train], cv=5, method="predict_proba")
    pool, labels = model.fit(X[train], y[train]).predict_proba(X[rest]), y[rest]
    rng = np.random.default_rng(seed)
    bags = []
    for _ in range(6):
        weights = rng.dirichlet(np.ones(n_classes))[labels] / np.bincount(labels)[labels]
        bags.append(pool[rng.choice(len(labels), size=150, p=weights / weights.sum())])
    return np.round(P, 6), y[train], [np.round(bag, 6) for bag in bags]


def fitted(method: object, P: np.ndarray, y: np.ndarray) -> object:
    """Fit QuaPy's aggregation step on given posteriors (or decisions, for ACC).

    QuaPy reads the classes off a fitted classifier, which is used for nothing else here.
    """
    method.classifier = DummyClassifier().fit(np.zeros((len(y), 1)), y)
    method.aggregation_fit(P, y)
    return method


def cs_objective(
    method: KDEyCS, P: np.ndarray, y: np.ndarray, bag: np.ndarray, a: np.ndarray
) -> float:
    """Return QuaPy's Cauchy-Schwarz objective without the test-test term."""
    ratios = a * method.counts_inv
    overlap = [method.gram_matrix_mix_sum(P[y == i], bag) for i in range(len(a))]
    return -np.log(ratios @ overlap / len(bag)) + 0.5 * np.log(ratios @ method.tr_tr_sums @ ratios)


def hd_objective(method: KDEyHD, bag: np.ndarray, a: np.ndarray) -> float:
    """Return the Monte Carlo squared Hellinger distance at QuaPy's reference points, no epsilon."""
    q = method.pdf(
        method.get_kde_function(bag, BANDWIDTH, "gaussian"), method.reference_samples, "gaussian"
    )
    p = a @ method.reference_classwise_densities
    return float(np.mean((np.sqrt(p) - np.sqrt(q)) ** 2 / method.reference_density))


def round_points(method: KDEyHD) -> None:
    """Round QuaPy's reference points to float32, as they are stored, before it uses them."""
    method.reference_samples = method.reference_samples.astype(np.float32).astype(np.float64)
    method.reference_classwise_densities = np.array(
        [method.pdf(kde, method.reference_samples, "gaussian") for kde in method.mix_densities]
    )
    method.reference_density = method.reference_classwise_densities.mean(axis=0)


@contextmanager
def patient_slsqp() -> Iterator[None]:
    """Let QuaPy's SLSQP go on to a tolerance of 1e-15: its own 1e-6 is up to 1e-3 off."""
    usual = optimize.minimize
    optimize.minimize = partial(usual, options={"ftol": 1e-15, "maxiter": 10_000})
    try:
        yield
    finally:
        optimize.minimize = usual


def answers(P: np.ndarray, y: np.ndarray, bags: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Return QuaPy's estimates of every bag, and objectives where they are compared."""
    out: dict[str, list] = defaultdict(list)
    ml, cs = fitted(KDEyML(bandwidth=BANDWIDTH), P, y), fitted(KDEyCS(bandwidth=BANDWIDTH), P, y)
    clr = fitted(KDEyML(bandwidth=0.5, kernel="aitchison", shrinkage=1e-3), P, y)
    hd = fitted(KDEyHD(bandwidth=BANDWIDTH, random_state=0, montecarlo_trials=3000), P, y)
    round_points(hd)
    pacc, acc = (
        fitted(PACC(LogisticRegression()), P, y),
        fitted(ACC(LogisticRegression()), P.argmax(1), y),
    )
    prior = np.bincount(y) / len(y)
    objectives: dict[str, list] = {"CS_objective": [], "HD_objective": []}
    for bag in bags:
        out["ML"].append(ml.aggregate(bag))
        out["ML_aitchison"].append(clr.aggregate(bag))
        out["CS"].append(cs.aggregate(bag))
        out["HD"].append(hd.aggregate(bag))
        out["EMQ"].append(EMQ.EM(prior, bag, epsilon=1e-12)[0])
        out["EM"].append(EMQ.EM(prior, bag, epsilon=1e-4)[0])
        out["PACC"].append(pacc.aggregate(bag))
        out["ACC"].append(acc.aggregate(bag.argmax(1)))
        with patient_slsqp():
            out["ML_patient"].append(ml.aggregate(bag))
            out["ML_aitchison_patient"].append(clr.aggregate(bag))
            out["PACC_patient"].append(pacc.aggregate(bag))
            out["ACC_patient"].append(acc.aggregate(bag.argmax(1)))
        objectives["CS_objective"].append(cs_objective(cs, P, y, bag, out["CS"][-1]))
        objectives["HD_objective"].append(hd_objective(hd, bag, out["HD"][-1]))
    made = {name: np.array(values) for name, values in {**out, **objectives}.items()}
    made["HD_points"] = hd.reference_samples.astype(np.float32)
    return made


def main() -> None:
    """Write quapy.npz."""
    stored = {}
    EMQ.MAX_ITER = 100_000
    for n_classes in (2, 3, 5):
        P, y, bags = posteriors(n_classes, seed=n_classes)
        stored[f"{n_classes}_train"], stored[f"{n_classes}_labels"] = P, y
        stored[f"{n_classes}_bags"] = np.array(bags)
        for name, value in answers(P, y, bags).items():
            stored[f"{n_classes}_{name}"] = value
    np.savez_compressed(HERE / "quapy.npz", **stored)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
