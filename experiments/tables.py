"""The paper's tables, made from results files alone.

Per experiment and metric: mean errors with averages, ranks and marks of significance, the
differences to the published values, pairs of methods, and the spread over split seeds. The
automatic methods, which the paper does not have, have a column in all but the differences.
Tables are values (:mod:`kdey.tables.output`); :func:`write_tables` and :func:`write_document`
write them to files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.results import Curve, Results
from experiments.scores import (
    COMPETITION,
    Scores,
    gather,
    group_name,
    published_order,
    published_values,
)
from experiments.sensitivity import BY_RULES, RULES
from experiments.settings import (
    AUTOMATIC_METHODS,
    AUTOMATIC_PAIRS,
    COMPACT,
    METHODS,
    METRICS,
    PAIRS,
    SETTINGS,
)
from experiments.writers import (
    fit_to_page,
    to_csv,
    to_html,
    to_latex,
    to_latex_document,
    to_markdown,
)
from kdey._display import count_of
from kdey._io import write_whole
from kdey.bags import Array
from kdey.evaluation import average_ranks, compare_to_best, pooled_wilcoxon
from kdey.tables.output import Cell, Row, Table, headings

MARKS = (
    "Bold: the best of a data set. † and ‡: not significantly worse than the best by a Wilcoxon "
    "signed-rank test over the bags, 0.005 < p < 0.05 and p >= 0.05. Colours run from the best "
    "(green) to the worst (red) of a data set."
)
AUTOMATIC_NOTE = (
    f"{' and '.join(AUTOMATIC_METHODS)} are at their defaults and the same in the tables of both "
    "metrics: nothing is selected on validation bags. The second rank leaves them out."
)
TITLE = "The paper's experiments, reproduced"
#: Relative differences with the most intense colours: to the published value, and to the rival.
_DEEPEST_DIFFERENCE, _DEEPEST_PAIR = 0.5, 0.25
_PAIR_COLUMNS = (
    *("mean", "of the rival", "difference", "sets won", "bags won", "p (Wilcoxon)", "bags"),
)


def make_tables(results: Results, experiment: str | None = None) -> list[Table]:
    """Return every table that results allow, in the order of the paper.

    Per experiment and metric: the compact table of 8 methods, the full one of the paper's 12, one
    of all methods where there are others, the differences to the published values, the pairs,
    and the spread over seeds where there are several. The first three have the automatic methods
    too. Means are over the seeds that all methods of a table have; the spread leaves out methods
    that have results on fewer splits than others.

    Parameters
    ----------
    experiment : str, optional
        "multi", "binary", "tweets" or "lequa"; by default all that have results.
    """
    experiments = list(SETTINGS) if experiment is None else [experiment]
    return [
        table
        for name in experiments
        for metric in METRICS
        for table in _metric_tables(results, name, metric)
    ]


def _metric_tables(results: Results, experiment: str, metric: str) -> list[Table]:
    every = gather(results, experiment, metric)
    if not every.methods:
        return []
    published = {method for _, method in published_values(*SETTINGS[experiment].published, metric)}
    full = every.of_methods([*published, *AUTOMATIC_METHODS])
    compact = every.of_methods([*COMPACT, *AUTOMATIC_METHODS])
    tables = []
    if compact.methods and set(compact.methods) < set(full.methods):
        tables.append(results_table(compact, "compact"))
    if full.methods:
        tables.append(results_table(full, "full"))
    if set(every.methods) > set(full.methods):
        tables.append(results_table(every, "all"))
    others = (difference_table(full), pairs_table(every), spread_table(every.most_complete()))
    return tables + [table for table in others if table is not None]


def results_table(scores: Scores, kind: str) -> Table:
    """Return the table of mean errors.

    Parameters
    ----------
    kind : str
        Part of the table's name: "compact", "full" or "all".
    """
    means = scores.means()
    rows = [
        Row.named(dataset, shaded(means[i], marks=_marks(scores, dataset)))
        for i, dataset in enumerate(scores.datasets)
    ]
    rows += summary_rows(means, scores.methods) + _competition(scores)
    return Table(
        name=f"{scores.experiment}-{scores.metric}-{kind}",
        title=_title(scores),
        columns=headings(scores.group, scores.methods, _families(scores.methods)),
        rows=tuple(rows),
        notes=(MARKS, *_automatic_note(scores), *_seed_notes(scores)),
    )


def _title(scores: Scores) -> str:
    metric = scores.metric.upper()
    n_automatic = len(set(scores.methods) & set(AUTOMATIC_METHODS))
    n_optimised = len(scores.methods) - n_automatic
    optimised = count_of(n_optimised, "method", "methods")
    automatic = f" and {count_of(n_automatic, 'automatic one', 'automatic ones')}"
    title = f"{metric} on {scores.group}, {optimised} optimised for {metric}"
    return title + (automatic if n_automatic else "")


def _automatic_note(scores: Scores) -> tuple[str, ...]:
    return (AUTOMATIC_NOTE,) if set(scores.methods) & set(AUTOMATIC_METHODS) else ()


def _families(methods: Sequence[str]) -> list[str]:
    return [METHODS[name].family for name in methods]


def _marks(scores: Scores, dataset: str) -> list[str]:
    by_method = {method: scores.joined(dataset, method) for method in scores.methods}
    comparison = compare_to_best(
        {m: errors for m, errors in by_method.items() if errors is not None}
    )
    marks = dict(zip(comparison.names, comparison.marks, strict=True))
    return [marks.get(method, "") for method in scores.methods]


def summary_rows(means: Array, methods: tuple[str, ...]) -> list[Row]:
    """Return the average over data sets and the average rank of each method.

    Both are over the data sets on which all methods have results, or where there are fewer than two
    of these, over the methods that have results on all data sets; one data set needs neither.
    Where there are automatic methods, a second rank leaves them out, as the published ones do.
    """
    complete, known = means[~np.isnan(means).any(axis=1)], methods
    if len(complete) < 2:
        has_all = ~np.isnan(means).any(axis=0)
        complete, known = means, tuple(np.array(methods)[has_all].tolist())
        if len(complete) < 2 or len(known) < 2:
            return []
    averages = complete[:, [methods.index(name) for name in known]].mean(axis=0)
    cells = dict(zip(known, shaded(averages), strict=True))
    rows = [
        Row.named("Average", [cells.get(name, Cell()) for name in methods], "summary"),
        Row.named("Rank", _ranks(complete, methods, known), "summary"),
    ]
    others = tuple(name for name in known if name not in AUTOMATIC_METHODS)
    if 1 < len(others) < len(known):
        ranks = _ranks(complete, methods, others)
        rows.append(Row.named("Rank, paper's", ranks, "summary"))
    return rows


def _ranks(means: Array, methods: tuple[str, ...], ranked: tuple[str, ...]) -> list[Cell]:
    """Return the average ranks of some of the methods among themselves; empty for the others."""
    columns = [methods.index(name) for name in ranked]
    by_name = average_ranks(means[:, columns], list(ranked))
    ranks = np.array([by_name[name] for name in ranked])
    cells = dict(zip(ranked, shaded(ranks, [f"{rank:.1f}" for rank in ranks]), strict=True))
    return [cells.get(name, Cell()) for name in methods]


def _competition(scores: Scores) -> list[Row]:
    """Return the reference row of the LeQua competition."""
    rows = []
    for dataset in scores.datasets:
        best = COMPETITION.get((dataset, scores.metric))
        if best is not None:
            cells = (number(best), *(Cell() for _ in scores.methods[1:]))
            rows.append(Row.named(f"{dataset}: best of the competition", cells, "summary"))
    return rows


def _seed_notes(scores: Scores) -> tuple[str, ...]:
    seeds = scores.all_seeds()
    if len(seeds) < 2:
        return ()
    incomplete = [name for name in scores.datasets if scores.seeds(name) != seeds]
    note = f"Means over the split seeds {', '.join(map(str, seeds))}."
    if incomplete:
        note += f" Fewer of them: {', '.join(incomplete)}."
    return (note,)


def difference_table(scores: Scores) -> Table | None:
    """Return the differences to the published values; None where nothing can be compared.

    A cell is ours minus published, with the relative difference in brackets: negative and
    green where the error here is smaller. Averages are over the data sets that have results here.
    """
    setting = SETTINGS[scores.experiment]
    published = published_values(*setting.published, scores.metric)
    methods = [m for m in scores.methods if any(m == method for _, method in published)]
    datasets = [d for d in scores.datasets if any(d == dataset for dataset, _ in published)]
    if not methods or not datasets:
        return None
    row_numbers = [scores.datasets.index(name) for name in datasets]
    column_numbers = [scores.methods.index(name) for name in methods]
    ours = scores.means()[np.ix_(row_numbers, column_numbers)]
    theirs = np.array([[published.get((d, m), np.nan) for m in methods] for d in datasets])
    rows = [Row.named(d, _difference_cells(ours[i], theirs[i])) for i, d in enumerate(datasets)]
    if len(datasets) > 1:
        averages = _difference_cells(ours.mean(axis=0), theirs.mean(axis=0))
        rows.append(Row.named("Average", averages, "summary"))
    group, metric = setting.published[1], scores.metric.upper()
    return Table(
        name=f"{scores.experiment}-{scores.metric}-difference",
        title=f"{metric} on {group}: difference to the published values",
        columns=headings(group, methods, _families(methods)),
        rows=tuple(rows),
        notes=("Ours minus published, and relative to it; negative: the error is smaller here.",),
    )


def _difference_cells(ours: Array, theirs: Array) -> list[Cell]:
    return [_difference(a, b) for a, b in zip(ours.tolist(), theirs.tolist(), strict=True)]


def _difference(ours: float, theirs: float) -> Cell:
    difference = ours - theirs
    if np.isnan(difference):
        return Cell()
    relative = difference / theirs
    shade = float(np.clip(-relative / _DEEPEST_DIFFERENCE, -1.0, 1.0))
    return Cell(f"{difference:+.5f} ({relative:+.0%})", difference, shade=shade)


def pairs_table(scores: Scores) -> Table | None:
    """Return each pair's comparison over all bags; None where no pair has results.

    The pairs are the paper's, and the automatic methods with KDEy-ML. The test is the paper's: one
    Wilcoxon signed-rank test over the bags of all data sets. A pair counts with all seeds that
    both methods have.
    """
    pairs = (*PAIRS, *AUTOMATIC_PAIRS)
    rows = [row for pair in pairs if (row := _compare(scores.of_methods(pair), *pair)) is not None]
    if not rows:
        return None
    metric = scores.metric.upper()
    return Table(
        name=f"{scores.experiment}-{scores.metric}-pairs",
        title=f"{metric} on {scores.group}: pairs of methods over the bags of all sets",
        columns=headings("pair", _PAIR_COLUMNS),
        rows=tuple(rows),
    )


def _compare(scores: Scores, method: str, rival: str) -> Row | None:
    """Return the row of a method and its rival, over the data sets on which both have results."""
    ours, theirs = {}, {}
    for dataset in scores.datasets:
        a, b = scores.joined(dataset, method), scores.joined(dataset, rival)
        if a is not None and b is not None:
            ours[dataset], theirs[dataset] = a, b
    if not ours:
        return None
    test = pooled_wilcoxon(ours, theirs)
    sets_won = sum(ours[name].mean() < theirs[name].mean() for name in ours)
    n_bags = test.wins + test.losses + test.ties
    bags_won = test.wins / n_bags
    mean = float(np.mean([errors.mean() for errors in ours.values()]))
    other = float(np.mean([errors.mean() for errors in theirs.values()]))
    gain = (other - mean) / max(other, 1e-12)
    shade = float(np.clip(gain / _DEEPEST_PAIR, -1.0, 1.0))
    cells = (
        number(mean),
        number(other),
        Cell(f"{mean - other:+.5f}", mean - other, shade=shade),
        Cell(f"{sets_won} of {len(ours)}", float(sets_won)),
        Cell(f"{bags_won:.0%}", bags_won),
        Cell(f"{test.p_value:.2g}", test.p_value),
        Cell(f"{n_bags:,}", float(n_bags)),
    )
    return Row.named(f"{method} against {rival}", cells)


def spread_table(scores: Scores) -> Table | None:
    """Return mean and standard deviation over split seeds; None where there is one seed."""
    if len(scores.all_seeds()) < 2:
        return None
    rows = []
    for dataset in scores.datasets:
        means = [scores.by_seed(dataset, method) for method in scores.methods]
        rows.append(Row.named(dataset, map(_spread, means)))
    rows += summary_rows(scores.means(), scores.methods)
    metric, group = scores.metric.upper(), scores.group
    return Table(
        name=f"{scores.experiment}-{scores.metric}-spread",
        title=f"{metric} on {group}: mean and standard deviation over split seeds",
        columns=headings(group, scores.methods),
        rows=tuple(rows),
        notes=(*_automatic_note(scores), *_seed_notes(scores)),
    )


def _spread(means: Array) -> Cell:
    if len(means) < 2:
        return number(float(means[0])) if len(means) else Cell()
    mean = float(means.mean())
    return Cell(f"{mean:.5f} ± {means.std(ddof=1):.5f}", mean)


def rule_tables(results: Results) -> list[Table]:
    """Return, for each setting and metric, KDEy-ML at the bandwidths of rules of thumb.

    Beside them stands the best bandwidth of the grid in hindsight. A cell is an error relative to
    that of the best, with the bandwidth in brackets.
    """
    tables = []
    groups = dict.fromkeys((c.experiment, c.metric) for c in results.curves.values())
    for experiment, metric in groups:
        curves = {
            (c.dataset, c.method): c
            for c in results.curves.values()
            if (c.experiment, c.metric, c.seed) == (experiment, metric, 0)
        }
        present = {dataset for dataset, method in curves if method == BY_RULES}
        datasets = published_order(experiment, present)
        pairs = [(curves[d, "KDEy-ML"], curves[d, BY_RULES]) for d in datasets]
        if not pairs:
            continue
        rows = [
            Row.named(dataset, _rule_cells(grid, rules))
            for dataset, (grid, rules) in zip(datasets, pairs, strict=True)
        ]
        ratios = np.array([np.array(rules.means) / min(grid.means) for grid, rules in pairs])
        averages = np.exp(np.log(ratios).mean(axis=0))
        cells = [Cell(f"{ratio:.2f}", ratio) for ratio in averages.tolist()]
        rows.append(Row.named("Geometric mean", [Cell(), *cells], "summary"))
        group = group_name(experiment, metric, datasets)
        tables.append(
            Table(
                name=f"rules-{experiment}-{metric}",
                title=f"{metric.upper()} on {group}: KDEy-ML at the bandwidths of rules",
                columns=headings(group, ["best of the grid", *RULES]),
                rows=tuple(rows),
                notes=(
                    "Errors of the rules are relative to that of the best bandwidth of the grid, "
                    "in hindsight; bandwidths stand in brackets.",
                ),
            )
        )
    return tables


def _rule_cells(grid: Curve, rules: Curve) -> list[Cell]:
    best = int(np.argmin(grid.means))
    least = grid.means[best]
    cells = [Cell(f"{least:.5f} ({grid.values[best]:g})", least)]
    for value, mean in zip(rules.values, rules.means, strict=True):
        cells.append(Cell(f"{mean / least:.2f} ({value:.3g})", mean / least))
    return cells


def write_tables(tables: Sequence[Table], folder: str | os.PathLike[str]) -> list[Path]:
    """Write all tables as HTML, Markdown and a LaTeX document, and each as CSV and LaTeX.

    Returns
    -------
    paths : list of the files written
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    texts = {
        "tables.html": to_html(tables, TITLE),
        "tables.md": to_markdown(tables),
        "tables.tex": to_latex_document(tables),
    }
    for table in tables:
        texts[f"{table.name}.csv"] = to_csv(table)
        texts[f"{table.name}.tex"] = to_latex(table)
    for name, text in texts.items():
        write_whole(target / name, text)
    return [target / name for name in texts]


