"""The paper's three pairs: each proposal against its closest rival."""

from __future__ import annotations

import numpy as np

from kdey.experiments.methods import PAIRS
from kdey.experiments.tables.model import Entry, Line, Table, number
from kdey.experiments.tables.scores import Scores
from kdey.significance import pooled_wilcoxon

_COLUMNS = ("mean", "of the rival", "difference", "sets won", "bags won", "p (Wilcoxon)")


def pairs_table(scores: Scores) -> Table | None:
    """Return each pair's comparison over all bags; None where no pair has results.

    The test is the paper's: one Wilcoxon signed-rank test over the bags of all data sets.
    """
    lines = [line for pair in PAIRS if (line := _compare(scores, *pair)) is not None]
    if not lines:
        return None
    group = scores.group
    return Table(
        name=f"{scores.experiment}-{scores.metric}-pairs",
        title=f"{scores.metric.upper()} on {group}: the paper's pairs over the bags of all sets",
        corner="pair",
        columns=_COLUMNS,
        lines=tuple(lines),
    )


def _compare(scores: Scores, first: str, second: str) -> Line | None:
    a = {name: scores.joined(name, first) for name in scores.datasets}
    b = {name: scores.joined(name, second) for name in scores.datasets}
    both = [name for name in scores.datasets if a[name] is not None and b[name] is not None]
    if not both:
        return None
    ours = {name: np.asarray(a[name]) for name in both}
    rival = {name: np.asarray(b[name]) for name in both}
    test = pooled_wilcoxon(ours, rival)
    won = sum(ours[name].mean() < rival[name].mean() for name in both)
    bags = test.wins + test.losses + test.ties
    mean = float(np.mean([ours[name].mean() for name in both]))
    other = float(np.mean([rival[name].mean() for name in both]))
    entries = (
        number(mean),
        number(other),
        Entry(f"{mean - other:+.5f}", mean - other, shade=_shade(mean, other)),
        Entry(f"{won} of {len(both)}", float(won)),
        Entry(f"{test.wins / bags:.0%}", test.wins / bags),
        Entry(f"{test.p_value:.2g}", test.p_value),
    )
    return Line(f"{first} against {second}", entries)


def _shade(mean: float, other: float) -> float:
    return float(np.clip((other - mean) / max(other, 1e-12) / 0.25, -1.0, 1.0))
