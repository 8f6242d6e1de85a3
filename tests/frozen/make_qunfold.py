"""Make qunfold.npz: answers of qunfold 0.1.6-rc4 with a penalty for ordered classes.

Run in an environment with qunfold and jax: ``python tests/frozen/make_qunfold.py``. The posteriors
are stored beside the answers, so that the tests need neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import qunfold

assert qunfold.__version__ == "0.1.6-rc4", qunfold.__version__
HERE = Path(__file__).parent
N_CLASSES, N_TRAIN, N_BAG, N_BAGS = 5, 200, 100, 4
STRENGTHS = (0.001, 0.1)


@dataclass(eq=False)
class RepeatedPosteriors:
    """A fitted classifier whose instances are posteriors; qunfold wants them out of bag."""

    oob_decision_function_: np.ndarray
    oob_score: bool = True

    @property
    def classes_(self) -> np.ndarray:
        """Codes of the classes."""
        return np.arange(N_CLASSES)

    def predict_proba(self, posteriors: np.ndarray) -> np.ndarray:
        """Return the posteriors themselves."""
        return posteriors


def draw(n: int, prevalence: np.ndarray, rng: np.random.Generator) -> tuple:
    """Return posteriors of ordered classes, confused with their neighbours, and labels."""
    y = np.concatenate([np.arange(N_CLASSES), rng.choice(N_CLASSES, n - N_CLASSES, p=prevalence)])
    p = np.exp(-np.abs(np.arange(N_CLASSES) - y[:, None]) / 0.8)
    p = p * rng.gamma(1.5, size=p.shape)
    return np.round(p / p.sum(axis=1, keepdims=True), 6), y


def least_squares(P: np.ndarray, strength: float, probabilistic: bool) -> qunfold.LinearMethod:
    """Return the unfitted o-ACC or o-PACC."""
    rows = qunfold.ClassRepresentation(
        RepeatedPosteriors(P), is_probabilistic=probabilistic, fit_classifier=False
    )
    loss = qunfold.TikhonovRegularized(qunfold.LeastSquaresLoss(), strength)
    return qunfold.LinearMethod(loss, rows, seed=0)


def main() -> None:
    rng = np.random.default_rng(0)
    P, y = draw(N_TRAIN, np.full(N_CLASSES, 1 / N_CLASSES), rng)
    bags = [draw(N_BAG, rng.dirichlet(np.ones(N_CLASSES)), rng)[0] for _ in range(N_BAGS)]
    out = {"train": P, "labels": y, "bags": np.array(bags), "strengths": np.array(STRENGTHS)}
    for number, strength in enumerate(STRENGTHS):
        methods = {
            "ACC": least_squares(P, strength, probabilistic=False),
            "PACC": least_squares(P, strength, probabilistic=True),
            "EMQ": qunfold.LikelihoodMaximizer(
                RepeatedPosteriors(P), tau_1=strength, fit_classifier=False, seed=0
            ),
        }
        for name, method in methods.items():
            method.fit(P, y)
            answers = [np.asarray(method.predict(bag), dtype=np.float64) for bag in bags]
            out[f"{name}_{number}"] = np.array(answers)
    np.savez_compressed(HERE / "qunfold.npz", **out)


if __name__ == "__main__":
    main()
