"""All tables of a set of results."""

from __future__ import annotations

from kdey.experiments.methods import COMPACT, METHODS
from kdey.experiments.published import published_values
from kdey.experiments.settings import METRICS, SETTINGS
from kdey.experiments.store import Results
from kdey.experiments.tables.differences import difference_table
from kdey.experiments.tables.model import Table
from kdey.experiments.tables.pairs import pairs_table
from kdey.experiments.tables.results import results_table, spread_table
from kdey.experiments.tables.scores import gather


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
