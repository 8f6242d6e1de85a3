"""Results beside the published ones."""

from __future__ import annotations

import numpy as np

from kdey.bags import Array
from kdey.experiments.methods import METHODS
from kdey.experiments.published import published_values
from kdey.experiments.settings import SETTINGS
from kdey.experiments.tables.model import Entry, Line, Table
from kdey.experiments.tables.scores import Scores

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
