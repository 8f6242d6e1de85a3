"""Average ranks of the paper's methods, here and as published: ``python benchmarks/ranks.py``.

No measurement: from the committed results of ``python -m experiments`` and the published values.
Ranks are among the methods that the paper has, over the data sets on which all of them have
results.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from kdey.evaluation.significance import average_ranks
from printing import markdown

sys.path.append(str(Path(__file__).parents[1]))  # the experiments are not installed
from experiments.results import read_results
from experiments.scores import gather, published_values
from experiments.settings import METHODS, METRICS, SETTINGS

RESULTS = Path(__file__).parents[1] / "results"
#: Experiments with several data sets.
EXPERIMENTS = ("multi", "binary")


def ranks(experiment: str, metric: str) -> list[tuple[str, str, str]]:
    """Return each method with its average rank here and as published."""
    published = published_values(*SETTINGS[experiment].published, metric)
    known = {method for _, method in published}
    stored = read_results(RESULTS / f"{experiment}.jsonl")
    scores = gather(stored, experiment, metric, [name for name in METHODS if name in known])
    ours = scores.means()
    ours = ours[~np.isnan(ours).any(axis=1)]
    theirs = np.array([[published[d, m] for m in scores.methods] for d in scores.datasets])
    here, there = (average_ranks(errors, list(scores.methods)) for errors in (ours, theirs))
    return [(name, f"{here[name]:.1f}", f"{there[name]:.1f}") for name in scores.methods]


def main() -> None:
    for experiment in EXPERIMENTS:
        for metric in METRICS:
            print(f"\n{metric.upper()}, {SETTINGS[experiment].published[1]}:\n")
            print(markdown(["method", "rank here", "published"], ranks(experiment, metric)))


if __name__ == "__main__":
    main()
