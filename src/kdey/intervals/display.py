"""Estimates as people see them: a table of text, and an overview for terminals and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kdey._support.overview import (
    LINE_WIDTH,
    MOST_ROWS,
    Overview,
    bar_column,
    percentages,
    row_names,
    share_decimals,
    shorten,
    text_column,
)
from kdey.bags import Array

if TYPE_CHECKING:
    from kdey.intervals.estimate import Estimate, Estimates

#: Columns of the printed table after the class: heading, and attribute of :class:`Estimate`.
COLUMNS = (
    ("estimate", "estimate"),
    ("low", "low"),
    ("high", "high"),
    ("counted", "classify_and_count"),
    ("training", "training_prevalence"),
)
#: Characters of each of them.
_CELL_WIDTH = 10
TARGET_NAMES = {"population": "the bag's population", "bag": "this bag"}


def heading(estimate: Estimate) -> str:
    """Return one line that names the target, the size of the bag and the kind of limits."""
    level = f"{100 * estimate.confidence:g} %"
    joint = " simultaneous" if estimate.simultaneous else ""
    known = estimate.method != "none"
    limits = f"{level}{joint} {estimate.method} intervals" if known else "limits not known"
    instances = "instance" if estimate.size == 1 else "instances"
    return f"Prevalence of {TARGET_NAMES[estimate.target]}: {estimate.size:,} {instances}, {limits}"


def remarks(estimate: Estimate) -> list[str]:
    """Return the remarks that a reader needs beside the numbers."""
    texts = [] if estimate.converged else ["the solver did not converge: see gap"]
    texts += estimate.notes
    fit = estimate.diagnostics.get("fit")
    return texts if fit is None else [*texts, fit["verdict"]]


def estimate_text(estimate: Estimate) -> str:
    """Return a text table with one line per class; long names make columns at the end give way."""
    fixed = 3 * _CELL_WIDTH  # estimate, low and high always stay
    names = [shorten(str(label), LINE_WIDTH - fixed) for label in estimate.classes]
    width = max(5, *(len(name) for name in names))
    shown = COLUMNS[: (LINE_WIDTH - width) // _CELL_WIDTH]
    lines = [heading(estimate), "class".ljust(width) + "".join(f"{n:>10}" for n, _ in shown)]
    for name, row in zip(names, _cells(estimate), strict=True):
        lines.append(name.ljust(width) + "".join(f"{value:>10}" for value in row[: len(shown)]))
    return "\n".join([*lines, *(f"({remark})" for remark in remarks(estimate))])


def estimate_overview(estimate: Estimate) -> Overview:
    """Return the largest share in a sentence, and a table with percentages and bars."""
    decimals = share_decimals(estimate.estimate, estimate.high - estimate.low)
    columns = [
        text_column(title, percentages(_known(estimate, name), decimals), importance=importance)
        for (title, name), importance in zip(COLUMNS, (9, 9, 9, 4, 3), strict=True)
    ]
    bars = bar_column(estimate.estimate, estimate.low, estimate.high)
    return Overview(
        _sentence(estimate, decimals),
        row_names("class", estimate.classes),
        (*columns[:3], bars, *columns[3:]),
        (heading(estimate), *remarks(estimate)),
    )


def _sentence(estimate: Estimate, decimals: int) -> str:
    """Return which class has the largest estimated share, with its limits."""
    top = int(np.argmax(estimate.estimate))
    share = f"{100 * estimate.estimate[top]:.{decimals}f} %"
    if estimate.method == "none":
        limits = "its limits are not known"
    else:
        low, high = 100 * estimate.low[top], 100 * estimate.high[top]
        limits = (
            f"{100 * estimate.confidence:g} % limits {low:.{decimals}f} to {high:.{decimals}f} %"
        )
    where = TARGET_NAMES[estimate.target]
    return (
        f"The largest estimated share of {where} is that of class {estimate.classes[top]}: "
        f"{share} ({limits})."
    )


def estimates_overview(estimates: Estimates) -> Overview:
    """Return the number of bags in a sentence, and a table with one row per bag."""
    n, shown = len(estimates), estimates[:MOST_ROWS]
    sizes = ""
    if n:
        least, most = int(estimates.size.min()), int(estimates.size.max())
        span = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        sizes = f" of {span} instances"
    kind = f"{100 * estimates.options.confidence:g} % limits"
    decimals = share_decimals(shown.estimate)
    # The classes with the largest shares are the last to be left out.
    ranks = np.argsort(np.argsort(shown.estimate.sum(axis=0), kind="stable"), kind="stable")
    columns = [
        text_column(str(label), percentages(shown.estimate[:, i], decimals), importance=rank)
        for i, (label, rank) in enumerate(
            zip(estimates.classes, (ranks - len(ranks)).tolist(), strict=True)
        )
    ]
    sizes_column = text_column("size", [f"{size:,}" for size in shown.size.tolist()], importance=8)
    more = [f"and {n - len(shown):,} more bags"] if n > len(shown) else []
    bags = "bag" if n == 1 else "bags"
    return Overview(
        f"Estimated shares of {n:,} {bags}{sizes}; to_frame() has the {kind}.",
        row_names("bag", range(len(shown))),
        (sizes_column, *columns),
        tuple(more),
    )


def _known(estimate: Estimate, name: str) -> Array:
    """Return a column of the table, NaN where it is not known."""
    values = getattr(estimate, name)
    unknown = np.full(len(estimate.classes), np.nan)
    return unknown if values is None else np.asarray(values, dtype=np.float64)


def _cells(estimate: Estimate) -> list[list[str]]:
    """Return the formatted numbers of each class, k lists; "-" where a number is unknown."""
    k = len(estimate.classes)
    columns = [_known(estimate, name) for _, name in COLUMNS]
    return [["-" if np.isnan(c[i]) else f"{c[i]:.4f}" for c in columns] for i in range(k)]
