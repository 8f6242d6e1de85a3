"""Freeze calibrations by the abstention package (0.1.3.1), the code of Alexandari et al. (2020).

Run where abstention is installed (it comes with quapy 0.2.3):

    python tests/frozen/make_abstention.py

It writes tests/frozen/abstention.json: posteriors, labels and, per calibrator, the calibrated
posteriors and their log-loss.
"""

import json
from pathlib import Path

import numpy as np
from abstention.calibration import NoBiasVectorScaling, TempScaling, VectorScaling

FACTORIES = {
    "temperature": TempScaling(),
    "bcts": TempScaling(bias_positions="all"),
    "vector": VectorScaling(),
    "nbvs": NoBiasVectorScaling(),
}


def make_case(seed, n, k):
    """Return overconfident posteriors (rounded, positive) and labels drawn from truer ones."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k)) * 2.0
    true = np.exp(0.6 * logits + rng.normal(size=k))
    cumulated = np.cumsum(true / true.sum(axis=1, keepdims=True), axis=1)
    labels = (cumulated < rng.random((n, 1))).sum(axis=1).clip(0, k - 1)
    shown = np.round(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), 5) + 1e-4
    return shown / shown.sum(axis=1, keepdims=True), labels


def main():
    cases = []
    for seed, n, k in [(0, 60, 2), (1, 80, 3), (2, 100, 5)]:
        p, labels = make_case(seed, n, k)
        case = {"posteriors": p.tolist(), "labels": labels.tolist(), "calibrated": {}, "loss": {}}
        for name, factory in FACTORIES.items():
            calibrated = factory(p, np.eye(k)[labels], posterior_supplied=True)(p)
            case["calibrated"][name] = np.round(calibrated, 8).tolist()
            case["loss"][name] = float(-np.log(calibrated[np.arange(n), labels]).mean())
        cases.append(case)
    Path(__file__).with_name("abstention.json").write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    main()
