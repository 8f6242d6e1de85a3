"""Where the data sets of a setting come from, and what takes their place where they are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdey.experiments.settings import Setting
from kdey.experiments.task import Task, make_task


@dataclass(frozen=True, eq=False)
class Source:
    """A data set that can be made into tasks.

    Attributes
    ----------
    name : str
        As in the tables.
    size : float
        Rows times classes: how the cost of its cells compares with that of others.
    task : callable
        From a setting and a seed to the task.
    """

    name: str
    size: float
    task: Callable[[Setting, int], Task]


def source_of(dataset: Any) -> Source:
    """Return a data set of :mod:`kdey.datasets` as a source."""
    size = float(len(dataset.y) * len(np.unique(dataset.y)))
    return Source(dataset.name, size, lambda setting, seed: make_task(dataset, setting, seed))


def find_sources(
    setting: Setting, wanted: Sequence[str], say: Callable[[str], None]
) -> list[Source]:
    """Load a setting's data sets, all of them before anything is run.

    Where the files are missing, a setting whose stand-ins are sets with names of their own
    (``tweets``, ``lequa``), or a quick one, goes on with these and says so.

    Parameters
    ----------
    wanted : sequence of str
        Names of data sets; empty: all of the setting.
    """
    from kdey.datasets import load_dataset, names

    if setting.datasets == "lequa":
        from kdey.experiments.lequa import lequa_sources

        return _only(lequa_sources(setting, say), wanted)

    def load(name: str) -> Source:
        # A bare name means the set of this setting, whatever other groups call theirs.
        full = f"{setting.datasets}/{name}"
        return source_of(load_dataset(full if full in names(setting.datasets) else name))

    try:
        return [load(name) for name in wanted or names(setting.datasets)]
    except FileNotFoundError as error:
        if wanted or not (setting.quick or setting.datasets == "tweets"):
            raise
        instead = names(setting.instead)
        say(
            f"{setting.datasets} was not found ({error}). Running on {setting.instead} instead: "
            f"{', '.join(instead)}"
        )
        return [load(name) for name in instead]


def _only(sources: list[Source], wanted: Sequence[str]) -> list[Source]:
    """Return the sources of some names; none named: all."""
    known = {source.name: source for source in sources}
    for name in wanted:
        if name not in known:
            raise ValueError(f"data set {name!r} is unknown here; there are {', '.join(known)}")
    return [known[name] for name in wanted] if wanted else sources
