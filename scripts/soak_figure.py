"""Draw a soak: ``python scripts/soak_figure.py FILE.jsonl docs/figures/soak.png``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import theilslopes

from kdey.plots.style import COLOURS, new_figure, remove_clutter

BLUE, VERMILION, GREEN, PURPLE, ORANGE, *_, GREY = COLOURS
WARM_UP = 10.0


def draw(readings: list[dict[str, Any]]) -> Any:
    """Return the figure: memory with its robust line, operations, files and threads."""
    at = np.array([reading["seconds"] for reading in readings]) / 60
    memory = np.array([reading["memory"] for reading in readings])
    figure = new_figure(7.0, 5.4)
    top, middle, low = figure.subplots(3, 1, sharex=True, height_ratios=[3, 1.4, 1.2])
    top.plot(at, memory, ".-", color=BLUE, linewidth=0.8, markersize=3)
    late = at >= WARM_UP
    slope, level, *_ = theilslopes(memory[late], at[late])
    label = f"robust line: {10 * slope:+.2f} MiB in 10 minutes"
    top.plot(at[late], level + slope * at[late], color=VERMILION, label=label)
    top.axvspan(0, WARM_UP, color=GREY, alpha=0.2, linewidth=0, label="warm-up, not judged")
    top.set(ylabel="resident memory, MiB", ylim=(0, 1.15 * memory.max()))
    top.legend(frameon=False, loc="lower right")
    middle.plot(at, [reading["operations"] for reading in readings], color=GREEN)
    middle.set(ylabel="operations", ylim=(0, None))
    for name, colour in (("files", PURPLE), ("threads", ORANGE)):
        low.step(
            at, [reading[name] for reading in readings], where="post", color=colour, label=name
        )
    low.set(xlabel="minutes", ylabel="open", ylim=(0, None), xlim=(0, None))
    low.legend(frameon=False, ncols=2, loc="center right")
    for ax in (top, middle, low):
        remove_clutter(ax)
    return figure


def main() -> None:
    """Read the lines of a soak and write the picture."""
    source, target = map(Path, sys.argv[1:])
    readings = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    draw(readings).savefig(target, dpi=110)


if __name__ == "__main__":
    main()
