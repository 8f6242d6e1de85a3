"""The numbers of the paper, read from the table shipped with the package."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from kdey.paper.settings import SETTINGS

#: Best scores of the LeQua 2022 competition on T1B. The paper prints 0.087987 for MRAE, a slip of
#: the decimal point: it calls its own best, 0.78339, lower.
COMPETITION = {("T1B", "mae"): 0.01173, ("T1B", "mrae"): 0.87987}
_SUMMARIES = ("Average", "Rank")


@dataclass(frozen=True)
class Published:
    """One published number; ``setting``, ``group`` and ``mark`` as the file has them."""

    setting: str
    metric: str
    group: str
    dataset: str
    method: str
    value: float
    best: bool
    mark: str


@cache
def published_results() -> tuple[Published, ...]:
    """Return all published numbers: 17 multiclass and 30 binary data sets, averages and ranks."""
    text = files("kdey.paper").joinpath("published_results.csv").read_text(encoding="utf-8")
    return tuple(
        Published(
            line["setting"],
            line["metric"].lower(),
            line["group"],
            line["dataset"],
            line["method"],
            float(line["value"]),
            line["best"] == "1",
            line["significance_mark"],
        )
        for line in csv.DictReader(text.splitlines())
    )


def published_values(setting: str, group: str, metric: str) -> dict[tuple[str, str], float]:
    """Return the published mean errors by (data set, method), without averages and ranks.

    Parameters
    ----------
    setting : {"multiclass", "binary"}
    group : {"UCI-multi", "UCI-binary", "Tweets", "LeQua"}
    metric : {"mae", "mrae"}
    """
    return {
        (entry.dataset, entry.method): entry.value
        for entry in published_results()
        if (entry.setting, entry.group, entry.metric) == (setting, group, metric)
        and entry.dataset not in _SUMMARIES
    }


def published_order(experiment: str, datasets: Iterable[str]) -> list[str]:
    """Return data sets as the paper lists them; those it does not have come last, by name."""
    published = list(
        dict.fromkeys(name for name, _ in published_values(*SETTINGS[experiment].published, "mae"))
    )
    present = set(datasets)
    return [name for name in published if name in present] + sorted(present - set(published))
