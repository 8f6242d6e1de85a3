"""Time against rows, references and classes, each over a factor of 64 or more.

Run ``PYTHONPATH=src python benchmarks/gpu/growth.py`` on a GPU; ``growth_figure.py`` draws the
results. KDEy-ML, bags of 1,000 different instances; best of three runs, device synchronised,
posteriors on the device.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from setting import BANDWIDTH, N_CLASSES, N_REFERENCES, posteriors, require_cuda, write
from t1b import bags_in_order, stages

from kdey import KDEyML

N_ROWS, SIZE = 1_000_000, 1_000
GROWTH = {
    "rows": [200_000 * 2**i for i in range(8)],
    "references": [2_000 * 2**i for i in range(8)],
    "classes": [2 * 2**i for i in range(7)],
}


def seconds_at(rows: int, references: int, classes: int, device: torch.device) -> dict[str, float]:
    """Return the best times of the two stages at one size."""
    labels = torch.arange(references, device=device) * classes // references
    training = posteriors(labels, seed=1, k=classes).cpu().numpy()
    quantifier = KDEyML(bandwidth=BANDWIDTH, kernel="gaussian", device="cuda")
    quantifier.fit_posteriors(training, labels.cpu().numpy())
    drawn = torch.randint(0, classes, (rows,), device=device)
    return stages(
        quantifier, posteriors(drawn, seed=2, k=classes), bags_in_order(rows // SIZE, SIZE)
    )


def measure() -> None:
    device = require_cuda()
    base = {"rows": N_ROWS, "references": N_REFERENCES, "classes": N_CLASSES}
    results: dict[str, Any] = {"base": base}
    for name, values in GROWTH.items():
        sizes = [base | {name: value} for value in values]
        results[name] = [{name: s[name], **seconds_at(**s, device=device)} for s in sizes]
    write("growth", results)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    measure()