def write_document(path: str | os.PathLike[str], tables: Mapping[str, Sequence[Table]]) -> None:
    """Replace the tables between the markers of a Markdown document.

    The tables of experiment ``multi`` go between ``<!-- tables: multi -->`` and
    ``<!-- end of tables: multi -->``; the rest of the document stays as it is. Wide tables
    are turned over, so that methods are rows and the page need not be scrolled sideways.

    Parameters
    ----------
    tables : mapping from the name of an experiment to its tables
        Each needs its markers in the document; other markers are left alone.
    """
    target = Path(path)
    text = target.read_text(encoding="utf-8")
    for name, listed in tables.items():
        start, end = f"<!-- tables: {name} -->", f"<!-- end of tables: {name} -->"
        if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
            raise ValueError(f"{target} must hold {start} and, after it, {end}, each once")
        between = re.compile(f"{re.escape(start)}.*{re.escape(end)}", re.DOTALL)
        shown = [part for table in listed for part in fit_to_page(table, "method")]
        replacement = f"{start}\n\n{to_markdown(shown)}\n{end}"
        text = between.sub(lambda _, new=replacement: new, text)  # type: ignore[misc]
    write_whole(target, text)


def number(value: float, digits: int = 5) -> Cell:
    """Return a plain number; NaN gives an empty cell."""
    if np.isnan(value):
        return Cell()
    return Cell(f"{value:.{digits}f}", float(value))


def shaded(
    values: Array, texts: Sequence[str] | None = None, marks: Sequence[str] | None = None
) -> tuple[Cell, ...]:
    """Return a row of cells, the smallest value in bold and green, the largest in red.

    Parameters
    ----------
    values : array of shape (n_columns,)
        NaN where there is nothing.
    texts, marks : one per value
    """
    known = values[~np.isnan(values)]
    smallest, largest = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    span = largest - smallest
    cells = []
    for i, value in enumerate(values.tolist()):
        if np.isnan(value):
            cells.append(Cell())
            continue
        cells.append(
            Cell(
                f"{value:.5f}" if texts is None else texts[i],
                value,
                best=value == smallest,
                mark="" if marks is None else marks[i],
                shade=1.0 - 2.0 * (value - smallest) / span if span > 0 else None,
            )
        )
    return tuple(cells)
