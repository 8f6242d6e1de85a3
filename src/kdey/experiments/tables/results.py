"""The paper's main tables: data sets by methods, averages, ranks and marks."""

from __future__ import annotations

import numpy as np

from kdey.bags import Array
from kdey.experiments.methods import METHODS
from kdey.experiments.published import COMPETITION
from kdey.experiments.tables.model import Entry, Line, Table, number, shaded
from kdey.experiments.tables.scores import Scores
from kdey.significance import average_ranks, compare_to_best

MARKS = (
    "Bold: the best of a line. † and ‡: not significantly worse than the best by a Wilcoxon "
    "signed-rank test over the bags, 0.005 < p < 0.05 and p >= 0.05. Colours run from the best "
    "(green) to the worst (red) of a line."
)


def results_table(scores: Scores, kind: str) -> Table:
    """Return the table of mean errors.

    Parameters
    ----------
    kind : str
        Part of the table's name: "compact", "full" or "all".
    """
    means = scores.means()
    lines = [
        Line(dataset, shaded(means[i], marks=_marks(scores, dataset)))
        for i, dataset in enumerate(scores.datasets)
    ]
    lines += summary_lines(means, scores.methods) + _competition(scores)
    group = scores.group
    metric = scores.metric.upper()
    return Table(
        name=f"{scores.experiment}-{scores.metric}-{kind}",
        title=f"{metric} on {group}, {len(scores.methods)} methods optimised for {metric}",
        corner=group,
        columns=scores.methods,
        families=tuple(METHODS[name].family for name in scores.methods),
        lines=tuple(lines),
        notes=(MARKS, *_seeds(scores)),
    )


def summary_lines(means: Array, methods: tuple[str, ...]) -> list[Line]:
    """Return the average over data sets and the average rank of each method.

    Both are over the data sets on which all methods have results; one data set needs neither.
    """
    whole = means[~np.isnan(means).any(axis=1)]
    if len(whole) < 2:
        return []
    ranks = average_ranks(whole, list(methods))
    values = np.array([ranks[name] for name in methods])
    return [
        Line("Average", shaded(whole.mean(axis=0)), summary=True),
        Line("Rank", shaded(values, [f"{rank:.1f}" for rank in values]), summary=True),
    ]


def spread_table(scores: Scores) -> Table | None:
    """Return mean and standard deviation over split seeds; None where there is one seed."""
    if len(scores.all_seeds()) < 2:
        return None
    lines = []
    for dataset in scores.datasets:
        parts = [scores.by_seed(dataset, method) for method in scores.methods]
        lines.append(Line(dataset, tuple(_spread(part) for part in parts)))
    group = scores.group
    return Table(
        name=f"{scores.experiment}-{scores.metric}-spread",
        title=f"{scores.metric.upper()} on {group}: mean and standard deviation over split seeds",
        corner=group,
        columns=scores.methods,
        lines=tuple(lines),
        notes=_seeds(scores),
    )


def _spread(values: Array) -> Entry:
    if len(values) < 2:
        return number(float(values[0])) if len(values) else Entry()
    mean = float(values.mean())
    return Entry(f"{mean:.5f} ± {values.std(ddof=1):.5f}", mean)


def _marks(scores: Scores, dataset: str) -> list[str]:
    found = {method: scores.joined(dataset, method) for method in scores.methods}
    known = {method: errors for method, errors in found.items() if errors is not None}
    compared = compare_to_best(known)
    marks = dict(zip(compared.names, compared.marks, strict=True))
    return [marks.get(method, "") for method in scores.methods]


def _competition(scores: Scores) -> list[Line]:
    """Return the reference line of the LeQua competition."""
    lines = []
    for dataset in scores.datasets:
        best = COMPETITION.get((dataset, scores.metric))
        if best is not None:
            entries = (number(best), *(Entry() for _ in scores.methods[1:]))
            lines.append(Line(f"{dataset}: best of the competition", entries, summary=True))
    return lines


def _seeds(scores: Scores) -> tuple[str, ...]:
    seeds = scores.all_seeds()
    if len(seeds) < 2:
        return ()
    few = [name for name in scores.datasets if scores.seeds(name) != seeds]
    told = f"Means over the split seeds {', '.join(map(str, seeds))}."
    if few:
        told += f" Fewer of them: {', '.join(few)}."
    return (told,)
