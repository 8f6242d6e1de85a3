"""Errors of an experiment by data set and method, as tables need them.

The paper's main tables: data sets by methods, averages, ranks and marks.

Results beside the published ones.

The paper's three pairs: each proposal against its closest rival.

All tables of a set of results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdey.bags import Array
from kdey.paper.cells import Results
from kdey.paper.methods import COMPACT, METHODS, PAIRS
from kdey.paper.published import COMPETITION, published_order, published_values
from kdey.paper.settings import METRICS, SETTINGS
from kdey.paper.tables.model import Entry, Line, Table, number, shaded
from kdey.significance import average_ranks, compare_to_best, pooled_wilcoxon


@dataclass(frozen=True, eq=False)
class Scores:
    """Errors of the methods of one experiment, by one metric.

    Within a data set every method counts with the seeds that all of them have, so that means are
    over the same bags.

    Attributes
    ----------
    experiment, metric : str
    datasets, methods : tuple of str
        Rows and columns.
    errors : dict from (data set, method, seed) to an array of shape (n_bags,)
    """

    experiment: str
    metric: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    errors: dict[tuple[str, str, int], Array]

    def seeds(self, dataset: str) -> list[int]:
        """Return the seeds that all methods with any result on a data set have there."""
        found: dict[str, set[int]] = {}
        for name, method, seed in self.errors:
            if name == dataset:
                found.setdefault(method, set()).add(seed)
        return sorted(set.intersection(*found.values())) if found else []

    def joined(self, dataset: str, method: str) -> Array | None:
        """Return the errors of all bags of all seeds; None where there are none."""
        keys = [(dataset, method, seed) for seed in self.seeds(dataset)]
        parts = [self.errors[key] for key in keys if key in self.errors]
        return np.concatenate(parts) if parts else None

    def by_seed(self, dataset: str, method: str) -> Array:
        """Return the mean error of each seed, shape (n_seeds,); empty where there are none."""
        keys = [(dataset, method, seed) for seed in self.seeds(dataset)]
        return np.array([self.errors[key].mean() for key in keys if key in self.errors])

    def means(self) -> Array:
        """Return mean errors, shape (n_datasets, n_methods), NaN where there are none."""
        table = np.full((len(self.datasets), len(self.methods)), np.nan)
        for i, dataset in enumerate(self.datasets):
            for j, method in enumerate(self.methods):
                found = self.by_seed(dataset, method)
                table[i, j] = found.mean() if len(found) else np.nan
        return table

    @property
    def group(self) -> str:
        """The paper's name of these data sets; stand-ins are called so."""
        setting = SETTINGS[self.experiment].published
        known = {name for name, _ in published_values(*setting, self.metric)}
        return setting[1] if known & set(self.datasets) else f"stand-ins for {setting[1]}"

    def all_seeds(self) -> list[int]:
        """Return the seeds that any data set counts with."""
        return sorted({seed for name in self.datasets for seed in self.seeds(name)})


def gather(
    results: Results, experiment: str, metric: str, methods: Sequence[str] | None = None
) -> Scores:
    """Return the scores of an experiment; methods and data sets in the order of the paper.

    Parameters
    ----------
    methods : sequence of str, optional
        Which of them to take; by default all that have results.
    """
    errors = {
        (key.dataset, key.method, key.seed): cell.errors
        for key, cell in results.cells.items()
        if key.experiment == experiment
        and key.metric == metric
        and (methods is None or key.method in methods)
    }
    found = {method for _, method, _ in errors}
    columns = [name for name in METHODS if name in found]
    rows = published_order(experiment, {dataset for dataset, _, _ in errors})
    return Scores(experiment, metric, tuple(rows), tuple(columns), errors)


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


#: Relative difference of the most intense colours.
_FULL = 0.5


def difference_table(scores: Scores) -> Table | None:
    """Return the differences to the published values; None where nothing can be compared.

    An entry is ours minus published, with the relative difference in brackets: negative and
    green where the error here is smaller. Averages are over the data sets found here.
    """
    setting = SETTINGS[scores.experiment]
    known = published_values(*setting.published, scores.metric)
    methods = [m for m in scores.methods if any(m == method for _, method in known)]
    datasets = [d for d in scores.datasets if any(d == dataset for dataset, _ in known)]
    if not methods or not datasets:
        return None
    ours = scores.means()[
        np.ix_(_places(scores.datasets, datasets), _places(scores.methods, methods))
    ]
    theirs = np.array([[known.get((d, m), np.nan) for m in methods] for d in datasets])
    lines = [Line(d, _entries(ours[i], theirs[i])) for i, d in enumerate(datasets)]
    if len(datasets) > 1:
        lines.append(
            Line("Average", _entries(ours.mean(axis=0), theirs.mean(axis=0)), summary=True)
        )
    group, metric = setting.published[1], scores.metric.upper()
    return Table(
        name=f"{scores.experiment}-{scores.metric}-difference",
        title=f"{metric} on {group}: difference to the published values",
        corner=group,
        columns=tuple(methods),
        families=tuple(METHODS[name].family for name in methods),
        lines=tuple(lines),
        notes=("Ours minus published, and relative to it; negative: the error is smaller here.",),
    )


def _places(names: tuple[str, ...], wanted: list[str]) -> list[int]:
    return [names.index(name) for name in wanted]


def _entries(ours: Array, theirs: Array) -> tuple[Entry, ...]:
    return tuple(_entry(a, b) for a, b in zip(ours.tolist(), theirs.tolist(), strict=True))


def _entry(ours: float, theirs: float) -> Entry:
    difference = ours - theirs
    if np.isnan(difference):
        return Entry()
    relative = difference / theirs
    shade = float(np.clip(-relative / _FULL, -1.0, 1.0))
    return Entry(f"{difference:+.5f} ({relative:+.0%})", difference, shade=shade)


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


def make_tables(results: Results, experiment: str | None = None) -> list[Table]:
    """Return every table that results allow, in the order of the paper.

    Per experiment and metric: the compact table of 8 methods, the full one of the paper's 12, one
    of all methods where there are others, the differences to the published values, the pairs,
    and the spread over seeds where there are several.

    Parameters
    ----------
    experiment : str, optional
        "multi", "binary", "tweets" or "lequa"; by default all that have results.
    """
    wanted = list(SETTINGS) if experiment is None else [experiment]
    return [
        table for name in wanted for metric in METRICS for table in _tables(results, name, metric)
    ]


def _tables(results: Results, experiment: str, metric: str) -> list[Table]:
    every = gather(results, experiment, metric)
    if not every.methods:
        return []
    known = {method for _, method in published_values(*SETTINGS[experiment].published, metric)}
    full = gather(results, experiment, metric, [name for name in METHODS if name in known])
    compact = gather(results, experiment, metric, COMPACT)
    made = []
    if compact.methods and set(compact.methods) < set(full.methods):
        made.append(results_table(compact, "compact"))
    if full.methods:
        made.append(results_table(full, "full"))
    if set(every.methods) > set(full.methods):
        made.append(results_table(every, "all"))
    others = (difference_table(full), pairs_table(full), spread_table(every))
    return made + [table for table in others if table is not None]
