"""Draw ``docs/figures/gpu-growth.png``: ``python benchmarks/gpu/growth_figure.py``.

No measurement, and no GPU: from ``results/growth.json``, which ``growth.py`` writes on one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from kdey.plots.style import DPI, REFERENCE, file_style, new_figure, remove_clutter
from kdey.report.page import COLOURS

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "gpu-growth.png"
#: What the measured stages do, and their markers.
STAGES = {
    "seconds of rows": ("kernel sums of all rows", "o"),
    "seconds of solving": ("solving all bags", "s"),
}


def draw(results: dict[str, Any]) -> Any:
    """Return the figure: a panel for each size that was varied."""
    base = results["base"]
    figure = new_figure(10.0, 3.6)
    panels = figure.subplots(1, len(base), sharey=True)
    for panel, name in zip(panels, base, strict=True):
        values = np.array([point[name] for point in results[name]])
        for (stage, (label, marker)), colour in zip(STAGES.items(), COLOURS, strict=False):
            seconds = [point[stage] for point in results[name]]
            panel.loglog(values, seconds, f"{marker}-", color=colour, label=label, markersize=5)
        if name != "classes":  # more of them widen the products, but leave the pairs as they are
            last = results[name][-1]["seconds of rows"]
            panel.loglog(values, last * values / values[-1], **REFERENCE, label="linear growth")
        others = ", ".join(f"{value:,} {key}" for key, value in base.items() if key != name)
        panel.set_title(others, fontsize=9)
        panel.set_xlabel(f"number of {name}")
        remove_clutter(panel)
    panels[0].set_ylabel("seconds on one H200, best of three")
    panels[0].legend(frameon=False)
    return figure


def main() -> None:
    """Read the results and write the picture."""
    results = json.loads((HERE / "results" / "growth.json").read_text(encoding="utf-8"))
    with file_style():
        draw(results).savefig(FIGURE, dpi=DPI)


if __name__ == "__main__":
    main()
