"""Time against rows, references and classes, each over a factor of 64 or more.

Run ``PYTHONPATH=src python benchmarks/gpu/growth.py`` on a GPU, and with ``--plot`` anywhere to
draw ``docs/figures/gpu-growth.png`` from the results. KDEy-ML, bags of 1,000 different instances;
best of three runs, device synchronised, posteriors on the device.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
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


def plot() -> None:
    from kdey.plots.style import COLOURS, DPI, REFERENCE, new_figure, remove_clutter

    here = Path(__file__).parent
    results = json.loads((here / "results" / "growth.json").read_text(encoding="utf-8"))
    figure = new_figure(9.0, 3.0)
    axes = figure.subplots(1, 3, sharey=True)
    for axis, name in zip(axes, GROWTH, strict=True):
        values = np.array([point[name] for point in results[name]])
        stages = (("seconds of rows", "o"), ("seconds of solving", "s"))
        for (stage, marker), colour in zip(stages, COLOURS, strict=False):
            seconds = [point[stage] for point in results[name]]
            axis.loglog(values, seconds, f"{marker}-", color=colour, label=stage)
        if name != "classes":  # more of them widen the products, but leave the pairs as they are
            last = results[name][-1]["seconds of rows"]
            axis.loglog(values, last * values / values[-1], **REFERENCE, label="linear")
        axis.set_xlabel(name)
        remove_clutter(axis)
    axes[0].set_ylabel("seconds")
    axes[0].legend(frameon=False)
    figure.savefig(here.parents[1] / "docs" / "figures" / "gpu-growth.png", dpi=DPI)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", action="store_true")
    plot() if parser.parse_args().plot else measure()
