"""Draw a soak: ``python scripts/soak_figure.py FILE.jsonl docs/figures/soak.png``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import theilslopes

WARM_UP = 10.0


def draw(readings: list[dict[str, Any]]) -> Any:
    """Return the figure: memory with its robust line, operations, files and threads."""
    at = np.array([one["seconds"] for one in readings]) / 60
    memory = np.array([one["memory"] for one in readings])
    fig, (top, middle, low) = plt.subplots(
        3, 1, figsize=(7, 5.4), sharex=True, layout="constrained", height_ratios=[3, 1.4, 1.2]
    )
    top.plot(at, memory, ".-", color="#0072B2", linewidth=0.8, markersize=3)
    late = at >= WARM_UP
    slope, level, *_ = theilslopes(memory[late], at[late])
    told = f"robust line: {10 * slope:+.2f} MiB in 10 minutes"
    top.plot(at[late], level + slope * at[late], color="#D55E00", label=told)
    top.axvspan(0, WARM_UP, color="#999999", alpha=0.2, linewidth=0, label="warm-up, not judged")
    top.set(ylabel="resident memory, MiB", ylim=(0, 1.15 * memory.max()))
    top.legend(frameon=False, loc="lower right")
    middle.plot(at, [one["operations"] for one in readings], color="#009E73")
    middle.set(ylabel="operations", ylim=(0, None))
    for name, colour in (("files", "#CC79A7"), ("threads", "#E69F00")):
        low.step(at, [one[name] for one in readings], where="post", color=colour, label=name)
    low.set(xlabel="minutes", ylabel="open", ylim=(0, None), xlim=(0, None))
    low.legend(frameon=False, ncols=2, loc="center right")
    for ax in (top, middle, low):
        ax.spines[["top", "right"]].set_visible(False)
    return fig


def main() -> None:
    """Read the lines of a soak and write the picture."""
    source, target = map(Path, sys.argv[1:])
    readings = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    draw(readings).savefig(target, dpi=110)


if __name__ == "__main__":
    main()
